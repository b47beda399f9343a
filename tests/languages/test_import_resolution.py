"""An import leads to the workspace files it means, or to none."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.languages import Languages, PathIndex, resolve_import
from context_engine.languages.language import ORDER

LANGUAGES = Languages.builtin()

TREES = {
    "python": "src/zoo/__init__.py src/zoo/cat.py src/zoo/pens/__init__.py src/zoo/pens/cage.py src/zoo/types.py run.py tool.py",
    "typescript": "src/app.ts src/util/index.ts src/a.tsx src/types.d.ts packages/core/src/index.ts packages/core/src/x.ts",
    "go": "go.mod chi.go tree.go middleware/log.go middleware/log_test.go internal/io/io.go",
    "rust": "src/lib.rs src/zoo.rs src/zoo/cat.rs src/pens/mod.rs src/pens/cage.rs crates/my-log/src/lib.rs crates/my-log/src/fmt.rs",
    "java": "core/src/main/java/org/zoo/Cat.java core/src/main/java/org/zoo/Util.java core/src/test/java/org/zoo/CatTest.java",
    "kotlin": "core/src/org/zoo/Cat.kt core/common/pens/Cage.kt",
    "c": "src/main.c src/cat.h include/zoo/pen.h",
    "csharp": "src/Zoo.Core/Pens/Cage.cs src/Zoo.Core/Pens/Lock.cs src/App.cs",
    "ruby": "lib/zoo.rb lib/zoo/cat.rb bin/run.rb",
    "php": "src/Handler/Stream.php src/Logger.php",
    "lua": "lua/zoo/init.lua lua/zoo/util.lua",
    "haskell": "src/Data/Zoo.hs src/Data/Zoo/Cat.hs",
    "zig": "src/main.zig src/cat.zig",
    "elixir": "lib/my_app/user_auth.ex lib/my_app/repo.ex",
    "dart": "lib/src/cat.dart lib/main.dart",
    "scala": "src/main/scala/org/zoo/Cat.scala",
    "scss": "css/main.scss css/base.scss",
    "protobuf": "proto/zoo/cat.proto proto/zoo/pen.proto",
    "markdown": "README.md docs/guide.md",
}


@pytest.mark.parametrize(
    ("name", "importer", "target", "names", "found"),
    [
        ("python", "run.py", "zoo.cat", (), "src/zoo/cat.py"),
        ("python", "run.py", "zoo.pens", ("cage",), "src/zoo/pens/cage.py src/zoo/pens/__init__.py"),
        ("python", "src/zoo/cat.py", ".pens.cage", ("Cage",), "src/zoo/pens/cage.py"),
        ("python", "src/zoo/pens/cage.py", "..", ("cat",), "src/zoo/cat.py src/zoo/__init__.py"),
        ("python", "src/zoo/pens/cage.py", "..cat", (), "src/zoo/cat.py"),
        ("python", "run.py", "tool", (), "tool.py"),
        ("python", "src/zoo/cat.py", "types", (), ""),
        ("python", "run.py", "os.path", (), ""),
        ("typescript", "src/app.ts", "./util", (), "src/util/index.ts"),
        ("typescript", "src/app.ts", "./a.js", (), "src/a.tsx"),
        ("typescript", "src/util/index.ts", "../types", (), "src/types.d.ts"),
        ("typescript", "src/util/index.ts", "@/a", (), "src/a.tsx"),
        ("typescript", "src/app.ts", "@scope/core/x", (), "packages/core/src/x.ts"),
        ("typescript", "src/app.ts", "react", (), ""),
        ("go", "chi.go", "github.com/go-chi/chi/v5/middleware", (), "middleware/log.go"),
        ("go", "chi.go", "io", (), ""),
        ("go", "chi.go", "net/http", (), ""),
        ("rust", "src/lib.rs", "zoo", (), "src/zoo.rs"),
        ("rust", "src/lib.rs", "pens", (), "src/pens/mod.rs"),
        ("rust", "src/pens/cage.rs", "crate::zoo::cat::Cat", (), "src/zoo/cat.rs"),
        ("rust", "src/pens/cage.rs", "super::Lock", (), "src/pens/mod.rs"),
        ("rust", "src/zoo.rs", "self::cat", (), "src/zoo/cat.rs"),
        ("rust", "src/lib.rs", "my_log::fmt::Line", (), "crates/my-log/src/fmt.rs"),
        ("rust", "src/lib.rs", "std::fs", (), ""),
        ("java", "core/src/main/java/org/zoo/Util.java", "org.zoo.Cat", (), "core/src/main/java/org/zoo/Cat.java"),
        (
            "java",
            "core/src/test/java/org/zoo/CatTest.java",
            "org.zoo.Util.feed",
            (),
            "core/src/main/java/org/zoo/Util.java",
        ),
        ("java", "core/src/main/java/org/zoo/Cat.java", "java.util.List", (), ""),
        ("kotlin", "core/src/org/zoo/Cat.kt", "org.zoo.pens.Cage", (), "core/common/pens/Cage.kt"),
        ("c", "src/main.c", "cat.h", (), "src/cat.h"),
        ("c", "src/main.c", "zoo/pen.h", (), "include/zoo/pen.h"),
        ("c", "src/main.c", "stdio.h", (), ""),
        ("csharp", "src/App.cs", "Zoo.Core.Pens", (), "src/Zoo.Core/Pens/Cage.cs src/Zoo.Core/Pens/Lock.cs"),
        ("csharp", "src/App.cs", "System.Pens", (), ""),
        ("ruby", "bin/run.rb", "../lib/zoo", (), "lib/zoo.rb"),
        ("ruby", "bin/run.rb", "zoo/cat", (), "lib/zoo/cat.rb"),
        ("php", "src/Logger.php", "Monolog\\Handler\\Stream", (), "src/Handler/Stream.php"),
        ("lua", "lua/zoo/util.lua", "zoo", (), "lua/zoo/init.lua"),
        ("lua", "lua/zoo/init.lua", "zoo.util", (), "lua/zoo/util.lua"),
        ("haskell", "src/Data/Zoo.hs", "Data.Zoo.Cat", (), "src/Data/Zoo/Cat.hs"),
        ("haskell", "src/Data/Zoo.hs", "Prelude", (), ""),
        ("zig", "src/main.zig", "cat.zig", (), "src/cat.zig"),
        ("elixir", "lib/my_app/repo.ex", "MyApp.UserAuth", (), "lib/my_app/user_auth.ex"),
        ("dart", "lib/main.dart", "package:zoo/src/cat.dart", (), "lib/src/cat.dart"),
        ("dart", "lib/main.dart", "src/cat.dart", (), "lib/src/cat.dart"),
        ("scala", "x.scala", "org.zoo.Cat", (), "src/main/scala/org/zoo/Cat.scala"),
        ("scss", "css/main.scss", "./base", (), "css/base.scss"),
        ("protobuf", "proto/zoo/cat.proto", "zoo/pen.proto", (), "proto/zoo/pen.proto"),
        ("markdown", "README.md", "docs/guide.md", (), "docs/guide.md"),
    ],
)
def test_an_import_leads_to_the_files_it_means(
    name: str, importer: str, target: str, names: tuple[str, ...], found: str
) -> None:
    paths = PathIndex(TREES[name].split())
    assert resolve_import(LANGUAGES[name], importer, target, paths, names) == found.split()


def test_the_nearest_of_several_files_comes_first() -> None:
    paths = PathIndex(["a/x/util.h", "b/x/util.h", "b/main.c"])
    assert resolve_import(LANGUAGES["c"], "b/main.c", "x/util.h", paths) == ["b/x/util.h"]
    assert paths.by_suffix("x/util.h", near="b/y/z.c") == ["b/x/util.h", "a/x/util.h"]


def test_a_file_never_imports_itself() -> None:
    paths = PathIndex(["json.py"])
    assert resolve_import(LANGUAGES["python"], "json.py", "json", paths) == []


@given(name=st.sampled_from(ORDER), importer=st.text(max_size=20), target=st.text(max_size=30))
def test_whatever_is_imported_only_workspace_files_come_back(name: str, importer: str, target: str) -> None:
    paths = PathIndex(["src/a.py", "b.ts", "c/mod.rs", "go.mod", "d.go", "lib/x.rb"])
    assert all(path in paths for path in resolve_import(LANGUAGES[name], importer, target, paths))


def test_fifty_thousand_imports_resolve_in_seconds() -> None:
    paths = PathIndex(f"src/pkg{number % 97}/mod{number}.py" for number in range(20_000))
    started = time.thread_time()  # a busy machine takes longer by the clock
    for number in range(50_000):
        resolve_import(LANGUAGES["python"], f"src/pkg1/mod{number}.py", f"pkg{number % 97}.mod{number}", paths)
    assert time.thread_time() - started < 10

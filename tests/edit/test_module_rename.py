"""A file gets another name, with the imports that certainly mean it; places that may mean it wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.edit import Renaming
from context_engine.errors import InvalidArgument
from tests.support.edits import contents
from tests.support.engines import indexed
from tests.support.trees import tree

PYTHON = {
    "zoo/cats.py": "def feed(): ...\n",
    "zoo/__init__.py": "from . import cats\nfrom .cats import feed\n\ncats.feed()\n",
    "cats.py": "def other(): ...\n",
    "use.py": (
        "import zoo.cats\nimport zoo.cats as c\nfrom zoo.cats import (\n    feed,\n)\n\nzoo.cats.feed()\nc.feed()\n\n\n"
        "def f(cats):\n    return cats\n\n\nclass A:\n    cats = 1\n\n\nA().cats\n"
    ),
    "other.py": "import cats\n\ncats.other()\n",
}
OTHER_NAMES = {
    "zoo/cats.py": "def cats(): ...\ndef feed(): ...\n",
    "zoo/__init__.py": "",
    "zoo/near.py": "from . import cats as c\nfrom .cats import cats as made, feed as f\n\nc.cats()\n",
    "zoo/deep/__init__.py": "",
    "zoo/deep/far.py": "from .. import (\n    near,\n    cats as c,\n)\nfrom ..cats import cats as made\n\nc.feed(made)\n",
    "use.py": "from zoo import cats as c\nfrom zoo import near, cats\n\nc.feed(cats.feed)\n",
    "other.py": "from cats import cats as c\n",
}
SCRIPTS = {
    "src/cats.ts": "export const feed = () => 1\n",
    "src/use.ts": (
        "import { feed } from './cats'\nexport {\n  feed as other\n} from \"./cats.js\"\n"
        "const later = () => import('./cats')\nconst cats = feed()\n"
    ),
    "src/more/deep.ts": "import { feed } from '../cats'\nimport { walk } from './cats'\nfeed(); walk()\n",
    "src/more/cats.ts": "export const walk = () => 1\n",
}


def waiting(found: Renaming) -> list[str]:
    return [f"{place.path}:{place.line}" for place in found.uncertain if place.is_open]


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        (PYTHON, "zoo/cats.py", {
            "zoo/lions.py": PYTHON["zoo/cats.py"],
            "zoo/__init__.py": "from . import lions\nfrom .lions import feed\n\nlions.feed()\n",
            "use.py": PYTHON["use.py"].replace("zoo.cats", "zoo.lions"), "other.py": PYTHON["other.py"], "cats.py": PYTHON["cats.py"],
        }),
        (OTHER_NAMES, "zoo/cats.py", {
            "zoo/lions.py": OTHER_NAMES["zoo/cats.py"],
            "zoo/near.py": "from . import lions as c\nfrom .lions import cats as made, feed as f\n\nc.cats()\n",
            "zoo/deep/far.py": "from .. import (\n    near,\n    lions as c,\n)\nfrom ..lions import cats as made\n\nc.feed(made)\n",
            "use.py": "from zoo import lions as c\nfrom zoo import near, lions\n\nc.feed(lions.feed)\n",
            "other.py": OTHER_NAMES["other.py"],
        }),
        (SCRIPTS, "src/cats.ts", {
            "src/lions.ts": SCRIPTS["src/cats.ts"],
            "src/use.ts": SCRIPTS["src/use.ts"].replace("./cats", "./lions"),
            "src/more/deep.ts": SCRIPTS["src/more/deep.ts"].replace("../cats", "../lions"),
            "src/more/cats.ts": SCRIPTS["src/more/cats.ts"],
        }),
    ],
)  # fmt: skip
def test_a_file_takes_its_imports_along_there_and_back(
    files: dict[str, str], path: str, expected: dict[str, str], tmp_path: Path
) -> None:
    root = tree(tmp_path / "w", files)
    before = contents(root)
    with indexed(root) as engine:
        found = engine.edits.rename_symbol(path, "lions")
        assert waiting(found) == []
        engine.edits.apply(found.changes)
        assert {name: (root / name).read_text() for name in expected} == expected
        assert not (root / path).exists()
        back = engine.edits.rename_symbol(path.replace("cats", "lions"), "cats")
        engine.edits.apply(back.changes)
        assert contents(root) == before


def test_a_new_file_that_the_index_has_not_taken_in_yet_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "w", {"use.py": "import cats\n"})
    with indexed(root) as engine:
        (root / "cats.py").write_text("def feed(): ...\n")
        monkeypatch.setattr(engine.index.live, "refresh", lambda: "")  # as on a busy machine: nothing is noticed
        engine.edits.apply(engine.edits.rename_symbol("cats.py", "lions").changes)
    assert contents(root) == {"lions.py": b"def feed(): ...\n", "use.py": b"import lions\n"}


@pytest.mark.parametrize(
    ("path", "name", "text", "is_open"),
    [
        ("zoo/cats.py", "test_use.py", "patch('zoo.cats.feed')\n", True),
        ("zoo/cats.py", "pyproject.toml", "[project.scripts]\nzoo = 'zoo.cats:feed'\n", True),
        ("zoo/cats.py", "build.sh", "python zoo/cats.py\n", True),
        ("zoo/cats.py", "more.py", "def f(zoo):\n    return zoo.cats\n", True),
        ("zoo/cats.py", "README.md", "See `zoo/cats.py`.\n", False),
        ("src/cats.ts", "src/mock.ts", "jest.mock('./cats')\n", True),
        ("src/cats.ts", "package.json", '{"main": "src/cats.ts"}\n', True),
        ("src/cats.ts", "src/more/mock.ts", "jest.mock('./cats')\n", None),
    ],
)
def test_a_place_that_may_mean_the_file_waits(
    path: str, name: str, text: str, is_open: bool | None, tmp_path: Path
) -> None:
    files = (PYTHON if path.endswith(".py") else SCRIPTS) | {name: text}
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol(path, "lions")
        assert [place.is_open for place in found.uncertain if place.path == name] == (
            [] if is_open is None else [is_open]
        )
        if is_open:
            accepted = engine.edits.rename_symbol(path, "lions", accept=["all"])
            assert name in {place.path for place in accepted.certain}


@pytest.mark.parametrize(
    ("path", "new_name", "words"),
    [
        ("zoo/__init__.py", "lions", "found by its name"),
        ("zoo/cats.py", "class", "not a new name"),
        ("zoo/cats.py", "../lions", "not a new name"),
        ("zoo/cats.py", "taken", "is taken"),
        ("cats.py", "json", "is taken"),
        ("zoo/cats.py", "feed", "has a meaning already"),
        ("main.go", "other", "cannot be followed"),
    ],
)
def test_a_name_that_is_taken_or_not_possible_is_refused(path: str, new_name: str, words: str, tmp_path: Path) -> None:
    files = PYTHON | {"zoo/taken.py": "", "main.go": "package main\n"}
    with indexed(tree(tmp_path / "w", files)) as engine, pytest.raises(InvalidArgument) as raised:
        engine.edits.rename_symbol(path, new_name)
    assert words in raised.value.message

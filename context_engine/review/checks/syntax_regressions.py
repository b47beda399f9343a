"""Files that parsed before and do not any more."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import Example, Note, Rule, go, js, on_line, py, ts

if TYPE_CHECKING:
    from context_engine.review.source_versions import ChangedFile, Source


@Rule(
    "syntax-error",
    "Syntax error",
    "The file does not parse any more.",
    priority=0,
    confidence=0.97,
    category="correctness",
    examples=(
        py("def f(: «\n    pass", "def f():\n    pass"),
        py("def f():\n  return (1 «\n\ndef g():\n  pass", "def f():\n    return 1"),
        py("print 'old'\ndef f(:\n    pass", "print 'old'\ndef f(a:\n    pass"),
        py("type Pair[T] = tuple[T, T]\nx = f'{a['b']}'", ""),
        js("function f( { «", "function f() {}"),
        ts("const a: number = 1;", "const a = 1;"),
        go("package a\nfunc f( { «\n}", "package a\nfunc f() {}"),
    ),
).file
def syntax_error(file: ChangedFile) -> Iterator[Note]:
    """The first error of a file that had none; a file that had some is in a dialect our parser does not know."""
    new, old = file.new, file.old
    if new is None or new.language is None or new.language.content != "code" or new.language_name in _PREPROCESSED:
        return
    if not new.errors or (old is not None and old.errors) or (new.language_name == "python" and new.python is not None):
        return
    if old is None and new.language_name not in _TRUSTED:
        return
    first = new.errors[0]
    near = min(file.added, key=lambda line: abs(line - first.line), default=first.line)
    line = first.line if first.line in file.added else near
    yield on_line(line, f"It does not parse any more: line {first.line}: {first.message}.")


_PREPROCESSED = frozenset(
    {
        "c",
        "cpp",
        "objc",
        "csharp",
        "bash",
        "perl",
        "powershell",
        "sql",
        "swift",
        "scala",
        "haskell",
        "html",
        "vue",
        "svelte",
        "css",
        "scss",
    }
)
"""Macros, dialects and half of a grammar: their parsers see errors in healthy files."""
_TRUSTED = frozenset({"python", "typescript", "go", "java"})
"""Parsers that find no error in the healthy files of large projects, so a new file may be judged as well. JavaScript has
too many dialects for that: Flow, and languages of test frameworks."""


@Rule(
    "invalid-data",
    "File cannot be read",
    "Whoever reads this file gets an error.",
    priority=0,
    confidence=0.97,
    category="correctness",
    examples=(
        Example("package.json", '{\n  "a": 1,\n  "b": 2, «\n}', '{\n  "a": 1\n}'),
        Example("conf/app.toml", "a = 1\nb = «\nc = 3", "a = 1"),
        Example("conf/app.yml", "a: 1\nb: [1, 2\nc: 3 «", "a: 1"),
        Example("tsconfig.json", '{\n  // why\n  "a": 1,\n}', '{\n  // why\n  "a": 2,\n}'),
        Example("chart/templates/a.yaml", "{{- if .Values.a }}\na: b\n{{- end }}"),
        Example("cloud.yml", "a: !Ref Bucket\nb: !Sub '${x}'"),
        Example("two.yml", "a: 1\n---\nb: 2"),
    ),
).file
def invalid_data(file: ChangedFile) -> Iterator[Note]:
    """JSON, TOML or YAML that its own parser refuses, and did not before."""
    if file.new is None or not file.new.text.strip():
        return
    now = problem(file.new)
    if now is None or (file.old is not None and file.old.text.strip() and problem(file.old) is not None):
        return
    line, why = now
    near = min(file.added, key=lambda each: abs(each - line), default=line)
    yield on_line(near, f"It cannot be read any more: line {line}: {why}.")


def problem(source: Source) -> tuple[int, str] | None:
    """Where a data file stops to make sense, and why; None when it is sound, or nothing we read."""
    suffix = source.path.rpartition(".")[2].lower()
    if suffix == "json":
        return None if _has_comments(source) else _json(source.text)
    if suffix == "toml":
        return _toml(source.text)
    if suffix in ("yml", "yaml") and "{{" not in source.text and "{%" not in source.text:
        return _yaml(source.text)
    return None


def _has_comments(source: Source) -> bool:
    """Whether whoever reads this JSON takes comments; templates are none either."""
    name = source.path.rpartition("/")[2].lower()
    known = name.startswith(("tsconfig", "jsconfig", ".eslintrc", "devcontainer", ".babelrc", "launch.", "settings."))
    return known or "{{" in source.text or "{%" in source.text


def _json(text: str) -> tuple[int, str] | None:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except (RecursionError, ValueError):  # nested beyond reason, or a number of a million digits: not ours to judge
        return None
    return None


def _toml(text: str) -> tuple[int, str] | None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        line = said.rpartition("(at line ")[2].partition(",")[0]
        return int(line) if line.isdigit() else text.count("\n") + 1, said.partition(" (at")[0]
    except RecursionError:
        return None
    return None


def _yaml(text: str) -> tuple[int, str] | None:
    """The structure alone: what tags mean is between the file and its reader."""
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return mark.line + 1 if mark else 1, str(error.problem or "no YAML")
    except (yaml.YAMLError, RecursionError):  # a character that YAML does not know: templates and test data hold them
        return None
    return None


ALL = (syntax_error, invalid_data)

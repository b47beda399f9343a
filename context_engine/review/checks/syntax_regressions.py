"""Files that could be parsed before the change and cannot any more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import CheckExample, CheckRule, go, js, on_line, py, ts
from context_engine.review.content_parsers import find_toml_errors, find_yaml_errors

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewedFile


@CheckRule(
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
def syntax_error(file: ReviewedFile) -> Iterator[Finding]:
    """Report the first error of a file that had none; one that had some is in a dialect unknown to the parser."""
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
    yield on_line(line, f"It does not parse any more: line {first.line}: {first.title}.")


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
"""With macros, dialects and incomplete grammars, parsers report errors in healthy files."""
_TRUSTED = frozenset({"python", "typescript", "go", "java"})
"""Parsers without an error in the healthy files of large projects, so new files are checked as well. JavaScript
has too many dialects for that: Flow, and languages of test frameworks."""


@CheckRule(
    "invalid-data",
    "File cannot be read",
    "Programs that read this file fail.",
    priority=0,
    confidence=0.97,
    category="correctness",
    examples=(
        CheckExample("package.json", '{\n  "a": 1,\n  "b": 2, «\n}', '{\n  "a": 1\n}'),
        CheckExample("conf/app.toml", "a = 1\nb = «\nc = 3", "a = 1"),
        CheckExample("conf/app.yml", "a: 1\nb: [1, 2\nc: 3 «", "a: 1"),
        CheckExample("tsconfig.json", '{\n  // why\n  "a": 1,\n}', '{\n  // why\n  "a": 2,\n}'),
        CheckExample("chart/templates/a.yaml", "{{- if .Values.a }}\na: b\n{{- end }}"),
        CheckExample("cloud.yml", "a: !Ref Bucket\nb: !Sub '${x}'"),
        CheckExample("two.yml", "a: 1\n---\nb: 2"),
    ),
).file
def invalid_data(file: ReviewedFile) -> Iterator[Finding]:
    """Report JSON, TOML or YAML that its parser refuses and accepted before."""
    if file.new is None or not file.new.text.strip():
        return
    now = find_data_error(file.new)
    if now is None or (file.old is not None and file.old.text.strip() and find_data_error(file.old) is not None):
        return
    line, why = now
    near = min(file.added, key=lambda added: abs(added - line), default=line)
    yield on_line(near, f"It cannot be read any more: line {line}: {why}.")


def find_data_error(source: FileVersion) -> tuple[int, str] | None:
    """Return line and message of the first error of a data file; None for a sound one, and for other files."""
    suffix = source.path.rpartition(".")[2].lower()
    if suffix not in ("json", "toml", "yml", "yaml") or _is_lenient(source):
        return None
    if suffix == "json":
        # NaN and numbers of a million digits are up to the reader of the file.
        return _find_json_error(source.text)
    if suffix == "toml":
        errors = find_toml_errors(source.text)
    else:
        errors = find_yaml_errors(source.text)
    if isinstance(errors, str) or not errors or errors[0].confidence < 1:
        return None
    return errors[0].line, errors[0].title


def _is_lenient(source: FileVersion) -> bool:
    """Whether the reader of a JSON file accepts comments, or a file is a template."""
    name = source.path.rpartition("/")[2].lower()
    is_template = not name.endswith(".toml") and ("{{" in source.text or "{%" in source.text)
    return is_template or (name.endswith(".json") and name.startswith(COMMENTED))


def _find_json_error(text: str) -> tuple[int, str] | None:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except (RecursionError, ValueError):
        return None
    return None


COMMENTED = ("tsconfig", "jsconfig", ".eslintrc", "devcontainer", ".babelrc", "launch.", "settings.")
"""Prefixes of the names of JSON files whose readers accept comments."""

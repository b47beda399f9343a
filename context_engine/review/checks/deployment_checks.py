"""Deployment: images without a version, workflows that run the code of strangers, irreversible migrations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import PYTHON, CheckExample, CheckRule, at_capture, on_line

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion


@CheckRule(
    "image-unpinned",
    "Image without a version",
    "Tomorrow's build may use another base image than today's tests; name a version or a digest.",
    priority=2,
    confidence=0.7,
    category="maintainability",
    needs_whole=False,
    in_tests=False,
    examples=(
        CheckExample("Dockerfile", "FROM python:latest «\nRUN true"),
        CheckExample("docker/Dockerfile.dev", "FROM node «"),
        CheckExample(
            "Dockerfile", "FROM python:3.12 AS base\nFROM base\nFROM scratch\nFROM ${IMAGE}\nFROM a/b@sha256:00"
        ),
        CheckExample("Dockerfile", "FROM registry.io:5000/a/b:1.2"),
        CheckExample("docs/notes.txt", "FROM node"),
    ),
).text
def image_unpinned(source: FileVersion) -> Iterator[Finding]:
    """Report `FROM image` with no tag, or `latest`."""
    if not re.search(r"(?:^|/)(?:Docker|Container)file(?:[._-][\w.-]+)?$|\.Dockerfile$", source.path, re.IGNORECASE):
        return
    stages: set[str] = set()
    for number, line in enumerate(source.lines, 1):
        found = re.match(r"(?i)\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", line)
        if not found:
            continue
        image = found[1]
        if image.lower() not in stages | {"scratch"} and not re.search(r"[$@]|:(?!latest$)[^/]+$", image):
            yield on_line(number)
        stages.add((found[2] or "").lower())


@CheckRule(
    "workflow-target",
    "Workflow runs with secrets for strangers",
    "pull_request_target has the repository's secrets while it handles a stranger's change: it must not check that out"
    " and run it.",
    priority=1,
    confidence=0.75,
    category="security",
    needs_whole=False,
    mentions=("pull_request_target",),
    examples=(
        CheckExample(
            ".github/workflows/ci.yml",
            "on:\n  pull_request_target: «\njobs:\n  a:\n    steps:\n      - uses: actions/checkout@v4\n"
            "        with:\n          ref: ${{ github.event.pull_request.head.sha }}",
        ),
        CheckExample(
            ".github/workflows/label.yml",
            "on:\n  pull_request_target:\njobs:\n  a:\n    steps:\n      - uses: actions/labeler@v5",
        ),
        CheckExample("docs/ci.yml", "on: pull_request_target"),
    ),
).text
def workflow_target(source: FileVersion) -> Iterator[Finding]:
    """Report `pull_request_target` together with a checkout of the pull request's own head."""
    if not source.path.startswith(".github/workflows/"):
        return
    if not re.search(r"github\.(?:event\.pull_request\.head|head_ref)", source.text):
        return
    for number, line in enumerate(source.lines, 1):
        if re.search(r"^[^#]*\bpull_request_target\b", line):
            yield on_line(number)


@CheckRule(
    "action-unpinned",
    "Action without a version",
    "A branch is whatever its owner pushes next; name a tag or, better, a commit.",
    priority=2,
    confidence=0.75,
    category="security",
    needs_whole=False,
    examples=(
        CheckExample(".github/workflows/ci.yml", "    - uses: someone/action@master «"),
        CheckExample(
            ".github/workflows/ci.yml", "    - uses: actions/checkout@v4\n    - uses: ./local\n    - uses: a/b@0a1b2c3"
        ),
    ),
).text
def action_unpinned(source: FileVersion) -> Iterator[Finding]:
    """Report `uses: owner/action@main`."""
    if not re.match(r"\.github/(?:workflows|actions)/", source.path):
        return
    for number, line in enumerate(source.lines, 1):
        if re.search(
            r"^\s*-?\s*uses:\s*['\"]?[\w.-]+/[\w./-]+@(?:main|master|develop|dev|trunk|latest)['\"]?\s*(?:#|$)", line
        ):
            yield on_line(number)


@CheckRule(
    "workflow-injection",
    "A stranger's text in a shell",
    "A title or branch name becomes part of the script before the shell reads it, so it can contain commands. Pass it"
    " in `env`.",
    priority=1,
    confidence=0.85,
    category="security",
    needs_whole=False,
    examples=(
        CheckExample(".github/workflows/ci.yml", '      - run: echo "${{ github.event.pull_request.title }}" «'),
        CheckExample(".github/workflows/ci.yml", "      - run: |\n          echo ${{ github.head_ref }} «"),
        CheckExample(
            ".github/workflows/ci.yml",
            "      - env:\n          TITLE: ${{ github.event.pull_request.title }}\n        run: echo $TITLE",
        ),
    ),
).text
def workflow_injection(source: FileVersion) -> Iterator[Finding]:
    """Report `run` with an expression that strangers write."""
    if not re.match(r"\.github/(?:workflows|actions)/", source.path):
        return
    script_indent = -1
    for number, line in enumerate(source.lines, 1):
        indent = len(line) - len(line.lstrip(" -"))
        if line.strip() and indent <= script_indent:
            script_indent = -1
        if found := re.match(r"(\s*-?\s*)run:", line):
            script_indent = len(found[1])
        if script_indent >= 0 and _STRANGE.search(line):
            yield on_line(number)


_STRANGE = re.compile(
    r"\$\{\{[^}]{0,300}?github\.(?:head_ref|event\.(?:issue|pull_request|comment|review|discussion)"
    r"\.(?:title|body|head\.(?:ref|label)))"
)


@CheckRule(
    "migration-one-way",
    "Migration without a way back",
    "If this release is rolled back, the database is not.",
    priority=2,
    confidence=0.7,
    category="maintainability",
    languages=PYTHON,
    examples=(
        CheckExample(
            "alembic/versions/1_a.py",
            "def upgrade():\n    op.add_column('a', b)\n\ndef downgrade(): «\n    pass",
        ),
        CheckExample(
            "alembic/versions/1_a.py",
            "def upgrade():\n    op.add_column('a', b)\n\ndef downgrade():\n    op.drop_column('a', 'b')",
        ),
        CheckExample("shop/migrations/0002_b.py", "operations = [\n    migrations.RunPython(fill), «\n]"),
        CheckExample(
            "shop/migrations/0002_b.py", "operations = [\n    migrations.RunPython(fill, migrations.RunPython.noop),\n]"
        ),
    ),
).text
def migration_one_way(source: FileVersion) -> Iterator[Finding]:
    """Report Alembic's empty `downgrade`, Django's `RunPython` without a reverse."""
    if re.search(r"(?:^|/)versions/", source.path) and "def upgrade" in source.text:
        for found in source.matches(_DOWNGRADE):
            if not _does_something(found["body"].text) and _does_something(_body_of(source, "upgrade")):
                yield on_line(found["it"].first)
    if re.search(r"(?:^|/)migrations/", source.path):
        for found in source.matches(
            "(call function: (attribute) @_name arguments: (argument_list . (_) .) @given"
            ' (#any-of? @_name "migrations.RunPython" "migrations.RunSQL")) @it'
        ):
            yield at_capture(found["it"])


_DOWNGRADE = '(function_definition name: (identifier) @_name body: (block) @body (#eq? @_name "downgrade")) @it'


def _body_of(source: FileVersion, name: str) -> str:
    query = f'(function_definition name: (identifier) @_name body: (block) @body (#eq? @_name "{name}"))'
    return next((found["body"].text for found in source.matches(query)), "")


def _does_something(body: str) -> bool:
    """Whether a function has a statement other than `pass`, a docstring or a comment."""
    plain = re.sub(r'"""[\s\S]*?"""|#.*', "", body)
    return any(line.strip() not in ("", "pass", "...") for line in plain.split("\n"))

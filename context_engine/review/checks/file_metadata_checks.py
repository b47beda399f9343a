"""Metadata of changed files: paths and links that lead outside, executable bits, large binaries."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import CheckRule, on_line

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import ReviewedFile

LARGE_BYTES = 1_000_000
"""A binary of a megabyte stays in every clone forever."""


@CheckRule(
    "path-escape",
    "Path leads out of the repository",
    "To apply this change is to write outside of the work tree, or into git's own folder.",
    priority=1,
    confidence=0.85,
    category="security",
    needs_whole=False,
).file
def path_escape(file: ReviewedFile) -> Iterator[Finding]:
    """Report `../x`, `/etc/x`, `.git/x` as the path of a changed file."""
    for path in {file.path, file.old_path}:
        parts = path.replace("\\", "/").split("/")
        if (
            ".." in parts
            or path.startswith("/")
            or re.match(r"[A-Za-z]:", path)
            or ".git" in [p.lower() for p in parts]
        ):
            yield on_line(
                1, f"{path!r}: to apply this change is to write outside of the work tree, or into git's own folder."
            )
            return


@CheckRule(
    "symlink-escape",
    "Link leads out of the repository",
    "It is another file on every machine, and may reveal a private one.",
    priority=1,
    confidence=0.85,
    category="security",
    needs_whole=False,
).file
def symlink_escape(file: ReviewedFile) -> Iterator[Finding]:
    """Report a new or changed symbolic link to an absolute path, or above the top folder."""
    if file.diff.new_mode != "120000" or not file.diff.added_lines:
        return
    target = file.diff.added_lines[0].text.strip()
    led_to = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
    if target.startswith("/") or re.match(r"[A-Za-z]:", target) or led_to.startswith(".."):
        yield on_line(1, f"It points at {target!r}: another file on every machine, and perhaps a private one.")


@CheckRule(
    "executable-text",
    "Text made executable",
    "It has no `#!` line, so it cannot be run.",
    priority=2,
    confidence=0.75,
    category="maintainability",
    needs_whole=True,
).file
def executable_text(file: ReviewedFile) -> Iterator[Finding]:
    """Report the executable bit on a text without an interpreter."""
    if file.diff.new_mode != "100755" or file.diff.old_mode == "100755" or file.new is None:
        return
    is_script = file.new.text.startswith("#!") or re.search(r"\.(?:bat|cmd|ps1|exe)$", file.path)
    if not file.new.is_binary and file.new.data and not is_script:
        yield on_line(1)


@CheckRule(
    "large-binary",
    "Large binary",
    "It stays in every clone forever; Git LFS or a release asset does not.",
    priority=2,
    confidence=0.85,
    category="performance",
    needs_whole=False,
).file
def large_binary(file: ReviewedFile) -> Iterator[Finding]:
    """Report a new binary above a megabyte, or one that grew above it."""
    size = len(file.new.data) if file.new else 0
    before = len(file.old.data) if file.old else 0
    if file.new is not None and file.new.is_binary and size > LARGE_BYTES >= before and not file.diff.is_lfs:
        yield on_line(
            1, f"{size / 1_000_000:.1f} MB that stay in every clone forever; Git LFS or a release asset does not."
        )

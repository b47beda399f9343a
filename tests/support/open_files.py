"""Which files this process has open."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def open_files() -> list[str]:
    """Return the path of each descriptor, ` (deleted)` at its end when the file was deleted. Linux only."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of this listing
            found.append(str(descriptor.readlink()))
    return found

"""The search-and-replace blocks of aider: its module `editblock_coder` alone, straight out of its wheel.

What the module imports and `apply_edits` does not use is stood in for by empty classes. Files are read and written as
aider does unless it is told otherwise: as UTF-8, line ends those of the platform.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from evals.edit.peers.protocol import PEERS, Pair, serve

FENCE = ("`" * 3, "`" * 3)


class TextFiles:
    """In place of aider's terminal: the two things that its blocks ask it for."""

    def read_text(self, path: str) -> str | None:
        """The text of a file; None where it is none."""
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            return None

    def write_text(self, path: str, text: str) -> None:
        """In place."""
        Path(path).write_text(text, encoding="utf-8")


@cache
def blocks() -> type[Any]:
    """The class EditBlockCoder, without the packages around it, whose doors import all of aider."""
    wheel = next(PEERS.glob("aider_chat-*.whl"))
    for package in ("aider", "aider.coders"):
        stand_in(package).__path__ = [str(wheel / package.replace(".", "/"))]
    stand_in("aider.utils")
    stand_in("aider.coders.base_coder", Coder=object)
    stand_in("aider.coders.editblock_prompts", EditBlockPrompts=object)
    return import_module("aider.coders.editblock_coder").EditBlockCoder


def stand_in(name: str, **holds: object) -> ModuleType:
    """A module of that name that holds these and nothing else."""
    sys.modules[name] = module = ModuleType(name)
    vars(module).update(holds)
    return module


def edit(path: Path, pairs: Sequence[Pair]) -> None:
    """One reply of a model with a block for each edit, while this file is the only one in the chat.

    Blocks are whole lines.
    """
    coder = blocks()()
    coder.io, coder.fence, coder.abs_fnames = TextFiles(), FENCE, {str(path)}
    coder.abs_root_path = coder.get_rel_fname = str
    coder.apply_edits([(str(path), old, new) for old, new in pairs])


if __name__ == "__main__":
    serve(edit)

"""The options of every command, before or after its name: -C, --quiet, --verbose and --color.

They are taken out of the command line first, by the standard library alone, and become what all commands see: the
current folder and a few environment variables.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

QUIET, VERBOSE = "CTX_QUIET", "CTX_VERBOSE"
FLAGS = {"-q": QUIET, "--quiet": QUIET, "-v": VERBOSE, "--verbose": VERBOSE}
FOLDER_OPTIONS = ("-C", "--directory")
COLOR_OPTION = "--color"
COLORS = {
    "auto": {},
    "always": {"FORCE_COLOR": "1", "NO_COLOR": ""},
    "never": {"NO_COLOR": "1", "FORCE_COLOR": "", "TERM": "dumb"},
}
"""The value of --color and its changes of the environment; "" removes a variable. TERM=dumb stops bold text, too."""
PASSED_ON = ("serve", "hook")
"""Commands with options of their own: the words behind their name stay."""


class GlobalOptionError(ValueError):
    """A global option without a value, or with one that does not exist; `hint` is the next step."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def apply_global_options(words: Sequence[str], env: MutableMapping[str, str]) -> list[str]:
    """Change the folder and the environment as the options ask, and return the other words.

    Raises: GlobalOptionError.
    """
    folders, changes, rest = split_global_options(words)
    for folder in folders:
        try:
            os.chdir(os.path.expanduser(folder))  # noqa: PTH111 - pathlib takes longer to import than this file
        except OSError as error:
            raise GlobalOptionError(f"-C {folder}: {error.strerror}", "Name a folder that exists.") from None
    for name, value in changes.items():
        if value:
            env[name] = value
        else:
            env.pop(name, None)
    return rest


def split_global_options(words: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the folders of -C, the changes of the environment, and the other words.

    >>> split_global_options(["search", "-q", "retry", "-C", "src", "--color=never", "--", "-q"])[0]
    ['src']
    >>> split_global_options(["search", "-q", "retry", "--", "-q"])[1:]
    ({'CTX_QUIET': '1'}, ['search', 'retry', '--', '-q'])

    Raises: GlobalOptionError.
    """
    folders: list[str] = []
    changes: dict[str, str] = {}
    rest: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if word == "--" or (word in PASSED_ON and not rest):
            return folders, changes, [*rest, word, *waiting]
        if word in FLAGS:
            changes[FLAGS[word]] = "1"
        elif name in FOLDER_OPTIONS or name == COLOR_OPTION:
            if not equals and not waiting:
                raise GlobalOptionError(f"{name} needs a value", f"For example: {EXAMPLES[name]}.")
            value = value if equals else waiting.pop(0)
            if name == COLOR_OPTION:
                changes.update(_read_color(value))
            else:
                folders.append(value)
        else:
            rest.append(word)
    return folders, changes, rest


EXAMPLES = {"-C": "`ctx -C src status`", "--directory": "`ctx -C src status`", "--color": "`ctx --color never status`"}


def _read_color(value: str) -> Mapping[str, str]:
    if value not in COLORS:
        raise GlobalOptionError(
            f"--color is {value!r}; it must be one of {', '.join(COLORS)}", f"For example: {EXAMPLES['--color']}."
        )
    return COLORS[value]

"""A pull request of forty files, for tests of whole reviews: real commits, and something wrong in every fourth file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.trees import commit, git, repository, tree

FILES = 40
FAULTY = FILES // 4
NO_ANALYZERS: dict[str, Any] = {"analyzers": ["none"], "max_findings": 100}
"""What is installed here must not decide what a test sees."""


def path_of(number: int) -> str:
    return f"shop/part{number // 8}/item{number:02d}.py"


def before(number: int) -> str:
    return f'"""Item {number}."""\n\n\ndef price_{number}(amount):\n    return amount * {number}\n'


def after(number: int) -> str:
    if number % 4:
        return before(number) + f"\n\ndef twice_{number}(amount):\n    return 2 * price_{number}(amount)\n"
    return (
        before(number)
        + f"\n\ndef safe_{number}(amount):\n    try:\n        return price_{number}(amount)\n    except:\n        return None\n"
    )


def pull_request(root: Path) -> Path:
    """A repository on branch `topic`, which changes forty files of `main`."""
    repository(root, {path_of(number): before(number) for number in range(FILES)} | {"README.md": "# Shop\n"})
    git(root, "checkout", "--quiet", "-b", "topic")
    tree(root, {path_of(number): after(number) for number in range(FILES)})
    commit(root, "safer prices")
    return root

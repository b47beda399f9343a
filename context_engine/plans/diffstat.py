"""PURE. What steps mean to do with files, counted before it is done as `git diff --stat` counts it afterwards.

    diffstat(plan, plan.steps, lines_of).summary        '1 file created, 2 modified, 1 deleted (-120 lines)'

How long a file is now is handed in. How many of its lines will change is in no plan, and is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from context_engine.plans.dependency_graph import build_graph
from context_engine.plans.model import Plan, PlanStep, step_numbers

FileAction = Literal["create", "modify", "delete"]
ACTION_WORDS: Mapping[FileAction, str] = {"create": "created", "modify": "modified", "delete": "deleted"}


class PlannedFile(NamedTuple):
    """One file: what becomes of it by all steps together, the numbers of those, how many lines it has now (None: unknown)."""

    path: str
    change: FileAction
    steps: tuple[int, ...]
    lines: int | None = None


class Diffstat(NamedTuple):
    """Every file, by path."""

    files: tuple[PlannedFile, ...] = ()

    @property
    def summary(self) -> str:
        """In a line, for whoever decides."""
        told = []
        for change, word in ACTION_WORDS.items():
            if rows := [each for each in self.files if each.change == change]:
                noun = "" if told else " file" if len(rows) == 1 else " files"
                told.append(f"{len(rows)}{noun} {word}")
        gone = sum(each.lines or 0 for each in self.files if each.change == "delete")
        return ", ".join(told) + (f" (-{gone:,} lines)" if gone else "")


def compute_diffstat(plan: Plan, steps: Collection[PlanStep], lines_of: Callable[[str], int | None]) -> Diffstat:
    """What some steps of a plan mean to do. A file that one of them makes and a later one deletes is not there."""
    number, place = step_numbers(plan), {uid: at for at, uid in enumerate(build_graph(plan).order)}
    fates: dict[str, list[tuple[FileAction, int]]] = {}
    for step in sorted(steps, key=lambda step: place.get(step.uid, len(place))):
        for change, paths in _files_by_action(step):
            for path in paths:
                fates.setdefault(path, []).append((change, number[step.uid]))
    planned = []
    for path, rows in sorted(fates.items()):
        if fate := _net_action([change for change, _ in rows]):
            lines = None if fate == "create" else lines_of(path)
            planned.append(PlannedFile(path, fate, tuple(sorted({step for _, step in rows})), lines))
    return Diffstat(tuple(planned))


def _files_by_action(step: PlanStep) -> tuple[tuple[FileAction, Sequence[str]], ...]:
    return (
        ("create", step.files_to_create),
        ("modify", step.files_to_modify),
        ("delete", step.files_to_delete),
    )


def _net_action(changes: Sequence[FileAction]) -> FileAction | None:
    """What several changes come to, in their order; None when nothing is left of them.

    >>> _net_action(["create", "modify"]), _net_action(["modify", "delete"]), _net_action(["delete", "create"]), _net_action(["create", "delete"])
    ('create', 'delete', 'modify', None)
    """
    is_new, is_gone = changes[0] == "create", changes[-1] == "delete"
    if is_gone:
        return None if is_new else "delete"
    return "create" if is_new else "modify"

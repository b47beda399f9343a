"""PURE. Decide what happens to a record that differs between this machine and the team.

No new content is lost. An older state gives way to a newer one. Where both sides changed, the team's content keeps the
name, and the local content is kept next to it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from context_engine.storage import MergePolicy

MergeAction = Literal["same", "pull", "push", "conflict"]
"""Do nothing; replace ours by the team's; replace the team's by ours; keep ours next to the team's."""


class MergeInput(NamedTuple):
    """The two sides of a record. Hashes are empty where there is no content.

    `theirs` is the last content where the team's record `is_deleted`. `agreed` is what both sides had when they last
    agreed. `is_known`: the team's record once had our content. `extends`: our content begins with all of theirs.
    `is_restored`: the file was taken out of the trash here.
    """

    ours: str
    theirs: str
    is_deleted: bool = False
    agreed: str = ""
    is_known: bool = False
    extends: bool = False
    is_restored: bool = False


def decide(policy: MergePolicy, record: MergeInput) -> MergeAction:
    """Return what to do.

    >>> decide("edited", MergeInput(ours="new", theirs="old", agreed="old"))
    'push'
    >>> decide("edited", MergeInput(ours="new", theirs="other", agreed="old"))
    'conflict'
    >>> decide("fixed", MergeInput(ours="by hand", theirs="made", agreed="made"))
    'conflict'
    """
    if record.ours == ("" if record.is_deleted else record.theirs):
        return "same"
    if not record.theirs or record.is_restored:
        return "push"
    if not record.ours or record.ours == record.agreed or record.is_known or policy == "derived":
        return "pull"  # ours is missing or older
    if record.is_deleted:
        return "push"  # it was edited here, so the deletion does not apply to this content
    if policy == "grows":
        if record.extends:
            return "push"
        return "conflict"
    is_edit_of_theirs = policy == "edited" and record.theirs == record.agreed
    if is_edit_of_theirs:
        return "push"
    return "conflict"

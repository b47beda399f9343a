"""PURE. What becomes of a record that is not the same here and among the team: the table of it, and nothing else.

Nothing that somebody wrote is lost. What is older gives way to what is newer; where both were changed, the team's stays
under its name, and what stood here is kept beside it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

MergePolicy = Literal["edited", "grows", "fixed", "derived"]
"""How a record changes: by anybody's lease, by lines behind the others, never once it is made, or it is made from
others."""
MergeAction = Literal["same", "take", "give", "part"]
"""Nothing to do; the team's takes the place of ours; ours becomes the team's; theirs counts, ours is kept beside it."""


class MergeInput(NamedTuple):
    """One record as both see it. Hashes are empty where there is none.

    `theirs` of one that `is_gone` is what stood there last; `seen` is what both had when they last agreed;
    `was_theirs`: what stands here stood there at some time; `goes_on`: what stands here begins with all that stands
    there; `came_back`: somebody took it out of the trash.
    """

    ours: str
    theirs: str
    is_gone: bool = False
    seen: str = ""
    was_theirs: bool = False
    goes_on: bool = False
    came_back: bool = False


def decide(nature: MergePolicy, record: MergeInput) -> MergeAction:
    """What is to be done.

    >>> decide("edited", MergeInput(ours="new", theirs="old", seen="old"))
    'give'
    >>> decide("edited", MergeInput(ours="new", theirs="other", seen="old"))
    'part'
    >>> decide("fixed", MergeInput(ours="by hand", theirs="made", seen="made"))
    'part'
    """
    if record.ours == ("" if record.is_gone else record.theirs):
        return "same"
    if not record.theirs or record.came_back:
        return "give"
    if not record.ours or record.ours == record.seen or record.was_theirs or nature == "derived":
        return "take"  # it is missing here, or as it was once
    if record.is_gone:
        return "give"  # it was changed here after they had seen the last of it
    if nature == "grows":
        return "give" if record.goes_on else "part"
    return "give" if nature == "edited" and record.theirs == record.seen else "part"

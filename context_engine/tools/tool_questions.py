"""A question that a tool asks the user of a client, and the answer. The server delivers both.

    answer = call.ask(Question("Approve version 3 of the plan?", ("approve", "reject"), with_comment=True))
    if answer is not None and answer.action == "accept": ...

If a client cannot ask, there is no answer: the tool continues, and leaves the decision open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

CHOICE, COMMENT = "choice", "comment"
"""The fields of the form that a client shows."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question with its choices; without choices the answer is free text."""

    text: str
    choices: tuple[str, ...] = ()
    with_comment: bool = False

    @property
    def form(self) -> dict[str, Any]:
        """Return the JSON schema of the form: flat and with texts only, since that is all every client can show."""
        fields: dict[str, Any] = {
            CHOICE: {"type": "string", "title": "Your decision" if self.choices else "Your answer"}
        }
        if self.choices:
            fields[CHOICE]["enum"] = list(self.choices)
        if self.with_comment:
            fields[COMMENT] = {"type": "string", "title": "Comment"}
        return {"type": "object", "properties": fields, "required": [CHOICE]}

    def read_answer(self, action: str, content: Mapping[str, Any] | None) -> UserAnswer | None:
        """Read the answer from a completed form; None if it does not answer this question.

        >>> UserQuestion("Go on?", ("yes", "no")).read_answer("accept", {"choice": "yes"})
        UserAnswer(action='accept', choice='yes', comment='')
        >>> UserQuestion("Go on?", ("yes", "no")).read_answer("accept", {"choice": "maybe"})
        """
        if action == "decline" or action == "cancel":
            return UserAnswer(action)
        fields = {name: value for name, value in (content or {}).items() if isinstance(value, str)}
        choice = fields.get(CHOICE, "").strip()
        if action != "accept" or not choice or (self.choices and choice not in self.choices):
            return None
        return UserAnswer("accept", choice, fields.get(COMMENT, "").strip() if self.with_comment else "")


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """The user's reaction to a question: an answer, a refusal, or a closed form."""

    action: Literal["accept", "decline", "cancel"]
    choice: str = ""
    comment: str = ""


def no_answer(question: UserQuestion) -> UserAnswer | None:  # noqa: ARG001 - the caller passes it
    """Return None, since no user can be asked."""
    return None

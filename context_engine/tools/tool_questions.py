"""A question that a tool puts to the person behind a client, and the answer. Who carries it there is the server's business.

    answer = call.ask(Question("Approve version 3 of the plan?", ("approve", "reject"), with_comment=True))
    if answer is not None and answer.action == "accept": ...

Where a client cannot ask, there is no answer: a tool goes on without, and leaves open what a person must decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

CHOICE, COMMENT = "choice", "comment"
"""The fields of the form that a client shows."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """What is asked, and the choices there are; without any the person writes what they like."""

    text: str
    choices: tuple[str, ...] = ()
    with_comment: bool = False

    @property
    def form(self) -> dict[str, Any]:
        """The JSON schema of the form: flat, texts only, which is all that every client can show."""
        fields: dict[str, Any] = {
            CHOICE: {"type": "string", "title": "Your decision" if self.choices else "Your answer"}
        }
        if self.choices:
            fields[CHOICE]["enum"] = list(self.choices)
        if self.with_comment:
            fields[COMMENT] = {"type": "string", "title": "Comment"}
        return {"type": "object", "properties": fields, "required": [CHOICE]}

    def read_answer(self, action: str, content: Mapping[str, Any] | None) -> UserAnswer | None:
        """What a filled form says; None when it is no answer to this question.

        >>> UserQuestion("Go on?", ("yes", "no")).read_answer("accept", {"choice": "yes"})
        UserAnswer(action='accept', choice='yes', comment='')
        >>> UserQuestion("Go on?", ("yes", "no")).read_answer("accept", {"choice": "maybe"})
        """
        if action == "decline" or action == "cancel":
            return UserAnswer(action)
        given = {name: value for name, value in (content or {}).items() if isinstance(value, str)}
        choice = given.get(CHOICE, "").strip()
        if action != "accept" or not choice or (self.choices and choice not in self.choices):
            return None
        return UserAnswer("accept", choice, given.get(COMMENT, "").strip() if self.with_comment else "")


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """What a person did with a question: answered it, refused to, or closed it."""

    action: Literal["accept", "decline", "cancel"]
    choice: str = ""
    comment: str = ""


def no_answer(question: UserQuestion) -> UserAnswer | None:  # noqa: ARG001 - whoever asks passes it
    """Where there is no person to ask."""
    return None

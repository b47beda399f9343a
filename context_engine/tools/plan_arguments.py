"""What the arguments of the planning tools may be: plans, and rows of objects, as clients send them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from context_engine.tools.arguments import (
    ENDLESS,
    ArgumentType,
    IntegerArg,
    TextArg,
    TextListArg,
    argument_error,
    parse_json_text,
)

STEPS_MAX = 2_000
"""More than any plan has."""
PROSE_CHARS_MAX = 200_000
"""Of an error or a note; more is a file."""
UID = TextArg("Or its uid.", 0, 100)
STEP = IntegerArg("Its number.", 1, ENDLESS)
PLAN_ID = TextArg("Id or name.", 1)


@dataclass(frozen=True, slots=True)
class PlanArgument(ArgumentType):
    """A whole plan: an object, or one written as JSON in a text. Whoever reads it says what is wrong with it."""

    json_type: ClassVar[str] = "object"
    says: str

    def read(self, name: str, value: Any) -> Any:
        """What was sent, as it is."""
        if not isinstance(value, str | Mapping):
            raise argument_error(name, "must be an object or JSON in a text", "load_plan shows how a plan looks.")
        return value


@dataclass(frozen=True, slots=True)
class LongText(ArgumentType):
    """A text that may be a whole log: its middle is cut out when it is kept, so the limit is not worth a word in the schema."""

    says: str

    def read(self, name: str, value: Any) -> str:
        """The text."""
        return TextArg("", most=PROSE_CHARS_MAX).read(name, value)


@dataclass(frozen=True, slots=True)
class ObjectRows(ArgumentType):
    """A list of objects, for somebody else to check. `alone` is the field that a text in place of an object stands for."""

    json_type: ClassVar[str] = "array"
    says: str
    alone: str = ""
    most: int = 100

    def schema(self) -> dict[str, Any]:
        """A list of objects."""
        return {"type": "array", "items": {"type": "object"}}

    def read(self, name: str, value: Any) -> tuple[Mapping[str, Any], ...]:
        """A list, or one written as JSON in a text; an object alone is a list of one."""
        listed = parse_json_text(value) if isinstance(value, str) else value
        listed = [listed] if isinstance(listed, Mapping) or (self.alone and isinstance(listed, str)) else listed
        if not isinstance(listed, list | tuple):
            raise argument_error(name, "must be a list of objects", f"Write {name}: [{{...}}].")
        if len(listed) > self.most:
            raise argument_error(name, f"has {len(listed):,} entries, at most {self.most} are allowed", "Send fewer.")
        return tuple(self._row(f"{name}[{place}]", each) for place, each in enumerate(listed))

    def _row(self, name: str, value: Any) -> Mapping[str, Any]:
        if self.alone and isinstance(value, str):
            return {self.alone: value}
        if not isinstance(value, Mapping):
            raise argument_error(name, "is no object", f"Write {name.partition('[')[0]}: [{{...}}].")
        return value


def which_step(number: int, uid: str) -> int | str:
    """The step that a call is about. Raises: InvalidArgument when it names none."""
    if not uid.strip() and not number:
        raise argument_error("step_number", "is missing", "Name the step: step_number, or step_uid.")
    return uid.strip() or number


def parse_step_numbers(sent: tuple[str, ...]) -> tuple[int | str, ...]:
    """Steps by number or uid, as a list of texts names them."""
    return tuple(int(each) if each.isdecimal() and len(each) < 7 else each for each in sent)


STEP_NUMBERS = TextListArg("Only these steps.", most=STEPS_MAX)

"""PURE. Decide whether the evidence for a step supports it: exit codes, summaries of tests, its checks and criteria.

>>> find_failure({"command": "pytest -q", "exit_code": 0, "output": "1 failed, 3 passed in 0.12s"})
'its output says "1 failed, 3 passed in 0.12s"'
>>> find_failure({"command": "pytest -q", "exit_code": 0, "output": "4 passed in 0.10s"})
''
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

OUTPUT_LINES_MAX = 400
"""Test programs summarize at the end; of a longer output only the last lines are read."""
LINE_CHARS_MAX = 400
QUOTE_CHARS_MAX = 160
ENDINGS = ("exit_code", "exitCode", "exit", "returncode", "return_code")
"""The names that callers give to the exit status of a command."""

_FAILING_SUMMARY = re.compile(
    r"""
      ^=*[ ]?(?:\d+[ ][a-z]+,[ ]){0,8}[1-9]\d*[ ](?:failed|errors?)\b.{0,200}[ ]in[ ]\d      # pytest
    | ^FAILED[ ]\((?:failures|errors|unexpected[ ]successes)=                                # unittest
    | ^(?:---[ ]FAIL:|FAIL(?:\s|$))                                                          # go test
    | ^(?:test[ ]result:[ ]FAILED|error:[ ](?:test[ ]failed|could[ ]not[ ]compile))          # cargo
    | ^\s*(?:Tests|Test[ ]Suites|Test[ ]Files):?\s+[1-9]\d*[ ]failed\b                       # jest, vitest
    | ^\s*[1-9]\d*[ ]failing\s*$                                                             # mocha
    | Tests[ ]run:[ ]\d+,[ ]Failures:[ ](?:[1-9]|\d+,[ ]Errors:[ ][1-9])                     # Maven
    | ^(?:\[(?:ERROR|INFO)\])?[ ]?BUILD[ ]FAIL(?:URE|ED\b)                                   # Maven, Gradle
    | \b\d+[ ]tests?[ ]completed,[ ][1-9]\d*[ ]failed                                        # Gradle
    | ^(?:Failed!\s+-|Test[ ]Run[ ]Failed|Build[ ]FAILED)                                    # .NET
    | \b\d+[ ](?:examples?|runs|tests),[ ](?:\d+[ ]assertions,[ ])?[1-9]\d*[ ]failures?\b    # RSpec, minitest
    | \b0[ ]failures,[ ][1-9]\d*[ ]errors?\b                                                 # minitest
    | ^(?:FAILURES!|ERRORS!|Tests:[ ]\d+,[ ]Assertions:[ ]\d+,[ ](?:Errors|Failures):[ ][1-9])  # PHPUnit
    | \btests[ ]passed,[ ][1-9]\d*[ ]tests?[ ]failed[ ]out[ ]of                              # CTest
    | ^Found[ ][1-9]\d*[ ]errors?\b                                                          # mypy, tsc, ruff
    | ^\S{0,2}[ ]?[1-9]\d*[ ]problems?[ ]\([1-9]\d*[ ]errors?\b                              # ESLint
    | ^(?:g?make(?:\[\d+\])?:[ ]\*\*\*[ ]|npm[ ](?:ERR!|error)[ ])                           # make, npm
    """,
    re.VERBOSE,
)
"""How test programs, compilers and linters end a run that failed, in a single line."""
_COLORS = re.compile(r"\x1b\[[0-9;]{0,20}m")


class FailedEvidence(NamedTuple):
    """A piece of evidence that speaks against a step."""

    command: str
    reason: str

    def __str__(self) -> str:
        return f"{self.command or 'the evidence'}: {self.reason}"


def find_failure(row: Mapping[str, Any]) -> str:
    """Return why a piece of evidence shows a failure; empty when it does not."""
    if row.get("passed") is False or row.get("success") is False:
        return "it says that it did not pass"
    if status := exit_status(row):
        return f"it ended with {status}"
    line = failing_line(str(row.get("output", "")))
    return f'its output says "{line}"' if line else ""


def exit_status(row: Mapping[str, Any]) -> int | None:
    """Return the exit status that a piece of evidence gives; None when it gives none."""
    for name in ENDINGS:
        value = row.get(name)
        if isinstance(value, int | float) or (isinstance(value, str) and value.strip().lstrip("-").isdecimal()):
            return int(value)
    return None


def failing_line(output: str) -> str:
    """Return the line by which a test program, compiler or linter says that it failed; empty when there is none."""
    for line in output.split("\n")[-OUTPUT_LINES_MAX:]:
        plain = _COLORS.sub("", line[:LINE_CHARS_MAX]).rstrip()
        if _FAILING_SUMMARY.search(plain):
            return plain.strip()[:QUOTE_CHARS_MAX]
    return ""


def find_failures(evidence: Iterable[Mapping[str, Any]]) -> tuple[FailedEvidence, ...]:
    """Return the evidence that shows a failure; of a command that ran several times the last run counts."""
    last = {_command(row) or f"#{number}": row for number, row in enumerate(evidence)}
    failures = ((str(row.get("command", "")), find_failure(row)) for row in last.values())
    return tuple(FailedEvidence(command, reason) for command, reason in failures if reason)


def find_open_checks(checks: Sequence[str], evidence: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the checks of a step that no evidence shows to have run."""
    ran = [_command(row) for row in evidence if _has_result(row)]
    return tuple(check for check in checks if not any(normalize_command(check) in command for command in ran))


def find_open_criteria(
    criteria: Sequence[str], answers: Iterable[str], evidence: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the criteria that were not answered: by their number or text, or by a command in them that passed."""
    given = [*answers]
    keys = {criterion_key(answer) for answer in given}
    numbers = {found[1] for answer in given if (found := re.match(r"\s*(\d{1,4})\s*(?:[:.)\-]|$)", answer))}
    ran = [command for row in evidence if _has_result(row) if " " in (command := _command(row))]
    return tuple(
        text
        for number, text in enumerate(criteria, 1)
        if criterion_key(text) not in keys
        and str(number) not in numbers
        # A single word may be any word of a sentence.
        and not any(command in normalize_command(text) for command in ran)
    )


def criterion_key(text: str) -> str:
    """Return a criterion without what does not distinguish it: case, blanks and the last period."""
    return " ".join(text.casefold().split()).rstrip(".")


def normalize_command(command: str) -> str:
    """Return a command with single blanks, without the quotes of Markdown."""
    return " ".join(command.replace("`", "").split())


def _command(row: Mapping[str, Any]) -> str:
    return normalize_command(str(row.get("command", "")))


def _has_result(row: Mapping[str, Any]) -> bool:
    """Whether a row says how a command ended, or what it wrote; its name alone shows nothing."""
    return exit_status(row) is not None or row.get("passed") is True or bool(str(row.get("output", "")).strip())

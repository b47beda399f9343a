"""Whole sessions of real agents against a scripted model: what the model was shown, and that each result reached it whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from tests.clients.agents import AGENTS, Agent
from tests.clients.conftest import Tell
from tests.clients.dialects import Say, Seek, Use
from tests.clients.programs import Place, client, ctx
from tests.clients.scripted_model import ScriptedModel, Step, Turn, full_name
from tests.clients.stdio import listing, named

FINDS = Use("search_code", {"query": "where are passwords hashed"})
READS_LONG = Use("read", {"items": ["docs/ledger.md"], "token_budget": 20_000})
READS_WIDE = Use("read", {"items": ["docs/zh.md"], "token_budget": 100_000})
"""Longer in bytes than in characters: some clients cut by bytes. The limit of a reply cuts it, not the budget."""
MISSES = Use("read", {"items": ["till/missing.py"]})
MISTAKES = Use("read", {"items": ["till/auth.py"], "start": 3})
SCRIPT = (FINDS, READS_LONG, READS_WIDE, MISSES, MISTAKES, Say("That is all I wanted to know."))

SOUGHT = {
    "search the code base with a question": "search_code",
    "grep for a regular expression in files": "search_text",
    "read some lines of a file": "read",
    "find where a function is defined": "symbols",
    "what a task needs to be read first": "get_context",
}
"""What a model would look for in its own words, and the tool of ours that it must find."""

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Session:
    """One finished session: the agent's last words, and every request its model received."""

    words: str
    turns: Sequence[Turn]

    @property
    def results(self) -> Sequence[str]:
        """What the model saw of each step, in order, without what the client puts around it."""
        return [unwrapped(text) for text in self.turns[-1].shown.results]


def session(agent: Agent, place: Place, script: Sequence[Step], *, with_ctx: bool = True) -> Session:
    """Play the script through the agent."""
    client(agent.program)
    with ScriptedModel(script) as model:
        here = agent.prepared(place, model.url)
        if with_ctx:
            agent.introduced(here)
        run = here.run(*agent.asked("Where are passwords hashed?"))
        assert run.status == 0, run.out[-2000:] + run.err[-2000:]
        return Session(run.out, tuple(model.turns))


def unwrapped(text: str) -> str:
    """A result without the frame that Codex (how long it took) and Gemini (whose words these are) put around it."""
    text = text.partition("\nOutput:\n")[2] if text.startswith("Wall time: ") else text
    return text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")


def answered(place: Place, step: Use) -> str:
    """What `ctx` itself answers to that step."""
    return place.run(str(ctx()), "call", step.tool, json.dumps(step.arguments)).out.removesuffix("\n")


def rows(reply: str) -> str:
    """A reply of search_code but for how fresh it was: the server of a session may still look what changed."""
    head, _, places = reply.partition("\n")
    assert " · " in head, reply
    assert places.startswith("@@ "), reply
    return places


def shown_of_us(turn: Turn) -> str:
    """Everything a request shows: its words, and the names and descriptions of its tools."""
    return "\n".join(
        [turn.shown.words, *(f"{name}: {tool.get('description')}" for name, tool in turn.shown.tools.items())]
    )


@pytest.mark.parametrize("name", AGENTS)
def test_a_session_shows_the_model_what_we_meant_it_to_see(name: str, place: Place, tell: Tell) -> None:
    agent = AGENTS[name]
    bare = session(agent, place, (Say("Nothing to do."),), with_ctx=False)
    seen = session(agent, place, SCRIPT)
    instructions, tools = listing(place, str(ctx()), "serve", "--root", str(place.folder))
    tell(f"session {name}", told(agent, bare, seen, instructions, tools))

    assert "That is all I wanted to know." in seen.words
    first = shown_of_us(seen.turns[0])
    assert instructions.split("\n\n")[0][:240] in first, "the model must know from its first request what we are for"
    if agent.shows != "purpose":
        assert [tool for tool in named(tools) if tool not in first] == []
    at_once = [tool["name"] for tool in tools if agent.shows == "all" or (always(tool) and agent.shows == "names")]
    assert sorted(ours(seen.turns[0], tools)) == sorted(at_once)

    finds, reads_long, reads_wide, misses, mistakes = seen.results
    assert rows(finds) == rows(answered(place, FINDS))
    assert reads_long == answered(place, READS_LONG)
    assert reads_wide == answered(place, READS_WIDE)
    assert_readable(misses, "FILE_NOT_FOUND", "till/missing.py", "list_directory")
    if agent.checks_arguments:
        assert mistakes == "params must NOT have additional properties"
    else:
        assert_readable(mistakes, "INVALID_ARGUMENT", "start", "token_budget")


def test_a_tool_that_is_held_back_is_found_by_what_it_does(place: Place, tell: Tell) -> None:
    seen = session(AGENTS["codex with tool search"], place, (*map(Seek, SOUGHT), Say("Now I know them all.")))
    found = dict(zip(SOUGHT, map(plain_names, seen.turns[-1].shown.found), strict=True))
    tell("found by codex", found)
    assert [words for words, tool in SOUGHT.items() if tool not in found[words]] == []


def plain_names(found: Sequence[str]) -> list[str]:
    """Our own names of what was found; Codex names the server first, and then its tools as parts of it."""
    return [full.rpartition("/")[2] for full in found if "/" in full]


def assert_readable(result: str, code: str, *words: str) -> None:
    """An error that says what is wrong and what to do, whichever way the client shows it."""
    assert code in result, result
    assert [word for word in words if word not in result] == [], result


def always(tool: Mapping[str, Any]) -> bool:
    """Whether a tool asks to be shown even where tools are held back."""
    return bool(tool.get("_meta", {}).get("anthropic/alwaysLoad"))


def ours(turn: Turn, tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Those of our tools that a request shows with their schema, by our own names."""
    shown = ((name, full_name(name, turn.shown)) for name in named(tools))
    return {name: turn.shown.tools[full] for name, full in shown if full}


def told(agent: Agent, bare: Session, seen: Session, instructions: str, tools: Sequence[Any]) -> dict[str, Any]:
    """What the report says of a session."""
    first, last = seen.turns[0], seen.turns[-1]
    schemas = ours(first, tools)
    at_s = [turn.at_s for turn in seen.turns]
    return {
        "shows of our tools at first": agent.shows,
        "tools with schema in the first request": f"{len(schemas)} of {len(tools)}",
        "characters of these": len(json.dumps(list(schemas.values()))) if schemas else 0,
        "characters of instructions in it": f"{longest_start(instructions, shown_of_us(first))} of {len(instructions)}",
        "seconds to the first request": round(first.at_s, 2),
        "the same without ctx": round(bare.turns[0].at_s, 2),
        "requests to the model": len(seen.turns),
        "of these after a search for tools": len(last.shown.found),
        "seconds between requests": [round(after - before, 2) for before, after in pairwise(at_s)],
        "characters of each result": [len(result) for result in seen.results],
        "errors": list(seen.results[-2:]),
    }


def longest_start(text: str, among: str) -> int:
    """How many of the first characters of `text` stand in `among`, line breaks and indents aside."""
    one, other = " ".join(text.split()), " ".join(among.split())
    return next(size for size in range(len(one), -1, -1) if one[:size] in other)

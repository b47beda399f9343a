"""Prompts and completions over the protocol, on a real engine: facts of the index, tools that exist, few tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from context_engine import tools
from context_engine.engine import Engine
from context_engine.server import mcp_server, prompt_templates
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from context_engine.text.words import estimate_tokens
from context_engine.tools import Call
from tests.support.engines import indexed, open_engine
from tests.support.serving import connected
from tests.support.trees import tree

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
FILES = {
    "till/__main__.py": "from till.session import Session\n\nSession('a').close()\n",
    "till/session.py": 'class Session:\n    """Somebody logged in."""\n\n    def close(self):\n        pass\n',
    "till/orders.py": "from till.session import Session\n\n\ndef place(session: Session):\n    return session\n",
    "tests/test_orders.py": "from till.orders import place\n",
}
EVERY_WAY = [
    ("understand", {}),
    ("understand", {"area": "till/", "question": "how are sessions closed"}),
    ("understand", {"area": "till/session.py"}),
    ("find", {"what": "Session"}),
    ("find", {"what": "where are sessions closed"}),
    ("begin", {}),
    ("begin", {"task": "close sessions when the shop closes"}),
    ("find", {"what": "zzzz qqqq"}),
    ("change", {"task": "close sessions when the shop closes"}),
    ("change", {"task": "rename it", "target": "Session.close"}),
    ("change", {"task": "split it", "target": "till/orders.py"}),
]
BLANK_PATHS = {"path/of/a/file"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("prompts") / "till", FILES)) as engine:
        yield engine


def text_of(engine: Engine, name: str, given: dict[str, str], shown: ToolSelection | None = None) -> str:
    gate = ToolDispatcher(single_engine(engine), selection=shown or ToolSelection())
    return prompt_templates.render_prompt(gate, name, given, listed=listed_by(gate.selection), projects=())


def listed_by(shown: ToolSelection) -> frozenset[str]:
    return frozenset(tool.name for tool in tools.ALL if shown.lists(tool.name))


def calls_in(text: str) -> list[tuple[str, dict]]:
    """Every call that a prompt spells: tool and arguments."""
    found = []
    for name, rest in re.findall(r"^- (\w+) (\{.*)$", text, re.MULTILINE):
        arguments, _ = json.JSONDecoder().raw_decode(rest)
        found.append((name, arguments))
    return found


@ERAS
async def test_a_client_sees_the_prompts_and_gets_their_text(engine: Engine, era: str) -> None:
    async with connected(engine, era) as client:
        listed = (await client.list_prompts()).prompts
        assert [each.name for each in listed] == ["begin", "understand", "find", "change"]
        assert all(each.title and each.description and each.arguments for each in listed)
        assert all(blank.description for each in listed for blank in each.arguments or ())
        given = await client.get_prompt("find", {"what": "Session"})
        (message,) = given.messages
        assert message.role == "user"
        assert isinstance(message.content, types.TextContent)
        assert "- till/session.py:1-5 Session" in message.content.text


@pytest.mark.parametrize(("name", "given"), EVERY_WAY)
@pytest.mark.parametrize("profile", ["core", "all"])
def test_every_call_a_prompt_spells_is_one_that_works(engine: Engine, name: str, given: dict, profile: str) -> None:
    shown = ToolSelection(profiles=(profile,))
    listed = listed_by(shown)
    spelled = calls_in(text_of(engine, name, given, shown))
    assert spelled
    for tool, arguments in spelled:
        assert tool in listed
        inside = arguments.get("arguments", arguments)
        if any(blank in str(value) for value in inside.values() for blank in BLANK_PATHS):
            continue  # a blank that the agent fills in
        if "add_memory" in (tool, arguments.get("name")):
            inside["dry_run"] = True
        outcome = ToolDispatcher(single_engine(engine)).call(tool, arguments, Call())
        assert outcome.error is None or outcome.error.code == "SYMBOL_NOT_FOUND", outcome.reply.text


@pytest.mark.parametrize(("name", "given"), EVERY_WAY)
def test_a_prompt_costs_at_most_600_tokens(engine: Engine, name: str, given: dict[str, str]) -> None:
    assert estimate_tokens(text_of(engine, name, given)) <= 600


@pytest.mark.parametrize(("name", "given"), EVERY_WAY)
def test_without_an_index_a_prompt_says_so_and_claims_nothing(tmp_path: Path, name: str, given: dict[str, str]) -> None:
    with open_engine(tree(tmp_path / "till", FILES)) as engine:
        text = text_of(engine, name, given)
    assert "There is no index yet" in text
    assert 'call_tool {"name": "index_workspace", "arguments": {}} first' in text
    assert "till/session.py:" not in text


def test_a_tool_that_is_switched_off_is_not_asked_for(engine: Engine) -> None:
    assert "symbols" in text_of(engine, "find", {"what": "Session"})
    assert "symbols" not in text_of(engine, "find", {"what": "Session"}, ToolSelection(exclude=("symbols",)))


def test_secrets_in_an_argument_do_not_come_back(engine: Engine) -> None:
    assert "ghp_0123" not in text_of(engine, "find", {"what": "who uses ghp_0123456789abcdefghijABCDEFGHIJ012345"})


@ERAS
@pytest.mark.parametrize(
    ("name", "given", "hint"),
    [
        ("fnd", {"what": "x"}, "Did you mean find?"),
        ("find", {}, "needs what"),
        ("find", {"what": "  "}, "needs what"),
        ("find", {"what": "x", "wat": "y"}, "Did you mean what?"),
        ("change", {"task": "x" * 65_537}, "at most 65,536 characters"),
    ],
)
async def test_a_wrong_prompt_or_argument_is_refused_with_the_right_one(
    engine: Engine, era: str, name: str, given: dict[str, str], hint: str
) -> None:
    async with connected(engine, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, given)
        assert caught.value.code == -32602
        assert hint in caught.value.message


def test_with_several_projects_a_prompt_asks_which_and_spells_it_in_every_call(engine: Engine) -> None:
    projects = ("web", "api")
    gate = ToolDispatcher(lambda _: engine, project_names=lambda: projects)
    listed = prompt_templates.list_prompts(projects)
    assert all(each.arguments and each.arguments[-1].name == "project" for each in listed)
    assert all(each.arguments and each.arguments[-1].required for each in listed)
    text = prompt_templates.render_prompt(
        gate, "find", {"what": "Session", "project": "api"}, listed=listed_by(gate.selection), projects=projects
    )
    for _, arguments in calls_in(text):
        assert arguments.get("arguments", arguments)["project"] == "api"


# -- completions --------------------------------------------------------------------------------------------------

FILE = types.ResourceTemplateReference(uri="ctx://file/{+path}")


def of_prompt(name: str) -> types.PromptReference:
    return types.PromptReference(name=name)


@ERAS
@pytest.mark.parametrize(
    ("ref", "argument", "typed", "offered"),
    [
        (FILE, "path", "till/s", ["till/session.py"]),
        (of_prompt("understand"), "area", "til", ["till/", "till/__main__.py", "till/orders.py", "till/session.py"]),
        (of_prompt("understand"), "question", "ho", []),
        (of_prompt("find"), "what", "Sess", ["Session"]),
        (of_prompt("change"), "target", "Session.cl", ["Session.close"]),
        (of_prompt("change"), "target", "till/or", ["till/orders.py"]),
        (of_prompt("change"), "task", "x", []),
    ],
)
async def test_arguments_are_completed_from_the_index(
    engine: Engine, era: str, ref: types.PromptReference, argument: str, typed: str, offered: list[str]
) -> None:
    async with connected(engine, era) as client:
        found = (await client.complete(ref, {"name": argument, "value": typed})).completion
        assert found.values == offered
        assert (found.total, found.has_more) == (len(offered), False)


@ERAS
async def test_at_most_a_hundred_are_offered_and_the_rest_counted(tmp_path: Path, era: str) -> None:
    with indexed(tree(tmp_path / "many", {f"part/f{number:03}.txt": "x\n" for number in range(130)})) as engine:
        async with connected(engine, era) as client:
            found = (await client.complete(FILE, {"name": "path", "value": "part/"})).completion
    assert (len(found.values), found.total, found.has_more) == (100, 130, True)


@ERAS
@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        (of_prompt("nothing"), "what"),
        (of_prompt("find"), "wat"),
        (FILE, "pat"),
        (FILE.model_copy(update={"uri": "x"}), "path"),
    ],
)
async def test_what_is_completed_must_exist(
    engine: Engine, era: str, ref: types.PromptReference, argument: str
) -> None:
    async with connected(engine, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.complete(ref, {"name": argument, "value": ""})
        assert caught.value.code == -32602


async def test_with_several_projects_their_names_are_completed_and_decide_what_else_is(engine: Engine) -> None:
    asked: list[str] = []

    def named(project: str) -> Engine:
        asked.append(project)
        return engine

    several = types.ResourceTemplateReference(uri="ctx://file/{+path}{?project}")
    async with Client(
        mcp_server.build_server(ToolDispatcher(named, project_names=lambda: ("web", "api"))),
        mode="legacy",
    ) as client:
        found = await client.complete(several, {"name": "project", "value": "A"})
        assert found.completion.values == ["api"]
        await client.complete(several, {"name": "path", "value": "t"}, {"project": "web"})
    assert asked == ["web"]

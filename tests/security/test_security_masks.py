"""No reply shows a secret of a file: whatever is put in front of a line, however it is cut, and in whatever form it leaves."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine.cli.app import app
from context_engine.cli.screens import process_screen
from context_engine.cli.tool_commands import build_dispatcher
from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from context_engine.model import Query, TextPart, TextQuery
from context_engine.secrets.redacted_text import find_hidden_spans
from context_engine.secrets.secret_rules import builtin_rules
from context_engine.server import prompt_templates, resources
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools import Call
from tests.support.engines import indexed
from tests.support.secret_examples import drawn
from tests.support.trees import repository, tree

KINDS = 70
PIECE_CHARS = 12
"""So many characters of a secret in a row are a leak."""
GROUP = 10
"""Files in one folder: what a search shows at once."""


@dataclass(frozen=True)
class Kept:
    """A file with a secret of one kind, and the pieces of it that no reply may hold."""

    kind: str
    path: str
    text: str
    pieces: frozenset[str]

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.removesuffix("\n").split("\n")


def pem(seed: int) -> str:
    """Lines that look like a private key of 2,048 bits."""
    body = base64.b64encode(random.Random(seed).randbytes(1_190)).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])


def module(number: int, secret: str) -> str:
    """Code that is about zebras, with a secret that begins a line between two of them."""
    return (
        f'def feed_zebra_{number}():\n    """Feed zebra number {number}."""\n    keeper = """zebra\n{secret}\nzebra\n"""\n'
        f"    return keeper\n\n\ndef walk_{number}():\n    return feed_zebra_{number}()\n"
    )


def pieces_of(text: str) -> frozenset[str]:
    """Everything that would be a leak: the parts of its secrets, a dozen characters each."""
    data = text.encode()
    found: set[str] = set()
    for each in find_hidden_spans(data):
        value = data[each.start : each.stop].decode()
        found |= {value[at : at + PIECE_CHARS] for at in range(len(value) - PIECE_CHARS + 1)}
    return frozenset(found)


def kept_files() -> Iterator[Kept]:
    """A file for each kind of secret that replies mask."""
    secrets = [("private key", pem(1))]
    for rule in builtin_rules().rules:
        if rule.tier == "strict":
            secrets += [(rule.id, drawn(rule.examples[0], "masks").text)]
    for number, (kind, secret) in enumerate(secrets[:KINDS]):
        text = module(number, secret)
        yield Kept(kind, f"group{number // GROUP}/keeper_{number}.py", text, pieces_of(text))


@dataclass(frozen=True)
class Zoo:
    """A workspace full of secrets, and the door to its tools."""

    engine: Engine
    gate: ToolDispatcher
    files: tuple[Kept, ...]
    folder: Path

    def said(self, tool: str, **arguments: Any) -> str:
        """The reply of a tool."""
        outcome = self.gate.call(tool, arguments, Call())
        assert outcome.error is None, outcome.reply.text
        return outcome.reply.text

    def refused(self, code: str, tool: str, **arguments: Any) -> str:
        """The error of a tool that refuses."""
        outcome = self.gate.call(tool, arguments, Call())
        assert outcome.error is not None
        assert outcome.error.code == code, outcome.reply.text
        return outcome.reply.text

    def leaks(self, reply: str, files: tuple[Kept, ...] = ()) -> list[str]:
        """The kinds of which a reply shows a piece."""
        shown = {reply[at : at + PIECE_CHARS] for at in range(len(reply))}
        return [each.kind for each in files or self.files if not each.pieces.isdisjoint(shown)]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    folder = tmp_path_factory.mktemp("zoo") / "zoo"
    files = tuple(kept_files())
    repository(folder, {each.path: each.text for each in files})
    with indexed(folder, result_chars_max=200_000) as engine:
        yield Zoo(engine, build_dispatcher(engine), files, folder)


def test_there_are_enough_kinds_and_each_is_found_in_its_file(zoo: Zoo) -> None:
    assert len({each.kind for each in zoo.files}) == KINDS
    assert [each.kind for each in zoo.files if {*map(len, each.pieces)} != {PIECE_CHARS}] == []


@pytest.mark.parametrize("context", [0, 1, 3])
def test_search_files_shows_no_secret_whatever_is_around(zoo: Zoo, context: int) -> None:
    for group in range(KINDS // GROUP):
        reply = zoo.said("search_files", query="zebra", path=f"group{group}", context=context, limit=200)
        assert f"group{group}/keeper_{group * GROUP}.py" in reply
        assert zoo.leaks(reply) == []


def test_a_search_for_a_part_of_a_secret_shows_no_more_of_it(zoo: Zoo) -> None:
    for each in zoo.files:
        longest = max(each.lines, key=len)
        reply = zoo.said("search_files", query=longest[-8:], path=each.path)
        assert each.path in reply
        assert zoo.leaks(reply, (each,)) == [], each.kind


def test_grep_codebase_and_scout_show_no_secret(zoo: Zoo) -> None:
    for group in range(KINDS // GROUP):
        grepped = zoo.said("grep_codebase", pattern="zebra$|^[^ ]+$", file_pattern=f"group{group}/**", limit=100)
        scouted = zoo.said("scout", keywords=["zebra", "_", "-", "="], root_path=f"group{group}")
        assert (zoo.leaks(grepped), zoo.leaks(scouted)) == ([], [])


def test_what_reads_a_file_or_a_part_of_it_shows_no_secret(zoo: Zoo) -> None:
    for each in zoo.files:
        last = len(each.lines)
        replies = [
            zoo.said("read_file", path=each.path),
            zoo.said("read_file", path=each.path, start_line=5),
            zoo.said("read_file", path=each.path, start_line=4, end_line=4),
            zoo.said("read_file", path=each.path, include_deps=True),
            zoo.said("read_fragment", path=each.path, lines=["4", "5-6"]),
            zoo.said("read_fragment", path=each.path, keywords=["zebra"], context=1),
            zoo.said("read_fragment", path=each.path, symbols=["feed_zebra"], max_tokens=60),
            zoo.said("read_regions", file_path=each.path, regions=[{"start": 4, "end": 4}, {"start": 6, "end": last}]),
            resources.read_resource(zoo.gate, f"ctx://file/{each.path}", Call()).text,
        ]
        assert [zoo.leaks(reply, (each,)) for reply in replies] == [[]] * len(replies), each.kind


def test_what_finds_places_shows_no_secret(zoo: Zoo) -> None:
    for number, each in enumerate(zoo.files):
        name = f"feed_zebra_{number}"
        replies = [
            zoo.said("codebase_retrieval", query=name, top_k=3),
            zoo.said("cortex_search", query=name, limit=2),
            zoo.said("find_symbol", name=name),
            zoo.said("find_symbol", outline=each.path),
            zoo.said("trace", symbol=name),
        ]
        assert [zoo.leaks(reply) for reply in replies] == [[]] * len(replies), each.kind


def test_bundles_and_prompts_show_no_secret(zoo: Zoo) -> None:
    for group in range(KINDS // GROUP):
        question = f"feed_zebra_{group * GROUP} and walk_{group * GROUP + 1} in group{group}"
        replies = [
            zoo.said("get_context_for_prompt", query=question, max_files=GROUP, include_paths=[f"group{group}/**"]),
            zoo.said("get_context_for_prompt", query=question, max_files=GROUP, format="markdown", token_budget=900),
            zoo.said("enhance_prompt", prompt=question),
            prompt_templates.render_prompt(zoo.gate, "find", {"what": question}, listed=frozenset(), projects=()),
        ]
        assert [zoo.leaks(reply) for reply in replies] == [[]] * len(replies)


def diff(each: Kept, mark: str) -> str:
    """A unified diff that adds or removes a whole file."""
    count = len(each.lines)
    spans = f"-0,0 +1,{count}" if mark == "+" else f"-1,{count} +0,0"
    names = ("/dev/null", f"b/{each.path}") if mark == "+" else (f"a/{each.path}", "/dev/null")
    body = "".join(f"{mark}{line}\n" for line in each.lines)
    kind = "new file mode 100644" if mark == "+" else "deleted file mode 100644"
    head = f"diff --git a/{each.path} b/{each.path}\n{kind}\n--- {names[0]}\n+++ {names[1]}\n"
    return f"{head}@@ {spans} @@\n{body}"


@pytest.mark.parametrize("mark", ["+", "-"])
def test_a_review_of_a_diff_shows_no_secret_that_it_adds_or_removes(zoo: Zoo, mark: str) -> None:
    for group in range(KINDS // GROUP):
        files = zoo.files[group * GROUP : (group + 1) * GROUP]
        text = "".join(diff(each, mark) for each in files)
        for form in ("json", "markdown", "sarif"):
            reply = zoo.said("review_changes", diff=text, analyzers="none", assist="host", format=form)
            assert zoo.leaks(reply) == [], form


def test_previews_and_refusals_of_edits_show_no_secret(zoo: Zoo) -> None:
    for number, each in enumerate(zoo.files):
        last = each.lines.index("zebra")
        near = "\n".join([*each.lines[:2], each.lines[2].replace("zebra", "okapi"), *["gone"] * (last - 3), "zebra"])
        one = {"target": 'zebra\n"""\n    return keeper', "replace": 'okapi\n"""\n    return 1'}
        whole = {"symbol": f"feed_zebra_{number}", "replace": "def nothing():\n    return None\n"}
        replies = [
            zoo.said("edit_file", path=each.path, edits=[one], dry_run=True),
            zoo.said("edit_file", path=each.path, edits=[{"target": '"""zebra', "replace": '"""okapi'}], dry_run=True),
            zoo.refused("MULTIPLE_MATCHES", "edit_file", path=each.path, edits=[{"target": "e", "replace": "x"}]),
            zoo.said(
                "safe_replace",
                file_path=each.path,
                old_content=one["target"],
                new_content=one["replace"],
                dry_run=True,
            ),
            zoo.said("rename_symbol", name=f"feed_zebra_{number}", new_name="feed_okapi"),
            zoo.said("edit_file", path=each.path, edits=[whole], dry_run=True),
        ]
        if last <= 6:
            replies.append(
                zoo.refused("NO_MATCH", "edit_file", path=each.path, edits=[{"target": near, "replace": "x"}])
            )
        assert [zoo.leaks(reply, (each,)) for reply in replies] == [[]] * len(replies), each.kind


# -- cuts, copies and forms -------------------------------------------------------------------------------------------


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Zoo]:
    """Lines of every length, so that each limit cuts some token in its middle."""
    token = drawn("ghp_<w36>", "cut").text
    calls = [
        f"    zebra('{'a ' * width}', '{token}')  # TODO zebra with {token} {'b ' * width}"
        for width in range(2, 420, 7)
    ]
    text = f"def walk(keeper='{token}', {'other_keeper=None, ' * 12}last='{token}'):\n" + "\n".join(
        [*calls, "    return 1", ""]
    )
    folder = tree(
        tmp_path / "cut", {"a.py": text, "b.md": f"# Zebra {'long ' * 40}{token}\n\nzebra {'words ' * 70}{token}\n"}
    )
    kept = Kept("cut", "a.py", text, pieces_of(text))
    with indexed(folder) as engine:
        yield Zoo(engine, build_dispatcher(engine), (kept,), folder)


def test_no_limit_cuts_a_token_so_that_its_beginning_is_shown(cut: Zoo) -> None:
    replies = [
        cut.said("search_files", query="zebra", limit=200),
        cut.said("search_files", query="b b", context=1, limit=200),
        cut.said("grep_codebase", pattern="zebra.*TODO", limit=100),
        cut.said("scout", keywords=["zebra", "TODO", "b b"]),
        cut.said("read_fragment", path="a.py", keywords=["zebra"], context=0, max_tokens=4_000),
        cut.said("read_file", path="a.py", start_line=2, end_line=40),
        cut.said("codebase_retrieval", query="walk zebra keeper", top_k=10),
        cut.said("find_symbol", name="walk"),
        cut.said("find_symbol", outline="a.py"),
        cut.said("trace", symbol="walk", direction="callees"),
        cut.said("get_context_for_prompt", query="walk zebra keeper", token_budget=2_000),
        cut.said("rename_symbol", name="walk", new_name="run"),
        cut.refused("MULTIPLE_MATCHES", "edit_file", path="a.py", edits=[{"target": "zebra(", "replace": "okapi("}]),
    ]
    assert [cut.leaks(reply) for reply in replies] == [[]] * len(replies)


def test_an_error_that_is_too_long_is_masked_before_it_is_cut(cut: Zoo) -> None:
    token = drawn("ghp_<w36>", "error").text
    for width in range(440, 500, 6):
        message = f"{'x ' * (width // 2)}{token}"
        failed = InvalidArgument(message, suggestion=message, details={"failed": [{"message": "y" * 40_000}]})

        def fail(_: str, failed: InvalidArgument = failed) -> Engine:
            raise failed

        reply = ToolDispatcher(fail).call("index_status", {}, Call()).reply.text
        assert token[:PIECE_CHARS] not in reply


def test_a_key_in_a_large_file_is_masked_line_by_line(tmp_path: Path) -> None:
    filler = "zebra = 1\n" * 200_000
    text = f"{filler}{pem(2)}\n{filler}"
    folder = tree(tmp_path / "large", {"large.txt": text})
    kept = Kept("large", "large.txt", text, pieces_of(pem(2)))
    with indexed(folder) as engine:
        large = Zoo(engine, build_dispatcher(engine), (kept,), folder)
        line = 200_000 + 8
        replies = [
            large.said("read_file", path="large.txt", start_line=line, end_line=line + 3),
            large.said("read_regions", file_path="large.txt", regions=[{"start": line, "end": line}]),
            large.said("search_files", query=pem(2).split("\n")[9][20:30], context=2),
        ]
    assert [large.leaks(reply) for reply in replies] == [[]] * 3
    assert "200010" in replies[2]


def test_no_answer_of_the_engine_holds_a_secret_even_without_the_gate(zoo: Zoo) -> None:
    query = TextQuery(("zebra",))
    engine = zoo.engine
    parts = [TextPart(file.path, 0, 50) for file in engine.text_search.scan(query).files]
    shown: list[object] = [
        engine.text_search.lines(query, parts, context=3),
        engine.text_search.keyword_lines(query, parts, chars_max=80),
    ]
    for number, each in enumerate(zoo.files):
        name = f"feed_zebra_{number}"
        shown += [
            engine.files.read(each.path),
            engine.files.read(each.path, first=5),
            engine.symbols.outline(each.path),
            engine.symbols.find(name),
            engine.symbols.trace(name),
        ]
        if number % GROUP == 0:  # its places are those of one search, whatever the secret
            shown.append(engine.edits.rename_symbol(name, "feed").certain)
    shown.append(engine.search.find(Query("feed zebra keeper", 50, chunks_per_file=3)))
    assert zoo.leaks("\n".join(map(repr, shown))) == []


def test_what_the_terminal_shows_of_files_and_memories_holds_no_secret(
    zoo: Zoo, capsys: pytest.CaptureFixture[str]
) -> None:
    found = CliRunner().invoke(app, ["search", "feed zebra keeper", "-n", "50", "--root", str(zoo.folder)])
    token = drawn("ghp_<w36>", "terminal").text
    out = process_screen().out
    out.show(f"a title with {token}")
    out.show_markdown(f"# a memory with {token}\n")
    out.show_table(("what",), [(f"a cell with {token}",)])
    written = found.output + "".join(capsys.readouterr())
    assert "feed_zebra" in written
    assert zoo.leaks(written) == []
    assert token[:PIECE_CHARS] not in written

"""Nothing that strangers wrote - source, names, branches, messages, memories, plans - steers the terminal of who runs `ctx`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from context_engine.cli.app import app
from context_engine.cli.safe_console import SafeConsole
from context_engine.cli.screens import SafeStream, safe_streams
from context_engine.text.formatting import escape_controls, escape_line
from tests.support import preloaded

HERE = Path(__file__).resolve().parents[2]
HOSTILE = (
    "\x1b]0;EVIL\x07\x1b[2J\x1b[8m\x9b3J\x08\u202eabc\u2066\u200b\u2028\x7f[red]x[/] [link=http://evil]y[/nothing]"
)
NAME = "ev\x1b[2J\nbranch: forged\u202e [bold].py"
SOURCE = f'def alpha():\n    """Says {HOSTILE}"""\n    return beta("{HOSTILE}")\n\n\ndef beta(x):\n    # TODO: {HOSTILE} alpha\n    return x\n'
MEMORY = f"---\nid: mem-0001\ntitle: {json.dumps(f'alpha {HOSTILE}')}\ncategory: decisions\n---\nalpha {HOSTILE}\n"
STYLES = re.compile(rb"\x1b\[(?!2J|8m)[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AGK]|\r(?=\n|\x1b)")
"""What Rich itself writes: styles, and the moves of a progress bar."""

COMMANDS: dict[str, list[list[str]]] = {
    "index": [[], ["--force"]],
    "search": [["alpha"], ["alpha", "--why"], ["alpha", "--json"], ["nowhere\x1b[2J", "--lang", "x\x1b[2J"]],
    "symbol": [["alpha"]],
    "trace": [["beta"], ["beta", "-d", "impact"]],
    "why": [["."], ["alpha"], ["no_such_name"]],
    "history": [[], ["alpha"], [NAME], [f"{NAME}:1-3"], ["HEAD", "--diff"]],
    "context": [["what does alpha do"], ["alpha", "--json"]],
    "undo": [["--list"], [], ["--redo"]],
    "review": [["--format", kind] for kind in ("text", "markdown", "json", "sarif", "rdjson")] + [["HEAD~1..HEAD"]],
    "status": [[], ["--json"]],
    "serve": [["--help"]],
    "ui": [["--root", "no\x1b[2J"], ["--workspace", "no\x1b[2J", "--no-open"]],
    "call": [
        [], ["list_directory"], ["read_file", json.dumps({"path": NAME})], ["search_files", '{"query": "alpha", "context": 1}'],
        ["semantic_search", '{"query": "alpha"}'], ["index_status"], ["nothing\x1b[2J"], ["read_file", "{\x1b[2J"],
        ["read_file", json.dumps({"path": "no" + NAME})], ["write_file", json.dumps({"path": "b.py", "content": HOSTILE})],
    ],
    "gain": [[], ["--json"]],
    "hook": [["UserPromptSubmit"], ["no\x1b[2J"], ["SessionStart", "--client", "no\x1b[2J"]],
    "setup": [["claude", "--print", "--project"], ["no\x1b[2J"]],
    "doctor": [[]],
    "memory list": [[], ["--json"]],
    "memory search": [["alpha"]],
    "memory show": [["mem-0001"], ["mem-0001", "--json"], ["no\x1b[2J"]],
    "memory add": [["decisions", f"We chose alpha. {HOSTILE}"]],
    "memory edit": [["mem-0001", "--revalidate"]],
    "memory delete": [["no\x1b[2J", "--yes"]],
    "memory rules": [[]],
    "read": [["no\x1b[2J"]],
    "plan create": [[f"Change what alpha returns {HOSTILE}"]],
    "plan list": [[], ["--json"]],
    "plan show": [[], ["no\x1b[2J"]],
    "plan progress": [[]],
    "plan history": [[]],
    "plan diff": [["1", "1"]],
    "plan approve": [["no\x1b[2J"]],
    "workspace add": [["no\x1b[2J"]],
    "workspace list": [[]],
    "workspace remove": [["no\x1b[2J"]],
    "workspace update": [["no\x1b[2J"]],
    "store list": [[]],
    "store remove": [["no\x1b[2J"]],
    "job add": [["no\x1b[2J"]],
    "job list": [[]],
    "job remove": [["no\x1b[2J"]],
    "job work": [["--until-empty"]],
    "token create": [["no\x1b[2J", "--project", "p"]],
    "token list": [[]],
    "token revoke": [["no\x1b[2J"]],
    "chunk export": [["out"]],
    "daemon run": [["--no\x1b[2J"]],
    "daemon status": [[]],
    "daemon stop": [[]],
    "chunk check": [["no\x1b[2J"], ["out"]],
    "--no\x1b[2J": [[]],
}  # fmt: skip
ALL = [[*name.split(" "), *words] for name, rows in COMMANDS.items() for words in rows]
ON_A_TERMINAL = [each for each in ALL if each[0] != "doctor" and "json" not in each and "--json" not in each]
"""Doctor starts servers, which takes seconds; what is JSON is written the same way everywhere."""

CHILD = """
import json, os, sys
from context_engine.cli.app import run
for words in json.loads(open(sys.argv[1]).read()):
    sys.argv = ["ctx", *words]
    os.write(1, ("\\n@@@@" + ascii(words) + "\\n").encode())
    code = run()
    sys.stdout.flush(); sys.stderr.flush()
    os.write(1, f"\\n@@@@ exit {code}\\n".encode())
"""


def test_every_command_is_tried_on_the_hostile_repository() -> None:
    assert {" ".join(words) for words in _leaves(typer.main.get_command(app))} == {
        each for each in COMMANDS if each[0] != "-"
    }


def _leaves(command: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _leaves(command.get_command(None, name), (*before, name))
    if not hasattr(command, "commands"):
        yield before


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "repository"
    root.mkdir()

    def git(*words: str) -> None:
        env = {"GIT_AUTHOR_NAME": f"A {HOSTILE}", "GIT_COMMITTER_NAME": "c\x1b[2J"} | dict.fromkeys(
            ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@example.org"
        )
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, env=os.environ | env)

    git("init", "-q", "-b", "m\u202eain")
    (root / NAME).write_text(SOURCE)
    (root / "README.md").write_text(f"# alpha {HOSTILE}\n\nWhat alpha does.\n")
    git("add", "-A")
    git("commit", "-q", "-m", f"fix: alpha {HOSTILE}")
    (root / NAME).write_text(SOURCE + f"\n\ndef gamma():\n    eval('{HOSTILE}')\n    print('alpha')\n")
    git("commit", "-q", "-a", "-m", f"fix: gamma {HOSTILE}")
    (root / NAME).write_text(SOURCE + f"\n\ndef gamma():\n    eval('x{HOSTILE}')\n    breakpoint()\n")
    memories = root / ".context-engine" / "memories" / "decisions"
    memories.mkdir(parents=True)
    (memories / "alpha--mem-0001.md").write_text(MEMORY)
    (memories / "broken\x1b[2J.md").write_text(f"---\n{HOSTILE}: [\n---\n")
    return root


def _run(commands: Sequence[list[str]], root: Path, where: Path, stdout: int, env: dict[str, str] | None = None) -> int:
    argvs = where / "argvs.json"
    argvs.write_text(json.dumps(commands))
    clean = {"HOME": str(where), "XDG_CACHE_HOME": str(where / "cache"), "XDG_CONFIG_HOME": str(where / "config")}
    clean |= {"PYTHONPATH": str(HERE), "TERM": "xterm-256color", "COLUMNS": "100"}
    popen = subprocess.Popen if os.isatty(stdout) else preloaded.Popen  # Rich looks for a terminal when it is imported
    return popen(
        [sys.executable, "-c", CHILD, str(argvs)],
        cwd=root, env=os.environ | clean | (env or {}), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stdout,
    ).wait(300)  # fmt: skip


def _sections(output: bytes) -> dict[str, bytes]:
    parts = re.split(rb"\r?\n@@@@(\[.*\])\r?\n", output)
    return {name.decode(): text for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _assert_safe(sections: dict[str, bytes], allowed: re.Pattern[bytes] | None = None) -> None:
    for words, written in sections.items():
        text = (allowed.sub(b"", written) if allowed else written).decode("utf-8")
        found = [ascii(text[max(0, at - 30) : at + 10]) for at, char in enumerate(text) if _steers(char)]
        assert not found, f"{words}: {found[:3]}"
        assert "Traceback" not in text, f"{words}: {text[-600:]}"
        assert "ctx has a bug" not in text, f"{words}: {text[-600:]}"
        assert "\nbranch: forged" not in text, words


def _steers(char: str) -> bool:
    return char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_in_a_pipe_no_command_writes_a_control_character(hostile: Path, tmp_path: Path) -> None:
    written = tmp_path / "out"
    with written.open("wb") as file:
        assert _run(ALL, hostile, tmp_path, file.fileno()) == 0
    sections = _sections(written.read_bytes())
    assert len(sections) == len(ALL)
    _assert_safe(sections)
    shown = sections["['search', 'alpha']"].decode()
    assert r"\u001b]0;EVIL\u0007\u001b[2J" in shown, "what was there is shown, not swallowed"
    assert r"ev\u001b[2J\u000abranch: forged\u202e [bold].py:" in shown
    (reply,) = re.findall(r"^\{.*\}$", sections["['search', 'alpha', '--json']"].decode(), re.MULTILINE)
    assert HOSTILE in "".join(row["content"] for row in json.loads(reply)["results"]), "JSON loses nothing"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals of this kind")
def test_on_a_terminal_no_command_writes_a_control_character_but_its_own_styles(hostile: Path, tmp_path: Path) -> None:
    import pty
    import threading

    leader, follower = pty.openpty()
    read: list[bytes] = []

    def drain() -> None:
        try:
            while data := os.read(leader, 65_536):
                read.append(data)
        except OSError:  # the other side is closed
            return

    reader = threading.Thread(target=drain)
    reader.start()
    code = _run(ON_A_TERMINAL, hostile, tmp_path, follower)
    os.close(follower)
    reader.join(120)
    os.close(leader)
    sections = _sections(b"".join(read))
    assert len(sections) == len(ON_A_TERMINAL)
    _assert_safe(sections, STYLES)
    assert code == 0
    assert b"\x1b[" in sections["['search', 'alpha']"], "a terminal is still shown colors"


def test_an_ascii_terminal_gets_escapes_and_no_traceback(hostile: Path, tmp_path: Path) -> None:
    written = tmp_path / "out"
    commands = [
        ["index"],
        ["search", "alpha"],
        ["status"],
        ["review"],
        ["memories", "list"],
        ["call", "list_directory"],
    ]
    with written.open("wb") as file:
        env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "LANG": "C"}
        assert _run(commands, hostile, tmp_path, file.fileno(), env) == 0
    assert written.read_bytes().isascii()
    _assert_safe(_sections(written.read_bytes()))


@given(st.text())
def test_visible_text_has_no_control_character_and_is_the_same_in_json(text: str) -> None:
    shown = escape_controls(text)
    joined = re.compile(r"(?<=[^\x00-\x7f\u200c\u200d])[\u200c\u200d](?=[^\x00-\x7f\u200c\u200d])")
    assert not [char for char in joined.sub("", shown) if _steers(char)]
    assert len(escape_line(text).splitlines()) <= 1
    packed = json.dumps(text, ensure_ascii=False)
    assert json.loads(escape_controls(packed)) == text
    assert escape_controls(shown) == shown


@pytest.mark.parametrize("text", ["ümlaut 日本\n\tx", "می\u200cخواهم", "👩\u200d💻", r"C:\u001b"])
def test_texts_that_people_write_are_left_alone(text: str) -> None:
    assert escape_controls(text) == text


def test_a_joiner_between_ascii_letters_is_shown() -> None:
    assert escape_controls("pay\u200dload") == r"pay\u200dload"


def test_rich_is_given_nothing_but_visible_text(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    console = SafeConsole(force_terminal=False)
    console.print(Text("a\x1b[2Jb"), "c\x07d", markup=False)
    assert capsys.readouterr().out == "a\\u001b[2Jb c\\u0007d\n"


def test_the_streams_are_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with safe_streams():
        assert isinstance(sys.stdout, SafeStream)
        assert not hasattr(sys.stdout, "buffer"), "nothing writes past it"
        print("a\x1b[2Jb\udc80")
    assert sys.stdout is before
    assert capsys.readouterr().out == "a\\u001b[2Jb\\udc80\n"

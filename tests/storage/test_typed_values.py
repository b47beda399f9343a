"""Types that msgspec decodes to: inspected by one thread at a time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "context_engine"
FIRST_USES = """
import sys, threading, msgspec
from context_engine.storage import prepare_type

sys.setswitchinterval(1e-6)
parts = "".join(f"class Part{at}(msgspec.Struct): size: int = 1\\n" for at in range(40))
fields = "".join(f"    part{at}: Part{at}\\n" for at in range(40))
source = f"from __future__ import annotations\\n{parts}class Whole(msgspec.Struct):\\n{fields}"
data = {f"part{at}": {} for at in range(40)}

def convert(kind):
    for _ in range(50):
        msgspec.convert(data, prepare_type(kind))

for _ in range(20):
    exec(source)
    threads = [threading.Thread(target=convert, args=(Whole,)) for _ in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
"""


def test_threads_that_convert_to_a_new_type_at_once_do_not_crash_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


BUILTIN = {"list", "dict", "tuple", "str", "int", "float", "bytes", "Any"}


def unprepared(source: str) -> list[str]:
    """The conversions inside functions to a type of ours that is not prepared; those of a module are made at its import."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    calls = {id(node): node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)}
    found = []
    for call in calls.values():
        name = ast.unparse(call.func)
        if name == "msgspec.convert":
            kind = call.args[1]
        elif name.startswith("msgspec.") and name.endswith(".decode") and call.keywords:
            kind = call.keywords[0].value
        else:
            continue
        names = {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)}
        if "prepare_type" not in names and not names <= BUILTIN:
            found.append(ast.unparse(call))
    return found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(): msgspec.convert(data, Plan)", 1),
        ("def f(): msgspec.json.decode(data, type=list[Plan])", 1),
        ("def f(): msgspec.convert(data, prepare_type(Plan))", 0),
        ("rules = msgspec.toml.decode(data, type=Rules)", 0),
    ],
)
def test_an_unprepared_conversion_is_seen(text: str, count: int) -> None:
    assert len(unprepared(text)) == count


def test_every_type_that_a_function_converts_to_is_prepared() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {path: unprepared(source) for path, source in sources.items() if "msgspec." in source}
    assert not {str(path): calls for path, calls in found.items() if calls}

"""The tables of what the product reaches say all of it, and every proof that the security pages name exists."""

from __future__ import annotations

import ast
import re

import pytest

from scripts import docs, reach
from tests.support.source_trees import ROOT, trees


def test_every_program_that_is_started_and_every_address_has_its_row_and_no_row_is_left_over() -> None:
    assert reach.problems(trees()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\ndef f():\n    subprocess.run(['x'])",
        "from subprocess import Popen as go\ndef f():\n    go(['x'])",
        "import subprocess as s\ndef f():\n    return [s.check_output(each) for each in 'ab']",
        "def f():\n    import os\n    os.execv('x', [])",
        "import os\ndef f(): os.posix_spawnp('x', [], {})",
        "from multiprocessing import Process\ndef f(): Process(target=f)",
        "from concurrent.futures import ProcessPoolExecutor\ndef f(): ProcessPoolExecutor()",
        "from context_engine.repo.subprocess_runner import run_program\ndef f(): run_program(['x'])",
        "from context_engine.repo import run_program as go\ndef f(): go(['x'])",
    ],
)
def test_each_way_to_start_a_program_is_seen(source: str) -> None:
    assert [inside for inside, called in reach.sites(ast.parse(source)) if reach.starts(called)] == ["f"]


@pytest.mark.parametrize(
    "source",
    [
        "import socket\ndef f(): socket.create_connection(('a', 1))",
        "from urllib.request import urlopen\ndef f(): urlopen('a')",
        "import httpx2\ndef f(): httpx2.Client()",
        "from http import client\ndef f(): client.HTTPSConnection('a')",
        "from qdrant_client import QdrantClient\ndef f(): QdrantClient()",
        "import psycopg\ndef f(): psycopg.connect('a')",
    ],
)
def test_each_way_to_connect_is_seen(source: str) -> None:
    assert [inside for inside, called in reach.sites(ast.parse(source)) if reach.connects(called)] == ["f"]


def test_what_only_looks_like_one_is_passed_over() -> None:
    source = "import subprocess\ndef f(p: subprocess.Popen[bytes]): self.run(p); subprocess.TimeoutExpired('x', 1)"
    source += "\ndef g(requests): requests.items(); Process()"
    called = [called for _, called in reach.sites(ast.parse(source))]
    assert not [name for name in called if reach.starts(name) or reach.connects(name)]


def test_both_tables_can_be_printed_for_people() -> None:
    assert docs.programs().count("\n") == len(reach.PROGRAMS) + 1
    assert docs.addresses().count("\n") == len(reach.ADDRESSES) + 1


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/security.md"])
def test_every_test_and_target_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make ([a-z-]+)", text))
    files = re.findall(r"`(?:(tests/[\w/]+)|(test_\w+))(?:\.py)?(?:::(\w+))?`", text)
    assert len(files) > 10
    missing = [name for name in targets if f"\n{name}:" not in makefile]
    for place, own, test in files:
        path = ROOT / (place or f"tests/security/{own}")
        code = path.with_suffix(".py").read_text() if path.with_suffix(".py").is_file() else ""
        if not (code or path.is_dir()) or (test and f"def {test}(" not in code):
            missing.append(f"{path} {test}")
    assert missing == []

"""What the engine does without: a protocol, a model, a service, a credential. And the stairs that keep it so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements.test_promises import ROOT
from tests.support.trees import tree

ALONE = """
import sys
from pathlib import Path
from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.settings import Settings

with Engine.open(sys.argv[1], settings=Settings(cache_folder=Path(sys.argv[2]), workers=0)) as engine:
    engine.index.update()
    print(engine.search.find(Query("who sells a lamp")).hits[0].chunk.path)
    print(engine.symbols.find("sell_lamp").definitions[0].signature)
    print(engine.files.read("shop.py", first=1, last=1).text.strip())
loaded = {name.partition(".")[0] for name in sys.modules} | set(sys.modules)
worldly = {"mcp", "mcp_types", "anyio", "asyncio", "httpx", "requests", "http.client", "http.server", "socketserver"}
print(sorted(loaded & (worldly | {"openai", "anthropic", "torch", "transformers", "onnxruntime", "typer", "rich"})))
"""

SECRETS = (
    r"AKIA[0-9A-Z]{16}",
    r"gh[pousr]_[A-Za-z0-9]{36}",
    r"sk-[A-Za-z0-9_-]{20,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"(?i)\b(?:api_?key|password|passwd|secret|token)\b\s*[:=]\s*[\"'][^\"'\s]{8,}[\"']",
    r"://[\w.%-]+:[^/\s:@<(\[]+@",  # but neither `user:<password>@` nor a pattern
)


def test_the_engine_finds_and_reads_without_protocol_model_or_environment(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"shop.py": "def sell_lamp():\n    '''Sells a lamp.'''\n    return 1\n"})
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(root), str(tmp_path / "cache")],
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["shop.py", "def sell_lamp()", "def sell_lamp():", "[]"]


def test_no_credential_stands_in_the_code() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in sorted((ROOT / "context_engine").rglob("*"))
        if file.suffix in (".py", ".toml") and "secrets" not in file.parts  # they say what credentials look like
        for pattern in SECRETS
        for match in re.finditer(pattern, file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.slow
def test_imports_go_one_way_and_every_contract_between_rooms_holds() -> None:
    contracts = pytest.importorskip("importlinter.cli")
    assert contracts.lint_imports(config_filename=str(ROOT / ".importlinter"), no_cache=True) == 0

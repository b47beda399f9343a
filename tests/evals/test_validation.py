"""What the validation eval does to a file: every damage changes it, the same way each time, and breaks a Python file for good."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from context_engine.review.source_versions import Parsers
from evals.validation.score import BYTES, DAMAGES, code_of, draw, look, make_service
from tests.support.engines import GRAMMARS, LANGUAGES
from tests.support.trees import repository, tree

SOUND = 'import os\n\n\ndef f(a, b):\n    """Say (so."""\n    c = [a, "x y"]\n    return c  # ((\n' * 10
PARSERS = Parsers(LANGUAGES, GRAMMARS)


@pytest.mark.parametrize("kind", DAMAGES)
def test_every_damage_breaks_a_sound_file_and_is_the_same_each_time(kind: str) -> None:
    code = code_of(SOUND, "a.py", PARSERS)
    broken = DAMAGES[kind](SOUND, code, random.Random(1))
    assert broken != SOUND
    assert broken == DAMAGES[kind](SOUND, code, random.Random(1))
    service = make_service()
    assert look(SOUND, "a.py", service).has_passed
    assert not look(broken, "a.py", service).has_passed


def test_the_same_files_are_drawn_out_of_a_folder_and_a_repository(tmp_path: Path) -> None:
    files = {f"src/{number}.py": SOUND + f"x = {number}\n" for number in range(5)}
    broken = {"fixtures/a.py": SOUND, "short.py": "x = 1\n"}
    assert len(SOUND) in BYTES
    folder = tree(tmp_path / "folder", files | broken)
    mirror = repository(tmp_path / "mirror", files | broken) / ".git"
    drawn = [draw([source], 3, PARSERS)["python"] for source in (folder, folder, mirror)]
    assert len(drawn[0]) == 3
    assert drawn[0] == drawn[1]
    assert {path for path, _ in drawn[2]} <= set(files)

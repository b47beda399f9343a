"""The path of a file tells what part it plays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.index.file_roles import ROLES, role_code, role_of


@pytest.mark.parametrize(
    ("path", "content", "role"),
    [
        ("src/app.py", "code", "source"),
        ("app.py", "code", "source"),
        ("tests/test_app.py", "code", "test"),
        ("src/test_app.py", "code", "test"),
        ("conftest.py", "code", "test"),
        ("src/app.test.ts", "code", "test"),
        ("pkg/app_test.go", "code", "test"),
        ("src/AppTest.java", "code", "test"),
        ("src/Latest.java", "code", "source"),
        ("contest/latest.py", "code", "source"),
        ("Zoo.Tests/App.cs", "code", "test"),
        ("Tests/helper.swift", "code", "test"),
        ("docs/conf.py", "code", "docs"),
        ("README.md", "documentation", "docs"),
        ("src/notes.md", "documentation", "docs"),
        ("examples/app.py", "code", "example"),
        ("benches/app.rs", "code", "bench"),
        ("vendor/lib/app.go", "code", "vendor"),
        ("pkg/__init__.py", "code", "init"),
        ("types/index.d.ts", "code", "declaration"),
        ("pkg/_compat.py", "code", "compat"),
        ("compatible.py", "code", "source"),
        ("api/app_pb2.py", "code", "generated"),
        ("package-lock.json", "data", "generated"),
        ("config.yml", "data", "data"),
    ],
)
def test_a_path_tells_its_role(path: str, content: str, role: str) -> None:
    assert role_of(path, content) == role


@given(st.text("aT_./st", min_size=1, max_size=12), st.sampled_from(["code", "documentation", "data"]))
def test_every_path_has_one_role_with_a_number_of_its_own(path: str, content: str) -> None:
    assert ROLES[role_code(role_of(path, content))] == role_of(path, content)

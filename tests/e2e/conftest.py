"""A small real repository, and a cache of its own for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import trees

FILES = {
    "README.md": "---\ntags: [guide]\n---\n# Till\n\nA small shop. Passwords are hashed, orders are totalled. #shop\n",
    "pyproject.toml": '[project]\nname = "till"\n',
    "till/__init__.py": '"""A small shop."""\n',
    "till/auth.py": '''"""Logging in and out."""

import hashlib

SALT_BYTES = 16


def hash_password(password: str, salt: bytes) -> bytes:
    """Hash a password with its salt, slowly on purpose."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 200_000)


class Session:
    """Somebody who is logged in."""

    def __init__(self, user: str) -> None:
        self.user = user


def login(user: str, password: str) -> Session:
    """Let a user in when the password is right."""
    hash_password(password, b"salt" * 4)
    return Session(user)
''',
    "till/orders.py": '''"""Orders and what they cost."""

from till.auth import Session


def total(prices: list[int], discount: int = 0) -> int:
    """The sum of an order, less the discount, never below zero."""
    return max(0, sum(prices) - discount)


def place(session: Session, prices: list[int]) -> dict:
    """Place an order for whoever is logged in."""
    return {"user": session.user, "total": total(prices)}
''',
    "tests/test_orders.py": "from till.orders import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
    "web/cart.ts": "export class Cart {\n  items: string[] = [];\n  add(item: string): void {\n    this.items.push(item);\n  }\n}\n",
    "ignored.log": "nothing to see\n",
    ".gitignore": "*.log\n",
}


@pytest.fixture(scope="module", autouse=True)
def own_places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of the machine's user is read or written."""
    place = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("CTX_") and name != "CTX_DAEMON"]:
            patched.delenv(name)
        patched.setenv("HOME", str(place))
        patched.setenv("CTX_CACHE_FOLDER", str(place / "cache"))
        patched.setenv("CTX_WORKERS", "0")
        yield


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git work tree with a handful of files in three languages."""
    return planted(tmp_path / "till")


def planted(root: Path, files: Mapping[str, str] = FILES) -> Path:
    """These files in a new work tree."""
    return trees.repository(root, files)

"""The bearer token of the HTTP server: from the environment, from a file that was named, or from one of our own.

Our own lies in the user's config folder, is made when it is first needed, and only its user can read it.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from context_engine.errors import AccessFailed, HostError, InvalidArgument

RANDOM_BYTES = 32
"""256 bits cannot be guessed at any rate."""
CHARS_MIN = 16
"""Shorter tokens are typed words."""
BYTES_MAX = 4_096
OTHERS_MAY = 0o077


@dataclass(frozen=True, slots=True)
class BearerToken:
    """The token that clients must send, and where a person finds it; an empty value means no token."""

    value: str
    location: str


def choose_token(*, given: str | None, file: str | None, is_loopback: bool) -> BearerToken:
    """The token to ask for: the one given, the one in the file, ours for whom others can reach, else none.

    Raises: InvalidArgument for one too short or in no file, AccessFailed, HostError.
    """
    if given:
        return BearerToken(_check_token(given, "CTX_HTTP_TOKEN"), "in the variable CTX_HTTP_TOKEN")
    if file:
        return BearerToken(_check_token(_read_token(Path(file).expanduser()), file), f"in {file}")
    if is_loopback:
        return BearerToken("", "not asked for: only this machine can reach the server")
    own = default_bearer_file()
    if not own.exists():
        _create_file(own)
    _refuse_shared(own)
    return BearerToken(_check_token(_read_token(own), str(own)), f"in {own}")


def default_bearer_file() -> Path:
    """Return the path of the token file that the server creates itself."""
    return Path(platformdirs.user_config_dir("context-engine", appauthor=False)) / "http-token"


def _create_file(path: Path) -> None:
    """A new token that only this user can read; one that another server made meanwhile stays."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(secrets.token_urlsafe(RANDOM_BYTES) + "\n")
    except FileExistsError:
        return
    except OSError as error:
        raise HostError(
            f"the token cannot be written to {path}: {error.strerror or error}",
            suggestion="Name a file with --token-file, or put a token into CTX_HTTP_TOKEN.",
        ) from error


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as source:
            return source.read(BYTES_MAX).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        raise InvalidArgument(
            f"there is no token file {path}",
            suggestion='Make one: python -c "import secrets; print(secrets.token_urlsafe(32))" > FILE',
        ) from None
    except OSError as error:
        raise AccessFailed(
            f"the token file {path} cannot be read: {error.strerror or error}",
            suggestion="Let the user that runs the server read it.",
        ) from error


def _refuse_shared(path: Path) -> None:
    """Our own file is of no use once others can read it. Files that were named are their owner's business."""
    if os.name == "posix" and path.stat().st_mode & OTHERS_MAY:
        raise HostError(
            f"other users can read the token in {path}",
            suggestion="Delete the file: a new token is made at the next start.",
        )


def _check_token(value: str, place: str) -> str:
    if len(value) < CHARS_MIN or not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidArgument(
            f"the token in {place} is invalid",
            suggestion=f"It has at least {CHARS_MIN} ASCII characters and no blank; delete the file to get a new one.",
        )
    return value

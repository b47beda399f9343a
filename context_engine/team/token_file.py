"""The tokens of a shared server: created, listed and revoked in one file, and recognized by their hashes.

    ctx_1f0c9a52e7b4_Zk3...        the token of a client; the part in the middle is its id, which is not secret

Only a keyed hash of a token is stored, so a reader of the file cannot use the tokens. A token is 256 random bits, which
cannot be guessed, so the hash is a fast one (docs/decisions/team.md). The file is checked with each request, and
read again when it has changed. So a revoked token is refused at once, by every server that shares the file.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from context_engine.errors import AccessFailed, Conflict, HostError, InvalidArgument, StorageBusy, StorageCorrupt
from context_engine.server.authentication import default_token_file
from context_engine.storage import hold_private_lock, prepare_type, replace_private
from context_engine.timestamps import Now, format_timestamp, parse_timestamp

FORMAT = 1
"""The format of the file. A server refuses a higher one, because it cannot know what that would allow."""
MARK = "ctx"
ID_BYTES = 6
"""The id only distinguishes the tokens of one file."""
SECRET_BYTES = 32
"""256 bits cannot be guessed at any rate."""
KEY_BYTES = 32
FILE_BYTES_MAX = 10_000_000
"""About forty thousand tokens."""
LOCK_WAIT_S = 5.0
OTHERS_READ, OTHERS_WRITE = 0o077, 0o022
"""The permissions that other users must not have: any for the default file, writing for a named file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SHOWN = re.compile(rf"{MARK}_([0-9a-f]{{{2 * ID_BYTES}}})_([A-Za-z0-9_-]{{43}})")
"""43 characters are 32 bytes in base64 for addresses, which is what `secrets` makes."""

Stamp = tuple[int, int, int]
Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""
EVERY_PROJECT = "*"
"""In place of projects: all of them, future ones included."""


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One token of the file: what it permits, and the hash of its secret. `projects` are names or paths.

    `per_minute` is the number of tools that it may call in a minute, 0 for any number.
    """

    id: str
    name: str
    role: Role
    projects: tuple[str, ...]
    made: str
    digest: str
    expires: str | None = None
    per_minute: int = 0

    @property
    def sees_all(self) -> bool:
        """Whether no project is hidden from it."""
        return EVERY_PROJECT in self.projects

    def sees(self, name: str, path: str) -> bool:
        """Return whether a project exists for it, by its exact name or path: no pattern, no folder above."""
        return self.sees_all or name in self.projects or path in self.projects

    def is_expired(self, now_s: float) -> bool:
        """Return whether it has expired. An unreadable expiry time counts as passed."""
        return self.expires is not None and now_s >= (parse_timestamp(self.expires) or 0.0)


class TokenPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. `key` is for the hashes, and for the state that several servers seal for each other."""

    format: int
    key: Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * KEY_BYTES}}}$")]
    tokens: tuple[Grant, ...] = ()


class TokenFile:
    """A file of tokens, for creating and for checking them. Thread-safe."""

    def __init__(self, path: Path | None = None, *, now: Now) -> None:
        """Read nothing yet. The default path is that of `default_token_file`."""
        path = path or default_token_file()
        self.path = path
        self._forbidden = OTHERS_READ if path == default_token_file() else OTHERS_WRITE
        self._now = now
        self._stamp_read: Stamp | None = None
        self._page: TokenPage | None = None
        """The file as it was when it was last read, and its tokens by their ids."""
        self._by_id: dict[str, Grant] = {}
        self._lock = threading.Lock()

    # -- for a person -----------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        role: Role,
        projects: Sequence[str],
        *,
        expires_s: float | None = None,
        per_minute: int = 0,
    ) -> tuple[Grant, str]:
        """Create a token. Return its grant, and the token itself, which is not stored.

        Raises: InvalidArgument, Conflict (the name is taken), and as `page`.
        """
        _check_request(name, projects, expires_s, self._now())
        token_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)

        def with_one_more(page: TokenPage) -> tuple[Grant, ...]:
            if any(grant.name == name for grant in page.tokens):
                raise Conflict(
                    f"there is a token called {name} already",
                    suggestion=f"Choose another name, or revoke it first: ctx token revoke {name}.",
                )
            grant = Grant(
                token_id,
                name,
                role,
                tuple(dict.fromkeys(projects)),
                made=format_timestamp(self._now()),
                digest=_digest(secret, token_id, page.key),
                expires=None if expires_s is None else format_timestamp(expires_s),
                per_minute=per_minute,
            )
            return (*page.tokens, grant)

        page = self._change(with_one_more)
        return page.tokens[-1], f"{MARK}_{token_id}_{secret}"

    def revoke(self, name: str) -> None:
        """Delete a token. Raises: InvalidArgument for an unknown name, and as `page`."""

        def without(page: TokenPage) -> tuple[Grant, ...]:
            kept = tuple(grant for grant in page.tokens if grant.name != name)
            if len(kept) == len(page.tokens):
                raise InvalidArgument(f"no token is called {name}", suggestion="See ctx token list.")
            return kept

        self._change(without)

    def page(self) -> TokenPage:
        """Return the content of the file; an empty one if it is missing.

        Raises: StorageCorrupt, AccessFailed, HostError (others could change it, or read our own).
        """
        with self._lock:
            return self._current() or TokenPage(FORMAT, "")

    # -- for a server -----------------------------------------------------------------------------------------------

    def find_grant(self, shown: str) -> Grant | None:
        """Return the grant of a token, expired or not; None for an unknown token. Raises: as `page`.

        It takes as long for an unknown id as for a wrong secret.
        """
        parts = _SHOWN.fullmatch(shown)
        with self._lock:
            page, by_id = self._current(), self._by_id
        if parts is None or page is None:
            return None
        grant = by_id.get(parts[1])
        digest = _digest(parts[2], parts[1], page.key)
        is_same = hmac.compare_digest(digest, grant.digest if grant else "0" * len(digest))
        return grant if is_same else None

    def sealing_key(self) -> bytes:
        """Return a key that only servers with this file have. Creates a missing file. Raises: as `page`."""
        page = self.page()
        key = page.key or self._change(lambda made: made.tokens).key
        return hashlib.blake2b(b"", key=bytes.fromhex(key), person=b"ctx sealing", digest_size=KEY_BYTES).digest()

    # -- the file ---------------------------------------------------------------------------------------------------

    def _current(self) -> TokenPage | None:
        """Return the current file, read only if it has changed; None without one. The lock is held."""
        stamp = self._stamp()
        if stamp != self._stamp_read:
            # an unreadable file grants no access, whatever it contained before
            self._stamp_read, self._page, self._by_id = None, None, {}
            self._page = self._parse_file() if stamp else None
            self._by_id = {grant.id: grant for grant in self._page.tokens} if self._page else {}
            self._stamp_read = stamp
        return self._page

    def _stamp(self) -> Stamp | None:
        """Return the stamp of the file, which changes with it; None for a missing file."""
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._access_error(error) from error
        if os.name == "posix" and facts.st_mode & self._forbidden:
            raise HostError(
                f"other users can {'read' if self._forbidden == OTHERS_READ else 'change'} the tokens in {self.path}",
                suggestion=f"Close it to them: chmod 600 {self.path}",
            )
        return facts.st_mtime_ns, facts.st_size, facts.st_ino

    def _parse_file(self) -> TokenPage:
        try:
            with self.path.open("rb") as source:
                page = msgspec.json.decode(source.read(FILE_BYTES_MAX), type=prepare_type(TokenPage))
        except OSError as error:
            raise self._access_error(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._damage_error(str(error)) from error
        if page.format != FORMAT:
            raise self._damage_error(f"it is of the format {page.format}, and this release reads {FORMAT}")
        return page

    def _change(self, change: Callable[[TokenPage], tuple[Grant, ...]]) -> TokenPage:
        """Read the file, change its tokens and replace it under its lock; readers never see a part."""
        busy = StorageBusy(f"another process is changing {self.path}", suggestion="Call again in a moment.")
        try:
            with hold_private_lock(f"{self.path}.lock", wait_s=LOCK_WAIT_S, busy=busy):
                page = self.page()
                if not page.key:
                    page = msgspec.structs.replace(page, key=secrets.token_hex(KEY_BYTES))
                page = msgspec.structs.replace(page, tokens=change(page))
                self._write(msgspec.json.format(msgspec.json.encode(page), indent=1) + b"\n")
                return page
        except OSError as error:
            raise HostError(
                f"the tokens cannot be written to {self.path}: {error.strerror or error}",
                suggestion="Name a file that you may write with --tokens.",
            ) from error

    def _write(self, data: bytes) -> None:
        """Replace the content atomically, with the permissions that the file had."""

        def keep_owner(descriptor: int) -> None:
            if os.name == "posix" and self.path.exists():  # the server may run as another user than `ctx token`
                before = self.path.stat()
                with suppress(PermissionError):  # only the superuser may change the owner
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))

        replace_private(self.path, data, finish=keep_owner, flush=True)

    def _access_error(self, error: OSError) -> AccessFailed:
        return AccessFailed(
            f"the tokens in {self.path} cannot be read: {error.strerror or error}",
            suggestion="Let the user that runs the server read the file.",
        )

    def _damage_error(self, why: str) -> StorageCorrupt:
        return StorageCorrupt(
            f"the tokens in {self.path} cannot be taken: {why}",
            suggestion="Bring back a copy of the file, or delete it and create the tokens again.",
        )


def _digest(secret: str, token_id: str, key: str) -> str:
    """Return the stored hash of a secret: BLAKE2b under the key of the file, salted with the token's id."""
    salt = bytes.fromhex(token_id)
    return hashlib.blake2b(secret.encode(), key=bytes.fromhex(key), salt=salt, person=b"ctx token").hexdigest()


def _check_request(name: str, projects: Sequence[str], expires_s: float | None, now_s: float) -> None:
    """Check what a new token is to be. Raises: InvalidArgument."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:64]!r} is not a valid token name",
            suggestion="Use up to 64 letters, digits and . _ @ -: the audit log contains the name.",
        )
    if not projects or not all(map(str.strip, projects)):
        raise InvalidArgument(
            "a token must name the projects that it may see",
            suggestion=f"--project NAME, as often as needed, or --project '{EVERY_PROJECT}' for every project.",
        )
    if expires_s is not None and expires_s <= now_s:
        raise InvalidArgument("the token would be expired already", suggestion="--expires 90d, a date, or never.")


def required_role(touches: str, *, destructive: bool) -> Role:
    """Return the lowest role that may use a tool. `call_tool` touches nothing; the tool that it calls is checked.

    >>> [required_role(touches, destructive=touches == "index") for touches in ("nothing", "records", "index")]
    ['read', 'write', 'admin']
    """
    if touches in ("nothing", "anything"):
        return "read"
    if touches == "index" and destructive:
        return "admin"
    return "write"


def forbids(role: Role, touches: str, *, destructive: bool) -> bool:
    """Return whether a role may not use a tool."""
    return ROLES.index(role) < ROLES.index(required_role(touches, destructive=destructive))

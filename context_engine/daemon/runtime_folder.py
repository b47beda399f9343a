"""Where the daemon and its clients meet: a folder that only the user can open, and the key of the process.

    with RuntimeFolder.open(os.environ, create=True) as folder:
        address = folder.address(process_key(os.environ))

The key names one daemon: a hash of everything by which the answers of two processes could differ. Clients with other
settings, another version or another sandbox have another key, and so a daemon of their own. Nothing of the environment
travels over the socket.

Only a small part of the standard library is imported: `ctx search` waits for this module.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

from context_engine import CLIENT_VARIABLES, __version__

try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL, which takes longer than all else here
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

KEY_BYTES = 10
PATH_BYTES_MAX = 100
"""A Unix socket has a path of at most 104 bytes on macOS, 108 on Linux."""
SHARED_VARIABLES = (
    *("HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SUDO_UID"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""Variables of others that the Engine, git and the network clients read."""


class RuntimeFolderError(OSError):
    """The runtime folder is not one that only this user can open; its text says why."""


def process_key(env: Mapping[str, str]) -> str:
    """Return the key of the daemon for this environment: 20 hexadecimal digits.

    The variables of a client neither belong to the key nor reach the daemon.
    """
    settings = {name: value for name, value in env.items() if name.startswith("CTX_") and name not in CLIENT_VARIABLES}
    secrets = [value for name, value in settings.items() if name.endswith("_KEY_VARIABLE")]
    names = sorted({*settings, *SHARED_VARIABLES, *secrets})
    parts = [__version__, os.path.dirname(__file__), sys.executable, *_sandbox()]
    parts += [f"{name}={env[name]}" for name in names if name in env]
    return blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES).hexdigest()


def daemon_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a daemon that this client starts."""
    return {name: value for name, value in env.items() if name not in CLIENT_VARIABLES}


def _sandbox() -> list[str]:
    """Return the marks of this view of the file system: containers share home folders, but not their paths."""
    root = os.stat("/")
    try:
        namespace = os.readlink("/proc/self/ns/mnt")
    except OSError:
        namespace = ""
    return [f"{root.st_dev}:{root.st_ino}", namespace, os.uname().nodename]


class RuntimeFolder:
    """The open runtime folder. Its files are reached through its descriptor where the system can, never by a link."""

    def __init__(self, path: str, descriptor: int) -> None:
        """Use `RuntimeFolder.open`."""
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, env: Mapping[str, str], *, create: bool = False) -> Self:
        """Open the folder; `create` makes it where it is missing.

        Raises: RuntimeFolderError when it is a link, or others can open it; OSError when it is missing.
        """
        path = runtime_path(env)
        if create:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RuntimeFolderError(f"{path} is a link, or not a folder that can be opened: remove it") from error
        folder = cls(path, descriptor)
        if problem := _find_problem(path, os.fstat(descriptor)):
            folder.close()
            raise RuntimeFolderError(f"{path} {problem}")
        return folder

    def address(self, key: str) -> str:
        """Return the path of the socket of a daemon. Raises: OSError where it is too long for this system."""
        name = f"{key}.sock"
        if os.path.isdir("/proc/self/fd"):
            return f"/proc/self/fd/{self.descriptor}/{name}"
        path = os.path.join(self.path, name)
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise OSError(f"{path} is too long for a socket: set XDG_RUNTIME_DIR to a shorter folder")
        return path

    def open_file(self, name: str, flags: int) -> int:
        """Open a file of the folder, readable by its user alone, and return the descriptor. Raises: OSError."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.descriptor)

    def list_keys(self) -> list[str]:
        """Return the keys of the daemons that have a lock file."""
        return sorted(name.removesuffix(".lock") for name in os.listdir(self.descriptor) if name.endswith(".lock"))

    def remove(self, name: str) -> None:
        """Remove a file of the folder, if it is there."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def runtime_path(env: Mapping[str, str]) -> str:
    """Return where the folder is: in the runtime folder of the user's session, else in the user's cache."""
    session = env.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(session) and os.path.isdir(session):
        return os.path.join(session, "context-engine")
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        cache = os.path.join(home, "Library", "Caches")
    else:
        cache = os.path.join(home, ".cache")
    named = env.get("XDG_CACHE_HOME", "")
    return os.path.join(named if os.path.isabs(named) else cache, "context-engine", "run")


def _find_problem(path: str, status: os.stat_result) -> str:
    """Return why a folder is not the user's own; empty when it is."""
    if status.st_uid != os.geteuid():
        return f"belongs to the user {status.st_uid}, not to you: remove it, or set XDG_RUNTIME_DIR"
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"can be opened by other users: chmod 700 {path}"
    return ""

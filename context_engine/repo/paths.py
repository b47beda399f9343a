"""From what a caller typed to a checked path inside a root; `RelPath` is minted here and nowhere else.

Refused are everything outside the root (`..`, links that lead out, other drives, URIs), what is neither file nor
folder, and what holds secrets. Every refusal names the next step.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from context_engine.errors import AccessDenied, AccessFailed, FileNotFound, InvalidPath
from context_engine.model import RelPath
from context_engine.storage import ConfinedFolder, describe_kind
from context_engine.text import find_near_words

LISTED_NAMES_MAX = 2_000
"""Near names are searched among this many; a guess in a larger folder helps nobody."""

REAL_TRIES = 20
"""How often a path is resolved again whose links are exchanged in the same moment."""

RELATIVE = "Use a path relative to the workspace root, with forward slashes."


class Root:
    """One top folder. Turns text of callers into `RelPath`, and a `RelPath` into the file it names."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the folder, which is resolved once."""
        self._real = os.path.realpath(path)
        self._inside = self._real if self._real.endswith(os.sep) else self._real + os.sep
        self.path = Path(self._real)
        self.confined = ConfinedFolder(self._real)
        """Opens files for `RelPath`s, which contain no link: a folder that became one by now is not followed."""

    def __repr__(self) -> str:
        return f"Root({self._real!r})"

    def rel(self, text: str, *, must_exist: bool = True) -> RelPath:
        """Return the checked path of a file or folder: links resolved, `/` between its parts, `.` for the root itself.

        `must_exist=False` is for a file that is about to be written. Raises: InvalidPath, AccessDenied, FileNotFound
        (with near names), AccessFailed.
        """
        if problem := why_malformed(text, windows=os.name == "nt"):
            raise _invalid_path(text, *problem)
        typed = self._relative_text(text)
        if not typed.strip():
            raise _invalid_path(text, "its name is blank", RELATIVE)
        if reason := is_sensitive(typed):
            raise _access_denied(text, reason)
        try:
            real = real_path(os.path.join(self._real, typed))
        except OSError as error:
            raise _invalid_path(
                text, f"the system says: {error.strerror}", "Call again; it is being exchanged."
            ) from error
        if not self.contains(real):
            raise _invalid_path(
                text, "it is a link that leads out of the workspace", "Name a file inside the workspace."
            )
        rel = self._below(real)
        if reason := is_sensitive(rel):
            raise _access_denied(text, reason)
        self._check_kind(text, typed, rel, must_exist)
        return RelPath(rel)

    def absolute(self, rel: str) -> Path:
        """Return the path of a checked path on this machine."""
        return self.path / rel

    def contains(self, real: str) -> bool:
        """Return whether an absolute path without links is this root or is inside it."""
        return real == self._real or real.startswith(self._inside)

    def _relative_text(self, text: str) -> str:
        """Return a text relative to this root, unresolved. A backslash separates unless a file has that very name."""
        if "\\" in text and not os.path.lexists(os.path.join(self._real, text)):
            text = text.replace("\\", "/")
        if ".." in text.split("/"):
            raise _invalid_path(text, "`..` is not allowed in it", _without_dots(text))
        if os.path.isabs(text):
            return self._relative(text)
        return "/".join(part for part in text.split("/") if part not in {"", "."}) or "."

    def _relative(self, text: str) -> str:
        """Return an absolute path, which may go through a link, relative to this root."""
        plain = os.path.normpath(text)
        folder, name = os.path.split(plain)
        with suppress(OSError):  # its links are being exchanged
            for real in (plain, os.path.join(real_path(folder), name), real_path(plain)):
                if self.contains(real):
                    return self._below(real)
        raise _invalid_path(text, f"it is outside of {os.path.basename(self._real)}", RELATIVE)

    def _below(self, real: str) -> str:
        return real[len(self._inside) :].replace(os.sep, "/") or "."

    def _check_kind(self, text: str, typed: str, rel: str, must_exist: bool) -> None:
        try:
            mode = self.confined.stat("" if rel == "." else rel).st_mode
        except (FileNotFoundError, NotADirectoryError) as error:
            if must_exist:
                raise self._not_found(text, typed) from error
            return
        except PermissionError as error:
            raise AccessFailed(
                f"the system does not let this user see {_shorten(text)}",
                suggestion="Give it permission to enter the folders above.",
                details={"path": text},
            ) from error
        except OSError as error:  # too long for the file system, or a disk that fails
            raise _invalid_path(text, f"the system says: {error.strerror}", "Check the path.") from error
        if stat.S_ISLNK(mode):  # all links are resolved, save those that run in a circle
            raise _invalid_path(text, "it is a link that leads back to itself", "Name the file itself.")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise _invalid_path(text, f"it is {describe_kind(mode)}", "Name a file or a folder.")

    def _not_found(self, text: str, typed: str) -> FileNotFound:
        folder, _, name = typed.rpartition("/")
        while (names := self._names_in(folder)) is None and folder:
            folder, _, name = folder.rpartition("/")
        stem, ending = os.path.splitext(name)  # a common ending makes no two names similar
        known = {one.removesuffix(ending): one for one in names or ()}
        near = [f"{folder}/{known[one]}" if folder else known[one] for one in find_near_words(stem, known)]
        here = f"list_directory {folder or '.'!r} shows what is there."
        return FileNotFound(
            f"there is no {_shorten(text)} in the workspace",
            suggestion=f"Did you mean {' or '.join(near)}?" if near else here,
            details={"path": text, "near": near},
        )

    def _names_in(self, folder: str) -> list[str] | None:
        """Return names to guess from; None for a folder that does not exist or cannot be listed."""
        try:
            with self.confined.scan(folder) as listing:
                names = [entry.name for _, entry in zip(range(LISTED_NAMES_MAX), listing, strict=False)]
        except OSError:
            return None
        return sorted(name for name in names if not is_sensitive(f"{folder}/{name}"))


# -- what the text alone shows ------------------------------------------------------------------------------------

_DRIVE = re.compile(r"[A-Za-z]:")
_HOME = re.compile(r"~[\w-]*(?:[/\\]|$)")  # `~`, `~/x`, `~name`; `~notes.txt` is a file
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]+://|file:")
_WINDOWS_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\s*(\..*)?")
_PATH_CHARS_MAX = 4_096  # PATH_MAX of Linux; other systems allow less


def why_malformed(text: str, *, windows: bool = False) -> tuple[str, str] | None:
    r"""Return why a text cannot be a path of any workspace on this system, and what to do instead; None when it can.

    >>> why_malformed("src/a.py"), why_malformed("C:\\Users\\me")[0]
    (None, 'it names a Windows drive')
    """
    if not text.strip():
        return "it is empty", "Pass `.` for the root of the workspace."
    if "\0" in text:
        return "it holds a NUL character", "Remove it."
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "it contains a character that is not text", "Rename the file to a name in UTF-8."
    if len(text) > _PATH_CHARS_MAX:
        return f"it has {len(text):,} characters", "Check the path."
    if _SCHEME.match(text):
        return "it is a URI", "Pass the path alone, relative to the workspace root."
    if _HOME.match(text):
        return "`~` is not expanded", RELATIVE
    if text.startswith(("\\\\", "//?/", "//./")):
        return "it names a network share or a device", RELATIVE
    if _DRIVE.match(text) and (text[2:3] not in {"/", "\\"} if windows else text[2:3] in {"", "/", "\\"}):
        return "it names a Windows drive", RELATIVE
    if windows and (problem := _malformed_on_windows(text)):
        return problem, RELATIVE
    return None


def _malformed_on_windows(text: str) -> str | None:
    """Return why Windows takes a name for a device or a hidden stream, whatever its folder; None when it does not."""
    parts = re.split(r"[/\\]", _DRIVE.sub("", text, count=1) if _DRIVE.match(text) else text)
    if any(_WINDOWS_DEVICE.fullmatch(part.rstrip(". ")) for part in parts):
        return "it names a Windows device"
    if any(":" in part for part in parts):
        return "it names an alternate data stream"
    return None


def _without_dots(text: str) -> str:
    """Return the next step for a path with `..`: the path it means, where that stays inside."""
    plain = os.path.normpath(text).replace(os.sep, "/")
    if plain.startswith("..") or os.path.isabs(plain):
        return RELATIVE
    return f"Use {plain!r}."


# -- names that hold secrets --------------------------------------------------------------------------------------

_ENV = "an environment file with secrets"
_KEY = "a private key or a store of keys"
_KEYS = "a folder of keys"
_LOGIN = "a file with passwords or tokens"
_HISTORY = "the history of a shell"
_ENV_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"})

SENSITIVE_NAMES = {
    ".git": "git's own folder",
    ".hg": "Mercurial's own folder",
    ".svn": "Subversion's own folder",
    ".env": _ENV,
    **dict.fromkeys((".ssh", ".gnupg", ".password-store"), _KEYS),
    **dict.fromkeys(("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss", "id_ecdsa_sk", "id_ed25519_sk"), _KEY),
    **dict.fromkeys((".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".htpasswd", ".envrc"), _LOGIN),
    **dict.fromkeys((".git-credentials", ".dockercfg", ".boto", ".s3cfg", ".vault-token", ".terraformrc"), _LOGIN),
    "application_default_credentials.json": _LOGIN,
    **dict.fromkeys((".bash_history", ".zsh_history", ".sh_history", ".python_history", ".psql_history"), _HISTORY),
}
"""Lower-case names that are refused anywhere in a path, and why."""

SENSITIVE_SUFFIXES = {
    **dict.fromkeys((".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk", ".kdbx"), _KEY),
    ".tfstate": "Terraform's state, which holds secrets in clear",
}
"""Lower-case endings of names that are refused, and why."""

SENSITIVE_PAIRS = {
    ".aws": frozenset({"credentials", "config", "sso", "cli"}),
    ".docker": frozenset({"config.json"}),
    ".kube": frozenset({"config", "cache"}),
    ".azure": frozenset({"accesstokens.json", "azureprofile.json", "msal_token_cache.json", "msal_token_cache.bin"}),
    ".cargo": frozenset({"credentials", "credentials.toml"}),
    ".gem": frozenset({"credentials"}),
    ".terraform.d": frozenset({"credentials.tfrc.json"}),
    "gcloud": frozenset({"credentials.db", "access_tokens.db", "legacy_credentials"}),
    "gh": frozenset({"hosts.yml"}),
}
"""Folder -> names directly in it that are refused: where cloud tools store credentials."""


def is_sensitive(path: str) -> str | None:
    """Return why a path must not be read, judged by its components without regard to case; None when it may.

    >>> is_sensitive("home/.SSH/known_hosts"), is_sensitive("keys/id_rsa.pub")
    ('a folder of keys', None)
    """
    before = ""
    for part in path.replace("\\", "/").split("/"):
        name = plain_name(part)
        if reason := is_sensitive_name(name, before):
            return reason
        before = name
    return None


def is_sensitive_name(name: str, folder: str = "") -> str | None:
    """Return why a name must not be read, from it and the name of its folder, both as `plain_name`."""
    if reason := SENSITIVE_NAMES.get(name):
        return reason
    if folder in SENSITIVE_PAIRS and name in SENSITIVE_PAIRS[folder]:
        return _LOGIN
    if name.startswith(".env."):
        return None if name in _ENV_SAMPLES else _ENV
    return SENSITIVE_SUFFIXES.get(name[name.rfind(".") :]) if "." in name else None


def plain_name(part: str) -> str:
    r"""Return a path component as file systems that fold names see it: no case, invisible letters or dots at its end.

    >>> plain_name(".EnV. "), plain_name(".g\u200cit")
    ('.env', '.git')
    """
    if not part.isascii():
        part = "".join(char for char in part if char.isprintable())
    return part.casefold().rstrip(". ")


def real_path(path: str) -> str:
    """Return a path without links. Raises: OSError for links that are exchanged faster than they can be read."""
    for _ in range(REAL_TRIES):
        try:
            return os.path.realpath(path)
        except OSError as error:  # what was a link when it was looked at is none any more
            trouble = error
    raise trouble


# -- saying no, and minting what needs no check ---------------------------------------------------------------------


def is_under(path: str, place: str) -> bool:
    """Return whether a path is the place, or is in the folder of that name; everything is under "".

    >>> is_under("src/a.py", "src"), is_under("src/a.py", "src/a.py"), is_under("src2/a.py", "src"), is_under("a", "")
    (True, True, False, True)
    """
    return not place or path == place or path.startswith(place.rstrip("/") + "/")


def path_of_listing(path: str) -> RelPath:
    """Return the path of something that this package has found itself, going down from a root, without a check."""
    return RelPath(path)


def listed_all(paths: Iterable[str]) -> Iterator[RelPath]:
    """Return `path_of_listing` of many paths, quickly."""
    return map(RelPath, paths)


def _invalid_path(text: str, why: str, next_step: str) -> InvalidPath:
    return InvalidPath(
        f"{_shorten(text)} is not a path of this workspace: {why}",
        suggestion=next_step,
        details={"path": text[:_PATH_CHARS_MAX]},
    )


def _access_denied(text: str, reason: str) -> AccessDenied:
    is_own = reason.endswith("own folder")
    step = "Ask the user for what you need to know; a sample such as .env.example can be read."
    return AccessDenied(
        f"{_shorten(text)} is neither shown nor changed: it is {reason}",
        suggestion="Ask its program, as with `git log` or `git config --list`." if is_own else step,
        details={"path": text, "reason": reason},
    )


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:97] + "...")

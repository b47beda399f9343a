"""What a repository is called among machines: by where it comes from, which is the same wherever it is checked out."""

from __future__ import annotations

import os
import re

from context_engine.errors import AccessFailed, UnsupportedHost
from context_engine.repo.git import Git

_SCP = re.compile(r"(?:[^@/:]+@)?([^/:]+):(?!/)(.+)")
_ADDRESS = re.compile(r"\w+://(?:[^@/]*@)?([^/:]*)(?::\d+)?/+(.+)")
ORIGIN_WAIT_S = 5.0


def shared_name(root: str) -> str:
    """The name of a workspace: that of its origin, and the folder below its top; without an origin, of its own folder."""
    git = Git(root)
    try:
        said = git.run("config", "--get", "remote.origin.url", timeout_s=ORIGIN_WAIT_S)
    except (AccessFailed, UnsupportedHost):  # no repository, or one that comes from nowhere
        said = b""
    origin = origin_name(os.fsdecode(said).strip())
    below = git.below()
    return (f"{origin}/{below}" if below else origin) or os.path.basename(os.path.realpath(root))


def origin_name(address: str) -> str:
    """Host and path of a repository's address, however it is written; user, password and port are left out.

    >>> origin_name("git@github.com:team/app.git"), origin_name("https://me:<password>@GitHub.com/team/app/")
    ('github.com/team/app', 'github.com/team/app')
    >>> origin_name("file:///srv/git/app.git"), origin_name("/srv/git/app.git"), origin_name("")
    ('srv/git/app', 'srv/git/app', '')
    """
    found = _ADDRESS.fullmatch(address) or _SCP.fullmatch(address)
    host, path = found.groups() if found else ("", address)
    parts = [host.lower(), *path.replace("\\", "/").strip("/").removesuffix(".git").split("/")]
    return "/".join(part for part in parts if part)

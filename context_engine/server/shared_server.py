"""A server that a team shares, put together: its tokens, who lets their holders in, their dispatchers, the audit log.

There is a team where `--tokens` names a file, or where `ctx token create` made one and no single token was given.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from context_engine.errors import InvalidArgument
from context_engine.server.audit_log import AuditLog
from context_engine.server.authentication import Authenticator
from context_engine.server.client_sessions import ClientSessions
from context_engine.server.dispatcher import Log, ToolDispatcher
from context_engine.server.otel_spans import add_span_attributes
from context_engine.server.projects import Projects
from context_engine.server.serve_options import ServeOptions
from context_engine.server.token_file import TokenFile, default_token_file


@dataclass(frozen=True, slots=True)
class SharedServer:
    """The authentication and sessions of a server that several users share.

    Under `sealing_key` its processes seal what a client carries for them from one request to the next; `place` says in
    words where the tokens are.
    """

    sessions: ClientSessions
    authenticator: Authenticator
    sealing_key: bytes
    token_location: str


def is_shared(options: ServeOptions) -> bool:
    """Whether tokens of a team are asked for. Raises: InvalidArgument for options that exclude each other."""
    single = "CTX_HTTP_TOKEN" if options.http_token else "--token-file" if options.token_file else ""
    if options.tokens and single:
        raise InvalidArgument(
            f"--tokens and {single} exclude each other",
            suggestion="A token of the role admin for every project does what a single token does.",
        )
    shared = bool(options.http and (options.tokens or (not single and default_token_file().exists())))
    if options.audit_log and not shared:
        raise InvalidArgument(
            "--audit-log is for a server that a team shares", suggestion="Make tokens first: ctx token create NAME."
        )
    return shared


def create_shared_server(options: ServeOptions, dispatcher: ToolDispatcher, projects: Projects) -> SharedServer:
    """The team of a server.

    Raises: HostError, StorageCorrupt, AccessFailed, InvalidArgument, each with the next step.
    """
    path = Path(options.tokens).expanduser().absolute() if options.tokens else default_token_file()
    tokens = TokenFile(path, now=time.time)
    key = tokens.sealing_key()
    sessions = ClientSessions(dispatcher, projects, audit=_open_audit_log(options))
    count = len(tokens.page().tokens)
    place = f"one of the {count} in {path}" if count else f"in {path}, which has none yet: ctx token create NAME"
    return SharedServer(sessions, Authenticator(tokens, log=sessions.log_refusal), key, place)


def _open_audit_log(options: ServeOptions) -> Log | None:
    """The audit log that was asked for; spans hear of its lines as they do of those of the log."""
    if not options.audit_log:
        return None
    audit = AuditLog(options.audit_log, now=time.time).write
    return add_span_attributes(audit) if options.otel else audit

"""What the machines of a team share: a remote store of indexes, vectors and records, and their local copies."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.sharing.postgres_records import RecordLease
    from context_engine.sharing.records import RecordFolder, VersionedRecords
    from context_engine.sharing.remote_store import (
        RETRY_DELAY_S,
        ManifestRevision,
        RemoteStore,
        RepositoryLease,
        TeamStore,
        busy_error,
        hash_file,
        open_remote_store,
        open_vector_store,
        unavailable_error,
    )
    from context_engine.sharing.remote_vectors import RemoteVectorStore
    from context_engine.sharing.shared_records import SharedRecords, open_shared_records

__all__ = [
    "RETRY_DELAY_S",
    "ManifestRevision",
    "RecordFolder",
    "RecordLease",
    "RemoteStore",
    "RemoteVectorStore",
    "RepositoryLease",
    "SharedRecords",
    "TeamStore",
    "VersionedRecords",
    "busy_error",
    "hash_file",
    "open_remote_store",
    "open_shared_records",
    "open_vector_store",
    "unavailable_error",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "ManifestRevision": "remote_store",
        "RETRY_DELAY_S": "remote_store",
        "RecordFolder": "records",
        "RecordLease": "postgres_records",
        "RemoteStore": "remote_store",
        "RemoteVectorStore": "remote_vectors",
        "RepositoryLease": "remote_store",
        "SharedRecords": "shared_records",
        "TeamStore": "remote_store",
        "VersionedRecords": "records",
        "busy_error": "remote_store",
        "hash_file": "remote_store",
        "open_remote_store": "remote_store",
        "open_shared_records": "shared_records",
        "open_vector_store": "remote_store",
        "unavailable_error": "remote_store",
    },
)

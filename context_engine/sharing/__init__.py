"""What the machines of a team share: a remote store of indexes, vectors and records, and their local copies."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.sharing.candidate_store import (
        CANDIDATES_MAX,
        Candidate,
        CandidateQuery,
        CandidateStore,
        FileFilter,
        SearchableRevision,
        SearchableTotals,
        SegmentState,
        StoredFile,
        StoredTerm,
        open_candidate_store,
    )
    from context_engine.sharing.job_queue import RENEW_S, IndexSource, QueuedJob, open_job_queue
    from context_engine.sharing.postgres_jobs import JobLease, PostgresJobs
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
    "CANDIDATES_MAX",
    "RENEW_S",
    "RETRY_DELAY_S",
    "Candidate",
    "CandidateQuery",
    "CandidateStore",
    "FileFilter",
    "IndexSource",
    "JobLease",
    "ManifestRevision",
    "PostgresJobs",
    "QueuedJob",
    "RecordFolder",
    "RecordLease",
    "RemoteStore",
    "RemoteVectorStore",
    "RepositoryLease",
    "SearchableRevision",
    "SearchableTotals",
    "SegmentState",
    "SharedRecords",
    "StoredFile",
    "StoredTerm",
    "TeamStore",
    "VersionedRecords",
    "busy_error",
    "hash_file",
    "open_candidate_store",
    "open_job_queue",
    "open_remote_store",
    "open_shared_records",
    "open_vector_store",
    "unavailable_error",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "CANDIDATES_MAX": "candidate_store",
        "Candidate": "candidate_store",
        "CandidateQuery": "candidate_store",
        "CandidateStore": "candidate_store",
        "FileFilter": "candidate_store",
        "SearchableRevision": "candidate_store",
        "SearchableTotals": "candidate_store",
        "SegmentState": "candidate_store",
        "StoredFile": "candidate_store",
        "StoredTerm": "candidate_store",
        "open_candidate_store": "candidate_store",
        "QueuedJob": "job_queue",
        "IndexSource": "job_queue",
        "JobLease": "postgres_jobs",
        "PostgresJobs": "postgres_jobs",
        "RENEW_S": "job_queue",
        "open_job_queue": "job_queue",
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

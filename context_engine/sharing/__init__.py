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
    from context_engine.sharing.postgres_jobs import JobLease
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
        serves,
        unavailable_error,
    )
    from context_engine.sharing.shared_records import SharedRecords, open_shared_records

__getattr__ = lazy_exports(
    __name__,
    """
    candidate_store: CANDIDATES_MAX Candidate CandidateQuery CandidateStore FileFilter
        SearchableRevision SearchableTotals SegmentState StoredFile StoredTerm open_candidate_store
    job_queue: RENEW_S IndexSource QueuedJob open_job_queue
    postgres_jobs: JobLease
    postgres_records: RecordLease
    records: RecordFolder VersionedRecords
    remote_store: RETRY_DELAY_S ManifestRevision RemoteStore RepositoryLease TeamStore busy_error hash_file
        open_remote_store serves unavailable_error
    shared_records: SharedRecords open_shared_records
    """,
)

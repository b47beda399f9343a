"""Search inside PostgreSQL: candidates for a question over one or many repositories, with filters and rights applied.

    search_repository   totals of the living files of a repository, and the revision of the index they belong to
    search_segment      the segments of a repository, their dead files, and the importance of each file
    search_term         segment and term -> the files with the term, and what it is worth in each
    search_file         segment and file -> path, language, tags, and what our ranker needs to order it

Every statement names the repositories that may be seen, and reaches the other tables through their segments. The rows
of a repository change in one transaction, so a question sees one revision. The rows are derived from segments: the
writer of the index makes them, and they can be dropped and made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from context_engine.team.candidate_store import (
    Candidate,
    CandidateQuery,
    SearchableRevision,
    SearchableTotals,
    SegmentRows,
    StoredFile,
    StoredTerm,
)
from context_engine.team.postgres_session import PostgresSession, SchemaPart, fetch_value
from context_engine.team.remote_store import PublishedRepository

_TABLES = """
CREATE TABLE context_engine.search_repository (
    repository text PRIMARY KEY, revision bigint NOT NULL, files bigint NOT NULL, chunks bigint NOT NULL,
    lengths bigint[] NOT NULL
);
CREATE TABLE context_engine.search_segment (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, repository text NOT NULL, name text NOT NULL, number int NOT NULL,
    dead int[] NOT NULL DEFAULT '{}', importance bytea NOT NULL DEFAULT '', UNIQUE (repository, name)
);
CREATE TABLE context_engine.search_term (
    segment int NOT NULL, hash bigint NOT NULL, frequency int[] NOT NULL, files int[] NOT NULL,
    impacts smallint[] NOT NULL, path int[] NOT NULL, def int[] NOT NULL, doc int[] NOT NULL, symbol int[] NOT NULL,
    PRIMARY KEY (segment, hash)
);
CREATE TABLE context_engine.search_file (
    segment int NOT NULL, number int NOT NULL, path text NOT NULL, name text NOT NULL, language text NOT NULL,
    tags text[] NOT NULL, payload bytea NOT NULL, texts bytea, PRIMARY KEY (segment, number)
);
CREATE INDEX search_file_of_name ON context_engine.search_file (segment, name);
ALTER TABLE context_engine.search_segment ALTER importance SET STORAGE EXTERNAL;
ALTER TABLE context_engine.search_file ALTER payload SET STORAGE EXTERNAL;
ALTER TABLE context_engine.search_file ALTER texts SET STORAGE EXTERNAL;
"""
"""EXTERNAL: vectors and hashes do not get smaller by compression, texts are compressed, and importance is read in
slices."""
SEARCH = SchemaPart("search", ((_TABLES,),))
"""1: search_repository, search_segment, search_term, search_file."""

NAMED_WORTH = 1e6
"""Of a file with a name that the question has: it is a candidate whatever its words."""

_TOTALS = """
SELECT coalesce(sum(files), 0)::bigint, coalesce(sum(chunks), 0)::bigint,
    count(*) FILTER (WHERE manifest.revision <> searchable.revision),
    coalesce(sum(lengths[1]), 0)::bigint, coalesce(sum(lengths[2]), 0)::bigint,
    coalesce(sum(lengths[3]), 0)::bigint, coalesce(sum(lengths[4]), 0)::bigint
FROM context_engine.search_repository AS searchable JOIN context_engine.manifest USING (repository)
WHERE repository = ANY(%s)
"""
_FREQUENCIES = """
SELECT term.hash, sum(frequency[1])::bigint, sum(frequency[2])::bigint, sum(frequency[3])::bigint,
    sum(frequency[4])::bigint, sum(frequency[5])::bigint, sum(frequency[6])::bigint
FROM context_engine.search_segment AS segment JOIN context_engine.search_term AS term ON term.segment = segment.id
WHERE segment.repository = ANY(%s) AND term.hash = ANY(%s)
GROUP BY term.hash
"""
_CANDIDATES = """
WITH segment AS MATERIALIZED (
    SELECT id, repository, number, dead, importance FROM context_engine.search_segment
    WHERE repository = ANY(%(repositories)s)
), asked AS (
    SELECT * FROM unnest(%(hashes)s::bigint[], %(body)s::float4[], %(path)s::float4[], %(def)s::float4[],
        %(doc)s::float4[], %(symbol)s::float4[])
        AS asked(hash, body_worth, path_worth, def_worth, doc_worth, symbol_worth)
), term AS MATERIALIZED (
    SELECT term.*, asked.* FROM segment
    JOIN context_engine.search_term AS term ON term.segment = segment.id AND term.hash = ANY(%(hashes)s)
    JOIN asked ON asked.hash = term.hash
), found AS (
    SELECT segment, file, body_worth * impact AS worth FROM term, unnest(files, impacts) AS each(file, impact)
    WHERE body_worth > 0
    UNION ALL SELECT segment, unnest(path), path_worth FROM term WHERE path_worth > 0
    UNION ALL SELECT segment, unnest(def), def_worth FROM term WHERE def_worth > 0
    UNION ALL SELECT segment, unnest(doc), doc_worth FROM term WHERE doc_worth > 0
    UNION ALL SELECT segment, unnest(symbol), symbol_worth FROM term WHERE symbol_worth > 0
    UNION ALL SELECT named.segment, named.number, %(named)s::float4 FROM segment
    JOIN context_engine.search_file AS named ON named.segment = segment.id AND named.name = ANY(%(names)s)
), scored AS (
    SELECT segment, file, sum(worth) AS worth FROM found
    WHERE (segment, file) NOT IN (SELECT id, unnest(dead) FROM segment)
    GROUP BY segment, file
), best AS (
    SELECT scored.segment, scored.file, scored.worth FROM scored {filter}
    ORDER BY scored.worth DESC, scored.segment, scored.file LIMIT %(limit)s
)
SELECT segment.repository, best.segment, best.file, best.worth,
    substring(segment.importance FROM 2 * best.file + 1 FOR 2), file.payload
FROM best JOIN segment ON segment.id = best.segment
JOIN context_engine.search_file AS file ON file.segment = best.segment AND file.number = best.file
ORDER BY segment.repository, segment.number, best.file
"""
_FILTER = """
JOIN context_engine.search_file AS passing ON passing.segment = scored.segment AND passing.number = scored.file
WHERE (%(languages)s::text[] = '{}' OR lower(passing.language) = ANY(%(languages)s))
AND (%(tags_any)s::text[] = '{}' OR passing.tags && %(tags_any)s) AND passing.tags @> %(tags_all)s::text[]
AND (%(included)s::text[] = '{}' OR passing.path ~ ANY(%(included)s))
AND NOT passing.path ~ ANY(%(excluded)s::text[])
"""
_TEXTS = """
SELECT file.segment, file.number, file.texts
FROM context_engine.search_segment AS segment JOIN context_engine.search_file AS file ON file.segment = segment.id
JOIN unnest(%s::int[], %s::int[]) AS wanted(segment, number)
    ON wanted.segment = file.segment AND wanted.number = file.number
WHERE segment.repository = ANY(%s)
"""


class PostgresSearch(PostgresSession):
    """The searchable rows in the schema `context_engine` of one database. It connects at the first call.

    Thread-safe. All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    # -- reading --

    def list_repositories(self) -> list[PublishedRepository]:
        """Return the searchable repositories, sorted."""
        query = "SELECT repository, files, chunks FROM context_engine.search_repository ORDER BY repository"
        return [PublishedRepository(*row) for row in self.query(SEARCH, query)]

    def read_statistics(
        self, repositories: Collection[str], hashes: Sequence[int]
    ) -> tuple[SearchableTotals, dict[int, tuple[int, ...]]]:
        """Return the totals of these repositories, and the `FREQUENCIES` of each term that occurs, by hash."""
        total = (self.query(SEARCH, _TOTALS, ([*repositories],)) or [(0,) * 7])[0]
        rows = self.query(SEARCH, _FREQUENCIES, ([*repositories], [*hashes]))
        return SearchableTotals(*total[:3], total[3:]), {row[0]: row[1:] for row in rows}

    def find_candidates(self, repositories: Collection[str], query: CandidateQuery) -> list[Candidate]:
        """Return the best files of these repositories, ordered by repository, segment and number."""
        statement, values = compose_candidates(repositories, query)
        return [Candidate(*row) for row in self.query(SEARCH, statement, values)]

    def read_texts(
        self, repositories: Collection[str], files: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], bytes | None]:
        """Return the texts of files by (segment, number); files of other repositories are left out."""
        values = ([segment for segment, _ in files], [number for _, number in files], [*repositories])
        return {(row[0], row[1]): row[2] for row in self.query(SEARCH, _TEXTS, values)}

    # -- writing --

    def publish(self, repository: str, state: SearchableRevision, rows_of: SegmentRows) -> None:
        """Replace what is searched of a repository by another revision; only new segments are sent.

        One transaction of a repository runs at a time, and a newer revision stays. Raises: StoreUnavailable,
        StoreUnusable, DiskFull.
        """
        with self.transaction(SEARCH) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"search/{repository}",))
            select = "SELECT revision FROM context_engine.search_repository WHERE repository = %s"
            stored = connection.execute(select, (repository,)).fetchone()
            if stored and stored[0] > state.revision:
                return
            select = "SELECT name, id FROM context_engine.search_segment WHERE repository = %s"
            known = dict(connection.execute(select, (repository,)).fetchall())
            named = {segment.name for segment in state.segments}
            _delete_segments(connection, [number for name, number in known.items() if name not in named])
            for segment in state.segments:
                if segment.name not in known:
                    insert = (
                        "INSERT INTO context_engine.search_segment (repository, name, number) "
                        "VALUES (%s, %s, %s) RETURNING id"
                    )
                    number = fetch_value(connection, insert, (repository, segment.name, segment.number))
                    _copy_rows(connection, number, *rows_of(segment.name))
            update = (
                "UPDATE context_engine.search_segment SET number = %s, dead = %s::int[], importance = %s::bytea "
                "WHERE repository = %s AND name = %s "
                "AND (number, dead, importance) IS DISTINCT FROM (%s, %s::int[], %s::bytea)"
            )
            for segment in state.segments:
                values = (segment.number, [*segment.dead], segment.importance)
                connection.execute(update, (*values, repository, segment.name, *values))
            upsert = (
                "INSERT INTO context_engine.search_repository VALUES (%s, %s, %s, %s, %s) "
                "ON CONFLICT (repository) DO UPDATE SET revision = EXCLUDED.revision, files = EXCLUDED.files, "
                "chunks = EXCLUDED.chunks, lengths = EXCLUDED.lengths"
            )
            connection.execute(upsert, (repository, state.revision, state.files, state.chunks, [*state.lengths]))

    def revision(self, repository: str) -> int:
        """Return the revision that is searched; 0 when the repository is not searchable."""
        query = "SELECT revision FROM context_engine.search_repository WHERE repository = %s"
        rows = self.query(SEARCH, query, (repository,))
        return rows[0][0] if rows else 0

    def remove(self, repository: str) -> int:
        """Delete the rows of a repository; their bytes are not counted."""
        if not self.revision(repository):
            return 0
        with self.transaction(SEARCH) as connection:
            select = "SELECT id FROM context_engine.search_segment WHERE repository = %s"
            _delete_segments(connection, [number for (number,) in connection.execute(select, (repository,))])
            connection.execute("DELETE FROM context_engine.search_repository WHERE repository = %s", (repository,))
        return 0


def compose_candidates(repositories: Collection[str], query: CandidateQuery) -> tuple[LiteralString, dict[str, Any]]:
    """Return the statement that finds candidates, and its values."""
    values: dict[str, Any] = {
        "repositories": [*repositories],
        "hashes": [*query.hashes],
        "names": [*query.names],
        "named": NAMED_WORTH,
        "limit": query.limit,
        **{name: [*conditions] for name, conditions in query.filter._asdict().items()},
    }
    values |= {field: [*query.worths[at]] for at, field in enumerate(("body", "path", "def", "doc", "symbol"))}
    return _CANDIDATES.replace("{filter}", "" if query.filter.is_empty else _FILTER), values


def _delete_segments(connection: psycopg.Connection, numbers: Sequence[int]) -> None:
    for table, column in (("search_term", "segment"), ("search_file", "segment"), ("search_segment", "id")):
        delete = sql.SQL("DELETE FROM context_engine.{} WHERE {} = ANY(%s)")
        connection.execute(delete.format(sql.Identifier(table), sql.Identifier(column)), ([*numbers],))


def _copy_rows(
    connection: psycopg.Connection, segment: int, terms: Iterable[StoredTerm], files: Iterable[StoredFile]
) -> None:
    with connection.cursor() as cursor:
        with cursor.copy("COPY context_engine.search_term FROM STDIN") as copy:
            for term in terms:
                arrays = "\t".join("{" + ",".join(map(str, array)) + "}" for array in (*term[1:4], *term.listed))
                copy.write(f"{segment}\t{term.hash}\t{arrays}\n")
        with cursor.copy("COPY context_engine.search_file FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(("int4", "int4", "text", "text", "text", "text[]", "bytea", "bytea"))
            for file in files:
                name = file.path.rpartition("/")[2]
                copy.write_row(
                    (segment, file.number, file.path, name, file.language, [*file.tags], file.payload, file.texts)
                )

"""An index as rows of a database that searches them itself: Qdrant's engine and pgvector, laid out for many repositories.

One point or row a chunk, told apart by repository; the vectors and words are ours, so that only the searching is
theirs. The product keeps segments in a database instead (docs/decisions/0038); what this would cost is measured by
bench/engines.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bench.measure import ROOT

DEPTH = 50
"""Of each list, before both are fused: what an answer shows at most."""
EF = 128
"""How many neighbors an approximate search keeps in sight; Qdrant's examples say 128, pgvector's default is 40."""
BATCH = 500
PARTITIONS = 16

Wanted = Mapping[str, Sequence[str]]
"""`kind` and `language` -> those that may be found; empty: all."""


@dataclass(frozen=True, slots=True)
class Part:
    """The chunks of one repository: parallel sequences, a vector each, and its words as (hash, weight)."""

    repository: str
    paths: Sequence[str]
    lines: Sequence[tuple[int, int]]
    kinds: Sequence[str]
    languages: Sequence[str]
    vectors: npt.NDArray[np.float32]
    terms: Sequence[tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]]

    def __len__(self) -> int:
        return len(self.paths)

    def passing(self, wanted: Wanted) -> npt.NDArray[np.bool_]:
        """The chunks that a filter lets through."""
        columns = {"kind": self.kinds, "language": self.languages}
        masks = [np.isin(columns[name], list(values)) for name, values in wanted.items()]
        return np.logical_and.reduce(masks) if masks else np.ones(len(self), bool)


class Layout(Protocol):
    """A database with such rows in it."""

    name: str

    def build(self, parts: Sequence[Part]) -> None:
        """Put all in, and make what searches need."""
        ...

    def near(self, repository: str, vector: npt.NDArray[np.float32], wanted: Wanted, limit: int) -> list[int]:
        """The chunks of a repository whose vectors come nearest, by number."""
        ...

    def said(self, repository: str, terms: npt.NDArray[np.uint64], wanted: Wanted, limit: int) -> list[int]:
        """Those whose words weigh most."""
        ...

    def memory_mb(self) -> float:
        """Of all processes of the database: theirs alone, and what they share in memory."""
        ...

    def disk_mb(self) -> float:
        """Of its files."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class OnQdrant:
    """Tenants by payload index, graphs for each of them alone, vectors on disk with bytes in memory, words as sparse vectors."""

    name = "Qdrant's engine"

    def __init__(self, folder: Path) -> None:
        from qdrant_client import QdrantClient

        self._folder, self._begins = folder, {}
        command = [sys.executable, "-m", "tests.support.qdrant_shim", str(folder)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._client = QdrantClient(
            url=self._process.stdout.readline().strip(), timeout=3_600, check_compatibility=False
        )

    def build(self, parts: Sequence[Part]) -> None:
        from qdrant_client import models

        self._client.create_collection(
            "chunks",
            vectors_config={
                "dense": models.VectorParams(
                    size=parts[0].vectors.shape[1], distance=models.Distance.COSINE, on_disk=True
                )
            },
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
            hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
            quantization_config=models.ScalarQuantization(
                scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
            ),
            on_disk_payload=True,
        )
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        for field in ("repository", "kind", "language", "path"):
            schema = tenant if field == "repository" else models.PayloadSchemaType.KEYWORD
            self._client.create_payload_index("chunks", field, field_schema=schema)
        total = 0
        for part in parts:
            self._begins[part.repository] = total
            points = (self._point(part, number, total + number) for number in range(len(part)))
            while batch := list(islice(points, BATCH)):
                self._client.upsert("chunks", batch)
            total += len(part)
        self._client.update_collection("chunks", optimizers_config=models.OptimizersConfigDiff())

    def _point(self, part: Part, number: int, point: int) -> Any:
        from qdrant_client import models

        hashes, weights = part.terms[number]
        return models.PointStruct(
            id=point,
            vector={"dense": part.vectors[number].tolist(), "words": _sparse(hashes, weights)},
            payload={
                "repository": part.repository,
                "path": part.paths[number],
                "kind": part.kinds[number],
                "language": part.languages[number],
                "lines": part.lines[number],
            },
        )

    def near(self, repository: str, vector: npt.NDArray[np.float32], wanted: Wanted, limit: int) -> list[int]:
        from qdrant_client import models

        again = models.QuantizationSearchParams(rescore=True)
        return self._asked(repository, vector.tolist(), "dense", wanted, limit, hnsw_ef=EF, quantization=again)

    def said(self, repository: str, terms: npt.NDArray[np.uint64], wanted: Wanted, limit: int) -> list[int]:
        from qdrant_client import models

        corpus = models.IdfCorpusParams(corpus=models.Filter(must=_conditions({"repository": [repository]})))
        query = _sparse(terms, np.ones(len(terms), np.float32))
        return self._asked(repository, query, "words", wanted, limit, idf=corpus)

    def _asked(self, repository: str, query: Any, using: str, wanted: Wanted, limit: int, **params: Any) -> list[int]:
        from qdrant_client import models

        found = self._client.query_points(
            "chunks",
            query=query,
            using=using,
            query_filter=models.Filter(must=_conditions({"repository": [repository], **wanted})),
            search_params=models.SearchParams(**params),
            limit=limit,
            with_payload=["path", "lines"],
        )
        return [int(point.id) - self._begins[repository] for point in found.points]

    def memory_mb(self) -> float:
        return anonymous_mb([self._process.pid])

    def disk_mb(self) -> float:
        return sum(path.stat().st_blocks * 512 for path in self._folder.rglob("*") if path.is_file()) / 1e6

    def close(self) -> None:
        self._client.close()
        self._process.terminate()
        self._process.communicate()


def _sparse(hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.float32]) -> Any:
    """Words as Qdrant has them: 32 bits, each once."""
    from qdrant_client import models

    short, places = np.unique((hashes & 0xFFFFFFFF).astype(np.int64), return_inverse=True)
    return models.SparseVector(indices=short.tolist(), values=np.bincount(places, weights, len(short)).tolist())


def _conditions(wanted: Wanted) -> list[Any]:
    from qdrant_client import models

    return [models.FieldCondition(key=name, match=models.MatchAny(any=list(values))) for name, values in wanted.items()]


class OnPostgres:
    """Hash partitions by repository, a graph in each, tags in a GIN index, words as postings of our own."""

    name = "PostgreSQL with pgvector"

    def __init__(self, address: str) -> None:
        import psycopg

        self._connection = psycopg.connect(address, autocommit=True, prepare_threshold=None)

    def build(self, parts: Sequence[Part]) -> None:
        self._run(_TABLES.format(size=parts[0].vectors.shape[1]))
        for table in ("chunk", "posting"):
            for number in range(PARTITIONS):
                of = f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
                self._run(f"CREATE TABLE {table}_{number} PARTITION OF {table} {of}")
        for table, rows in (("chunk", _rows(parts)), ("posting", _postings(parts))):
            with self._connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        self._run(_INDEXES)

    def _run(self, statements: str) -> None:
        for statement in statements.strip().rstrip(";").split(";"):  # VACUUM stands alone
            self._connection.execute(statement.encode())

    def near(self, repository: str, vector: npt.NDArray[np.float32], wanted: Wanted, limit: int) -> list[int]:
        return self._asked(_NEAR, repository, wanted, limit, vector=_text(vector))

    def said(self, repository: str, terms: npt.NDArray[np.uint64], wanted: Wanted, limit: int) -> list[int]:
        return self._asked(_SAID, repository, wanted, limit, terms=terms.view(np.int64).tolist())

    def _asked(self, query: str, repository: str, wanted: Wanted, limit: int, **more: Any) -> list[int]:
        tags = [f"{name}:{value}" for name, values in wanted.items() for value in values]
        values = {"repository": repository, "tags": tags, "limit": limit, **more}
        which = "AND tags && %(tags)s" if tags else ""
        return [row[0] for row in self._connection.execute(query.format(which=which).encode(), values)]

    def memory_mb(self) -> float:
        row = self._connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        server = int((Path(row[0]) / "postmaster.pid").read_text("ascii").partition("\n")[0])
        children = [path.parent for path in Path("/proc").glob("[0-9]*/status") if f"PPid:\t{server}\n" in _read(path)]
        return anonymous_mb([server, *(int(child.name) for child in children)])

    def disk_mb(self) -> float:
        self._run("CHECKPOINT")
        size = "SELECT pg_database_size(current_database()) - pg_database_size('template1')"
        row = self._connection.execute(size).fetchone()
        return row[0] / 1e6 if row else 0.0

    def close(self) -> None:
        self._connection.close()


_TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE chunk (
    repository text, number int, path text, first int, last int, tags text[], embedding vector({size}),
    PRIMARY KEY (repository, number)
) PARTITION BY HASH (repository);
CREATE TABLE posting (repository text, term bigint, number int, weight real) PARTITION BY HASH (repository);
SET maintenance_work_mem = '1GB';
SET hnsw.iterative_scan = strict_order;
SET hnsw.ef_search = 128;
"""
_INDEXES = """
CREATE INDEX ON chunk (repository, path);
CREATE INDEX ON chunk USING gin (tags);
CREATE INDEX ON chunk USING hnsw (embedding vector_cosine_ops);
CREATE INDEX ON posting (repository, term) INCLUDE (number, weight);
VACUUM ANALYZE chunk, posting;
"""
_NEAR = """
SELECT number, path, first, last FROM chunk WHERE repository = %(repository)s {which}
ORDER BY embedding <=> %(vector)s::vector LIMIT %(limit)s
"""
_SAID = """
WITH found AS (SELECT term, number, weight FROM posting WHERE repository = %(repository)s AND term = ANY(%(terms)s)),
told AS (SELECT term, count(*) AS times FROM found GROUP BY term),
size AS (SELECT count(*) AS chunks FROM chunk WHERE repository = %(repository)s),
best AS (
    SELECT number, sum(weight * ln(1 + (chunks - times + .5) / (times + .5))) AS score
    FROM found JOIN told USING (term), size GROUP BY number
)
SELECT number, path, first, last FROM best JOIN chunk USING (number) WHERE repository = %(repository)s {which}
ORDER BY score DESC, number LIMIT %(limit)s
"""


def _rows(parts: Sequence[Part]) -> Iterator[tuple[object, ...]]:
    for part in parts:
        for number, (path, lines) in enumerate(zip(part.paths, part.lines, strict=True)):
            tags = [f"kind:{part.kinds[number]}", f"language:{part.languages[number]}"]
            yield part.repository, number, path, *lines, tags, _text(part.vectors[number])


def _postings(parts: Sequence[Part]) -> Iterator[tuple[object, ...]]:
    for part in parts:
        for number, (hashes, weights) in enumerate(part.terms):
            pairs = zip(hashes.view(np.int64).tolist(), weights.tolist(), strict=True)
            yield from ((part.repository, term, number, weight) for term, weight in pairs)


def _text(vector: npt.NDArray[np.float32]) -> str:
    return str(vector.tolist())


def anonymous_mb(processes: Sequence[int]) -> float:
    """Memory that cannot be given back to files, each shared page counted once."""
    rollups = [_read(Path(f"/proc/{process}/smaps_rollup")) for process in processes]
    return sum(int(kb) for each in rollups for kb in re.findall(r"Pss_(?:Anon|Shmem):\s+(\d+)", each)) / 1024


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:  # a process that ended between two looks
        return ""

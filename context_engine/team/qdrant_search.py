"""Search inside Qdrant: candidates for a question over one or many repositories, with filters and rights applied there.

    file         its terms as the sparse vector `words`, its summary as the dense vector `card`; what a filter asks for,
                 what our ranker needs, and the texts of its chunks
    terms        some terms of a segment, with their frequencies
    importance   the importance of some files of a segment, for one revision
    state        one for each repository: its revision, its totals and its segments
    writer       one for each repository: who publishes, and until when unless the lease is renewed

All are points of one collection, whose tenant index is the repository; every request that reads names the repositories
that may be seen. A dimension of `words` is a term in a field, so that one product adds up all fields.

Qdrant has no transaction over several points, so the order of the writes keeps a revision whole. New segments come
first. Then the state names them, in the place of the revision that it was made from, or nothing (a conditional upsert).
Then everything is deleted that the state does not name. A reader that met a newer state meanwhile asks again.
"""

from __future__ import annotations

import base64
import time
from array import array
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from secrets import token_hex
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt

from context_engine.errors import ContextEngineError
from context_engine.storage import prepare_type
from context_engine.team.candidate_store import (
    Candidate,
    CandidateQuery,
    FileFilter,
    SearchableRevision,
    SearchableTotals,
    SegmentRows,
    StoredFile,
    StoredTerm,
    split_path,
)
from context_engine.team.qdrant_session import QdrantSession, match_any, match_value
from context_engine.team.remote_store import (
    PublishedRepository,
    SegmentState,
    busy_error,
    keep_renewing,
    unavailable_error,
)
from context_engine.team.search_rows import damaged_row

COLLECTION = "ctx_search_v1"
"""Raise the number when points change: releases with different numbers have a collection each."""
CARD_NUMBERS = 256
"""Dimensions of the summaries of files; `index/encoder.py` makes them."""
FIELDS = {
    "repository": {"type": "keyword", "is_tenant": True},
    "what": "keyword",
    "segment": "integer",
    "language": "keyword",
    "tags": "keyword",
    "parts": "keyword",
    "revision": "integer",
    "owner": "keyword",
    "until": "float",
    "sent_at": "float",
}
"""All fields that our filters use: in strict mode, as on Qdrant's cloud, others are refused."""
NAMED_WORTH = 1e5
"""Of a file with a name that the question has: it is a candidate whatever its words."""
GROWTH = 4
"""How many times more files are asked for, when too few pass the filter of paths."""
NEAR_FILES = 50
"""Files that a question gets by the vectors of their summaries, besides those that it gets by words."""
BLOCK_TERMS = 16
"""Terms in a point: 300 bytes, so that a question over many repositories reads little."""
BLOCK_FILES = 256
MESSAGE_BYTES = 3_000_000
READ_TRIES = 4
"""A question reads again when a repository was published meanwhile."""
LEASE_S = 60.0
"""The next writer waits this long for one that was killed. Clocks of machines differ by less."""
RENEW_S = 15.0
LEASE_WAIT_S = 3.0
LOCK_POLL_S = 0.1
IN_ORDER = "?wait=true&ordering=strong"
"""Every replica sees writes in one order, so that all decide a conditional write the same way."""

_POINTS = f"/collections/{COLLECTION}/points"
_SALTS = np.array(
    [0, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5], np.uint64
)
"""One for each field, then one for names of files."""
_NAME = len(_SALTS) - 1
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(list[list[int]]).decode


class _Segment(msgspec.Struct, frozen=True):
    """A segment of a published state: `key` begins the ids of its points, `buckets` counts its points of terms."""

    key: int
    number: int
    buckets: int


class _State(msgspec.Struct, frozen=True):
    """A repository as readers know it; `gone` are files that are dead but may not have been deleted yet."""

    repository: str
    revision: int
    totals: tuple[int, ...]
    segments: tuple[_Segment, ...]
    gone: tuple[str, ...] = ()


class QdrantSearch:
    """The searchable points of one cluster. It connects at the first call.

    Thread-safe. All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    def __init__(self, address: str) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument."""
        self._session = QdrantSession(address)
        self.name = self._session.name

    # -- reading --

    def list_repositories(self) -> list[PublishedRepository]:
        """Return the searchable repositories, sorted."""
        states = self._session.scroll(
            COLLECTION, [match_value("what", "state")], ["repository", "totals", "committed_at"]
        )
        rows = ((state["repository"], *state["totals"][:2], state["committed_at"]) for state in states)
        return sorted(PublishedRepository(*row) for row in rows)

    def revision(self, repository: str) -> int:
        """Return the revision that is searched; 0 when the repository is not searchable."""
        return next((state.revision for state in self._read_states([repository])), 0)

    def read_statistics(
        self, repositories: Collection[str], hashes: Sequence[int]
    ) -> tuple[SearchableTotals, dict[int, tuple[int, ...]]]:
        """Return the totals of these repositories, and the frequencies of each term that occurs, by hash."""
        states = self._read_states(repositories)
        sums = [sum(column) for column in zip(*(state.totals for state in states), strict=True)] or [0] * 6
        ids = {
            _point_id(segment.key, _TERMS, _bucket(hashed, segment.buckets))
            for state in states
            for segment in state.segments
            for hashed in hashes
        }
        frequencies: dict[int, tuple[int, ...]] = {}
        wanted = set(hashes)
        for point in self._read_points(repositories, ids, ["terms"]):
            try:
                rows = _decode(_bytes(point["terms"]))
            except (msgspec.MsgspecError, ValueError) as error:
                raise damaged_row(error) from error
            for hashed, *counts in rows:
                if hashed in wanted:
                    before = frequencies.get(hashed, (0,) * len(counts))
                    frequencies[hashed] = tuple(map(sum, zip(before, counts, strict=True)))
        return SearchableTotals(sums[0], sums[1], 0, tuple(sums[2:])), frequencies

    def find_candidates(self, repositories: Collection[str], query: CandidateQuery) -> list[Candidate]:
        """Return the best files of these repositories, ordered by repository, segment and number."""
        for _ in range(READ_TRIES):
            states = self._read_states(repositories)
            if not states:
                return []
            worths = self._rank_files(states, query)
            points, again = self._read_files(states, worths)
            if again == {state.repository: state.revision for state in states}:
                return _make_candidates(states, worths, points)
        raise unavailable_error(self.name, "it is being published all the time")

    def read_texts(
        self, repositories: Collection[str], files: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], bytes | None]:
        """Return the texts of files by (segment, number); files of other repositories are left out."""
        places = {_point_id(segment, _FILE, number): (segment, number) for segment, number in files}
        points = self._read_points(repositories, places, ["texts"])
        return {places[point["id"]]: _bytes(point["texts"]) if point.get("texts") else None for point in points}

    def _read_states(self, repositories: Collection[str]) -> list[_State]:
        """Return the states of these repositories, sorted."""
        fields = ["repository", "revision", "totals", "segments", "gone"]
        must = [match_value("what", "state"), match_any("repository", [*repositories])]
        points = self._session.scroll(COLLECTION, must, fields)
        states = [msgspec.convert(point, prepare_type(_State)) for point in points]
        return sorted(states, key=lambda state: state.repository)

    def _read_points(
        self, repositories: Collection[str], ids: Iterable[str], fields: list[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield those of these points that belong to the repositories."""
        wanted = sorted(ids)
        if not wanted:
            return
        must = [match_any("repository", [*repositories]), {"has_id": wanted}]
        yield from self._session.scroll(COLLECTION, must, fields)

    def _rank_files(self, states: Sequence[_State], query: CandidateQuery) -> dict[str, float]:
        """Return the ids of the best files and their worth: those by words, and some more by their summaries."""
        chosen = {"filter": _choose_files(states, query.filter), "with_payload": ["path"]}
        words = {**chosen, "query": _query_vector(query), "using": "words"}
        near = {**chosen, "query": [*query.vector], "using": "card", "limit": NEAR_FILES}
        searches = [near] if query.vector else []
        by_words: dict[str, float] = {}
        by_card: dict[str, float] = {}
        size, is_more = query.limit, bool(words["query"]["indices"])
        while is_more or searches:
            if is_more:
                searches.append({**words, "limit": size})
            pages = self._session.request("POST", f"{_POINTS}/query/batch", {"searches": searches})
            found = [page["points"] for page in pages]
            if is_more:
                last = found.pop()
                by_words = _passing(last, query.filter)
                is_more = len(last) == size and len(by_words) < query.limit
                size *= GROWTH  # not a further page: files of the same worth may change places between two requests
            for points in found:
                by_card = _passing(points, query.filter)
            searches = []
        best = dict(list(by_words.items())[: query.limit])
        return {**dict.fromkeys(by_card, 0.0), **best}

    def _read_files(
        self, states: Sequence[_State], worths: Collection[str]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
        """Return the points of these files and of their importance, by id, and the revision of each repository now."""
        revisions = {segment.key: state.revision for state in states for segment in state.segments}
        blocks = {_importance_id(key, revisions[key], number) for key, number in map(_parse_id, worths)}
        ids = {*worths, *blocks, *(_state_id(state.repository) for state in states)}
        repositories = [state.repository for state in states]
        fields = ["payload", "importance", "what", "repository", "revision"]
        points = {point["id"]: point for point in self._read_points(repositories, ids, fields)}
        now = {point["repository"]: point["revision"] for point in points.values() if point["what"] == "state"}
        return points, now

    # -- writing --

    def publish(self, repository: str, state: SearchableRevision, rows_of: SegmentRows) -> None:
        """Replace what is searched of a repository by another revision; only new segments are sent.

        Raises: StorageBusy when another machine is publishing it, StoreUnavailable, StoreUnusable, DiskFull.
        """
        self._create_collection()
        with self._acquire_lease(repository) as lease:
            before = self._read_own_state(repository)
            known = {segment["name"]: segment for segment in before.get("segments", ())}
            segments = []
            gone = set(before.get("gone", ()))
            for segment in state.segments:
                stored = known.get(segment.name)
                dead = set(segment.dead)
                if stored is None or not set(stored["dead"]) <= dead:  # a dead file that is alive again was deleted
                    stored = self._send_segment(repository, state.revision, segment, rows_of)
                gone |= {_point_id(stored["key"], _FILE, number) for number in dead - set(stored["dead"])}
                segments.append({**stored, "number": segment.number, "dead": sorted(dead)})
            self._send_importance(repository, state, segments)
            payload = {
                "what": "state",
                "repository": repository,
                "revision": state.revision,
                "totals": [state.files, state.chunks, *state.lengths],
                "segments": segments,
                "gone": sorted(gone),
                "owner": lease.owner,
                "committed_at": time.time(),
            }
            self._swap_state(payload, before.get("revision", 0))
            self._delete_unnamed(payload, lease.expires_at)

    def remove(self, repository: str) -> int:
        """Delete the points of a repository; their bytes are not counted."""
        if self.revision(repository):
            with self._acquire_lease(repository):
                self._delete({"must": [match_value("repository", repository)]})
        return 0

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        self._session.close()

    def _create_collection(self) -> None:
        """Create the collection with its indexes, unless it exists."""
        if self._session.request("GET", f"/collections/{COLLECTION}/exists")["exists"]:
            return
        card = {"size": CARD_NUMBERS, "distance": "Dot", "on_disk": True}
        body = {
            "vectors": {"card": card},
            "sparse_vectors": {"words": {"index": {"on_disk": True, "datatype": "float16"}}},
            "hnsw_config": {"m": 0, "payload_m": 16},
            "quantization_config": {"scalar": {"type": "int8", "always_ram": True}},
            "on_disk_payload": True,
        }
        with suppress(ContextEngineError):  # another process was quicker
            self._session.request("PUT", f"/collections/{COLLECTION}", body)
        for field, schema in FIELDS.items():
            index = {"field_name": field, "field_schema": schema}
            self._session.request("PUT", f"/collections/{COLLECTION}/index?wait=true", index)

    def _read_own_state(self, repository: str) -> dict[str, Any]:
        """Return the state as the majority of the replicas has it, dead files included; empty when there is none."""
        body = {"ids": [_state_id(repository)], "with_payload": True}
        points = self._session.request("POST", f"{_POINTS}?consistency=majority", body)
        state = points[0]["payload"] if points else {}
        for segment in state.get("segments", ()):
            segment["dead"] = np.frombuffer(_bytes(segment["dead"]), "<u4").tolist()
        return state

    def _send_segment(
        self, repository: str, revision: int, segment: SegmentState, rows_of: SegmentRows
    ) -> dict[str, Any]:
        """Send the terms and the living files of a segment; return its entry in the state."""
        key = _hash(repository, segment.name, str(revision))
        term_rows, files = rows_of(segment.name)
        terms = list(term_rows)
        buckets = max(1, len(terms) // BLOCK_TERMS)
        common = {"repository": repository, "segment": key}
        batch = _Batch(self._session, common)
        blocks: dict[int, list[list[int]]] = {}
        for term in terms:
            blocks.setdefault(_bucket(term.hash, buckets), []).append([term.hash, *term.frequency])
        for number, block in blocks.items():
            batch.add(_point_id(key, _TERMS, number), {"what": "terms", "terms": _text(_encode(block))})
        vectors = _WordVectors(terms)
        del terms
        dead = set(segment.dead)
        for file in files:
            if file.number not in dead:
                batch.add(_point_id(key, _FILE, file.number), *_file_point(file, vectors.row(file)))
        batch.send()
        return {"key": key, "name": segment.name, "buckets": buckets, "dead": [*segment.dead]}

    def _send_importance(self, repository: str, state: SearchableRevision, segments: Sequence[dict[str, Any]]) -> None:
        common = {"what": "importance", "repository": repository, "revision": state.revision}
        batch = _Batch(self._session, common)
        for segment, stored in zip(state.segments, segments, strict=True):
            for number, start in enumerate(range(0, len(segment.importance), 2 * BLOCK_FILES)):
                weights = segment.importance[start : start + 2 * BLOCK_FILES]
                place = _point_id(_hash(str(stored["key"]), str(state.revision)), _IMPORTANCE, number)
                batch.add(place, {"segment": stored["key"], "importance": _text(weights)})
        batch.send()

    def _swap_state(self, payload: dict[str, Any], before: int) -> None:
        """Replace the state of a revision, then check that ours is stored. Raises: StorageBusy."""
        packed = [
            {**segment, "dead": _text(np.array(segment["dead"], "<u4").tobytes())} for segment in payload["segments"]
        ]
        point = {"id": _state_id(payload["repository"]), "vector": {}, "payload": {**payload, "segments": packed}}
        condition = {"must": [match_value("revision", before)]}
        self._session.request("PUT", f"{_POINTS}{IN_ORDER}", {"points": [point], "update_filter": condition})
        stored = self._read_own_state(payload["repository"])
        if (stored["revision"], stored["owner"]) != (payload["revision"], payload["owner"]):
            raise busy_error(payload["repository"])

    def _delete_unnamed(self, state: dict[str, Any], expires_at: float) -> None:
        """Delete what the state does not name; what was sent after our lease expired belongs to the next writer."""
        own = match_value("repository", state["repository"])
        is_old = {"key": "sent_at", "range": {"lt": expires_at}}
        if state["gone"]:
            self._delete({"must": [own, {"has_id": state["gone"]}]})
        named = [match_any("segment", [segment["key"] for segment in state["segments"]])]
        kept = [*named, match_any("what", ["state", "writer"])]
        self._delete({"must": [own, is_old], "must_not": kept})
        outdated = [match_value("revision", state["revision"])]
        self._delete({"must": [own, is_old, match_value("what", "importance")], "must_not": outdated})
        unchanged = {"must": [{"has_id": [_state_id(state["repository"])]}, *outdated]}
        self._session.request("POST", f"{_POINTS}/payload{IN_ORDER}", {"payload": {"gone": []}, "filter": unchanged})

    def _delete(self, chosen: dict[str, Any]) -> None:
        self._session.request("POST", f"{_POINTS}/delete{IN_ORDER}", {"filter": chosen})

    @contextmanager
    def _acquire_lease(self, repository: str) -> Generator[_Lease]:
        """Acquire the right to publish, as long as this process renews it. Raises: StorageBusy."""
        lease = _Lease(self._session, repository)
        deadline = time.monotonic() + LEASE_WAIT_S
        while not lease.renew():
            if time.monotonic() >= deadline:
                raise busy_error(repository)
            time.sleep(LOCK_POLL_S)
        try:
            with keep_renewing(lease.renew, RENEW_S, LEASE_S):  # without it the state that is replaced is another one
                yield lease
        finally:
            with suppress(ContextEngineError):  # it expires by itself, only later
                lease.release()


class _Lease:
    """The right to publish one repository, which its owner has to renew."""

    def __init__(self, session: QdrantSession, repository: str) -> None:
        self._session = session
        self._repository = repository
        self.owner = token_hex(8)
        self._id = _point_id(_hash(repository, "writer"), _STATE, 0)
        self.expires_at = 0.0

    def renew(self) -> bool:
        """Take or prolong the lease, unless another process has it; return whether it is ours."""
        now = time.time()
        until = now + LEASE_S
        payload = {"repository": self._repository, "what": "writer", "owner": self.owner, "until": until}
        is_free = [match_value("owner", self.owner), {"key": "until", "range": {"lt": now}}]
        point = {"id": self._id, "vector": {}, "payload": payload}
        body = {"points": [point], "update_filter": {"should": is_free}}
        self._session.request("PUT", f"{_POINTS}{IN_ORDER}", body)
        read = {"ids": [self._id], "with_payload": ["owner"]}
        points = self._session.request("POST", f"{_POINTS}?consistency=majority", read)
        if not points or points[0]["payload"]["owner"] != self.owner:
            return False
        self.expires_at = until
        return True

    def release(self) -> None:
        """Give up the lease, unless another process has it by now."""
        chosen = {"must": [{"has_id": [self._id]}, match_value("owner", self.owner)]}
        self._session.request("POST", f"{_POINTS}/delete{IN_ORDER}", {"filter": chosen})


class _Batch:
    """Points that are sent in messages of some megabytes; a message whose answer was lost is sent again."""

    def __init__(self, session: QdrantSession, common: dict[str, Any]) -> None:
        self._session = session
        self._common = common
        self._points: list[msgspec.Raw] = []
        self._bytes = 0

    def add(self, place: str, payload: dict[str, Any], vector: dict[str, Any] | None = None) -> None:
        """Add a point; send those before it when they are enough."""
        payload = self._common | payload | {"sent_at": time.time()}
        point = msgspec.json.encode({"id": place, "vector": vector or {}, "payload": payload})
        self._points.append(msgspec.Raw(point))
        self._bytes += len(point)
        if self._bytes > MESSAGE_BYTES:
            self.send()

    def send(self) -> None:
        """Send what was added; the server has then carried out all of it."""
        if self._points:
            self._session.request("PUT", f"{_POINTS}{IN_ORDER}", {"points": self._points})
        self._points, self._bytes = [], 0


# -- points --------------------------------------------------------------------------------------------------------

_FILE, _TERMS, _IMPORTANCE, _STATE = range(4)


def _hash(*parts: str) -> int:
    """Return 63 bits that are different for different parts."""
    return int.from_bytes(blake2b("\n".join(parts).encode(), digest_size=8).digest(), "big") >> 1


def _point_id(key: int, kind: int, number: int) -> str:
    """Return the id of a point, derived from what it is, so that a second attempt overwrites the first."""
    return str(UUID(int=key << 64 | kind << 32 | number))


def _parse_id(place: str) -> tuple[int, int]:
    """Return (key of its segment, number) of the point of a file."""
    value = UUID(place).int
    return value >> 64, value & 0xFFFFFFFF


def _state_id(repository: str) -> str:
    return _point_id(_hash(repository), _STATE, 0)


def _importance_id(key: int, revision: int, number: int) -> str:
    return _point_id(_hash(str(key), str(revision)), _IMPORTANCE, number // BLOCK_FILES)


def _bucket(hashed: int, buckets: int) -> int:
    return (hashed & 0xFFFFFFFFFFFFFFFF) % buckets


def _file_point(file: StoredFile, words: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return payload and vectors of a file."""
    payload = {
        "what": "file",
        "path": file.path,
        "parts": split_path(file.path),
        "language": file.language.lower(),
        "tags": [*file.tags],
        "payload": _text(file.payload),
        "texts": None if file.texts is None else _text(file.texts),
    }
    vector: dict[str, Any] = {"words": words}
    if len(file.card) == CARD_NUMBERS:
        vector["card"] = [round(number, 4) for number in file.card]
    return payload, vector


class _WordVectors:
    """The sparse vectors of the files of a segment, made from its terms."""

    def __init__(self, terms: Iterable[StoredTerm]) -> None:
        owners, worths, sizes = array("I"), array("H"), array("I")
        hashes, fields = array("q"), array("B")
        for term in terms:
            for field, files in enumerate((term.files, *term.listed)):
                if files:
                    owners.extend(files)
                    worths.extend(term.impacts if field == 0 else [1] * len(files))
                    sizes.append(len(files))
                    hashes.append(term.hash)
                    fields.append(field)
        numbers = np.repeat(_number_words(np.frombuffer(hashes, np.int64), np.frombuffer(fields, np.uint8)), sizes)
        files = np.frombuffer(owners, np.uint32)
        order = np.argsort(files, kind="stable")
        self._numbers, self._worths = numbers[order], np.frombuffer(worths, np.uint16)[order]
        self._files = files[order]

    def row(self, file: StoredFile) -> dict[str, Any]:
        """Return the vector of a file; of two terms with one number the first counts."""
        start, stop = np.searchsorted(self._files, [file.number, file.number + 1])
        numbers = np.append(self._numbers[start:stop], _number_name(file.path.rpartition("/")[2]))
        indices, first = np.unique(numbers, return_index=True)
        worths = np.append(self._worths[start:stop], 1)
        return {"indices": indices.tolist(), "values": worths[first].tolist()}


def _number_words(hashes: npt.NDArray[np.int64], fields: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return the dimension of each term in a field."""
    return (((hashes.view(np.uint64) ^ _SALTS[fields]) * _SPREAD) >> np.uint64(32)).astype(np.uint32)


def _number_name(name: str) -> int:
    return _number_words(np.array([_hash(name)], np.int64), np.array([_NAME], np.uint8)).item()


def _query_vector(query: CandidateQuery) -> dict[str, Any]:
    """Return the worth of each term in each field as a sparse vector."""
    hashes = np.array(query.hashes, np.int64)
    numbers: dict[int, float] = {}
    for field, worths in enumerate(query.worths):
        dimensions = _number_words(hashes, np.full(len(hashes), field, np.uint8)).tolist()
        numbers |= {number: worth for number, worth in zip(dimensions, worths, strict=True) if worth > 0}
    numbers |= {_number_name(name): NAMED_WORTH for name in query.names}
    return {"indices": [*numbers], "values": [*numbers.values()]}


# -- filters -------------------------------------------------------------------------------------------------------


def _choose_files(states: Sequence[_State], rules: FileFilter) -> dict[str, Any]:
    """Return the filter of a search. Of paths it says only what a path must have; `_passing` applies the rest."""
    keys = [segment.key for state in states for segment in state.segments]
    must = [match_any("repository", [state.repository for state in states]), match_any("segment", keys)]
    for field, values in (("language", rules.languages), ("tags", rules.tags_any), ("parts", rules.parts)):
        if values:
            must.append(match_any(field, [*values]))
    must += [match_value("tags", tag) for tag in rules.tags_all]
    gone = [place for state in states for place in state.gone]
    return {"must": must, "must_not": [{"has_id": gone}] if gone else []}


def _passing(points: Iterable[dict[str, Any]], rules: FileFilter) -> dict[str, float]:
    """Return the ids of the points whose path passes, in order, with their worth."""
    return {point["id"]: point["score"] for point in points if rules.accepts(point["payload"]["path"])}


# -- what is read --------------------------------------------------------------------------------------------------


def _make_candidates(
    states: Sequence[_State], worths: dict[str, float], points: dict[str, dict[str, Any]]
) -> list[Candidate]:
    """Return the candidates, ordered by repository, segment and number."""
    blocks = {place: _bytes(point["importance"]) for place, point in points.items() if point["what"] == "importance"}
    owners = {segment.key: (state, segment.number) for state in states for segment in state.segments}
    found = []
    for place, worth in worths.items():
        key, number = _parse_id(place)
        state, order = owners[key]
        at = 2 * (number % BLOCK_FILES)
        weight = blocks[_importance_id(key, state.revision, number)][at : at + 2]
        payload = _bytes(points[place]["payload"])
        candidate = Candidate(state.repository, key, number, worth, weight, payload)
        found.append(((state.repository, order, number), candidate))
    return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)

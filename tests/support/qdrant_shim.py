"""A Qdrant for tests: the REST calls of its own client, answered on this machine by its own engine (`qdrant-edge-py`).

    python -m tests.support.qdrant_shim FOLDER [--port N]      in a process of its own; says where it listens

The wire format is real, and so are filters, conditional upserts, payload indexes, dense and sparse search. Written here
is what the engine has not: collections by name, aliases, keys, the longest request, strict mode (a filter may name
indexed fields only, as on Qdrant's cloud). Not here, so that no test shows it: sharding, replication, consensus, roles
beyond a key that only reads, and an optimiser that begins by itself.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import qdrant_edge as edge

REQUEST_BYTES_MAX = 32 * 1024 * 1024
"""`service.max_request_size_mb` of a server that nobody configured."""
NO_VECTOR = "none"
"""A server's collection may have no vectors at all; a shard of the engine must have one, which no point fills."""
UPDATED = {"operation_id": 0, "status": "completed"}
Told = Callable[[str, str], None]


class Refused(Exception):  # noqa: N818 - as our own errors, it reads as the sentence it is
    """An answer that is not 200, as a server would give it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Cut(Exception):  # noqa: N818 - the same
    """The connection ends here, without an answer."""


class Shim:
    """The server: its data stay in `folder`, its port stays the same, however often it is stopped and started.

    A test may put functions of (method, path) into `before` and `after` a request is carried out; they may raise
    Refused or Cut.
    """

    def __init__(self, folder: Path, *, port: int = 0, key: str = "", reading_key: str = "", version: str = "1.16.0"):
        self.folder, self.port, self.key, self.reading_key, self.version = folder, port, key, reading_key, version
        self.before: Told = lambda method, path: None
        self.after: Told = lambda method, path: None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Load what is there and listen."""
        self.cluster = Cluster(self.folder)
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.shim = self
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Cut all connections, then let go of the files."""
        self._server.shutdown()
        self._thread.join()
        self._server.cut()
        self._server.server_close()
        self.cluster.close()

    def answer(self, method: str, path: str, key: str, body: bytes) -> object:
        """What a request gets as its result. Raises: Refused, Cut."""
        function, names = _route(method, path)
        self._admit(key, is_reading=function in READING)
        if len(body) > REQUEST_BYTES_MAX:
            text = f"Payload error: JSON payload ({len(body)} bytes) is larger than allowed (limit: {REQUEST_BYTES_MAX} bytes)."
            raise Refused(400, text)
        self.before(method, path)
        try:
            result = function(self.cluster, msgspec.json.decode(body) if body else {}, **names)
        except (Refused, Cut):
            raise
        except (ValueError, TypeError, KeyError) as error:
            raise Refused(400, f"Wrong input: {error}") from error
        except Exception as error:  # the engine's own class, which it does not show
            raise Refused(500, f"Service internal error: {error}") from error
        self.after(method, path)
        return result

    def _admit(self, key: str, *, is_reading: bool) -> None:
        if not self.key or key == self.key:
            return
        if not key or key != self.reading_key:
            raise Refused(
                401, "Invalid API key or JWT" if key else "Must provide an API key or an Authorization bearer token"
            )
        if not is_reading:
            raise Refused(403, "Forbidden: Global manage access is required")


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that a stop cuts them as a death would."""

    daemon_threads = False  # `server_close` waits for them, so that none is left on a shard that is closed
    shim: Shim

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note a connection."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget one."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none."""

    def cut(self) -> None:
        """End all connections."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave in one packet
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer one request, whatever its method."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, shim = self.path.partition("?")[0], cast(_Server, self.server).shim
        try:
            result = shim.answer(self.command, path, self.headers.get("api-key", ""), body)
        except Cut:
            self.close_connection = True
        except Refused as refused:
            self._reply(refused.status, {"status": {"error": refused.why}, "time": 0.0})
        else:
            version = {"title": "qdrant - vector search engine", "version": shim.version}
            self._reply(200, version if path == "/" else {"result": result, "status": "ok", "time": 0.0})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the library's names

    def _reply(self, status: int, content: object) -> None:
        data = msgspec.json.encode(content)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any, **__: Any) -> None:
        """Nothing is logged."""


class Cluster:
    """Collections, each a shard in a folder of its name, and the aliases. On disk at any moment."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.making = threading.Lock()
        whole = [each for each in folder.iterdir() if each.is_dir() and each.suffix != ".part"]
        self.shards = {each.name: edge.EdgeShard.load(str(each)) for each in whole}
        self._kept = folder / "aliases.json"
        self.aliases: dict[str, str] = msgspec.json.decode(self._kept.read_bytes()) if self._kept.exists() else {}

    def shard(self, name: str) -> edge.EdgeShard:
        """That of a collection or an alias. Raises: Refused."""
        shard = self.shards.get(self.aliases.get(name, name))
        if shard is None:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return shard

    def filter(self, name: str, body: dict[str, Any] | None) -> edge.Filter | None:
        """A filter over a collection, whose fields must all be indexed. Raises: Refused."""
        indexed = self.shard(name).info().payload_schema
        for key in keys_of(body or {}):
            if key not in indexed:
                raise Refused(400, f'Bad request: Index required but not found for "{key}"')
        return filter_of(body)

    def keep_aliases(self) -> None:
        """Write them anew, as a whole."""
        part = self._kept.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(self.aliases))
        part.replace(self._kept)

    def close(self) -> None:
        """Let go of all shards."""
        for shard in self.shards.values():
            shard.close()


# -- collections --


def root(cluster: Cluster, body: dict[str, Any]) -> object:
    return None


def collections(cluster: Cluster, body: dict[str, Any]) -> object:
    return {"collections": [{"name": name} for name in sorted(cluster.shards)]}


def exists(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    return {"exists": name in cluster.shards or name in cluster.aliases}


def create(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    """Under another name first, so that a kill leaves none that is half made."""
    config = config_of(body)
    with cluster.making:
        if name in cluster.shards:
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        part = cluster.folder / f"{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        edge.EdgeShard.create(str(part), config).close()
        part.replace(cluster.folder / name)
        cluster.shards[name] = edge.EdgeShard.load(str(cluster.folder / name))
    return True


def optimise(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    """A server does it by itself, and again when a collection is configured; the engine does it when it is told to."""
    known(body, "optimizers_config")
    cluster.shard(name).optimize()
    return True


def drop(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    with cluster.making:
        shard = cluster.shards.pop(name, None)
        if shard is not None:
            shard.close()
            shutil.rmtree(cluster.folder / name)
            cluster.aliases = {alias: of for alias, of in cluster.aliases.items() if of != name}
            cluster.keep_aliases()
    return shard is not None


def aliases(cluster: Cluster, body: dict[str, Any]) -> object:
    pairs = sorted(cluster.aliases.items())
    return {"aliases": [{"alias_name": alias, "collection_name": name} for alias, name in pairs]}


def change_aliases(cluster: Cluster, body: dict[str, Any]) -> object:
    """All of them or none."""
    known(body, "actions")
    with cluster.making:
        changed = dict(cluster.aliases)
        for action in body["actions"]:
            known(action, "create_alias", "delete_alias")
            if made := action.get("create_alias"):
                cluster.shard(made["collection_name"])
                changed[made["alias_name"]] = made["collection_name"]
            else:
                changed.pop(action["delete_alias"]["alias_name"], None)
        cluster.aliases = changed
        cluster.keep_aliases()
    return True


def create_index(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "field_name", "field_schema")
    schema = index_of(body["field_schema"])
    cluster.shard(name).update(edge.UpdateOperation.create_field_index(body["field_name"], schema))
    return UPDATED


# -- points --


def upsert(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "points", "update_filter")
    points = [edge.Point(each["id"], vectors_of(each["vector"]), each.get("payload")) for each in body["points"]]
    wanted = edge.UpdateOperation.upsert_points(points, condition=cluster.filter(name, body.get("update_filter")))
    cluster.shard(name).update(wanted)
    return UPDATED


def delete(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "points", "filter")
    chosen = cluster.filter(name, body.get("filter"))
    operation = edge.UpdateOperation
    done = operation.delete_points(body["points"]) if chosen is None else operation.delete_points_by_filter(chosen)
    cluster.shard(name).update(done)
    return UPDATED


def set_payload(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "payload", "points", "filter")
    chosen, operation = cluster.filter(name, body.get("filter")), edge.UpdateOperation
    if chosen is None:
        cluster.shard(name).update(operation.set_payload(body["points"], body["payload"]))
    else:
        cluster.shard(name).update(operation.set_payload_by_filter(chosen, body["payload"]))
    return UPDATED


def retrieve(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "ids", "with_payload", "with_vector")
    shown = payload_of(body.get("with_payload", True)), body.get("with_vector", False)
    return [record(each) for each in cluster.shard(name).retrieve(body["ids"], *shown)]


def scroll(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "filter", "limit", "offset", "with_payload", "with_vector")
    wanted = edge.ScrollRequest(
        offset=body.get("offset"),
        limit=body.get("limit", 10),
        filter=cluster.filter(name, body.get("filter")),
        with_payload=payload_of(body.get("with_payload", True)),
        with_vector=body.get("with_vector", False),
    )
    points, offset = cluster.shard(name).scroll(wanted)
    return {"points": [record(each) for each in points], "next_page_offset": offset}


def count(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "filter", "exact")
    wanted = edge.CountRequest(exact=body.get("exact", True), filter=cluster.filter(name, body.get("filter")))
    return {"count": cluster.shard(name).count(wanted)}


def query(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "query", "using", "prefetch", "filter", "params", "limit", "offset", "with_payload", "with_vector")
    prefetches = body.get("prefetch") or []
    wanted = edge.QueryRequest(
        limit=body.get("limit", 10),
        offset=body.get("offset"),
        query=query_of(body),
        prefetches=[prefetch_of(each) for each in ([prefetches] if isinstance(prefetches, dict) else prefetches)],
        filter=cluster.filter(name, body.get("filter")),
        params=params_of(body.get("params")),
        with_payload=payload_of(body.get("with_payload", False)),
        with_vector=body.get("with_vector", False),
    )
    found = cluster.shard(name).query(wanted)
    return {"points": [record(each) | {"score": each.score, "version": each.version} for each in found]}


def query_batch(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "searches")
    return [query(cluster, each, name) for each in body["searches"]]


ROUTES: tuple[tuple[str, str, Callable[..., object]], ...] = (
    ("GET", r"/", root),
    ("GET", r"/aliases", aliases),
    ("POST", r"/collections/aliases", change_aliases),
    ("GET", r"/collections", collections),
    ("GET", r"/collections/(?P<name>[^/]+)/exists", exists),
    ("PUT", r"/collections/(?P<name>[^/]+)", create),
    ("PATCH", r"/collections/(?P<name>[^/]+)", optimise),
    ("DELETE", r"/collections/(?P<name>[^/]+)", drop),
    ("PUT", r"/collections/(?P<name>[^/]+)/index", create_index),
    ("PUT", r"/collections/(?P<name>[^/]+)/points", upsert),
    ("POST", r"/collections/(?P<name>[^/]+)/points", retrieve),
    ("POST", r"/collections/(?P<name>[^/]+)/points/payload", set_payload),
    ("POST", r"/collections/(?P<name>[^/]+)/points/delete", delete),
    ("POST", r"/collections/(?P<name>[^/]+)/points/scroll", scroll),
    ("POST", r"/collections/(?P<name>[^/]+)/points/count", count),
    ("POST", r"/collections/(?P<name>[^/]+)/points/query", query),
    ("POST", r"/collections/(?P<name>[^/]+)/points/query/batch", query_batch),
)
READING = frozenset((root, aliases, collections, exists, retrieve, scroll, count, query, query_batch))


def _route(method: str, path: str) -> tuple[Callable[..., object], dict[str, str]]:
    for verb, pattern, function in ROUTES:
        if verb == method and (found := re.fullmatch(pattern, path)):
            return function, found.groupdict()
    raise Refused(404, f"the shim knows no {method} {path}")


# -- JSON to the engine's values; what is not known here is refused, never left out --


def known(body: dict[str, Any], *names: str) -> None:
    """Raises: ValueError for a word that would change the answer and is not understood here."""
    if strange := set(body) - set(names):
        raise ValueError(f"the shim does not know {', '.join(sorted(strange))}")


def config_of(body: dict[str, Any]) -> edge.EdgeConfig:
    known(body, "vectors", "sparse_vectors", "on_disk_payload", "hnsw_config", "quantization_config")
    dense = {name: dense_of(each) for name, each in (body.get("vectors") or {}).items()}
    sparse = {name: sparse_of(each) for name, each in (body.get("sparse_vectors") or {}).items()}
    return edge.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse if dense or sparse else {NO_VECTOR: edge.EdgeSparseVectorParams()},
        on_disk_payload=body.get("on_disk_payload"),
        hnsw_config=hnsw_of(body.get("hnsw_config")),
        quantization_config=quantisation_of(body.get("quantization_config")),
    )


def dense_of(body: dict[str, Any]) -> edge.EdgeVectorParams:
    known(body, "size", "distance", "on_disk", "quantization_config", "hnsw_config", "datatype")
    return edge.EdgeVectorParams(
        body["size"],
        getattr(edge.Distance, body["distance"]),
        on_disk=body.get("on_disk"),
        datatype=datatype_of(body.get("datatype")),
        quantization_config=quantisation_of(body.get("quantization_config")),
        hnsw_config=hnsw_of(body.get("hnsw_config")),
    )


def sparse_of(body: dict[str, Any]) -> edge.EdgeSparseVectorParams:
    known(body, "modifier", "index")
    modifier = {"idf": edge.Modifier.Idf, "none": None}[body.get("modifier", "none")]
    index = body.get("index", {})
    known(index, "on_disk", "datatype")
    return edge.EdgeSparseVectorParams(
        modifier=modifier, on_disk=index.get("on_disk"), datatype=datatype_of(index.get("datatype"))
    )


def datatype_of(name: str | None) -> edge.VectorStorageDatatype | None:
    return None if name is None else getattr(edge.VectorStorageDatatype, name.capitalize())


def hnsw_of(body: dict[str, Any] | None) -> edge.HnswIndexConfig | None:
    if body is None:
        return None
    known(body, "m", "payload_m", "ef_construct", "full_scan_threshold", "on_disk")
    settled: dict[str, Any] = {
        "m": 16,
        "ef_construct": 100,
        "full_scan_threshold": 10_000,
    } | body  # a server's defaults
    return edge.HnswIndexConfig(**settled)


def quantisation_of(body: dict[str, Any] | None) -> edge.ScalarQuantizationConfig | None:
    if body is None:
        return None
    known(body, "scalar")
    known(body["scalar"], "type", "always_ram")
    return edge.ScalarQuantizationConfig(edge.ScalarType.Int8, always_ram=body["scalar"].get("always_ram"))


def index_of(schema: str | dict[str, Any]) -> Any:
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, str) or kind != "keyword":
        return getattr(edge.PayloadSchemaType, kind.capitalize())
    known(schema, "type", "is_tenant", "on_disk")
    return edge.KeywordIndexParams(is_tenant=schema.get("is_tenant"), on_disk=schema.get("on_disk"))


def filter_of(body: dict[str, Any] | None) -> edge.Filter | None:
    """A filter; nothing stays nothing."""
    if body is None:
        return None
    known(body, "must", "should", "must_not")
    parts: dict[str, Any] = {name: [condition_of(each) for each in listed(body[name])] for name in body}
    return edge.Filter(**parts)


def keys_of(body: Any) -> Iterator[str]:
    """The payload fields that a filter names, at any depth."""
    if isinstance(body, dict):
        yield from [body["key"]] if "key" in body else []
        for each in body.values():
            yield from keys_of(each)
    elif isinstance(body, list):
        for each in body:
            yield from keys_of(each)


def condition_of(body: dict[str, Any]) -> Any:
    if "has_id" in body:
        return edge.HasIdCondition(set(body["has_id"]))
    if "key" not in body:
        return filter_of(body)
    known(body, "key", "match", "range")
    limits = edge.RangeFloat(**body["range"]) if "range" in body else None
    return edge.FieldCondition(body["key"], match=match_of(body.get("match")), range=limits)


def match_of(body: dict[str, Any] | None) -> Any:
    if body is None:
        return None
    kinds = {"value": edge.MatchValue, "any": edge.MatchAny, "except": edge.MatchExcept, "text": edge.MatchText}
    ((name, value),) = body.items()
    if isinstance(value, bool):
        raise ValueError("the shim cannot match a boolean: the engine's Python interface takes it for a number")
    return kinds[name](value)


def query_of(body: dict[str, Any]) -> Any:
    """The nearest to a vector, or the fusion of what was prefetched; None only filters."""
    wanted = body.get("query")
    if wanted is None:
        return None
    if isinstance(wanted, dict) and "fusion" in wanted:
        return {"rrf": edge.Fusion.Rrf, "dbsf": edge.Fusion.Dbsf}[wanted["fusion"]]
    nearest = wanted["nearest"] if isinstance(wanted, dict) and "nearest" in wanted else wanted
    return edge.Query.Nearest(vector_of(nearest), using=body.get("using"))


def prefetch_of(body: dict[str, Any]) -> edge.Prefetch:
    known(body, "query", "using", "filter", "params", "limit")
    return edge.Prefetch(
        limit=body.get("limit", 10),
        query=query_of(body),
        filter=filter_of(body.get("filter")),
        params=params_of(body.get("params")),
    )


def params_of(body: dict[str, Any] | None) -> edge.SearchParams | None:
    if body is None:
        return None
    known(body, "hnsw_ef", "exact", "quantization", "idf")
    again = edge.QuantizationSearchParams(**body["quantization"]) if "quantization" in body else None
    corpus = edge.IdfParams(filter_of(body["idf"]["corpus"])) if "idf" in body else None
    return edge.SearchParams(body.get("hnsw_ef"), body.get("exact", False), again, idf=corpus)


def vectors_of(body: Any) -> Any:
    """Of a point: one, or some by name."""
    return {name: vector_of(each) for name, each in body.items()} if isinstance(body, dict) else vector_of(body)


def vector_of(body: Any) -> Any:
    return edge.SparseVector(body["indices"], body["values"]) if isinstance(body, dict) else body


def payload_of(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    known(body, "include", "exclude")
    selector = edge.PayloadSelector
    return selector.Include(body["include"]) if "include" in body else selector.Exclude(body["exclude"])


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def record(found: Any) -> dict[str, Any]:
    """A point as the wire has it."""
    return {"id": found.id, "payload": found.payload} | ({} if found.vector is None else {"vector": found.vector})


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    shim = Shim(chosen.folder, port=chosen.port).start()
    print(shim.url, flush=True)
    with suppress(KeyboardInterrupt):
        ended.wait()
    shim.stop()


if __name__ == "__main__":
    main()

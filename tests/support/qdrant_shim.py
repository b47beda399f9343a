"""A Qdrant for tests: the REST calls that the product sends, answered on this machine by its own engine (`qdrant-edge-py`).

    python -m tests.support.qdrant_shim FOLDER [--port N]      in a process of its own; says where it listens

The wire format is real, and so are filters, conditional upserts, payload indexes, dense and sparse search. Written here
is what the engine has not: collections by name, keys, the longest request, strict mode (a filter may name
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import qdrant_edge as edge

REQUEST_BYTES_MAX = 32 * 1024 * 1024
"""`service.max_request_size_mb` of a server that nobody configured."""
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
    """Collections, each a shard in a folder of its name. On disk at any moment."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.making = threading.Lock()
        whole = [each for each in folder.iterdir() if each.is_dir() and each.suffix != ".part"]
        self.shards = {each.name: edge.EdgeShard.load(str(each)) for each in whole}

    def shard(self, name: str) -> edge.EdgeShard:
        """That of a collection. Raises: Refused."""
        shard = self.shards.get(name)
        if shard is None:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return shard

    def filter(self, name: str, body: dict[str, Any]) -> edge.Filter:
        """A filter over a collection, whose fields must all be indexed. Raises: Refused."""
        indexed = self.shard(name).info().payload_schema
        for key in keys_of(body):
            if key not in indexed:
                raise Refused(400, f'Bad request: Index required but not found for "{key}"')
        return filter_of(body)

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
    return {"exists": name in cluster.shards}


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


def create_index(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "field_name", "field_schema")
    schema = index_of(body["field_schema"])
    cluster.shard(name).update(edge.UpdateOperation.create_field_index(body["field_name"], schema))
    return UPDATED


# -- points --


def upsert(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "points", "update_filter")
    points = [
        edge.Point(
            each["id"], {vector: vector_of(value) for vector, value in each["vector"].items()}, each.get("payload")
        )
        for each in body["points"]
    ]
    condition = cluster.filter(name, body["update_filter"]) if "update_filter" in body else None
    wanted = edge.UpdateOperation.upsert_points(points, condition=condition)
    cluster.shard(name).update(wanted)
    return UPDATED


def delete(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "filter")
    chosen = cluster.filter(name, body["filter"])
    cluster.shard(name).update(edge.UpdateOperation.delete_points_by_filter(chosen))
    return UPDATED


def set_payload(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "payload", "filter")
    chosen = cluster.filter(name, body["filter"])
    cluster.shard(name).update(edge.UpdateOperation.set_payload_by_filter(chosen, body["payload"]))
    return UPDATED


def retrieve(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "ids", "with_payload")
    found = cluster.shard(name).retrieve(body["ids"], body["with_payload"], with_vector=False)
    return [record(each) for each in found]


def scroll(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "filter", "limit", "offset", "with_payload")
    wanted = edge.ScrollRequest(
        offset=body.get("offset"),
        limit=body["limit"],
        filter=cluster.filter(name, body["filter"]),
        with_payload=body["with_payload"],
    )
    points, offset = cluster.shard(name).scroll(wanted)
    return {"points": [record(each) for each in points], "next_page_offset": offset}


def query(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "query", "using", "filter", "limit", "with_payload")
    wanted = edge.QueryRequest(
        limit=body.get("limit", 10),
        query=edge.Query.Nearest(vector_of(body["query"]), using=body["using"]),
        filter=cluster.filter(name, body["filter"]),
        with_payload=body["with_payload"],
    )
    found = cluster.shard(name).query(wanted)
    return {"points": [record(each) | {"score": each.score, "version": each.version} for each in found]}


def query_batch(cluster: Cluster, body: dict[str, Any], name: str) -> object:
    known(body, "searches")
    return [query(cluster, each, name) for each in body["searches"]]


ROUTES: tuple[tuple[str, str, Callable[..., object]], ...] = (
    ("GET", r"/", root),
    ("GET", r"/collections", collections),
    ("GET", r"/collections/(?P<name>[^/]+)/exists", exists),
    ("PUT", r"/collections/(?P<name>[^/]+)", create),
    ("PUT", r"/collections/(?P<name>[^/]+)/index", create_index),
    ("PUT", r"/collections/(?P<name>[^/]+)/points", upsert),
    ("POST", r"/collections/(?P<name>[^/]+)/points", retrieve),
    ("POST", r"/collections/(?P<name>[^/]+)/points/payload", set_payload),
    ("POST", r"/collections/(?P<name>[^/]+)/points/delete", delete),
    ("POST", r"/collections/(?P<name>[^/]+)/points/scroll", scroll),
    ("POST", r"/collections/(?P<name>[^/]+)/points/query/batch", query_batch),
)
READING = frozenset((root, collections, exists, retrieve, scroll, query_batch))


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
    known(body["quantization_config"], "scalar")
    scalar = body["quantization_config"]["scalar"]
    known(scalar, "type", "always_ram")
    defaults = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}  # a server's
    return edge.EdgeConfig(
        vectors={name: dense_of(each) for name, each in body["vectors"].items()},
        sparse_vectors={name: sparse_of(each) for name, each in body["sparse_vectors"].items()},
        on_disk_payload=body["on_disk_payload"],
        hnsw_config=edge.HnswIndexConfig(**defaults | body["hnsw_config"]),
        quantization_config=edge.ScalarQuantizationConfig(edge.ScalarType.Int8, always_ram=scalar["always_ram"]),
    )


def dense_of(body: dict[str, Any]) -> edge.EdgeVectorParams:
    known(body, "size", "distance", "on_disk")
    return edge.EdgeVectorParams(body["size"], getattr(edge.Distance, body["distance"]), on_disk=body["on_disk"])


def sparse_of(body: dict[str, Any]) -> edge.EdgeSparseVectorParams:
    known(body, "index")
    known(body["index"], "on_disk", "datatype")
    datatype = getattr(edge.VectorStorageDatatype, body["index"]["datatype"].capitalize())
    return edge.EdgeSparseVectorParams(on_disk=body["index"]["on_disk"], datatype=datatype)


def index_of(schema: str | dict[str, Any]) -> Any:
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, str) or kind != "keyword":
        return getattr(edge.PayloadSchemaType, kind.capitalize())
    known(schema, "type", "is_tenant", "on_disk")
    return edge.KeywordIndexParams(is_tenant=schema.get("is_tenant"), on_disk=schema.get("on_disk"))


def filter_of(body: dict[str, Any]) -> edge.Filter:
    known(body, "must", "should", "must_not")
    parts: dict[str, Any] = {name: [condition_of(each) for each in body[name]] for name in body}
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
    ((name, value),) = body.items()
    return {"value": edge.MatchValue, "any": edge.MatchAny}[name](value)


def vector_of(body: Any) -> Any:
    return edge.SparseVector(body["indices"], body["values"]) if isinstance(body, dict) else body


def record(found: Any) -> dict[str, Any]:
    """A point as the wire has it."""
    return {"id": found.id, "payload": found.payload}


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

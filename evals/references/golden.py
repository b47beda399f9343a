"""Write down which uses a language server finds for definitions of a pinned repository.

    python evals/references/golden.py --mirrors /work/.mirror --only pallets/flask --server COMMAND...

The repositories are in `repositories.toml`. A sample of the definitions is drawn by their hash; for each place of their
names in the code of the same language the server is asked where that name is defined. Nothing of the repository is run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

from context_engine.index import qualified_names
from context_engine.languages import Grammars, Language, Languages, outline_file, read_syntax

HERE = Path(__file__).parent
KINDS = {"function", "method", "class", "interface", "struct", "enum", "trait", "constructor", "type"}
COMMENT_LINES_MAX = 60
"""Lines from the start of a comment to the name of what it describes."""
PLACES_MAX = 400
"""Places of one name: a name with more is not asked about."""
ANSWER_S = 120.0
BINARIES = (".webm", ".png", ".svg", ".gif", ".ico", ".mp4", ".woff2", ".jpg")
"""Left out of a checkout."""


ELSEWHERE = "-"
"""The path of a definition outside of the repository, in a table."""

Row = dict[str, Any]
Place = tuple[str, int, int]


class NamedPlace(NamedTuple):
    """A place of a name."""

    name: str
    line: int
    column: int


class LanguageServer:
    """A language server over stdio that is asked for definitions, one question at a time."""

    def __init__(self, command: list[str], root: Path) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root
        )
        self._number = 0
        self._answers: dict[int, Any] = {}
        self._arrived = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self._root = root
        options = {"processId": None, "rootUri": root.as_uri(), "capabilities": {"textDocument": {"definition": {}}}}
        options["workspaceFolders"] = [{"uri": root.as_uri(), "name": "repository"}]
        self.ask("initialize", options)
        self.notify("initialized", {})

    def open(self, path: str, language: str, text: str) -> None:
        """Open a file."""
        document = {"uri": (self._root / path).as_uri(), "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def close(self, path: str) -> None:
        """Close a file."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": (self._root / path).as_uri()}})

    def definitions(self, path: str, line: int, character: int) -> list[tuple[str, int, int]]:
        """Return where a name is defined, as path, line and column from 1; outside of the repository: path empty."""
        position = {"line": line - 1, "character": character}
        document = {"uri": (self._root / path).as_uri()}
        found = self.ask("textDocument/definition", {"textDocument": document, "position": position}) or []
        found = found if isinstance(found, list) else [found]
        return [self._place(place) for place in found]

    def _place(self, place: dict[str, Any]) -> tuple[str, int, int]:
        uri = place.get("targetUri") or place["uri"]
        start = (place.get("targetSelectionRange") or place.get("range"))["start"]
        file = Path(unquote(urlparse(uri).path)).resolve()
        inside = file.is_relative_to(self._root)
        return str(file.relative_to(self._root)) if inside else "", start["line"] + 1, start["character"] + 1

    def ask(self, method: str, parameters: Any) -> Any:
        """Send a request and return its result. Raises: TimeoutError."""
        self._number += 1
        number = self._number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._answers, ANSWER_S):
                raise TimeoutError(method)
            return self._answers.pop(number)

    def notify(self, method: str, parameters: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._process.stdin.flush()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream
        while True:
            length = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                return
            message = json.loads(stream.read(length))
            if "method" in message and "id" in message:
                items = (
                    message.get("params", {}).get("items", []) if message["method"] == "workspace/configuration" else []
                )
                result = [{} for _ in items] if items else None
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            elif "id" in message:
                with self._arrived:
                    self._answers[message["id"]] = message.get("result")
                    self._arrived.notify_all()


def check_out(mirrors: Path, repository: str, commit: str, into: Path, under: str = "") -> None:
    """Write the files of a commit into a folder, those below one of its folders."""
    mirror = mirrors / repository.replace("/", "+") / "repo"
    listed = subprocess.run(
        ["git", "-C", mirror, "ls-tree", "-r", "--name-only", "-z", commit], stdout=subprocess.PIPE, check=True
    )
    paths = [
        path
        for path in listed.stdout.decode().split("\0")
        if path and not path.endswith(BINARIES) and path.startswith(under)
    ]
    archive = subprocess.run(["git", "-C", mirror, "archive", commit, "--", *paths], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", into], input=archive.stdout, check=True)


def find_definitions(root: Path, language: str, grammars: Grammars) -> Iterator[Row]:
    """Yield every definition of the kinds that are asked about."""
    for path, known, data in code_files(root, language):
        outline = outline_file(known, data, grammars)
        lines = data.decode("utf-8", "replace").split("\n")
        for symbol, qualified in zip(outline.symbols, qualified_names(outline.symbols), strict=True):
            column = lines[symbol.line - 1].find(symbol.name) + 1
            if symbol.kind in KINDS and column:
                yield {"path": path, "line": symbol.line, "column": column, "name": symbol.name,
                       "qualified": qualified, "kind": symbol.kind}  # fmt: skip


def sample(definitions: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return so many definitions, chosen by their hash: half of them methods where there are enough."""

    def order(one: dict[str, Any]) -> str:
        return sha256(f"{one['path']}:{one['qualified']}".encode()).hexdigest()

    ordered = sorted(definitions, key=order)
    methods = [one for one in ordered if one["kind"] == "method"][: count // 2]
    others = [one for one in ordered if one["kind"] != "method"][: count - len(methods)]
    return methods + others


def sample_with_overloads(definitions: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return a sample, and the overloads of what is in it: they count as one definition."""
    chosen = {(one["path"], one["qualified"]) for one in sample(definitions, count)}
    return [one for one in definitions if (one["path"], one["qualified"]) in chosen]


def code_files(root: Path, language: str) -> Iterator[tuple[str, Language, bytes]]:
    """Yield the files in some languages: path, language, bytes."""
    languages = Languages.builtin()
    for file in sorted(root.rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        data = file.read_bytes()
        known = languages.detect(str(file.relative_to(root)), data[:65536])
        if known is not None and known.name in language.split(","):
            yield str(file.relative_to(root)), known, data


def find_places(root: Path, language: str, names: list[str], grammars: Grammars) -> dict[str, list[NamedPlace]]:
    """Return the places of some names in code, by file; names with very many places are left out."""
    places: dict[str, list[NamedPlace]] = {}
    counts: dict[str, int] = {}
    for path, known, data in code_files(root, language):
        file = read_syntax(path, known, data, grammars)
        for name in names:
            found = file.find(name) if file is not None and name.encode() in data else ()
            counts[name] = counts.get(name, 0) + len(found)
            places.setdefault(path, []).extend(NamedPlace(name, *file.position(at)) for at in found)
    return {path: [at for at in found if counts[at.name] <= PLACES_MAX] for path, found in places.items()}


def measure(root: Path, language: str, command: list[str], count: int, grammars: Grammars, warm_s: float) -> list[Row]:
    """Return the sampled definitions with the uses that the server knows."""
    chosen = sample(list(find_definitions(root, language, grammars)), count)
    places = find_places(root, language, sorted({one["name"] for one in chosen}), grammars)
    asked = {at.name for found in places.values() for at in found}
    chosen = [one | {"uses": [], "unknown": []} for one in chosen if one["name"] in asked]
    server = LanguageServer(command, root)
    try:
        for number, (path, listed) in enumerate(sorted(places.items())):
            text = (root / path).read_text("utf-8", "replace")
            server.open(path, language.split(",")[0], text)
            time.sleep(warm_s if number == 0 else 0)
            ask_about(server, path, text, listed, chosen, grammars)
            server.close(path)
    finally:
        server.stop()
    return chosen


def find_imported_names(path: str, text: str, grammars: Grammars, names: set[str]) -> set[tuple[str, int, int]]:
    """Return where a file imports some names: a server that answers with these did not find the definition."""
    language = Languages.builtin().detect(path, text.encode())
    file = read_syntax(path, language, text.encode(), grammars) if language is not None else None
    if file is None:
        return set()
    bound = [binding for name in names for binding in file.bindings(name)]
    taken = [one.node for one in bound if one.role == "import" or "require(" in file.text(one.statement)]
    return {(path, *file.position(node)) for node in taken}


def ask_about(
    server: LanguageServer, path: str, text: str, listed: list[NamedPlace], chosen: list[Row], grammars: Grammars
) -> None:
    """Add the places of one file to the definitions that they mean."""
    by_place = {(one["path"], one["line"], one["column"]): one for one in chosen}
    lines = text.split("\n")
    imported = find_imported_names(path, text, grammars, {at.name for at in listed})
    for at in listed:
        if (path, at.line, at.column) in by_place:
            continue
        character = len(lines[at.line - 1][: at.column - 1].encode("utf-16-le")) // 2
        found = [place for place in server.definitions(path, at.line, character) if place not in imported]
        for one in chosen if not found else ():
            if one["name"] == at.name:
                one["unknown"].append([path, at.line, at.column])
        found = [_name_place(place, at.name, by_place) for place in found]
        for place in set(found) - {(path, at.line, at.column)}:
            if place in by_place:
                by_place[place]["uses"].append([path, at.line, at.column])


def _name_place(place: Place, name: str, by_place: Mapping[Place, Row]) -> Place:
    """Return where the name of a definition is: some servers answer with the start of its comment."""
    if place in by_place:
        return place
    below = [one for one in by_place if one[0] == place[0] and 0 <= one[1] - place[1] <= COMMENT_LINES_MAX]
    return min((one for one in below if by_place[one]["name"] == name), default=place)


def find_trait_methods(root: Path, places: Iterable[Place], grammars: Grammars, kind: str) -> set[Place]:
    """Return those of some definitions that are in a trait of Rust, or in an `impl Trait for Type`."""
    found: set[Place] = set()
    language = Languages.builtin()["rust"]
    for path in {place[0] for place in places if place[0].endswith(".rs")}:
        file = read_syntax(path, language, (root / path).read_bytes(), grammars)
        scopes = file.scopes if file is not None else []
        if kind == "trait":
            chosen = [scope for scope in scopes if scope.node.type == "trait_item"]
        else:
            chosen = [scope for scope in scopes if scope.node.child_by_field_name("trait") is not None]
        lines = {scope.start_line: scope.stop_line for scope in chosen}
        found |= {one for one in places if one[0] == path and any(a < one[1] <= b for a, b in lines.items())}
    return found


def read_table(
    root: Path, language: str, command: list[str], count: int, grammars: Grammars, under: str = ""
) -> list[Row]:
    """Return the sampled definitions with the uses that a tool prints: use and definition, as path, line and column."""
    found = [one for one in find_definitions(root, language, grammars) if one["path"].startswith(under)]
    chosen = sample_with_overloads(found, count)
    printed = subprocess.run([*command[:1], root, *command[1:]], stdout=subprocess.PIPE, check=True).stdout.decode()
    meant: dict[tuple[str, int, int], set[tuple[str, int, int]]] = {}
    for line in printed.splitlines():
        path, row, column, target, to_row, to_column = line.split("\t")
        targets = meant.setdefault((path, int(row), int(column)), set())
        targets.add((target, int(to_row), int(to_column)))
    declared = {place for place, targets in meant.items() if place in targets}
    if declared:  # the tool knows which definitions there are: none in code that a condition leaves out
        chosen = [one for one in chosen if (one["path"], one["line"], one["column"]) in declared]
    places = find_places(root, language, sorted({one["name"] for one in chosen}), grammars)
    places = {path: listed for path, listed in places.items() if path.startswith(under)}
    asked = {at.name for listed in places.values() for at in listed}
    chosen = [one | {"uses": [], "unknown": []} for one in chosen if one["name"] in asked]
    by_place = {(one["path"], one["line"], one["column"]): one for one in chosen}
    traits = find_trait_methods(root, set().union(*meant.values()), grammars, "trait")
    implementing = find_trait_methods(root, by_place, grammars, "impl_trait")
    for path, listed in places.items():
        for at in listed:
            place = (path, at.line, at.column)
            targets = meant.get(place, set()) - {place}
            if targets & traits or any(target[0] == ELSEWHERE for target in targets):
                for one in chosen:  # the compiler names the trait, also where it knows the implementation
                    is_same = one["name"] == at.name and (one["path"], one["line"], one["column"]) in implementing
                    one["unknown"] += [[*place]] if is_same else []
            for target in targets & by_place.keys():
                by_place[target]["uses"].append([*place])
            if place not in meant and place not in by_place:
                for one in (one for one in chosen if one["name"] == at.name):
                    one["unknown"].append([*place])
    return chosen


def main() -> None:
    """Write the golden of each chosen repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--language", required=True)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--warm", type=float, default=3.0, help="seconds to wait for the server's first analysis")
    parser.add_argument("--table", action="store_true", help="the command prints a table; it is no server")
    parser.add_argument("--server", nargs=argparse.REMAINDER, required=True)
    chosen = parser.parse_args()
    listed = tomllib.loads((HERE / "repositories.toml").read_text())["repositories"]
    with tempfile.TemporaryDirectory() as folder:
        grammars = Grammars(Path(folder))
        for entry in listed:
            if entry["language"] != chosen.language or chosen.only not in entry["name"]:
                continue
            with tempfile.TemporaryDirectory() as checkout:
                root = Path(checkout).resolve()
                check_out(chosen.mirrors, entry["name"], entry["commit"], root)
                if chosen.table:
                    command = [*chosen.server, entry.get("module", "")]
                    rows = read_table(root, entry["files"], command, chosen.count, grammars, entry.get("under", ""))
                else:
                    rows = measure(root, entry["files"], chosen.server, chosen.count, grammars, chosen.warm)
            rows.sort(key=lambda one: (one["path"], one["line"]))
            out = HERE / "golden" / f"{entry['name'].replace('/', '+')}.jsonl"
            out.parent.mkdir(exist_ok=True)
            out.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in rows))
            print(entry["name"], len(rows), "definitions", sum(len(one["uses"]) for one in rows), "uses",
                  sum(len(one["unknown"]) for one in rows), "unknown", file=sys.stderr)  # fmt: skip


if __name__ == "__main__":
    main()

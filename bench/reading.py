"""What reading costs through the tools, beside a plain `open().read()` of the same files.

    python bench/reading.py                       on the packages that `make eval` fetched
    python bench/reading.py --folder DIR ...      on these repositories
    python bench/reading.py --files 200           so many files of each, spread over it (default 100)

Each file is read plainly, by `read_file`, by `read_fragment` for its first symbol, and by `read_file` with the project
files it imports: once with nothing parsed yet, and once more. Figures are milliseconds of one call in this process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ms, p50_p95, places, table
from context_engine import tools
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.settings import Settings

NO_LOOK_MS = 600_000
"""Nobody edits while reading is timed; a server has its watcher for that."""
SUFFIXES = (".py", ".php", ".go", ".ts", ".js", ".rs", ".java", ".c", ".rb")


def main() -> None:
    """Measure every folder and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, action="append", default=[])
    parser.add_argument("--files", type=int, default=100)
    arguments = parser.parse_args()
    for folder in arguments.folder or [place.folder for place in places(None, None)]:
        print(f"\n{folder.name}\n")
        print(table(("call", "files", "p50 ms", "p95 ms", "most ms"), measured(folder, arguments.files)))


def measured(folder: Path, count: int) -> list[tuple[object, ...]]:
    """A row for each way to read the same files."""
    with tempfile.TemporaryDirectory() as cache:
        settings = Settings(cache_folder=Path(cache), workers=0, staleness_ms=NO_LOOK_MS)
        with Engine.open(folder, settings=settings) as engine:
            engine.index.update()
            paths = some_files(folder, count)
            ways: list[tuple[str, Callable[[str], object]]] = [
                ("open().read()", lambda path: plain(folder, path)),
                ("read_file", lambda path: tools.call(engine, "read_file", {"path": path})),
                ("read_fragment, one symbol", lambda path: fragment(engine, path)),
                ("read_file with imports, first time", lambda path: with_imports(engine, path)),
                ("read_file with imports, again", lambda path: with_imports(engine, path)),
            ]
            return [row(name, way, paths) for name, way in ways]


def row(name: str, way: Callable[[str], object], paths: Sequence[str]) -> tuple[object, ...]:
    """Every file once, in the same order."""
    taken = [ms(lambda path=path: way(path)) for path in paths]
    p50, p95 = p50_p95(taken)
    return name, len(paths), f"{p50:.2f}", f"{p95:.2f}", f"{max(taken):.1f}"


def some_files(folder: Path, count: int) -> list[str]:
    """Files of code, spread evenly over the repository."""
    found = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES and path.is_file() and 0 < path.stat().st_size < 1_000_000
    )
    return found[:: max(1, len(found) // count)][:count]


def plain(folder: Path, path: str) -> str:
    """What anybody would do."""
    with (folder / path).open(encoding="utf-8", errors="replace") as file:
        return file.read()


def fragment(engine: Engine, path: str) -> None:
    """The first symbol of a file; the outline of one that has none."""
    symbols = engine.symbols.outline(path).symbols
    asked = {"symbols": [symbols[0][1].qualified]} if symbols else {}
    tools.call(engine, "read_fragment", {"path": path, **asked})


def with_imports(engine: Engine, path: str) -> None:
    """With the project files it imports; a file that is refused costs what the refusal costs."""
    try:
        tools.call(engine, "read_file", {"path": path, "include_deps": True})
    except ContextEngineError as error:
        print(f"{path}: {error.message}", file=sys.stderr)


if __name__ == "__main__":
    main()

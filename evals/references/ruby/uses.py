"""Print the calls of methods that happen while the tests of a repository run: use and definition, as path, line and column.

    python evals/references/golden.py --language ruby --table --server evals/references/ruby/uses.py

The tests of the checkout run (`calls.rb`), which is why the eval never does this by itself: it keeps the table. A call is listed
only if its line has the name once. A method that no test calls is not listed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def column_of(root: Path, path: str, line: int, name: str, texts: dict[str, list[str]]) -> int:
    """Return the column of a name that a line has once; else 0."""
    if path not in texts:
        file = root / path
        texts[path] = file.read_text("utf-8", "replace").split("\n") if file.is_file() else []
    written = texts[path][line - 1] if 0 < line <= len(texts[path]) else ""
    found = [*re.finditer(rf"(?<![\w?!]){re.escape(name)}(?![\w?!])", written)]
    return found[0].start() + 1 if len(found) == 1 else 0


def rows(root: Path, table: str) -> Iterator[str]:
    """Yield the lines of the table that golden.py reads."""
    texts: dict[str, list[str]] = {}
    for written in table.splitlines():
        path, line, name, target, target_line = written.split("\t")
        column = column_of(root, path, int(line), name, texts)
        if target == "-":
            place = ("-", 0, 0)
        else:
            place = (target, int(target_line), column_of(root, target, int(target_line), name, texts))
        if place[0] != "-" and place[2]:
            yield "\t".join(map(str, (*place, *place)))
        if column and (place[0] == "-" or place[2]):
            yield "\t".join(map(str, (path, line, column, *place)))


def main() -> None:
    """Run the tests that a pattern names, and print the table."""
    root = Path(sys.argv[1]).resolve()
    files = sorted(str(file.relative_to(root)) for file in root.glob(sys.argv[2]))
    with tempfile.NamedTemporaryFile() as output:
        command = ["ruby", "-W0", str(HERE / "calls.rb"), str(root), output.name, *files]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=500)
        table = Path(output.name).read_text("utf-8")
    sys.stdout.writelines(f"{row}\n" for row in sorted(set(rows(root, table))))


if __name__ == "__main__":
    main()

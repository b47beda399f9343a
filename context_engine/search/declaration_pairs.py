"""PURE. Which file declares what another one implements: a header and its source, an interface and its module.

>>> pair_declarations(["include/zoo/cat.h", "src/zoo/cat.cc", "src/app/cat.cc", "src/dog.h", "lib/dog.cpp", "x.ml"])
[(0, 1), (3, 4)]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

_C = (".c", ".cc", ".cpp", ".cxx", ".c++", ".m", ".mm")
IMPLEMENTATIONS = {
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".h++"), _C),
    ".mli": (".ml",),
    ".pyi": (".py", ".pyx"),
    ".hs-boot": (".hs",),
}
"""The suffixes of the files that implement what a file of the suffix declares."""


def pair_declarations(paths: Sequence[str], alive: Iterable[bool] | None = None) -> list[tuple[int, int]]:
    """Return (declaring file, implementing file) by their numbers: files of one stem, in one folder or alike.

    A folder is alike when it has the same name (`include/zoo` and `src/zoo`); if there is only one candidate, it may
    be anywhere. Files that are not `alive` do not count.
    """
    declaring: list[tuple[int, str, str, str]] = []
    by_stem: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for number, (path, lives) in enumerate(zip(paths, alive or [True] * len(paths), strict=True)):
        folder, _, name = path.rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        if not lives or not stem:
            continue
        if dot + suffix in IMPLEMENTATIONS:
            declaring.append((number, folder, stem, dot + suffix))
        else:
            by_stem[stem].append((number, folder, dot + suffix))
    pairs = []
    for number, folder, stem, suffix in declaring:
        found = [(other, where) for other, where, kind in by_stem[stem] if kind in IMPLEMENTATIONS[suffix]]
        near = [other for other, where in found if where == folder] or [
            other for other, where in found if where.rpartition("/")[2] == folder.rpartition("/")[2]
        ]
        if near or len(found) == 1:
            pairs.append((number, near[0] if near else found[0][0]))
    return pairs

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
_IMPLEMENTING = frozenset(suffix for suffixes in IMPLEMENTATIONS.values() for suffix in suffixes)


def pair_declarations(paths: Sequence[str], alive: Iterable[bool] | None = None) -> list[tuple[int, int]]:
    """Return (declaring file, implementing file) by their numbers: files of one stem, in one folder or alike.

    A folder is alike when it has the same name (`include/zoo` and `src/zoo`); if there is only one candidate, it may
    be anywhere. Files that are not `alive` do not count.
    """
    declaring: list[tuple[int, str, str, str]] = []
    in_folder: dict[tuple[str, str, str], int] = {}  # (suffix, stem, folder): the first such file
    in_like: dict[tuple[str, str, str], int] = {}  # the same by the name of the folder alone
    anywhere: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, (path, lives) in enumerate(zip(paths, alive or [True] * len(paths), strict=True)):
        folder, _, name = path.rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        if lives and stem and dot + suffix in IMPLEMENTATIONS:
            declaring.append((number, folder, stem, dot + suffix))
        elif lives and stem and dot + suffix in _IMPLEMENTING:
            in_folder.setdefault((dot + suffix, stem, folder), number)
            in_like.setdefault((dot + suffix, stem, folder.rpartition("/")[2]), number)
            anywhere[dot + suffix, stem].append(number)
    pairs = []
    for number, folder, stem, suffix in declaring:
        kinds = IMPLEMENTATIONS[suffix]
        near = [in_folder[kind, stem, folder] for kind in kinds if (kind, stem, folder) in in_folder]
        if not near:
            alike = folder.rpartition("/")[2]
            near = [in_like[kind, stem, alike] for kind in kinds if (kind, stem, alike) in in_like]
        if not near and sum(len(anywhere[kind, stem]) for kind in kinds) == 1:
            near = [other for kind in kinds for other in anywhere[kind, stem]]
        if near:
            pairs.append((number, min(near)))
    return pairs

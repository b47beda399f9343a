"""PURE. Which file declares what another one implements: a header and its source, an interface and its module.

>>> pair_declarations(["include/zoo/cat.h", "src/zoo/cat.cc", "src/app/cat.cc", "src/dog.h", "lib/dog.cpp", "x.ml"])
[(0, 1), (3, 4)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_C = (".c", ".cc", ".cpp", ".cxx", ".c++", ".m", ".mm")
IMPLEMENTATIONS = {
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".h++"), _C),
    ".mli": (".ml",),
    ".pyi": (".py", ".pyx"),
    ".hs-boot": (".hs",),
}
"""The suffixes of the files that implement what a file of the suffix declares."""
_GROUPS = {suffix: kinds[0] for kinds in IMPLEMENTATIONS.values() for suffix in kinds}
"""The group of each implementing suffix: those of one group implement the same kinds of file."""


def pair_declarations(paths: Sequence[str], alive: Iterable[bool] | None = None) -> list[tuple[int, int]]:
    """Return (declaring file, implementing file) by their numbers: files of one stem, in one folder or alike.

    A folder is alike when it has the same name (`include/zoo` and `src/zoo`); if there is only one candidate, it may
    be anywhere. Of several the first counts. Files that are not `alive` do not count.
    """
    declaring: list[tuple[int, str, tuple[str, str]]] = []
    in_folder: dict[tuple[tuple[str, str], str], int] = {}
    in_like: dict[tuple[tuple[str, str], str], int] = {}  # by the name of the folder alone
    anywhere: dict[tuple[str, str], int] = {}  # -1: several
    for number, (path, lives) in enumerate(zip(paths, alive or [True] * len(paths), strict=True)):
        folder, _, name = path.rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        if not lives or not stem:
            continue
        suffix = dot + suffix
        if suffix in IMPLEMENTATIONS:
            declaring.append((number, folder, (IMPLEMENTATIONS[suffix][0], stem)))
        elif suffix in _GROUPS:
            key = (_GROUPS[suffix], stem)
            in_folder.setdefault((key, folder), number)
            in_like.setdefault((key, folder.rpartition("/")[2]), number)
            anywhere[key] = -1 if key in anywhere else number
    pairs = []
    for number, folder, key in declaring:
        if key in anywhere:
            near = in_folder.get((key, folder))
            if near is None:
                near = in_like.get((key, folder.rpartition("/")[2]), anywhere[key])
            if near >= 0:
                pairs.append((number, near))
    return pairs

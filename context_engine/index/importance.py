"""The importance of a file to other files: PageRank over the uses of names that only one file defines.

The graph comes from the postings; nothing is parsed for it. PageRank: Brin & Page 1998, damping 0.85.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from context_engine.index.snapshot import Snapshot

DAMPING = 0.85
ROUNDS = 20
"""The residual halves about every four rounds; ranks are only read through a logarithm."""
SCALE = 5.0


def importance(snapshot: Snapshot) -> npt.NDArray[np.float32]:
    """Compute a value of at least 0 per file: log(rank * files / (1 - damping)) / 5, so an unused file has 0."""
    files = snapshot.files
    sources, targets = _references(snapshot)
    alive = int(snapshot.file_alive.sum())
    if not len(sources) or not alive:
        return np.zeros(files, np.float32)
    rank = _pagerank(sources, targets, files, snapshot.file_alive)
    with np.errstate(divide="ignore"):
        value = np.log(rank * alive / (1 - DAMPING)) / SCALE
    return np.maximum(value, 0).astype(np.float32)


def _references(snapshot: Snapshot) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return (using file, defining file) pairs, each once."""
    files = snapshot.files
    hashes, definers = _unique_definitions(snapshot)
    keys = [np.zeros(0, np.int64)]
    for postings, base in snapshot.postings("body"):
        places = postings.find(hashes)
        known = np.flatnonzero(places >= 0)
        starts = postings.indptr[places[known]].astype(np.int64)
        sizes = postings.indptr[places[known] + 1].astype(np.int64) - starts
        at = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes - starts, sizes)
        users = snapshot.chunk_file[postings.ids[at].astype(np.intp) + base]
        keys.append(np.unique(users * files + np.repeat(definers[known], sizes)))  # a file is in one segment
    sources, targets = np.divmod(np.concatenate(keys), max(files, 1))
    keep = (sources != targets) & snapshot.file_alive[sources]
    return sources[keep], targets[keep]


def _unique_definitions(snapshot: Snapshot) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp]]:
    """Return names that exactly one living file defines, and that file."""
    found, owners = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    for postings, base in snapshot.postings("symbol"):
        terms, ids = postings.pairs()
        files = snapshot.chunk_file[ids.astype(np.intp) + base].astype(np.int32)
        is_new = np.append(True, (terms[1:] != terms[:-1]) | (files[1:] != files[:-1]))[: len(terms)]
        is_new &= snapshot.file_alive[files]
        found.append(postings.hashes[terms[is_new]])
        owners.append(files[is_new])
    hashes, files = np.concatenate(found), np.concatenate(owners)
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
    single = starts[np.diff(np.append(starts, len(hashes))) == 1]
    return hashes[single], files[order[single]].astype(np.intp)


def _pagerank(
    sources: npt.NDArray[np.intp], targets: npt.NDArray[np.intp], files: int, alive: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    living = alive.astype(np.float64)
    count = living.sum()
    out = np.bincount(sources, minlength=files)
    share = 1 / np.maximum(out, 1)
    rank = living / count
    for _ in range(ROUNDS):
        lost = float(rank[(out == 0) & alive].sum())
        flow = np.bincount(targets, (rank * share)[sources], files)
        rank = living * ((1 - DAMPING) / count + DAMPING * (flow + lost / count))
    return rank

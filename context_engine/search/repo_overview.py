"""The overview of a repository: its languages, its folders, its entry points and its central files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from context_engine.index import ROLES, Snapshot
from context_engine.model import Landmarks

FOLDERS_MAX = 8
LANGUAGES_MAX = 6
STARTS_MAX = 6
CENTRAL_MAX = 6
"""All of them take some 300 tokens of a prompt."""
ENCLOSING_SHARE = 0.6
"""A folder with more of the files than this (`src`, `packages`) says less than the folders in it."""
FOLDED_LEVELS_MAX = 3
ROOT_FOLDER = "./"
ROOT_SHARE_MIN = 0.25
"""Most of a repository's Go or C files may be in its root; a `setup.py` there says nothing."""
TELLING = ("source", "init")
"""The roles of files of the program itself; tests, examples and vendored code do not start it."""

_STARTS = re.compile(
    r"(^|/)(__main__\.py|manage\.py|wsgi\.py|asgi\.py|(main|cli|app|server)\.\w{1,4}|index\.[cm]?[jt]sx?"
    r"|Main\.\w+|Program\.(cs|fs|vb)|Application\.(java|kt)|lib\.rs|artisan|config\.ru)$|(^|/)(bin|exe)/[^/]+$"
)


def find_landmarks(snapshot: Snapshot, freshness: str) -> Landmarks:
    """Return the landmarks of a snapshot."""
    files = list(snapshot.by_path.items())
    role, language, weight = (
        column.tolist()
        for column in (snapshot.file_column("role"), snapshot.file_column("language"), snapshot.importance)
    )
    telling = {path: weight[number] for path, number in files if ROLES[role[number]] in TELLING}
    languages = Counter(snapshot.languages[language[number]] for _, number in files)
    folders = _folders([*telling])
    return Landmarks(
        files=len(files),
        languages=tuple(languages.most_common(LANGUAGES_MAX)),
        folders=folders,
        starts=tuple(sorted(filter(_STARTS.search, telling), key=lambda path: (path.count("/"), path))[:STARTS_MAX]),
        central=tuple(_central(telling, [folder for folder, _ in folders])[:CENTRAL_MAX]),
        freshness=freshness,
    )


def _folders(paths: list[str], above: str = "", levels: int = FOLDED_LEVELS_MAX) -> tuple[tuple[str, int], ...]:
    """Return the main folders, largest first: the top ones, or those in the one that contains nearly all files.

    A folder that was opened up like this counts for the files that are directly in it, as does the root, `./`, if it
    has many.
    """
    here = above or ROOT_FOLDER
    counts = Counter(path[: path.find("/", len(above)) + 1] if "/" in path[len(above) :] else here for path in paths)
    if counts[ROOT_FOLDER] < len(paths) * ROOT_SHARE_MIN:
        del counts[ROOT_FOLDER]  # scripts that build or test
    ordered = tuple(sorted(counts.items(), key=lambda row: (-row[1], row[0])))
    if levels and ordered and ordered[0][0] != here and ordered[0][1] > len(paths) * ENCLOSING_SHARE:
        enclosing = ordered[0][0]
        return _folders([path for path in paths if path.startswith(enclosing)], enclosing, levels - 1)
    return ordered[:FOLDERS_MAX]


def _central(weights: Mapping[str, float], folders: list[str]) -> list[str]:
    """Return files that others use most; scripts outside the main folders are weighed too unsurely to be named."""
    starts = tuple(folders)
    inside = [
        path
        for path, weight in weights.items()
        if weight > 0 and (path.startswith(starts) or ("/" not in path and ROOT_FOLDER in folders))
    ]
    return sorted(inside, key=lambda path: (-weights[path], path))

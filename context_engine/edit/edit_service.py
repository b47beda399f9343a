"""Edit files of one workspace: prepare changes, apply all or none of them, and undo them.

    change = edits.change_parts("src/pool.py", [Edit("max(0,", "max(1,")])
    result = edits.apply([change], session="agent")
    edits.undo(result.undo_id)

Written files are reported to the index and to the text search at once. The result has the bytes of each file before and
after, and on request whether it still parses, so that no caller needs to read it again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename, splitext

from context_engine.edit import edit_errors
from context_engine.edit.apply import Editor, EditResult
from context_engine.edit.file_content import content_of
from context_engine.edit.file_edit import FileEdit, check_secrets, delete_file, edit_file, refuse_labels, write_file
from context_engine.edit.model import AnyEdit, Edit
from context_engine.edit.module_rename import ModuleRenamer
from context_engine.edit.patch import EditPlan, plan
from context_engine.edit.rename import Renamer, Renaming, bare_name, other_names
from context_engine.edit.rename_uses import RenameFiles
from context_engine.edit.symbol_edits import resolve_symbols
from context_engine.edit.syntax_check import find_new_errors
from context_engine.edit.unified_diff import edits_of_diff
from context_engine.errors import TooLarge
from context_engine.index import LiveIndex
from context_engine.languages import Grammars, Languages
from context_engine.model import TextQuery
from context_engine.references import SymbolService
from context_engine.repo import FileLister, WorkspaceFiles, walk
from context_engine.search import AccessKind, FileUsage, TextScanner
from context_engine.storage import STATE_FOLDER


def plan_file(
    data: bytes,
    path: str,
    edits: Sequence[AnyEdit],
    languages: Languages,
    grammars: Grammars,
    *,
    labels_are_text: bool = False,
) -> EditPlan:
    """Plan the edits of a file of these bytes. `labels_are_text`: labels of masked secrets are meant as written.

    Raises: as `edit.patch.plan` and `symbol_edits.resolve_symbols`; InvalidEdit for the label of a masked secret.
    """
    quoting = resolve_symbols(data, path, edits, languages, grammars)
    file = content_of(data).text

    def check(_: int, edit: Edit) -> None:
        refuse_labels("\n".join([edit.target, edit.before, edit.after]), file)
        refuse_labels("" if labels_are_text else edit.replacement, file)

    edit_errors.for_each_edit(quoting, check)
    planned = plan(data, quoting)
    written = "\n".join(edit.replacement for edit in quoting)
    check_secrets(path, file, content_of(planned.data).text, written=written, patches=planned.patches)
    return planned


# -- edit service ------------------------------------------------------------------------------------------------------

RENAMED_FILES_MAX = 2_000
"""Parsing so many takes some ten seconds, and no caller looks through so many uncertain places."""


class EditService(Editor):
    """The edits of one workspace. Thread-safe; any number of processes may edit the same workspace."""

    def __init__(
        self,
        files: WorkspaceFiles,
        languages: Languages,
        grammars: Grammars,
        *,
        live: LiveIndex,
        lister: FileLister,
        scanner: TextScanner,
        symbols: SymbolService,
        access: FileUsage,
        flush: bool = True,
    ) -> None:
        """Take the services of the workspace. `flush=False` leaves it to the system when content reaches the disk.

        `access` counts which files are edited.
        """
        super().__init__(files.root, files.root.path / STATE_FOLDER, on_write=self._note_written, flush=flush)
        self._files = files
        self._languages = languages
        self._grammars = grammars
        self._live = live
        self._lister = lister
        self._scanner = scanner
        self._symbols = symbols
        self._access = access

    # -- preparing a change: nothing is read or written yet --

    def change_parts(
        self, path: str, edits: Sequence[AnyEdit], *, expected_hash: str = "", labels_are_text: bool = False
    ) -> FileEdit:
        """Prepare some edits of a file. `labels_are_text`: see `plan_file`."""

        def plan(data: bytes) -> EditPlan:
            return plan_file(data, path, edits, self._languages, self._grammars, labels_are_text=labels_are_text)

        return edit_file(path, plan, expected_hash=expected_hash)

    change_whole = staticmethod(write_file)
    delete_file = staticmethod(delete_file)

    def change_by_diff(self, path: str, diff: str, *, expected_hash: str = "") -> FileEdit:
        """Prepare the change of a file that a unified diff describes."""

        def plan(data: bytes) -> EditPlan:
            return plan_file(data, path, edits_of_diff(data, diff), self._languages, self._grammars)

        return edit_file(path, plan, expected_hash=expected_hash)

    def rename_symbol(
        self,
        name: str,
        new_name: str,
        *,
        path: str = "",
        accept: Sequence[str] = (),
        cancel: threading.Event | None = None,
    ) -> Renaming:
        """Prepare another name for a definition and its uses, as the files are now; `apply` writes its `changes`.

        A `name` that is the path of a file gives the file a new name in its folder, with what imports it.
        `path` is the file or folder of the definition; `accept` are uncertain places to rename as well, as
        `Renamer.plan_renaming` takes them. Raises: SymbolNotFound, MultipleMatches (with the places),
        InvalidArgument (the new name is not possible), NotIndexed, TooLarge, InvalidPath, FileNotFound, Cancelled.
        """
        under = "" if path in ("", ".") else str(self._root.rel(path))
        as_file = self._file_of(name)
        bare = splitext(basename(as_file))[0] if as_file else bare_name(name)
        query = TextQuery((bare, *other_names(bare)), case_sensitive=True)
        candidates = [file.path for file in self._scanner.scan(query, cancel=cancel).files]
        if len(candidates) > RENAMED_FILES_MAX:
            raise TooLarge(
                f"{len(candidates):,} files contain {bare!r}, over the limit of {RENAMED_FILES_MAX:,} for a rename",
                suggestion="A name so common is renamed by hand: search_text finds its places.",
            )
        files = RenameFiles(self._languages, self._grammars, self._symbols.paths(), self._files.read_raw)
        if as_file:
            return ModuleRenamer(files, self._symbols).plan_renaming(as_file, new_name, candidates, accept)
        return Renamer(files, self._symbols).plan_renaming(name, new_name, candidates, under=under, accept=accept)

    def _file_of(self, name: str) -> str:
        """Return the path of a file that a name is; empty if it is none."""
        if "/" not in name and self._languages.detect(name, b"") is None:
            return ""
        is_known = name in self._symbols.paths()
        if not is_known and name in walk(self._root.path, [name]).files():  # new, and the index is late
            is_known = self._live.index_shown(frozenset({name})) and name in self._symbols.paths()
        return name if is_known else ""

    # -- writing --

    def apply(
        self, changes: Sequence[FileEdit], *, dry_run: bool = False, session: str = "", check_syntax: bool = False
    ) -> EditResult:
        """Change files as `Editor.apply` does; count what is written as used, and say on request whether it parses.

        What is written is indexed at once (`on_write`). Raises: as `Editor.apply`, all before anything is written.
        """
        result = super().apply(changes, dry_run=dry_run, session=session)
        if not dry_run:
            for file in result.files:
                self._access.note(file.path, "edit")
        return self._with_syntax(result) if check_syntax else result

    def note_read(self, path: str, sha256: str, *, session: str, kind: AccessKind = "read") -> None:
        """Remember that a session was shown a file, or a fragment of it, with this hash (hex)."""
        self._access.note(path, kind)
        self.reads.note_read(session, path, sha256)

    def hash_as_read(self, path: str, session: str) -> str:
        """Return the hash of a file as a session saw it last; empty when it never did. Raises: InvalidPath."""
        return self.reads.hash_of(session, self._root.rel(path)) if session else ""

    def _with_syntax(self, result: EditResult) -> EditResult:
        """Return the result with a syntax report for each file that still exists."""
        files = []
        for file in result.files:
            if file.new_data is not None:
                report = find_new_errors(file.old_data, file.new_data, file.path, self._languages, self._grammars)
                file = replace(file, syntax=report.summary)
            files.append(file)
        return replace(result, files=tuple(files))

    def _note_written(self, paths: frozenset[str]) -> None:
        """Report written files to the text search and, if there is one, to the index."""
        self._lister.note(paths)
        if self._live.is_building or self._live.snapshot() is not None:
            self._live.mark_stale(paths)

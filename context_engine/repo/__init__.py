"""Read and write the user's files and run git: the only package that does."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.repo.executables import find_program, pip_install
    from context_engine.repo.file_reader import LoadedFile, load_for_index, read_file, size_and_mtime
    from context_engine.repo.file_writer import FolderWriter, OpenFolders, TargetFile, encode_as, write_atomic
    from context_engine.repo.git import Git
    from context_engine.repo.git_diffs import ChangeContents, DiffReader, DiffRequest, GitDiff, TouchedFile
    from context_engine.repo.ignore_rules import GlobMatcher, compile_path_glob
    from context_engine.repo.line_reader import LineStart, LineWindow, read_lines_at
    from context_engine.repo.paths import Root, is_sensitive, near_names, path_of_listing
    from context_engine.repo.repositories import RepositoryRegistry, WorkspaceMember
    from context_engine.repo.revision_files import GitRevision
    from context_engine.repo.ripgrep import (
        VERSION_MIN,
        GrepRequest,
        MatchedLine,
        SearchDeadline,
        TextEngine,
        find_ripgrep,
        find_text_engine,
    )
    from context_engine.repo.ruff_program import Ruff, RuffFinding
    from context_engine.repo.searchable_files import FileLister, FileListing
    from context_engine.repo.subprocess_runner import (
        last_lines,
        minimal_environment,
        program_identity,
        run_program,
        temporary_files,
        without_secrets,
    )
    from context_engine.repo.walker import Walk, WalkedFile, walk, walk_paths
    from context_engine.repo.watch import Watcher, changes_rules
    from context_engine.repo.workspace_files import ReadFile, WorkspaceFile, WorkspaceFiles
    from context_engine.repo.workspace_roots import (
        check_workspace_root,
        is_clone,
        nearest_project,
        project_of_process,
        resolve_path,
        uri_to_path,
    )

__all__ = [
    "VERSION_MIN",
    "ChangeContents",
    "DiffReader",
    "DiffRequest",
    "FileLister",
    "FileListing",
    "FolderWriter",
    "Git",
    "GitDiff",
    "GitRevision",
    "GlobMatcher",
    "GrepRequest",
    "LineStart",
    "LineWindow",
    "LoadedFile",
    "MatchedLine",
    "OpenFolders",
    "ReadFile",
    "RepositoryRegistry",
    "Root",
    "Ruff",
    "RuffFinding",
    "SearchDeadline",
    "TargetFile",
    "TextEngine",
    "TouchedFile",
    "Walk",
    "WalkedFile",
    "Watcher",
    "WorkspaceFile",
    "WorkspaceFiles",
    "WorkspaceMember",
    "changes_rules",
    "check_workspace_root",
    "compile_path_glob",
    "encode_as",
    "find_program",
    "find_ripgrep",
    "find_text_engine",
    "is_clone",
    "is_sensitive",
    "last_lines",
    "load_for_index",
    "minimal_environment",
    "near_names",
    "nearest_project",
    "path_of_listing",
    "pip_install",
    "program_identity",
    "project_of_process",
    "read_file",
    "read_lines_at",
    "resolve_path",
    "run_program",
    "size_and_mtime",
    "temporary_files",
    "uri_to_path",
    "walk",
    "walk_paths",
    "without_secrets",
    "write_atomic",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "ChangeContents": "git_diffs",
        "DiffReader": "git_diffs",
        "DiffRequest": "git_diffs",
        "FileLister": "searchable_files",
        "FileListing": "searchable_files",
        "TargetFile": "file_writer",
        "FolderWriter": "file_writer",
        "Git": "git",
        "GitDiff": "git_diffs",
        "GitRevision": "revision_files",
        "GlobMatcher": "ignore_rules",
        "GrepRequest": "ripgrep",
        "LineStart": "line_reader",
        "LineWindow": "line_reader",
        "LoadedFile": "file_reader",
        "MatchedLine": "ripgrep",
        "OpenFolders": "file_writer",
        "ReadFile": "workspace_files",
        "RepositoryRegistry": "repositories",
        "Root": "paths",
        "Ruff": "ruff_program",
        "RuffFinding": "ruff_program",
        "SearchDeadline": "ripgrep",
        "TextEngine": "ripgrep",
        "TouchedFile": "git_diffs",
        "VERSION_MIN": "ripgrep",
        "Walk": "walker",
        "WalkedFile": "walker",
        "Watcher": "watch",
        "WorkspaceFile": "workspace_files",
        "WorkspaceFiles": "workspace_files",
        "WorkspaceMember": "repositories",
        "changes_rules": "watch",
        "check_workspace_root": "workspace_roots",
        "compile_path_glob": "ignore_rules",
        "encode_as": "file_writer",
        "find_program": "executables",
        "pip_install": "executables",
        "find_ripgrep": "ripgrep",
        "find_text_engine": "ripgrep",
        "is_clone": "workspace_roots",
        "is_sensitive": "paths",
        "last_lines": "subprocess_runner",
        "load_for_index": "file_reader",
        "minimal_environment": "subprocess_runner",
        "near_names": "paths",
        "nearest_project": "workspace_roots",
        "path_of_listing": "paths",
        "program_identity": "subprocess_runner",
        "project_of_process": "workspace_roots",
        "read_file": "file_reader",
        "read_lines_at": "line_reader",
        "resolve_path": "workspace_roots",
        "run_program": "subprocess_runner",
        "size_and_mtime": "file_reader",
        "temporary_files": "subprocess_runner",
        "uri_to_path": "workspace_roots",
        "walk": "walker",
        "walk_paths": "walker",
        "without_secrets": "subprocess_runner",
        "write_atomic": "file_writer",
    },
)

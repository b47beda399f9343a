"""Read and write the user's files and run git: the only package that does."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.repo.executables import find_program, pip_install, safe_path
    from context_engine.repo.file_reader import (
        LineStart,
        LineWindow,
        LoadedFile,
        load_for_index,
        read_bytes,
        read_file,
        read_lines_at,
        size_and_mtime,
    )
    from context_engine.repo.file_writer import FolderWriter, TargetFile, encode_as, keep_open, write_atomic
    from context_engine.repo.git import Git
    from context_engine.repo.git_diffs import DiffReader, DiffRequest, GitDiff, GitRevision
    from context_engine.repo.ignore_rules import GlobMatcher, compile_path_glob
    from context_engine.repo.joint_service import JointService, name_each, qualify, qualify_rows
    from context_engine.repo.paths import Root, is_sensitive, is_under, path_of_listing
    from context_engine.repo.program_output import describe_exit, quote_known_words, summarize_output
    from context_engine.repo.re2_search import TextEngine, find_text_engine
    from context_engine.repo.repositories import RepositoryRegistry, WorkspaceMember
    from context_engine.repo.ripgrep import (
        VERSION_MIN,
        GrepRequest,
        MatchedLine,
        SearchDeadline,
        find_ripgrep,
    )
    from context_engine.repo.searchable_files import FileLister
    from context_engine.repo.subprocess_runner import (
        minimal_environment,
        program_identity,
        run_program,
        temporary_files,
        without_secrets,
    )
    from context_engine.repo.walker import Walk, WalkedFile, walk
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

__getattr__ = lazy_exports(__name__)

"""Git history: commits as facts, files that change together, blame, and a prediction of what a task will change."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.history.change_prediction import predict_changes
    from context_engine.history.code_history import Blame, CodeHistory
    from context_engine.history.commit_facts import HistoryFile
    from context_engine.history.file_history import CochangedFile, FileHistory
    from context_engine.history.git_log import search_messages
    from context_engine.history.mining import HistoryMiner

__getattr__ = lazy_exports(__name__)

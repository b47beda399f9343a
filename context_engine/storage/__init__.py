"""Storage on this machine: confined folders, atomic files, SQLite, logs of events, versions, locks and the trash.

`database`, `storage_errors` and `trash` are used as modules; all other names are exported here.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.storage.confined_folder import ConfinedFolder, OpenFolder, UnsafePathError
    from context_engine.storage.database import open_in_state, transaction
    from context_engine.storage.event_log import EventLog, LogContent, head_path
    from context_engine.storage.index_folders import (
        is_network_drive,
        readable_config_folder,
        user_cache_folder,
        user_config_folder,
        user_data_folder,
        workspace_id,
    )
    from context_engine.storage.locks import LivenessLock, PathLocks, home_id
    from context_engine.storage.numbered_versions import NumberedVersions, corrupt_version_error, version_file_name
    from context_engine.storage.progress_counter import OnProgress, ProgressCounter
    from context_engine.storage.state_folder import (
        ABANDONED_AFTER_S,
        STATE_FOLDER,
        UNSETTLED_NS,
        FileStamp,
        PublishFiles,
        StateFolder,
        is_state_path,
        translate_os_errors,
    )

__all__ = [
    "ABANDONED_AFTER_S",
    "STATE_FOLDER",
    "UNSETTLED_NS",
    "ConfinedFolder",
    "EventLog",
    "FileStamp",
    "LivenessLock",
    "LogContent",
    "NumberedVersions",
    "OnProgress",
    "OpenFolder",
    "PathLocks",
    "ProgressCounter",
    "PublishFiles",
    "StateFolder",
    "UnsafePathError",
    "corrupt_version_error",
    "head_path",
    "home_id",
    "is_network_drive",
    "is_state_path",
    "open_in_state",
    "readable_config_folder",
    "transaction",
    "translate_os_errors",
    "user_cache_folder",
    "user_config_folder",
    "user_data_folder",
    "version_file_name",
    "workspace_id",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "ABANDONED_AFTER_S": "state_folder",
        "ConfinedFolder": "confined_folder",
        "EventLog": "event_log",
        "FileStamp": "state_folder",
        "LivenessLock": "locks",
        "LogContent": "event_log",
        "NumberedVersions": "numbered_versions",
        "OnProgress": "progress_counter",
        "OpenFolder": "confined_folder",
        "PathLocks": "locks",
        "ProgressCounter": "progress_counter",
        "PublishFiles": "state_folder",
        "STATE_FOLDER": "state_folder",
        "StateFolder": "state_folder",
        "UNSETTLED_NS": "state_folder",
        "UnsafePathError": "confined_folder",
        "corrupt_version_error": "numbered_versions",
        "head_path": "event_log",
        "home_id": "locks",
        "is_network_drive": "index_folders",
        "is_state_path": "state_folder",
        "open_in_state": "database",
        "readable_config_folder": "index_folders",
        "transaction": "database",
        "translate_os_errors": "state_folder",
        "user_cache_folder": "index_folders",
        "user_config_folder": "index_folders",
        "user_data_folder": "index_folders",
        "version_file_name": "numbered_versions",
        "workspace_id": "index_folders",
    },
)

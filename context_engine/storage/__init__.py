"""Storage on this machine: confined folders, atomic files, SQLite, logs of events, versions, locks and the trash.

`database` and `records` are used as modules, too; all other names are exported here.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.storage.confined_folder import (
        ConfinedFolder,
        OpenFolder,
        UnsafePathError,
        describe_kind,
        write_all,
    )
    from context_engine.storage.database import CacheDatabase, transaction
    from context_engine.storage.event_log import LogContent, head_path
    from context_engine.storage.index_folders import (
        UNREPORTED_FILE_SYSTEMS,
        find_network_drive,
        readable_config_folder,
        user_cache_folder,
        user_config_folder,
        user_data_folder,
        workspace_id,
    )
    from context_engine.storage.locks import LivenessLock, PathLocks, home_id
    from context_engine.storage.private_files import (
        close_to_others,
        create_private,
        hold_private_lock,
        is_temporary,
        lock_private,
        make_private_folder,
        open_private,
        replace_private,
        temporary_name,
    )
    from context_engine.storage.records import (
        MergePolicy,
        MergePolicyOf,
        RecordFolder,
        SharedRecords,
        SyncedRecords,
        VersionedRecords,
        version_file_name,
    )
    from context_engine.storage.state_folder import (
        STATE_FOLDER,
        UNSETTLED_NS,
        FileStamp,
        StateFolder,
        translate_os_errors,
    )
    from context_engine.storage.typed_values import prepare_type

__getattr__ = lazy_exports(__name__)

"""The languages of a workspace: those of this package, of the repository, and of the user."""

from __future__ import annotations

from pathlib import Path

from context_engine.languages import OWN_FOLDER, Languages
from context_engine.storage import ConfinedFolder, readable_config_folder

USERS_FOLDER = "languages"


def load_languages(root: str | Path) -> Languages:
    """Return the languages for files beneath `root`; the user's replace the repository's, which replace ours.

    Raises: InvalidArgument, naming file and field when one of their files is wrong.
    """
    of_repository = Languages.builtin().with_folder(ConfinedFolder(root).folder(OWN_FOLDER))
    config = readable_config_folder()
    if config is None:
        return of_repository
    users = ConfinedFolder(config, follow_links=True).folder(USERS_FOLDER)
    return of_repository.with_folder(users, is_users=True)

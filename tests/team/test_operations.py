"""What the guide says to operators of the database, done as it says: docs/guides/sharing.md."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from context_engine.errors import StoreUnusable
from context_engine.model import Query
from context_engine.team.index_jobs import IndexSource
from context_engine.team.postgres_jobs import PostgresJobs
from context_engine.team.remote_search import RemoteSearch
from context_engine.team.remote_store import open_backend
from tests.support.databases import new_database, sql
from tests.support.engines import open_engine
from tests.support.trees import tree

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "sharing.md").read_text("utf-8")


def as_role(address: str, role: str) -> str:
    """The same database for a user without a password, as the server of the tests lets everybody in."""
    if "PG_URL" in os.environ:
        pytest.skip("a server of your own may ask for passwords")
    return re.sub(r"^postgresql://[^/]*/", f"postgresql://{role}@/", address)


def test_a_reader_with_the_rights_of_the_guide_reads_also_what_is_created_later(tmp_path: Path) -> None:
    (grants,) = re.findall(r"```sql\n(.*?)```", GUIDE, re.DOTALL)
    address = new_database()
    sharer, reader = (f"{name}_{uuid4().hex[:8]}" for name in ("ci", "reader"))
    sql(address, f"CREATE ROLE {sharer} LOGIN; CREATE ROLE {reader} LOGIN")
    database = re.findall(r"/(ctx_\w+)", address)[0]
    sql(address, f"GRANT CREATE ON DATABASE {database} TO {sharer}")
    root = tree(tmp_path / "app", {"a.py": "def lion(): ...\n"})

    def share(*, searchable: bool) -> None:
        shared = {"store_url": as_role(address, sharer), "store_repository": "app", "store_shares": True}
        with open_engine(root, **shared, store_search=searchable) as engine:
            engine.index.update()

    share(searchable=False)
    sql(as_role(address, sharer), grants.replace("TO reader", f"TO {reader}"))
    share(searchable=True)
    with closing(open_backend(as_role(address, reader), "Search")) as store:
        assert RemoteSearch(store, ["app"], None).find(Query("lion")).hits
    with closing(PostgresJobs(as_role(address, sharer))) as jobs:
        jobs.add(IndexSource(str(root)))
    with closing(PostgresJobs(as_role(address, reader))) as jobs:
        assert len(jobs.list_jobs()) == 1
        with pytest.raises(StoreUnusable, match="permission denied"):
            jobs.add(IndexSource("/other"))

"""The plans of an Engine: in its workspace, at its time, by the rules of its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import NeedsApproval, PreconditionFailed
from context_engine.plans.plan_service import workspace_paths
from context_engine.repo.paths import Root
from context_engine.settings import Settings
from tests.support.desks import plan, step


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "money.py").write_text("price = 1.0\n")
    (tmp_path / "work" / ".git").mkdir()
    return tmp_path / "work"


def opened(folder: Path, **env: str) -> Engine:
    return Engine.open(
        folder, settings=Settings.load(folder, env={"CTX_CACHE_FOLDER": str(folder.parent / "c"), **env})
    )


def test_what_the_settings_ask_for_holds_for_plans(folder: Path) -> None:
    (folder / ".context-engine").mkdir()
    (folder / ".context-engine" / "config.yml").write_text("approvals_mode: required\nplan_evidence_required: true\n")
    with opened(folder, CTX_PLAN_RETRIES_MAX="0", CTX_APPROVALS_REQUIRE_HUMAN="yes") as engine:
        engine.plans.repository.save(plan(step("s1")), name="Cents")
        with pytest.raises(NeedsApproval):
            engine.plans.steps.start("Cents", 1)
        asked = engine.plans.approvals.request("Cents")
        with pytest.raises(NeedsApproval, match="person"):
            engine.plans.approvals.respond(asked.approval.id, "approve")
        engine.plans.approvals.respond(asked.approval.id, "approve", by="user")
        engine.plans.steps.start("Cents", 1)
        with pytest.raises(PreconditionFailed, match="evidence"):
            engine.plans.steps.complete("Cents", 1)
        with pytest.raises(PreconditionFailed, match="tried"):
            engine.plans.steps.fail("Cents", 1, retry=True)


def test_a_plan_may_name_what_is_there_or_may_be_made(folder: Path) -> None:
    paths = workspace_paths(Root(folder))
    assert (paths.has_path("src/money.py"), paths.has_path("src/mony.py"), paths.has_path("../x")) == (
        True,
        False,
        False,
    )
    assert (paths.nearest("src/mony.py"), paths.nearest("zzz/qqq.py")) == ("src/money.py", "")
    assert paths.refusal("src/new.py") == ""
    for path in ("../x", "/etc/passwd", ".git/config", ".env", ""):
        assert paths.refusal(path)

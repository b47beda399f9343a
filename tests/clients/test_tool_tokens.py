"""What the list of tools of each of our profiles costs a model, in true o200k tokens."""

from __future__ import annotations

import pytest

from scripts import tokens
from tests.clients.conftest import Tell
from tests.clients.programs import count_tokens

PROFILES = ("core", "edit", "code", "plan", "review", "seeds", "all")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_costs_no_more_than_its_budget(profile: str, tell: Tell) -> None:
    texts = tokens.profile_texts(profile)
    cost = count_tokens(texts)
    tell(f"tokens ctx {profile}", {"tools": len(texts), "tokens": cost, "budget": tokens.BUDGETS[profile]})
    assert cost <= tokens.BUDGETS[profile]

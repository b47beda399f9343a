"""What all tests share: laws are tried on fewer examples than Hypothesis' default, and a busy machine fails none of them.

`HYPOTHESIS_PROFILE=thorough pytest` tries many more.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

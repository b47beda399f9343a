"""The dashboard and the alerts of deploy/ speak of the metrics that a server has, and of all of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from context_engine import errors
from context_engine.server.metrics import COUNTERS, DURATIONS, ERRORS, Metrics, format_metrics

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "alerts.yml"
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
"""Of the Debian package `prometheus`."""

find_names = re.compile(r"\bctx_[a-z_]+").findall


def served() -> set[str]:
    """The names of all metrics of a server, those with a suffix included."""
    metrics = Metrics()
    metrics.add("trace", 5.0, "INTERNAL", slow=True)
    return set(re.findall(r"^(ctx_\w+)", format_metrics({"": metrics.rows()}, "1"), re.MULTILINE))


def dashboard() -> dict:
    return json.loads((ROOT / "deploy" / "grafana.json").read_text("utf-8"))


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    shown = {
        name for panel in dashboard()["panels"] for query in panel["targets"] for name in find_names(query["expr"])
    }
    ours = {"ctx_build_info", *(name for name, _ in COUNTERS.values()), ERRORS[0], DURATIONS[0]}
    assert ours <= shown <= served()


def test_alerts_are_about_metrics_and_codes_that_exist() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}
    for rule in rules:
        assert set(find_names(rule["expr"])) <= served(), rule["alert"]
        named = "|".join(re.findall(r'code=~?"([^"]+)"', rule["expr"])).split("|")
        assert set(filter(None, named)) <= codes, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_guide_describes_every_metric() -> None:
    guide = (ROOT / "docs" / "guides" / "http.md").read_text("utf-8")
    described = set(re.findall(r"^\| `(ctx_\w+)", guide, re.MULTILINE))
    assert {name.removesuffix("_sum").removesuffix("_count") for name in served()} == described


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus, or name it in PROMTOOL")
def test_prometheus_takes_the_rules_and_each_fires_when_it_should() -> None:
    assert PROMTOOL is not None
    for command in (["check", "rules", RULES], ["test", "rules", ROOT / "tests" / "project" / "alerts_test.yml"]):
        done = subprocess.run([PROMTOOL, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = (ROOT / "tests" / "project" / "alerts_test.yml").read_text("utf-8")
    assert all(name in tested for name in re.findall(r"alert: (\w+)", RULES.read_text("utf-8")))


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus, or name it in PROMTOOL")
def test_prometheus_takes_the_page_of_metrics_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    metrics = Metrics()
    metrics.add("trace", 5.0, "INTERNAL", slow=True)
    page = format_metrics({"": metrics.rows()}, "1")
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    queries = [query["expr"] for panel in dashboard()["panels"] for query in panel["targets"]]
    plain = [re.sub(r"\$__\w+", "5m", query).replace("$instance", ".*").replace("$tool", ".*") for query in queries]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(plain)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([PROMTOOL, "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""A plan out of the repository alone: real files with places, in an order that can be worked through, and honest about the rest."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_engine.context.project_knowledge import KnowledgeEntry, ProjectKnowledge
from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.plans.changeset import SURE_PLACES, PlanRequest, PlanSources
from context_engine.plans.model import PlanEvidence, PlanStep
from context_engine.plans.plan_draft import LIKELY_TITLE, PlanDraft, draft_plan
from tests.support.engines import indexed, open_engine
from tests.support.trees import git, repository, tree

ZOO = {
    "zoo/__init__.py": "from zoo.cages import Cage\n",
    "zoo/cages.py": (
        "import time\n\n\nclass Cage:\n    def lock_gate(self, hours):\n        return time.time() + hours\n\n\n"
        "def open_hours(day):\n    return 8 if day else 0\n"
    ),
    "zoo/feeding.py": "from zoo.cages import Cage\n\n\ndef feed(cage: Cage):\n    cage.lock_gate(2)\n    return 'fed'\n",
    "zoo/visits/guide.py": "from zoo.feeding import feed\n\n\ndef tour(cage):\n    feed(cage)\n    cage.lock_gate(1)\n",
    "zoo/visits/tickets.py": "def sell(count):\n    return count * 12\n",
    "tests/test_cages.py": "from zoo.cages import Cage\n\n\ndef test_gate():\n    assert Cage().lock_gate(1)\n",
    "tests/test_feeding.py": "from zoo.feeding import feed\n",
    "docs/keepers.md": "# Keepers\n\nCall `lock_gate` before feeding.\n",
    "Makefile": "test:\n\tpytest\n\nlint:\n\truff check\n",
    "notes.txt": "nothing of interest\n",
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = repository(tmp_path_factory.mktemp("plans") / "zoo", ZOO)
    with indexed(root, watch=False) as engine:
        yield engine


def planned(engine: Engine, task: str, *, team: ProjectKnowledge | None = None, **asked: Any) -> PlanDraft:
    return draft_plan(PlanRequest(task, **asked), PlanSources(engine, team or ProjectKnowledge()))


def drafted(root: Path, files: Mapping[str, str], task: str) -> PlanDraft:
    """The plan for a repository of these files alone."""
    with indexed(repository(root, files), watch=False) as engine:
        return planned(engine, task)


def step_with(made: PlanDraft, path: str) -> PlanStep:
    return next(step for step in made.plan.steps if path in step.files)


# -- which files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task", ["rename function lock_gate", "Rename `lock_gate` to `bolt`", "remove the method Cage.lock_gate"]
)
def test_every_file_that_uses_what_the_task_names_is_in_the_steps(zoo: Engine, task: str) -> None:
    referring = git(zoo.root, "grep", "-lw", "lock_gate").split("\n")
    files = planned(zoo, task).plan.files
    assert set(referring) <= files


@pytest.mark.parametrize("task", ["Draw a tour of satellites around Jupiter", "feed the RSS readers with Atom"])
def test_a_plan_is_not_ready_while_the_search_warns_that_nothing_here_answers_the_task(zoo: Engine, task: str) -> None:
    made = planned(zoo, task)
    assert "probably nothing here answers this" in made.change.warnings[0]
    assert made.status == "needs_clarification"
    assert made.plan.questions


def test_a_found_name_answers_the_task_whatever_its_other_words_are(zoo: Engine) -> None:
    made = planned(zoo, "Let `lock_gate` publish telemetry over websockets for satellites")
    assert made.status == "ready"
    assert made.change.warnings == ()


def test_a_word_with_capitals_does_not_mean_a_target_without(tmp_path: Path) -> None:
    files = {"Makefile": "github:\n\tgh-import\n", "site/pages.py": "def publish(pages):\n    return pages\n"}
    with indexed(repository(tmp_path / "site", files), watch=False) as engine:
        assert not planned(engine, "Publish the pages on GitHub").change.of("definition")
        assert planned(engine, "Publish the pages with `github`").change.of("definition")


def test_a_member_that_the_task_names_with_its_owner_leads_whatever_has_more_of_the_words(tmp_path: Path) -> None:
    overload = "@overload\ndef Argument(default): ...\n\n\n"
    run = "def command(self, hidden, help):\n    # a hidden command is left out of the help text\n    return hidden or help\n"
    files = {
        "shell/params.py": f"from typing import overload\n\n\n{overload * 2}def Argument(default):\n    return default\n",
        "shell/main.py": f"from shell.params import Argument\n\n\n{run}",
    }
    made = drafted(
        tmp_path / "shell", files, "Add a `hidden` parameter to shell.Argument that leaves it out of the help text"
    )
    first = made.plan.steps[0]
    assert first.files_to_modify[0] == "shell/params.py"
    proofs = [proof for proof in first.evidence if proof.path == "shell/params.py" and proof.kind != "search"]
    assert [(proof.kind, proof.symbol) for proof in proofs] == [("definition", "Argument")]


def test_a_definition_with_a_common_name_counts_only_among_the_first_files_of_the_search(tmp_path: Path) -> None:
    pages = {
        f"zoo/{name}.py": f"def write_{name}(page):\n    # the eager keyword of a dump, as it was written\n    return page\n"
        for name in ("dump", "format", "print", "export")
    }
    with indexed(repository(tmp_path / "zoo", {**pages, "zoo/binding.py": "eager = 1\n"}), watch=False) as engine:
        found = [str(hit.chunk.path) for hit in engine.search.find(Query("Keep the `eager` keyword in a dump")).hits]
        made = planned(engine, "Keep the `eager` keyword in a dump")
    assert found.index("zoo/binding.py") >= SURE_PLACES
    assert not made.change.of("definition")


def test_of_two_definitions_the_one_that_the_search_finds_is_meant(tmp_path: Path) -> None:
    pages = {
        f"zoo/{name}.py": f"def {name}(visitors):\n    # greet visitors at the gate in the morning\n    return visitors\n"
        for name in ("tour", "gate", "ticket")
    }
    pages["zoo/gate.py"] += "\n\ndef greet(visitors):\n    return f'good morning, {visitors} at the gate'\n"
    made = drafted(
        tmp_path / "zoo",
        {**pages, "lib/rpc.py": "def greet(x): return x\n"},
        "Let `greet` say good morning to the visitors at the gate",
    )
    assert [file.path for file in made.change.of("definition")] == ["zoo/gate.py"]
    assert not any("is meant" in question.text for question in made.plan.questions)


def test_every_path_exists_and_every_line_is_where_the_evidence_says(zoo: Engine) -> None:
    for task in ("rename lock_gate", "Fix the opening hours", "Let feed return a receipt", "Sell tickets to groups"):
        for step in planned(zoo, task).plan.steps:
            assert all((zoo.root / path).is_file() for path in step.files_to_modify)
            for each in step.evidence:
                lines = (zoo.root / each.path).read_text().split("\n")
                assert each.line <= len(lines)
                if each.kind in ("definition", "reference"):
                    assert each.symbol.rpartition(".")[2] in lines[each.line - 1]


def test_without_an_index_words_alone_make_the_plan_and_it_says_so(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "zoo", ZOO), watch=False) as engine:
        made = planned(engine, "Sell tickets to groups")
    assert "zoo/visits/tickets.py" in made.plan.files
    assert "no index" in " ".join(made.change.warnings)


def test_nothing_is_connected_to(zoo: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plan must not open a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    assert planned(zoo, "Fix the opening hours").plan.steps


# -- in which order ----------------------------------------------------------------------------------------------------


def test_what_is_defined_comes_before_its_tests_and_both_before_what_uses_it(zoo: Engine) -> None:
    made = planned(zoo, "rename `lock_gate` to `bolt`")
    place = {path: number for number, step in enumerate(made.plan.steps) for path in step.files}
    assert place["zoo/cages.py"] < place["tests/test_cages.py"] < place["zoo/feeding.py"]
    assert step_with(made, "zoo/feeding.py").depends_on == (step_with(made, "zoo/cages.py").uid,)
    assert step_with(made, "zoo/feeding.py") == step_with(made, "zoo/visits/guide.py")
    known: set[str] = set()
    for step in made.plan.steps:
        assert set(step.depends_on) <= known
        known.add(step.uid)


def test_tests_that_are_called_specs_belong_to_their_source(tmp_path: Path) -> None:
    files = {"lib/show_errors.rb": "def render_errors\nend\n", "test/spec_show_errors.rb": "describe 'x' do\nend\n"}
    made = drafted(tmp_path / "specs", files, "Fix render_errors for empty lists")
    named_after = PlanEvidence("test", "test/spec_show_errors.rb", symbol="lib/show_errors.rb")
    assert named_after in step_with(made, "test/spec_show_errors.rb").evidence


@pytest.mark.parametrize(
    ("task", "verb"),
    [
        ("Renaming a cage loses the hours of `lock_gate`", "Change"),
        ('TypeError at night\n  File "zoo/cages.py", line 6, in lock_gate\n    return', "Find and change the cause in"),
    ],
)
def test_only_a_stack_trace_makes_a_task_a_symptom_and_no_word_of_it_becomes_a_verb(
    zoo: Engine, task: str, verb: str
) -> None:
    assert planned(zoo, task).plan.steps[0].title == f"{verb} Cage.lock_gate (zoo/cages.py)"


def test_a_task_about_tests_or_documents_begins_with_them(zoo: Engine) -> None:
    assert planned(zoo, "Add tests for feed").plan.steps[0].files_to_modify[0] == "tests/test_feeding.py"
    assert planned(zoo, "Update the docs of lock_gate for keepers").plan.steps[0].files_to_modify == (
        "docs/keepers.md",
    )


def test_steps_that_need_nothing_of_each_other_do_not_wait_for_each_other(tmp_path: Path) -> None:
    files = {"a/one.py": "def greet(): return 1\n", "b/two.py": "def part(): return 2\n"}
    made = drafted(tmp_path / "apart", files, "Let a/one.py and b/two.py be quiet")
    assert [(step.files_to_modify, step.depends_on) for step in made.plan.steps] == [
        (("a/one.py",), ()),
        (("b/two.py",), ()),
    ]


def test_only_what_has_to_be_done_is_in_a_plan_of_the_least(zoo: Engine) -> None:
    task = "rename `lock_gate` to `bolt`"
    least = planned(zoo, task, mvp_only=True)
    assert "docs/keepers.md" in planned(zoo, task).plan.files - least.plan.files
    assert [each for each in least.plan.nice_to_have_features if each.startswith(LIKELY_TITLE)]


# -- what is said about it ---------------------------------------------------------------------------------------------


def test_the_commands_of_the_repository_say_when_a_step_is_done(zoo: Engine) -> None:
    made = planned(zoo, "rename `lock_gate` to `bolt`")
    assert step_with(made, "zoo/cages.py").checks == ("make lint",)
    assert step_with(made, "tests/test_cages.py").acceptance_criteria == ("`make test` passes",)
    assert "make test (Makefile)" in made.plan.testing_strategy.unit
    assert all(step.acceptance_criteria for step in made.plan.steps)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("Fix `lock_gates` for the night", "`lock_gates` was not found: is it new, or does it have another name?"),
        ("xylophone quartz", "where does it belong"),
        ("Shorten visits", "Is the change in "),
    ],
)
def test_what_is_not_clear_is_asked(zoo: Engine, task: str, says: str) -> None:
    made = planned(zoo, task)
    assert made.status == "needs_clarification"
    assert says in made.plan.questions[0].text
    places = [candidate for candidate in made.plan.questions[0].candidates if "/" in candidate]
    assert all(place.split(":")[0] in made.plan.files for place in places)


def test_a_name_with_several_meanings_is_asked_about(tmp_path: Path) -> None:
    files = {"a.py": "def greet(): return 1\n", "b.py": "def greet(): return 2\n"}
    made = drafted(tmp_path / "twice", files, "Let `greet` say goodbye")
    assert made.status == "needs_clarification"
    assert [(each.text, each.candidates) for each in made.plan.questions] == [
        ("Which `greet` is meant?", ("a.py:1 (greet)", "b.py:1 (greet)"))
    ]


@pytest.mark.parametrize("is_twice", [False, True])
def test_a_word_that_code_only_compares_with_is_not_called_missing(tmp_path: Path, is_twice: bool) -> None:
    parser = "def parse_line(words):\n    # health_port: a number\n    if words[0] == 'health_port':\n        return int(words[1])\n"
    files = {"zoo/parser.py": parser, "zoo/health.py": "# health_port is a number\ndef healthy_port():\n    return 1\n"}
    if is_twice:
        files["zoo/writer.py"] = "def write_line(port):\n    return f'health_port {port}'\n"
    made = drafted(tmp_path / "zoo", files, "let `health_port` be a placeholder")
    assert not any("was not found" in question.text for question in made.plan.questions)
    named = [file.path for file in made.change.files if file.evidence[0].kind == "named"]
    assert named == ([] if is_twice else ["zoo/parser.py"])


def test_a_name_that_is_spelled_with_a_mark_behind_it_is_not_asked_about(tmp_path: Path) -> None:
    files = {"lib/page.rb": "class Page\n  def accepts_html?\n    true\n  end\nend\n"}
    questions = drafted(tmp_path / "marks", files, "Call the right accepts_html method").plan.questions
    assert not [question for question in questions if "accepts_html" in question.text]


@pytest.mark.parametrize("task", ["make it better", "please fix the code"])
def test_a_task_of_words_that_are_everywhere_is_asked_about(tmp_path: Path, task: str) -> None:
    files = {f"zoo/{name}.py": f"def {name}(code):\n    # make it better, fix the code\n" for name in "abcdef"}
    made = drafted(tmp_path / "vague", files, task)
    assert made.status == "needs_clarification"
    assert made.plan.questions


RULE = KnowledgeEntry(
    "dis_1", "rule", "", "Never lock the gate of a cage by hours.", "discovery", "AGENTS.md", 3, score=0.9
)
FACT = KnowledgeEntry("mem_2", "facts", "", "The gate never locks on hours.", "memory", "m.md", score=0.8)


def test_what_the_team_holds_to_binds_the_plan(zoo: Engine) -> None:
    told = replace(RULE, id="dis_3", path="CHANGES.md")
    team = ProjectKnowledge(recall=lambda _text, _count, _files=None: [RULE, FACT, told])
    made = planned(zoo, "Lock the gate for more hours", team=team)
    assert made.plan.scope.constraints == ("AGENTS.md:3 says: “Never lock the gate of a cage by hours.” [dis_1]",)

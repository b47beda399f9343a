"""A rule is read with the files that it applies to, as the agents and editors that invented these files do it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context import RuleScope
from context_engine.memory.importers import import_file, read_contributing_file, read_rule_file


def scope(path: str, *front_matter: str) -> str:
    """Return the scope of a rule file with this front matter as globs."""
    head = "\n".join(["---", *front_matter, "---", ""]) if front_matter else ""
    found = read_rule_file(path, f"{head}- Use tabs.\n")
    assert found is not None, path
    return str(found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("AGENTS.md", ""),
        ("CLAUDE.local.md", ""),
        (".claude/CLAUDE.md", ""),
        (".github/copilot-instructions.md", ""),
        (".cursorrules", ""),
        (".windsurfrules", ""),
        (".clinerules/network.md", ""),
        ("packages/ai/AGENTS.md", "packages/ai/**"),
        ("tests/CLAUDE.md", "tests/**"),
        ("services/api/GEMINI.md", "services/api/**"),
        ("web/.cursorrules", "web/**"),
    ],
)
def test_a_rule_file_applies_to_the_folder_that_it_is_in(path: str, expected: str) -> None:
    assert scope(path) == expected


@pytest.mark.parametrize(
    ("path", "front_matter", "expected"),
    [
        (".cursor/rules/a.mdc", ["description:", "globs: *.mdx", "alwaysApply: false"], "**/*.mdx"),
        ("docs/.cursor/rules/a.mdc", ["globs: *.mdx"], "docs/**/*.mdx"),
        ("docs/.cursor/rules/a.mdc", ["globs: docs/api/*.mdx"], "docs/api/*.mdx"),
        (".cursor/rules/a.mdc", ["globs: **/*.ts,**/*.tsx"], "**/*.ts, **/*.tsx"),
        (".cursor/rules/a.mdc", ['globs: ["src/**", "lib/"]'], "src/**, lib/**"),
        (".cursor/rules/a.mdc", ["globs: *.py", "alwaysApply: true"], ""),
        (".cursor/rules/a.mdc", ["description: for releases", "globs:", "alwaysApply: false"], "on request"),
        (".cursor/rules/deep/a.mdc", ["globs: *.{ts,tsx}"], "**/*.ts, **/*.tsx"),
        (
            ".github/instructions/a.instructions.md",
            ['applyTo: "**/*.cs,src/**/README.md"'],
            "**/*.cs, src/**/README.md",
        ),
        (".github/instructions/a.instructions.md", ["applyTo: '**'"], "**/*"),
        (".github/instructions/a.instructions.md", ["applyTo: tools/*"], "tools/*"),
        (".github/instructions/a.instructions.md", ["description: tests"], "on request"),
        (".github/instructions/a.instructions.md", [], "on request"),
        (".claude/rules/api.md", ["paths:", '  - "src/api/**/*.ts"', "  - lib/*.ts"], "src/api/**/*.ts, lib/*.ts"),
        (".claude/rules/style.md", [], ""),
        (".windsurf/rules/a.md", ["trigger: glob", "globs: *.go"], "**/*.go"),
        (".windsurf/rules/a.md", ["trigger: always_on"], ""),
        (".windsurf/rules/a.md", ["trigger: model_decision", "description: x"], "on request"),
        (".kiro/steering/api.md", ["inclusion: fileMatch", 'fileMatchPattern: "app/api/**/*"'], "app/api/**/*"),
        (".kiro/steering/help.md", ["inclusion: manual"], "on request"),
        (".clinerules/proto.md", ["paths:", "- proto/**"], "proto/**"),
    ],
)
def test_a_front_matter_narrows_the_files(path: str, front_matter: list[str], expected: str) -> None:
    assert scope(path, *front_matter) == expected


@pytest.mark.parametrize(
    "path",
    [
        "tests/fixtures/repo/AGENTS.md",
        "test/resources/repos/go/CLAUDE.md",
        "pkg/testdata/AGENTS.md",
        "examples/shop/AGENTS.md",
        "packages/create-app/templates/web/.cursor/rules/a.mdc",
        "vendor/lib/AGENTS.md",
        "{{cookiecutter.name}}/CLAUDE.md",
        "docs/agents.md",
        ".clinerules/workflows/release.md",
        ".roo/rules-code/a.md",
    ],
)
def test_copies_and_pages_about_agents_are_not_rules(path: str) -> None:
    assert read_rule_file(path, "- Use tabs.\n") is None


def test_rules_of_fixtures_are_not_imported_and_others_keep_their_lines_and_scope() -> None:
    text = "---\nglobs:\n- src/**\n---\n# Style\n\n- Use tabs, never spaces.\n"
    (found,) = import_file(".cursor/rules/style.mdc", text)
    assert (found.content, found.line, found.scope) == ("Use tabs, never spaces.", 7, RuleScope("", ("src/**",)))
    assert import_file("test/resources/repo/CONTRIBUTING.md", "- Please always run the tests.\n") == []
    assert import_file("tests/fixtures/docs/adr/0001-cents.md", "# Cents\n\nUse cents.\n") == []


def test_a_guide_for_contributors_applies_to_its_folder_or_to_everything_from_its_usual_places() -> None:
    paths = ("CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/contributing.rst", "sdk/CONTRIBUTING.md")
    assert [str(read_contributing_file(path)) for path in paths] == ["", "", "", "sdk/**"]


def test_a_scope_matches_whole_paths_below_its_folder() -> None:
    scope = RuleScope("web", ("*.ts", "src/**/*.tsx", "app/[[]slug]/*"))
    matching = ("web/a.ts", "web/src/a.tsx", "web/src/b/c.tsx", "web/app/[slug]/page.ts")
    others = ("a.ts", "web/b/a.ts", "website/a.ts", "web/src/a.ts", "web/app/s/page.ts")
    assert [path for path in (*matching, *others) if scope.applies_to(path)] == [*matching]


def test_globs_that_cannot_be_read_make_a_rule_apply_to_nothing_by_itself() -> None:
    assert scope(".cursor/rules/a.mdc", f"globs: {'{a,b}' * 20}") == "on request"
    assert scope(".cursor/rules/a.mdc", f"globs: {'x' * 500}") == "on request"


@given(st.text(max_size=300), st.sampled_from([".cursor/rules/a.mdc", "AGENTS.md", ".claude/rules/a.md"]))
def test_no_text_makes_reading_a_rule_file_fail(text: str, path: str) -> None:
    found = read_rule_file(path, f"---\n{text}")
    assert found is not None
    assert found.applies_to("a.py") in (True, False)


@pytest.mark.parametrize(
    ("bullet", "is_rule"),
    [
        ("This means that each parameter needs no fixture of its own", False),
        ("`run_tests()` always closes the server that it started", False),
        ("CI runs the unit tests and the linters on Windows", False),
        ("Formatting is enforced by the linter", False),
        ("**Bundler** - Build tool and server of the project", False),
        ("Small features can stay in a module of their own", False),
        ("**Errors**: Return them, and wrap them once", True),
        ("Tests are in the tree of the source. Add a test to the file of its module", True),
        ("Type hints required for all code", True),
        ("Line length: at most 100 characters", True),
        ("Callers must never wait", True),
    ],
)
def test_a_sentence_that_describes_how_things_are_is_no_rule(bullet: str, is_rule: bool) -> None:
    assert bool(import_file("AGENTS.md", f"# Work\n\n- {bullet}\n")) is is_rule


def test_a_list_below_a_sentence_about_its_use_is_no_rule() -> None:
    text = "# Guide\n\nThis helps to make sure that:\n\n* The pages are up to date.\n* The examples work.\n"
    assert import_file("docs/contributing.md", text) == []
    text = text.replace("This helps to make sure", "Please make sure")
    (found,) = import_file("docs/contributing.md", text)
    assert found.content == "Please make sure that: The pages are up to date; The examples work"


def test_a_rule_about_code_is_not_for_documents_and_one_about_commits_is_for_all() -> None:
    text = (
        "# Style\n\n- Use tabs, never spaces.\n- Sign off every commit.\n\n# Documentation\n\n- Use short sentences.\n"
    )
    code, commits, documents = (found.scope for found in import_file("AGENTS.md", text))
    applies = [
        [scope.applies_to(path) for path in ("src/a.py", "docs/a.yaml", "README.md")]
        for scope in (code, commits, documents)
    ]
    assert applies == [[True, False, False], [True, True, True], [False, True, True]]


@pytest.mark.parametrize(
    ("bullet", "task", "path", "expected"),
    [
        ("In tests: use the clock of the fixture", "Retry once", "src/client.py", False),
        ("In tests: use the clock of the fixture", "Retry once", "tests/client_test.py", True),
        ("When you add a queue, register its processor", "Add a mail queue", "src/mail.py", True),
        ("When you add a queue, register its processor", "Add a mail filter", "src/mail.py", False),
        ("When you add a queue, register its processor", "Empty the mail queue faster", "src/mail.py", False),
        ("Public endpoints must be described", "Describe the public endpoints", "src/api.py", True),
        ("Public endpoints must be described", "Speed up the cache", "src/cache.py", False),
        ("After modifying any Go code, run the linter", "Speed up the cache", "cache.go", True),
        ("Before committing, run the linter", "Speed up the cache", "cache.go", True),
    ],
)
def test_a_rule_with_a_condition_is_for_tasks_that_meet_it(bullet: str, task: str, path: str, expected: bool) -> None:
    (found,) = import_file("AGENTS.md", f"# Work\n\n- {bullet}\n")
    assert found.scope.is_met(task, [path]) is expected


def test_steps_for_new_tests_are_not_for_the_change_of_an_old_one() -> None:
    guide = "# Guide\n\n## Adding new tests\n\n- Never give two tests one fixture.\n"
    (found,) = import_file("AGENTS.md", guide)
    tests = ["tests/test_mail.py"]
    assert found.scope.is_met("Add a test of the mail queue", tests)
    assert not found.scope.is_met("Wait for the mail queue in its test", tests)

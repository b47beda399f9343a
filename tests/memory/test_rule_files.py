"""A rule is read with the files that it applies to, as the agents and editors that invented these files do it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.memory.importers import read_contributing_file, read_rule_file


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


def test_a_guide_for_contributors_applies_to_its_folder_or_to_everything_from_its_usual_places() -> None:
    paths = ("CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/contributing.rst", "sdk/CONTRIBUTING.md")
    assert [str(read_contributing_file(path)) for path in paths] == ["", "", "", "sdk/**"]


def test_globs_that_cannot_be_read_make_a_rule_apply_to_nothing_by_itself() -> None:
    assert scope(".cursor/rules/a.mdc", f"globs: {'{a,b}' * 20}") == "on request"
    assert scope(".cursor/rules/a.mdc", f"globs: {'x' * 500}") == "on request"


@given(st.text(max_size=300), st.sampled_from([".cursor/rules/a.mdc", "AGENTS.md", ".claude/rules/a.md"]))
def test_no_text_makes_reading_a_rule_file_fail(text: str, path: str) -> None:
    found = read_rule_file(path, f"---\n{text}")
    assert found is not None
    assert found.applies_to("a.py") in (True, False)

"""The commands that are told are those that the repository's own files back, and no others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.commands import Command, detect_commands


def detected(files: dict[str, str]) -> list[Command]:
    return detect_commands(files, files.__getitem__)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"Makefile": ".PHONY: test\ntest: build\n\tpytest\nlint:\n\truff\nVAR := x\ndeploy:\n"},
            ["test: make test", "lint: make lint"],
        ),
        ({"justfile": "check arg='x':\n  cargo t\nfmt:\n  cargo fmt\n"}, ["test: just check", "format: just fmt"]),
        (
            {"Taskfile.yml": "version: 3\ntasks:\n  test:\n    cmds: [x]\n  'lint':\n    cmds: [y]\n"},
            ["test: task test", "lint: task lint"],
        ),
        (
            {"package.json": json.dumps({"scripts": {"test": "vitest", "typecheck": "tsc", "start": "x"}})},
            ["test: npm test", "types: npm run typecheck"],
        ),
        ({"package.json": '{"scripts":{"lint":"eslint"}}', "pnpm-lock.yaml": ""}, ["lint: pnpm run lint"]),
        ({"package.json": '{"scripts":{"test":"echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"deno.json": '{"tasks":{"test":"deno test"}}'}, ["test: deno task test"]),
        (
            {"composer.json": '{"scripts":{"test":["phpunit"],"phpstan":"x"}}'},
            ["test: composer test", "types: composer phpstan"],
        ),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n"},
            ["test: pytest", "lint: ruff check", "types: mypy ."],
        ),
        ({"tox.ini": "[tox]\n[testenv]\n", "noxfile.py": ""}, ["test: tox", "test: nox"]),
        ({"setup.cfg": "[tool:pytest]\n", ".flake8": ""}, ["test: pytest", "lint: flake8"]),
        ({"Cargo.toml": ""}, ["test: cargo test", "lint: cargo clippy"]),
        ({"go.mod": "", ".golangci.yml": ""}, ["test: go test ./...", "lint: go vet ./...", "lint: golangci-lint run"]),
        ({"build.gradle.kts": "", "gradlew": ""}, ["test: ./gradlew test"]),
        ({"pom.xml": ""}, ["test: mvn test"]),
        ({"phpunit.xml.dist": ""}, ["test: vendor/bin/phpunit"]),
        ({"Zoo.sln": ""}, ["test: dotnet test"]),
        ({".rspec": "", ".rubocop.yml": ""}, ["test: bundle exec rspec", "lint: bundle exec rubocop"]),
        (
            {"package.json": '{"scripts": {"test": "vitest", "lint": "eslint src"}}', "bun.lock": ""},
            ["test: bun run test", "lint: bun run lint"],
        ),
        ({"README.md": "run pytest"}, []),
        ({}, []),
    ],
)
def test_each_kind_of_repository_says_how_it_is_checked(files: dict[str, str], found: list[str]) -> None:
    assert [f"{each.kind}: {each.text}" for each in detected(files)] == found


@pytest.mark.parametrize(
    "broken", ["{", "[]", '{"scripts": 3}', '{"scripts": {"test": null}}', "[tool", "\0", "x" * 10_000]
)
def test_a_file_that_cannot_be_understood_says_nothing_and_hurts_nobody(broken: str) -> None:
    for name in ("package.json", "pyproject.toml", "composer.json", "deno.json", "Makefile", "Taskfile.yml", "tox.ini"):
        assert all(each.source == name for each in detected({name: broken}))


names = st.sampled_from(
    ["Makefile", "package.json", "pyproject.toml", "tox.ini", "go.mod", "Cargo.toml", "conftest.py", "Taskfile.yml"]
)
texts = st.sampled_from(
    [
        "",
        "test:\n",
        '{"scripts":{"test":"x","lint":"y"}}',
        "[tool.ruff]\n[tool.pytest]\n",
        "[pytest]\n[testenv]\n",
        "\ntasks:\n  test:\n",
    ]
)


@given(st.dictionaries(names, texts))
def test_no_command_is_told_twice_and_each_source_is_there(files: dict[str, str]) -> None:
    found = detected(files)
    assert len(found) == len({*found}) and {each.source for each in found} <= set(files)

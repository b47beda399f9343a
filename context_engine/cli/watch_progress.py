"""`ctx plan progress`: show the progress of a plan once, or follow it live."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from context_engine import timestamps
from context_engine.cli.common_options import INTERRUPTED
from context_engine.cli.console import Cell, build_table, err, escape_text, out, print_table
from context_engine.plans import PlanStep, format_effort

if TYPE_CHECKING:
    from rich.console import RenderableType

    from context_engine.plans import PlanState, StepState

EVERY_S = 1.0
"""A person would not notice a shorter interval, and each look reads two small files."""
BAR_CHARS = 24
ENDED = frozenset({"completed", "failed", "stalled", "archived"})
"""In these statuses nothing changes any more unless a step is reopened."""
MINUTE_S, HOUR_S = 60, 3_600
NOT_DONE = 1
"""Exit code of a plan that has ended without being done: `ctx plan progress --watch && next`."""
AROUND = 6
"""Lines of a screen besides the steps: name, bar, head, outlook, the prompt, and one that wraps."""
HEAD = ("", "step", "state", "", "takes")
MARKS = {
    "completed": ("✓", "green"),
    "skipped": ("↷", "dim"),
    "in_progress": ("▶", "bold blue"),
    "failed": ("✗", "bold red"),
    "ready": ("○", "yellow"),
    "pending": ("·", "dim"),
}


def print_progress(now: PlanState, at: float) -> int:
    """Print the progress of a plan at this moment; return the exit code."""
    out.print(_headline(now))
    print_table(HEAD, _rows(now, at))
    if outlook := _format_outlook(now):
        out.print(outlook, markup=False)
    return 0


def watch(look: Callable[[], PlanState], clock: timestamps.Now, pause: Callable[[float], None] = time.sleep) -> int:
    """Follow the progress: a live screen on a terminal, one line per change in a pipe; return the exit code."""
    try:
        if out.is_terminal:
            return _watch_live(look, clock, pause)
        return _follow_lines(look, clock, pause)
    except KeyboardInterrupt:
        err.print("[dim]no longer watching; the plan goes on[/dim]")
        return INTERRUPTED


def _watch_live(look: Callable[[], PlanState], clock: timestamps.Now, pause: Callable[[float], None]) -> int:
    from rich.live import Live

    with Live(console=out, auto_refresh=False) as live:
        while True:
            now = look()
            live.update(_render_screen(now, clock()), refresh=True)
            if now.execution.status in ENDED:
                return _exit_code(now)
            pause(EVERY_S)


def _follow_lines(look: Callable[[], PlanState], clock: timestamps.Now, pause: Callable[[float], None]) -> int:
    """Print the whole progress once, then a line for each step whose status changes."""
    now = look()
    print_progress(now, clock())
    while now.execution.status not in ENDED:
        pause(EVERY_S)
        before, now = now, look()
        for change in _state_changes(before, now):
            time_of_day = timestamps.format_timestamp(clock())[11:19]
            print(f"{time_of_day}  {now.execution.percentage:>3.0f} %  {change}", flush=True)
    return _exit_code(now)


def _state_changes(before: PlanState, now: PlanState) -> list[str]:
    """Return a line for each step whose status changed between two states."""
    old, new = before.execution.steps, now.execution.steps
    return [
        f"{new[step.uid].status.replace('_', ' ')}: step {number}, {step.title}"
        for number, step in enumerate(now.plan.steps, 1)
        if step.uid not in old or old[step.uid].status != new[step.uid].status
    ]


def _exit_code(now: PlanState) -> int:
    if now.execution.status == "completed":
        return 0
    return NOT_DONE


def _render_screen(now: PlanState, at: float) -> RenderableType:
    """Render what fits on the screen: with more steps, those around the first that is not done."""
    from rich.console import Group
    from rich.text import Text

    rows = _rows(now, at)
    shown = visible_steps([now.execution.steps[step.uid].is_done for step in now.plan.steps], out.height - AROUND)
    left = ""
    if len(rows[shown]) < len(rows):
        left = f"{len(rows) - len(rows[shown])} more steps"
    footer = " · ".join(filter(None, (_format_outlook(now), left)))
    return Group(_headline(now), build_table(HEAD, rows[shown]), Text(footer, style="dim"))


def visible_steps(are_done: Sequence[bool], room: int) -> slice:
    """Return the slice of steps that fits, beginning just before the first step that is not done.

    >>> visible_steps([True, True, True, False, False, False], 3), visible_steps([True, False], 9)
    (slice(2, 5, None), slice(0, 9, None))
    """
    first_open = next((place for place, is_done in enumerate(are_done) if not is_done), 0)
    start = max(0, min(first_open - 1, len(are_done) - room))
    return slice(start, start + max(1, room))


def _headline(now: PlanState) -> str:
    """Return the name, a bar and the count of done steps, with terminal markup."""
    execution = now.execution
    done = sum(state.is_done for state in execution.steps.values())
    filled = int(BAR_CHARS * execution.percentage / 100)
    color = {"failed": "red", "stalled": "red"}.get(execution.status, "green")
    bar = f"[{color}]{'█' * filled}[/{color}][dim]{'░' * (BAR_CHARS - filled)}[/dim]"
    summary = f"{execution.percentage:g} %, {done} of {len(now.plan.steps)} steps, {now.status.replace('_', ' ')}"
    return f"[bold]{escape_text(now.version.name)}[/bold]\n{bar} {summary}"


def _rows(now: PlanState, at: float) -> list[list[Cell]]:
    number = now.plan.step_numbers()
    return [_row(step, now.execution.steps[step.uid], number, at) for step in now.plan.steps]


def _row(step: PlanStep, state: StepState, number: dict[str, int], at: float) -> list[Cell]:
    mark, style = MARKS[state.status]
    word, because = _state(state, number, at)
    style = "red" if state.blocked_by else style
    title = (f"{number[step.uid]}. {step.title}", "bold" if state.status == "in_progress" else "")
    return [(mark, style), title, (word, style), because, "" if step.hours is None else format_effort(step.hours)]


def _state(state: StepState, number: dict[str, int], at: float) -> tuple[str, str]:
    """Return the word for the state of a step, and its explanation."""
    if state.blocked_by:
        return "blocked", f"by step {_format_steps(state.blocked_by, number)}"
    if state.unmet:
        return "waiting", f"for step {_format_steps(state.unmet, number)}"
    if state.status == "failed":
        return "failed", state.error.strip().partition("\n")[0][:120]
    if state.status == "in_progress":
        since = timestamps.parse_timestamp(state.started_at)
        lasting = ""
        if since is not None:
            lasting = f"for {_format_duration(at - since)}"
        return "in progress", " ".join(part for part in (state.actor, lasting) if part)
    if state.duration_ms is not None and state.status == "completed":
        return "completed", f"in {_format_duration(state.duration_ms / 1_000)}"
    return state.status, ""


def _format_duration(length_s: float) -> str:
    """Format a duration.

    >>> _format_duration(2.4), _format_duration(300)
    ('2 s', '5 min')
    """
    if length_s < MINUTE_S:
        return f"{max(0.0, length_s):.0f} s"
    return format_effort(length_s / HOUR_S)


def _format_steps(uids: tuple[str, ...], number: dict[str, int]) -> str:
    return ", ".join(map(str, sorted(number[uid] for uid in uids)))


def _format_outlook(now: PlanState) -> str:
    """Format the next step, the critical path that is left and the time that is left."""
    execution, number = now.execution, now.plan.step_numbers()
    if execution.status in ENDED:
        return ""
    path = " → ".join(str(number[uid]) for uid in execution.critical_path_remaining)
    parts = []
    if execution.next:
        parts.append(f"next: step {number[execution.next]}")
    if path:
        parts.append(f"critical path left: {path}")
    if execution.eta_hours is not None:
        parts.append(f"about {format_effort(execution.eta_hours)} left at the pace so far")
    return " · ".join(parts)

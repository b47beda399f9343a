"""PURE. A work packet as a brief: what somebody is asked for who writes the changes of one step."""

from __future__ import annotations

from context_engine.context.refinement_prompt import Part
from context_engine.plans.work_packets import WorkPacket
from context_engine.text.visible_text import one_line

STEP_TASK = (
    "Write the changes of one step of a plan, as JSON by the schema, and nothing that belongs to another step. Quote text that is to "
    "be replaced exactly as it stands below; give new files whole. What you do not know, do not guess: leave the file out."
)


def step_prompt_parts(packet: WorkPacket, context: str = "") -> list[Part]:
    """What stands in the brief, the most important first."""
    step = packet.step
    code = [
        f"{one_line(file.path)}:{each.span} {each.symbol}\n{each.text.rstrip()}"
        for file in packet.files
        for each in file.snippets
    ]
    named = [f"{one_line(file.path)} ({file.change})" for file in packet.files]
    return [
        Part("Step", [step.title, *step.description.split("\n")[:1]]),
        Part("What the caller adds", [context] if context.strip() else []),
        Part("Done when", list(step.acceptance_criteria)),
        Part("Files", named),
        Part("Code", code),
    ]

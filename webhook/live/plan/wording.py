"""A plan in words, for people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap

from webhook.kube.quantity import show
from webhook.kube.quota_facts import counted
from webhook.live.plan.applying import Application
from webhook.live.plan.patches import NOT_TRIED
from webhook.live.plan.steps import Plan, Step
from webhook.live.plan.targets import COHORT_PREFIX

_NUMBERED = re.compile(r"(\d+\.|-) ")
_Line = tuple[str, str]
"""Text, and the style that suits it, '' for none."""


def plan_lines(plan: Plan, effects: Mapping[Step, Sequence[str]], width: int) -> Iterator[_Line]:
    """The steps with what each does, and the floors as they will be."""
    for indent, text, style in _paragraphs(plan, effects):
        # The number of a step stands before its text.
        first, rest = " " * indent, " " * (indent + (3 if _NUMBERED.match(text) else 0))
        # A command can be copied from one line alone.
        lines = [first + text] if text.startswith("kubectl ") else folded(text, width, first, rest)
        yield from ((line, style) for line in lines)


def folded(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of this width, unless a word is longer."""
    return wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _paragraphs(plan: Plan, effects: Mapping[Step, Sequence[str]]) -> Iterator[tuple[int, str, str]]:
    if not plan.steps and not plan.refused:
        yield 0, "Every floor is as wanted: there is nothing to do.", "bold"
        return
    if plan.refused:
        yield 0, "There is no order in which every step is let in:", "bold red"
    elif plan.not_evaluated:
        yield 0, "Not evaluated: whether this fits cannot be said.", "bold red"
    elif plan.rejected:
        yield 0, "The API server does not take every step (tried by a dry run):", "bold red"
    else:
        whom = " by Floorkeeper's rules" if plan.untried else ""
        if len(plan.steps) == 1:
            yield 0, f"One step, which is let in{whom}:", "bold"
        else:
            yield 0, f"{len(plan.steps)} steps; in this order none of them is denied{whom}:", "bold"
    rejected = {each.step: each.denials for each in plan.rejected}
    for number, planned in enumerate(plan.steps, 1):
        yield 2, f"{number}. {planned.step}", "red" if planned.step in rejected else ""
        for lead, text in zip_longest(("refused: ", "fix: "), rejected.get(planned.step, ()), fillvalue=""):
            if text:
                yield 5, f"{lead}{text}", "red"
        yield from ((5, text, "") for text in effects.get(planned.step, ()))
        yield from ((5, f"warn: {text}", "yellow") for text in planned.warnings)
    for refused in plan.refused:
        yield 2, f"-  {refused.step}", "red"
        yield from ((5, f"denied: {text}", "red") for text in refused.denials)
    if plan.refused and (plan.steps or len(plan.refused) > 1):
        yield 2, "No other order helps: what lowers floors comes first, so each raise finds as much room as can be.", ""
    yield from ((2, text, "red") for text in plan.not_evaluated)
    yield from ((2, f"{NOT_TRIED}: {text}", "yellow") for text in plan.untried)
    lead = "With all of it" if plan.refused else "After it"
    yield from ((0, f"{lead}: {text}", "") for text in plan.arithmetic)


def ended_lines(made: Application, *, mends: bool = False) -> Iterator[str]:
    """What is done and what is not, once an application has ended, wherever that was. `mends`: something refused or
    undid a step, and would again."""
    if not made.pending:
        yield f"All is done: {_counted(made.done)}."
        return
    if not made.done:
        yield "Nothing is done."
    for step in made.done:
        yield f"Done: {step}"
    for number, step in enumerate(made.pending):
        yield f"{'Not known whether it is written' if made.writing and not number else 'Not done'}: {step}"
    yield f"{'Once that is mended, run' if mends else 'Run'} this again with the same --set: it goes on from here."
    written = [*made.written, *made.pending[: int(made.writing)]]
    if written:
        yield f"To take back what is done: {_back(written)}"


def _back(steps: Sequence[Step]) -> str:
    """The command by which floors are what they were."""
    words = []
    for step in steps:
        name = f"{COHORT_PREFIX if step.kind == 'Cohort' else ''}{step.name}"
        for move in step.moves:
            floor = show(counted(move.resource, move.before))
            words.append(f"--set {shlex.quote(f'{name}/{move.flavor}/{move.resource}={floor}')}")
    return f"floorkeeper plan {' '.join(words)} --apply"


def _counted(steps: Sequence[Step]) -> str:
    return "1 step" if len(steps) == 1 else f"{len(steps)} steps"

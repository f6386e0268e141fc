"""The picture and the plan as JSON: the same numbers, in whole units (GPUs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import counted
from webhook.live.plan.applying import Application
from webhook.live.plan.numbers import Row, Section
from webhook.live.plan.patches import NOT_TRIED
from webhook.live.plan.steps import Plan, Step


def document(
    sections: Sequence[Section], unread: Mapping[str, str], plan: Plan | None, effects: Mapping[Step, Sequence[str]]
) -> dict[str, Any]:
    """`plan` is null without --set; a number that is not known is null."""
    return {
        "floors": [_section(each) for each in sections],
        "plan": None if plan is None else _plan(plan, effects),
        "unread": dict(unread),
    }


def progress(made: Application | None) -> dict[str, Any]:
    """What --apply has done and what not, beside `document`; None where there was nothing to do, or nothing could be
    done."""
    done, pending = ([], []) if made is None else (made.done, made.pending)
    return {"done": [_step(step) for step in done], "pending": [_step(step) for step in pending]}


def _section(section: Section) -> dict[str, Any]:
    return {
        "resource": section.resource,
        "flavors": list(section.flavors),
        "hardware": section.hardware,
        "usable": section.usable,
        "floors": section.floors,
        "planned": section.planned,
        "unmetHardware": section.unmet_hardware,
        "unmetUsable": section.unmet_usable,
        "unclaimed": section.unclaimed,
        "verdict": section.verdict,
        "notEvaluated": dict(section.not_evaluated),
        "owners": [_row(row) for row in section.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "name": row.name,
        "flavor": row.flavor,
        "cohorts": list(row.cohorts),
        "floor": row.floor,
        "planned": row.planned,
        "used": row.used,
        "borrowed": row.borrowed,
        "lent": None if row.lent is None else {"least": row.lent.least, "most": row.lent.most},
        "gated": {"workloads": row.gated, "asked": row.asked},
        "note": row.note,
    }


def _plan(plan: Plan, effects: Mapping[Step, Sequence[str]]) -> dict[str, Any]:
    return {
        "possible": plan.possible,
        "fits": plan.fits,
        "arithmetic": list(plan.arithmetic),
        "steps": [
            {**_step(each.step), "effects": list(effects.get(each.step, ())), "warnings": list(each.warnings)}
            for each in plan.steps
        ],
        "refused": [{**_step(each.step), "denials": list(each.denials)} for each in plan.refused],
        "rejected": [{**_step(each.step), "reasons": list(each.denials)} for each in plan.rejected],
        "notEvaluated": [*plan.not_evaluated, *(f"{NOT_TRIED}: {each}" for each in plan.untried)],
    }


def _step(step: Step) -> dict[str, Any]:
    moves = [
        {
            "flavor": move.flavor,
            "resource": move.resource,
            "from": counted(move.resource, move.before) // NANO,
            "to": counted(move.resource, move.after) // NANO,
        }
        for move in step.moves
    ]
    return {"kind": step.kind, "name": step.name, "moves": moves}

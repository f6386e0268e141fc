"""The rule ids that a policy may name."""

from __future__ import annotations

from typing import Literal, get_args

RuleId = Literal[
    "missing-queue-name",
    "conflicting-queue-name",
    "default-local-queue",
    "queue-name-in-selector",
    "surge-without-quota",
    "implicit-gpu-request",
    "hidden-gpu-use",
    "gpu-resource-quota",
    "floors-exceed-capacity",
    "floors-below-capacity",
    "malformed-quota",
    "unknown-queue",
    "uncovered-resource",
    "replica-over-budget",
    "missing-cohort",
    "no-reclaim",
    "gated-pods-over-quota",
    "shared-local-queue",
    "replicas-over-ceiling",
    "unchecked-claim",
    "short-grace-period",
    "queue-in-use",
]

KNOWN_RULES: tuple[str, ...] = get_args(RuleId)
"""Every rule there is or will be, in the order of the guide: a policy is written once for all of them."""

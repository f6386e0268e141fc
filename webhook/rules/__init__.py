"""The rules, one module each, in the order of the README's table."""

from webhook.engine.rule import Rule
from webhook.rules import (
    conflicting_queue_name,
    default_local_queue,
    gated_pods_over_quota,
    gpu_resource_quota,
    hidden_gpu_use,
    implicit_gpu_request,
    missing_queue_name,
    queue_name_in_selector,
    shared_local_queue,
    short_grace_period,
    surge_without_quota,
    unknown_queue,
)

RULES: tuple[Rule, ...] = (
    missing_queue_name.RULE,
    conflicting_queue_name.RULE,
    default_local_queue.RULE,
    queue_name_in_selector.RULE,
    surge_without_quota.RULE,
    implicit_gpu_request.RULE,
    hidden_gpu_use.RULE,
    gpu_resource_quota.RULE,
    gated_pods_over_quota.RULE,
    shared_local_queue.RULE,
    short_grace_period.RULE,
    unknown_queue.RULE,
)

NEEDS: frozenset[str] = frozenset({"Namespace"}).union(*(rule.needs for rule in RULES))
"""The kinds that a rule compares with, and Namespace, without which nothing is judged: what is watched, and no more."""

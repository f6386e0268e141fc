"""The rules, one module each, in the order of the README's table."""

from webhook.engine.rule import Rules
from webhook.rules import (
    conflicting_queue_name,
    default_local_queue,
    floors_below_capacity,
    floors_exceed_capacity,
    gated_pods_over_quota,
    gpu_resource_quota,
    hidden_gpu_use,
    implicit_gpu_request,
    malformed_quota,
    missing_cohort,
    missing_queue_name,
    no_reclaim,
    queue_in_use,
    queue_name_in_selector,
    replica_over_budget,
    replicas_over_ceiling,
    shared_local_queue,
    short_grace_period,
    surge_without_quota,
    unchecked_claim,
    uncovered_resource,
    unknown_queue,
)

RULES = Rules(
    (
        missing_queue_name.RULE,
        conflicting_queue_name.RULE,
        default_local_queue.RULE,
        queue_name_in_selector.RULE,
        surge_without_quota.RULE,
        implicit_gpu_request.RULE,
        hidden_gpu_use.RULE,
        gpu_resource_quota.RULE,
        floors_exceed_capacity.RULE,
        floors_below_capacity.RULE,
        malformed_quota.RULE,
        missing_cohort.RULE,
        no_reclaim.RULE,
        gated_pods_over_quota.RULE,
        shared_local_queue.RULE,
        replicas_over_ceiling.RULE,
        unchecked_claim.RULE,
        short_grace_period.RULE,
        unknown_queue.RULE,
        uncovered_resource.RULE,
        replica_over_budget.RULE,
        queue_in_use.RULE,
    )
)

NEEDS: frozenset[str] = frozenset({"Namespace"}).union(*(rule.needs for rule in RULES))
"""The kinds that a rule compares with, and Namespace, without which nothing is judged: what is watched, and no more."""

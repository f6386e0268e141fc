"""What happens to the replicas and to the API server, one after the other. Each says what was seen of it."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.soak.calls import Incidents
from benchmarks.soak.service import Replica, Service
from benchmarks.soak.writes import POLICY
from tests.cluster.controlplane import until
from webhook.server.rotation import RENEWED, ROTATION_ENDED

Event = Callable[[Service, Incidents], str]
_NOTICED = 1.0
"""Seconds within which the balancer has seen that a replica is ready."""


def nothing(service: Service, _: Incidents) -> str:
    return f"{len(service.replicas)} replicas"


def rolling_restart(service: Service, _: Incidents) -> str:
    """As the shipped Deployment does it: a new one is ready before an old one has to go."""
    taken = []
    for old in list(service.replicas):
        new = service.start_replica()
        time.sleep(_NOTICED)
        began = time.monotonic()
        code = service.end_replica(old, signal.SIGTERM)
        taken.append(f"{time.monotonic() - began:.1f} s")
        assert code == 0, f"exit code {code}: {old.log.read_text()[-2000:]}"
        assert not old.logged("requests shed"), "nothing was under way at the end"
        until("the new one is asked", partial(_is_asked, new), 20)
    return f"both replaced; exits took {', '.join(taken)}"


def _is_asked(replica: Replica) -> bool:
    return replica.metric("floorkeeper_requests_total") > 0


def killed_replica(service: Service, incidents: Incidents) -> str:
    incidents.kills.append(time.monotonic())
    code = service.end_replica(service.replicas[0], signal.SIGKILL)
    began = time.monotonic()
    service.start_replica()
    return f"exit code {code}; another one was ready after {time.monotonic() - began:.1f} s"


def leaf_rotation(service: Service, _: Incidents) -> str:
    fresh = service.pace.fresh
    before = service.fingerprints() if fresh else service.first_fingerprints
    times = len(service.logged(RENEWED)) if fresh else 0

    def new() -> str:
        now = service.fingerprints()
        return now.pop() if len(now) == 1 and not now & before and service.logged(RENEWED)[times:] else ""

    after = until("all serve a renewed certificate", new, service.pace.certificate + 20)
    return f"{'/'.join(sorted(each[:8] for each in before))} -> {after[:8]}"


def authority_rotation(service: Service, _: Incidents) -> str:
    before = len(service.logged(ROTATION_ENDED)) if service.pace.fresh else 0
    until("the CA was replaced", lambda: service.logged(ROTATION_ENDED)[before:], service.pace.authority + 60)
    return f"{len(service.logged(ROTATION_ENDED))} so far, the CA is {service.authorities()[0][:8]} now"


def api_server_restart(service: Service, incidents: Incidents) -> str:
    began = time.monotonic()
    service.cluster.restart("kube-apiserver")
    ended = time.monotonic()
    incidents.restarts.append((began, ended))
    until("all facts are current again", lambda: all(_is_current(replica, began) for replica in service.replicas), 60)
    return f"away for {ended - began:.1f} s; all watches were back {time.monotonic() - ended:.1f} s later"


def _facts(replica: Replica) -> dict[str, dict[str, Any]]:
    facts: dict[str, dict[str, Any]] = replica.report()["facts"]
    return facts


def _is_current(replica: Replica, since: float) -> bool:
    """Whether everything it knows was known to be current after this moment."""
    age = time.monotonic() - since
    return all(fact["ageSeconds"] is not None and fact["ageSeconds"] < age for fact in _facts(replica).values())


def policy_reload(service: Service, _: Incidents) -> str:
    """A good file, a broken one, and the former one."""
    generations = [_policy(replica)["generation"] for replica in service.replicas]

    def are_reloaded(times: int) -> bool:
        now = [_policy(replica)["generation"] for replica in service.replicas]
        return now == [before + times for before in generations]

    service.write_policy(POLICY.replace("60", "90"))
    until("the new policy is in force", lambda: are_reloaded(1), 20)
    service.write_policy(POLICY.replace("60", "perhaps"))
    until("the broken policy is told", lambda: all(_policy(replica)["error"] for replica in service.replicas), 20)
    assert all(replica.is_ready() for replica in service.replicas)
    assert all(replica.metric("floorkeeper_policy_load_failed ") == 1 for replica in service.replicas)
    service.write_policy(POLICY)
    until("the former policy is in force", lambda: are_reloaded(2), 20)
    return f"generations {generations} -> {[each + 2 for each in generations]}, and a broken file told"


def _policy(replica: Replica) -> Any:
    return replica.report()["policy"]


def frozen_watch(service: Service, _: Incidents) -> str:
    """Every connection to the API server that is there falls silent; new ones work."""
    began = time.monotonic()
    service.way.freeze()
    oldest, told = 0.0, set[str]()

    def is_over() -> bool:
        nonlocal oldest
        for replica in service.replicas:
            facts = _facts(replica).values()
            oldest = max(oldest, *(math.inf if fact["ageSeconds"] is None else fact["ageSeconds"] for fact in facts))
            told.update(fact["detail"] for fact in facts if fact["detail"])
        return all(_is_current(replica, began) for replica in service.replicas)

    until("all facts are current again", is_over, service.pace.silence + 60)
    assert oldest > service.pace.watch, "it is seen that they are not"
    assert any("silent for" in text for text in told), told
    return f"facts were {oldest:.0f} s old at the most; current again after {time.monotonic() - began:.0f} s"


def applied_again(service: Service, _: Incidents) -> str:
    """By `kubectl apply`, twice: the caBundle is none of ours to write, and stays."""
    for _time in range(2):
        said = service.apply()
    lines = said.splitlines()
    assert all(service.ca_bundles())
    return (
        f"{len(lines)} objects, of which {sum(line.endswith('unchanged') for line in lines)} unchanged the second time"
    )


EVENTS: dict[str, Event] = {
    "rolling restart": rolling_restart,
    "kill -9 of a replica": killed_replica,
    "policy reload": policy_reload,
    "leaf rotation": leaf_rotation,
    "API server restart": api_server_restart,
    "frozen watch": frozen_watch,
    "manifests applied again": applied_again,
    "CA rotation": authority_rotation,
}

"""How long the answer to a review takes over HTTPS, from a server that is ready on a full cluster."""

from __future__ import annotations

import copy
import http.client
import time
from collections.abc import Iterable, Iterator
from statistics import median
from uuid import UUID

import orjson

from benchmarks.figures import show_table
from benchmarks.filling import Connection
from benchmarks.fleet import Fleet, Object, deployment
from tests.door import review_of
from tests.serving import Serving

_WORKLOADS, _RAISES = 300, 30


def show_reviews(server: Serving, connection: Connection, fleet: Fleet) -> None:
    """One after the other: of a raise, each reads the queues live, and reserves unless it is a dry run."""
    rows = []
    for what, reviews in (
        ("Deployment", _workloads(fleet)),
        ("ClusterQueue, floor raised, dry run", _raises(connection, range(min(_RAISES, fleet.queues)), True)),
        ("ClusterQueue, floor raised", _raises(connection, range(min(_RAISES, fleet.queues)), False)),
    ):
        taken, allowed = _answered(server, reviews)
        found = sorted(taken)
        cells = (f"{each * 1e3:.1f}" for each in (found[0], median(found), found[len(found) * 99 // 100]))
        rows.append((what, str(len(found)), str(allowed), *cells))
    print()
    show_table(("ms for a review, /validate over HTTPS", "reviews", "allowed", "least", "median", "p99"), rows)


def _workloads(fleet: Fleet) -> Iterator[Object]:
    for number in range(_WORKLOADS):
        yield review_of(deployment(number, fleet.queues))


def _raises(connection: Connection, numbers: Iterable[int], dry_run: bool) -> Iterator[Object]:
    """By one GPU in the second flavor, of the queues as they are stored."""
    for number in numbers:
        old = connection.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/queue-{number}")
        value = copy.deepcopy(old)
        quota = value["spec"]["resourceGroups"][0]["flavors"][1]["resources"][-1]
        quota["nominalQuota"] = str(int(quota["nominalQuota"]) + 1)
        yield review_of(value, old, dryRun=dry_run, uid=str(UUID(int=number)))


def _answered(server: Serving, reviews: Iterable[Object]) -> tuple[list[float], int]:
    """Seconds of each, and how many were allowed."""
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=30, context=server.trusting())
    taken, allowed = [], 0
    for review in reviews:
        body = orjson.dumps(review)
        began = time.perf_counter()
        connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        taken.append(time.perf_counter() - began)
        if answer.status != 200:
            raise RuntimeError(f"/validate answered {answer.status}: {text[:500].decode()}")
        allowed += orjson.loads(text)["response"]["allowed"]
    connection.close()
    return taken, allowed

"""How the soak tells a failed call from one that no webhook could have answered."""

from __future__ import annotations

import pytest

from benchmarks.soak.calls import Call, Incidents, Outcome, Tally

BROKEN = 'failed calling webhook "pods.mutate.floorkeeper.io": failed to call webhook: Post "https://x": EOF'
LATE = 'failed calling webhook "pods.mutate.floorkeeper.io": failed to call webhook: context deadline exceeded'
ALONE = (
    'failed calling webhook "floors.validate.floorkeeper.io": failed to call webhook: an error on the server ('
    '"the floors could not be reserved in ConfigMap a/b: get the ConfigMap: SSLError EOF; try again (request x)")'
)
INCIDENTS = Incidents(kills=[100.0], restarts=[(200.0, 210.0)])


@pytest.mark.parametrize(
    ("due", "done", "text", "outcome"),
    [
        (99.9, 100.1, BROKEN, Outcome.KILLED),
        (100.2, 100.3, BROKEN, Outcome.KILLED),
        (100.5, 100.6, BROKEN, Outcome.FAILED),
        (99.8, 99.9, BROKEN, Outcome.FAILED),
        (99.9, 105.0, LATE, Outcome.FAILED),
        (205.0, 205.1, BROKEN, Outcome.FAILED),
        (205.0, 212.1, ALONE, Outcome.AWAY),
        (213.0, 220.1, ALONE, Outcome.FAILED),
        (205.0, 205.0, "ConnectionRefusedError: …", Outcome.AWAY),
        (211.0, 211.1, "not yet ready to handle request", Outcome.AWAY),
        (213.0, 213.1, "not yet ready to handle request", Outcome.WRONG),
        (215.0, 215.0, "ConnectionRefusedError: …", Outcome.WRONG),
        (50.0, 50.1, 'failed calling webhook "mdeployment.kb.io": EOF', Outcome.WRONG),
    ],
)
def test_outcomes(due: float, done: float, text: str, outcome: Outcome) -> None:
    assert INCIDENTS.outcome(Call(due, done, "create", False, 500, text)) is outcome


@pytest.mark.parametrize(
    ("code", "text", "outcome"),
    [
        (0, "ConnectionRefusedError: …", Outcome.AWAY),
        (401, "Unauthorized", Outcome.AWAY),
        (403, 'deployments.apps "x" is forbidden: not yet ready to handle request', Outcome.AWAY),
        (429, "", Outcome.AWAY),
        (503, "", Outcome.AWAY),
        (201, "{}", Outcome.WRONG),
        (403, 'admission webhook "pods.validate.floorkeeper.io" denied the request: x', Outcome.WRONG),
        (403, 'User "x" cannot create resource', Outcome.WRONG),
        (500, 'admission webhook "pods.validate.floorkeeper.io" denied the request: x', Outcome.WRONG),
    ],
)
def test_what_a_restarting_api_server_does_answer_is_judged(code: int, text: str, outcome: Outcome) -> None:
    assert INCIDENTS.outcome(Call(209.0, 209.1, "create", False, code, text)) is outcome


def test_a_tally_counts_latencies_of_right_answers_since_they_were_due() -> None:
    calls = [Call(float(number), number + number / 1000, "create", True, 201, "") for number in range(1, 101)]
    tally = Tally.of("all", 100.0, [*calls, Call(1.0, 9.0, "create", False, 500, LATE)], Incidents())
    assert (tally.sent, tally.outcomes[Outcome.RIGHT], tally.outcomes[Outcome.FAILED]) == (101, 100, 1)
    assert (tally.p50, tally.p99, tally.longest) == pytest.approx((0.0505, 0.1, 0.1))

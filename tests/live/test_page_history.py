"""The past that the page draws, and the denials that it lists: bounded, and the worst is not lost."""

from __future__ import annotations

from webhook.kube.quantity import NANO
from webhook.live.page.denials import MOST, Denial, Denials
from webhook.live.page.history import MOST_SERIES, STEPS, Amounts, History, Past, Series

KEY = ("a100", "nvidia.com/gpu")
WELL = Amounts(10 * NANO, 10 * NANO, 10 * NANO)
AWAY = Amounts(10 * NANO, 10 * NANO, 5 * NANO)


def test_nothing_was_seen() -> None:
    assert History().past() == Past(0, 60, ())


def test_of_a_minute_the_worst_moment_is_kept() -> None:
    history = History()
    for second, seen in ((0, WELL), (20, AWAY), (40, WELL), (60, WELL)):
        history.record(6000 + second, {KEY: seen})
    assert history.past() == Past(6000, 60, (Series(*KEY, (AWAY, WELL)),))


def test_less_hardware_is_worse_than_the_same_shortage_with_more() -> None:
    history, gone = History(), Amounts(10 * NANO, 5 * NANO, 5 * NANO)
    for seen in (AWAY, gone, AWAY):
        history.record(0, {KEY: seen})
    assert history.past().series[0].values == (gone,)


def test_minutes_in_which_nobody_looked_are_gaps() -> None:
    history = History()
    history.record(0, {KEY: WELL})
    history.record(60, {})
    history.record(240, {KEY: WELL})
    assert history.past().series[0].values == (WELL, None, None, None, WELL)


def test_it_is_as_long_as_it_may_be() -> None:
    history = History()
    for minute in range(3 * STEPS):
        history.record(minute * 60, {KEY: WELL})
    past = history.past()
    assert (past.start, len(past.series[0].values)) == (2 * STEPS * 60, STEPS)
    history.record(10 * STEPS * 60, {KEY: WELL})
    past = history.past()
    assert past.start == (9 * STEPS + 1) * 60
    assert past.series[0].values == (*[None] * (STEPS - 1), WELL)


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    history = History()
    history.record(600, {KEY: WELL})
    history.record(60, {KEY: AWAY})
    assert history.past() == Past(600, 60, (Series(*KEY, (AWAY,)),))


def test_of_many_flavors_those_with_the_largest_floors() -> None:
    history = History()
    seen = {(f"f{index}", "gpu"): Amounts(index * NANO, 0, 0) for index in range(MOST_SERIES + 10)}
    history.record(0, seen)
    past = history.past()
    assert (len(past.series), past.left_out) == (MOST_SERIES, 10)
    assert {each.flavor for each in past.series} == {f"f{index}" for index in range(10, MOST_SERIES + 10)}
    for minute in range(1, 20):
        history.record(minute * 60, {(f"g{minute}-{index}", "gpu"): WELL for index in range(MOST_SERIES)})
    assert len(history.past().series) == 2 * MOST_SERIES


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def deny(denials: Denials, name: str = "model-a", user: str = "alice", message: str = "no") -> None:
    denials.record(
        operation="CREATE", kind="Deployment", namespace="serving", name=name, user=user, dry_run=False,
        rules=["missing-queue-name"], messages=[message],
    )  # fmt: skip


def test_the_same_denial_again_is_counted() -> None:
    clock = Clock()
    denials = Denials(clock=clock)
    for moment, name in ((100.0, "model-a"), (110.0, "model-b"), (120.0, "model-a")):
        clock.now = moment
        deny(denials, name)
    latest, other = denials.latest()
    assert latest == Denial(
        "CREATE", "Deployment", "serving", "model-a", "alice", False, ("missing-queue-name",), ("no",), 100, 120, 2
    )
    assert (other.name, other.count) == ("model-b", 1)


def test_who_it_was_makes_it_another() -> None:
    denials = Denials()
    deny(denials)
    deny(denials, user="bob")
    assert [denial.user for denial in denials.latest()] == ["bob", "alice"]


def test_only_the_latest_are_kept() -> None:
    denials = Denials()
    for index in range(3 * MOST):
        deny(denials, f"m{index}")
    kept = denials.latest()
    assert (len(kept), kept[0].name, kept[-1].name) == (MOST, f"m{3 * MOST - 1}", f"m{2 * MOST}")


def test_no_text_is_too_long_or_too_odd() -> None:
    denials = Denials()
    deny(denials, name="x" * 10**6, user="half \ud800 a character", message="m" * 10**6)
    (denial,) = denials.latest()
    assert (len(denial.name), len(denial.messages[0]), denial.user) == (253, 1024, "half ? a character")

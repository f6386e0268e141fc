"""Counts of what happens, kept by the one thread that it happens on, and read at a scrape.

prometheus_client's own counters look up labels and take locks at each count, which is a tenth of what a review costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Tally(Collector):
    """A counter with labels. Its values must come from short lists."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[tuple[str, ...], int] = {}

    def count(self, *values: str, times: int = 1) -> None:
        """One more with these labels; with `times` 0, there is none yet, and it is said."""
        self._counts[values] = self._counts.get(values, 0) + times

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class Durations(Collector):
    """A histogram of seconds, by one label, whose values are known from the start."""

    def __init__(self, name: str, text: str, label: str, values: Sequence[str], buckets: Sequence[float]) -> None:
        self._name, self._text, self._label = name, text, label
        self._buckets = tuple(buckets)
        self._names = [*map(floatToGoString, buckets), "+Inf"]
        self._counts = {value: [0] * len(self._names) for value in values}
        self._sums = dict.fromkeys(values, 0.0)

    def observe(self, value: str, seconds: float) -> None:
        self._counts[value][bisect_left(self._buckets, seconds)] += 1
        self._sums[value] += seconds

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=(self._label,))
        for value, counts in self._counts.items():
            total, rows = 0, []
            for name, count in zip(self._names, counts, strict=True):
                total += count
                rows.append((name, float(total)))
            family.add_metric((value,), rows, self._sums[value])
        yield family

"""A cluster in memory for the ledger: what etcd holds, and replicas of ours that share it."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.door import FixedPolicy, StillSource, review_of
from tests.quota_objects import Object, fact_of, known
from webhook.engine.policy import Policy
from webhook.engine.rule import Stage
from webhook.engine.verdict import Verdict
from webhook.rules import RULES
from webhook.server.admission import Admission
from webhook.server.review import review
from webhook.sources.ledger import Conflict, FloorLedger, LedgerTiming
from webhook.sources.promise import Stored

AT_ONCE = LedgerTiming(retry=0.0, tidy=())
"""Never waits, and leaves the ledger as it is."""


async def _at_once(_call: str) -> None:
    pass


@dataclass
class World:
    """What etcd holds. It is the ledger's Store, and what `pause` awaits may happen before and after each call."""

    name = "ConfigMap floorkeeper-system/floorkeeper-reservations"
    now: float = 1_800_000_000.0
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    text: str = ""
    text_version: int | None = None
    revision: int = 100
    calls: list[str] = field(default_factory=list)
    """What the replicas asked for, in order."""

    pause: Callable[[str], Awaitable[None]] = _at_once

    # As the API server does it

    def store(self, value: Object) -> Object:
        """Writes an object, and returns it with its new version."""
        self.revision += 1
        key = value["kind"], value["metadata"]["name"]
        found = copy.deepcopy(value)
        found["metadata"]["resourceVersion"] = str(self.revision)
        found["metadata"].setdefault("uid", f"object-{self.revision}")
        self.objects[key] = found
        return found

    def delete(self, kind: str, name: str) -> None:
        self.revision += 1
        self.objects.pop((kind, name), None)

    def get(self, kind: str, name: str) -> Object:
        return copy.deepcopy(self.objects[kind, name])

    # As the ledger sees it

    async def read(self) -> tuple[str, object]:
        await self._before("read")
        found = self.text, self.text_version
        await self.pause("was read")
        return found

    async def write(self, text: str, version: object) -> None:
        await self._before("write")
        if version != self.text_version:
            raise Conflict
        self.revision += 1
        self.text, self.text_version = text, self.revision
        await self.pause("was written")

    async def read_all(self, kind: str) -> dict[str, Stored]:
        await self._before(f"list {kind}")
        found = {
            name: Stored(fact_of(value), value["metadata"]["resourceVersion"], value["metadata"]["uid"])
            for (of, name), value in self.objects.items()
            if of == kind
        }
        await self.pause(f"listed {kind}")
        return found

    async def _before(self, call: str) -> None:
        self.calls.append(call)
        await self.pause(call)

    @property
    def entries(self) -> list[Any]:
        """What the ledger holds."""
        found: list[Any] = json.loads(self.text or "[]")
        return found

    @property
    def promised(self) -> list[str]:
        return [entry["uid"] for entry in self.entries]


class Replica:
    """One process of ours, with facts as they were when it was made: its watch says nothing more."""

    def __init__(
        self, world: World, timing: LedgerTiming = AT_ONCE, skew: float = 0.0, policy: Policy | None = None
    ) -> None:
        """`skew` is how many seconds its clock is ahead."""
        self.source = StillSource(known(*world.objects.values()))
        self.ledger = self.source.ledger = FloorLedger(self.source.snapshot, world, timing, lambda: world.now + skew)
        self.admission = Admission(RULES, FixedPolicy(policy or Policy()), self.source)

    async def validate(self, value: Object, old: Object | None, uid: str, **request: Any) -> Verdict:
        asked = review(json.dumps(review_of(value, old, uid=uid, **request)).encode())
        return (await self.admission.decide(Stage.VALIDATE, asked)).verdict

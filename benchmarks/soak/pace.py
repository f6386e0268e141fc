"""How fast things happen in a soak: as shipped where that is bearable, else faster."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from webhook.server.authority import new_authority, service_names
from webhook.server.keeper import KeeperTiming
from webhook.server.keyring import Keyring
from webhook.server.rotation import Lifetimes, new_leaf
from webhook.sources.timing import Timing

NAMESPACE = "floorkeeper-system"
"""Of the Service, and of the Secret."""


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds."""

    drain: float
    """From SIGTERM to no more connections, as --drain-seconds."""

    watch: float
    """The longest that one watch goes on; its silence is noticed a quarter later."""

    certificate: float
    """Its life. It is renewed at two thirds; what is left then must be longer than an API server takes to restart."""

    certificate_due: float
    """When the first one is renewed: it has been there for a while when the soak begins. And so with the CA."""

    authority: float
    authority_due: float
    steady: float
    """With nothing happening, at the start and after each event."""

    fresh: bool
    """Whether the rotations are waited for anew, or those count that came while other things happened."""

    @property
    def silence(self) -> float:
        return self.watch * 1.25

    def timing(self) -> Timing:
        return Timing(watch=self.watch, silence=self.silence)

    @property
    def lifetimes(self) -> Lifetimes:
        return Lifetimes(timedelta(seconds=self.certificate), timedelta(seconds=self.authority))

    def keeping(self) -> KeeperTiming:
        """An API server on the same machine notices what is written in an instant."""
        return KeeperTiming(self.lifetimes, poll=2.0, notice=2.0, settle=6.0)

    def first_keyring(self) -> Keyring:
        now, lives = datetime.now(UTC), self.lifetimes
        authority = new_authority(
            now + timedelta(seconds=self.authority_due) - lives.authority * 2 / 3, lives.authority
        )
        made = now + timedelta(seconds=self.certificate_due) - lives.certificate * 2 / 3
        return Keyring((authority,), new_leaf(authority, service_names("floorkeeper", NAMESPACE), lives, made))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Pace:
        return cls(**json.loads(path.read_text()))


WHOLE = Pace(10.0, 60.0, 180.0, 90.0, 360.0, 180.0, steady=5.0, fresh=True)
QUICK = Pace(1.5, 3.0, 90.0, 15.0, 180.0, 25.0, steady=0.5, fresh=False)

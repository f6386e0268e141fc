"""A world with everything that the page can show, and its page in a browser."""

from __future__ import annotations

from contextlib import ExitStack

from tests.browser import Tab
from tests.live.page_world import World, base, reading, status
from tests.quota_objects import flavor, node, queue
from tests.serving import until
from webhook.live.page.findings import Audited, Violated
from webhook.live.page.server import listen, served


class Shown:
    """A world whose page a browser has open."""

    def __init__(self, tab: Tab, world: World) -> None:
        self.tab = tab
        self.world = world
        self._serving = ExitStack()
        self.url = ""
        self.sockets = listen("127.0.0.1", 0)

    def open(self, width: int = 1280, *, dark: bool = False, calm: bool = True) -> None:
        if not self.url:
            self.url = self._serving.enter_context(served(self.world.board, self.sockets))
        self.tab.complaints.clear()
        self.tab.show(width, dark=dark, calm=calm)
        self.tab.open(self.url)
        until(lambda: "ago" in self.tab.text("#answered"))

    def end(self) -> None:
        self._serving.close()
        for each in self.sockets:
            each.close()

    def again(self) -> None:
        """The page asks at once, as it does when it is looked at again."""
        self.world.passes(3)
        self.tab.run("document.dispatchEvent(new Event('visibilitychange'))")


def full() -> World:
    """Everything that the page can show, at once."""
    world = World(
        *base(),
        node("h1", 8, {"pool": "h"}),
        flavor("h100-sxm-of-a-name-that-is-long", pool="h"),
        queue("team-of-a-rather-long-name-for-embeddings", {"h100-sxm-of-a-name-that-is-long": 9}, cohortName="h"),
        queue("lost", {"nowhere": 3}),
        flavor("spare", pool="s"),
        node("s1", 4, {"pool": "s"}),
    )
    for minute in range(40):
        world.change(node("n2", 5, {"pool": "a"}, cordoned=minute > 30))
        if not 10 < minute < 15:
            world.board.look()
        world.passes(60)
    world.queues.reading = reading(
        {
            "model-a-cq": status("model-a-cq", 7, 2),
            "model-b-cq": status("model-b-cq", 3, pending=4),
            "lost": status("lost", 0, inactive="references missing ResourceFlavor(s): nowhere"),
        },
        at=world.now,
    )
    deny(world, "system:serviceaccount:argocd:argocd-application-controller", "model-c")
    world.board.audit = Audited(
        world.now - 60,
        300,
        (
            violation("surge-without-quota", "patch", count=3),
            violation("missing-queue-name", "deny"),
            violation("short-grace-period", "warn"),
        ),
        (("Node", "not allowed to list nodes; ask for that right"),),
        1,
        "",
    )
    return world


def deny(world: World, user: str, name: str, message: str = "must name a LocalQueue") -> None:
    world.denials.record(
        operation="CREATE", kind="Deployment", namespace="serving", name=name, user=user, dry_run=False,
        rules=["missing-queue-name"], messages=[message],
    )  # fmt: skip


def violation(rule: str, severity: str, count: int = 1) -> Violated:
    where = "spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]"
    return Violated(rule, severity, "Deployment", "serving", ("model-a",), f"{where}: must be 1, is 2", "say 1", count)


def texts(tab: Tab, selector: str) -> list[str]:
    found: list[str] = tab.run(f"[...document.querySelectorAll({selector!r})].map((each) => each.textContent.trim())")
    return found

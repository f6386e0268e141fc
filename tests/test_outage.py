"""How the watches come back after an outage of the API server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.api_server import ApiServer
from tests.test_cluster_source import all_known, until
from webhook.sources.access import ACCESS
from webhook.sources.cluster import ClusterSource
from webhook.sources.timing import Timing


def test_all_watches_follow_the_first_that_is_answered(tmp_path: Path) -> None:
    async def test() -> None:
        api = ApiServer()
        with api.running():
            # Each by itself waits for 1.5 to 3 s after a failure.
            timing = Timing(retry=3.0, retry_most=3.0, rush=0.2)
            source = ClusterSource(api.kubeconfig(tmp_path), timing=timing)
            await source.start()
            await until(lambda: all_known(source))
        await until(lambda: all(each.detail for each in source.states().values()))
        began = time.monotonic()
        with api.running():
            await until(lambda: not any(each.detail for each in source.states().values()))
            await source.stop()
        watches = [each for each in api.requests if each.verb == "watch" and each.at > began]
        first = {each.resource: each.at for each in reversed(watches)}
        assert set(first) == {row.resource for row in ACCESS.values()}
        assert max(first.values()) - min(first.values()) < 0.8

    asyncio.run(test())

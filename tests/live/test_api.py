"""What the commands of the live door make of an API server, or a proxy before it, that answers oddly, late or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api_server import Answering, ApiServer
from tests.checking import deployment, node
from webhook.live import api as live
from webhook.live.api import CONFIG_MAPS, DEPLOYMENTS, NODES, Api, ApiError, Resource

RAY_JOBS = Resource("ray.io", "v1", "rayjobs")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    found = ApiServer()
    with found.running():
        yield found


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> Iterator[Api]:
    with Api.opened(server.kubeconfig(tmp_path)) as found:
        yield found


def refusal(ask: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ask()
    return caught.value


def answering(value: Any) -> Callable[[Answering], None]:
    return lambda to: to.send(200, value)


def dripping(to: Answering) -> None:
    """A byte now and then, for as long as somebody reads."""
    to.begin()
    for _ in range(100):
        to.say(b" ")
        time.sleep(0.05)


def dripping_refusal(to: Answering) -> None:
    to.send_response(503)
    to.send_header("Content-Length", "1000")
    to.end_headers()
    for _ in range(100):
        to.wfile.write(b" ")
        to.wfile.flush()
        time.sleep(0.05)


# What is no answer


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ({"kind": "Status"}, "no list of objects"),
        ({"kind": "NodeList", "items": [None]}, "no list of objects"),
        ({"kind": "NodeList", "items": [{"metadata": None}]}, "no list of objects"),
        ([], "no object"),
        (b"<html>log in</html>", "no JSON"),
    ],
)
def test_what_is_no_list(server: ApiServer, api: Api, answer: object, what: str) -> None:
    server.faults["list", "nodes"].append(answering(answer))
    error = refusal(lambda: list(api.items(NODES)))
    assert str(error) == f"list nodes: the answer is {what}; see what is between here and the API server"
    assert error.code == 200


def test_a_list_of_nothing(server: ApiServer, api: Api) -> None:
    server.faults["list", "nodes"].append(answering({"kind": "NodeList", "items": None}))
    assert list(api.items(NODES)) == []


def test_what_is_no_object_and_no_group(server: ApiServer, api: Api) -> None:
    server.faults["get", "configmaps"].append(answering({"kind": "Status"}))
    assert "the answer is no object" in str(refusal(lambda: api.get(CONFIG_MAPS, "x", "y")))
    server.faults["discover", "ray.io"].append(answering({"kind": "Status"}))
    assert "the answer is no API group" in str(refusal(lambda: api.versions("ray.io")))


def test_an_odd_answer_to_a_write_says_nothing_of_whether_it_was_taken(server: ApiServer, api: Api) -> None:
    server.put(deployment("x", "a-lq"))
    server.faults["patch", "deployments"].append(answering(b"<html>"))
    assert refusal(lambda: api.patch(DEPLOYMENTS, "x", {}, "team")).code == 0


def test_nothing_that_others_wrote_acts_on_the_screen(server: ApiServer, api: Api) -> None:
    server.faults["list", "nodes"].append(lambda to: to.status(422, "Invalid", "one\x1b[2J\n\u202etwo"))
    assert str(refusal(lambda: list(api.items(NODES)))) == "list nodes: 422 one\\x1b[2J\n\\u202etwo"


# 404


def test_a_kind_that_is_not_served(server: ApiServer, api: Api) -> None:
    server.absent.add("rayjobs")
    assert list(api.items(RAY_JOBS)) == []
    assert refusal(lambda: list(api.items(RAY_JOBS, required=True))).code == 404


def test_a_kind_that_is_served_and_not_found(server: ApiServer, api: Api) -> None:
    for kind in ("nodes", "rayjobs"):
        server.faults["list", kind].append(lambda to: to.send(404, b"not here"))
    assert str(refusal(lambda: list(api.items(NODES)))) == "list nodes: 404 not here"
    assert str(refusal(lambda: list(api.items(RAY_JOBS)))) == "list rayjobs.ray.io: 404 not here"


def test_a_second_page_that_is_not_found(server: ApiServer, api: Api) -> None:
    for number in range(600):
        server.put(node(f"n{number}", 0))
    gone = iter((False, True))

    def second(to: Answering) -> None:
        to.send(404, b"gone") if next(gone) else server.list(to, "nodes", to.asked.query, "")

    server.faults["list", "nodes"] += [second, second]
    assert refusal(lambda: list(api.items(NODES))).code == 404


def test_an_object_that_is_not_there_and_one_that_somebody_else_does_not_know(server: ApiServer, api: Api) -> None:
    assert api.get(CONFIG_MAPS, "x", "y") is None
    server.faults["get", "configmaps"].append(lambda to: to.send(404, b"no such page"))
    assert refusal(lambda: api.get(CONFIG_MAPS, "x", "y")).code == 404


# Without end


@pytest.mark.parametrize("fault", [dripping, dripping_refusal])
def test_an_answer_that_drips_is_broken_off(
    server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Answering], None]
) -> None:
    monkeypatch.setattr(live, "_LONGEST", 0.3)
    server.faults["list", "nodes"].append(fault)
    began = time.monotonic()
    error = refusal(lambda: list(api.items(NODES)))
    assert time.monotonic() - began < 3
    assert (error.code, "not in full after" in str(error)) == (0, True)
    # The next request has a connection of its own.
    assert list(api.items(NODES)) == []


def test_a_token_that_comes_again(server: ApiServer, api: Api) -> None:
    page = {"kind": "NodeList", "metadata": {"continue": "x"}, "items": []}
    server.faults["list", "nodes"] += [answering(page)] * 10
    assert "the answer is the same page again" in str(refusal(lambda: list(api.items(NODES))))
    assert len(server.requests) == 2


def test_tokens_without_end(server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_LONGEST_LIST", 0.2)

    def page(number: int) -> Callable[[Answering], None]:
        return answering({"kind": "NodeList", "metadata": {"continue": str(number)}, "items": []})

    server.faults["list", "nodes"] += map(page, range(100_000))
    assert "not at its end after" in str(refusal(lambda: list(api.items(NODES))))


def test_one_that_is_too_busy_is_asked_again_a_few_times(
    server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("webhook.live.api.time.sleep", waited.append)

    def busy(to: Answering) -> None:
        to.status(429, "TooManyRequests", "slow down", Retry_After="3" if not waited else "900")

    server.faults["list", "nodes"] += [busy, busy]
    assert list(api.items(NODES)) == []
    assert waited == [3.0, 5.0]
    server.faults["list", "nodes"] += [busy] * 3
    assert refusal(lambda: list(api.items(NODES))).code == 429
    assert len(server.requests) == 6
    # A write is not repeated here: whoever writes reads again first.
    server.faults["patch", "nodes"].append(busy)
    assert refusal(lambda: api.patch(NODES, "x", {})).code == 429
    assert len(server.requests) == 7

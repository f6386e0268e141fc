"""`floorkeeper serve --page-port`: off unless asked for, and beside the webhooks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from tests.live.page_world import base
from tests.serving import run, serving, until

_QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus", "namespace": "serving"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "10"}},
}


def state(directory: Path) -> Path:
    home = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "serving", "labels": {"floorkeeper.io/managed": "true"}},
    }
    (directory / "state.yaml").write_text(yaml.safe_dump_all([home, *base()]))
    return directory


def test_the_page_shows_floors_and_denials(tmp_path: Path) -> None:
    request = {
        "uid": "u1",
        "kind": {"group": "", "version": "v1", "kind": "ResourceQuota"},
        "resource": {"group": "", "version": "v1", "resource": "resourcequotas"},
        "name": "gpus",
        "namespace": "serving",
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": _QUOTA,
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    with (
        ExitStack() as stack,
        serving("--state", str(state(tmp_path)), "--page-port", "0") as server,
        server.client() as client,
    ):
        (told,) = until(lambda: server.logged("page"))
        assert told["address"].startswith("http://127.0.0.1:")
        page = stack.enter_context(httpx.Client(base_url=told["address"], trust_env=False))
        until(lambda: page.get("/data.json").json()["flavors"]["rows"])
        answer = client.post("/validate", json=review).json()["response"]
        assert not answer["allowed"]
        until(lambda: page.get("/data.json").json()["denials"])
        data = page.get("/data.json").json()
        (denial,) = data["denials"]
        assert (denial["user"], denial["namespace"], denial["name"], denial["rules"]) == (
            "alice",
            "serving",
            "gpus",
            ["gpu-resource-quota"],
        )
        assert denial["messages"] == [answer["status"]["message"]]
        assert data["flavors"]["rows"][0]["verdict"] == "fit"
        assert data["violations"]["reason"].startswith("no audits are done: serve --audit-every 10m")
        assert data["queues"]["statusReason"].startswith("the facts come from a folder")
        assert page.get("/").status_code == 200
        # What judges is not there.
        assert page.post("/validate", json=review).status_code == 413
        assert server.end() == 0
        assert server.logged("stopped")


def test_without_the_option_there_is_none(tmp_path: Path) -> None:
    with serving("--state", str(state(tmp_path))) as server:
        until(lambda: server.logged("ready"))
        assert server.logged("page") == []


def test_a_page_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with serving("--state", str(state(tmp_path)), "--page-port", "0") as server:
        (told,) = until(lambda: server.logged("page"))
        port = told["address"].rstrip("/").rpartition(":")[2]
        second = run("serve", "--port", "0", "--state", str(tmp_path), "--page-port", port)
        _, error = second.communicate(timeout=20)
        assert second.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in error


def test_names_that_browsers_know_it_by(tmp_path: Path) -> None:
    names = ("--page-name", "floors.example.com", "--page-name", "Floors.team", "--page-host", "localhost")
    with serving("--state", str(state(tmp_path)), "--page-port", "0", *names) as server:
        (told,) = until(lambda: server.logged("page"))
        with httpx.Client(base_url=told["address"], trust_env=False) as page:
            for host, status in (
                ("floors.example.com", 200),
                ("floors.team:443", 200),
                ("localhost:8080", 200),
                ("evil.example.com", 421),
            ):
                assert page.get("/data.json", headers={"host": host}).status_code == status, host


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--page-name floors.example.com", "--page-name needs --page-port: without it there is no page"),
        (
            "--page-port 0 --page-name https://floors.example.com",
            "must be a DNS name without scheme and port, is 'https://floors.example.com'; try floors.example.com",
        ),
        ("--page-port 0 --page-name floors.example.com:80", "must be a DNS name without scheme and port, is"),
        ("--page-port 0 --page-name=", "must be a DNS name without scheme and port, is ''"),
    ],
)
def test_a_page_name_that_is_none_is_told(tmp_path: Path, words: str, told: str) -> None:
    process = run("serve", "--port", "0", "--state", str(tmp_path), *words.split())
    _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert told in " ".join(error.split())

"""A headless Chromium, driven over the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import websocket

from scripts.controlplane.chromium import find_chromium
from scripts.controlplane.progress import Progress
from tests.serving import until

Json = dict[str, Any]
# The machine's one user may be root, under whom Chromium has no sandbox; all that it is shown is our own page.
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-dev-shm-usage", "--no-zygote",
    "--font-render-hinting=none", "--remote-debugging-port=0", "--remote-allow-origins=*",
)  # fmt: skip
_ANSWER_SECONDS = 30.0

_program = cache(find_chromium)


class Tab:
    """One page. What its console and its security policy complain of is gathered in `complaints`."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=_ANSWER_SECONDS)
        self._number = 0
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Accessibility", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: Any) -> Json:
        """What the browser answers to a command."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            self._hear(message)
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                result: Json = message["result"]
                return result

    def _hear(self, message: Json) -> None:
        match message.get("method"):
            case "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(message["params"]["args"]))

    def show(self, width: int, height: int = 800, *, dark: bool = False, calm: bool = True) -> None:
        """The size of the window in CSS pixels, and what the reader prefers."""
        mobile = width < 600
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        features = {"prefers-color-scheme": "dark" if dark else "light"}
        features["prefers-reduced-motion"] = "reduce" if calm else "no-preference"
        self("Emulation.setEmulatedMedia", features=[{"name": name, "value": text} for name, text in features.items()])

    def open(self, url: str) -> None:
        self("Page.navigate", url=url)
        until(lambda: self.run("document.readyState") == "complete")

    def run(self, script: str) -> Any:
        """What an expression comes to, as JSON."""
        found = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """What a reader sees there."""
        text: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return text

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9}.get(key, 13))

    def tree(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader meets, in its order."""
        nodes = self("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._socket.close()


@contextmanager
def browser() -> Iterator[Tab]:
    program, more = _program(Progress())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [str(program), *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        with (Path(profile) / "log").open("wb") as log:
            process = subprocess.Popen(command, env={**os.environ, **more}, stdout=log, stderr=log)
        try:
            port = Path(profile) / "DevToolsActivePort"
            until(lambda: process.poll() is not None or (port.exists() and port.read_text().count("\n")))
            assert process.poll() is None, (Path(profile) / "log").read_text()[-2000:]
            number = port.read_text().split()[0]
            pages = httpx.get(f"http://127.0.0.1:{number}/json/list", timeout=_ANSWER_SECONDS, trust_env=False).json()
            (page,) = (each for each in pages if each["type"] == "page")
            tab = Tab(page["webSocketDebuggerUrl"])
            try:
                yield tab
            finally:
                tab.close()
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

"""What kubectl makes of a kustomization. Imported only where there is one, since it needs much."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from webhook.sources.text import LARGEST

_COMMANDS = (("kubectl", "kustomize"), ("kustomize", "build"))
_SECONDS = 60.0
_LONGEST_REASON = 400
_PART = 2**16


class RenderError(Exception):
    """The message says what is wrong with a kustomization, and after a semicolon what to do."""


def render(folder: Path, programs: str | None = None, seconds: float = _SECONDS) -> bytes:
    """The YAML that `kubectl apply -k` would apply, as kubectl or else kustomize prints it. Raises RenderError.

    `programs` are the folders to look for them, as in the variable PATH, which is the default.
    """
    for name, verb in _COMMANDS:
        program = shutil.which(name, path=programs)
        if program:
            return _output([program, verb, os.path.abspath(folder)], f"`{name} {verb}`", seconds)
    raise RenderError(
        "is a kustomization, and neither kubectl nor kustomize is on PATH; install one of them, or render it elsewhere "
        "and pipe it in"
    )


def _output(command: list[str], name: str, seconds: float) -> bytes:
    try:
        # A session of its own has no terminal, so that git cannot ask for a password.
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            ) as process,
        ):
            assert process.stdout is not None
            try:
                output = _read(process.stdout, time.monotonic() + seconds)
                code = process.wait(seconds)
            except (TimeoutError, subprocess.TimeoutExpired):
                raise RenderError(
                    f"{name} took more than {seconds:g} seconds; render it yourself, and pipe it in"
                ) from None
            finally:
                # With what it has started, such as git.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            if code:
                raise RenderError(f"{name} failed: {_reason(errors) or f'exit code {code}'}; correct the kustomization")
    except OSError as error:
        raise RenderError(f"{name} cannot be run: {error.strerror or error}; check the program on PATH") from None
    return output


def _read(pipe: IO[bytes], until: float) -> bytes:
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= LARGEST:
            if not selector.select(max(until - time.monotonic(), 0)):
                raise TimeoutError
            part = os.read(pipe.fileno(), _PART)
            if not part:
                return bytes(output)
            output += part
    raise RenderError(f"renders to more than {LARGEST // 2**20} MiB; render it yourself, and pipe it in in parts")


def _reason(errors: IO[bytes]) -> str:
    """What a program says on one line, without the warnings."""
    errors.seek(0)
    lines = errors.read(_PART).decode(errors="replace").splitlines()
    return " ".join(" ".join(line for line in lines if not line.startswith("# Warning")).split())[:_LONGEST_REASON]

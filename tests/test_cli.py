"""The command line: what it says of itself, what it says when it is wrong, and the commands that end by themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from webhook.cli import main

ROOT = Path(__file__).parents[1]
HEAD = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert isinstance(end.value.code, int)
    return (end.value.code, *capsys.readouterr())


COMMANDS = {
    (),
    ("serve",),
    ("check",),
    ("render",),
    ("explain",),
    ("rules",),
    ("completion",),
    ("audit",),
    ("plan",),
    ("adopt",),
    ("verify",),
    ("release",),
    ("policy",),
    ("policy", "check"),
    ("policy", "schema"),
}


@pytest.mark.parametrize("command", sorted(COMMANDS), ids=" ".join)
def test_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        code, out, err = ran(capsys, *command, "--help")
        assert (code, err) == (0, "")
        assert out.startswith(" ".join(("Usage: floorkeeper", *command)))
        assert "..." not in re.sub(r"(\[ARGS\]|PATH\]?|DEPLOYMENT\S*)\.\.\.", "", out), "a sentence is cut"
        assert max(map(len, out.splitlines())) <= min(int(columns), 120)
        assert ran(capsys, *command, "-h") == (0, out, "")


@pytest.mark.parametrize("command", ["policy"])
def test_without_its_command_it_shows_its_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert ran(capsys, command) == ran(capsys, command, "--help")


SECRET_NAME = "Invalid value for '--tls-secret': must be the name of a Secret, is "
ONE_PLACE = "give --tls-secret without --tls-cert, --tls-key and --state"
PORT = "Invalid value for '--port': must be a whole number from 0 to 65535, is "


@pytest.mark.parametrize(
    ("line", "message", "command"),
    [
        ("nope", "No such command 'nope'", ""),
        ("--nope serve", "No such option: --nope", ""),
        ("serve --nope", "No such option: --nope", "serve"),
        ("check", "no PATH: give files, folders, or - for stdin", "check"),
        ("check --nope", "unrecognized arguments: --nope", "check"),
        ("check --nodes", "argument --nodes: expected one argument", "check"),
        ("serve extra", "Got unexpected extra argument(s) (extra)", "serve"),
        ("serve --port", "Option '--port' requires an argument", "serve"),
        *((f"serve --port={port}", PORT + port, "serve") for port in ("x", "-1", "70000", "1.5", "000080", "٣", "")),
        ("serve --state /nope", "Invalid value for '--state': dir '/nope' does not exist", "serve"),
        ("serve --policy /nope", "Invalid value for '--policy': file '/nope' does not exist", "serve"),
        ("serve --client-ca /nope", "Invalid value for '--client-ca': file '/nope' does not exist", "serve"),
        ("serve --tls-secret A_b", SECRET_NAME + "'A_b'; try floorkeeper-tls", "serve"),
        ("serve --tls-secret=", SECRET_NAME + "''; try floorkeeper-tls", "serve"),
        ("serve --tls-secret x --state .", f"{ONE_PLACE}: --state has no Secrets", "serve"),
        (
            "serve --tls-secret x --tls-cert pyproject.toml --tls-key pyproject.toml",
            f"{ONE_PLACE}: the certificate is kept in one place",
            "serve",
        ),
        (
            "serve --client-name x",
            "--client-name needs --client-ca: names count only if a CA vouches for them",
            "serve",
        ),
        ("render --ca-file /nope", "Invalid value for '--ca-file': file '/nope' does not exist", "render"),
        ("adopt -n x", "Missing argument 'DEPLOYMENT[=QUEUE]'", "adopt"),
        ("policy nope", "No such command 'nope'", "policy"),
        ("policy check", "Missing argument 'FILE'", "policy check"),
        ("policy schema x", "Got unexpected extra argument(s) (x)", "policy schema"),
    ],
)
def test_wrong_lines(capsys: pytest.CaptureFixture[str], line: str, message: str, command: str) -> None:
    named = f"floorkeeper {command}".strip()
    assert ran(capsys, *line.split()) == (2, "", f"floorkeeper: {message}; try: {named} --help\n")


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "policy", "schema")
    assert (code, json.loads(out)["title"], err) == (0, "Floorkeeper policy", "")


class TestPolicyCheck:
    def test_fine(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = ROOT / "examples" / "policy.yaml"
        assert ran(capsys, "policy", "check", str(path)) == (0, f"{path}: fine\n", "")

    def test_notes(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        path = tmp_path / "p.yaml"
        path.write_text(
            f"{HEAD}rules: {{hidden-gpu-use: warn}}\n"
            "queues: [{namespace: a, localQueue: b}, {namespace: a, localQueue: c}]\n"
            "exemptions: [{users: [a], reason: INC-1, until: 2020-01-31}]\n"
        )
        expected = (
            f"{path}: fine\n"
            f"{path}: queues[1]: never applies, since queues[0] comes first and matches all that it matches; "
            "move it up, or remove it\n"
            f"{path}: exemptions[0]: ended on 2020-01-31 (INC-1); remove it, or set until anew\n"
        )
        assert ran(capsys, "policy", "check", str(path)) == (0, expected, "")

    def test_wrong(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        path = tmp_path / "p.yaml"
        path.write_text(f"{HEAD}inject: never\nrule: {{}}\n")
        expected = (
            f"{path}:3: inject: must be onRollout or always, is 'never'; write one of these\n"
            f"{path}:4: rule: unknown key; did you mean rules?\n"
        )
        assert ran(capsys, "policy", "check", str(path)) == (2, "", expected)

    def test_missing(self, capsys: pytest.CaptureFixture[str]) -> None:
        expected = "/nope:1: file: cannot be read (No such file or directory); check the path and its permissions\n"
        assert ran(capsys, "policy", "check", "/nope") == (2, "", expected)

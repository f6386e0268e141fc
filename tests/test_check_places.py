"""Where `floorkeeper check` is used: pre-commit, GitHub, GitLab, kubectl and the shell. What each runs is run here."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checking import QUOTAS, cluster_queue, deployment, node, written
from webhook import cli
from webhook.check.command import flags

ROOT = Path(__file__).parents[1]
CLEAN = (*QUOTAS, node(), deployment("x", "a-lq"))
DENIED = (*CLEAN, cluster_queue("c", 1))
COMMANDS = {"serve", "audit", "plan", "adopt", "verify", "release", "explain", "completion"}
OPTIONS = {"--tls-cert", "--page-port", "--policy-reports", "--set", "--let-wait", "--all", "--kubeconfig"}


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the entry points of pyproject.toml, as pip writes them into bin."""
    folder = tmp_path / "floorkeeper" / "bin"
    folder.mkdir(parents=True)
    for name, target in scripts().items():
        module, _, function = target.partition(":")
        program = folder / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        program.chmod(0o755)
    return folder


def scripts() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    return found


def ran(line: str, programs: Path, cwd: Path, **variables: str) -> tuple[int, str]:
    """Exit code and output of a bash script, as GitHub and GitLab start it."""
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    found = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line],
        cwd=cwd,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.returncode, found.stdout + found.stderr


def test_entry_points() -> None:
    assert list(scripts()) == ["floorkeeper", "kubectl-floorkeeper"]
    for target in scripts().values():
        module, _, function = target.partition(":")
        assert getattr(import_module(module), function) is cli.main


@pytest.mark.parametrize(("objects", "code"), [(CLEAN, 0), (DENIED, 1)])
def test_pre_commit_runs_its_entry_with_file_names(tmp_path: Path, programs: Path, objects: Any, code: int) -> None:
    (hook,) = read(".pre-commit-hooks.yaml")
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("floorkeeper-check", "python", True)
    assert hook["types_or"] == ["yaml", "json"]
    folder = written(tmp_path / "in", *objects)
    assert ran(f"{hook['entry']} {folder}/objects.yaml", programs, tmp_path)[0] == code


class TestGitHub:
    ACTION = read("action.yml")
    INSTALL, CHECK = ACTION["runs"]["steps"]

    def test_inputs_are_all_used(self) -> None:
        assert self.ACTION["runs"]["using"] == "composite"
        used = [text for step in (self.INSTALL, self.CHECK) for text in step["env"].values()]
        named = {name for text in used for name in re.findall(r"\$\{\{ inputs\.(\S+) \}\}", text)}
        assert named == set(self.ACTION["inputs"]) == {"paths", "policy", "fail-on", "args", "python-version"}

    def test_inputs_reach_scripts_as_variables_alone(self) -> None:
        for step in (self.INSTALL, self.CHECK):
            assert "uses" not in step
            assert "${{" not in step["run"]
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)

    def test_check(self, tmp_path: Path, programs: Path) -> None:
        written(tmp_path / "one", *CLEAN)
        written(tmp_path / "two", cluster_queue("c", 1))
        (tmp_path / "policy file.yaml").write_text("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n")
        environment = {"RUNNER_TEMP": str(tmp_path), "PATHS": "one\ntwo\n", "POLICY": "", "FAIL_ON": "", "ARGS": ""}
        code, out = ran(self.CHECK["run"], programs, tmp_path, **environment)
        assert code == 1
        assert out.startswith("::error file=two/objects.yaml,line=")
        environment |= {"PATHS": "one", "POLICY": "policy file.yaml", "FAIL_ON": "patch,warn", "ARGS": "--managed -n *"}
        # Every word comes through as it is.
        code, out = ran(self.CHECK["run"], programs, tmp_path, **environment)
        assert (code, "--namespace: '*' is no name" in out) == (2, True)
        environment["ARGS"] = ""
        assert ran(self.CHECK["run"], programs, tmp_path, **environment)[0] == 0

    def test_a_python_that_is_not_there(self, tmp_path: Path, programs: Path) -> None:
        environment = {"PYTHON_VERSION": "3.4", "RUNNER_TOOL_CACHE": str(tmp_path), "RUNNER_TEMP": str(tmp_path)}
        code, out = ran(self.INSTALL["run"], programs, tmp_path, **environment)
        assert (code, out) == (
            2,
            "::error title=floorkeeper check::needs Python 3.11 or newer, and the runner's python3.4 is none; "
            "set python-version to one that it has, or install one in a step before\n",
        )

    def test_install_takes_what_is_locked(self) -> None:
        assert "-r requirements.lock" in self.INSTALL["run"]
        assert (ROOT / "requirements.lock").is_file()


def test_gitlab(tmp_path: Path, programs: Path) -> None:
    job = read("examples/ci/gitlab.yml")["floorkeeper-check"]
    report = tmp_path / job["artifacts"]["reports"]["codequality"]
    written(tmp_path / "in", *DENIED)
    code, out = ran("\n".join(job["script"]), programs, tmp_path, **{**job["variables"], "FLOORKEEPER_PATHS": "in"})
    assert code == 1
    assert "[floors-exceed-capacity]" in out
    assert [entry["check_name"] for entry in yaml.safe_load(report.read_text())] == ["floors-exceed-capacity"]


class TestCompletion:
    def completed(self, programs: Path, tmp_path: Path, *words: str) -> list[str]:
        line = f"""
            source <(floorkeeper completion bash)
            COMP_WORDS=({shlex.join(("floorkeeper", *words))}) COMP_CWORD={len(words)}
            _floorkeeper
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        code, out = ran(line, programs, tmp_path)
        assert code == 0, out
        return out.split()

    def test_bash(self, programs: Path, tmp_path: Path) -> None:
        assert self.completed(programs, tmp_path, "che") == ["check"]
        assert self.completed(programs, tmp_path, "policy", "") == ["check", "schema", "--help"]
        assert self.completed(programs, tmp_path, "check", "in", "--s") == [
            "--state",
            "--server",
            "--strict",
            "--schema",
        ]
        assert set(self.completed(programs, tmp_path, "check", "-")) == set(flags())
        assert self.completed(programs, tmp_path, "release", "--a") == ["--all"]

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_every_command_and_option_is_there(self, programs: Path, tmp_path: Path, shell: str) -> None:
        code, out = ran(f"floorkeeper completion {shell}", programs, tmp_path)
        assert code == 0
        assert {*flags(), *COMMANDS, *OPTIONS} - set(re.split(r"[\s\"']+", out)) == set()

    def test_another_shell(self, programs: Path, tmp_path: Path) -> None:
        code, out = ran("floorkeeper completion tcsh", programs, tmp_path)
        assert code == 2
        assert "'tcsh' is not one of 'bash', 'zsh', 'fish'; try: floorkeeper completion --help" in out

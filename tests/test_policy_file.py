"""Policies as files: YAML that is none, files that cannot be read, files that change."""

from __future__ import annotations

import os
import time
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.engine.policy import GpuRequests, Inject, Policy, QueueMapping
from webhook.policy import PolicyError, PolicyFile, parse_policy, read_policy
from webhook.policy.notes import notes

HEAD = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
ALWAYS = f"{HEAD}inject: always\n"
EMPTY = "1: document: is empty; begin with apiVersion: floorkeeper.io/v1alpha1 and kind: Policy"
BOMB = "".join(f"- &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
NESTED = "exceeded maximum nesting depth while increasing flow level that begins in line 3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EMPTY),
        ("# nothing\n---\n", EMPTY),
        ("null", EMPTY),
        ("- a", "1: document: must be a mapping, is a list; write key: value pairs, or leave the key out"),
        ("a", "1: document: must be a mapping, is 'a'; write key: value pairs, or leave the key out"),
        (f"{HEAD}---\n{HEAD}", "3: document: is a second document; keep one policy in one file"),
        (
            f"{HEAD}inject: a: b",
            "3: column 10: is no YAML: mapping values are not allowed in this context; correct it here or just above",
        ),
        (
            f"{HEAD}queues: [\n",
            "4: column 1: is no YAML: did not find expected node content while parsing a flow node "
            "that begins in line 4; correct it here or just above",
        ),
        (f"{HEAD}a: x\0", "3: column 5: has the character U+0000, which YAML forbids; remove it"),
        (f"{HEAD}\r\né\ud800", "4: column 2: has the character U+D800, which YAML forbids; remove it"),
        *(
            (f"{HEAD}{body}", f"{line}: column {column}: is a tab; YAML wants spaces")
            for body, line, column in (
                ("rules:\n\tno-reclaim: deny", 4, 1),
                ("queues:\n- namespace: a\n\tlocalQueue: b", 5, 1),
                ("queues:\n-\tnamespace: a\n\tlocalQueue: b", 4, 2),
                ("rules:\n  no-reclaim: deny\r\n \thidden-gpu-use: deny", 5, 2),
                ("inject: always\n\t\ngpuRequests: fill", 4, 1),
            )
        ),
        (f"%TAG ! a\n---\n{HEAD}", "1: column 1: has a %TAG directive; leave tags out"),
        (
            f"{HEAD}rules: !!python/name:os.system x",
            "3: rules: has the tag 'tag:yaml.org,2002:python/name:os.system'; leave it out",
        ),
        (f"{HEAD}queues: [*a]", "3: queues[0]: is the alias *a without an anchor above; write the value out"),
        (f"{HEAD}queues: &a [*a]", "3: queues[0]: is the alias *a without an anchor above; write the value out"),
        (
            f"{HEAD}queues:\n- &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n{BOMB}",
            "8: queues[4][5]: brings the file to more than 50,000 values; shorten it, or use fewer aliases",
        ),
        (
            f"{HEAD}queues: [{'1, ' * 60_000}]",
            "3: queues[49993]: brings the file to more than 50,000 values; shorten it, or use fewer aliases",
        ),
        (f"{HEAD}rules: {'[' * 500}", "3: rules[0][0]: is nested deeper than 16; flatten it"),
        (f"{HEAD}rules: {'{a: ' * 100}", "3: rules.a.a: is nested deeper than 16; flatten it"),
        (f"{HEAD}{'[' * 500_000}", f"3: column 1000: is no YAML: {NESTED}; correct it here or just above"),
        (
            "é" * 2**19 + "a",
            "1: file: is larger than 1,048,576 bytes; shorten it, and check that it is the right file",
        ),
    ],
    ids=lambda text: text[-20:],
)
def test_no_usable_yaml(text: str, expected: str) -> None:
    started = time.monotonic()
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    assert str(caught.value).split("\n")[0] == f"p.yaml:{expected}"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{HEAD}queues: []\nqueues: []\nrollout: {{maxUnavailable: 1, maxUnavailable: 2}}",
            [
                "p.yaml:4: queues: is there twice, first in line 3; keep one",
                "p.yaml:5: rollout.maxUnavailable: is there twice, first in line 5; keep one",
            ],
        ),
        (
            f"{HEAD}rules: {{<<: {{no-reclaim: deny}}}}\ntrue: 1\n[a]: b\n? {{a: b}}\n: c\n2027-01-31: 2",
            [
                "p.yaml:3: rules[<<]: merge keys are not supported; write the keys out",
                "p.yaml:4: true: the key must be a string; put it in quotes",
                "p.yaml:5: document: has a key that is no string; write keys out as text",
                "p.yaml:6: document: has a key that is no string; write keys out as text",
                "p.yaml:8: 2027-01-31: unknown key; known are apiVersion, kind, managedNamespaces, accelerators, "
                "kinds, queues, inject, gpuRequests, rollout, gracePeriod, capacity, rules, exemptions",
            ],
        ),
        (
            f"{HEAD}rules: {{a: &x [*x], *x : 1}}",
            ["p.yaml:3: rules.a[0]: is the alias *x without an anchor above; write the value out"],
        ),
        # The line is that of the anchor's text, since that is what has to change.
        (
            f"{HEAD}queues:\n- &q\n  namespace: a\n  localQueue: X\n- *q",
            [
                f"p.yaml:6: queues[{index}].localQueue: must be a DNS-1123 name, is 'X'; use a-z, 0-9, - and ., "
                "begin and end with a letter or digit, 253 characters at the most"
                for index in (0, 1)
            ],
        ),
    ],
)
def test_yaml_that_says_two_things(text: str, expected: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    assert str(caught.value).split("\n") == expected


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + ALWAYS.replace("\n", "\r\n").encode())
    assert read_policy(path) == Policy(inject=Inject.ALWAYS)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: b\nc: \xff\n", "2: file: is not UTF-8; save it as UTF-8"),
        (HEAD.encode("utf-16"), "1: file: is not UTF-8; save it as UTF-8"),
        (
            b"#" * (2**20 + 1),
            "1: file: is larger than 1,048,576 bytes; shorten it, and check that it is the right file",
        ),
        (b"", EMPTY),
    ],
    ids=["latin-1", "utf-16", "large", "empty"],
)
def test_files_that_hold_no_policy(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        read_policy(path)
    assert str(caught.value) == f"{path}:{expected}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, pipe, loop = tmp_path / "none.yaml", tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    words = {
        missing: "cannot be read (No such file or directory); check the path and its permissions",
        missing / "x": "cannot be read (No such file or directory); check the path and its permissions",
        loop: "cannot be read (Too many levels of symbolic links); check the path and its permissions",
        pipe: "is not a regular file; give the path of a YAML file",
        tmp_path: "is not a regular file; give the path of a YAML file",
    }
    for path, expected in words.items():
        with pytest.raises(PolicyError) as caught:
            read_policy(path)
        assert str(caught.value) == f"{path}:1: file: {expected}"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policies") / "p.yaml"


@settings(deadline=2000)
@given(content=st.binary() | st.binary().map(lambda tail: ALWAYS.encode() + tail))
def test_any_file_is_read_or_refused(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    file = PolicyFile(scratch)
    file.refresh()
    assert (file.generation, file.error == "") in ((0, False), (1, True))


def test_without_a_path_the_defaults_hold() -> None:
    file = PolicyFile(None)
    file.load()
    assert file.refresh() is False
    assert (file.policy, file.generation, file.error, file.notes(date(2026, 1, 1))) == (Policy(), 1, "", ())


def test_a_change_is_seen_once(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD)
    file = PolicyFile(path)
    assert file.generation == 0
    file.load()
    assert (file.policy, file.generation, file.refresh()) == (Policy(), 1, False)
    path.write_text(ALWAYS)
    assert (file.refresh(), file.refresh()) == (True, False)
    assert (file.policy, file.generation, file.error) == (Policy(inject=Inject.ALWAYS), 2, "")
    # Another text of the same policy is no other policy.
    path.write_text(f"{ALWAYS}# checked\n")
    assert (file.refresh(), file.generation) == (False, 2)


def test_the_last_good_policy_stays_in_force(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(ALWAYS)
    file = PolicyFile(path)
    file.load()
    path.write_text(f"{HEAD}inject: never\n")
    broken = f"{path}:3: inject: must be onRollout or always, is 'never'; write one of these"
    assert (file.refresh(), file.refresh(), file.error) == (False, False, broken)
    path.unlink()
    missing = f"{path}:1: file: cannot be read (No such file or directory); check the path and its permissions"
    assert (file.refresh(), file.refresh(), file.error) == (False, False, missing)
    assert (file.policy, file.generation) == (Policy(inject=Inject.ALWAYS), 1)
    path.write_text(ALWAYS)
    assert (file.refresh(), file.generation, file.error) == (False, 1, "")
    path.write_text(f"{ALWAYS}gpuRequests: fill\n")
    assert (file.refresh(), file.generation, file.policy.gpu_requests) == (True, 2, GpuRequests.FILL)


def test_a_broken_first_file_is_raised_and_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    file = PolicyFile(path)
    message = f"{path}:1: file: cannot be read (No such file or directory); check the path and its permissions"
    with pytest.raises(PolicyError) as caught:
        file.load()
    assert (str(caught.value), file.error, file.generation) == (message, message, 0)
    assert file.refresh() is False
    path.write_text(HEAD)
    assert (file.refresh(), file.generation, file.error) == (True, 1, "")


def test_a_broken_file_is_not_read_again_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("a: [")
    file = PolicyFile(path)
    file.refresh()
    file.error = "not looked at"
    assert (file.refresh(), file.error) == (False, "not looked at")
    # Mended with its size and its date kept: the change time tells.
    state = path.stat()
    path.write_text("a: ]")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (file.refresh(), file.error.startswith(f"{path}:1: column 4: is no YAML")) == (False, True)


def test_a_mounted_config_map_is_followed(tmp_path: Path) -> None:
    for name, text in (("..1", HEAD), ("..2", ALWAYS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "policy.yaml"
    path.symlink_to("..data/policy.yaml")
    file = PolicyFile(path)
    file.load()
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    assert (file.refresh(), file.refresh(), file.policy) == (True, False, Policy(inject=Inject.ALWAYS))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", []),
        ("capacity: {ignoreFlavors: [f]}", []),
        ("rules: {hidden-gpu-use: warn}", []),
        (
            "exemptions: [{users: [a], reason: INC-1, until: 2026-02-28}]",
            ["exemptions[0]: ended on 2026-02-28 (INC-1); remove it, or set until anew"],
        ),
    ],
)
def test_what_has_no_effect_is_noted(body: str, expected: list[str]) -> None:
    assert list(notes(parse_policy(HEAD + body, "p.yaml"), date(2026, 3, 1))) == expected


LABELS = "selector: {matchLabels: {a: x, b: y}}"


@pytest.mark.parametrize(
    ("entries", "shadowed"),
    [
        ("{namespace: a}, {namespace: a}", {1: 0}),
        ("{namespace: a}, {namespace: b}, {namespace: 'b*'}, {namespace: a, workload: w}", {3: 0}),
        ("{namespace: '*'}, {namespace: team-*}, {namespace: x}", {1: 0, 2: 0}),
        ("{namespace: team-*}, {namespace: '*'}", {}),
        ("{namespace: team-*-x}, {namespace: team-a-*-x}, {namespace: team-x}, {namespace: team-*}", {1: 0}),
        ("{namespace: a, workload: m-*}, {namespace: a, workload: m-a-*}, {namespace: a, workload: '*-a'}", {1: 0}),
        (f"{{namespace: a, {LABELS}}}, {{namespace: a}}", {}),
        (f"{{namespace: a}}, {{namespace: a, {LABELS}}}", {1: 0}),
        (f"{{namespace: a, selector: {{matchLabels: {{b: y}}}}}}, {{namespace: a, {LABELS}}}", {1: 0}),
        (f"{{namespace: a, selector: {{matchLabels: {{b: z}}}}}}, {{namespace: a, {LABELS}}}", {}),
        (
            "{namespace: a, selector: {matchExpressions: [{key: c, operator: Exists}]}}, "
            "{namespace: a, selector: {matchExpressions: [{key: d, operator: Exists}, {key: c, operator: Exists}]}}",
            {1: 0},
        ),
        ("{namespace: b}, {namespace: 'a*'}, {namespace: '*a'}, {namespace: a-a}", {3: 1}),
    ],
)
def test_entries_of_queues_that_never_apply_are_noted(entries: str, shadowed: dict[int, int]) -> None:
    policy = parse_policy(f"{HEAD}queues: [{entries.replace('{namespace', '{localQueue: q, namespace')}]", "p.yaml")
    assert list(notes(policy, date(2026, 3, 1))) == [
        f"queues[{index}]: never applies, since queues[{first}] comes first and matches all that it matches; "
        "move it up, or remove it"
        for index, first in shadowed.items()
    ]


PATTERNS = st.text(st.sampled_from("ab*"), max_size=5)
NAMES = st.text(st.sampled_from("ab"), max_size=6)


@given(PATTERNS, PATTERNS, st.lists(NAMES, max_size=20))
def test_an_entry_that_is_said_never_to_apply_never_does(first: str, second: str, names: list[str]) -> None:
    queues = (QueueMapping(first, "q"), QueueMapping(second, "r"))
    if list(notes(Policy(queues=queues), date(2026, 3, 1))):
        # Also of the names that the second pattern is sure to match.
        for name in [*names, *(second.replace("*", name) for name in names)]:
            assert Policy(queues=queues).mapped_queue(name, "w", {}) != "r"


def test_exemptions_that_have_ended_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        f"{HEAD}exemptions:\n- {{users: [a], reason: b}}\n- {{users: [a], reason: INC-1, until: 2026-03-01}}\n"
    )
    file = PolicyFile(path)
    file.load()
    assert file.notes(date(2026, 3, 1)) == ()
    assert file.notes(date(2026, 3, 2)) == (
        f"{path}: exemptions[1]: ended on 2026-03-01 (INC-1); remove it, or set until anew",
    )

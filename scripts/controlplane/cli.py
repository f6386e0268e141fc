"""The command line of scripts/cluster: up DIR, restart DIR NAME, down DIR."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from .cluster import FURTHER, OPTIONAL, ComponentFailed, Start, Wanted, take_down
from .external import given_kubeconfig, use_external
from .layout import Layout, Record
from .manifests import CRDS
from .process import is_alive
from .progress import ClusterError, Progress
from .restart import restart
from .signals import Interrupted, ignore, install


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    arguments = _parser().parse_args(argv)
    progress = Progress()
    layout = Layout(Path(arguments.dir).absolute())
    install()
    try:
        if arguments.command == "down":
            _down(layout, progress)
        elif arguments.command == "restart":
            restart(layout, arguments.name, progress)
        else:
            # What is started needs its CRDs.
            crds = tuple(dict.fromkeys([*arguments.crds, *arguments.further]))
            without, further = frozenset(arguments.without), frozenset(arguments.further)
            _up(layout, Wanted(arguments.nodes, arguments.gpus, without, crds, further), progress)
    except (ClusterError, OSError) as error:
        progress.say(f"error: {error}")
        return 1
    except Interrupted as interrupted:
        progress.say(f"interrupted by {interrupted}")
        return 128 + interrupted.number
    return 0


def _up(layout: Layout, wanted: Wanted, progress: Progress) -> None:
    with layout.locked(create=True) as created:
        record = layout.read_record()
        if record is not None and record.processes and record.ready and all(map(is_alive, record.processes)):
            progress.say(f"{layout.root} is already up")
            print(layout.kubeconfig)
            return
        if record is not None:
            if record.external is None:
                progress.say(f"{layout.root} holds the remains of an earlier cluster: removing them")
            created = record.created + created
            take_down(record, progress)
            layout.remove([])
        try:
            layout.refuse_foreign_files()
            record = Record(created=created)
            layout.write_record(record)
            layout.logs.mkdir(exist_ok=True)
            given = given_kubeconfig(layout)
            if given is not None:
                record.external = given
                use_external(given, layout, progress)
            else:
                Start(layout, record, wanted, progress).run()
            record.ready = True
            layout.write_record(record)
        except BaseException as error:
            _undo(layout, record, created, isinstance(error, ComponentFailed), progress)
            raise
    if record.external is None:
        progress.say(f"ready: {layout.root} (stop it with: scripts/cluster down {layout.root})")
    print(record.external or layout.kubeconfig)


def _undo(layout: Layout, record: Record | None, created: list[str], keep_logs: bool, progress: Progress) -> None:
    """After a failed or interrupted `up`: nothing of it stays, except the logs if they are needed to see why."""
    ignore()
    if record is None or not layout.private.exists():
        layout.remove_folders(created)
        return
    if record.processes:
        progress.say("stopping what was started")
    take_down(record, progress)
    record.processes.clear()
    layout.write_record(record)
    layout.remove(created, keep_logs)


def _down(layout: Layout, progress: Progress) -> None:
    try:
        with layout.locked(create=False):
            record = layout.read_record()
            if record is None:
                progress.say(f"{layout.root} is not up: nothing to do")
                return
            ignore()
            take_down(record, progress)
            layout.remove(record.created)
            if record.external:
                progress.say(f"left the cluster of {record.external} as it is")
            else:
                progress.say(f"{layout.root} is down; nothing that `up` made is left")
    except (FileNotFoundError, NotADirectoryError):
        progress.say(f"{layout.root} is not up: there is no such folder")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/cluster",
        description="A real control plane with Kueue, without containers, for tests. All of it lives in DIR.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start it, wait until it is ready, print the path of its kubeconfig")
    up.add_argument("dir", metavar="DIR", help="an empty folder, or one that does not exist yet")
    up.add_argument("--nodes", type=_count, default=2, metavar="N", help="fake nodes (default: %(default)s)")
    up.add_argument("--gpus", type=_count, default=5, metavar="M", help="nvidia.com/gpu a node (default: %(default)s)")
    up.add_argument(
        "--without",
        type=_listed(OPTIONAL),
        action="extend",
        default=[],
        metavar="PART,…",
        help=f"do not start these: {', '.join(OPTIONAL)}; Kueue's CRDs are there in any case; "
        "without kwok nothing keeps nodes Ready or runs pods",
    )
    up.add_argument(
        "--with",
        dest="further",
        type=_listed(FURTHER),
        action="extend",
        default=[],
        metavar="PART,…",
        help=f"start these too: {', '.join(FURTHER)} (controllers and CA injector, not its webhook)",
    )
    up.add_argument(
        "--crds",
        type=_listed(tuple(CRDS)),
        action="extend",
        default=[],
        metavar="NAME,…",
        help=f"install further CRDs: {', '.join(CRDS)}",
    )
    again = commands.add_parser("restart", help="end one of its programs as a roll-out would, and start it again")
    again.add_argument("dir", metavar="DIR")
    again.add_argument("name", metavar="NAME", help="such as kube-apiserver, kueue or etcd; returns when it is ready")
    down = commands.add_parser("down", help="stop it and remove what `up` made")
    down.add_argument("dir", metavar="DIR")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, is {text!r}")
    return int(text)


def _listed(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """An argparse type: comma-separated names out of a fixed set."""

    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
        return names

    return parse

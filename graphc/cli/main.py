"""The entry point and arguments of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from graphc.cli import cache, doctor, model
from graphc.link import names

WHERE = (
    "The cache is where GRAPHC_CACHE_DIR in the environment says, a path or 'off', and else in the "
    "user's cache directory."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        arguments: The arguments after the program's name (default: the process's).

    Returns:
        0 for success, 1 for a problem; a wrong command line exits with 2.

    Raises:
        SystemExit: If the command line is wrong, or asks for help.

    Example:
        >>> main(["cache", "path"])  # here GRAPHC_CACHE_DIR is "off"
        1
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return 0
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `graphc doctor | head -1` closes the pipe
        sys.stderr.close()
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc",
        description="Functions in files, what graphc keeps on disk, and what it finds here.",
    )
    parser.add_argument("--version", action="version", version=f"graphc {version_of('graphc')}")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_cache(commands.add_parser("cache", help="compiled programs on disk", description=WHERE))
    _add_doctor(
        commands.add_parser(
            "doctor",
            help="backends, devices, compiler and cache, and what was probed",
            description="What is found on this machine, what was probed, and what graphc does "
            "about it. The status is 1 where something is to be mended.",
        )
    )
    _add_show(commands.add_parser("show", help="what a file of a function takes, gives and holds"))
    _add_run(
        commands.add_parser(
            "run",
            help="call a function in a file",
            description="Prints the results, or saves them. The file keeps its state.",
        )
    )
    _add_verify(
        commands.add_parser(
            "verify",
            help="compare what a file of a function gives on each backend",
            description="Runs the calls that f.export(..., examples=...) recorded, or the call of "
            "the arguments that are given, on each backend, and by the programs in the file. The "
            "status is 1 where results differ, or nothing could be compared.",
        )
    )
    return parser


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="as f.export writes it")
    parser.add_argument("--text", action="store_true", help="the graph alone, to compare by diff")
    parser.set_defaults(run=lambda given: model.show(given.file, text=given.text))


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="as f.export writes it")
    parser.add_argument("argument", nargs="*", help="x=input.npy, x=0.5 or x=[1.0,2.0]")
    parser.add_argument("--mode", choices=names(), help="the backend; JAX by default")
    parser.add_argument("--output", help="the file for the results, NumPy's .npz")
    parser.set_defaults(
        run=lambda given: model.run(given.file, given.argument, given.mode, given.output)
    )


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="as f.export writes it")
    parser.add_argument("argument", nargs="*", help="x=input.npy, x=0.5 or x=[1.0,2.0]")
    parser.add_argument(
        "--mode", choices=names(), action="append", help="a backend; all by default"
    )
    parser.set_defaults(run=lambda given: model.verify(given.file, given.argument, given.mode))


def _add_cache(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info", help="where it is, how much it holds, and whether it is used"
    )
    info.add_argument("--json", action="store_true", help="for programs to read")
    info.set_defaults(run=lambda given: cache.info(json=given.json))
    clear = commands.add_parser("clear", help="remove all entries")
    clear.set_defaults(run=lambda given: cache.clear())
    path = commands.add_parser("path", help="print its directory")
    path.set_defaults(run=lambda given: cache.path())


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs to read")
    parser.add_argument(
        "--backend",
        choices=names(),
        help="look at this one alone, and in this very process: what crashes it is not caught",
    )
    parser.add_argument(
        "--self-test",
        nargs="*",
        metavar="WORD",
        help="run small programs on each device, compare them with NumPy and print a table to "
        "report, in five minutes; with words, only what their names contain",
    )
    parser.set_defaults(run=_run_doctor)


def _run_doctor(given: argparse.Namespace) -> int:
    if given.self_test is None:
        return doctor.run(given.backend, json=given.json)
    # Other commands load neither attention nor packed arrays.
    from graphc.cli import self_test  # noqa: PLC0415

    return self_test.run(given.backend, given.self_test)


def version_of(package: str) -> str:
    """Return the version of a package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"

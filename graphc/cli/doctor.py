"""``graphc doctor``: check the backends, the packages and the cache of this machine.

Each backend is examined in a separate process, so that a library which crashes or hangs when it is
imported is a line of the report.
"""

from __future__ import annotations

import json as json_module
import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from graphc.cli import cache
from graphc.compile.entry import stamp
from graphc.config import DEFAULTS, config, variable
from graphc.errors import ModeError
from graphc.link import load, names
from graphc.link.probe import run_probes

SECONDS = 120
"""The time limit of a backend in seconds; the first start of a GPU's driver is slow."""

CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from graphc.cli import main
sys.exit(main())
"""
"""The script that probes one backend, with the modules of this process."""

PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "mlx", "pytensor", "pymc", "filelock")


def run(backend: str | None, *, json: bool) -> int:
    """Print the report; return 1 if something needs fixing.

    Args:
        backend: The backend to examine, in this process; None for the report of everything.
        json: Print one line of JSON.
    """
    if backend is not None:
        report = examine(backend)
        lines, wrong = _backend_lines(backend, report), _is_wrong(backend, report)
    else:
        report = everything()
        lines = _lines(report)
        has_problem = report["cache"]["problem"] is not None or report["wrong_settings"]
        wrong = has_problem or any(
            _is_wrong(name, about) for name, about in report["backends"].items()
        )
    text = json_module.dumps(report) if json else "\n".join(lines)
    sys.stdout.write(f"{text}\n")
    return int(bool(wrong))


def everything() -> dict[str, Any]:
    """Return the report of packages, cache and backends."""
    children = {name: _start(name) for name in names()}
    settings = {name: _setting(name) for name in DEFAULTS}
    return {
        "graphc": {"path": str(Path(__file__).parents[1]), "stamp": stamp().hex()},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in ("graphc", *PACKAGES)},
        "cache": cache.cache_state(),
        "mode": str(settings["mode"]),
        "settings": {
            name: str(value)
            for name, value in settings.items()
            if not isinstance(value, ValueError) and value != DEFAULTS[name]
        },
        "wrong_settings": [
            str(value) for value in settings.values() if isinstance(value, ValueError)
        ],
        "backends": {name: _report_of(child) for name, child in children.items()},
    }


def _setting(name: str) -> Any:
    """Return the value of a setting, or the error of its environment variable."""
    try:
        return getattr(config, name)
    except ValueError as error:
        return error


def examine(name: str) -> dict[str, Any]:
    """Return the report of a backend; errors of any kind are part of it."""
    try:
        backend = load(name)
        about = backend.describe({})
    except ModeError as error:
        is_missing = isinstance(error.__cause__, ModuleNotFoundError)
        state = "missing" if is_missing else "broken"
        return {"state": state, "about": error.problem, "remedy": error.remedy, "probes": []}
    except Exception as error:  # broken libraries raise anything
        return _broken(f"{type(error).__name__}: {error}")
    probes = [finding._asdict() for finding in run_probes(name)]
    return {"state": "found", "about": about, "remedy": "", "probes": probes}


def _broken(about: str) -> dict[str, Any]:
    remedy = "Reinstall its library, or use another mode."
    return {"state": "broken", "about": about, "remedy": remedy, "probes": []}


def _start(name: str) -> subprocess.Popen[str]:
    arguments = [json_module.dumps(sys.path), "doctor", "--json", "--backend", name]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _report_of(child: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        answer, complaint = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return _broken(f"it did not answer in {SECONDS} s")
    # A library may have printed other lines before.
    last = (answer.strip().splitlines() or [""])[-1]
    with suppress(ValueError):
        report = json_module.loads(last)
        if isinstance(report, dict) and "state" in report:
            return report
    message = (complaint.strip().splitlines() or ["it said nothing"])[-1]
    return _broken(f"its process {_ending(child.returncode)}: {message}")


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    has_name = code in {-number for number in signal.Signals}
    return f"was ended by {signal.Signals(-code).name if has_name else -code}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _is_wrong(name: str, report: dict[str, Any]) -> bool:
    """Return whether something needs fixing; a backend not asked for may be missing."""
    if report["state"] == "missing":
        return bool(name == _setting("mode"))
    return report["state"] == "broken" or any(probe["wrong"] for probe in report["probes"])


def _lines(report: dict[str, Any]) -> list[str]:
    packages = [f"{name} {number}" for name, number in report["packages"].items() if number]
    first, *others = cache.state_lines(report["cache"])
    lines = [
        f"graphc    {report['graphc']['path']}",
        f"python    {report['python']} on {report['platform']}",
        f"packages  {', '.join(packages)}",
        f"cache     {first}",
        *[f"          {line}" for line in others],
    ]
    texts = [
        f"{name}={value}{f' ({variable(name)})' if variable(name) in os.environ else ''}"
        for name, value in report["settings"].items()
    ]
    default = f"all as by default; {variable('floatX')} and the like in the environment set them"
    texts += [f"wrong: {problem}" for problem in report["wrong_settings"]]
    lines.append(f"settings  {', '.join(texts) or default}")
    for name, about in report["backends"].items():
        lines += ["", *_backend_lines(name, about)]
    return lines


def _backend_lines(name: str, report: dict[str, Any]) -> list[str]:
    state = "" if report["state"] == "found" else f"{report['state']}: "
    lines = [f"{name:<9} {state}{report['about']}"]
    lines += [f"          {report['remedy']}"] if report["remedy"] else []
    for probe in report["probes"]:
        mark = "WRONG: " if probe["wrong"] else ""
        lines.append(f"  {mark}{probe['what']}: {probe['found']}")
        lines += [f"          {probe['so']}"] if probe["so"] else []
    return lines

"""An entry is for the same graphc, Python, NumPy and processor alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphc.compile import disk as disk_module, entry as stamp_module
from graphc.compile.disk import DiskCache
from graphc.compile.entry import stamp
from tests.disks import DATA, NAME, OTHER, files, posix

pytestmark = pytest.mark.usefixtures("_pinned")


def test_the_stamp_is_equal_in_every_process() -> None:
    code = "from graphc.compile.entry import stamp; print(stamp().hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for graphc's source."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    monkeypatch.setattr(stamp_module, "PACKAGE", tmp_path)
    monkeypatch.setattr(stamp_module, "_source", stamp_module._source.__wrapped__)
    return tmp_path


def fresh() -> bytes:
    return stamp.__wrapped__()  # `_pinned` puts another one in its place


def test_another_source_has_another_stamp(package: Path) -> None:
    found = [fresh()]
    (package / "sub" / "a.py").write_text("x = 10")
    found.append(fresh())
    os.utime(package / "b.py", (0, 0))
    found.append(fresh())
    (package / "c.py").write_text("")
    found.append(fresh())
    (package / "notes.txt").write_text("no source")
    found.append(fresh())
    assert len(set(found)) == 4
    assert found[3] == found[4]


@posix
def test_an_editors_link_to_nowhere_changes_nothing(package: Path) -> None:
    before = fresh()
    (package / ".#b.py").symlink_to("user@host.1234")
    assert fresh() == before


def test_the_stamp_of_an_archive_is_that_of_all_it_holds(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = package / "app.zip"
    archive.write_bytes(b"first")
    monkeypatch.setattr(stamp_module, "PACKAGE", archive / "graphc")
    first = fresh()
    assert first == fresh()
    archive.write_bytes(b"another")
    assert first != fresh()


def test_source_changed_since_it_was_imported_is_seen(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = stamp_module.edited_since_import.__wrapped__
    monkeypatch.setattr(stamp_module, "IMPORTED_NS", time.time_ns() + 10**10)
    assert not edited()
    os.utime(package / "sub" / "a.py", (time.time() + 60, time.time() + 60))
    assert edited()


def test_a_process_whose_source_was_edited_neither_reads_nor_writes(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.save(NAME, DATA)
    monkeypatch.setattr(disk_module, "edited_since_import", lambda: True)
    assert disk.load(NAME) is None
    disk.save(OTHER, DATA)
    assert len(files(disk)) == 1
    assert "restart" in str(disk.info().problem)


@pytest.mark.parametrize(
    ("target", "name"), [("sys", "version"), ("numpy", "__version__"), ("sys", "platform")]
)
def test_another_python_or_numpy_has_another_stamp(
    target: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fresh()
    monkeypatch.setattr(f"{target}.{name}", "another")
    assert fresh() != before


X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model\t\t: 85
cpu MHz\t\t: {clock}
flags\t\t: fpu avx2 {flags}

processor\t: 1
flags\t\t: fpu
"""


def test_the_processor_is_told_by_its_instructions_not_by_its_clock(tmp_path: Path) -> None:
    def facts(clock: float, flags: str) -> list[str]:
        path = tmp_path / "cpuinfo"
        path.write_text(X86.format(clock=clock, flags=flags))
        return [*stamp_module._cpuinfo(str(path))]

    assert len(facts(2000.0, "avx512f")) == 3
    assert facts(2000.0, "avx512f") == facts(3100.5, "avx512f")
    assert facts(2000.0, "avx512f") != facts(2000.0, "")
    assert [*stamp_module._cpuinfo(str(tmp_path / "missing"))] == []

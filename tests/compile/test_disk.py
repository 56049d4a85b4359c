"""Bytes by name on disk: found again, bounded, and no error without a disk."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from graphc.compile.disk import CacheInfo, DiskCache
from graphc.compile.entry import HEADER
from tests.disks import (
    DATA,
    LIMIT,
    NAME,
    OTHER,
    entry,
    file_name,
    files,
    posix,
    python,
    told,
    use_all,
)
from tests.work import python_calls

pytestmark = pytest.mark.usefixtures("_pinned")


# What is saved is found.


@pytest.mark.parametrize("data", [b"", b"\x00", DATA, os.urandom(300_000)], ids=len)
def test_what_was_saved_is_loaded(disk: DiskCache, data: bytes) -> None:
    assert disk.load(NAME) is None
    disk.save(NAME, data)
    assert disk.load(NAME) == data
    assert DiskCache(disk.directory, LIMIT).load(NAME) == data


def test_a_later_save_takes_the_place_of_an_earlier(disk: DiskCache) -> None:
    disk.save(NAME, b"first")
    disk.save(NAME, b"second")
    assert disk.load(NAME) == b"second"
    assert len(files(disk)) == 1


def test_each_name_and_build_has_its_own_entry(disk: DiskCache) -> None:
    disk.save(NAME, b"a")
    disk.save(NAME, b"b", build="jax 1")
    disk.save(OTHER, b"c", build="jax 1")
    assert [disk.load(NAME), disk.load(NAME, "jax 1"), disk.load(OTHER, "jax 1")] == [
        b"a",
        b"b",
        b"c",
    ]
    assert disk.load(NAME, "jax 2") is None
    assert disk.load(OTHER) is None


@pytest.mark.parametrize("name", ["", "abc", "../../../etc/passwd", "0123456789ABCDEF", NAME * 9])
def test_only_hexadecimal_digits_name_an_entry(disk: DiskCache, name: str) -> None:
    for use in (disk.load, lambda name: disk.save(name, DATA), disk.lock):
        with pytest.raises(ValueError, match="is no name of an entry"), use(name):
            pass
    assert not disk.directory.exists()


def test_loading_makes_no_directory_and_lists_none(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert disk.load(NAME) is None
    assert not disk.directory.exists()
    disk.save(NAME, DATA)
    monkeypatch.setattr(os, "scandir", None)
    monkeypatch.setattr(os, "listdir", None)
    assert disk.load(NAME) == DATA


def test_an_entry_is_loaded_by_a_few_calls(disk: DiskCache) -> None:
    disk.save(NAME, os.urandom(20_000))
    disk.load(NAME)
    assert python_calls(lambda: disk.load(NAME)) < 200


def test_loading_does_not_import_filelock(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from graphc.compile.disk import DiskCache\n"
        f"disk = DiskCache(Path({str(tmp_path)!r}), 10**6)\n"
        f"disk.load({NAME!r}); disk.save({NAME!r}, b'x'); disk.load({NAME!r})\n"
        "assert 'filelock' not in sys.modules"
    )
    subprocess.run(python(code), check=True)


# No disk.


@pytest.mark.parametrize("below", ["", "cache", "a/b"])
def test_where_a_file_is_in_the_way_there_is_one_warning(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    disk = DiskCache(file / below, LIMIT)
    (message,) = told(lambda: use_all(disk, NAME))
    assert message.startswith(f"graphc saves no compiled programs in {disk.directory}: ")
    assert "GRAPHC_CACHE_DIR" in message
    assert disk.info().problem is not None
    assert (disk.info().entries, disk.clear()) == (0, 0)
    assert file.read_bytes() == b"mine"


@posix
def test_a_dangling_link_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    disk = DiskCache(tmp_path / "link", LIMIT)
    assert disk.load(NAME) is None
    with pytest.warns(RuntimeWarning, match="File exists"):
        disk.save(NAME, DATA)


def test_a_disk_that_cannot_be_written_is_still_read(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.save(NAME, DATA)
    tried = []
    opened = os.open

    def read_only(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            tried.append(path)
            raise OSError(30, "Read-only file system", path)
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    (message,) = told(lambda: use_all(disk, OTHER))
    assert "Read-only file system" in message
    assert len([path for path in tried if path.endswith(".tmp")]) == 1
    assert "Read-only" in str(disk.info().problem)
    assert disk.load(NAME) == DATA


FULL = """
import resource, signal, sys, warnings
from pathlib import Path
from graphc.compile.disk import DiskCache

disk = DiskCache(Path(sys.argv[1]), 10**6)
disk.save("aa" * 8, b"small")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    disk.save("bb" * 8, bytes(5000))
    disk.save("cc" * 8, b"small")
assert len(told) == 1 and "too large" in str(told[0].message), told
assert [disk.load(x * 8) for x in ("aa", "bb", "cc")] == [b"small", None, None]
"""


@posix
def test_a_write_that_fails_halfway_leaves_nothing(disk: DiskCache) -> None:
    subprocess.run(python(FULL, disk.directory), check=True)
    assert len(files(disk)) == 1


def test_a_directory_removed_meanwhile_is_made_anew(disk: DiskCache) -> None:
    disk.save(NAME, DATA)
    entry(disk).unlink()
    disk.directory.rmdir()
    assert disk.load(NAME) is None
    disk.save(NAME, DATA)
    assert disk.load(NAME) == DATA


def test_an_entry_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 1000)
    disk.save(NAME, b"small")
    with pytest.warns(RuntimeWarning, match=r"raise config\.cache_bytes"):
        disk.save(OTHER, bytes(1000))
    assert (disk.load(NAME), disk.load(OTHER)) == (b"small", None)


# The bound.


def aged(disk: DiskCache, name: str, seconds: float) -> None:
    """Have an entry be last used so long ago."""
    path = disk._stem(name, "") + ".entry"
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_the_directory_never_holds_more_than_the_limit(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 20_000)
    random = np.random.default_rng(0)
    for i in range(200):
        disk.save(file_name(i), bytes(int(random.integers(1, 6000))))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
        assert disk.load(file_name(i)) is not None
    assert disk.info().entries >= 2


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 10 * (1000 + HEADER.size))
    for i in range(10):
        disk.save(file_name(i), bytes(1000))
        aged(disk, file_name(i), 1000 - i)
    assert disk.load(file_name(0)) is not None  # which marks its use
    disk.save(file_name(10), bytes(1000))
    there = [i for i in range(11) if disk.load(file_name(i)) is not None]
    assert there == [0, *range(4, 11)]


def test_an_entry_in_use_is_marked_about_once_a_minute(disk: DiskCache) -> None:
    disk.save(NAME, DATA)
    aged(disk, NAME, 5)
    first = entry(disk).stat().st_mtime
    disk.load(NAME)
    assert entry(disk).stat().st_mtime == first
    aged(disk, NAME, 90)
    before = entry(disk).stat().st_mtime
    disk.load(NAME)
    assert entry(disk).stat().st_mtime > before + 80


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 5_000)
    mine = [tmp_path / name for name in ("thesis.tex", "x.entry", "a" * 40, "b" * 40 + ".tmp")]
    for path in mine:
        path.write_bytes(bytes(10_000))
        os.utime(path, (0, 0))
    for i in range(20):
        disk.save(file_name(i), bytes(1000))
    assert disk.info().bytes <= 5_000
    disk.clear()
    assert files(disk) == sorted(mine)


def test_what_dead_processes_left_is_removed_and_what_live_ones_use_is_kept(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 5_000)
    old, new, lock, held = (
        tmp_path / ("a" * 40 + ".0123456789abcdef.tmp"),
        tmp_path / ("b" * 40 + ".0123456789abcdef.tmp"),
        tmp_path / ("c" * 40 + ".lock"),
        Path(disk._stem(OTHER, "") + ".lock"),
    )
    for path in (old, new, lock):
        path.write_bytes(b"x" if path.suffix == ".tmp" else b"")
    with disk.lock(OTHER):
        for path in (old, lock, held):
            os.utime(path, (0, 0))
        disk.save(NAME, DATA)
        assert [path.exists() for path in (old, new, lock, held)] == [False, True, False, True]
    disk.clear()
    assert files(disk) == []


def test_clearing_counts_entries_and_removes_them(disk: DiskCache) -> None:
    assert disk.clear() == 0
    for i in range(5):
        disk.save(file_name(i), DATA)
    assert disk.info() == CacheInfo(5, 5 * (len(DATA) + HEADER.size), None)
    assert disk.clear() == 5
    assert disk.info() == CacheInfo(0, 0, None)
    disk.save(NAME, DATA)
    assert disk.load(NAME) == DATA

"""What others can have written is neither read nor written."""

import os
from pathlib import Path
from typing import Any

import pytest

from graphc.compile.disk import DiskCache
from graphc.link import trust
from tests.disks import (
    DATA,
    LIMIT,
    NAME,
    OTHER,
    entry,
    files,
    posix,
    told,
    use_all,
)

pytestmark = pytest.mark.usefixtures("_pinned")


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another user than the test's own be the owner of the file."""
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
        return
    status = os.stat

    def stat_as_other(found: Any, **options: Any) -> Any:
        values = status(found, **options)
        is_it = str(found) == str(path)
        return os.stat_result((*values[:4], 12345, *values[5:])) if is_it else values

    monkeypatch.setattr(os, "stat", stat_as_other)


@posix
@pytest.mark.parametrize("mode", [0o770, 0o720, 0o707, 0o702, 0o1777])
def test_a_directory_others_can_write_to_is_neither_read_nor_written(
    disk: DiskCache, mode: int
) -> None:
    disk.save(NAME, DATA)
    disk.directory.chmod(mode)
    before = files(disk)
    (message,) = told(lambda: use_all(disk, NAME))
    assert files(disk) == before
    assert f"To save them, run: chmod go-w '{disk.directory}'. The directory is" in message
    assert disk.info().problem is not None
    disk.directory.chmod(0o700)
    assert disk.load(NAME) == DATA
    assert disk.info().problem is None


@posix
def test_a_directory_of_another_user_is_neither_read_nor_written(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.save(NAME, DATA)
    before = files(disk)
    give_away(disk.directory, monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to user 12345"):
        assert disk.load(NAME) is None
    disk.save(OTHER, DATA)
    assert files(disk) == before


@posix
@pytest.mark.parametrize("mode", [0o660, 0o602, 0o606])
def test_an_entry_others_can_write_to_is_a_miss(disk: DiskCache, mode: int) -> None:
    disk.save(NAME, DATA)
    entry(disk).chmod(mode)
    assert disk.load(NAME) is None
    disk.save(NAME, DATA)
    assert disk.load(NAME) == DATA


@posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root gives files away")
def test_an_entry_of_another_user_is_a_miss(disk: DiskCache) -> None:
    disk.save(NAME, DATA)
    os.chown(entry(disk), 12345, 12345)
    assert disk.load(NAME) is None


@posix
@pytest.mark.parametrize(("mode", "trusted"), [(0o777, False), (0o1777, True), (0o775, True)])
def test_a_parent_others_can_rename_in_is_not_trusted(
    tmp_path: Path, mode: int, trusted: bool
) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(mode)
    (tmp_path / "link").symlink_to(parent)
    for above in (parent, tmp_path / "link"):
        disk = DiskCache(above / "cache", LIMIT)
        if trusted:
            disk.save(NAME, DATA)
        else:
            with pytest.warns(RuntimeWarning, match=f"chmod o-w '{parent}'"):
                disk.save(NAME, DATA)
        assert disk.load(NAME) == (DATA if trusted else None)


@posix
def test_the_directory_and_its_files_are_the_users_alone(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path / "above" / "cache", LIMIT)
    before = os.umask(0)
    try:
        with disk.lock(NAME):
            disk.save(NAME, DATA)
    finally:
        os.umask(before)
    assert disk.directory.stat().st_mode & 0o777 == 0o700
    assert disk.directory.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files(disk)} == {0o600}


def test_where_there_are_no_modes_directories_are_trusted(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "HAS_OWNERS", False)
    disk.save(NAME, DATA)
    disk.directory.chmod(0o777)
    assert disk.load(NAME) == DATA

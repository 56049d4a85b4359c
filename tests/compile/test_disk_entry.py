"""An entry with anything wrong about it is as if it were not there."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from graphc.compile import entry as entry_module
from graphc.compile.disk import DiskCache
from graphc.compile.entry import HEADER, MAGIC
from tests.disks import (
    DATA,
    LIMIT,
    NAME,
    OTHER,
    entry,
    files,
    pin,
    posix,
)

pytestmark = pytest.mark.usefixtures("_pinned")


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_is_done_to_its_bytes_an_entry_is_right_or_a_miss(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    disk = DiskCache(tmp_path_factory.getbasetemp() / "corrupted", LIMIT)
    disk.save(NAME, DATA)
    path = entry(disk)
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)), "start")
    end = data.draw(st.integers(start, min(len(whole), start + 64)), "end")
    put = data.draw(st.binary(max_size=64), "put")
    damaged = whole[:start] + put + whole[end:]
    path.write_bytes(damaged)
    assert disk.load(NAME) == (DATA if damaged == whole else None)


@pytest.mark.parametrize("place", [*range(HEADER.size), HEADER.size, HEADER.size + 500, -1])
def test_one_wrong_bit_anywhere_is_a_miss(disk: DiskCache, place: int) -> None:
    disk.save(NAME, DATA)
    path = entry(disk)
    whole = bytearray(path.read_bytes())
    for bit in range(8):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        assert disk.load(NAME) is None
    path.write_bytes(whole)
    assert disk.load(NAME) == DATA


@pytest.mark.parametrize("length", range(0, HEADER.size + 10, 3))
def test_a_truncated_entry_is_a_miss(disk: DiskCache, length: int) -> None:
    disk.save(NAME, DATA)
    path = entry(disk)
    path.write_bytes(path.read_bytes()[:length])
    assert disk.load(NAME) is None


def test_a_damaged_entry_is_mended_by_the_next_save(disk: DiskCache) -> None:
    disk.save(NAME, DATA)
    entry(disk).write_bytes(b"not ours")
    disk.save(NAME, DATA)
    assert disk.load(NAME) == DATA


def test_an_entry_under_another_name_is_a_miss(disk: DiskCache) -> None:
    disk.save(NAME, DATA)
    path = entry(disk)
    disk.save(OTHER, b"other")
    (other,) = {*files(disk, ".entry")} - {path}
    path.replace(other)
    assert disk.load(OTHER) is None


def test_an_entry_of_another_stamp_is_a_miss(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.save(NAME, DATA)
    path = entry(disk)
    with monkeypatch.context() as patch:
        pin(patch, b"x" * 16)
        assert disk.load(NAME) is None
        disk.save(NAME, b"other")
        assert disk.load(NAME) == b"other"
        (other,) = {*files(disk, ".entry")} - {path}
        # Even where it stands in the place of ours, with a checksum of its own that is right.
        written = entry_module.header(str(path)[: -len(".entry")], b"other") + b"other"
    assert disk.load(NAME) == DATA
    other.unlink()
    path.write_bytes(written)
    assert disk.load(NAME) is None


def test_an_entry_of_another_format_is_a_miss(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(entry_module, "MAGIC", MAGIC[:-1] + b"\x00")
        disk.save(NAME, DATA)
        assert disk.load(NAME) == DATA
    assert disk.load(NAME) is None


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _symlink(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)


@posix
@pytest.mark.parametrize("replace", [_directory, _symlink, _pipe, _sparse])
def test_what_is_no_plain_file_of_ours_is_a_miss(
    disk: DiskCache, replace: Callable[[Path], None]
) -> None:
    disk.save(NAME, DATA)
    replace(entry(disk))
    assert disk.load(NAME) is None
    disk.save(NAME, DATA)
    disk.save(OTHER, DATA)
    assert disk.load(NAME) == (None if replace is _directory else DATA)
    assert disk.load(OTHER) == DATA
    assert files(disk, ".tmp") == []


def test_an_entry_that_cannot_be_read_is_a_miss(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.save(NAME, DATA)

    def refuse(*arguments: Any) -> int:
        raise PermissionError(13, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert disk.load(NAME) is None
    assert disk.load(NAME) == DATA

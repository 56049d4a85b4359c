"""The cache as a file: another machine of this kind compiles nothing, and a wrong file is one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.cli import main
from graphc.compile import transfer
from graphc.compile.cache import PROGRAMS
from graphc.compile.disk import DiskCache
from graphc.compile.transfer import MAGIC, TAIL, export_entries, import_entries
from graphc.errors import CacheFileError
from tests.disks import DATA, LIMIT, NAME, OTHER, files, pin, posix

pytestmark = pytest.mark.usefixtures("_pinned")

HERE = {"facts": {"Python": "3"}, "versions": {"jax": "1", "jaxlib": "1"}}
"""What machines of one kind have in common."""


@pytest.fixture(autouse=True)
def _alike(_pinned: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(transfer, "edited_since_import", lambda: False)
    PROGRAMS.clear()
    yield
    PROGRAMS.clear()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of two entries."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        pin(patch, bytes(16))
        patch.setattr("graphc.compile.disk.edited_since_import", lambda: False)
        patch.setattr(transfer, "edited_since_import", lambda: False)
        patch.setattr(transfer, "_versions", lambda: HERE["versions"])
        disk = DiskCache(folder / "cache", LIMIT)
        disk.save(NAME, DATA, "JAX 1, on cpu")
        disk.save(OTHER, b"other", "NumPy 2, on the host")
        export_entries(disk, folder / "file")
    return (folder / "file").read_bytes()


def make() -> Any:
    x, w = gt.matrix("x"), graphc.shared(np.ones(3), "w")
    loss = (gt.tanh(x @ w) ** 2).mean()
    return graphc.function([x], loss, updates=[(w, w - 0.1 * graphc.grad(loss, w))])


def test_another_machine_of_this_kind_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "programs")
    monkeypatch.setattr(graphc.config, "cache_dir", tmp_path / "one")
    graphc.compile_ahead(make(), (4, 3))
    assert main(["cache", "export", file]) == 0
    told = capsys.readouterr().out
    assert told.startswith("2 entries, ")
    # There graphc has another path and times, so that entries have other names.
    pin(monkeypatch, b"x" * 16)
    monkeypatch.setattr(graphc.config, "cache_dir", tmp_path / "two")
    assert main(["cache", "import", file]) == 1
    assert not (tmp_path / "two").exists()
    refused = capsys.readouterr().err
    assert "run any code" in refused
    assert told.splitlines()[1] in refused  # the checksum
    assert main(["cache", "import", file, "--trust"]) == 0
    assert f"2 entries, {told.split(', ')[1]}, added" in capsys.readouterr().out
    PROGRAMS.clear()
    kinds: list[str] = []
    with (
        graphc.expect_compiles(0),
        graphc.events.subscribe(lambda event: kinds.append(event.kind)),
    ):
        make()(np.ones((4, 3)))
    assert kinds == ["load"]


def test_bytes_come_back_as_they_were(
    disk: DiskCache, exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.save("a" * 16, b"mine")
    (tmp_path / "file").write_bytes(exported)
    monkeypatch.setattr(transfer, "_versions", lambda: HERE["versions"])
    done = import_entries(disk, tmp_path / "file")
    assert (done.entries, done.bytes) == (2, len(DATA) + 5)
    assert disk.load(NAME, "JAX 1, on cpu") == DATA
    assert disk.load(OTHER, "NumPy 2, on the host") == b"other"
    assert disk.load("a" * 16) == b"mine"


def test_entries_for_other_versions_of_a_library_are_left_out(
    disk: DiskCache, exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(exported)
    monkeypatch.setattr(transfer, "_versions", lambda: {"jax": "0.1", "jaxlib": "0.1"})
    done = import_entries(disk, tmp_path / "file")
    assert done.entries == 1
    ((why, count),) = done.left_out.items()
    assert (count, why) == (1, "made with jax 1, and here is 0.1")
    assert len(files(disk, ".entry")) == 1


@pytest.mark.parametrize("fact", ["Python", "NumPy", "the processor", "graphc's source"])
def test_another_kind_of_machine_is_refused(
    disk: DiskCache, exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    (tmp_path / "file").write_bytes(exported)
    own = transfer.portable_facts()
    assert fact in own
    monkeypatch.setattr(transfer, "portable_facts", lambda: own | {fact: "another one"})
    with pytest.raises(
        CacheFileError, match=f"made with another {fact}. There: .* Here: .*another"
    ):
        import_entries(disk, tmp_path / "file")
    assert not disk.directory.exists()


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_file_is_an_error_and_adds_nothing(
    tmp_path_factory: pytest.TempPathFactory, exported: bytes, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    start = data.draw(st.integers(0, len(exported)), "start")
    end = data.draw(st.integers(start, min(len(exported), start + 64)), "end")
    put = data.draw(st.binary(max_size=64), "put")
    damaged = exported[:start] + put + exported[end:]
    path = folder / "damaged"
    path.write_bytes(damaged)
    disk = DiskCache(folder / "nothing", LIMIT)
    if damaged != exported:
        with pytest.raises(CacheFileError, match=r"is damaged|was not written by"):
            import_entries(disk, path)
    assert not disk.directory.exists()


ENTRY = {"label": f"{NAME} NumPy 2", "bytes": 5, "check": transfer._check(b"bytes").hex()}

CRAFTED: dict[str, Any] = {
    "no dict": [],
    "no facts": {"versions": {}, "entries": [ENTRY]},
    "facts that are no text": {"facts": {"Python": []}, "versions": {}, "entries": [ENTRY]},
    "a path as a label": HERE | {"entries": [ENTRY | {"label": "../../x NumPy 2"}]},
    "a label that is no text": HERE | {"entries": [ENTRY | {"label": 1}]},
    "a negative length": HERE | {"entries": [ENTRY | {"bytes": -5}]},
    "a length beyond the file": HERE | {"entries": [ENTRY | {"bytes": 2**60}]},
    "a length of a part": HERE | {"entries": [ENTRY | {"bytes": 4}]},
    "a checksum that is none": HERE | {"entries": [ENTRY | {"check": "x"}]},
    "entries that are no list": HERE | {"entries": 3},
    "no entries": HERE,
}


@pytest.mark.parametrize("case", [*CRAFTED, "deep"])
def test_a_manifest_with_a_right_checksum_is_checked_as_well(
    disk: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(transfer, "portable_facts", lambda: HERE["facts"])
    text = b"[" * 100_000 if case == "deep" else json.dumps(CRAFTED[case]).encode()
    path = tmp_path / "file"
    path.write_bytes(MAGIC + b"bytes" + text + TAIL.pack(len(text), transfer._check(text)))
    with pytest.raises(CacheFileError, match="is damaged"):
        import_entries(disk, path)
    assert not disk.directory.exists()


class Exploit:
    """Unpickled, makes a directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __reduce__(self) -> Any:
        return Path.mkdir, (Path(self.directory),)


def test_nothing_is_unpickled_by_an_import(disk: DiskCache, tmp_path: Path) -> None:
    there, done = DiskCache(tmp_path / "there", LIMIT), tmp_path / "done"
    there.save(NAME, pickle.dumps(Exploit(str(done))))
    export_entries(there, tmp_path / "file")
    assert import_entries(disk, tmp_path / "file").entries == 1
    assert not done.exists()


@posix
def test_a_cache_that_is_not_used_takes_and_gives_nothing(
    disk: DiskCache, exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    with pytest.raises(CacheFileError, match="has no entries"):
        export_entries(disk, path)
    assert [*tmp_path.iterdir()] == []
    path.write_bytes(exported)
    disk.directory.mkdir()
    disk.directory.chmod(0o777)
    for move in (export_entries, import_entries):
        with pytest.raises(CacheFileError, match="can be written to by others"):
            move(disk, path)
    assert path.read_bytes() == exported
    monkeypatch.setattr(graphc.config, "cache_dir", None)
    assert main(["cache", "import", str(path), "--trust"]) == 1


def test_a_file_that_is_not_there_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(graphc.config, "cache_dir", tmp_path / "cache")
    for more in ([], ["--trust"]):
        assert main(["cache", "import", str(tmp_path / "none"), *more]) == 1
        assert "No such file" in capsys.readouterr().err

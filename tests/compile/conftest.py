"""What the tests of compiling share."""

from pathlib import Path

import pytest

from graphc.compile import disk as disk_module
from graphc.compile.disk import DiskCache
from tests.disks import LIMIT, pin


@pytest.fixture
def _pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits graphc while its tests run has them pass."""
    pin(monkeypatch, bytes(16))
    monkeypatch.setattr(disk_module, "edited_since_import", lambda: False)


@pytest.fixture
def disk(tmp_path: Path, _pinned: None) -> DiskCache:
    """A cache in a directory that is not there yet."""
    return DiskCache(tmp_path / "cache", LIMIT)

"""One writer at a time for each name, and nothing bad of those that are killed."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphc.compile import disk as disk_module
from graphc.compile.disk import DiskCache
from tests.disks import (
    DATA,
    LIMIT,
    NAME,
    OTHER,
    file_name,
    files,
    posix,
    python,
)

pytestmark = pytest.mark.usefixtures("_pinned")


@pytest.fixture
def acquired(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each lock that was asked for, whether it was free at once: nothing waits for another."""
    found: list[bool] = []

    def at_once(path: str, wait_seconds: float) -> Any:
        lock = acquire(path, 0.0)
        found.append(lock is not None)
        return lock

    acquire = disk_module._acquire
    monkeypatch.setattr(disk_module, "_acquire", at_once)
    return found


def test_one_thread_makes_an_entry_and_the_others_find_it(disk: DiskCache) -> None:
    made, found = [], []

    def work() -> None:
        with disk.lock(NAME):
            if (data := disk.load(NAME)) is None:
                made.append(1)
                time.sleep(0.05)
                disk.save(NAME, data := DATA)
            found.append(data)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), found) == (1, [DATA] * 8)


def test_other_names_are_not_waited_for(disk: DiskCache, acquired: list[bool]) -> None:
    with disk.lock(NAME), disk.lock(OTHER), disk.lock(NAME, build="another"):
        assert acquired == [True, True, True]


def test_who_holds_a_name_can_take_it_again(disk: DiskCache, acquired: list[bool]) -> None:
    with disk.lock(NAME), disk.lock(NAME):
        disk.save(NAME, DATA)
        assert acquired == [True]
    with disk.lock(NAME):
        assert disk.load(NAME) == DATA
    assert acquired == [True, True]


def test_an_error_within_frees_the_name(disk: DiskCache, acquired: list[bool]) -> None:
    with pytest.raises(KeyError), disk.lock(NAME):
        raise KeyError
    with disk.lock(NAME):
        assert acquired == [True, True]


@pytest.fixture
def holder(disk: DiskCache) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the name."""
    code = (
        "import sys, time; from pathlib import Path; from graphc.compile.disk import DiskCache\n"
        "with DiskCache(Path(sys.argv[1]), 10**6).lock(sys.argv[2]):\n"
        "    print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        python(code, disk.directory, NAME), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_process_that_does_not_finish_is_waited_for_so_long(
    disk: DiskCache, holder: subprocess.Popen[str]
) -> None:
    start = time.perf_counter()
    with DiskCache(disk.directory, LIMIT, wait_seconds=0.3).lock(NAME):
        assert time.perf_counter() - start > 0.25
        disk.save(NAME, DATA)
    assert disk.load(NAME) == DATA
    assert holder.poll() is None


def test_what_a_killed_process_held_is_free(
    disk: DiskCache, holder: subprocess.Popen[str], acquired: list[bool]
) -> None:
    with disk.lock(NAME):
        assert acquired == [False]
    holder.kill()
    holder.wait()
    with disk.lock(NAME):
        assert acquired == [False, True]


EIGHT = """
import sys, time
from pathlib import Path
from graphc.compile.disk import DiskCache

folder, name = Path(sys.argv[1]), sys.argv[2]
disk = DiskCache(folder / "cache", 10**7)
print("ready", flush=True)
sys.stdin.readline()
with disk.lock(name):
    data = disk.load(name)
    if data is None:
        with (folder / "made").open("a") as file:
            file.write("x")
        time.sleep(0.1)
        data = bytes(range(256)) * 100
        disk.save(name, data)
print(sum(data), disk.load(name) == data, flush=True)
"""


@pytest.mark.exhaustive
def test_eight_processes_make_one_entry(tmp_path: Path) -> None:
    command = python(EIGHT, tmp_path, NAME)
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {process.communicate()[0] for process in processes}
    assert found == {f"{sum(range(256)) * 100} True\n"}
    assert (tmp_path / "made").read_text() == "x"
    assert len(files(DiskCache(tmp_path / "cache", LIMIT), ".entry")) == 1


# Processes are forked where nothing but this has threads.
WRITERS = """
import os, random, signal, sys, time
from pathlib import Path
import filelock
from graphc.compile.disk import DiskCache

disk = DiskCache(Path(sys.argv[1]), int(sys.argv[2]))

def payload(name, seed):
    return (name + f"{seed:08x}").encode() * (1 + seed % 400)

def write_for_ever(seed):
    source = random.Random(seed)
    while True:
        name = f"{source.randrange(30):016x}"
        with disk.lock(name):
            disk.load(name)
            disk.save(name, payload(name, source.randrange(10**6)))

source = random.Random(0)
killed = 0
alive = {}
while killed < int(sys.argv[3]) or len(list(disk.directory.glob("*.entry"))) < 4:
    while len(alive) < 4:
        seed = source.randrange(10**9)
        if (child := os.fork()) == 0:
            write_for_ever(seed)
        alive[child] = time.monotonic()
    time.sleep(source.random() * 0.02)
    victim = source.choice(list(alive))
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    del alive[victim]
    killed += 1
for victim in alive:
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
"""


@pytest.mark.exhaustive
@posix
def test_writers_killed_at_any_moment_leave_no_bad_entry(tmp_path: Path) -> None:
    limit = 150_000
    disk = DiskCache(tmp_path / "cache", limit, wait_seconds=0)
    subprocess.run(python(WRITERS, disk.directory, limit, 200), check=True)
    there = 0
    for name in map(file_name, range(30)):
        path = Path(disk._stem(name, "") + ".entry")
        data = disk.load(name)
        assert (data is not None) == path.exists()
        if data is not None:
            there += 1
            assert data == data[:24] * (1 + int(data[16:24], 16) % 400)
            assert data[:16].decode() == name
    assert there > 3
    # What the dead left counts, and goes once it is old.
    for path in files(disk, ".tmp"):
        os.utime(path, (0, 0))
    for name in map(file_name, range(30)):
        with disk.lock(name):
            disk.save(name, b"after")
        assert disk.load(name) == b"after"
    assert files(disk, ".tmp") == []
    assert disk.info().bytes <= limit

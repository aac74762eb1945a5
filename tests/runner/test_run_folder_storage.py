"""Disks that are full, that fail, and targets that cannot be written: one line, nothing lost."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_outputs import MANIFEST, PLAN, answer, died, inputs_of, names_in, read_strictly

from sortedf.errors import InputError, StorageError
from sortedf.runner.append_file import AppendFile, csv_line, json_line
from sortedf.runner.folder import RunFolder

NAMES = [f"r-{index}" for index in range(200)]
INPUTS = inputs_of(*NAMES)


def create(path: Path) -> RunFolder:
    return RunFolder.create(path, MANIFEST, plan=PLAN, plan_name="plan.json", inputs=INPUTS)


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """Give a limit on the size of files, lifted at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [1, 100, 5000, 20000])
def test_a_limit_on_the_size_of_files(
    room: int, tmp_path: Path, limit_files: Callable[[int], None]
) -> None:
    """Lines are kept whole up to the limit, and the run goes on once it is lifted."""
    path = tmp_path / "run"
    folder = create(path)
    limit_files(room)
    kept = 0
    message = ""
    while not message:
        try:
            folder.append(answer(NAMES[kept], "x" * 300))
            kept += 1
        except StorageError as error:
            message = str(error)
    assert message == (
        f"{path}/output.jsonl: cannot be written: File too large; "
        "what was written before is kept, resume once it can be written again"
    )
    assert names_in(path / "output.jsonl") == NAMES[:kept]
    assert folder.counts == (kept, 0, 200 - kept)
    with pytest.raises(StorageError):
        folder.append(answer(NAMES[kept], "x" * 300))
    limit_files(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    folder.append(answer(NAMES[kept]))  # room again, without a new start
    folder.close()
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        assert set(folder.status) == set(NAMES[: kept + 1])
        for name in NAMES[kept + 1 :]:
            folder.append(answer(name))
        assert folder.finish() == (200, 0, 0)
    assert names_in(path / "output.jsonl") == NAMES


def test_no_room_to_write_the_output_anew(
    tmp_path: Path, limit_files: Callable[[int], None]
) -> None:
    """The output stays as it was, every answer in it, and resume finishes it."""
    path = tmp_path / "run"
    folder = create(path)
    folder.append(died("r-0"))
    for name in NAMES:
        folder.append(answer(name, "x" * 300))
    before = (path / "output.jsonl").read_bytes()
    limit_files(10_000)
    with pytest.raises(StorageError, match="File too large"):
        folder.finish()
    folder.close()
    assert (path / "output.jsonl").read_bytes() == before
    assert not list(path.glob(".sortedf-*"))
    limit_files(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        assert folder.finish() == (200, 0, 0)
    assert names_in(path / "output.jsonl") == NAMES


def test_a_full_device() -> None:
    file = AppendFile("/dev/full")
    for _ in range(2):
        with pytest.raises(StorageError, match="/dev/full: cannot be written: No space left"):
            file.append(b"line\n")
    file.close()


FAILURES = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.ESTALE]


@given(
    writes=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([None, None, *FAILURES, "interrupt"])),
        max_size=12,
    )
)
def test_short_writes_and_failures(writes: list[tuple[int, int | str | None]]) -> None:
    """A disk that takes a part of what it is given, and then fails or not, or Ctrl-C comes."""
    path = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"append-{os.getpid()}"
    path.unlink(missing_ok=True)
    plan = iter(writes)
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        taken, failure = next(plan, (len(data), None))
        done = real(descriptor, data[:taken]) if taken and data[:taken] else 0
        if failure == "interrupt":
            raise KeyboardInterrupt
        if failure is not None:
            assert isinstance(failure, int)
            if not done:
                raise OSError(failure, os.strerror(failure))
        return done

    acknowledged: list[bytes] = []
    file = AppendFile(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        for index in range(8):
            line = f"{index} {'x' * (index * 11 % 40)}\n".encode()
            try:
                assert file.append(line) == len(b"".join(acknowledged))
            except (StorageError, KeyboardInterrupt):
                pass
            else:
                acknowledged.append(line)
            assert path.read_bytes() == b"".join(acknowledged)
    file.close()
    path.unlink()


def test_what_cannot_be_cut_off_is_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_files: Callable[[int], None]
) -> None:
    """A disk that fails altogether leaves a torn line; nothing is ever glued to it."""
    file = AppendFile(tmp_path / "file")
    file.append(b"one\n")
    limit_files(6)

    def fail(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(StorageError, match="File too large"):
            file.append(b"second\n")
        assert (tmp_path / "file").read_bytes() == b"one\nse"
        with pytest.raises(StorageError, match="Input/output error"):
            file.append(b"third\n")
    limit_files(100)
    file.append(b"fourth\n")
    file.close()
    assert (tmp_path / "file").read_bytes() == b"one\nfourth\n"


def test_a_disk_that_fails_when_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is released nevertheless."""
    folder = create(tmp_path / "run")
    folder.append(answer("r-0"))

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            folder.close()
    with RunFolder.resume(tmp_path / "run", MANIFEST, inputs=INPUTS) as folder:
        assert set(folder.status) == {"r-0"}


@pytest.mark.parametrize("change", ["remove", "replace", "cut"])
def test_an_output_that_another_program_changes(change: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = create(path)
    folder.append(answer("r-0"))
    data = (path / "output.jsonl").read_bytes()
    if change == "cut":
        os.truncate(path / "output.jsonl", 10)
    else:
        (path / "output.jsonl").unlink()
    if change == "replace":
        (path / "output.jsonl").write_bytes(data)
    with pytest.raises(StorageError, match=r"output\.jsonl: "):
        folder.finish()
    folder.close()


def test_forced_to_the_disk_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    now = [0.0]
    monkeypatch.setattr(os, "fsync", calls.append)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    file = AppendFile(tmp_path / "file", sync_seconds=1.0)
    calls.clear()
    for _ in range(35):
        now[0] += 0.1
        file.append(b"x\n")
    assert len(calls) == 3
    file.close()
    assert len(calls) == 4


@pytest.mark.parametrize("target", ["file", "file/run", "/proc/run", "/dev/null", "/dev/full/run"])
def test_targets_that_cannot_be_folders(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError) as caught:
        create(tmp_path / target)
    assert len(str(caught.value).splitlines()) == 1
    assert str(tmp_path / target) in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Give a folder to someone whom permissions bind: root becomes nobody for the test."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            os.chown(name, 65534, 65534)
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


def test_folders_without_permission(unprivileged: Path) -> None:
    path = unprivileged / "run"
    create(path).close()
    for mode in (0o000, 0o444, 0o555):
        closed = unprivileged / f"closed-{mode}"
        closed.mkdir(mode)
        for target in (closed, closed / "run"):
            with pytest.raises(InputError, match="Permission denied"):
                create(target)
        for name in ("", "attempts"):
            if mode == 0o555 and not name:
                continue  # what is there can be written to; only new names cannot
            (path / name).chmod(mode)
            with pytest.raises(InputError, match="Permission denied"):
                RunFolder.resume(path, MANIFEST, inputs=INPUTS)
            (path / name).chmod(0o755)
    for name in ("output.jsonl", "lock", "inputs.csv", "manifest.json"):
        (path / name).chmod(0o000)
        with pytest.raises(InputError) as caught:
            RunFolder.resume(path, MANIFEST, inputs=INPUTS)
        assert name in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
        (path / name).chmod(0o644)
    RunFolder.resume(path, MANIFEST, inputs=INPUTS).close()


@pytest.mark.parametrize(
    "name", ["output.jsonl", "attempts", "lock", "inputs.csv", "manifest.json"]
)
@pytest.mark.parametrize("kind", ["folder", "file", "device"])
def test_things_that_are_in_the_way(name: str, kind: str, tmp_path: Path) -> None:
    """A folder for a file, a file for a folder, or a device without end: one line."""
    path = tmp_path / "run"
    create(path).close()
    target = path / name
    if target.is_dir():
        (target / "1").rmdir()
        target.rmdir()
    else:
        target.unlink()
    if kind == "folder":
        (target / "1").mkdir(parents=True)
    elif kind == "file":
        target.write_bytes(b"one\ntwo\n")
    else:
        target.symlink_to("/dev/full" if name != "manifest.json" else "/dev/null")
    if (name, kind) in {("attempts", "folder"), ("lock", "file")}:
        RunFolder.resume(path, MANIFEST, inputs=INPUTS).close()
        return
    with pytest.raises(InputError) as caught:
        RunFolder.resume(path, MANIFEST, inputs=INPUTS)
    assert len(str(caught.value).splitlines()) == 1
    assert name in str(caught.value)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(InputError, match=r"cannot be locked: .*; put the run folder on a disk"):
        create(tmp_path / "run")


def test_a_file_system_without_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told when the folder is made, before any work."""

    def fail(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="cannot be written: Operation not permitted"):
        create(tmp_path / "run")


def test_what_is_left_to_the_kernel_is_never_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of an attempt."""
    file = AppendFile(tmp_path / "requests.jsonl", sync_seconds=None)
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    file.append(json_line({"request_id": "é", "queued_ts": 0.25}))
    file.append(csv_line(["a\r", 0.1, 3]))
    assert (tmp_path / "requests.jsonl").read_bytes() == (
        '{"request_id":"é","queued_ts":0.25}\n"a\r",0.1,3\n'.encode()
    )
    file.close()
    file.close()
    assert not calls


def test_output_after_all_is_whole(tmp_path: Path) -> None:
    """What one write takes is not limited by a buffer: a line of 20 MB."""
    with create(tmp_path / "run") as folder:
        folder.append(answer("r-0", "é" * 10_000_000))
        folder.append(answer("r-1"))
    assert [line["custom_id"] for line in read_strictly(tmp_path / "run/output.jsonl")] == NAMES[:2]

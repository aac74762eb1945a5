"""Written backlogs, and files that appear whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import InputError, InvalidRequestError
from sortedf.instances import read_backlog, write_backlog
from sortedf.instances.files import write_whole
from sortedf.model import Instance, Request

NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    # What CSV and JSON treat in their own ways, alone and together.
    st.text(st.sampled_from(" \t\r\n\"',;\\\ufeff\u2028\u0085\x0b\x1c\x1aa0"), min_size=1),
)
REQUESTS = st.lists(
    st.builds(
        Request,
        NAMES,
        st.integers(1, 10**6),
        st.integers(1, 10**6),
        st.one_of(st.just(0), st.integers(0, 10**6)),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda request: request.id,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@given(REQUESTS, st.sampled_from(["x.csv", "x.jsonl", "x.csv.gz", "x.jsonl.gz", "x"]))
def test_what_is_written_is_read(folder: Path, requests: list[Request], name: str) -> None:
    """Every instance comes back the same from every format, whatever its ids; without a note."""
    if "jsonl" not in name:
        requests = [r._replace(id=r.id.replace("\0", "")) for r in requests]
        requests = list({r.id: r for r in requests if r.id}.values()) or [Request("a", 1, 1)]
    instance = Instance.from_requests(requests, 50)
    write_backlog(instance, folder / name)
    assert read_backlog(folder / name, kv_tokens=50) == instance
    assert list(read_backlog(folder / name, kv_tokens=50)) == requests


def test_many_requests(tmp_path: Path) -> None:
    """Backlogs that are put into bytes in parts have no seams."""
    n = 150_000
    instance = Instance(np.arange(1, n + 1), np.ones(n, int), 9)
    for name in ("x.csv", "x.jsonl"):
        write_backlog(instance, tmp_path / name)
        assert read_backlog(tmp_path / name, kv_tokens=9) == instance


def test_bytes_of_each_format(tmp_path: Path) -> None:
    """Releases have a column, or a key, only where they are not 0."""
    plain = Instance([1, 2], [3, 4], 9, ids=["a,b", 'c"'])
    late = plain.replace(release=[0, 7])
    expected = {
        "p.csv": b'id,prompt_tokens,output_tokens\n"a,b",1,3\n"c""",2,4\n',
        "l.csv": b'id,prompt_tokens,output_tokens,release\n"a,b",1,3,0\n"c""",2,4,7\n',
        "l.jsonl": b'{"id":"a,b","prompt_tokens":1,"output_tokens":3}\n'
        b'{"id":"c\\"","prompt_tokens":2,"output_tokens":4,"release":7}\n',
    }
    for name, data in expected.items():
        write_backlog(plain if name == "p.csv" else late, tmp_path / name)
        assert (tmp_path / name).read_bytes() == data


def test_packed_bytes_are_stable(tmp_path: Path) -> None:
    """The same backlog under two names is the same gzip file: no time, no name inside."""
    instance = Instance([1, 2], [3, 4], 9)
    for name in ("a.csv.gz", "b.csv.gz"):
        write_backlog(instance, tmp_path / name)
    one, other = ((tmp_path / name).read_bytes() for name in ("a.csv.gz", "b.csv.gz"))
    assert one == other
    assert one[3:8] == bytes(5)  # No flags, so no name; time 0.
    assert gzip.decompress(one).startswith(b"id,")


@pytest.mark.parametrize("name", ["a\0b", "x" * 140_000])
def test_ids_that_csv_cannot_hold(tmp_path: Path, name: str) -> None:
    """Such an id is refused before anything is written; JSON lines hold it."""
    instance = Instance([1, 2], [3, 4], 9, ids=["a", name])
    with pytest.raises(InvalidRequestError, match="write JSONL") as caught:
        write_backlog(instance, tmp_path / "x.csv")
    assert caught.value.index == 1
    assert list(tmp_path.iterdir()) == []
    write_backlog(instance, tmp_path / "x.jsonl")
    assert read_backlog(tmp_path / "x.jsonl", kv_tokens=9) == instance


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` writes to standard output and leaves it open."""
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    write_backlog(Instance([1], [2], 9, ids=["a"]), "-")
    raw = out.buffer
    assert isinstance(raw, io.BytesIO)
    assert raw.getvalue() == b"id,prompt_tokens,output_tokens\na,1,2\n"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_a_failure_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    """Whatever stops the writing, the name keeps what it had and nothing else is left behind."""

    def broken() -> Iterator[bytes]:
        yield b"new" * 10**6
        raise error

    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(InputError if error is OSError else error):
        write_whole(path, broken())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    """The umask rules, as for every file that the user makes; a long name is no trouble."""
    path, twin = tmp_path / ("n" * 250), tmp_path / "twin"
    write_whole(path, [b"x"])
    twin.touch()
    assert path.stat().st_mode == twin.stat().st_mode


def test_links_and_pipes(tmp_path: Path) -> None:
    """A link still links to its file afterwards; a pipe is written to, not replaced."""
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", [b"x"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"x"
    # A pipe of our own, not /dev/null: were it replaced, a test run as root would harm the machine.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, [b"x"])
    assert os.read(reader, 9) == b"x"
    os.close(reader)
    assert pipe.is_fifo()


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder, and a name in a folder that is not there, are refused by name."""
    for path in (tmp_path, tmp_path / "none" / "x"):
        with pytest.raises(InputError, match="cannot be written: ") as caught:
            write_whole(path, [b"x"])
        assert caught.value.faults[0].source == str(path)

"""Readers under fire: whatever the bytes, only errors of sortedf come out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import InputError, SortedfError
from sortedf.instances import read_backlog, read_plan

SEEDS = [
    b'id,prompt_tokens,output_tokens,release\na,1,2,3\n"b, ""c""\n",40,5,0\n',
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,374,44\r\n"
    b"2023-11-16 18:17:04.0319600+00:00,396,0\r\n",
    b"Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n4.5e1,x,1087,230\n",
    b'{"timestamp":0,"input_length":100,"output_length":10,"hash_ids":[0]}\n'
    b'{"timestamp":27,"input_length":200,"output_length":20,"hash_ids":[0,1]}\n',
    b'{"id":"a","prompt_tokens":1,"output_tokens":2}\n'
    b'{"id":"\\u00e9\xc3\xa9","prompt_tokens":3,"output_tokens":4,"release":5}\n',
    b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m",'
    b'"messages":[{"role":"user","content":"Say hi."}],"max_tokens":8}}\n',
    b'[{"id":"a","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Ho"}]}]\n',
    b'{"schema":"sortedf.plan/1","kv_tokens":9,"solver":"svf","instance_sha256":"0","total_latency"'
    b':2,"skipped":[],"requests":[\n{"index":0,"id":"a","prompt_tokens":1,"output_tokens":2,'
    b'"start":0}\n]}\n',
    b'{"schema":"sortedf.plan/1","kv_tokens":9,"solver":"svf","instance_sha256":"0","total_latency"'
    b':2}\n{"index":0,"id":"a","prompt_tokens":1,"output_tokens":2,"start":0}\n',
    gzip.compress(b"prompt_tokens,output_tokens\n1,2\n", mtime=0),
]

# Pieces that mean something to a parser make better damage than bytes at random.
PIECES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b"\0", b"\r", b"\n", b'"', b",", b"{", b"}", b"[", b"]", b":", b"\\", b" "]),
    st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\xff", b"\xed\xa0\x80"]),
    st.sampled_from([b"-1", b"0", b"1e999", b"9" * 30, b"1099511627776", b"NaN", b"null", b"true"]),
    st.sampled_from([b'"a"', b"\\ud800", b"\xe2\x80\xa8"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = (
    "id request_id prompt_tokens output_tokens release input_length output_length timestamp "
    "custom_id method url body conversations schema kv_tokens requests index start"
)
OBJECTS = st.dictionaries(
    st.sampled_from(KEYS.split()), JSON | st.integers(1, 5) | st.sampled_from(["a", "b"])
)
OPTIONS = st.fixed_dictionaries(
    {"arrivals": st.booleans(), "skip_bad_lines": st.booleans()},
    optional={
        "prompt_tokens": st.just("chars/4"),
        "output_tokens": st.integers(1, 3),
    },
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Give a good file after some cuts, insertions and replacements."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.sampled_from([0, 1, 2, 8, len(data)]))
        data = data[:at] + draw(PIECES) + data[at + gone :]
    return data


FILES = st.one_of(
    damaged(),
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")),
    st.lists(OBJECTS, max_size=4).map(lambda rows: "\n".join(map(json.dumps, rows)).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.lists(OBJECTS, max_size=2).map(lambda rows: json.dumps(rows).encode()),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file"


def only_own_errors(call: Callable[[], Any]) -> None:
    """Call; an error of sortedf is a good end, if its text is fit to print, a line a fault."""
    error: SortedfError | None = None
    try:
        call()
    except SortedfError as caught:
        error = caught
    if isinstance(error, InputError):
        lines = len(error.faults) + (error.total > len(error.faults))
        assert str(error).count("\n") + 1 == lines
        assert all(fault.line is None or fault.line > 0 for fault in error.faults)
    str(error).encode()


@given(FILES, OPTIONS)
def test_read_backlog(path: Path, data: bytes, options: dict[str, Any]) -> None:
    """A backlog is read or refused; what is read has requests, and every note is one line."""
    path.write_bytes(data)
    notes: list[str] = []

    def read() -> None:
        assert len(read_backlog(path, kv_tokens=100, note=notes.append, **options)) > 0

    only_own_errors(read)
    assert not any("\n" in note for note in notes)


@given(FILES)
def test_read_plan(path: Path, data: bytes) -> None:
    """A plan is read or refused, and so is the instance in it."""
    path.write_bytes(data)

    def read() -> None:
        plan = read_plan(path)
        plan.gaps()
        plan.instance()

    only_own_errors(read)


@pytest.mark.parametrize("data", SEEDS)
def test_every_truncation(path: Path, data: bytes) -> None:
    """Each good file, cut after each of its bytes, is read or refused."""
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        only_own_errors(lambda: read_plan(path))
        only_own_errors(
            lambda: read_backlog(path, kv_tokens=9, prompt_tokens="chars/4", note=lambda _: None)
        )
        only_own_errors(lambda: read_backlog(path, kv_tokens=9, note=lambda _: None))

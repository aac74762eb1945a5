"""Whatever a stopped run left in its output, resume ends with every request exactly once."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_outputs import (
    MANIFEST,
    PLAN,
    answer,
    died,
    encoded,
    inputs_of,
    names_in,
    read_strictly,
    refused,
    unread,
)

from sortedf.errors import InputError
from sortedf.runner.folder import Counts, RunFolder
from sortedf.runner.output_lines import Status

INPUTS = inputs_of("a-1", "a-2", "a-3", "a-4", "a-5")


def begun(path: Path, output: bytes, inputs: dict[str, str] = INPUTS) -> Path:
    """Make a folder whose process was killed when its output was this."""
    RunFolder.create(path, MANIFEST, plan=PLAN, plan_name="plan.json", inputs=inputs).close()
    (path / "output.jsonl").write_bytes(output)
    return path


def resumed(
    path: Path, inputs: dict[str, str] = INPUTS, **options: Any
) -> tuple[Counts, list[str]]:
    """Resume and answer all that is to run; gives the counts and what was run."""
    with RunFolder.resume(path, MANIFEST, inputs=inputs, **options) as folder:
        to_run = [name for name in inputs if name not in folder.status]
        for name in to_run:
            folder.append(answer(name, "on resume"))
        return folder.finish(), to_run


def inputs_of_batch(path: Path) -> dict[str, str]:
    """Hash the requests of a batch file."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    digest = hashlib.sha256
    return {
        line["custom_id"]: digest(json.dumps([line["url"], line["body"]]).encode()).hexdigest()
        for line in lines
    }


@pytest.mark.parametrize(
    "kind", ["torn_utf8", "torn_json", "torn_then_blank", "no_newline", "nul_tail"]
)
def test_case_51_torn_last_line(kind: str, tmp_path: Path, shared: Path) -> None:
    case = shared / "cases/51-partial-last-line"
    inputs = inputs_of_batch(case / "batch.jsonl")
    path = begun(tmp_path / "run", (case / f"output_{kind}.jsonl").read_bytes(), inputs)
    counts, ran = resumed(path, inputs)
    assert ran == ["a-3", "a-4", "a-5"]
    assert names_in(path / "output.jsonl") == ["a-1", "a-2", "a-3", "a-4", "a-5"]
    assert counts == (5, 0, 0)


def test_case_51_bad_line_in_the_middle(tmp_path: Path, shared: Path) -> None:
    """The choice: it is dropped with a warning, and its request runs again."""
    case = shared / "cases/51-partial-last-line"
    inputs = inputs_of_batch(case / "batch.jsonl")
    path = begun(tmp_path / "run", (case / "output_bad_middle.jsonl").read_bytes(), inputs)
    with RunFolder.resume(path, MANIFEST, inputs=inputs) as folder:
        note, count = folder.notes
    assert f"left out: {path / 'output.jsonl'}:2: " in note
    assert "its request is run again" in note
    assert "1 line skipped: 2" in count
    counts, ran = resumed(path, inputs)
    assert ran == ["a-2", "a-4", "a-5"]
    assert names_in(path / "output.jsonl") == ["a-1", "a-3", "a-2", "a-4", "a-5"]
    assert counts == (5, 0, 0)


def test_case_53_input_changed(tmp_path: Path, shared: Path) -> None:
    case = shared / "cases/53-resume-after-edit"
    before, after = (inputs_of_batch(case / f"batch_v{k}.jsonl") for k in (1, 2))
    path = begun(tmp_path / "run", (case / "output_of_v1.jsonl").read_bytes(), before)
    with pytest.raises(InputError) as caught:
        RunFolder.resume(path, MANIFEST, inputs=after)
    changed, other, new = str(caught.value).splitlines()
    assert '"b" was changed' in changed
    assert '"c" was changed' in other
    assert '"d" is new' in new
    assert names_in(path / "output.jsonl") == ["a", "b", "c"]
    assert resumed(path, dict(reversed(before.items())))[1] == []


def test_case_55_what_counts_as_done(tmp_path: Path, shared: Path) -> None:
    case = shared / "cases/55-resume-with-errors"
    inputs = inputs_of_batch(case / "batch.jsonl")
    output = (case / "output.jsonl").read_bytes()
    path = begun(tmp_path / "run", output, inputs)
    with RunFolder.resume(path, MANIFEST, inputs=inputs) as folder:
        assert folder.status == {"a-1": Status.ANSWERED, "a-2": Status.FAILED}
        assert folder.counts == (1, 3, 1)
    counts, ran = resumed(path, inputs)
    assert ran == ["a-3", "a-4", "a-5"]
    assert counts == (4, 1, 0)
    assert names_in(path / "output.jsonl") == ["a-1", "a-2", "a-3", "a-4", "a-5"]
    counts, ran = resumed(path, inputs, retry_failed=True)
    assert ran == ["a-2"]
    assert counts == (5, 0, 0)
    assert names_in(path / "output.jsonl") == ["a-1", "a-3", "a-4", "a-5", "a-2"]


LINES = st.sampled_from(
    [answer, refused, died, lambda name: {**answer(name), "response": {"status_code": 200}}]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=150)
@given(
    names=st.lists(TEXTS, min_size=1, max_size=6, unique=True),
    kinds=st.lists(LINES, max_size=12),
    cut=st.floats(0, 1),
    tail=st.one_of(
        st.binary(max_size=40),
        st.integers(0, 5000).map(lambda count: b"\0" * count),
        st.sampled_from([b"\n\n", b"\r\n", b"{}\n", b'{"custom_id": nul', "é".encode()[:1]]),
    ),
)
def test_any_prefix_with_any_tail(
    names: list[str], kinds: list[Any], cut: float, tail: bytes, tmp_path_factory: Any
) -> None:
    """Whole lines of the prefix are kept; the rest is run; each request is there once."""
    inputs = inputs_of(*names)
    lines = [kind(names[index % len(names)]) for index, kind in enumerate(kinds)]
    data = encoded(*lines)
    data = data[: round(cut * len(data))]
    pieces = (data + tail).rstrip(b"\0 \t\r\n").split(b"\n")
    whole = [line for line in map(read_loosely, pieces) if line]
    path = begun(tmp_path_factory.mktemp("any") / "run", data + tail, inputs)
    if not whole and len(pieces) > 1:
        return  # nothing that looks like an output: the next test
    first: dict[str, Any] = {}
    for line in whole:  # by the rule: a later line replaces all but an answer
        if not has_answer(first.get(line["custom_id"])):
            first[line["custom_id"]] = line
    counts, _ = resumed(path, inputs)
    after = {line["custom_id"]: line for line in read_strictly(path / "output.jsonl")}
    assert sorted(names_in(path / "output.jsonl"), key=str) == sorted(names)
    assert sum(counts) == len(names)
    assert counts.not_run == 0
    for name, line in first.items():
        if has_answer(line) or ((line["response"] or {}).get("status_code") == 400):
            assert after[name] == line
        else:
            assert after[name] == answer(name, "on resume")
    shutil.rmtree(path)


def read_loosely(text: bytes) -> dict[str, Any] | None:
    """Read a line with the standard library; ``None`` if it is torn or of no request."""
    try:
        line = json.loads(text.decode())
    except ValueError:
        return None
    return line if isinstance(line, dict) and "custom_id" in line else None


def has_answer(line: dict[str, Any] | None) -> bool:
    """Say whether a line holds an answer."""
    return bool(line and ((line["response"] or {}).get("body") or {}).get("choices"))


@pytest.mark.parametrize(
    "data", [b"one\ntwo\n", b"\x1f\x8b\x08\n\0\0\nx", b'{\n"custom_id": "a-1"\n}\n']
)
def test_what_is_no_output_is_left_alone(data: bytes, tmp_path: Path) -> None:
    path = begun(tmp_path / "run", data)
    with pytest.raises(InputError, match=r"output.jsonl:1: none of its lines"):
        RunFolder.resume(path, MANIFEST, inputs=INPUTS)
    assert (path / "output.jsonl").read_bytes() == data


def test_bom_and_crlf_of_an_editor(tmp_path: Path) -> None:
    data = encoded(answer("a-1"), refused("a-2")).replace(b"\n", b"\r\n")
    path = begun(tmp_path / "run", b"\xef\xbb\xbf" + data)
    assert resumed(path)[1] == ["a-3", "a-4", "a-5"]


def test_zeros_in_the_middle(tmp_path: Path) -> None:
    """Blocks that never reached the disk before the power failed."""
    lines = [encoded(answer(name, "x" * 5000)) for name in ("a-1", "a-2", "a-3", "a-4")]
    data = bytearray(b"".join(lines))
    data[4096:12288] = bytes(8192)
    path = begun(tmp_path / "run", bytes(data))
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        assert set(folder.status) == {"a-4"}
        assert folder.notes
    counts, ran = resumed(path)
    assert ran == ["a-1", "a-2", "a-3", "a-5"]
    assert counts == (5, 0, 0)
    assert sorted(map(str, names_in(path / "output.jsonl"))) == list(INPUTS)


def test_a_byte_that_is_no_utf8(tmp_path: Path) -> None:
    """In a line that is JSON but for that."""
    data = encoded(answer("a-1"), answer("a-2", "OK"), answer("a-3")).replace(b"OK", b"\xff\xfe")
    path = begun(tmp_path / "run", data)
    assert resumed(path)[1] == ["a-2", "a-4", "a-5"]
    assert names_in(path / "output.jsonl") == ["a-1", "a-3", "a-2", "a-4", "a-5"]


@pytest.mark.parametrize(
    "body", [None, "", [], {}, {"choices": []}, {"choices": "x"}, {"error": {}}]
)
def test_a_body_without_choices_is_no_answer(body: Any, tmp_path: Path) -> None:
    line = {**answer("a-1"), "response": {"status_code": 200, "body": body}}
    path = begun(tmp_path / "run", encoded(line, answer("a-2")))
    assert resumed(path)[1] == ["a-1", "a-3", "a-4", "a-5"]


def test_blank_lines(tmp_path: Path) -> None:
    """Those in the middle go; a line written where one was cut off stays."""
    data = b"\n" + encoded(answer("a-1")) + b" \r\n" + encoded(answer("a-2")) + b"\n\n" + b'{"torn'
    path = begun(tmp_path / "run", data)
    counts, ran = resumed(path)
    assert ran == ["a-3", "a-4", "a-5"]
    assert counts == (5, 0, 0)
    assert names_in(path / "output.jsonl") == ["a-1", "a-2", "a-3", "a-4", "a-5"]


def test_two_answers_the_first_is_kept(tmp_path: Path) -> None:
    path = begun(tmp_path / "run", encoded(answer("a-1", "first"), answer("a-1", "second")))
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        note, _ = folder.notes
        assert "output.jsonl:2: a second answer" in note
        assert folder.finish() == (1, 0, 4)
    assert read_strictly(path / "output.jsonl") == [answer("a-1", "first")]


def test_lines_of_other_requests(tmp_path: Path) -> None:
    data = encoded(answer("a-1"), answer("b-1"), refused("b-2")) + b'{"torn'
    path = begun(tmp_path / "run", data)
    with pytest.raises(InputError) as caught:
        RunFolder.resume(path, MANIFEST, inputs=INPUTS)
    assert [fault.line for fault in caught.value.faults] == [2, 3]
    assert '"b-1" is not in the input' in str(caught.value)
    assert (path / "output.jsonl").read_bytes() == data


def test_failures_that_pass_are_run_again(tmp_path: Path) -> None:
    codes = {"a-1": 400, "a-2": 404, "a-3": 429, "a-4": 500, "a-5": 408}
    path = begun(tmp_path / "run", encoded(*(refused(*pair) for pair in codes.items())))
    assert resumed(path)[1] == ["a-3", "a-4", "a-5"]


def test_an_error_does_not_replace_an_answer(tmp_path: Path) -> None:
    path = begun(tmp_path / "run", encoded(answer("a-1"), died("a-1"), refused("a-1")))
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        assert folder.status == {"a-1": Status.ANSWERED}
        assert folder.notes == ()
        assert folder.finish() == (1, 0, 4)
    assert read_strictly(path / "output.jsonl") == [answer("a-1")]


def test_unread_lines_stand_once(tmp_path: Path) -> None:
    """Their records are not repeated, and move with their lines."""
    path = begun(tmp_path / "run", encoded(unread(2), answer("a-1"), unread(4)))
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        assert folder.counts == (1, 2, 4)
        folder.append(unread(2))
        folder.append(unread(4))
        assert folder.finish() == (1, 2, 4)
    assert (path / "output.jsonl").read_bytes() == encoded(unread(2), answer("a-1"), unread(4))
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        assert folder.finish() == (1, 2, 4)  # none recorded: none is known to have moved
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        folder.append(unread(3))
        folder.append(unread(4))
        assert folder.finish() == (1, 2, 4)
    assert read_strictly(path / "output.jsonl") == [answer("a-1"), unread(4), unread(3)]


def test_output_is_rewritten_only_where_something_was_superseded(tmp_path: Path) -> None:
    path = begun(tmp_path / "run", encoded(answer("a-1"), refused("a-2")))
    inode = (path / "output.jsonl").stat().st_ino
    resumed(path)
    assert (path / "output.jsonl").stat().st_ino == inode
    resumed(path, retry_failed=True)
    assert (path / "output.jsonl").stat().st_ino != inode


def test_a_line_that_resume_could_not_read_is_not_written(tmp_path: Path) -> None:
    path = begun(tmp_path / "run", b"")
    with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
        folder.append(answer("a-1"))
        for line, why in (
            (answer("b"), "not among the inputs"),
            (answer("a-1"), "answered already"),
            ({"id": "x"}, "not a line"),
            ({"custom_id": None, "error": {"code": "x"}}, "error.line"),
        ):
            with pytest.raises(ValueError, match=why):
                folder.append(line)
        folder.append(died("a-2"))
        assert "a-2" not in folder.status
        folder.append(answer("a-2"))
        assert folder.finish() == (2, 0, 3)
    assert names_in(path / "output.jsonl") == ["a-1", "a-2"]

"""Plan files, written and read."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_write import REQUESTS

from sortedf.errors import InputError
from sortedf.instances import is_plan, open_source, read_plan, write_plan
from sortedf.model import Instance, Request, Result, Schedule

LAYOUTS = ["p.json", "p.jsonl", "p.json.gz", "p.jsonl.gz"]
SMALL = Instance([5, 6, 7], [2, 3, 1], 20, ids=["a", "b", "c"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


def planned(instance: Instance, starts: list[int], **more: Any) -> Result:
    """Make a result as a solver would."""
    account: dict[str, Any] = {"solver": "svf", "seconds": 1.5, "version": "1.2.3", "seed": 4}
    return Result(instance=instance, schedule=Schedule(starts), **(account | more))


def document(path: Path) -> Any:
    """Read a plan by other means: the layout of JSON lines as if it were a document."""
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    header, *requests = map(json.loads, text.splitlines())
    return header | {"requests": requests}


@given(REQUESTS, st.data(), st.sampled_from(LAYOUTS))
def test_what_is_written_is_read(
    folder: Path, requests: list[Request], data: st.DataObject, name: str
) -> None:
    """A plan comes back whole from every layout, and its instance hashes to what is recorded."""
    instance = Instance.from_requests(requests, 50)
    starts = [data.draw(st.integers(0, 10)) for _ in requests]
    result = planned(instance, starts, lower_bound_exact=Fraction(7, 2), block_size=16)
    write_plan(result, folder / name)
    plan = read_plan(folder / name)
    assert (plan.kv_tokens, plan.block_size, plan.solver) == (50, 16, "svf")
    assert (plan.seed, plan.version, plan.lower_bound) == (4, "1.2.3", 4)
    assert plan.total_latency == result.total_latency
    assert plan.instance() == instance
    assert plan.instance_sha256 == instance.sha256 == plan.instance().sha256
    assert plan.positions() == list(plan.index)
    assert plan.gaps() == []
    order = sorted(range(len(requests)), key=lambda i: (starts[i], i))
    assert plan.index == order
    assert plan.starts == [starts[i] for i in order]


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_keys_of_the_file(tmp_path: Path, name: str) -> None:
    """The file has the keys of the design in their order, and no more than it needs."""
    write_plan(planned(SMALL.replace(release=[0, 4, 0]), [3, 4, 0]), tmp_path / name)
    plan = document(tmp_path / name)
    assert list(plan) == [
        "schema",
        "kv_tokens",
        "solver",
        "parameters",
        "seed",
        "version",
        "instance_sha256",
        "total_latency",
        "lower_bound",
        "requests",
    ]
    assert plan["lower_bound"] is None
    assert [list(row) for row in plan["requests"]] == [
        ["index", "id", "prompt_tokens", "output_tokens", "start"],
        ["index", "id", "prompt_tokens", "output_tokens", "start"],
        ["index", "id", "prompt_tokens", "output_tokens", "release", "start"],
    ]
    assert plan["requests"][0] == {
        "index": 2,
        "id": "c",
        "prompt_tokens": 7,
        "output_tokens": 1,
        "start": 0,
    }


def test_ties_go_by_index_and_each_request_has_a_line(tmp_path: Path) -> None:
    """Equal starts stand in the order of the backlog; line k + 2 of either layout is request k."""
    for name in ("p.json", "p.jsonl"):
        write_plan(planned(SMALL, [1, 0, 0]), tmp_path / name)
        lines = (tmp_path / name).read_text().splitlines()
        assert [line[:11] for line in lines[1:4]] == ['{"index":1,', '{"index":2,', '{"index":0,']


def test_same_result_same_bytes(tmp_path: Path) -> None:
    """Nothing of the clock goes in: results that differ in seconds alone give one file."""
    for name in LAYOUTS:
        write_plan(planned(SMALL, [1, 0, 0], seconds=1.0), tmp_path / name)
        first = (tmp_path / name).read_bytes()
        write_plan(planned(SMALL, [1, 0, 0], seconds=2.0), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


def test_many_requests(tmp_path: Path) -> None:
    """Plans that are put into bytes in parts have no seams."""
    n = 150_000
    instance = Instance(np.ones(n, int), np.ones(n, int), 9)
    starts = np.random.default_rng(0).integers(0, 1000, n)
    for name in ("p.json", "p.jsonl"):
        write_plan(planned(instance, starts.tolist()), tmp_path / name)
        plan = read_plan(tmp_path / name)
        assert plan.starts == sorted(starts.tolist())
        assert plan.instance() == instance


def test_numbers_of_numpy_among_the_parameters(tmp_path: Path) -> None:
    """A solver may hand on numpy's numbers; the file has plain ones."""
    parameters = {"lookahead": np.int64(3), "share": np.float64(0.5), "proxies": (1, 2, 3)}
    write_plan(planned(SMALL, [0, 0, 0], parameters=parameters), tmp_path / "p.json")
    plan = read_plan(tmp_path / "p.json")
    assert plan.parameters == {"lookahead": 3, "share": 0.5, "proxies": [1, 2, 3]}


@pytest.mark.parametrize("name", LAYOUTS)
def test_skipped_requests(tmp_path: Path, name: str) -> None:
    """Requests left out before planning are listed; the index of the others counts them."""
    full = Instance([5, 99, 7, 98], [2, 3, 1, 4], 20, ids=list("abcd"), release=[0, 6, 0, 0])
    keep = [0, 2]
    skipped = [(1, full[1]), (3, full[3])]
    write_plan(planned(full.select(keep), [1, 0]), tmp_path / name, skipped)
    plan = read_plan(tmp_path / name)
    assert plan.index == [2, 0]
    assert plan.skipped == tuple(skipped)
    assert plan.instance() == full.select(keep)
    assert plan.instance_sha256 == full.select(keep).sha256
    assert plan.positions() == [1, 0]
    assert plan.gaps() == []


def edited(tmp_path: Path, name: str = "p.json", **changes: Any) -> Path:
    """Write the small plan with some keys changed; ``None`` takes the key away."""
    write_plan(planned(SMALL, [1, 0, 0]), tmp_path / "p.json")
    plan = document(tmp_path / "p.json") | changes
    plan = {key: value for key, value in plan.items() if value is not None}
    path = tmp_path / name
    if name.endswith(".jsonl"):
        requests = plan.pop("requests")
        path.write_text("".join(json.dumps(row) + "\n" for row in [plan, *requests]))
    else:
        path.write_text(json.dumps(plan))
    return path


def row(index: Any, name: Any = "x", start: Any = 0, **more: Any) -> dict[str, Any]:
    """Make one request of a plan."""
    request = {"index": index, "id": name, "prompt_tokens": 1, "output_tokens": 2, "start": start}
    return request | more


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_layouts_of_others(tmp_path: Path, name: str) -> None:
    """Other blanks, another order of keys, and more keys than known are read all the same."""
    write_plan(planned(SMALL, [1, 0, 0]), tmp_path / "q.json")
    plan = document(tmp_path / "q.json") | {"by": "hand"}
    path = tmp_path / name
    if name == "p.json":
        path.write_text(json.dumps(plan, sort_keys=True, indent=3))
    else:
        requests = plan.pop("requests")
        lines = [json.dumps(entry, sort_keys=True) for entry in [plan, *requests]]
        path.write_text("\r\n\r\n".join(lines))
    assert read_plan(path).instance() == SMALL
    assert is_plan(open_source(path))


@pytest.mark.parametrize("start", [None, "0", 1.5, -3, True, [1], 2**70])
def test_starts_are_handed_on_unjudged(tmp_path: Path, start: Any) -> None:
    """Whatever stands for a start, or the objective, is for the verifier to refuse."""
    requests = [row(0, start=start)]
    plan = read_plan(edited(tmp_path, requests=requests, total_latency={"a": start}))
    assert plan.starts == [start]
    assert plan.total_latency == {"a": start}


def test_repeated_and_missing_requests(tmp_path: Path) -> None:
    """They are told, not raised: the verifier makes violations of them."""
    requests = [row(4, "e"), row(1, "b"), row(4, "e", start=9), row(2, "c"), row(9, "j")]
    plan = read_plan(edited(tmp_path, requests=requests, skipped=[row(0, "a"), row(6, "g")]))
    assert plan.instance().ids == ("b", "c", "e", "j")
    assert plan.positions() == [2, 0, 2, 1, 3]
    assert plan.gaps() == [range(3, 4), range(5, 6), range(7, 9)]


def test_gaps_of_any_size(tmp_path: Path) -> None:
    """A plan that claims a far position costs no memory."""
    plan = read_plan(edited(tmp_path, requests=[row(2**40)]))
    assert plan.gaps() == [range(2**40)]
    assert plan.positions() == [0]


def test_requests_that_are_no_instance(tmp_path: Path) -> None:
    """No requests, two of one id, and sums beyond the model are faults of the file."""
    for requests in (
        [],
        [row(0, "a"), row(1, "a")],
        [row(0, "a", prompt_tokens=2**40), row(1, "b")],
    ):
        with pytest.raises(InputError, match=r"p\.json: "):
            read_plan(edited(tmp_path, requests=requests)).instance()


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": None},
        {"schema": "sortedf.plan/2"},
        {"schema": "sortedf.bound/1"},
        {"schema": 1},
        {"kv_tokens": None},
        {"kv_tokens": 0},
        {"kv_tokens": "20"},
        {"kv_tokens": 2**62},
        {"block_size": 0},
        {"solver": None},
        {"instance_sha256": 5},
        {"total_latency": None},
        {"lower_bound": 1.5},
        {"parameters": [1]},
        {"skipped": [{"index": 1}]},
    ],
)
@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_headers_that_are_none(tmp_path: Path, name: str, changes: dict[str, Any]) -> None:
    """A header with a key missing or of the wrong kind is refused in both layouts."""
    with pytest.raises(InputError, match=r"p\.jsonl?") as caught:
        read_plan(edited(tmp_path, name, **changes))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "request_row",
    [
        5,
        [],
        {"index": 0},
        row(-1),
        row("0"),
        row(0.0),
        row(2**41),
        row(0, ""),
        row(0, 7),
        row(0, prompt_tokens=0),
        row(0, output_tokens=None),
        row(0, output_tokens=2**41),
        row(0, release=-1),
    ],
)
def test_requests_that_are_none(tmp_path: Path, request_row: Any) -> None:
    """A request with a key missing or out of range is refused, with its line where it has one."""
    with pytest.raises(InputError, match=r"requests\[1\]|requests\[\.\.\.\]"):
        read_plan(edited(tmp_path, requests=[row(0), request_row]))
    with pytest.raises(InputError) as caught:
        read_plan(edited(tmp_path, "p.jsonl", requests=[row(0), request_row, row(1), 5]))
    assert [fault.line for fault in caught.value.faults] == [3, 5]


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_truncated_plans(tmp_path: Path, name: str) -> None:
    """A plan that is cut off is refused; at the end of a line the hash still tells."""
    path = tmp_path / name
    write_plan(planned(SMALL, [1, 0, 0]), path)
    whole = path.read_bytes()
    for cut in range(len(whole) - 3):
        path.write_bytes(whole[:cut])
        try:
            plan = read_plan(path)
            assert plan.instance().sha256 != plan.instance_sha256
        except InputError:
            continue
        assert name == "p.jsonl"
        assert whole[cut - 1 : cut] == b"\n" or whole[cut : cut + 1] == b"\n"


def test_what_is_a_plan(tmp_path: Path) -> None:
    """Plans of any version are told from backlogs and certificates."""
    path = tmp_path / "x"
    for text, expected in (
        ('{"schema":"sortedf.plan/1","requests":[\n', True),
        ('{"kv_tokens":1,\n"schema":"sortedf.plan/9"}', True),
        ('{"schema":"sortedf.bound/1"}', False),
        ('{"schema":"other.plan/1"}', False),
        ('{"prompt_tokens":1}\n{"schema":"sortedf.plan/1"}', False),
        ("prompt_tokens,output_tokens\n", False),
        ("", False),
    ):
        path.write_text(text)
        assert is_plan(open_source(path)) is expected

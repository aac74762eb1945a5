"""`sortedf report`: its document, its forms, its errors, and what more memory can buy."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_report import held_by, least_latency, price_by_step

import sortedf
from sortedf import Instance, instances
from sortedf.cli.main import main
from sortedf.lp import Prices, ascend, price_bound
from sortedf.report.extra_memory import Unit, extra_memory, moved_bound

Run = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Run:
    """Run a command line in this process; gives exit code, stdout and stderr."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run `report --json` and read what it prints."""
    code, out, err = run(capsys, "report", *arguments, "--json", "-q")
    assert (code, err) == (0, "")
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    """Write a backlog of thirty requests."""
    path = tmp_path / "backlog.csv"
    instances.write_backlog(instances.generate("mix", 30, seed=4), path)
    return path


def planned(backlog: Path, solver: str, *more: object, kv_tokens: int = 9000) -> Path:
    """Write a plan of the backlog by a solver."""
    path = backlog.with_name(f"{solver}.json")
    arguments = ["solve", backlog, "--kv-tokens", kv_tokens, "--solver", solver, "-q", *more]
    assert main([str(a) for a in [*arguments, "-o", path]]) == 0
    return path


@pytest.fixture
def plans(backlog: Path, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """Write three plans of the backlog, and forget what was printed."""
    paths = [planned(backlog, solver) for solver in ("fcfs", "svf", "mcsf")]
    capsys.readouterr()
    return paths


@pytest.fixture
def one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at one larger budget only, to save time where it does not matter."""
    monkeypatch.setattr("sortedf.report.extra_memory.MULTIPLES", (1,))


def certificate(instance: Instance, prices: Prices, changes: dict[str, Any] | None = None) -> str:
    """Write prices as a certificate, with some of its entries changed."""
    bound = price_bound(instance, prices)
    whole: dict[str, Any] = {
        "schema": "sortedf.bound/1",
        "kv_tokens": instance.kv_tokens,
        "instance_sha256": instance.sha256,
        "denominator": prices.denominator,
        "prices": [list(piece) for piece in prices.pieces()],
        "bound": f"{bound.numerator}/{bound.denominator}",
    }
    return json.dumps(whole | (changes or {}))


@pytest.mark.usefixtures("one_more")
def test_rows_are_the_plans_and_the_bound_holds_for_each(
    capsys: pytest.CaptureFixture[str], backlog: Path, plans: list[Path]
) -> None:
    """Latencies and hashes are recomputed from the files; gaps follow from one bound."""
    report = document(capsys, *plans)
    totals = [row["total_latency"] for row in report["rows"]]
    assert totals == sorted(totals)
    assert {row["name"] for row in report["rows"]} == {"fcfs", "svf", "mcsf"}
    bound = report["bound"]["lower_bound"]
    assert bound == ceil(Fraction(report["bound"]["lower_bound_exact"]))
    for row in report["rows"]:
        plan = json.loads(Path(row["file"]).read_text())
        latencies = sorted(r["start"] + r["output_tokens"] for r in plan["requests"])
        n = len(latencies)
        assert row["total_latency"] == sum(latencies)
        assert row["mean_latency"] == pytest.approx(sum(latencies) / n)
        assert row["p95_latency"] == latencies[ceil(0.95 * n) - 1]
        assert row["makespan"] == latencies[-1]
        assert row["lower_bound"] == bound <= row["total_latency"]
        assert row["gap"] == pytest.approx(row["total_latency"] / bound - 1)
        assert row["file_sha256"] == hashlib.sha256(Path(row["file"]).read_bytes()).hexdigest()
        assert (row["verified"], row["seed"], row["bound_kind"]) == (True, 0, "certified")
    spread = report["backlog"]["output_tokens"]
    outputs = sorted(
        int(r["output_tokens"]) for r in csv.DictReader(io.StringIO(backlog.read_text()))
    )
    assert (spread["total"], spread["least"], spread["most"]) == (
        sum(outputs),
        outputs[0],
        outputs[-1],
    )
    assert spread["p50"] == outputs[14]


@pytest.mark.usefixtures("one_more")
def test_pictures_tell_the_plan(capsys: pytest.CaptureFixture[str], plans: list[Path]) -> None:
    """Curve, memory and shapes of the document are those of a count by steps."""
    report = document(capsys, *plans)
    pictures = report["pictures"]
    assert pictures["curves"]["released"] is None
    for curve, memory, packing in zip(
        pictures["curves"]["plans"], pictures["memory"]["plans"], pictures["packing"], strict=True
    ):
        row = report["rows"][curve["row"]]
        assert memory["row"] == packing["row"] == curve["row"]
        plan = instances.read_plan(row["file"])
        instance = plan.instance()
        starts = np.empty(len(instance), int)
        starts[plan.positions()] = plan.starts
        ends = (starts + instance.output_tokens).tolist()
        for step, finished in zip(curve["steps"], curve["finished"], strict=True):
            assert finished == sum(end <= step for end in ends)
        assert curve["steps"][-1] == row["makespan"]
        edges = memory["edges"]
        for b in range(0, len(edges) - 1, 7):
            by_step = [
                sum(held_by(instance, starts.tolist(), step).values())
                for step in range(edges[b] + 1, edges[b + 1] + 1)
            ]
            mean = sum(by_step) / len(by_step)
            assert sum(of_class[b] for of_class in memory["mean"]) == pytest.approx(mean, abs=0.01)
            assert memory["peak"][b] == max(by_step)
        (window,) = packing["windows"]
        assert (window["first"], window["last"], window["group"]) == (0, row["makespan"], 1)
        assert {name for shape in window["shapes"] for name in shape["ids"]} == set(instance.ids)
        assert {shape["completion"] for shape in window["shapes"]} == set(ends)


@pytest.mark.usefixtures("one_more")
def test_large_plans_are_shown_in_windows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of many requests a picture shows three windows, with a bounded number of shapes."""
    path = tmp_path / "plan.json"
    result = sortedf.solve(instances.generate("mix", 3000, seed=1, kv_tokens=100_000), solver="svf")
    sortedf.write_plan(result, path)
    (packing,) = document(capsys, path)["pictures"]["packing"]
    assert len(packing["windows"]) == 3
    for window, first in zip(packing["windows"], (0, 1, 2), strict=True):
        assert window["first"] == result.makespan * first // 3
        assert window["first"] < window["last"] <= result.makespan * (first + 1) // 3
        assert 1 <= len(window["shapes"]) <= 101
        assert sum(shape["requests"] for shape in window["shapes"]) == window["requests"]
        assert all(shape["requests"] <= window["group"] for shape in window["shapes"])
    assert packing["windows"][0]["group"] > 1


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
    st.lists(st.integers(0, 30), max_size=8),
    st.integers(0, 6),
)
def test_moved_bound_is_never_above_the_optimum(
    requests: list[tuple[int, int]], numerators: list[int], extra: int
) -> None:
    """Whatever the prices: no schedule on a larger budget is below the bound that they move to."""
    budget = max(s + o for s, o in requests)
    prompts, outputs = zip(*requests, strict=True)
    instance = Instance(prompts, outputs, budget)
    steps = np.arange(1, len(numerators) + 1)
    prices = Prices(steps, steps, np.array(numerators, int), 0 * steps, 7)
    moved = moved_bound(price_bound(instance, prices), prices, extra)
    larger = instance.replace(kv_tokens=budget + extra)
    assert moved == price_bound(larger, prices)
    assert moved <= least_latency(larger)
    total = sum(price_by_step(prices).values())
    assert price_bound(instance, prices) - moved == extra * total


def test_more_memory_is_checked_directly(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row holds: evaluated anew it is the same, and below what an order reaches."""
    example = sortedf.example()
    prices, value = ascend(example)
    tracked: list[Sequence[int]] = []

    def track(multiples: Sequence[int]) -> Sequence[int]:
        tracked.append(multiples)
        return multiples

    extra = extra_memory(example, 1, prices, value, Unit("1,000 tokens", 1000), track)
    assert tracked == [(1, 2, 4, 8)]
    assert extra["per_unit"] == pytest.approx(1000 * float(prices.total()))
    assert extra["order_latency"] == sortedf.solve(example, solver="svf").total_latency
    for row, multiple in zip(extra["rows"], (1, 2, 4, 8), strict=True):
        assert row["holds"]
        assert row["extra_tokens"] == 1000 * multiple
        floor = Fraction(row["floor_exact"])
        assert floor == value - row["extra_tokens"] * prices.total()
        larger = example.replace(kv_tokens=example.kv_tokens + row["extra_tokens"])
        assert floor == Fraction(row["anew_exact"]) == price_bound(larger, prices)
        assert row["floor"] == ceil(floor) <= row["least"] == max(row["floor"], row["direct"])
        assert row["least"] <= row["order_latency"]
        # By convexity prices of its own prove at least as much, but for what the ascent misses.
        assert row["direct"] >= 0.999 * row["floor"]


def test_gib_are_converted(capsys: pytest.CaptureFixture[str], plans: list[Path]) -> None:
    """With the bytes of a token the report speaks of GiB, whole tokens; too large ones are told."""
    report = document(capsys, *plans, "--kv-bytes-per-token", "3MiB")
    assert report["extra_memory"]["unit"] == "1 GiB"
    assert report["extra_memory"]["unit_tokens"] == 341
    assert [row["extra_tokens"] for row in report["extra_memory"]["rows"]] == [341, 682, 1364, 2728]
    code, _, err = run(capsys, "report", *plans, "--kv-bytes-per-token", "2GiB")
    assert code == 2
    assert "a GiB holds no token" in err


@pytest.mark.usefixtures("one_more")
def test_prices_come_from_the_certificate(
    capsys: pytest.CaptureFixture[str], plans: list[Path], tmp_path: Path
) -> None:
    """With a certificate its bound, recomputed, is the report's, with its file and hash."""
    instance = instances.read_plan(plans[0]).instance()
    prices, _ = ascend(instance, iterations=3)
    path = tmp_path / "bound.json"
    path.write_text(certificate(instance, prices))
    report = document(capsys, *plans, "--certificate", path)
    exact = price_bound(instance, prices)
    assert Fraction(report["bound"]["lower_bound_exact"]) == exact
    assert report["bound"]["file"] == str(path)
    assert report["bound"]["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert report["rows"][0]["lower_bound"] == ceil(exact)
    # A poorer bound than the one that is found without it.
    assert exact < Fraction(document(capsys, *plans)["bound"]["lower_bound_exact"])


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"bound": "999999999/1"}, 6, "the prices prove"),
        ({"instance_sha256": "0" * 64}, 3, "another backlog"),
        ({"kv_tokens": 9001}, 3, "for 9001 tokens"),
        ({"schema": "sortedf.bound/2"}, 3, "sortedf.bound/2"),
        ({"prices": [[2, 1, 5]]}, 6, "2..1"),
        ({"prices": [[1, 2, -5]]}, 6, "negative"),
        ({"prices": "none"}, 3, "array"),
        ({"denominator": 0}, 3, "denominator"),
        ({"bound": "1/0"}, 6, "bound"),
    ],
)
def test_a_wrong_certificate_is_refused(
    capsys: pytest.CaptureFixture[str],
    plans: list[Path],
    tmp_path: Path,
    changes: dict[str, Any],
    code: int,
    message: str,
) -> None:
    """A certificate that proves something else, or nothing, is one line and its exit code."""
    instance = instances.read_plan(plans[0]).instance()
    prices, _ = ascend(instance, iterations=3)
    path = tmp_path / "bound.json"
    path.write_text(certificate(instance, prices, changes))
    found, out, err = run(capsys, "report", *plans, "--certificate", path, "-q")
    assert (found, out) == (code, "")
    assert len(err.splitlines()) == 1
    assert str(path) in err
    assert message in err


def test_blocks_are_taken_into_account(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """Plans in blocks are bounded in blocks; a certificate for plain tokens serves them too."""
    plan = planned(backlog, "svf", "--block-size", 16)
    capsys.readouterr()
    instance = instances.read_plan(plan).instance()
    prices, _ = ascend(instance.in_blocks(16), iterations=20)
    path = tmp_path / "bound.json"
    path.write_text(certificate(instance, prices))
    report = document(capsys, plan, "--certificate", path)
    exact = Fraction(report["bound"]["lower_bound_exact"])
    assert exact == price_bound(instance.in_blocks(16), prices) > price_bound(instance, prices)
    assert report["backlog"]["block_size"] == 16
    assert report["rows"][0]["total_latency"] >= exact
    for row in report["extra_memory"]["rows"]:
        added = row["kv_tokens"] // 16 * 16 - 9000 // 16 * 16
        assert Fraction(row["floor_exact"]) == exact - added * prices.total()
        assert row["holds"]


def test_plans_of_different_things_are_refused(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """Another backlog, budget or block size is one line that names both files."""
    first = planned(backlog, "svf")
    other = tmp_path / "other.csv"
    instances.write_backlog(instances.generate("mix", 29, seed=4), other)
    differing = [
        (planned(other, "fcfs"), "another backlog"),
        (planned(backlog, "mcsf", kv_tokens=8999), "another KV budget"),
        (planned(backlog, "size", "--block-size", 4), "other blocks"),
    ]
    capsys.readouterr()
    for path, message in differing:
        code, out, err = run(capsys, "report", first, path, "-q")
        assert (code, out) == (3, "")
        (line,) = err.splitlines()
        assert line.startswith(f"{path}: ")
        assert message in line
        assert str(first) in line


def test_a_plan_that_is_not_verified_ends_with_6(
    capsys: pytest.CaptureFixture[str], plans: list[Path], tmp_path: Path
) -> None:
    """A tampered plan is told from the others by its name, and nothing is written."""
    plan = json.loads(plans[1].read_text())
    plan["requests"][-1]["start"] = 0
    plans[1].write_text(json.dumps(plan))
    target = tmp_path / "report.html"
    code, out, err = run(capsys, "report", *plans, "-o", target, "-q")
    assert (code, out) == (6, "")
    assert err.startswith(f"{plans[1]}: ")
    assert not target.exists()


def test_usage_errors(
    capsys: pytest.CaptureFixture[str], plans: list[Path], tmp_path: Path
) -> None:
    """No plan, outputs that collide, inputs that would be overwritten: one line, exit code 2."""
    faults: list[tuple[list[object], str]] = [
        ([], "PLAN"),
        ([plans[0], "--json", "-o", "-"], "stdout"),
        ([plans[0], "--json", "--format", "md"], "stdout"),
        ([plans[0], "-o", plans[0]], "choose another name"),
        (["-", "-"], "stdin"),
        ([plans[0], "--format", "pdf"], "pdf"),
    ]
    for arguments, message in faults:
        code, out, err = run(capsys, "report", *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert len(err.splitlines()) == 1
    code, _, err = run(capsys, "report", tmp_path / "none.json")
    assert code == 3
    assert "no such file" in err


@pytest.mark.usefixtures("one_more")
def test_forms_follow_the_name_or_the_option(
    capsys: pytest.CaptureFixture[str], plans: list[Path], tmp_path: Path
) -> None:
    """HTML, JSON, Markdown and CSV say the same; --json beside -o prints the document too."""
    plans = plans[:2]
    report = document(capsys, *plans)
    target = tmp_path / "report.json"
    assert run(capsys, "report", *plans, "-o", target)[0] == 0
    assert json.loads(target.read_text()) == report
    target = tmp_path / "report.html"
    code, out, _ = run(capsys, "report", *plans, "-o", target, "--json")
    assert code == 0
    assert json.loads(out) == report
    page = target.read_text()
    assert page.startswith("<!doctype html>")
    assert run(capsys, "report", *plans, "-q")[1] == page
    _, text, _ = run(capsys, "report", *plans, "--format", "csv", "-q")
    for line, row in zip(csv.DictReader(io.StringIO(text)), report["rows"], strict=True):
        assert line.keys() == row.keys()
        for key in ("name", "total_latency", "mean_latency", "gap", "makespan", "file_sha256"):
            assert line[key] == str(row[key])
        assert line["verified"] == "true"
    _, text, _ = run(capsys, "report", *plans, "--format", "md", "-q")
    for row in report["rows"]:
        (found,) = [
            part
            for part in text.splitlines()
            if part.startswith(f"| {row['name']} | ") and "%" in part
        ]
        cells = [cell.strip() for cell in found.strip("|").split("|")]
        assert cells[6] == f"{row['total_latency']:,}"
        assert cells[8] == f"{row['gap']:,.2%}"
    assert report["bound"]["lower_bound_exact"] in text
    target = tmp_path / "odd.name"
    assert run(capsys, "report", *plans, "-o", target, "--format", "html")[0] == 0
    assert target.read_text() == page
    code, _, err = run(capsys, "report", *plans, "-o", tmp_path / "report.pdf")
    assert code == 2
    assert "the name ends in none of .html, .json, .md, .csv; add --format" in err


@pytest.mark.usefixtures("one_more")
def test_same_plans_are_named_apart(
    capsys: pytest.CaptureFixture[str], plans: list[Path], tmp_path: Path
) -> None:
    """Two plans by one solver are told apart by file, the same file twice by a number."""
    copy = tmp_path / "copy.json"
    copy.write_bytes(plans[1].read_bytes())
    names = [row["name"] for row in document(capsys, plans[1], copy)["rows"]]
    assert names == [f"svf ({plans[1]})", f"svf ({copy})"]
    names = [row["name"] for row in document(capsys, copy, copy)["rows"]]
    assert names == [f"svf ({copy}) #1", f"svf ({copy}) #2"]


@pytest.mark.usefixtures("one_more")
def test_a_file_name_of_any_bytes(
    capsys: pytest.CaptureFixture[str], plans: list[Path], tmp_path: Path
) -> None:
    """A name that is no text in any encoding does not stop the report."""
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff&.json")
    Path(odd).write_bytes(plans[0].read_bytes())
    target = tmp_path / "report.html"
    assert run(capsys, "report", odd, "-o", target, "-q")[0] == 0
    assert "\\udcff&amp;.json" in target.read_text()


@pytest.mark.usefixtures("one_more")
def test_of_many_plans_the_best_and_the_last_are_drawn(
    capsys: pytest.CaptureFixture[str], backlog: Path
) -> None:
    """Every plan has its row and curve; memory is drawn for five and the worst."""
    solvers = ("fcfs", "svf", "mcsf", "size", "svf-1bit", "longest", "random")
    paths = [planned(backlog, solver) for solver in solvers]
    capsys.readouterr()
    report = document(capsys, *paths)
    assert len(report["rows"]) == len(report["pictures"]["curves"]["plans"]) == 7
    for name in ("memory", "packing"):
        drawn = report["pictures"][name]
        drawn = drawn["plans"] if name == "memory" else drawn
        assert [plan["row"] for plan in drawn] == [0, 1, 2, 3, 4, 6]


@pytest.mark.usefixtures("one_more")
def test_left_out_requests_and_releases_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is larger than the budget is counted; releases have a curve of their own."""
    path = tmp_path / "backlog.csv"
    path.write_text("prompt_tokens,output_tokens,release\n5,3,0\n2,7,4\n99,1,0\n3,3,9\n")
    plan = tmp_path / "plan.json"
    arguments = ["solve", path, "--kv-tokens", 16, "--skip-oversized", "-q", "-o", plan]
    assert run(capsys, *arguments)[0] == 0
    report = document(capsys, plan)
    assert report["backlog"]["left_out"] == 1
    assert report["backlog"]["n"] == 3
    assert report["backlog"]["last_release"] == 9
    assert report["pictures"]["curves"]["released"] == {"steps": [0, 4, 9], "finished": [1, 2, 3]}
    for form in ("html", "md"):
        assert "larger than the budget" in run(capsys, "report", plan, "--format", form, "-q")[1]

"""The page of a report: its numbers, its text alternatives, and that it needs nothing else."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from math import ceil, floor
from pathlib import Path
from typing import Any

import pytest
from page_tree import (
    Element,
    Tree,
    check_colours,
    check_nothing_outside,
    check_pictures,
    check_tables,
)

import sortedf
from sortedf import Instance, Result, Schedule, instances
from sortedf.cli.main import main
from sortedf.report.document import ReportedPlan, gap_report
from sortedf.report.extra_memory import Unit, extra_memory
from sortedf.report.page import lookup, page
from sortedf.report.palette import DASHES, PALETTE, line_style
from sortedf.report.proof import find_proof

Made = tuple[dict[str, Any], str, Element]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Report on four plans of the packaged example: what --json prints, the page, its tree."""
    folder = tmp_path_factory.mktemp("report")
    paths = []
    for solver in ("fcfs", "svf", "exact-dp", "random"):
        paths.append(str(folder / f"{solver}.json"))
        sortedf.write_plan(sortedf.solve(sortedf.example(), solver=solver), paths[-1])
    target = folder / "report.html"
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["report", *paths, "-o", str(target), "--json", "-q"]) == 0
    text = target.read_text()
    return json.loads(printed.getvalue()), text, Tree(text).root


def reported(
    instance: Instance, solver: str, name: str | None = None, **parameters: Any
) -> ReportedPlan:
    """Plan an instance, as the command hands it to the report."""
    result = sortedf.solve(instance, solver=solver)
    result = Result(
        instance,
        Schedule(result.schedule.starts),
        name or solver,
        0.0,
        "0",
        parameters=parameters,
        verified=True,
    )
    return ReportedPlan(result, f"{name or solver}.json", "0" * 64, None, 1)


def test_numbers_are_those_of_the_json(made: Made) -> None:
    """Each number on the page has the value at its key, and is written as this value rounds."""
    document, _, tree = made
    numbers = tree.all("data")
    keys = {str(element.attributes["data-key"]) for element in numbers}
    for element in numbers:
        value = lookup(document, str(element.attributes["data-key"]))
        assert element.attributes["value"] == str(value)
        text = element.text.replace(",", "")
        if isinstance(value, bool):
            assert text == ("yes" if value else "no")
        elif text.endswith("%"):
            assert float(text[:-1]) == pytest.approx(100 * value, abs=0.005001)
        elif isinstance(value, int):
            assert int(text) == value
        else:
            digits = len(text.partition(".")[2])
            assert (
                ceil(value * 10**digits) + 1
                >= float(text) * 10**digits
                >= (floor(value * 10**digits) - 1)
            )
    for place, row in enumerate(document["rows"]):
        for key in ("mean_latency", "p50_latency", "p95_latency", "p99_latency", "makespan"):
            assert f"rows.{place}.{key}" in keys
        assert {f"rows.{place}.{k}" for k in ("total_latency", "lower_bound", "gap")} <= keys
        assert row["name"] in {header.text for header in tree.all("th")}
    for place in range(4):
        assert f"extra_memory.rows.{place}.floor" in keys


def test_what_is_said_of_a_bound_is_not_more_than_is_proved(made: Made) -> None:
    """The bound is rounded down, and what is taken off it up: the statement stays true."""
    document, _, tree = made
    written = {
        str(e.attributes["data-key"]): float(e.text.replace(",", ""))
        for e in tree.all("data")
        if "%" not in e.text and e.text not in ("yes", "no")
    }
    extra = document["extra_memory"]
    assert written["bound.by_prices"] <= document["bound"]["by_prices"]
    assert written["bound.mean"] <= document["bound"]["mean"]
    assert written["extra_memory.price_sum"] >= extra["price_sum"]
    assert written["extra_memory.per_unit"] >= extra["per_unit"]
    for row in extra["rows"]:
        said = written["bound.by_prices"] - row["extra_tokens"] * written["extra_memory.price_sum"]
        assert said <= row["floor"]


def test_every_picture_has_a_text_alternative(made: Made) -> None:
    """Each drawing is an image with a title and a description of its own; others are hidden."""
    document, _, tree = made
    pictures = check_pictures(tree)
    # On two papers each: lengths, curves, prices, more memory; memory and packing of four plans.
    assert pictures == 2 * (4 + 2 * len(document["rows"]))


def test_tables_have_headers_and_captions(made: Made) -> None:
    """Every table has a caption, every header a scope, every row as many cells as the head."""
    _, _, tree = made
    assert check_tables(tree) == 5


def test_nothing_outside_is_referred_to(made: Made) -> None:
    """No address, no script, no file: links and references stay within the page."""
    _, text, tree = made
    check_nothing_outside(text, tree)


def test_every_colour_is_a_variable_for_light_and_dark(made: Made) -> None:
    """Pictures name no colour: each is a variable that both papers define."""
    _, text, _ = made
    check_colours(text)


def luminance(color: str) -> float:
    """Relative luminance of a colour by WCAG 2."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Contrast of two colours by WCAG 2, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast() -> None:
    """Text and curves have 4.5:1 on their paper; neighbouring classes can be told apart."""
    lights = [tone.light for tone in PALETTE.values()]
    assert len(set(lights)) == len(lights)
    for side in (0, 1):
        paper = PALETTE["paper"][side]
        for name, tone in PALETTE.items():
            if name in ("ink", "muted", "limit", "accent") or name.startswith("line-"):
                assert contrast(tone[side], paper) >= 4.5, name
        for k in range(3):
            assert contrast(PALETTE[f"class-{k}"][side], PALETTE[f"class-{k + 1}"][side]) >= 1.4
        for k in range(8):
            assert contrast(PALETTE[f"shape-{k}"][side], paper) >= 1.5
    styles = [line_style(k) for k in range(32)]
    assert len(set(styles)) == 32
    assert {dashes for _, dashes in styles[:4]} == set(DASHES)


EVIL = "<script>alert(1)</script>\"'&$x_1$|`<b>"


def test_names_are_escaped(tmp_path: Path) -> None:
    """Ids, solvers, parameters and files of any text stay text, on the page and in Markdown."""
    instance = Instance([3, 4], [2, 5], 12, ids=[EVIL, "-->\x1b</title>"])
    plan = reported(instance, "fcfs", EVIL, **{EVIL: EVIL})
    path = tmp_path / "plan.json"
    sortedf.write_plan(plan.result, path)
    targets = [tmp_path / name for name in ("r.html", "r.md")]
    for target in targets:
        assert main(["report", str(path), "-o", str(target), "-q"]) == 0
    text, marked = (target.read_text() for target in targets)
    tree = Tree(text).root
    assert not tree.all("script")
    assert not tree.all("b")
    assert "<script" not in text
    titles = [e.text for e in tree.all("title")]
    assert any(title.startswith(f"{EVIL}: 3 prompt") for title in titles)
    assert any(title.startswith("-->\x1b</title>: 4 prompt") for title in titles)
    assert EVIL in {e.text for e in tree.all("th")}
    assert "<script" not in marked.replace("\\<script", "")
    for line in marked.splitlines():
        if EVIL[:3] in line and line.startswith("|"):
            head = marked.splitlines()
            assert len(re.findall(r"(?<!\\)\|", line)) in {
                h.count("|") for h in head if h.startswith("|---")
            }


def test_same_plans_give_the_same_bytes() -> None:
    """No time, date or chance gets into a page."""
    instance = instances.generate("mix", 12, seed=1, kv_tokens=9000)
    pages = []
    for _ in range(2):
        proof = find_proof(instance)
        extra = extra_memory(
            instance, 1, proof.prices, proof.price_value, Unit("1,000 tokens", 1000)
        )
        pages.append(page(gap_report([reported(instance, "svf")], proof, extra)))
    assert pages[0] == pages[1]


def test_one_request_and_memory_without_end() -> None:
    """The smallest instance, with a budget that is never short, has its page too."""
    instance = Instance([1], [1], 2**62 - 1)
    proof = find_proof(instance)
    extra = extra_memory(instance, 1, proof.prices, proof.price_value, Unit("1 GiB", 2**30))
    assert extra["rows"] == []
    tree = Tree(page(gap_report([reported(instance, "svf")], proof, extra))).root
    assert any("a KV budget of 4,611,686,018,427,387,903 tokens" in e.text for e in tree.all("p"))


def test_a_hundred_thousand_requests_stay_below_5_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many pictures as there can be, the page of 100,000 requests is below 5 MB."""
    monkeypatch.setattr("sortedf.report.extra_memory.MULTIPLES", (1,))
    instance = instances.generate("mix", 100_000, seed=3, kv_tokens=400_000)
    solvers = ("svf", "fcfs", "mcsf", "size", "random", "longest")
    proof = find_proof(instance)
    extra = extra_memory(instance, 1, proof.prices, proof.price_value, Unit("1 GiB", 8192))
    text = page(gap_report([reported(instance, solver) for solver in solvers], proof, extra))
    assert text.count('role="img"') == 2 * (4 + 2 * 6)
    assert 500_000 < len(text.encode()) < 5_000_000

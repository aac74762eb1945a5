"""The page of `sortedf simulate`: its numbers are those of --json, and it needs nothing else."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
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

from sortedf.cli.main import main
from sortedf.report import simulation_tables
from sortedf.report.page import lookup
from sortedf.report.palette import LINES
from sortedf.report.simulation_figures import drawn, others
from sortedf.report.simulation_page import page
from sortedf.report.simulation_tables import choice_words

Made = tuple[dict[str, Any], str, Element]


def simulated(folder: Path, *arguments: str) -> Made:
    """Write a page: what --json prints, the page, its tree."""
    target, printed = folder / "page.html", io.StringIO()
    with redirect_stdout(printed):
        assert main(["simulate", *arguments, "-o", str(target), "--json", "-q"]) == 0
    text = target.read_text()
    return json.loads(printed.getvalue()), text, Tree(text).root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """All policies on two seeds of one load."""
    folder = tmp_path_factory.mktemp("simulation")
    return simulated(folder, "--load", "1", "--requests", "120", "--seeds", "2")


@pytest.fixture(scope="module")
def in_steps(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three policies in steps, one seed."""
    folder = tmp_path_factory.mktemp("simulation")
    options = ("--engine", "steps", "--policy", "fcfs,svf,srpt:eviction=swap")
    return simulated(folder, "--load", "1", "--requests", "60", *options)


@pytest.mark.parametrize("which", ["made", "in_steps"])
def test_numbers_are_those_of_json(which: str, request: pytest.FixtureRequest) -> None:
    """Each number of a table has the value at its key, and is written as this value rounds."""
    document, _, tree = request.getfixturevalue(which)
    numbers = tree.all("data")
    assert len(numbers) > 30 * len(document["rows"])
    for element in numbers:
        value = lookup(document, str(element.attributes["data-key"]))
        assert element.attributes["value"] == str(value)
        text = element.text.partition(" (")[0].replace(",", "")
        if text.endswith("%"):
            assert float(text[:-1]) == pytest.approx(100 * value, abs=0.051)
        else:
            assert float(text) == pytest.approx(value, rel=0.006, abs=5e-5)


def test_every_policy_has_its_row(made: Made) -> None:
    """In the main table, best mean first, and with the engine's side of it."""
    document, _, tree = made
    table, *_, sides = tree.all("table")
    names = [row.children[0].text for row in table.all("tr")[1:]]
    means = {row["policy"]: row["figures"]["mean_ttlt_seconds"] for row in document["rows"]}
    assert sorted(names) == sorted(means)
    assert [means[name] for name in names] == sorted(means.values())
    words = {row.children[0].text: row.children[1].text for row in sides.all("tr")[1:]}
    for row in document["rows"]:
        assert row["carried_out"] in words[row["policy"]]


def test_the_ablation_is_on_the_page(made: Made) -> None:
    """Four steps, each against the one before."""
    document, _, tree = made
    steps = [(row["step"], row["against"]) for row in document["ablation"]]
    assert steps == [
        ("uniboost-dist", "fcfs"),
        ("uniboost-space", "uniboost-dist"),
        ("uniboost-guard", "uniboost-space"),
        ("uniboost", "uniboost-guard"),
    ]
    (table,) = [t for t in tree.all("table") if "step before" in t.all("caption")[0].text]
    found = [tuple(cell.text for cell in row.children[:2]) for row in table.all("tr")[1:]]
    assert found == steps


def test_eight_are_told_apart(made: Made) -> None:
    """Of many policies first come, the best mean and the best P99 have a colour of their own."""
    document, _, tree = made
    told = drawn(document)
    assert len(told) <= LINES
    assert sorted([*told, *others(document)]) == list(range(len(document["rows"])))
    texts = [document["rows"][place]["policy"] for place in told]
    assert "fcfs" in texts
    for figure in ("mean_ttlt_seconds", "p99_ttlt_seconds"):
        values = [row["figures"][figure] for row in document["rows"]]
        assert min(values) in [values[place] for place in told]
    (legend, *_) = [e for e in tree.all("ul") if e.attributes.get("class") == "legend"]
    assert [item.text.strip() for item in legend.all("li")] == [
        *texts,
        simulation_tables.counted(len(others(document)), "other"),
    ]


@pytest.mark.parametrize("which", ["made", "in_steps"])
def test_it_keeps_to_the_rules(which: str, request: pytest.FixtureRequest) -> None:
    """Pictures in words, tables with captions, nothing from outside, colours by name."""
    document, text, tree = request.getfixturevalue(which)
    assert check_pictures(tree) == 8
    assert check_tables(tree) == 6 + bool(document["ablation"])
    check_nothing_outside(text, tree)
    check_colours(text)
    assert len(text) < 1_500_000


def test_same_document_same_bytes(made: Made) -> None:
    """The page is made from the document and nothing else."""
    document, text, _ = made
    assert page(document) == text


def test_names_are_escaped(in_steps: Made) -> None:
    """What a file is called is text."""
    document, _, _ = in_steps
    named = {**document, "workload": {**document["workload"], "name": "<b>&amp;"}}
    assert "&lt;b&gt;&amp;amp;" in page(named)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1234.5, "time", "1,234"),
        (99.994, "time", "99.99"),
        (1.5, "time", "1.50"),
        (0.12345, "time", "0.1235"),
        (0.0001234, "time", "0.000123"),
        (0.0, "time", "0"),
        (0.256, "share", "25.6%"),
        (12345.0, "count", "12,345"),
        (7.0, "count", "7"),
        (7.5, "count", "7.5"),
        (0.0321, "rate", "0.0321"),
        (None, "time", ""),
    ],
)
def test_figures_as_a_person_reads_them(value: float | None, form: str, text: str) -> None:
    """Three digits or more, whatever the size."""
    assert simulation_tables.shown(value, form) == text


def test_a_choice_that_differs_between_seeds_is_said() -> None:
    """Once for the first, and for each seed with another policy or another engine's side."""
    same = {"policy": "svf-aged", "side": {"watermark": 0.0}, "carried_out": "future check"}
    other = {"policy": "svf-aged", "side": {"watermark": 0.03}, "carried_out": "watermark 3 %"}
    chosen = [
        {"seed": 4, "reason": "49 %"} | same,
        {"seed": 5, "reason": "48 %"} | same,
        {"seed": 6, "reason": "51 %"} | other,
    ]
    assert choice_words([]) == []
    assert choice_words(chosen) == [
        "chose svf-aged: 49 %",
        "on seed 6 svf-aged (watermark 3 %): 51 %",
    ]

"""The page of `sortedf prove`: its numbers, its pictures, and that it needs nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from page_tree import Tree, check_colours, check_nothing_outside, check_pictures, check_tables

from sortedf.model import Instance
from sortedf.proofs_check.curves import Curves
from sortedf.proofs_check.finding import Finding
from sortedf.report.claims import page, table

FINDINGS = [
    Finding("a <= 2", "paper <i>", 1234, 1.5, share=0.75, worst=Instance([1], [2], 9)),
    Finding("b = O(T)", "paper", 7, 3.0, share=0.2, refutable=False),
    Finding("c <= 1", "derived", 5, 1.25, (Instance([4, 5], [6, 7], 12),), share=1.25),
    Finding("d", "derived", 5, None),
    Finding("e <= 3", "derived", 5, 3.25, share=1.01, undecided=2, against="certified bound"),
]
CURVES = [
    Curves(
        "Growth",
        "Ratio of one thing to some other thing.",
        "M",
        {"x": ((4, 2), (16, 4), (64, 8)), "y": ((4, 1),)},
        True,
    ),
    Curves(
        "By alpha",
        "Ratios of one thing to another, by alpha.",
        "alpha",
        {"x": ((0.1, 1.5), (0.9, 2.5))},
    ),
]


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """Document of two parts."""
    parts = [
        {
            "title": title,
            "findings": [finding.to_dict() for finding in findings],
            "curves": [drawn.to_dict() for drawn in curves],
        }
        for title, findings, curves in (("One", FINDINGS, CURVES), ("Two", FINDINGS[3:4], []))
    ]
    return {
        "version": "0",
        "seed": 3,
        "claims": 6,
        "checked": 1256,
        "violated": 1,
        "parts": parts,
    }


def test_the_page_keeps_to_the_rules(made: dict[str, Any]) -> None:
    """Pictures are described, tables whole, nothing outside, colours by name, text escaped."""
    text = page(made)
    tree = Tree(text).root
    assert check_pictures(tree) == 2 * 3  # shares and two curves; the second part has none
    assert check_tables(tree) == 2
    check_nothing_outside(text, tree)
    check_colours(text)
    assert not tree.all("i")
    assert page(made) == text


def test_the_page_says_how_claims_stand(made: dict[str, Any]) -> None:
    """Each claim with its verdict, each violation with its lengths, each curve with its power."""
    tree = Tree(page(made)).root
    rows = [[cell.text for cell in row.children] for row in tree.all("tr")]
    assert ["a <= 2", "paper <i>", "optimum", "1,234", "1.5000", "75.0%", "yes"] in rows
    assert ["c <= 1", "derived", "optimum", "5", "1.2500", "125.0%", "NO: 1"] in rows
    assert ["d", "derived", "optimum", "5", "", "", "yes"] in rows
    assert [row[-1] for row in rows[1:6]] == ["yes", "measured", "NO: 1", "yes", "undecided on 2"]
    items = [item.text.strip() for item in tree.all("li")]
    assert "M = 12; (s, o) = (4, 6), (5, 7)" in items
    assert "x, exponent 0.50" in items
    assert "y" in items


def test_a_narrow_table_leaves_the_sources_out(made: dict[str, Any]) -> None:
    """On a narrow terminal the source goes, no number does."""
    rows = made["parts"][0]["findings"]
    headings = [[column.header for column in table(rows, "t", w).columns] for w in (160, 80)]
    assert "source" in headings[0]
    assert headings[1] == [heading for heading in headings[0] if heading != "source"]

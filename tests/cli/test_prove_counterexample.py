"""`sortedf prove counterexample`: table, JSON, picture; and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest
from running import document, run

from sortedf.proofs_check import growth
from sortedf.proofs_check.families import FAMILIES
from sortedf.proofs_check.growth import measure

COMMAND = ("prove", "counterexample")


def test_json_is_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows are those of the library, budgets ascending, each once."""
    said = document(capsys, *COMMAND, "--policy", "mcsf", "--kv-tokens", "256,64,256")
    assert said["kv_tokens"] == [64, 256]
    assert [row["family"] for row in said["rows"]] == ["large-first", "large-first-tied"]
    for row in said["rows"]:
        measured = measure("mcsf", FAMILIES[row["family"]], [64, 256])
        assert row.pop("as_derived") is True
        assert row == json.loads(json.dumps(measured.to_dict()))
    first, second = said["rows"][0]["points"]
    assert first["ratio"] >= 2.78
    assert second["ratio"] >= 5.56


def test_the_table_has_every_point(capsys: pytest.CaptureFixture[str]) -> None:
    """Policy, family, power, budgets and ratios, nothing cut."""
    code, out, err = run(capsys, *COMMAND, "--policy", "size", "--kv-tokens", "64,256")
    assert (code, err) == (0, "")
    for text in ("long-first-whole", "M^0.50", "14.283", "3.223", "by hand"):
        assert text in out
    assert "…" not in out


def test_good_schedules_can_be_improved(capsys: pytest.CaptureFixture[str]) -> None:
    """With --improve the ratio only rises."""
    arguments = (*COMMAND, "--policy", "size", "--kv-tokens", "64")
    plain = document(capsys, *arguments)["rows"]
    improved = document(capsys, *arguments, "--improve", "4")["rows"]
    for before, after in zip(plain, improved, strict=True):
        assert after["points"][0]["ratio"] >= before["points"][0]["ratio"]


def test_all_policies_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Every family with every policy of its own, as derived."""
    rows = document(capsys, *COMMAND, "--kv-tokens", "64,128")["rows"]
    assert [(row["policy"], row["family"]) for row in rows] == [
        (policy, family.name) for family in FAMILIES.values() for policy in family.policies
    ]
    assert all(row["as_derived"] for row in rows)


def test_a_ratio_below_what_is_derived(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown, and the program ends with 6."""
    given = FAMILIES["blocked-volumes"]
    false = replace(given, proven=lambda kv_tokens: Fraction(kv_tokens))
    monkeypatch.setitem(FAMILIES, given.name, false)
    code, out, err = run(capsys, *COMMAND, "--policy", "svf", "--kv-tokens", "64,256")
    assert code == 6
    assert "64.000" in out
    assert err.splitlines() == [
        f"svf / optimum grows like M^0.5 on blocked-volumes: not at M = {kv_tokens}"
        for kv_tokens in (64, 256)
    ]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_picture(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written whole, the same bytes again, with the names of all curves in an SVG."""
    files = [tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"]
    for path in files:
        code, _, err = run(capsys, *COMMAND, "--kv-tokens", "64,128", "-o", path)
        assert (code, err) == (0, f"picture written to {path}\n")
    data = files[0].read_bytes()
    assert data == files[1].read_bytes()
    if ending == "png":
        assert data.startswith(b"\x89PNG")
        return
    ElementTree.fromstring(data)
    text = data.decode()
    for family in FAMILIES.values():
        assert f"<!-- {family.name}," in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "longest"), "no family is known for 'longest'"),
        (("--kv-tokens", "64,many"), "--kv-tokens 64,many: 'many' is not understood"),
        (("--kv-tokens", "2M"), "1048576 at most"),
        (("--kv-tokens", "8"), "the family short-and-long begins at 64"),
        (("-o", "growth.pdf"), "it has to end in .svg or .png"),
    ],
)
def test_usage(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, exit code 2."""
    code, out, err = run(capsys, *COMMAND, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_picture_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is named before anything is measured; exit code 3."""
    monkeypatch.setattr(growth, "measure", None)
    path = tmp_path / "none" / "growth.svg"
    code, _, err = run(capsys, *COMMAND, "--policy", "svf", "--kv-tokens", "64", "-o", path)
    assert code == 3
    assert err.startswith(f"{path}: cannot be written")

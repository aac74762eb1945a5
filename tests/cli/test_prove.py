"""`sortedf prove` and `sortedf prove ratio`: tables, documents, pages, files of violations."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from running import document, run

import sortedf
from sortedf.proofs_check import claims, overview
from sortedf.proofs_check.claims import CLAIMS
from sortedf.proofs_check.guarantees import check_guarantees
from sortedf.proofs_check.optimum import know

FEW = ["prove", "ratio", "--instances", 40, "--larger", 2]


@pytest.fixture
def false_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that SVF is always optimal."""
    false = replace(CLAIMS["svf"], limit=lambda instance: Fraction(1))
    monkeypatch.setitem(claims.CLAIMS, "svf", false)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the overview look at few instances."""
    monkeypatch.setattr(overview, "INSTANCES", 40)
    monkeypatch.setattr(overview, "LARGER", 2)


def test_ratio_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Both show the same claims; nothing else is on stdout."""
    told = document(capsys, *FEW)
    assert told["holds"]
    assert (told["instances"], told["larger"], told["seed"], told["policy"]) == (40, 2, 0, "all")
    assert len(told["rows"]) == 2 * len(CLAIMS)
    code, out, err = run(capsys, *FEW, "-q")
    assert (code, err) == (0, "")
    for row in told["rows"]:
        assert row["claim"] in out
        assert f"{row['largest']:.4f}" in out
    assert "measured" in out


def test_one_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """A policy alone has its claim, on both kinds of instances; worst ones are told."""
    told = document(capsys, *FEW, "--policy", "exact-dp", "--seed", 3)
    assert [row["claim"] for row in told["rows"]] == ["Sorted-F <= 48"] * 2
    worst = told["rows"][0]["worst"]
    instance = sortedf.Instance(**worst)
    value = sortedf.solve(instance, solver="exact-dp", bound=False).total_latency
    assert value / know(instance).upper == told["rows"][0]["largest"]


@pytest.mark.usefixtures("false_claim")
def test_a_violation_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A false claim ends in exit code 6, a file an instance, and a line each that names it."""
    folder = tmp_path / "new" / "folder"
    arguments = [*FEW, "--policy", "svf", "-o", folder]
    code, out, err = run(capsys, *arguments, "--json")
    told = json.loads(out)
    assert (code, told["holds"]) == (6, False)
    row = told["rows"][0]
    assert (row["verdict"], row["violated"]) == ("violated", len(row["violations"]))
    files = sorted(folder.iterdir())
    assert len(files) == sum(row["violated"] for row in told["rows"])
    for file in files:
        kv_tokens = int(file.stem.rpartition("-M")[2])
        assert f"SVF <= 1 + 2 / (1 - alpha) does not hold: {file}, --kv-tokens {kv_tokens}" in err
        instance = sortedf.read_backlog(file, kv_tokens=kv_tokens)
        value = sortedf.solve(instance, solver="svf", bound=False).total_latency
        assert value > know(instance).upper
    code, out, _ = run(capsys, *arguments)
    assert code == 6
    assert "NO: " in out


@pytest.mark.usefixtures("false_claim")
def test_a_violation_is_on_the_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder the lines on stderr, and on the page of the overview the lengths."""
    page = tmp_path / "page.html"
    part = overview.PARTS[0]
    svf = overview.Part(
        part.title,
        lambda seed, watch: check_guarantees(
            instances=40, larger=0, seed=seed, claims=claims.find_claims("svf")
        ),
    )
    monkeypatch.setattr(overview, "PARTS", (svf,))
    code, out, err = run(capsys, "prove", "-o", page, "--json")
    told = json.loads(out)
    assert (code, told["holds"]) == (6, False)
    assert told["violated"] == told["parts"][0]["findings"][0]["violated"] > 0
    assert "does not hold: " in err
    first = told["parts"][0]["findings"][0]["violations"][0]
    pairs = zip(first["prompt_tokens"], first["output_tokens"], strict=True)
    assert ", ".join(map(str, pairs)) in page.read_text()


@pytest.mark.usefixtures("quick")
def test_the_overview(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Table, document and page of the same; same seed, same bytes; the page alone on stdout."""
    page = tmp_path / "page.html"
    told = document(capsys, "prove", "-o", page, "--seed", 2)
    assert told["schema"] == "sortedf.proofs/1"
    assert told["holds"]
    findings = [row for part in told["parts"] for row in part["findings"]]
    assert told["claims"] == len(findings)
    assert told["checked"] == sum(row["checked"] for row in findings)
    code, out, err = run(capsys, "prove", "--seed", 2)
    assert (code, err) == (0, "")
    assert all(row["claim"][:20] in out for row in findings)  # long ones are folded
    code, out, err = run(capsys, "prove", "--seed", 2, "-o", "-")
    assert (code, out, err) == (0, page.read_text(), "")


USAGE = [
    (["prove", "ratio", "--policy", "mcsf"], "no claim of 'mcsf'"),
    (["prove", "ratio", "--instances", "-1"], "--instances"),
    (["prove", "ratio", "--instances", "0", "--larger", "0"], "nothing to check"),
    (["prove", "ratio", "--seed", "x"], "--seed"),
    (["prove", "-o", "-", "--json"], "stdout"),
    (["prove", "--seed", "1", "ratio"], "options go after ratio"),
    (["prove", "nothing"], "nothing"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_usage_errors_of_prove(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """A wrong option is one line on stderr, nothing on stdout, and exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("false_claim")
def test_a_folder_that_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Where a file is in the way, one line says so before anything is checked."""
    (tmp_path / "file").write_text("")
    arguments = [*FEW, "--policy", "svf", "-o", tmp_path / "file" / "folder", "--json"]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (3, "")
    assert err == f"{tmp_path / 'file' / 'folder'}: cannot be made a folder: Not a directory\n"


def test_a_page_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so before anything is checked."""
    monkeypatch.setattr(overview, "check_all", None)
    code, out, err = run(capsys, "prove", "-o", tmp_path)
    assert (code, out, err) == (3, "", f"{tmp_path}: cannot be written: Is a directory\n")


def test_a_claim_that_speaks_of_no_instance(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not said to hold."""
    silent = replace(CLAIMS["svf"], limit=lambda instance: None)
    monkeypatch.setitem(claims.CLAIMS, "svf", silent)
    arguments = ("prove", "ratio", "--policy", "svf", "--instances", 3, "--larger", 0)
    assert document(capsys, *arguments)["rows"][0]["verdict"] == "unchecked"
    _, out, _ = run(capsys, *arguments)
    assert "not checked" in out

"""`sortedf prove worst-cases`: the packaged ones, folders, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import document, run

from sortedf.cli import console
from sortedf.proofs_check.families import FAMILIES
from sortedf.proofs_check.worst_case import check_case, hall_of_fame, worst_case, write_case


def test_the_packaged_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """Every folder of the hall of fame, with the bracket that the library finds."""
    rows = document(capsys, "prove", "worst-cases")["rows"]
    assert [Path(row["folder"]) for row in rows] == hall_of_fame()
    for row in rows:
        assert check_case(row["folder"]).to_dict().items() <= row.items()


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of what was given; a file that is not as it says ends it with 6, a missing one 3."""
    write_case(worst_case(FAMILIES["blocked-volumes"](9), "svf", steps=0), tmp_path)
    code, out, err = run(capsys, "prove", "worst-cases", tmp_path)
    assert (code, err) == (0, "")
    assert "ratio from" in out
    plan = (tmp_path / "best.json").read_text()
    (tmp_path / "best.json").write_text(plan.replace('"start":0', '"start":1'))
    code, out, err = run(capsys, "prove", "worst-cases", tmp_path)
    assert (code, out) == (6, "")
    assert "best.json" in err
    (tmp_path / "policy.json").unlink()
    code, out, err = run(capsys, "prove", "worst-cases", tmp_path)
    assert (code, out) == (3, "")
    assert "policy.json: no such file" in err


def test_policies_have_their_whole_names_on_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are folded first."""
    monkeypatch.setattr(console, "PIPED_WIDTH", 80)
    code, out, _ = run(capsys, "prove", "worst-cases")
    assert code == 0
    assert "quantile-greedy" in out
    assert "2.526" in out
    assert "…" not in out

"""The model in PuLP: its files are whole, legible and solved to the same value."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from brute_force import least_latency

from sortedf import Instance
from sortedf.errors import InfeasibleError, InputError, OptionError
from sortedf.lp.highs import LpStatus, solve_file
from sortedf.lp.pulp_model import pulp_model, write_model
from sortedf.lp.time_indexed import relax

TWO = Instance([5, 5], [3, 2], 9, release=[0, 1])


def test_rows_and_columns_by_hand() -> None:
    """Memory at step 2 holds what started at 0 with 7 tokens, at 1 with 6."""
    problem = pulp_model(TWO, 4)
    names = ("request_0", "request_1", "memory_1", "memory_2", "memory_4")
    found = {name: problem.get_constraint_by_name(name) for name in names}
    rows = {name: {v.name: a for v, a in row.items()} for name, row in found.items()}
    assert rows["request_0"] == {f"x_0_{p}": 1 for p in range(5)}
    assert rows["request_1"] == {f"x_1_{p}": 1 for p in range(1, 5)}
    assert rows["memory_1"] == {"x_0_0": 6}
    assert rows["memory_2"] == {"x_0_0": 7, "x_0_1": 6, "x_1_1": 6}
    assert rows["memory_4"] == {"x_0_1": 8, "x_0_2": 7, "x_0_3": 6, "x_1_2": 7, "x_1_3": 6}
    objective = {v.name: a for v, a in problem.objective.items()}
    assert objective == {
        **{f"x_0_{p}": p + 3 for p in range(5)},
        **{f"x_1_{p}": p + 1 for p in range(1, 5)},
    }


@pytest.mark.parametrize("name", ["model.lp", "model.mps", "model.lp.gz", "model.mps.gz"])
def test_files_are_solved_to_the_same_value(tmp_path: Path, name: str) -> None:
    """Every format, plain or packed, has the value of the arrays; the integer one the optimum."""
    write_model(TWO, tmp_path / name)
    assert solve_file(tmp_path / name).value == pytest.approx(relax(TWO, method="simplex").value)
    write_model(TWO, tmp_path / name, integer=True)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    found = solve_file(tmp_path / name)
    assert found.status == LpStatus.OPTIMAL
    assert found.value == pytest.approx(least_latency(TWO))


def test_file_is_legible_and_the_same_twice(tmp_path: Path) -> None:
    """The LP file names requests, steps and memory; the same instance gives the same bytes."""
    write_model(TWO, tmp_path / "a.lp", horizon=4)
    text = (tmp_path / "a.lp").read_text()
    assert "memory_2: 7 x_0_0 + 6 x_0_1 + 6 x_1_1 <= 9" in text
    write_model(TWO, tmp_path / "b.lp.gz", horizon=4)
    assert gzip.decompress((tmp_path / "b.lp.gz").read_bytes()).decode() == text


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Another ending, a folder that is not there, a horizon of 0 and large requests are named."""
    with pytest.raises(OptionError, match=r"ends in \.lp or \.mps"):
        write_model(TWO, tmp_path / "model.txt")
    with pytest.raises(InputError, match="cannot be written"):
        write_model(TWO, tmp_path / "nowhere" / "model.lp")
    with pytest.raises(OptionError, match="horizon is step 0"):
        write_model(TWO, tmp_path / "model.lp", horizon=0)
    with pytest.raises(InfeasibleError, match="'1'"):
        write_model(Instance([1, 9], [1, 9], 10), tmp_path / "model.lp")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """A file that HiGHS cannot read is an input error that names it."""
    (tmp_path / "bad.lp").write_text("not a model at all\n")
    for name in ("bad.lp", "absent.lp"):
        with pytest.raises(InputError, match=f"{name}: HiGHS cannot read it"):
            solve_file(tmp_path / name)

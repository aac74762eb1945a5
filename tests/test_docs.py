"""What the documentation shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import sortedf

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_examples_of_a_page(page: Path) -> None:
    """Every example at a Python prompt gives what the page says."""
    failed, _ = doctest.testfile(str(page), module_relative=False)
    assert failed == 0


def test_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python example of the README runs as it stands."""
    monkeypatch.chdir(tmp_path)
    sortedf.write_backlog(sortedf.example(), "backlog.csv")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "plan.json").exists()


def test_readme_table_is_what_compare_finds() -> None:
    """The table in the README holds the total latencies that the orders reach today."""
    text = (ROOT / "README.md").read_text()
    backlog = sortedf.example()
    for name in ("fcfs", "mcsf", "size", "svf", "svf-1bit", "longest", "random"):
        total = sortedf.solve(backlog, solver=name, bound=False).total_latency
        assert re.search(rf"^  {name} .* {total:,} ", text, re.MULTILINE), name

"""Requests that arrive while the real engine runs, under each policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_engine import SECTIONS, drawn, figures, live_engine, out_of_order
from real_engine import interpreter

pytestmark = pytest.mark.vllm

N = 60
RATE = 150.0
"""Requests a second: more than any engine does of which this is all the cache."""


def test_admissions_follow_the_policy(tmp_path: Path) -> None:
    """Memory is tight; all complete; each admission is of the first of those that wait.

    The figures of a larger form: bench/online_engine.py.
    """
    with live_engine(interpreter(), tmp_path / "errors") as engine:
        work = drawn(N, RATE, 2)
        orders = {}
        for name, section in SECTIONS.items():
            (answer,) = engine.serve(section, work)
            assert all(answer["done"])
            assert out_of_order(section, work, answer) == [], name
            admitted = [row[0] for rows, *_ in answer["calls"] for row in rows if row[2] == 1]
            assert sorted(admitted) == list(range(N))
            orders[name] = admitted
            print(name, figures(work, answer))
        assert orders["fcfs"] == sorted(orders["fcfs"])
        assert all(orders[name] != orders["fcfs"] for name in SECTIONS if name != "fcfs")

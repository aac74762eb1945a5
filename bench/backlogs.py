"""The named backlogs of the benchmarks, and what is known of them.

They lie in a folder: CSV files, and `known.csv` (instance, kv_tokens, best_total_latency,
lower_bound). Where there is no such folder, each is drawn anew by its name, FAMILY-N-sSEED: then
nothing is known of it.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import NamedTuple

import sortedf
from sortedf import Instance

FOLDER = Path(__file__).parents[2] / "shared" / "instances"

NAMED = (
    ("mix8020-50-s0", 16_492),
    ("mix8020-200-s0", 16_492),
    ("mix8020-500-s0", 16_492),
    ("mix8020-2000-s0", 16_492),
    ("mix8020-2000-s0", 100_000),
    ("mix8020-10000-s0", 16_492),
    ("azure-1000-s0", 100_000),
    ("azure-5000-s0", 100_000),
)
KINDS = {"mix8020": "mix", "azure": "heavy-tail"}
"""Kinds of generated backlogs by family, for those that are drawn."""


class Known(NamedTuple):
    """A backlog with its budget; least total latency and highest lower bound that are known."""

    name: str
    kv_tokens: int
    best: float = float("inf")
    bound: float = 0.0


def known(folder: Path | None) -> list[Known]:
    """List the backlogs of a folder, or those that can be drawn."""
    if folder is None:
        return [Known(name, kv_tokens) for name, kv_tokens in NAMED]
    with (folder / "known.csv").open() as file:
        return [
            Known(
                row["instance"],
                int(row["kv_tokens"]),
                int(row["best_total_latency"]),
                int(row["lower_bound"]),
            )
            for row in csv.DictReader(file)
        ]


def load(folder: Path | None, name: str, kv_tokens: int) -> Instance:
    """Read a backlog from its folder, or draw it."""
    if folder is not None:
        return sortedf.read_backlog(folder / f"{name}.csv", kv_tokens=kv_tokens)
    family, n, seed = name.split("-")
    return sortedf.generate(KINDS[family], int(n), seed=int(seed[1:]), kv_tokens=kv_tokens)


def folder_or_none(given: Path | None) -> Path | None:
    """Take the folder given, else the one beside the repository; say so if there is none."""
    folder = FOLDER if given is None else given
    if given is not None or folder.is_dir():
        return folder
    print("no folder of backlogs: drawing them by name", file=sys.stderr)
    return None

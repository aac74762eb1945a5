"""Lower bounds of long runs, kept beside this file with their certificates.

    python bench/long_bounds.py [FOLDER] [--only NAME] [--seconds 300] [--check]

Up to 1,000 different requests: cutting planes, the value of the linear program. More: the ascent
without a sample, on up to 2,000 linear pieces, with as many steps as take that many seconds of a
quiet core. The backlogs are those of `bench/backlogs.py`, from FOLDER, and 10 and 100 copies of the
largest mix. What is better than the file in `bench/bounds` replaces it. `--check` recomputes the
files with the checker, in Python's integers, and writes nothing; the exit code is 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np
from backlogs import folder_or_none, known, load

import sortedf
import sortedf.lp.ascent
from sortedf import Instance
from sortedf.certificate import check
from sortedf.instances import new_certificate, read_certificate, write_certificate
from sortedf.lp import Bound, ascend, relax_by_planes
from sortedf.lp.distinct import distinct
from sortedf.solvers import MaxSeconds

BOUNDS = Path(__file__).parent / "bounds"
LARGEST = "mix8020-10000-s0"
PLANES_UP_TO = 1000
PIECES_BY_GROUPS = 20_000_000


def backlogs(folder: Path | None) -> Iterator[tuple[str, Instance]]:
    """Every backlog by name, and the copies of the largest mix at both budgets."""
    for name, kv_tokens, *_ in known(folder):
        yield name, load(folder, name, kv_tokens)
    base = load(folder, LARGEST, 16_492)
    for copies in (10, 100):
        lengths = np.tile(base.prompt_tokens, copies), np.tile(base.output_tokens, copies)
        for kv_tokens in (16_492, 100_000):
            yield f"{LARGEST}-x{copies}", Instance(*lengths, kv_tokens)


def file_of(name: str, instance: Instance) -> Path:
    """Where the certificate of a backlog is kept."""
    return BOUNDS / f"{name}-{instance.kv_tokens}.json.gz"


def kept(name: str, instance: Instance) -> Fraction:
    """Return the bound that a file records for this very backlog, 0 if there is none."""
    path = file_of(name, instance)
    if not path.exists():
        return Fraction(0)
    certificate = read_certificate(path)
    same = certificate["instance_sha256"] == instance.sha256
    return Fraction(certificate["bound"]) if same else Fraction(0)


def long_bound(instance: Instance, seconds: float) -> Bound:
    """Search for that long."""
    count = len(distinct(instance).weight)
    if count <= PLANES_UP_TO:
        raised = relax_by_planes(instance, stop=MaxSeconds(seconds))
        return Bound(raised.bound, "planes", raised.prices)
    module = sortedf.lp.ascent
    module.SAMPLE = count
    module.FINE_PIECES = 2000
    module.FINE_PIECES_BY_GROUPS = PIECES_BY_GROUPS
    module.FINE_WORK = int(seconds * 150_000_000)
    module.FINE_ITERATIONS = (100, 20_000)
    prices, value = ascend(instance)
    return Bound(value, "prices", prices)


def checked(name: str, instance: Instance) -> bool:
    """Have a file recomputed, and say how long that took."""
    certificate = read_certificate(file_of(name, instance))
    columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
    s, o, a = (column.tolist() for column in columns)
    begin = time.process_time()
    report = check(s, o, a, certificate, kv_tokens=instance.kv_tokens, ids=instance.ids)
    seconds = time.process_time() - begin
    verdict = "holds" if report.ok else f"FAILS: {report.violations[0]}"
    value = ceil(Fraction(certificate["bound"]))
    print(f"{name} {instance.kv_tokens}: {value:,} {verdict}, {seconds:.1f} s", flush=True)
    return report.ok


def main() -> None:
    """Search and keep, or check what is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    fine = True
    for name, instance in backlogs(folder_or_none(options.folder)):
        if options.only not in name:
            continue
        before = kept(name, instance)
        if options.check:
            fine &= before > 0 and checked(name, instance)
            continue
        begin = time.process_time()
        bound = long_bound(instance, options.seconds)
        seconds = time.process_time() - begin
        print(
            f"{name} {instance.kv_tokens}: {float(bound.value):,.3f} by {bound.kind}, "
            f"{seconds:.0f} s{'' if bound.value > before else ', not above what is kept'}",
            flush=True,
        )
        if bound.value > before:
            BOUNDS.mkdir(exist_ok=True)
            write_certificate(new_certificate(instance, bound), file_of(name, instance))
    sys.exit(0 if fine else "a certificate is missing or does not hold")


if __name__ == "__main__":
    main()

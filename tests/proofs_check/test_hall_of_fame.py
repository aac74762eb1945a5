"""The packaged worst cases, verified anew by the standard library alone; files that are wrong."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from naive_policies import KEYS, total_latency

from sortedf import InputError, VerificationError, certificate, verify
from sortedf.proofs_check.families import FAMILIES, families_of
from sortedf.proofs_check.growth import measure
from sortedf.proofs_check.worst_case import check_case, hall_of_fame, worst_case, write_case

FOLDERS = hall_of_fame()
POLICIES = {
    "exact-dp",
    "fcfs",
    "local-swap",
    "mcsf",
    "quantile-greedy",
    "size",
    "svf",
    "svf-1bit",
}


def named(folder: Path) -> str:
    return folder.name


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_every_policy_has_an_entry() -> None:
    """One folder a policy, four files each, small in all."""
    assert {folder.name.rsplit("-", 1)[0] for folder in FOLDERS} == POLICIES
    files = [path for folder in FOLDERS for path in folder.iterdir()]
    assert {path.name for path in files} == {
        "backlog.csv",
        "policy.json",
        "best.json",
        "certificate.json",
    }
    assert sum(path.stat().st_size for path in files) < 200_000


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_an_entry_holds(folder: Path) -> None:
    """Both plans by the verifier, the bound by the certificate checker, read by csv and json."""
    with (folder / "backlog.csv").open() as file:
        rows = list(csv.DictReader(file))
    s = [int(row["prompt_tokens"]) for row in rows]
    o = [int(row["output_tokens"]) for row in rows]
    plans = {name: read(folder, f"{name}.json") for name in ("policy", "best")}
    kv_tokens = int(folder.name.rsplit("-", 1)[1])
    latencies = {}
    for name, plan in plans.items():
        assert plan["kv_tokens"] == kv_tokens
        starts = [row["start"] for row in plan["requests"]]
        places = [row["index"] for row in plan["requests"]]
        assert [(row["prompt_tokens"], row["output_tokens"]) for row in plan["requests"]] == [
            (s[i], o[i]) for i in places
        ]
        report = verify.verify(
            s, o, None, kv_tokens, starts, requests=places, total_latency=plan["total_latency"]
        )
        assert report.ok, report.violations
        assert report.total_latency is not None
        latencies[name] = report.total_latency
    proof = certificate.check(
        s,
        o,
        None,
        read(folder, "certificate.json"),
        kv_tokens=kv_tokens,
        ids=[row["id"] for row in rows],
    )
    assert proof.ok, proof.violations
    assert proof.bound is not None
    policy = plans["policy"]["solver"]
    assert folder.name == f"{policy}-{kv_tokens}"
    if policy in KEYS:
        pairs = list(zip(s, o, strict=True))
        assert total_latency(policy, pairs, kv_tokens) == latencies["policy"]
    bracket = check_case(folder)
    assert bracket.at_least == Fraction(latencies["policy"], latencies["best"])
    assert bracket.at_most == Fraction(latencies["policy"], ceil(proof.bound))
    assert 1 < bracket.at_least <= bracket.at_most


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_the_search_does_not_stay_below_the_families(folder: Path) -> None:
    """At its budget, an entry is at least as bad as every family given; some beat all of them."""
    policy, kv_tokens = folder.name.rsplit("-", 1)
    at_least = check_case(folder).at_least
    if policy == "svf-1bit":  # no family is known for it
        assert at_least > 5
        return
    for family in families_of(policy):
        if "given" in family.source:
            (point,) = measure(policy, family, [int(kv_tokens)]).points
            assert at_least >= point.ratio


def test_guarantees_hold_on_the_hall_of_fame() -> None:
    """Sorted-F: at most 48 times the bound; SVF: at most 1 + 2 / (1 - alpha), where it says so."""
    for folder in FOLDERS:
        bracket = check_case(folder)
        instance = bracket.instance
        largest = int((instance.prompt_tokens + instance.output_tokens).max())
        if bracket.policy == "exact-dp":
            assert bracket.at_most <= 48
        if bracket.policy == "svf" and largest < instance.kv_tokens:
            slack = Fraction(instance.kv_tokens, instance.kv_tokens - largest)
            assert bracket.at_least <= 1 + 2 * slack


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """Write a small case of a family."""
    folder = tmp_path / "case"
    write_case(worst_case(FAMILIES["blocked-volumes"](9), "svf", steps=2), folder)
    check_case(folder)
    return folder


def test_a_case_is_written_the_same_again(case: Path, tmp_path: Path) -> None:
    """Same instance, same iterations: byte for byte the same files."""
    again = tmp_path / "again"
    write_case(worst_case(FAMILIES["blocked-volumes"](9), "svf", steps=2), again)
    for path in case.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_without_a_search_it_is_bracketed_too() -> None:
    """With no steps the best simple order and the first prices do."""
    bracket = worst_case(FAMILIES["blocked-volumes"](9), "svf", steps=0).bracket()
    assert 1 < bracket.at_least <= bracket.at_most


def test_a_plan_of_another_policy_is_refused(case: Path) -> None:
    """The better plan in the place of the policy's, under the policy's name."""
    plan = read(case, "best.json")
    (case / "policy.json").write_text(json.dumps(plan | {"solver": "svf"}))
    with pytest.raises(VerificationError, match="svf has a total latency of"):
        check_case(case)


def test_an_infeasible_plan_is_refused(case: Path) -> None:
    """All requests at once."""
    plan = read(case, "best.json")
    for row in plan["requests"]:
        row["start"] = 0
    (case / "best.json").write_text(json.dumps(plan))
    with pytest.raises(VerificationError, match=r"best\.json"):
        check_case(case)


def test_a_plan_for_more_memory_is_refused(case: Path) -> None:
    """The better plan made for another budget."""
    plan = read(case, "best.json")
    (case / "best.json").write_text(json.dumps(plan | {"kv_tokens": plan["kv_tokens"] + 1}))
    with pytest.raises(VerificationError, match="KV budget of 10, not 9"):
        check_case(case)


def test_a_raised_bound_is_refused(case: Path) -> None:
    """A certificate that records more than its prices prove."""
    document = read(case, "certificate.json")
    top, bottom = map(int, document["bound"].split("/"))
    raised = document | {"bound": f"{top + bottom}/{bottom}"}
    (case / "certificate.json").write_text(json.dumps(raised))
    with pytest.raises(VerificationError, match=r"certificate.json: the bound is recorded"):
        check_case(case)


def test_another_backlog_is_refused(case: Path) -> None:
    """One request less: no plan and no bound is for that."""
    lines = (case / "backlog.csv").read_text().splitlines(keepends=True)
    (case / "backlog.csv").write_text("".join(lines[:-1]))
    with pytest.raises(VerificationError, match=r"policy\.json"):
        check_case(case)


def test_a_missing_file_is_named(case: Path) -> None:
    """As for every input: the file, and what is wrong with it."""
    (case / "certificate.json").unlink()
    with pytest.raises(InputError, match=r"certificate.json: no such file"):
        check_case(case)


def test_a_folder_that_cannot_be_made(case: Path) -> None:
    """A file in its place."""
    made = worst_case(FAMILIES["blocked-volumes"](9), "svf", steps=0)
    with pytest.raises(InputError, match="cannot be made"):
        write_case(made, case / "backlog.csv")

"""`sortedf simulate` from the command line: what is printed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from running import document, program, run

from sortedf import read_backlog
from sortedf.engine import EngineSettings, published, replay
from sortedf.instances.traits import history_of, traits_of
from sortedf.serving.arrivals import poisson
from sortedf.serving.front import simulate
from sortedf.serving.knowledge import noisy
from sortedf.serving.metrics import figures
from sortedf.serving.predictor import learn
from sortedf.serving.side_by_side import SideBySide, with_unit
from sortedf.serving.workloads import Workload, drawn, of_trace, saturated_rate

DRAWN = ("simulate", "--poisson", "9", "--requests", "150")

TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.5000000,374,44
2023-11-16 18:15:47.2500000,30,109
2023-11-16 18:15:46.0000000,879,55
2023-11-16 18:15:47.0000000,91,16
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_what_is_printed_is_what_the_library_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row of the JSON document has the figures that one gets in Python, seed by seed."""
    options = ("--policy", "fcfs,srpt:eviction=swap", "--seeds", "2", "--known", "noisy:0.5")
    found = document(capsys, *DRAWN, *options, "--kv-tokens", "8k", "--max-num-seqs", "32")
    assert found["schema"] == "sortedf.simulation/1"
    assert found["seeds"] == [0, 1]
    assert found["complete"]
    assert found["settings"]["max_num_seqs"] == 32
    engine = EngineSettings.for_budget(8000, max_num_seqs=32)
    model = published()[found["steptime_file"]]
    for row, (name, side) in zip(
        found["rows"], [("fcfs", {}), ("srpt", {"eviction": "swap"})], strict=True
    ):
        for seed in (0, 1):
            workload = drawn("mix", 150, 9.0, kv_tokens=8000, seed=seed)
            longest = int(workload.instance.output_tokens.max())
            known = noisy(workload.instance, 0.5, longest=longest, seed=seed)
            served = simulate(workload, name, engine, model, known=known, **side)
            for figure, value in figures(served).items():
                assert row["by_seed"][seed][with_unit(figure, "seconds")] == value
            assert row["carried_out"] == str(served.side)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Best mean first, and the engine's side of each below; progress is not on stdout."""
    options = ("--policy", "fcfs,svf,uniboost-dist,uniboost", "--watermark", "0.02")
    code, out, err = run(capsys, *DRAWN, *options, "--kv-tokens", "6000")
    assert code == 0
    assert "step times of qwen3-8b-h100" in err
    found = document(capsys, *DRAWN, *options, "--kv-tokens", "6000")
    means = {row["policy"]: row["figures"]["mean_ttlt_seconds"] for row in found["rows"]}
    places = [out.index(f"  {name} ") for name in sorted(means, key=means.__getitem__)]
    assert places == sorted(places)
    assert out.count("watermark 2 %") == 4
    assert "UniBoost step by step" in out
    assert [step["step"] for step in found["ablation"]] == ["uniboost-dist", "uniboost"]


def test_a_trace_with_its_own_stamps(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    """Requests come in the order of their stamps; at another rate with the same pattern."""
    on_trace = ("simulate", trace, "--kv-tokens", "2000", "--policy", "fcfs", "-q")
    found = document(capsys, *on_trace)
    assert found["workload"]["n"] == 4
    assert found["workload"]["span_seconds"] == 1.25
    assert not found["drawn"]
    workload = of_trace(trace, kv_tokens=2000)
    assert workload.instance.prompt_tokens.tolist() == [879, 374, 91, 30]
    engine = EngineSettings.for_budget(2000)
    alone = figures(simulate(workload, "fcfs", engine, published()["qwen3-8b-h100"]))
    assert found["rows"][0]["figures"]["mean_ttlt_seconds"] == alone["mean_ttlt"]
    faster = document(capsys, *on_trace, "--rate", "30", "--requests", "3")
    assert faster["workload"]["n"] == 3
    assert faster["workload"]["requests_per_second"] == pytest.approx(30)
    by_stdin = program(*map(str, ("simulate", "-", *on_trace[2:], "--json")), input=TRACE)
    assert by_stdin.returncode == 0
    printed = json.loads(by_stdin.stdout)
    assert printed["rows"] == found["rows"]
    assert (found["workload"]["name"], printed["workload"]["name"]) == ("trace", "standard input")


def test_releases_are_arrivals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a backlog in sortedf's own words: steps in steps, and as many seconds on the engine."""
    path = tmp_path / "backlog.csv"
    path.write_text("prompt_tokens,output_tokens,release\n10,5,7\n20,5,0\n8,9,3\n")
    on_backlog = ("simulate", path, "--kv-tokens", "40", "--policy", "svf")
    found = document(capsys, *on_backlog, "--engine", "steps")
    workload = of_trace(path, kv_tokens=40)
    np.testing.assert_array_equal(workload.arrivals, [0, 3, 7])
    alone = figures(simulate(workload, "svf", engine="steps"))
    assert found["rows"][0]["figures"]["p50_ttlt_steps"] == alone["p50_ttlt"]
    assert document(capsys, *on_backlog)["workload"]["span_seconds"] == 7


def test_a_backlog_without_stamps_arrives_as_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its lengths, drawn times; without a process there is nothing to go by."""
    path = tmp_path / "backlog.csv"
    path.write_text("prompt_tokens,output_tokens\n10,5\n20,5\n8,9\n")
    on_backlog = ("simulate", path, "--kv-tokens", "64", "--policy", "fcfs")
    found = document(capsys, *on_backlog, "--poisson", "3", "--seeds", "2")
    assert found["workload"]["n"] == 3
    code, out, err = run(capsys, *on_backlog)
    assert (code, out) == (2, "")
    assert "no time stamps" in err


def test_a_load(capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the load, twice the rate, and more waiting; bursts and shifts are heard."""
    light, heavy, bursty, shifted = (
        document(capsys, "simulate", "--requests", "400", "--policy", "fcfs", "--load", *options)
        for options in (
            ("0.6",),
            ("1.2",),
            ("0.6", "--arrivals", "bursty", "--burst-ratio", "30", "--burst-seconds", "9"),
            ("0.6", "--shift", "4"),
        )
    )
    asked = [found["workload"]["asked_requests_per_second"] for found in (light, heavy)]
    assert asked[1] == pytest.approx(2 * asked[0])
    waits = [
        found["rows"][0]["figures"]["longest_wait_seconds"]
        for found in (light, heavy, bursty, shifted)
    ]
    assert min(waits[1:]) > 2 * waits[0]


def test_all_but_what_needs_to_know_more(capsys: pytest.CaptureFixture[str]) -> None:
    """`all` leaves out who cannot be served, with a note; named, it is refused."""
    code, out, err = run(capsys, *DRAWN, "--known", "nothing")
    assert code == 0
    assert "left out: sjf, mcsf, svf" in err
    assert "left out: a-min, a-max: the policy needs bounds" in err
    assert "uniboost-guard" in out
    code, out, err = run(capsys, *DRAWN, "--known", "nothing", "--policy", "fcfs,svf", "-q")
    assert (code, out) == (2, "")
    assert err.startswith("svf: the policy needs predicted outputs")
    # In steps an admission looks at what is predicted, whoever is admitted.
    steps = ("--engine", "steps", "--known", "nothing", "--policy", "fcfs", "-q")
    assert run(capsys, *DRAWN, *steps)[0] == 2


def test_who_never_ends_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A row without figures, in the table, in JSON and on the page; the others are served."""
    options = ("--arrivals", "at-once", "--requests", "30", "--kv-tokens", "600", "--policy")
    page = tmp_path / "page.html"
    arguments = ("simulate", *options, "las:eviction=restart,fcfs", "-o", page)
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "never ends" in out
    assert "las:eviction=restart: the engine never ends" in err
    assert ">never ends</td>" in page.read_text()
    found = document(capsys, *arguments)
    assert found["rows"][0]["error"] is not None
    assert "figures" in found["rows"][1]


def test_ctrl_c_shows_what_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 130, the rows so far, and a word that they are not all."""
    serve = SideBySide.serve

    def interrupted(self: SideBySide, named: object) -> object:
        if getattr(named, "text", "") == "svf":
            raise KeyboardInterrupt
        return serve(self, named)  # type: ignore[arg-type]

    monkeypatch.setattr(SideBySide, "serve", interrupted)
    code, out, err = run(capsys, *DRAWN, "--policy", "fcfs,svf,sjf", "--json")
    assert code == 130
    assert "1 of 3 policies" in err
    found = json.loads(out)
    assert not found["complete"]
    assert [row["policy"] for row in found["rows"]] == ["fcfs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--poisson RATE or --load L"),
        (("--poisson", "0"), "rate is 0.0"),
        (("--poisson", "5", "--policy", "uniboots"), "did you mean 'uniboost'"),
        (("--poisson", "5", "--policy", "srpt:evict=swap"), "srpt has no evict"),
        (("--poisson", "5", "--rate", "3"), "leave --arrivals and --rate out"),
        (("--poisson", "5", "--load", "1"), "leave one out"),
        (("--poisson", "5", "--known", "some"), "exact, one-bit, nothing"),
        (("--poisson", "5", "--kind", "chats"), "mix, reasoning, pareto"),
        (("--poisson", "5", "--policy", "fcfs", "--victim", "first"), "tail, worst, least"),
        (("--poisson", "5", "--engine", "steps", "--max-num-seqs", "5"), "max_num_seqs"),
        (("--poisson", "5", "--engine", "steps", "--watermark", "0.1"), "watermark"),
        (("--poisson", "5", "--num-gpu-blocks", "9", "--kv-tokens", "99"), "leave one out"),
        (("--poisson", "5", "--kv-tokens", "4"), "holds no block"),
        (("--poisson", "5", "--skip-oversized"), "are of a TRACE"),
        (("--arrivals", "own"), "name a TRACE"),
        (("--load", "1", "--requests", "5"), "too few requests"),
        (("missing.csv",), "--kv-tokens is missing"),
        (("missing.csv", "--kv-tokens", "99", "--policy", "svff"), "did you mean 'svf'"),
        (("missing.csv", "--kv-tokens", "99", "--kind", "mix"), "TRACE brings its own"),
        (("missing.csv", "--kv-tokens", "99", "--seeds", "3"), "nothing is drawn"),
        (("--poisson", "5", "-o", "-", "--json"), "both want stdout"),
        (("-", "--kv-tokens", "99", "--steptime", "-"), "both be stdin"),
        (("--poisson", "5", "--policy", "fcfs:swap_seconds=1"), "without eviction swap"),
        (("--poisson", "5", "--policy", "svf,fcfs:hysteresis=1"), "may evict"),
        (("--poisson", "5", "--policy", "sjf:lookahead=3"), "without the future check"),
        (("--poisson", "5", "--policy", "fcfs,srpt", "--swap-seconds", "1"), "without eviction"),
        (("--poisson", "5", "--policy", "fcfs", "--lookahead", "3"), "without the future check"),
    ],
)
def test_usage(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """What does not go together is refused before any work, in one line."""
    code, out, err = run(capsys, "simulate", *arguments, "-q")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_bad_input(capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path) -> None:
    """Lines of a trace by file and line; requests over the budget by name; the trace is kept."""
    on_trace = ("simulate", trace, "--policy", "fcfs", "-q", "--kv-tokens")
    code, out, err = run(capsys, *on_trace, "500")
    assert (code, out) == (4, "")
    assert "needs 934 tokens" in err
    found = document(capsys, *on_trace, "500", "--skip-oversized")
    assert found["workload"]["n"] == 3
    assert run(capsys, *on_trace, "2000", "-o", trace)[0] == 2
    assert run(capsys, *on_trace, "2000", "-o", tmp_path / "no" / "page.html")[0] == 3
    trace.write_text(TRACE + "yesterday,1,2\n")
    code, out, err = run(capsys, *on_trace, "2000")
    assert (code, out) == (3, "")
    assert f"{trace}:6: TIMESTAMP is 'yesterday'" in err
    assert document(capsys, *on_trace, "2000", "--skip-bad-lines")["workload"]["n"] == 4
    code, out, err = run(
        capsys, "simulate", "--poisson", "5", "--kv-tokens", "99", "--kind", "reasoning", "-q"
    )
    assert (code, out) == (4, "")
    assert "--skip-oversized" not in err


def test_the_same_requests_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    """A policy's row does not depend on who else is served."""
    together = document(capsys, *DRAWN, "--policy", "sjf,uniboost,srpt", "--kv-tokens", "6000")
    for row in together["rows"]:
        alone = document(capsys, *DRAWN, "--policy", row["policy"], "--kv-tokens", "6000")
        assert alone["rows"] == [row]


def test_oversized_are_left_out_of_the_times(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    """Those that stay keep their own stamps."""
    found = document(
        capsys, "simulate", trace, "--kv-tokens", "500", "--skip-oversized", "--policy", "fcfs"
    )
    kept = of_trace(trace, kv_tokens=2000)
    instance = kept.instance.select(np.arange(1, 4)).replace(kv_tokens=496)
    workload = Workload(instance, kept.arrivals[1:])
    engine = EngineSettings.for_budget(500)
    alone = figures(simulate(workload, "fcfs", engine, published()["qwen3-8b-h100"]))
    assert found["rows"][0]["figures"]["mean_ttft_seconds"] == alone["mean_ttft"]


def test_the_azure_trace(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    """All 19,366 requests with their stamps: first come is the engine's own policy."""
    path = shared / "traces" / "azure_2023_conversation.csv"
    found = document(
        capsys, "simulate", path, "--kv-tokens", "60k", "--policy", "fcfs,svf", "--load", "0.9"
    )
    fcfs, svf = (row["figures"] for row in found["rows"])
    assert found["workload"]["n"] == 19_366
    engine = EngineSettings.for_budget(60_000)
    model = published()["qwen3-8b-h100"]
    workload = of_trace(path, kv_tokens=60_000)
    rate = 0.9 * saturated_rate(workload.instance, engine, model)
    workload = of_trace(path, rate, kv_tokens=60_000)
    replayed = replay(workload.instance, engine, model, arrivals=workload.arrivals)
    assert fcfs["mean_ttlt_seconds"] == pytest.approx(replayed.latency.mean())
    assert fcfs["preemptions"] == replayed.preemptions.sum()
    assert svf["mean_ttlt_seconds"] < 0.7 * fcfs["mean_ttlt_seconds"]


@pytest.mark.parametrize("engine", ["replay", "steps"])
@pytest.mark.parametrize("known", ["exact", "noisy:0.7", "interval:1", "one-bit", "nothing"])
def test_what_auto_chose_is_said(
    capsys: pytest.CaptureFixture[str], engine: str, known: str
) -> None:
    """On each seed, with its reason; what it chose by name serves alike."""
    asked = (*DRAWN, "--engine", engine, "--known", known, "--seeds", "2", "-q")
    found = document(capsys, *asked, "--policy", "auto")["rows"][0]
    assert [one["seed"] for one in found["chosen"]] == [0, 1]
    first = found["chosen"][0]
    assert found["parameters"] == first["parameters"]
    options = "".join(f":{name}={value}" for name, value in first["parameters"].items())
    if engine == "replay":
        side = first["side"]
        options += f":watermark={side['watermark']}:future={'yes' if side['future'] else 'no'}"
    options += f":lookahead={first['side']['lookahead']}"
    by_name = document(capsys, *asked, "--policy", first["policy"] + options)["rows"][0]
    assert by_name["chosen"] is None
    assert by_name["by_seed"] == found["by_seed"]
    _, out, _ = run(capsys, *asked, "--policy", "auto")
    words = " ".join(out.split())
    assert f"chose {first['policy']}: {first['reason']}" in words


def test_lengths_learnt_from_a_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Real outputs are served on what a predictor says of prompts; the library finds the same."""
    history, trace = tmp_path / "history.csv", tmp_path / "next.csv"
    rng = np.random.default_rng(4)
    for path, n in ((history, 200), (trace, 60)):
        prompts = rng.integers(1, 100, n)
        outputs = np.where(prompts > 50, 300, 20) + rng.integers(0, 9, n)
        rows = [f"{s},{o},m\n" for s, o in zip(prompts, outputs, strict=True)]
        path.write_text("prompt_tokens,output_tokens,model\n" + "".join(rows))
    asked = ("simulate", trace, "--kv-tokens", "2000", "--poisson", "20")
    learnt = ("--known", f"learned:{history}")
    found = document(capsys, *asked, "--policy", "sjf,auto", *learnt)
    past = read_backlog(history, kv_tokens=2000)
    instance = read_backlog(trace, kv_tokens=2000)
    known = learn(history_of(past)).predict(traits_of(instance)).known(instance)
    workload = Workload(instance, poisson(60, 20.0, seed=10**6))
    engine = EngineSettings.for_budget(2000)
    served = figures(simulate(workload, "sjf", engine, published()["qwen3-8b-h100"], known=known))
    assert found["rows"][0]["figures"]["mean_ttlt_seconds"] == served["mean_ttlt"]
    assert "by what is known" in found["rows"][1]["chosen"][0]["reason"]
    exactly = document(capsys, *asked, "--policy", "sjf")["rows"][0]["figures"]
    assert found["rows"][0]["figures"] != exactly
    code, out, err = run(capsys, *asked, *learnt, "--engine", "steps", "-q", "--policy", "all")
    assert (code, "a-max" in out) == (0, True)
    assert "a-min" not in out
    code, _, err = run(capsys, *asked, *learnt, "--engine", "steps", "--policy", "a-min")
    assert code == 2
    assert "learnt bounds are broken" in err
    for text, code, why in (
        ("learned:-", 2, "both be stdin"),
        (f"learned:{trace}", 2, "is what is to be served"),
        ("learned", 2, "learned:HISTORY"),
        ("learned:", 2, "learned:HISTORY"),
        (f"learned:{tmp_path}/none.csv", 3, "no such file"),
    ):
        stdin = ("-", *asked[2:]) if text.endswith("-") else asked[1:]
        got, _, err = run(capsys, "simulate", *stdin, "--known", text, "--policy", "sjf")
        assert (got, why in err) == (code, True), err
    got, _, err = run(capsys, *asked, *learnt, "--policy", "sjf", "-o", history)
    assert (got, "is a file that is read" in err) == (2, True)


def test_options_of_all_for_those_that_heed_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Where one of the policies heeds an option it is taken; in steps all look ahead."""
    some = ("--policy", "fcfs,srpt", "--hysteresis", "5")
    rows = document(capsys, *DRAWN, *some)["rows"]
    assert ["hysteresis 5" in row["carried_out"] for row in rows] == [False, True]
    swaps = ("--policy", "fcfs,srpt:eviction=swap", "--swap-seconds", "0.01")
    rows = document(capsys, *DRAWN, *swaps)["rows"]
    assert ["s a token" in row["carried_out"] for row in rows] == [False, True]
    steps = ("--policy", "sjf:lookahead=3", "--engine", "steps")
    assert "lookahead 3" in document(capsys, *DRAWN, *steps)["rows"][0]["carried_out"]

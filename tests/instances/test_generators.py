"""The generators: the same bytes everywhere, the published moments, no request too large."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import OptionError
from sortedf.instances import distributions as dist
from sortedf.instances import generators
from sortedf.instances.generators import EXAMPLE_KV_TOKENS, GENERATORS, example, generate
from sortedf.model import Instance

GOLDEN = {
    "chat": "f4585bd6312c8eaf381dac30be0d712eb45fd777c02466c6c2dd0b894fcaad79",
    "summaries": "0cb948620bc94adcd349f1c32ed707b73a4e6d48191ad12bcb5c809f0eacf9b7",
    "mix": "90c0a1827e1d7a31e097ccfc119a8fe9ab1c2d687c6c3300ee76e6bd8c05dbe2",
    "synthetic": "0b4d489c2133c245796ac4b357716ba12668a47ae9259a087c71d5e6b436d52c",
    "uniform": "18d89d11a2f93973245bef2e40a9afabaa7b839c505b52574f2db5e7cb288112",
    "heavy-tail": "cd20a0b0f413265e00bf135d626ef622ba9f7397791c5a9c1c433efac5416f06",
}
LEAST_BUDGET = {"synthetic": 6, "uniform": 2000}
"""Where it is not 2 tokens."""

kinds = pytest.mark.parametrize("kind", GENERATORS)


def percentile(lengths: np.ndarray[Any, Any], percent: float) -> int:
    return int(np.percentile(lengths, percent, method="inverted_cdf"))


@kinds
def test_golden_hash(kind: str) -> None:
    """A kind, n and seed name one backlog, byte for byte, whatever the platform and versions."""
    assert generate(kind, 1000, seed=0).sha256 == GOLDEN[kind]


def test_words_are_pcg64() -> None:
    """The words are the upper halves of the raw PCG64 stream, which numpy guarantees."""
    assert dist.words(2, 2, 0).ravel().tolist() == [2735729615, 1158725112, 175979945, 70985654]


@pytest.mark.parametrize(
    ("tail", "most"),
    [
        (generators.CHAT_PROMPT, generators.CONTEXT),
        (generators.CHAT_OUTPUT, generators.CONTEXT),
        (generators.HEAVY_TAIL_PROMPT, generators.HEAVY_TAIL_CONTEXT),
        (dist.pareto(generators.HEAVY_TAIL_LEAST_OUTPUT, 1.5), generators.HEAVY_TAIL_CONTEXT),
    ],
)
@pytest.mark.parametrize("error", [1e-14, -1e-14])
def test_last_bits_do_not_matter(tail: dist.Tail, most: int, error: float) -> None:
    """A relative error of 45 units in the last place of every chance moves no threshold."""

    def wrong(length: Fraction) -> float:
        return float(tail(length)) * (1 + error)

    # A chance of 1 is exact everywhere: it is not computed.
    right, moved = dist.table(tail, most), dist.table(wrong, most)
    assert np.array_equal(right, np.where(right == 0, 0, moved))


@pytest.mark.parametrize(
    ("tail", "length", "chance"),
    [
        (dist.log_normal(11, 1.5), Fraction(11), 0.5),
        # One deviation of the logarithm above the median: 1 - Phi(1).
        (dist.log_normal(1, 1.0), Fraction(2.718281828459045), 0.15865525393145707),
        (dist.pareto(32, 1.5), Fraction(128), 0.125),
        (dist.pareto(32, 1.5), Fraction(31), 1.0),
        (dist.piecewise((10, 20, 40), (0, 500, 1000)), Fraction(30), 0.25),
        (dist.piecewise((10, 20, 40), (0, 500, 1000)), Fraction(10), 1.0),
        (dist.piecewise((10, 20, 40), (0, 500, 1000)), Fraction(41), 0.0),
    ],
)
def test_tails(tail: dist.Tail, length: Fraction, chance: float) -> None:
    """Each tail function is its distribution's chance of a longer length."""
    assert float(tail(length)) == pytest.approx(chance, rel=1e-12)


def test_table_draws_its_distribution() -> None:
    """A length comes out for exactly the words between its thresholds, the ends cut to 1 and 4."""
    table = dist.table(dist.piecewise((0, 1, 2, 3, 9), (0, 125, 375, 625, 1000)), 4)
    quarter = dist.WORD // 4
    edges = [0, quarter - 1, quarter, 2 * quarter - 1, 2 * quarter, 3 * quarter, dist.WORD - 1]
    assert table.tolist() == [quarter, 2 * quarter, dist.WORD * 5 // 8 + dist.WORD // 32]
    assert dist.from_table(np.array(edges, np.uint64), table).tolist() == [1, 1, 2, 2, 3, 4, 4]


def test_uniform_covers_its_bounds() -> None:
    """The least and the greatest word give the two bounds, both included, also for wide ranges."""
    ends = np.array([0, dist.WORD - 1], np.uint64)
    for low, high in ((1, 5), (30, 50), (7, 7), (1, 2**31)):
        assert dist.uniform(ends, low, high).tolist() == [low, high]


@pytest.mark.parametrize(
    ("kind", "which", "moment", "published", "tolerance"),
    [
        ("chat", "prompt_tokens", np.mean, 40.62, 0.01),
        ("chat", "prompt_tokens", 50, 11, 0),
        ("chat", "output_tokens", np.mean, 85.32, 0.01),
        ("chat", "output_tokens", 50, 45, 0),
        ("summaries", "prompt_tokens", np.mean, 2588, 0.005),
        ("summaries", "prompt_tokens", 99, 3934, 0.005),
        ("summaries", "output_tokens", np.mean, 291, 0.01),
        ("summaries", "output_tokens", 50, 167, 0.01),
        ("summaries", "output_tokens", 99, 3273, 0.02),
    ],
)
def test_published_moments(
    kind: str,
    which: str,
    moment: int | Callable[[np.ndarray[Any, Any]], float],
    published: float,
    tolerance: float,
) -> None:
    """Chats and summaries have the mean, median and 99th percentile that were published."""
    lengths = getattr(generate(kind, 400_000, seed=1), which)
    measured = percentile(lengths, moment) if isinstance(moment, int) else moment(lengths)
    assert measured == pytest.approx(published, rel=tolerance)


def test_long_outputs_have_short_prompts() -> None:
    """In summaries a prompt and its output share 4096 tokens, so the two are anticorrelated."""
    backlog = generate("summaries", 20_000)
    prompt, output = backlog.prompt_tokens, backlog.output_tokens
    assert (prompt + output).max() == 4096
    assert np.corrcoef(prompt, output)[0, 1] < -0.2


@pytest.mark.parametrize("kind", ["chat", "uniform", "heavy-tail"])
def test_prompt_and_output_are_independent(kind: str) -> None:
    """Elsewhere a prompt says nothing of its output: their ranks do not correlate."""
    backlog = generate(kind, 50_000)
    both = backlog.prompt_tokens, backlog.output_tokens
    prompt, output = (np.argsort(np.argsort(lengths)) for lengths in both)
    assert np.corrcoef(prompt, output)[0, 1] == pytest.approx(0, abs=0.02)


def test_mix_is_four_to_one() -> None:
    """In the mix 80 % are the chats and 20 % the summaries of the same seed, each where it was."""
    n = 100_000
    both, chats, papers = (generate(k, n, seed=3) for k in ("mix", "chat", "summaries"))
    is_chat = both.prompt_tokens == chats.prompt_tokens
    is_chat &= both.output_tokens == chats.output_tokens
    assert is_chat.mean() == pytest.approx(0.8, abs=0.005)
    assert np.array_equal(both.prompt_tokens[~is_chat], papers.prompt_tokens[~is_chat])
    assert np.array_equal(both.output_tokens[~is_chat], papers.output_tokens[~is_chat])
    # A run of chats must not make the next request a chat more or less often.
    assert (is_chat[1:] & is_chat[:-1]).mean() == pytest.approx(0.64, abs=0.01)


def test_synthetic_family() -> None:
    """M covers 30..50, s covers 1..5 and o covers 1..M - s, as in [3]."""
    budgets = {generate("synthetic", 1, seed=seed).kv_tokens for seed in range(300)}
    assert budgets == set(range(30, 51))
    backlog = generate("synthetic", 5000, kv_tokens=30)
    assert backlog.kv_tokens == 30
    for s in range(1, 6):
        outputs = backlog.output_tokens[backlog.prompt_tokens == s]
        assert set(outputs.tolist()) == set(range(1, 31 - s))


def test_uniform_options() -> None:
    """Bounds are included, by default 1..1000, and equal bounds give a constant."""
    backlog = generate("uniform", 20_000)
    for lengths in (backlog.prompt_tokens, backlog.output_tokens):
        assert (lengths.min(), lengths.max()) == (1, 1000)
        assert lengths.mean() == pytest.approx(500.5, rel=0.02)
    narrow = generate("uniform", 50, prompt_min=3, prompt_max=4, output_min=9, output_max=9)
    assert set(narrow.prompt_tokens.tolist()) == {3, 4}
    assert set(narrow.output_tokens.tolist()) == {9}


@pytest.mark.parametrize("index", [1, 1.5, 3.0])
def test_heavy_tail_index(index: float) -> None:
    """Pareto outputs: each doubling of the length divides those above by 2 to the index."""
    output = generate("heavy-tail", 200_000, index=index).output_tokens
    assert output.min() == 32
    for doublings in (1, 2, 3):
        beyond = (output > 32 * 2**doublings).mean()
        assert beyond == pytest.approx(2 ** (-index * doublings), rel=0.1)


def test_heavy_tail_is_cut() -> None:
    """Outputs end at 16,383 tokens, and with their prompts at 16,384."""
    backlog = generate("heavy-tail", 2000, index=0.1)
    assert backlog.output_tokens.max() == 16_383
    assert (backlog.prompt_tokens + backlog.output_tokens).max() == 16_384


@given(
    kind=st.sampled_from(sorted(GENERATORS)),
    n=st.integers(1, 300),
    seed=st.integers(0, 2**70),
    extra=st.one_of(st.integers(0, 60), st.integers(0, 20_000)),
)
def test_every_request_fits(kind: str, n: int, seed: int, extra: int) -> None:
    """Whatever the kind, seed and budget, every request fits the budget alone, at release 0."""
    budget = LEAST_BUDGET.get(kind, 2) + extra
    backlog = generate(kind, n, seed=seed, kv_tokens=budget)
    assert len(backlog) == n
    assert backlog.kv_tokens == budget
    assert backlog.oversized.size == 0
    assert not backlog.release.any()
    assert backlog.ids == tuple(f"r{i}" for i in range(n))


@kinds
def test_prefix(kind: str) -> None:
    """A longer backlog of the same seed begins with the shorter one, budget included."""
    assert generate(kind, 500, seed=7).select(range(100)) == generate(kind, 100, seed=7)


@kinds
def test_seeds_differ(kind: str) -> None:
    """Another seed is another backlog; without one it is seed 0."""
    assert len({generate(kind, 20, seed=seed).sha256 for seed in range(20)}) == 20
    assert generate(kind, 20) == generate(kind, 20, seed=0)


@kinds
def test_default_budget(kind: str) -> None:
    """Without a budget it is that of [3], except in the synthetic family, which draws it."""
    assert (generate(kind, 5).kv_tokens == EXAMPLE_KV_TOKENS) == (kind != "synthetic")


@kinds
def test_least_budget(kind: str) -> None:
    """One token less than a kind needs is refused by a line that names both numbers."""
    least = LEAST_BUDGET.get(kind, 2)
    with pytest.raises(OptionError, match=f"kv_tokens is {least - 1}; {kind} needs {least} or"):
        generate(kind, 3, kv_tokens=least - 1)


def test_small_budget_cuts_the_prompt() -> None:
    """Where a budget is short of the context, outputs stay and prompts are cut to what is left."""
    wide, tight = generate("summaries", 500), generate("summaries", 500, kv_tokens=2000)
    output = np.minimum(wide.output_tokens, 1999)
    assert np.array_equal(tight.output_tokens, output)
    assert np.array_equal(tight.prompt_tokens, np.minimum(wide.prompt_tokens, 2000 - output))


def test_example_is_generated() -> None:
    """The packaged example is the first 300 requests of the mix of seed 0, and nothing else."""
    packaged = example()
    assert packaged == generate("mix", 300, seed=0)
    assert packaged.kv_tokens == 16_492


def bad(kind: str = "chat", n: Any = 3, **options: Any) -> Callable[[], Instance]:
    return lambda: generate(kind, n, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (bad("chats"), "'chats'.*chat, summaries, mix, synthetic, uniform, heavy-tail"),
        (bad(n=0), "n is 0"),
        (bad(n=2.0), "n is 2.0, not a whole number"),
        (bad(n=True), "n is True"),
        (bad(n=10**9), "n is 1000000000; it must be 1 .. 100000000"),
        (bad(seed=-1), "seed is -1; it must be 0 or more"),
        (bad(seed="0"), "seed is '0', not a whole number"),
        (bad(kv_tokens=0), "kv_tokens is 0"),
        (bad(kv_tokens=1e4), "kv_tokens is 10000.0, not a whole number"),
        (bad("synthetic", kv_tokens=2**31 + 1), "it must be 1 .. 2147483648"),
        (bad(index=2), "chat has no option index; it takes none"),
        (bad("heavy-tail", tail=2), "heavy-tail has no option tail; it takes index"),
        (bad("heavy-tail", index=0), "index is 0"),
        (bad("heavy-tail", index=float("nan")), "index is nan"),
        (bad("heavy-tail", index="1"), "index is '1'"),
        (bad("heavy-tail", index=101), "index is 101"),
        (bad("uniform", prompt_min=0), "prompt_min is 0"),
        (bad("uniform", prompt_min=1001), "prompt_max is 1000; it must be 1001 .. "),
        (bad("uniform", output_max=2**31 + 1), "output_max is 2147483649"),
    ],
)
def test_bad_options(call: Callable[[], Instance], message: str) -> None:
    """What a generator cannot use is an OptionError that says what was given and what is taken."""
    with pytest.raises(OptionError, match=message):
        call()

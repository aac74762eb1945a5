"""What is known of lengths: unbiased, bounds that hold, one bit that is one."""

from __future__ import annotations

import numpy as np
import pytest

import sortedf
from sortedf.errors import OptionError
from sortedf.orders.one_bit import Proxies
from sortedf.serving.knowledge import exact, interval, noisy, nothing, one_bit

BACKLOG = sortedf.generate("mix", 20_000, seed=5)


def test_noise_is_log_normal() -> None:
    """Median factor 1, deviation as asked; sigma 0 is exact; seeded."""
    known = noisy(BACKLOG, 0.5, seed=1)
    long = BACKLOG.output_tokens > 50  # where nothing is cut at one token
    logs = np.log(known.outputs[long] / BACKLOG.output_tokens[long])
    assert np.median(logs) == pytest.approx(0, abs=0.02)
    assert logs.std() == pytest.approx(0.5, rel=0.03)
    np.testing.assert_array_equal(noisy(BACKLOG, 0.0).outputs, exact(BACKLOG).outputs)
    np.testing.assert_array_equal(known.outputs, noisy(BACKLOG, 0.5, seed=1).outputs)
    capped = noisy(BACKLOG, 0.5, longest=300, seed=1).outputs
    np.testing.assert_array_equal(capped, np.minimum(known.outputs, 300))
    assert str(known) == "noisy (sigma 0.5, seed 1)"


@pytest.mark.parametrize("spread", [0.0, 0.4, 2.0])
def test_bounds_hold(spread: float) -> None:
    """Lower <= output <= upper <= M - s; a spread of 0 says all."""
    lower, upper = interval(BACKLOG, spread, seed=2).bounds()
    o = BACKLOG.output_tokens
    assert (lower >= 1).all()
    assert (lower <= o).all()
    assert (o <= upper).all()
    assert (upper + BACKLOG.prompt_tokens <= BACKLOG.kv_tokens).all()
    if spread == 0:
        np.testing.assert_array_equal(lower, upper)
    else:
        assert (lower < upper).mean() > 0.8


def test_one_bit() -> None:
    """Two values, the means of the halves; or proxies; of predictions where these are all."""
    known = one_bit(BACKLOG)
    assert len(np.unique(known.outputs)) == 2
    assert known.outputs.mean() == pytest.approx(BACKLOG.output_tokens.mean())
    short = one_bit(BACKLOG, Proxies(10, 3, 99)).outputs == 3
    np.testing.assert_array_equal(short, BACKLOG.output_tokens <= 10)
    guessed = one_bit(BACKLOG, Proxies(10, 3, 99), predicted=np.full(20_000, 11.0))
    assert (guessed.outputs == 99).all()
    alike = one_bit(sortedf.Instance([1, 1], [4, 4], 100))
    assert alike.outputs.tolist() == [4, 4]


def test_refused() -> None:
    """Noise below nothing; asking nothing for something."""
    with pytest.raises(OptionError, match="sigma is -1"):
        noisy(BACKLOG, -1)
    with pytest.raises(OptionError, match="spread is nan"):
        interval(BACKLOG, float("nan"))
    with pytest.raises(OptionError, match="needs predicted"):
        _ = nothing(BACKLOG).tokens

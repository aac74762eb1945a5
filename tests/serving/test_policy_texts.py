"""Policies, and what is known of lengths, as one writes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sortedf
from sortedf.errors import OptionError
from sortedf.serving.knowledge import interval, noisy
from sortedf.serving.known_texts import read_known
from sortedf.serving.policies import POLICIES, policy
from sortedf.serving.policy_texts import read_policies
from sortedf.serving.side import EngineSide

SIDES = st.fixed_dictionaries(
    {},
    optional={
        "eviction": st.sampled_from(["recompute", "swap", "restart"]),
        "displaces": st.booleans(),
        "hysteresis": st.floats(0, 1e6),
        "victim": st.sampled_from(["tail", "worst"]),
        "watermark": st.floats(0, 0.99),
        "future": st.booleans(),
        "lookahead": st.integers(1, 50),
        "swap_seconds": st.floats(0, 1),
    },
)


def written(name: str, options: dict[str, Any]) -> str:
    """Write a policy as a person would."""
    values = {True: "yes", False: "no"}
    parts = [
        f"{key}={values[value] if isinstance(value, bool) else value}"
        for key, value in options.items()
    ]
    return ":".join([name, *parts])


@given(st.sampled_from(sorted(POLICIES)), SIDES, SIDES)
def test_what_is_written_is_what_is_made(
    name: str, own: dict[str, Any], common: dict[str, Any]
) -> None:
    """A text makes the policy that the same options make in Python; its own go before others'."""
    try:
        side = policy(name, **(common | own)).side
    except OptionError as error:
        # Who chooses its side itself; least first, which cannot be displaced for its score.
        assert name == "auto" or (name == "a-min" and (common | own)["displaces"])
        with pytest.raises(OptionError, match=re.escape(str(error))):
            read_policies(written(name, own), common)
        return
    (found,) = read_policies(written(name, own), common)
    assert found.text == written(name, own)
    assert found.policy.side == side
    assert found.policy.name == name


@pytest.mark.parametrize(("own", "common"), [("auto:future=yes", {}), ("auto", {"future": True})])
def test_auto_has_no_side_to_be_told(own: str, common: dict[str, Any]) -> None:
    """Neither by its own text nor by an option of all; `all` leaves it out then."""
    with pytest.raises(OptionError, match="chooses the engine's side itself"):
        read_policies(own, common)
    assert "auto" not in [named.text for named in read_policies("all", {"future": True})]


def test_own_parameters() -> None:
    """Numbers, whole numbers, switches and words of a policy itself."""
    text = (
        "uniboost:gamma=inf:guard=64:reserve=no,sorted-f:period=0:select=local-swap,svf:lookahead=3"
    )
    boost, planned, volume = read_policies(text)
    assert boost.policy.parameters["guard"] == 64
    assert boost.policy.gamma == float("inf")
    assert not boost.policy.side.future
    assert planned.policy.parameters == {"select": "local-swap", "period": 0.0}
    assert volume.policy.side == EngineSide(future=True, lookahead=3)


def test_all() -> None:
    """All are all that there are, in their order."""
    assert [one.text for one in read_policies(" all ")] == list(POLICIES)


def test_all_are_those_that_take_the_options() -> None:
    """Who refuses an option when named is left out of all; what all refuse is an error."""
    with pytest.raises(OptionError, match="chooses the engine's side itself"):
        read_policies("auto:watermark=0.03")
    with pytest.raises(OptionError, match="who is least first of all victims"):
        read_policies("a-min:displaces=yes")
    for options, refused in (
        ({"watermark": 0.03}, {"auto"}),
        ({"displaces": True}, {"auto", "a-min"}),
    ):
        texts = [one.text for one in read_policies("all", options)]
        assert texts == [name for name in POLICIES if name not in refused]
    with pytest.raises(OptionError, match=r"\[0, 1\)"):
        read_policies("all", {"watermark": 1.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("svff", "did you mean 'svf'"),
        ("", "a policy is missing"),
        ("svf,,fcfs", "a policy is missing"),
        ("svf,fcfs,svf", "named twice"),
        ("srpt:eviction", "write OPTION=VALUE"),
        ("srpt:watermark=0.1:watermark=0.2", "there twice"),
        ("srpt:eviction=swop", "recompute, swap, restart"),
        ("srpt:evict=swap", "it takes displaces, eviction"),
        ("srpt:displaces=maybe", "yes or no"),
        ("srpt:watermark=x", "it must be a number"),
        ("srpt:watermark=nan", r"\[0, 1\)"),
        ("srpt:watermark=1", r"\[0, 1\)"),
        ("srpt:victim=least", "least first"),
        ("srpt:hysteresis=nan", "from 0 to"),
        ("srpt:swap_seconds=-1", "from 0 to"),
        ("fcfs:lookahead=0", "at least 1"),
        ("ltr:quantum=1.5", "a whole number"),
        ("ltr:quantum=0", "at least 1"),
        ("ltr:patience=-1", "from 0 upward"),
        ("las:gamma=1", "has no gamma"),
        ("uniboost:gamma=-1", "from 0 upward"),
        ("uniboost:window=0", "at least 1"),
        ("uniboost:window=99999999999", "at most"),
        ("uniboost:smoothing=2", "from 0 to 1"),
        ("uniboost:least_gamma=2:most_gamma=1", "above most_gamma"),
        ("sorted-f:select=best", "quantile-greedy"),
        ("svf-1bit:proxies=3", "in Python"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    """One clear line, with the text that is at fault."""
    with pytest.raises(OptionError, match=message) as caught:
        read_policies(text)
    assert "\n" not in str(caught.value)


def test_values_in_python_are_held_to_the_same_ranges() -> None:
    """Ranges are those of the policies, not of their texts."""
    for options in ({"watermark": "0.1"}, {"displaces": 1}, {"hysteresis": True}):
        with pytest.raises(OptionError):
            policy("srpt", **options)


def test_what_is_known() -> None:
    """Each kind by its text; noisy predictions are cut at the longest output."""
    instance = sortedf.Instance([5, 6, 7, 8], [10, 200, 30, 4], 1000)
    for kind in ("exact", "one-bit", "nothing"):
        known = read_known(kind)
        assert not known.is_drawn
        assert known.of(instance, 3).kind == kind
    drawn = read_known("noisy:1.5")
    assert drawn.is_drawn
    expected = noisy(instance, 1.5, longest=200, seed=3)
    np.testing.assert_array_equal(drawn.of(instance, 3).outputs, expected.outputs)
    bounds = read_known("interval:0.5").of(instance, 3).bounds()
    for ours, theirs in zip(bounds, interval(instance, 0.5, seed=3).bounds(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("text", ["", "foo", "noisy", "noisy:", "noisy:x", "noisy:nan", "noisy:-1"])
def test_what_is_known_refused(text: str) -> None:
    """An unknown kind, a number that is none."""
    with pytest.raises(OptionError, match="what is known is"):
        read_known(text)
    with pytest.raises(OptionError, match="takes no number"):
        read_known("exact:1")

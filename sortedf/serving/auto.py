"""The policy that is recommended for what is known of lengths; docs/serving.md has the figures."""

from __future__ import annotations

from dataclasses import replace

from sortedf.serving.aged import svf_aged
from sortedf.serving.boost_policies import boost_volume, uniboost_dist, uniboost_guard
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.online_policy import OnlinePolicy, arrival
from sortedf.serving.side import WATERMARK, EngineSide
from sortedf.serving.workloads import Workload

SMALL_WATERMARK = 0.01

LONG_ANSWERS = 0.5
"""Share of outputs in all tokens from which the future check would keep a far peak free."""


def auto() -> OnlinePolicy:
    """Go by what is known of lengths, and by whether prompts or answers fill the cache."""
    return OnlinePolicy(name="auto", side=EngineSide(), key=arrival, choose=recommended)


def recommended(workload: Workload, known: Knowledge, in_steps: bool = False) -> OnlinePolicy:
    """Give the policy and why it is that. Reads prompts and predictions: means, not who comes when.

    What depends on the load, the longest wait that is allowed, the policy learns as it goes.
    """
    if known.predicted is None and in_steps:
        reason = "nothing is known of outputs: room is kept up to the next threshold of the guard"
        return replace(uniboost_guard(), reason=reason)
    if known.predicted is None:
        return _on_watermark(
            uniboost_dist(),
            SMALL_WATERMARK,
            "nothing is known of outputs: work attained orders who waits, nobody evicts for rank",
        )
    if known.kind == "one-bit":
        reason = "one bit says little of who is large: boosted by it, nobody waits for long"
        return replace(boost_volume(), reason=reason)
    outputs = float(known.outputs.mean())
    share = outputs / (outputs + float(workload.instance.prompt_tokens.mean()))
    filled = f"outputs are {100 * share:.0f} % of all tokens by what is known"
    if share > LONG_ANSWERS:
        why = f"{filled}: the future check would keep a far peak free, a watermark keeps enough"
        return _on_watermark(svf_aged(), WATERMARK, why)
    if known.kind != "exact":
        why = f"{filled}, and not exact: a small watermark instead of the future check"
        return _on_watermark(svf_aged(), SMALL_WATERMARK, why)
    return replace(svf_aged(), reason=f"{filled}, and exact: room at every later step")


def _on_watermark(policy: OnlinePolicy, watermark: float, reason: str) -> OnlinePolicy:
    return replace(policy, side=EngineSide(watermark=watermark), reason=reason)

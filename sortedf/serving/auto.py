"""The policy that is recommended for what is known; docs/serving.md says why."""

from __future__ import annotations

from dataclasses import replace

from sortedf.serving.aged import svf_aged
from sortedf.serving.boost_policies import uniboost_dist
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.online_policy import OnlinePolicy, arrival
from sortedf.serving.side import WATERMARK, EngineSide
from sortedf.serving.workloads import Workload

LONG_ANSWERS = 0.5
LONG_WATERMARK = 0.05


def auto() -> OnlinePolicy:
    """Choose by what is known of lengths, and by whether answers or prompts fill the cache."""
    return OnlinePolicy(name="auto", side=EngineSide(), key=arrival, choose=chosen)


def chosen(workload: Workload, known: Knowledge) -> OnlinePolicy:
    """Give the policy, with the reason. Outputs are not looked at, predictions are."""
    if known.predicted is None:
        made = uniboost_dist()
        reason = "nothing is known of outputs: attained work in their place, and a watermark"
        return replace(made, side=replace(made.side, watermark=WATERMARK), reason=reason)
    made = svf_aged()
    prompts, outputs = workload.instance.prompt_tokens, known.outputs
    share = float(outputs.mean() / (prompts.mean() + outputs.mean()))
    filled = f"outputs are {100 * share:.0f} % of the tokens by prediction"
    if share > LONG_ANSWERS:
        side = EngineSide(watermark=LONG_WATERMARK)
        return replace(made, side=side, reason=f"{filled}: a watermark instead of the future check")
    return replace(made, reason=f"{filled}: the future check")

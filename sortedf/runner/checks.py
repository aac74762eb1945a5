"""What must be true of a plan, its jobs and an engine before anything is begun."""

from __future__ import annotations

from sortedf.engine.settings import EngineSettings
from sortedf.errors import BudgetError
from sortedf.instances.plan import Plan
from sortedf.instances.reading import Note
from sortedf.runner.engines import Job, Refusal


def check_budget(plan: Plan, settings: EngineSettings, note: Note) -> None:
    """Hold the KV budget and the blocks of a plan against those of a started engine.

    A smaller budget than the engine's is fine.

    Raises
    ------
    BudgetError
        When the plan counts on more memory than the engine has.
    """
    block = settings.block_size
    whole = plan.kv_tokens // block * block
    if whole > settings.kv_tokens:
        raise BudgetError(
            f"the plan is for a KV budget of {plan.kv_tokens:,} tokens, the engine has "
            f"{settings.kv_tokens:,} ({settings.usable_blocks:,} blocks of {block}); plan again "
            f"with --kv-tokens {settings.kv_tokens} and run that into another folder, or give the "
            "engine more memory"
        )
    if plan.block_size < block:
        on = "single tokens" if plan.block_size == 1 else f"blocks of {plan.block_size} tokens"
        note(
            f"the plan is on {on}, the engine keeps KV in blocks of {block}: requests may be "
            f"admitted later than planned; solve --block-size {block} plans for it"
        )


def refused_by_size(job: Job, settings: EngineSettings, vocabulary: int) -> Refusal | None:
    """Say why a real engine would cut a job, die of it or never end it; ``None`` if it would not.

    Parameters
    ----------
    vocabulary
        How many tokens the model knows.
    """
    prompt, most = len(job.prompt), int(job.sampling["max_tokens"])
    longest, budget = settings.max_model_len, settings.kv_tokens
    if not prompt:
        return Refusal(job=job, code="invalid_prompt", message="the prompt has no tokens")
    if min(job.prompt) < 0 or max(job.prompt) >= vocabulary:
        bad = next(token for token in job.prompt if not 0 <= token < vocabulary)
        text = f"token id {bad} in the prompt; the model has 0 to {vocabulary - 1}"
        return Refusal(job=job, code="invalid_prompt", message=text)
    if longest is not None and prompt + most > longest:
        text = (
            f"a prompt of {prompt:,} tokens and up to {most:,} of output are more than "
            f"max_model_len, {longest:,}"
        )
        return Refusal(job=job, code="context_length_exceeded", message=text)
    if prompt + most - 1 > budget:
        text = f"needs {prompt + most - 1:,} tokens, the KV cache has {budget:,}"
        return Refusal(job=job, code="kv_budget_exceeded", message=text)
    return None

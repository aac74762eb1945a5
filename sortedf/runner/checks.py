"""What must be true of a plan and an engine before anything is begun."""

from __future__ import annotations

from sortedf.engine.settings import EngineSettings
from sortedf.errors import BudgetError
from sortedf.instances.plan import Plan
from sortedf.instances.reading import Note


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

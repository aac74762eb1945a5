"""The settings of the engine that made a run, from its ``meta.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.engine.kv_budget import RESERVED_BLOCKS
from sortedf.engine.settings import VERSIONS, VLLM_0_32, EngineSettings, EngineVersion, Policy
from sortedf.errors import Fault, InputError, OptionError, whole_number
from sortedf.instances.json_values import shown

IntArray = npt.NDArray[np.int64]

_VERSION = re.compile(r"(?:vLLM )?(\d+)\.(\d+)")

ONE_ENGINE = (
    ("data_parallel_size", "engines", "split the folder into one for each engine"),
    ("pipeline_parallel_size", "pipeline stages", "runs without a pipeline are replayed"),
)

OUR_SCHEDULERS = "sortedf.runner."
"""Where the schedulers of the runner are."""

_SOUGHT = (
    "num_gpu_blocks",
    "block_size",
    "enable_prefix_caching",
    "max_model_len",
    "version",
)
"""Settings that do not stand in the scheduler's section."""

SCHEDULER_DEFAULTS: Mapping[str, Any] = {
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 256,
    "long_prefill_token_threshold": 0,
    "enable_chunked_prefill": True,
    "scheduler_reserve_full_isl": True,
    "policy": "fcfs",
    "async_scheduling": True,
}
"""vLLM's own, where the run does not say. It derives the first two from the device and the use, so
these two are worth a look."""


def settings_of(
    meta: Mapping[str, Any],
    name: str,
    prompt: IntArray,
    output: IntArray,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[EngineSettings, bool, list[str]]:
    """Derive the settings, whether the cache's size is known, and what was assumed, a line each.

    What is given comes first, then resolved values, those that were asked for, vLLM's defaults. A
    run whose KV cache was not recorded is taken to have had room for all that can run at once.

    Parameters
    ----------
    meta
        The document.
    name
        What messages call it.
    prompt, output
        Tokens of each request, shape (n,).
    given
        Settings instead of what the document says.

    Raises
    ------
    InputError
        For a value of a wrong kind, or an engine that is not replayed (several engines in one run,
        speculative decoding).
    """
    notes: list[str] = []
    asked = _section(meta, "engine_kwargs")
    resolved = _section(meta, "resolved_config")
    scheduler = _section(resolved, "scheduler_config")
    parallel = _section(resolved, "parallel_config")
    cache = {**_section(resolved, "cache_config"), **_known(_section(meta, "kv_cache"))}
    for key, what, advice in ONE_ENGINE:
        if (number := _first(key, parallel, asked)) not in (None, 1):
            raise _fault(name, f"{key} is {number}: several {what}; {advice}")
    if _first("speculative_config", resolved, asked) is not None:
        raise _fault(name, "the run used speculative decoding, which is not replayed")
    if (near := meta.get("replayed_as")) is not None:  # another engine, which says how near it is
        notes.append(f"{name}: {near}")
        version = given.get("version", VLLM_0_32)
    else:
        version = given.get("version") or _version(meta.get("vllm_version"), notes)

    values = {key: _first(key, given, scheduler, asked) for key in SCHEDULER_DEFAULTS}
    if assumed := [key for key, value in values.items() if value is None]:
        defaults = ", ".join(f"{key} {SCHEDULER_DEFAULTS[key]}" for key in assumed)
        notes.append(f"{name} does not say, vLLM's defaults taken: {defaults}")
        values |= {key: SCHEDULER_DEFAULTS[key] for key in assumed}
    if version.watermark:
        values["watermark"] = _first("watermark", scheduler, asked) or 0.0
    own = _first("scheduler_cls", scheduler, asked)
    ours = own is not None and str(own).startswith(OUR_SCHEDULERS)
    if ours:
        values |= _planned(_section(_section(resolved, "additional_config"), "sortedf"), notes)
    elif own is not None:
        notes.append(f"{name}: the run used a scheduler of its own; vLLM's is replayed")
    values |= {key: value for key, value in given.items() if key not in _SOUGHT}
    if values["policy"] == Policy.PRIORITY and not ours:  # ours came in the order of the plan
        notes.append(
            f"{name}: the policy is {shown(values['policy'])}, but a run folder has no priorities; "
            "all requests are taken to have the same"
        )

    block_size = _first("block_size", given, cache, asked)
    caching = _first("enable_prefix_caching", given, cache, asked)
    if block_size is None or caching is None:
        block_size = 16 if block_size is None else block_size
        caching = True if caching is None else caching
        switch = "on" if caching else "off"
        notes.append(
            f"{name} does not say, vLLM's defaults taken: block_size {block_size}, "
            f"prefix caching {switch}"
        )
    try:
        blocks = _first("num_gpu_blocks", given, cache, asked)
        blocks_known = blocks is not None
        if not blocks_known:
            whole_number("block_size", block_size, 1)
            whole_number("max_num_seqs", values["max_num_seqs"], 1)
            blocks = _ample(prompt, output, block_size, values["max_num_seqs"])
            notes.append(
                f"{name} has no num_gpu_blocks: a KV cache with room for all that can run at once "
                f"is assumed, {blocks} blocks"
            )
        settings = EngineSettings(
            num_gpu_blocks=blocks,
            block_size=block_size,
            enable_prefix_caching=caching,
            max_model_len=_first("max_model_len", given, _section(resolved, "model_config"), asked),
            version=version,
            **values,
        )
    except (OptionError, TypeError) as error:
        raise _fault(name, str(error)) from None
    return settings, blocks_known, notes


def _planned(told: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Read what the runner's scheduler was told: see sortedf.runner.scheduler_settings."""
    order = told.get("policy", "planned")
    if order == "engine":
        return {}  # it recorded the steps, no more
    if order == "fcfs":
        return {"policy": "fcfs"}
    if order != "planned":
        notes.append(f"requests waited by {order}; replayed in the order in which they came")
    if not told.get("room", True):
        return {"policy": "priority"}
    return {"policy": "planned", "lookahead": told.get("lookahead", 1)}


def _version(text: object, notes: list[str]) -> EngineVersion:
    """Find the description of a version, or the nearest one."""
    match = _VERSION.match(str(text))
    known = {_numbers(name): version for name, version in VERSIONS.items()}
    if match is None:
        newest = known[max(known)]
        notes.append(f"vllm_version is {shown(text)}; replayed as {newest.name}")
        return newest
    asked = int(match[1]), int(match[2])
    # A later major version is nearer to the newest, whatever its minor number.
    same = [version for version in known if version[0] == asked[0]]
    nearest = min(same, key=lambda v: (abs(v[1] - asked[1]), v), default=max(known))
    if nearest != asked:
        notes.append(f"vLLM {match[1]}.{match[2]} is replayed as {known[nearest].name}")
    return known[nearest]


def _numbers(name: str) -> tuple[int, int]:
    match = _VERSION.match(name)
    assert match is not None
    return int(match[1]), int(match[2])


def _ample(prompt: IntArray, output: IntArray, block_size: int, seats: int) -> int:
    """Blocks that the largest requests that can run at once need, and the reserved one."""
    held = np.sort(-(-(prompt + output) // block_size))[::-1]
    return int(held[:seats].sum()) + RESERVED_BLOCKS


def _first(key: str, *places: Mapping[str, Any]) -> Any:
    return next((place[key] for place in places if place.get(key) is not None), None)


def _known(section: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in section.items() if value is not None}


def _section(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = meta.get(name)
    return value if isinstance(value, dict) else {}


def _fault(name: str, message: str) -> InputError:
    return InputError([Fault(name, None, message)])

"""How many tokens fit into the KV cache of an engine: the sum that ends in ``--kv-tokens``.

The sum is vLLM's. The memory of one GPU, times the utilisation, less this GPU's part of the weights
and what activations and graphs take, is left for the KV cache; that is cut into whole blocks, of
which the engine keeps one for itself. Integers and fractions throughout, nothing is rounded up in
the user's favour.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from sortedf.engine.kv_dtype import kv_value_bytes
from sortedf.engine.model_config import KvShape, read_config
from sortedf.errors import Fault, InputError, OptionError

RESERVED_BLOCKS = 1
"""vLLM (V1) keeps one block as the null block; no request ever gets it."""


class Step(NamedTuple):
    """One line of the sum: what, how much, in which unit, and how it comes about."""

    label: str
    value: int
    unit: str
    how: str


@dataclass(frozen=True, kw_only=True)
class KvBudget:
    """How many tokens the KV cache holds, and the sum that says so.

    Parameters
    ----------
    kv_tokens
        The budget: tokens in the usable blocks. The same on every GPU of a tensor-parallel group.
    usable_blocks
        Blocks that requests can get.
    blocks
        All blocks, with the one that the engine keeps.
    block_size
        Tokens in a block.
    total_tokens
        Tokens in all blocks.
    kv_bytes
        Memory for the KV cache on each GPU, in bytes; ``None`` when only a number of blocks was
        given.
    bytes_per_token
        On each GPU; ``None`` when no model was given.
    steps
        The sum, line by line.
    notes
        What was taken for granted, one line each.
    """

    kv_tokens: int
    usable_blocks: int
    blocks: int
    block_size: int
    total_tokens: int
    kv_bytes: int | None
    bytes_per_token: int | None
    steps: tuple[Step, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the budget as plain data for JSON."""
        return asdict(self) | {
            "steps": [step._asdict() for step in self.steps],
            "notes": list(self.notes),
        }


def kv_budget(
    config: KvShape | str | Path | None = None,
    *,
    gpu_memory: int | None = None,
    utilisation: float | Fraction = 0.9,
    weights: int = 0,
    overhead: int = 0,
    kv_memory: int | None = None,
    num_gpu_blocks: int | None = None,
    tensor_parallel: int = 1,
    block_size: int = 16,
    kv_cache_dtype: str = "auto",
    full_attention: bool = False,
) -> KvBudget:
    """Work out how many tokens fit into the KV cache.

    The memory comes from ``gpu_memory`` (less the rest) or is given as ``kv_memory``; or the blocks
    are given as ``num_gpu_blocks``, and with these alone no model is needed.

    Parameters
    ----------
    config
        The model: its config.json, or the shape read from it.
    gpu_memory
        Memory of one GPU, in bytes. Never summed over GPUs.
    utilisation
        Share of it that the engine may use, in (0, 1]; a float is taken as the decimal number it
        prints as. vLLM's own default is 0.9 in older versions, 0.92 in newer ones.
    weights
        Bytes of the weights of the whole model; a tensor-parallel group shares them evenly.
    overhead
        Bytes that activations and CUDA graphs take on each GPU.
    kv_memory
        Bytes for the KV cache on each GPU, as with ``--kv-cache-memory-bytes``.
    num_gpu_blocks
        All blocks, as with ``--num-gpu-blocks-override``.
    tensor_parallel
        GPUs that share one model. They split the KV heads, each keeping at least one.
    block_size
        Tokens in a block.
    kv_cache_dtype
        ``auto`` or a key of :data:`~sortedf.engine.kv_dtype.KV_BYTES`.
    full_attention
        As in :func:`read_config`, which is called when ``config`` is a file.

    Raises
    ------
    InputError
        When the config.json does not give the sizes.
    OptionError
        When an option is out of range, or too little memory is left for the KV cache.
    """
    for name, size, least in (
        ("weights", weights, 0),
        ("overhead", overhead, 0),
        ("tensor_parallel", tensor_parallel, 1),
        ("block_size", block_size, 1),
        ("gpu_memory", gpu_memory, 1),
        ("kv_memory", kv_memory, 1),
        ("num_gpu_blocks", num_gpu_blocks, 1),
    ):
        _check_whole(name, size, least)
    if gpu_memory is not None and kv_memory is not None:
        raise OptionError("gpu_memory and kv_memory are both given; give one of them")
    if gpu_memory is None and kv_memory is None and num_gpu_blocks is None:
        raise OptionError("no memory is given; give gpu_memory, kv_memory or num_gpu_blocks")

    total = _Sum()
    kv_bytes = kv_memory
    if kv_memory is not None:
        total.add("memory for the KV cache", kv_memory, "bytes", "given, on each GPU")
    elif gpu_memory is not None:
        share = _share(utilisation)
        kv_bytes = _memory_left(total, gpu_memory, share, weights, overhead, tensor_parallel)

    per_token = None
    if config is not None:
        shape = config if isinstance(config, KvShape) else _read(config, full_attention)
        per_token = _bytes_per_token(total, shape, tensor_parallel, kv_cache_dtype)
    elif num_gpu_blocks is None:
        raise OptionError("no model is given; give its config.json (or num_gpu_blocks alone)")

    blocks = _blocks(total, kv_bytes, per_token, block_size, num_gpu_blocks)
    total_tokens = total.add(
        "tokens in all blocks", blocks * block_size, "tokens", f"{blocks} x {block_size}"
    )
    usable = total.add(
        "usable blocks", blocks - RESERVED_BLOCKS, "blocks", "vLLM keeps one block for itself"
    )
    kv_tokens = total.add(
        "KV budget", usable * block_size, "tokens", f"{usable} x {block_size}, for --kv-tokens"
    )
    total.notes.append(
        f"a sequence takes whole blocks, ceil((prompt + output) / {block_size}) of them: "
        f"plan with --block-size {block_size}"
    )
    return KvBudget(
        kv_tokens=kv_tokens,
        usable_blocks=usable,
        blocks=blocks,
        block_size=block_size,
        total_tokens=total_tokens,
        kv_bytes=kv_bytes,
        bytes_per_token=per_token,
        steps=tuple(total.steps),
        notes=tuple(total.notes),
    )


class _Sum:
    """The lines of the sum as they come."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.notes: list[str] = []

    def add(self, label: str, value: int, unit: str, how: str) -> int:
        self.steps.append(Step(label, value, unit, how))
        return value


def _memory_left(
    total: _Sum, gpu_memory: int, share: Fraction, weights: int, overhead: int, ranks: int
) -> int:
    """Bytes left for the KV cache on one GPU."""
    total.add("memory of one GPU", gpu_memory, "bytes", "given")
    usable = total.add(
        "the engine may use", int(gpu_memory * share), "bytes", f"x utilisation {float(share):g}"
    )
    part = -(-weights // ranks)
    total.add("weights", part, "bytes", _given(weights, ranks))
    total.add("activations and graphs", overhead, "bytes", _given(overhead))
    left = usable - part - overhead
    if left <= 0:
        raise OptionError(
            f"no memory is left for the KV cache: weights ({part} bytes) and overhead ({overhead} "
            f"bytes) take all {usable} bytes that the engine may use on a GPU, and {-left} more; "
            "give more memory, a higher utilisation or more GPUs"
        )
    if not weights:
        total.notes.append("the weights are taken as 0 bytes: give them, or the budget is too high")
    if not overhead:
        total.notes.append(
            "activations and graphs are taken as 0 bytes: vLLM's log says what they take"
        )
    return total.add("memory for the KV cache", left, "bytes", "what is left")


def _given(size: int, ranks: int = 1) -> str:
    if not size:
        return "none given"
    return f"{size} over {ranks} GPUs" if ranks > 1 else "given"


def _bytes_per_token(total: _Sum, shape: KvShape, ranks: int, kv_cache_dtype: str) -> int:
    """Bytes that a token takes in the KV cache of one GPU."""
    heads = shape.heads_on_a_gpu(ranks)
    try:
        width, why = kv_value_bytes(kv_cache_dtype, shape.dtype, shape.checkpoint_kv_dtype)
    except ValueError as error:
        if kv_cache_dtype != "auto":
            raise OptionError(str(error)) from None
        raise InputError([Fault(shape.source, None, str(error))]) from None
    total.notes.extend(f"{shape.source}: {note}" for note in shape.notes)
    total.add("bytes per value", width, "bytes", why)
    if shape.latent:
        sort = f"{shape.layers} layers x latent of {shape.head_dim} (MLA, whole on each GPU)"
        values = shape.layers * shape.head_dim
    else:
        sort = f"2 (K and V) x {shape.layers} layers x {heads} heads x {shape.head_dim}"
        values = 2 * shape.layers * heads * shape.head_dim
    if ranks > 1 and not shape.latent:
        split = f"{shape.kv_heads} over {ranks} GPUs, at least 1"
        total.add("KV heads on a GPU", heads, "heads", split)
    return total.add("KV cache per token", values * width, "bytes", f"{sort} x {width}")


def _blocks(
    total: _Sum, kv_bytes: int | None, per_token: int | None, block_size: int, given: int | None
) -> int:
    """All blocks: those that the memory holds, or as many as are given."""
    if per_token is None:
        block_bytes, fit = None, None
    else:
        how = f"{block_size} tokens x {per_token}"
        block_bytes = total.add("a block", per_token * block_size, "bytes", how)
        fit = None if kv_bytes is None else kv_bytes // block_bytes
    if given is not None and fit is not None and given > fit:
        raise OptionError(
            f"num_gpu_blocks {given} is more than fits: the memory holds {fit} blocks"
        )
    blocks = fit if given is None else given
    assert blocks is not None, "either a number of blocks or a model and memory is given"
    if blocks <= RESERVED_BLOCKS:
        least = RESERVED_BLOCKS + 1
        short = ""
        if kv_bytes is not None and block_bytes is not None:
            short = f", {least * block_bytes} bytes, {least * block_bytes - kv_bytes} more than now"
        raise OptionError(
            f"the KV cache has {blocks} blocks and the engine keeps one of them, so no request "
            f"fits; make room for at least {least} blocks{short}"
        )
    how = "whole blocks that fit" if given is None else "given"
    return total.add("blocks", blocks, "blocks", how)


def _read(config: object, full_attention: bool) -> KvShape:
    if not isinstance(config, str | Path):
        raise OptionError("the model is given by the path of its config.json")
    return read_config(config, full_attention=full_attention)


def _share(value: float | Fraction) -> Fraction:
    """Read the utilisation as the decimal number that it is written as."""
    number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:  # also false for nan
        raise OptionError(f"utilisation {value!r} is not a share; give one above 0 and up to 1")
    return Fraction(str(value))


def _check_whole(name: str, value: object, least: int) -> None:
    if value is not None and (type(value) is not int or value < least):
        raise OptionError(f"{name} {value!r} is not a whole number of at least {least}")

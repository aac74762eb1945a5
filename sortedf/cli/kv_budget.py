"""`sortedf kv-budget`: how many tokens fit in the KV cache."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Annotated

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.quantities import parse_bytes, parse_share
from sortedf.errors import OptionError

Bytes = int | None
DEFAULT_UTILISATION = Fraction("0.9")
_bytes_or_none = partial(parse_bytes, minimum=0)


def kv_budget(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="The model's config.json.")
    ] = None,
    gpu_memory: Annotated[
        Bytes, options.quantity("--gpu-memory", parse_bytes, "SIZE", "Memory of one GPU: 80GiB.")
    ] = None,
    utilisation: Annotated[
        Fraction | None,
        typer.Option(
            "--utilisation",
            "--utilization",
            parser=options.parsed(parse_share),
            metavar="SHARE",
            show_default="0.9",
            help="Share of the memory that the engine may use.",
        ),
    ] = None,
    weights: Annotated[
        Bytes, options.quantity("--weights", _bytes_or_none, "SIZE", "Weights of the whole model.")
    ] = None,
    overhead: Annotated[
        Bytes,
        options.quantity(
            "--overhead", _bytes_or_none, "SIZE", "Activations and graphs, on each GPU."
        ),
    ] = None,
    kv_memory: Annotated[
        Bytes,
        options.quantity(
            "--kv-memory", parse_bytes, "SIZE", "KV cache on each GPU, instead of --gpu-memory."
        ),
    ] = None,
    num_gpu_blocks: Annotated[
        int | None, typer.Option(metavar="N", help="Number of blocks, as the engine logs it.")
    ] = None,
    tensor_parallel: Annotated[
        int, typer.Option(metavar="R", help="GPUs that share one model.")
    ] = 1,
    block_size: Annotated[int, typer.Option(metavar="B", help="Tokens in a KV block.")] = 16,
    kv_cache_dtype: Annotated[
        str, typer.Option(metavar="TYPE", help="auto, fp8, bfloat16, float16, ...")
    ] = "auto",
    full_attention: Annotated[
        bool,
        typer.Option(
            "--full-attention",
            help="Count sliding-window layers as full ones (engine without hybrid KV cache).",
        ),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the tokens that fit in a KV cache.

    Each step of the sum is shown.
    """
    from sortedf import engine

    sources = {"--gpu-memory": gpu_memory, "--kv-memory": kv_memory}
    shares = {"--utilisation": utilisation, "--weights": weights, "--overhead": overhead}
    if gpu_memory is None and (given := [name for name, v in shares.items() if v is not None]):
        raise OptionError(f"{', '.join(given)} only goes with --gpu-memory")
    if config is None and (given := [name for name, v in sources.items() if v is not None]):
        raise OptionError(f"{', '.join(given)} needs the model: --config config.json")
    budget = engine.kv_budget(
        config,
        gpu_memory=gpu_memory,
        utilisation=DEFAULT_UTILISATION if utilisation is None else utilisation,
        weights=weights or 0,
        overhead=overhead or 0,
        kv_memory=kv_memory,
        num_gpu_blocks=num_gpu_blocks,
        tensor_parallel=tensor_parallel,
        block_size=block_size,
        kv_cache_dtype=kv_cache_dtype,
        full_attention=full_attention,
    )
    console = Console(quiet=quiet)
    for note in budget.notes:
        console.note(f"note: {note}")
    if json:
        console.json(budget.as_dict())
    else:
        from sortedf.report import tables

        console.show(tables.kv_budget(budget.as_dict()))

"""The options of `sortedf run`: what is run, on what, and what a resumed run remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from sortedf.errors import OptionError


@dataclass(frozen=True)
class Arguments:
    """Arguments of a real engine, by vLLM's names."""

    dtype: Annotated[
        str | None, typer.Option(metavar="NAME", help="vllm, transformers: type of the weights.")
    ] = None
    load_format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="vllm, transformers: dummy makes random weights."),
    ] = None
    gpu_memory_utilization: Annotated[
        float | None,
        typer.Option(metavar="X", help="vllm, transformers: share of the GPU's memory to take."),
    ] = None
    kv_cache_memory_bytes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="vllm: bytes of the KV cache.")
    ] = None
    tensor_parallel_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="vllm: GPUs that share the model.")
    ] = None
    enforce_eager: Annotated[
        bool,
        typer.Option("--enforce-eager", help="vllm, transformers: no CUDA graphs, no compilation."),
    ] = False
    in_process: Annotated[
        bool, typer.Option("--in-process", help="vllm: no process of its own for the engine.")
    ] = False

    def given(self) -> dict[str, Any]:
        """Give what is not left out, as the engine takes it."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, False)}
        if given.pop("in_process", False):
            given["own_process"] = False
        return given


@dataclass(frozen=True)
class Serving:
    """What is run, and with what. ``None`` is what a resumed run remembers, or the default."""

    engine: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="replay, vllm or transformers.", show_default="replay"),
    ] = None
    model: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of the model.", show_default=False)
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Local tokenizer.", show_default="the model's"),
    ] = None
    handover: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the engine gets the plan: planned, priority, order, chunks.",
            show_default="planned",
        ),
    ] = None
    served_model_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What the bodies call the model; may be repeated.",
            show_default="path and folder of the model",
        ),
    ] = None
    any_model: Annotated[
        bool | None,
        typer.Option("--any-model", help="Answer whatever model a body names.", show_default=False),
    ] = None
    random_prompts: Annotated[
        bool | None,
        typer.Option(
            "--random-prompts",
            help="No BATCH: random prompts and outputs of the planned lengths.",
            show_default=False,
        ),
    ] = None
    output_error: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="No BATCH: outputs that are by this share longer or shorter than planned, at "
            "random.",
            show_default="as planned",
        ),
    ] = None
    run_seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            metavar="K",
            help="Seed of random prompts and of the engine.",
            show_default="0",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """Give what is not left out, by the names of :class:`sortedf.runner.RunOptions`."""
        return {
            name.removeprefix("run_"): value
            for name, value in asdict(self).items()
            if value not in (None, [])
        }


def check_named(options: Mapping[str, str | None]) -> None:
    """See that no option is an empty text, as by a variable of the shell that is not set."""
    for name, value in options.items():
        if value == "":
            raise OptionError(f"{name} is empty; give it a name or leave it out")


def check_target(folder: str | None, resume: str | None) -> None:
    """See that exactly one of ``-o`` and ``--resume`` names the folder."""
    if folder is None and resume is None:
        raise OptionError(
            "-o DIR is missing: the folder of the run (--resume DIR goes on with one)"
        )
    if folder is not None and resume is not None:
        raise OptionError("-o begins a run, --resume goes on with one; give one of them")

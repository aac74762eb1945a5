"""The options that say how long steps take, and how the engine is started, by vLLM's names."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.engine import Calibration

StepTimes = Annotated[
    str | None,
    typer.Option(
        "--steptime",
        metavar="FILE",
        help="Step times: a file (see sortedf calibrate), or the name of a packaged set.",
        show_default=False,
    ),
]

_NAMES = {
    "engine_block_size": "block_size",
    "chunked_prefill": "enable_chunked_prefill",
    "prefix_caching": "enable_prefix_caching",
    "engine_version": "version",
}
"""Settings whose options are called otherwise."""


@dataclass(frozen=True)
class Started:
    """How an engine is started; what is left out is the plan's, or vLLM's default."""

    num_gpu_blocks: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Blocks of the KV cache.",
            show_default="what holds the plan's budget",
        ),
    ] = None
    engine_block_size: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="B", help="Tokens in a block.", show_default="the plan's, or 16"
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most tokens in a step.", show_default="8192"),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most requests at once.", show_default="256"),
    ] = None
    max_model_len: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Most tokens of a request.", show_default="no limit"),
    ] = None
    long_prefill_token_threshold: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Most tokens of one request in a step.", show_default="no cap"
        ),
    ] = None
    chunked_prefill: Annotated[
        bool | None,
        typer.Option(
            help="Whether a prompt may be computed in several steps.",
            show_default="chunked-prefill",
        ),
    ] = None
    prefix_caching: Annotated[
        bool | None,
        typer.Option(
            help="Whether preempted requests find their blocks again.",
            show_default="no-prefix-caching",
        ),
    ] = None
    async_scheduling: Annotated[
        bool | None,
        typer.Option(
            help="Whether a step is scheduled while the one before runs.",
            show_default="async-scheduling",
        ),
    ] = None
    engine_version: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Whose scheduler: 0.32, 0.19.", show_default="0.32"),
    ] = None

    def given(self) -> dict[str, Any]:
        """Give what is not left out, by the names of :class:`sortedf.engine.EngineSettings`."""
        return {
            _NAMES.get(name, name): value
            for name, value in asdict(self).items()
            if value is not None
        }

    def named(self) -> dict[str, Any]:
        """Give the same, the version by what it is."""
        from sortedf.engine.settings import with_version

        return with_version(self.given())


@dataclass(frozen=True)
class Engine(Started):
    """The engine that runs a plan."""

    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who is admitted when: planned, by the plan's order with room kept for outputs; "
            "fcfs, priority: vLLM's own, handed this order.",
            show_default="planned",
        ),
    ] = None

    def settings(self, step_times: Calibration) -> dict[str, Any]:
        """Give the same, checked; with prefix caching, prompts share what a calibration says."""
        from sortedf.engine.settings import check_settings

        return check_settings(self.given(), step_times.shared_blocks)

    def refuse(self) -> None:
        """Refuse options of an engine where there is none."""
        for name in (name for name, value in asdict(self).items() if value is not None):
            raise OptionError(f"--{name.replace('_', '-')} is of --steptime, which is missing")


@dataclass(frozen=True)
class RunEngine(Started):
    """The engine that made a run, where one knows it better than the folder."""

    shared_blocks: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Blocks that all prompts share.",
            show_default="found by the training error",
        ),
    ] = None

    def named(self) -> dict[str, Any]:
        """Give what is not left out as :func:`sortedf.engine.read_run` takes it."""
        settings = super().named()
        settings.pop("shared_blocks", None)  # not the folder's: a calibration finds or is given it
        return settings


def _of_the_folder(hint: Any) -> Any:
    """Give an option whose default is what a run folder says."""
    kind, option = get_args(hint)
    option = copy(option)
    option.show_default = "what the folder says"
    return Annotated[kind, option]


RunEngine.__annotations__ |= {
    name: _of_the_folder(hint)
    for name, hint in get_type_hints(Started, include_extras=True).items()
}

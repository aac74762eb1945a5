"""The options that say how the engine is started, under vLLM's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.engine import EngineSettings

SteptimeFile = Annotated[
    str | None,
    typer.Option(
        "--steptime",
        metavar="FILE",
        help="Step times: a file that calibrate has written.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Engine:
    """How the engine is started; what is left out is vLLM's default."""

    num_gpu_blocks: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Blocks of the KV cache; by default what holds the plan's budget.",
            show_default=False,
        ),
    ] = None
    engine_block_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="B", help="Tokens in a block.", show_default="16"),
    ] = None
    max_num_batched_tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most tokens in a step.")
    ] = 8192
    max_num_seqs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most requests that run at once.")
    ] = 256
    max_model_len: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Most tokens of a request.", show_default="no limit"),
    ] = None
    long_prefill_token_threshold: Annotated[
        int, typer.Option(min=0, metavar="N", help="Most tokens of one request in a step; 0: all.")
    ] = 0
    chunked_prefill: Annotated[
        bool, typer.Option(help="Whether a prompt may be computed in several steps.")
    ] = True
    prefix_caching: Annotated[
        bool, typer.Option(help="Whether preempted requests find their blocks again.")
    ] = False
    async_scheduling: Annotated[
        bool, typer.Option(help="Whether a step is scheduled while the one before runs.")
    ] = True
    engine_version: Annotated[
        str, typer.Option(metavar="VERSION", help="Whose scheduler: 0.32, 0.19.")
    ] = "0.32"

    def settings(
        self, kv_tokens: int, block_size: int | None = None, shared_blocks: int = 0
    ) -> EngineSettings:
        """Build the settings of an engine that holds a KV budget, in blocks of this size."""
        from sortedf.engine.kv_budget import RESERVED_BLOCKS
        from sortedf.engine.settings import VERSIONS, EngineSettings

        version = VERSIONS.get(f"vLLM {self.engine_version}")
        if version is None:
            known = ", ".join(name.removeprefix("vLLM ") for name in VERSIONS)
            raise OptionError(f"--engine-version is {self.engine_version!r}; known are {known}")
        size = self.engine_block_size or block_size or 16
        blocks = self.num_gpu_blocks or kv_tokens // size + RESERVED_BLOCKS
        if blocks <= RESERVED_BLOCKS:
            raise OptionError(f"a KV budget of {kv_tokens} tokens holds no block of {size}")
        return EngineSettings(
            num_gpu_blocks=blocks,
            block_size=size,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.max_model_len,
            long_prefill_token_threshold=self.long_prefill_token_threshold,
            enable_chunked_prefill=self.chunked_prefill,
            enable_prefix_caching=self.prefix_caching,
            shared_blocks=shared_blocks if self.prefix_caching else 0,
            async_scheduling=self.async_scheduling,
            version=version,
        )

"""A plan on a GPU: predicted before the run against realized, beside other orders.

    python bench/gpu_validate.py [--minutes 10] [--model-size auto|small|8b] [--backlog mix|azure]
                                 [--requests 400] [--device cuda|cpu] [--keep DIR]

One prepared check for a machine with CUDA. vLLM is that of this Python, or of the one that
SORTEDF_VLLM_PYTHON names; the model has the shape of Llama 3.1 8B (or of Llama 3.2 1B) and random
weights in bfloat16, so that nothing is downloaded. The KV cache holds a tenth of the backlog, in
blocks of 16; steps are scheduled while the one before runs. Step times are calibrated on a run of
another draw, the plan is made by `improve`, predicted and run, then arrival order (fcfs) and
shortest output (mcsf), which the engine's own scheduler is handed. The engine is started three
times, which takes most of the time.

Tables to stdout, progress to stderr, run folders into DIR. Exit codes: 0 measured; 1 something
failed, or the minutes were over; 77 there is no engine with CUDA, nothing was measured.
``--device cpu`` tries the script itself on the CPU engine with a tiny model; figures say nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from validate_engine import LARGEST, Engine, cpu_engine, lengths, measure, print_figures

NO_CUDA = 77

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "vocab_size": 128256,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "torch_dtype": "bfloat16",
}
SIZES: dict[str, dict[str, Any]] = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
    "small": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "head_dim": 64,
        "tie_word_embeddings": True,
    },
}
ROOMY = 24 << 30
"""Bytes of GPU memory from which on the larger model is taken: its weights are 16 GB."""

BLOCK_SIZE = 16
LONGEST = 2048
"""Tokens of prompt and output of the largest request."""

OTHERS = ("fcfs", "mcsf")

ASK = """
import json, torch, vllm
found = torch.cuda.is_available()
told = torch.cuda.get_device_properties(0) if found else None
print(json.dumps({
    "vllm": vllm.__version__, "torch": torch.__version__, "cuda": found,
    "name": told and told.name, "memory": told and told.total_memory,
}))
"""


class Gpu(NamedTuple):
    """An engine with CUDA: the Python that has it, what it is, and its memory (bytes)."""

    python: str
    told: str
    memory: int


def find_gpu() -> Gpu | None:
    """Find an engine with CUDA; says why there is none."""
    python = os.environ.get("SORTEDF_VLLM_PYTHON", sys.executable)
    try:
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    except OSError as error:
        print(f"{python}: {error.strerror}")
        return None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        print(f"{python} has no vLLM with PyTorch: {last}")
        return None
    found = json.loads(done.stdout.splitlines()[-1])
    versions = f"vLLM {found['vllm']}, PyTorch {found['torch']}"
    if not found["cuda"]:
        print(f"{python}: {versions}, which finds no device with CUDA")
        return None
    memory = found["memory"] / (1 << 30)
    return Gpu(python, f"{found['name']}, {memory:.0f} GiB, {versions}", found["memory"])


def gpu_engine(gpu: Gpu, size: str, model: Path) -> Engine:
    """Give vLLM on the GPU, with a model of random weights."""
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps({**LLAMA, **SIZES[size]}))
    arguments = (
        *("--engine", "vllm", "--model", str(model), "--load-format", "dummy"),
        *("--dtype", "bfloat16", "--async-scheduling"),
        *(
            "--max-model-len",
            str(LONGEST),
            "--max-num-batched-tokens",
            "8192",
            "--max-num-seqs",
            "256",
        ),
    )
    return Engine(python=gpu.python, arguments=arguments, block_size=BLOCK_SIZE, environment={})


def main() -> int:
    """Print tables, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="after which it gives up")
    parser.add_argument("--model-size", choices=("auto", *SIZES), default="auto")
    parser.add_argument("--backlog", choices=("mix", "azure"), default="mix")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=1, help="medians of so many")
    parser.add_argument("--plan-seconds", type=float, default=10.0, help="that improve searches")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run folders here")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    draws = [lengths(options.backlog, options.requests, seed) for seed in range(2)]
    told = [draw for draw in draws if draw is not None]
    if len(told) < len(draws):
        sys.exit(f"the file of {options.backlog} is not there; take --backlog mix")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        if options.device == "cpu":
            engine, largest = cpu_engine(folder / "model"), LARGEST
            print("on the CPU, a tiny model: a trial of this script")
        else:
            gpu = find_gpu()
            if gpu is None:
                print("no engine with CUDA was found; nothing was measured")
                return NO_CUDA
            size = options.model_size
            if size == "auto":
                size = "8b" if gpu.memory >= ROOMY else "small"
            engine, largest = gpu_engine(gpu, size, folder / "model"), LONGEST
            print(f"{gpu.told}; a Llama of the size {size}, random weights in bfloat16")
        measured = measure(
            options.backlog,
            told,
            replace(engine, deadline=deadline),
            folder / options.backlog,
            largest=largest,
            repeats=options.repeats,
            plan_seconds=options.plan_seconds,
            error=None,
            others=OTHERS,
        )
        print_figures([measured])
        print(f"\n{options.minutes - (deadline - time.monotonic()) / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

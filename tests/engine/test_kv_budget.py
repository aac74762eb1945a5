"""The sum from memory and model to a KV budget in tokens."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.engine import KvBudget, KvShape, kv_budget, kv_shape
from sortedf.errors import InputError, OptionError

GIB = 2**30
LLAMA = KvShape(layers=32, attention_heads=32, kv_heads=8, head_dim=128, dtype="bfloat16")
SMALL = KvShape(layers=4, attention_heads=8, kv_heads=2, head_dim=64, dtype="bfloat16")
LATENT = KvShape(
    layers=61, attention_heads=128, kv_heads=1, head_dim=576, latent=True, dtype="bfloat16"
)
TINY: dict[str, object] = {
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "hidden_size": 1,
}


def values(budget: KvBudget) -> dict[str, int]:
    return {step.label: step.value for step in budget.steps}


@pytest.mark.parametrize(
    ("name", "memory", "per_token", "tokens"),
    [
        ("config_gqa", 16 * GIB, 131072, 131072),
        ("config_head_dim", GIB, 2048, 524288),
        ("config_kv_null", GIB, 4096, 262144),
        ("config_nested", GIB, 2048, 524288),
    ],
)
def test_case_43_grouped_heads_and_head_dim(
    shared: Path, name: str, memory: int, per_token: int, tokens: int
) -> None:
    """KV heads and head size come from their keys, null is all heads, text_config is read."""
    path = shared / "cases" / "43-kv-gqa-head-dim" / f"{name}.json"
    budget = kv_budget(path, kv_memory=memory)
    assert budget.bytes_per_token == per_token
    assert budget.total_tokens == tokens
    assert budget.blocks == tokens // 16
    assert budget.kv_tokens == tokens - 16


@pytest.mark.parametrize(
    ("ranks", "per_token", "tokens"),
    [(1, 2048, 524288), (2, 1024, 1048576), (4, 1024, 1048576), (8, 1024, 1048576)],
)
def test_case_45_more_ranks_than_kv_heads(
    shared: Path, ranks: int, per_token: int, tokens: int
) -> None:
    """Each GPU keeps at least one KV head, and its own memory alone sets the budget."""
    path = shared / "cases" / "45-kv-tp-over-kv-heads" / "config.json"
    budget = kv_budget(path, kv_memory=GIB, tensor_parallel=ranks)
    assert budget.bytes_per_token == per_token
    assert budget.total_tokens == tokens


def test_case_45_ranks_that_do_not_divide_the_heads(shared: Path) -> None:
    """3 GPUs cannot share 8 heads."""
    path = shared / "cases" / "45-kv-tp-over-kv-heads" / "config.json"
    with pytest.raises(OptionError, match="3 does not divide the 8 attention heads"):
        kv_budget(path, kv_memory=GIB, tensor_parallel=3)


@pytest.mark.parametrize(
    ("dtype", "per_token", "tokens"),
    [
        ("auto", 131072, 131072),
        ("fp8", 65536, 262144),
        ("fp8_e4m3", 65536, 262144),
        ("fp8_e5m2", 65536, 262144),
    ],
)
def test_case_47_fp8_halves_the_bytes(
    shared: Path, dtype: str, per_token: int, tokens: int
) -> None:
    """The KV cache has a type of its own."""
    path = shared / "cases" / "47-kv-fp8" / "config.json"
    budget = kv_budget(path, kv_memory=16 * GIB, kv_cache_dtype=dtype)
    assert (budget.bytes_per_token, budget.total_tokens) == (per_token, tokens)


def test_case_47_an_unknown_type_is_refused(shared: Path) -> None:
    """int3 is refused, with the types that are known."""
    path = shared / "cases" / "47-kv-fp8" / "config.json"
    with pytest.raises(OptionError, match=r"'int3' is not known; use auto, fp8"):
        kv_budget(path, kv_memory=GIB, kv_cache_dtype="int3")


def test_case_49_one_block_is_kept_and_the_rule_for_blocks_is_told() -> None:
    """Of 50 blocks of 16 tokens, 49 are usable: 784 tokens; sequences take whole blocks."""
    budget = kv_budget(num_gpu_blocks=50, block_size=16)
    assert (budget.blocks, budget.usable_blocks) == (50, 49)
    assert (budget.total_tokens, budget.kv_tokens) == (800, 784)
    assert "ceil((prompt + output) / 16)" in budget.notes[-1]


def test_every_step_of_the_sum_is_shown() -> None:
    """The steps lead from the memory of a GPU to the tokens, each with its own figure."""
    budget = kv_budget(
        LLAMA, gpu_memory=80 * GIB, weights=16 * GIB + 1, overhead=2 * GIB, tensor_parallel=2
    )
    usable = 80 * GIB * 9 // 10
    left = usable - (8 * GIB + 1) - 2 * GIB
    assert values(budget) == {
        "memory of one GPU": 80 * GIB,
        "the engine may use": usable,
        "weights": 8 * GIB + 1,
        "activations and graphs": 2 * GIB,
        "memory for the KV cache": left,
        "bytes per value": 2,
        "KV heads on a GPU": 4,
        "KV cache per token": 65536,
        "a block": 2**20,
        "blocks": left // 2**20,
        "tokens in all blocks": left // 2**20 * 16,
        "usable blocks": left // 2**20 - 1,
        "KV budget": (left // 2**20 - 1) * 16,
    }
    assert budget.kv_bytes == left
    assert budget.kv_tokens == budget.steps[-1].value
    assert len(budget.notes) == 1


def test_what_is_taken_as_nothing_is_noted() -> None:
    """Weights and overhead that are not given are 0 bytes, and the notes say so."""
    notes = kv_budget(LLAMA, gpu_memory=80 * GIB).notes
    assert "weights are taken as 0" in notes[0]
    assert "activations and graphs are taken as 0" in notes[1]


def test_the_budget_is_plain_data() -> None:
    """The budget goes through JSON unchanged."""
    plain = kv_budget(LLAMA, kv_memory=GIB).as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["kv_tokens"] == 8176


def test_utilisation_is_exact() -> None:
    """0.9 is nine tenths: of 10 GiB, exactly 9 GiB, whatever type it comes as."""
    for share in (0.9, Fraction(9, 10)):
        budget = kv_budget(LLAMA, gpu_memory=10 * GIB, utilisation=share)
        assert budget.kv_bytes == 9 * GIB
    assert kv_budget(LLAMA, gpu_memory=10 * GIB, utilisation=1).kv_bytes == 10 * GIB


@pytest.mark.parametrize("ranks", [1, 2, 8, 128])
def test_a_latent_is_whole_on_each_gpu(ranks: int) -> None:
    """Latent attention keeps rank + rotary values per layer, not doubled and not split."""
    budget = kv_budget(LATENT, kv_memory=GIB, tensor_parallel=ranks)
    assert budget.bytes_per_token == 70272


def test_ranks_beside_the_kv_heads_are_refused() -> None:
    """4 GPUs can share 24 attention heads but not 6 KV heads."""
    shape = KvShape(layers=2, attention_heads=24, kv_heads=6, head_dim=64)
    with pytest.raises(OptionError, match="neither a divisor nor a multiple of the 6 KV heads"):
        kv_budget(shape, kv_memory=GIB, tensor_parallel=4)


@pytest.mark.parametrize(
    ("dtype", "width", "why"),
    [
        ("bfloat16", 2, "the model's dtype bfloat16"),
        ("float16", 2, "the model's dtype float16"),
        ("torch.float16", 2, "the model's dtype float16"),
        ("float32", 2, "float32 models run in 16 bits"),
        (None, 2, "no dtype in the file"),
    ],
)
def test_auto_is_what_the_engine_makes_of_the_models_type(
    dtype: str | None, width: int, why: str
) -> None:
    """Models of any type are run in 16 bits unless vLLM is told otherwise; the step says why."""
    step = kv_budget(kv_shape(TINY | {"dtype": dtype}), kv_memory=GIB).steps[1]
    assert step.value == width
    assert why in step.how


def test_float32_can_be_asked_for() -> None:
    """An engine run with --dtype float32 has a KV cache of 4 bytes per value."""
    assert kv_budget(LLAMA, kv_memory=GIB, kv_cache_dtype="float32").bytes_per_token == 262144


def test_a_type_that_says_nothing_of_the_cache_is_refused_under_auto_only() -> None:
    """An fp8 dtype of the model is no type of the cache; giving one helps."""
    shape = kv_shape(TINY | {"torch_dtype": "float8_e4m3fn"}, source="config.json")
    with pytest.raises(InputError, match=r"config\.json: the model's dtype 'float8_e4m3fn'"):
        kv_budget(shape, kv_memory=GIB)
    assert kv_budget(shape, kv_memory=GIB, kv_cache_dtype="bfloat16").bytes_per_token == 4


@pytest.mark.parametrize(
    ("quantisation", "width"),
    [
        ({"quant_method": "fp8"}, 2),
        ({"quant_method": "awq", "bits": 4}, 2),
        ({"quant_method": "fp8", "kv_cache_scheme": "static"}, 2),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, 2),
        (
            {"quant_method": "compressed-tensors"}
            | {"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}},
            1,
        ),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, 1),
        ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}}, 1),
    ],
)
def test_quantised_weights_leave_the_cache_alone_unless_the_checkpoint_asks(
    quantisation: dict[str, object], width: int
) -> None:
    """A quantised model keeps a 16-bit KV cache, unless its own format asks for 8 bits."""
    shape = kv_shape(TINY | {"torch_dtype": "bfloat16", "quantization_config": quantisation})
    assert kv_budget(shape, kv_memory=GIB).bytes_per_token == 2 * width


def test_a_cache_type_of_unknown_size_is_refused() -> None:
    """A checkpoint that asks for nvfp4 is refused under auto, as its size is not known."""
    quantisation = {"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}
    shape = kv_shape(TINY | {"quantization_config": quantisation})
    with pytest.raises(InputError, match="wants a KV cache of 'nvfp4'"):
        kv_budget(shape, kv_memory=GIB)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no memory is given"),
        ({"gpu_memory": GIB, "kv_memory": GIB}, "both given"),
        ({"gpu_memory": 0}, "gpu_memory 0 is not a whole number of at least 1"),
        ({"gpu_memory": True}, "gpu_memory True"),
        ({"gpu_memory": 1e9}, "gpu_memory 1000000000.0"),
        ({"kv_memory": GIB, "weights": -1}, "weights -1 is not a whole number of at least 0"),
        ({"kv_memory": GIB, "block_size": 0}, "block_size 0"),
        ({"kv_memory": GIB, "tensor_parallel": 0}, "tensor_parallel 0"),
        ({"gpu_memory": GIB, "utilisation": 0}, "utilisation 0 is not a share"),
        ({"gpu_memory": GIB, "utilisation": 1.01}, "utilisation 1.01"),
        ({"gpu_memory": GIB, "utilisation": float("nan")}, "utilisation nan"),
        ({"gpu_memory": GIB, "utilisation": True}, "utilisation True"),
        ({"num_gpu_blocks": 1}, "has 1 blocks and the engine keeps one"),
        ({"kv_memory": 2 * 2**21 - 1}, "4194304 bytes, 1 more than now"),
        ({"kv_memory": 4 * 2**21, "num_gpu_blocks": 5}, "the memory holds 4 blocks"),
        ({"gpu_memory": 10 * GIB, "weights": 9 * GIB}, "take all 9663676416 bytes"),
        ({"gpu_memory": 10 * GIB, "weights": 9 * GIB, "overhead": 5}, "on a GPU, and 5 more"),
    ],
)
def test_options_that_leave_no_budget_are_refused(options: dict[str, Any], message: str) -> None:
    """Options out of range and too little memory are told with the figures."""
    with pytest.raises(OptionError) as caught:
        kv_budget(LLAMA, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_memory_needs_a_model() -> None:
    """Memory without a model says nothing of tokens."""
    with pytest.raises(OptionError, match="no model is given"):
        kv_budget(kv_memory=GIB)


def test_a_model_is_a_path_or_a_shape() -> None:
    """Anything else in place of the model is refused."""
    config: Any = {"num_hidden_layers": 2}
    with pytest.raises(OptionError, match=r"path of its config\.json"):
        kv_budget(config, kv_memory=GIB)


@given(
    gpu_memory=st.integers(GIB, 200 * GIB),
    percent=st.integers(50, 100),
    weights=st.integers(0, GIB // 4),
    overhead=st.integers(0, GIB // 8),
    ranks=st.sampled_from([1, 2, 4, 8]),
    block_size=st.integers(1, 256),
)
def test_the_blocks_fit_and_one_more_would_not(
    gpu_memory: int, percent: int, weights: int, overhead: int, ranks: int, block_size: int
) -> None:
    """Blocks, weights and overhead fit into the share of the memory; one block more does not."""
    share = Fraction(percent, 100)
    budget = kv_budget(
        SMALL,
        gpu_memory=gpu_memory,
        utilisation=share,
        weights=weights,
        overhead=overhead,
        tensor_parallel=ranks,
        block_size=block_size,
    )
    assert budget.bytes_per_token is not None
    block = budget.bytes_per_token * block_size
    used = Fraction(weights, ranks) + overhead + budget.blocks * block
    assert used <= gpu_memory * share
    assert used + block > gpu_memory * share - 2
    assert budget.kv_tokens == (budget.blocks - 1) * block_size


@given(more=st.integers(0, GIB), ranks=st.sampled_from([1, 2, 4]))
def test_more_memory_and_more_gpus_never_hold_less(more: int, ranks: int) -> None:
    """The budget grows with the memory of a GPU and with the number of GPUs."""
    base = kv_budget(SMALL, kv_memory=GIB, tensor_parallel=ranks).kv_tokens
    assert kv_budget(SMALL, kv_memory=GIB + more, tensor_parallel=ranks).kv_tokens >= base
    assert kv_budget(SMALL, kv_memory=GIB, tensor_parallel=2 * ranks).kv_tokens >= base

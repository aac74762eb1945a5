"""The shape of a KV cache read from config.json files modelled on public models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.engine import kv_budget, kv_shape, read_config
from sortedf.engine.attention_kinds import kinds_unlike_full
from sortedf.engine.config_keys import HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS
from sortedf.errors import InputError, SortedfError


def model(kind: str | None, layers: int, heads: int, hidden: int, **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"num_hidden_layers": layers, "num_attention_heads": heads}
    config |= {"hidden_size": hidden, "torch_dtype": "bfloat16"}
    return config | ({"model_type": kind} if kind else {}) | more


def per_token(config: object, *, tensor_parallel: int = 1, kv_cache_dtype: str = "auto") -> int:
    budget = kv_budget(
        kv_shape(config),
        kv_memory=2**40,
        tensor_parallel=tensor_parallel,
        kv_cache_dtype=kv_cache_dtype,
    )
    assert budget.bytes_per_token is not None
    return budget.bytes_per_token


LLAMA = model("llama", 32, 32, 4096, num_key_value_heads=8)
QWEN2_5 = model("qwen2", 28, 28, 3584, num_key_value_heads=4)
QWEN2_5 |= {"sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28}
MISTRAL = model("mistral", 32, 32, 4096, num_key_value_heads=8, sliding_window=None)
DEEPSEEK = model("deepseek_v3", 61, 128, 7168, num_key_value_heads=128)
DEEPSEEK |= {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
DEEPSEEK |= {"v_head_dim": 128, "q_lora_rank": 1536, "num_nextn_predict_layers": 1}
FALCON = model("falcon", 32, 71, 4544, num_kv_heads=71, multi_query=True)
FALCON |= {"new_decoder_architecture": False}
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_ctx": 1024}
MPT: dict[str, Any] = {"model_type": "mpt", "n_layers": 32, "n_heads": 32, "d_model": 4096}
DBRX = MPT | {"model_type": "dbrx", "n_layers": 40, "n_heads": 48, "d_model": 6144}
CHATGLM = {"model_type": "chatglm", "num_layers": 28, "num_attention_heads": 32}
CHATGLM |= {"hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True}
GRANITE_MICRO = model("granitemoehybrid", 40, 40, 2560, num_key_value_heads=8, mamba_d_conv=4)
PHI3_128K = model("phi3", 32, 32, 3072, num_key_value_heads=32, sliding_window=262144)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(LLAMA, 131072, id="Llama 3.1 8B"),
        pytest.param(model("llama", 80, 64, 8192, num_key_value_heads=8), 327680, id="Llama 2 70B"),
        pytest.param(QWEN2_5, 57344, id="Qwen2.5 7B, window not used"),
        pytest.param(MISTRAL, 131072, id="Mistral 7B v0.3"),
        pytest.param(
            model("qwen3", 36, 32, 4096, num_key_value_heads=8, head_dim=128), 147456, id="Qwen3 8B"
        ),
        pytest.param(
            model("gemma", 28, 16, 3072, num_key_value_heads=16, head_dim=256),
            2 * 28 * 16 * 256 * 2,
            id="Gemma 7B, heads wider than hidden size / heads",
        ),
        pytest.param(FALCON, 2 * 32 * 1 * 64 * 2, id="Falcon 7B, one KV head"),
        pytest.param(
            model("falcon", 60, 128, 8192, num_kv_heads=8, multi_query=True)
            | {"new_decoder_architecture": True},
            2 * 60 * 8 * 64 * 2,
            id="Falcon 40B",
        ),
        pytest.param(
            {"model_type": "RefinedWebModel", "n_layer": 32, "n_head": 71, "hidden_size": 4544}
            | {"multi_query": True, "torch_dtype": "bfloat16"},
            8192,
            id="Falcon 7B, first format",
        ),
        pytest.param(GPT2, 36864, id="GPT-2"),
        pytest.param(
            GPT2 | {"model_type": "gpt_bigcode", "multi_query": True}, 3072, id="StarCoder's family"
        ),
        pytest.param(
            {"model_type": "gptj", "n_layer": 28, "n_head": 16, "n_embd": 4096}
            | {"rotary_dim": 64, "torch_dtype": "float16"},
            2 * 28 * 4096 * 2,
            id="GPT-J 6B",
        ),
        pytest.param(
            {"model_type": "bloom", "n_layer": 30, "num_attention_heads": 32, "n_embed": 4096},
            2 * 30 * 4096 * 2,
            id="BLOOM 7B1",
        ),
        pytest.param(MPT, 524288, id="MPT 7B"),
        pytest.param(
            MPT | {"attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 8}},
            131072,
            id="MPT with grouped heads",
        ),
        pytest.param(DBRX | {"attn_config": {"kv_n_heads": 8}}, 163840, id="DBRX"),
        pytest.param(CHATGLM | {"multi_query_group_num": 2}, 28672, id="ChatGLM3 6B"),
        pytest.param(
            CHATGLM | {"multi_query_group_num": 2, "multi_query_attention": False},
            2 * 28 * 32 * 128 * 2,
            id="ChatGLM without groups",
        ),
        pytest.param(model("phi", 32, 32, 2560), 2 * 32 * 2560 * 2, id="Phi-2"),
        pytest.param(
            PHI3_128K | {"max_position_embeddings": 131072},
            2 * 32 * 3072 * 2,
            id="Phi-3 mini 128k, a window that never cuts",
        ),
        pytest.param(
            model("exaone4", 2, 8, 512, num_key_value_heads=8, sliding_window=4096)
            | {"layer_types": ["sliding_attention", "full_attention"]}
            | {"max_position_embeddings": 2048},
            2 * 2 * 512 * 2,
            id="EXAONE 4, windows in layer_types that never cut",
        ),
        pytest.param(
            GRANITE_MICRO | {"layer_types": ["attention"] * 40},
            2 * 40 * 8 * 64 * 2,
            id="Granite 4 micro, hybrid in name only",
        ),
        pytest.param(
            model("minimax_m2", 62, 48, 3072, num_key_value_heads=8, head_dim=128)
            | {"attn_type_list": [1] * 62},
            2 * 62 * 8 * 128 * 2,
            id="MiniMax M2",
        ),
        pytest.param(DEEPSEEK, (512 + 64) * 61 * 2, id="DeepSeek V3, latent attention"),
        pytest.param(
            model("deepseek_v2", 12, 10, 1280, kv_lora_rank=None, qk_rope_head_dim=0)
            | {"num_key_value_heads": 10, "v_head_dim": 0},
            2 * 12 * 10 * 128 * 2,
            id="DeepSeek VL2 tiny, no latent",
        ),
        pytest.param(
            {"model_type": "deepseek_vl_v2", "language_config": DEEPSEEK},
            70272,
            id="latent attention in a nested config",
        ),
        pytest.param(
            {"thinker_config": {"text_config": QWEN2_5}, "talker_config": {"text_config": LLAMA}},
            57344,
            id="Qwen Omni, the thinker",
        ),
    ],
)
def test_public_models_take_their_known_bytes_per_token(config: object, expected: int) -> None:
    """Under any family's key names, a token takes 2 x layers x KV heads x head size x bytes."""
    assert per_token(config) == expected


LAYERS_OF_GPT_OSS = ["sliding_attention", "full_attention"] * 12
WINDOWED = {
    "Mistral 7B v0.1": MISTRAL | {"sliding_window": 4096},
    "Mistral that leaves the key out": {k: v for k, v in MISTRAL.items() if k != "sliding_window"},
    "Qwen2 with its window": QWEN2_5 | {"use_sliding_window": True, "max_window_layers": 21},
    "Phi-3 mini 4k": PHI3_128K | {"sliding_window": 2047, "max_position_embeddings": 4096},
    "Gemma 2": model("gemma2", 26, 8, 2304, num_key_value_heads=4, head_dim=256)
    | {"sliding_window": 4096},
    "Gemma 3": {
        "model_type": "gemma3",
        "text_config": model("gemma3_text", 34, 8, 2560, num_key_value_heads=4, head_dim=256)
        | {"sliding_window": 1024, "sliding_window_pattern": 6},
    },
    "gpt-oss": model("gpt_oss", 24, 64, 2880, num_key_value_heads=8, head_dim=64)
    | {"sliding_window": 128, "layer_types": LAYERS_OF_GPT_OSS},
    "Llama 4": {
        "model_type": "llama4",
        "text_config": model("llama4_text", 48, 40, 5120, num_key_value_heads=8, head_dim=128)
        | {"attention_chunk_size": 8192},
    },
    "unknown with a pattern": model("newmodel", 4, 8, 512, sliding_window_pattern="LLLG"),
    "unknown with layer types": model("newmodel", 2, 8, 512)
    | {"layer_types": ["chunked_attention", "full_attention"]},
}


@pytest.mark.parametrize("name", WINDOWED)
def test_windows_are_refused_and_can_be_counted_as_full(name: str) -> None:
    """Local attention is refused by name; counted as full on request it is noted, never silent."""
    with pytest.raises(InputError, match=r"attention.*--full-attention"):
        kv_shape(WINDOWED[name])
    shape = kv_shape(WINDOWED[name], full_attention=True)
    assert any("every layer is counted as full attention" in note for note in shape.notes)


def test_gpt_oss_counted_as_full_takes_every_layer() -> None:
    """Counting as full takes all 24 layers of gpt-oss, half of which have a window."""
    shape = kv_shape(WINDOWED["gpt-oss"], full_attention=True)
    assert kv_budget(shape, kv_memory=2**30).bytes_per_token == 2 * 24 * 8 * 64 * 2


@pytest.mark.parametrize(
    ("config", "named"),
    [
        pytest.param(
            model("qwen3_next", 48, 16, 2048, num_key_value_heads=2, head_dim=256)
            | {"full_attention_interval": 4, "linear_num_key_heads": 16},
            "linear",
            id="Qwen3 Next",
        ),
        pytest.param(
            model("jamba", 32, 32, 4096, num_key_value_heads=8, attn_layer_period=8),
            "attn_layer_period",
            id="Jamba",
        ),
        pytest.param(
            model(None, 32, 32, 4096, num_key_value_heads=8, mamba_d_state=16),
            "mamba_d_state",
            id="a hybrid without model type",
        ),
        pytest.param(
            {"d_model": 2560, "n_layer": 64, "ssm_cfg": {"layer": "M"}}, "ssm", id="Mamba"
        ),
        pytest.param(model("falcon_h1", 24, 8, 1024, num_key_value_heads=2), "falcon_h1", id="FH1"),
        pytest.param(model("bamba", 32, 32, 4096, num_key_value_heads=8), "bamba", id="Bamba"),
        pytest.param({"model_type": "rwkv", "num_hidden_layers": 24}, "rwkv", id="RWKV"),
        pytest.param(
            model("minimax_text_01", 80, 64, 6144, attn_type_list=[0, 0, 1] * 20),
            "attn_type_list",
            id="MiniMax 01",
        ),
        pytest.param(
            model("kimi_linear", 27, 32, 2304, kv_lora_rank=512, linear_attn_config={"kda": [1]}),
            "linear_attn_config",
            id="Kimi Linear",
        ),
        pytest.param(
            model("nemotron_h", 52, 32, 4096, hybrid_override_pattern="M-M*"), "hybrid", id="H"
        ),
        pytest.param(
            {"model_type": "t5", "num_layers": 12, "num_heads": 12, "is_encoder_decoder": True},
            "is_encoder_decoder",
            id="T5",
        ),
        pytest.param(model("bert", 12, 12, 768), "encoder", id="BERT"),
        pytest.param(
            model("llama", 16, 32, 2048, is_causal=False), "both directions", id="an embedder"
        ),
        pytest.param(
            {"model_type": "mllama"}
            | {"text_config": model("mllama_text_model", 40, 32, 4096, num_key_value_heads=8)},
            "cross-attention",
            id="Llama 3.2 Vision",
        ),
        pytest.param(
            model("newmodel", 40, 32, 4096, cross_attention_layers=[3, 8]),
            "cross_attention_layers",
            id="cross-attention in an unknown model",
        ),
        pytest.param(
            model("gemma3n_text", 35, 8, 2048, num_key_value_heads=2, num_kv_shared_layers=1),
            "num_kv_shared_layers",
            id="Gemma 3n",
        ),
        pytest.param(
            model("hunyuan", 64, 80, 6400, num_key_value_heads=8, use_cla=True, cla_share_factor=2),
            "use_cla, cla_share_factor",
            id="Hunyuan Large",
        ),
        pytest.param(
            {"model_type": "openelm", "num_kv_heads": [3, 3, 4]}, "differs from layer", id="OpenELM"
        ),
        pytest.param(
            model("llama", 4, 8, 512, num_key_value_heads=[8, 4, 4, 2]),
            "num_key_value_heads that differs",
            id="KV heads as a list",
        ),
        pytest.param(
            model("nemotron-nas", 80, 64, 8192, block_configs=[{"attention": {}}]),
            "block_configs",
            id="DeciLM",
        ),
        pytest.param(
            model("newmodel", 4, 8, 512, swa_num_key_value_heads=4), "swa_num", id="two kinds"
        ),
        pytest.param(
            model("newmodel", 4, 8, 512, head_dim=192, v_head_dim=128),
            "v_head_dim",
            id="K unlike V",
        ),
        pytest.param(
            model("minicpm3", 62, 40, 2560, kv_lora_rank=256, qk_rope_head_dim=32),
            "latent",
            id="MiniCPM3",
        ),
        pytest.param(
            model(None, 62, 40, 2560, kv_lora_rank=256, qk_rope_head_dim=32), "latent", id="latent"
        ),
        pytest.param(
            DEEPSEEK | {"model_type": "deepseek_v32", "index_topk": 2048},
            "index_topk",
            id="DeepSeek V3.2",
        ),
        pytest.param(
            model("newmodel", 2, 8, 512, layer_types=["full_attention", "linear_attention"]),
            "linear_attention",
            id="layer types",
        ),
    ],
)
@pytest.mark.parametrize("full_attention", [False, True])
def test_other_caches_are_refused_by_name(config: object, named: str, full_attention: bool) -> None:
    """A cache that is not K and V of each token in each layer is refused and the key is named."""
    with pytest.raises(InputError, match=r"not supported|is supported in") as caught:
        kv_shape(config, full_attention=full_attention)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "not a JSON object"),
        ({}, "has no num_hidden_layers"),
        (model("llama", 2, 8, 512) | {"num_attention_heads": None}, "has no num_attention_heads"),
        (model("llama", 2, 7, 512), "hidden size 512 is not a multiple of 7 heads"),
        (
            model("llama", 2, 8, 512, num_key_value_heads=3),
            "8 attention heads, not a multiple of 3",
        ),
        (model("llama", 2, 8, 512, num_key_value_heads=0), "num_key_value_heads 0; it must be"),
        (model("llama", 2, 8, 512, num_key_value_heads=True), "num_key_value_heads True"),
        (model("llama", 2, 8, 512, num_key_value_heads="8"), "num_key_value_heads '8'"),
        (model("llama", 2, 8, 512, num_key_value_heads=8.0), "num_key_value_heads 8.0"),
        (model("llama", 2, 8, 512, head_dim=False), "head_dim False"),
        (model("llama", -2, 8, 512), "num_hidden_layers -2"),
        (model("llama", 10**9, 8, 512), "num_hidden_layers 1000000000"),
        (model("llama", 2, 8, 512, n_layer=3), "num_hidden_layers 2 but n_layer 3"),
        (model("llama", 2, 8, 512, layer_types=["full_attention"]), "lists 1 layer_types for 2"),
        (model("llama", 2, 8, 512, torch_dtype=16), "a dtype that is not a text"),
        (model("llama", 2, 8, 512, dtype="float16"), "a dtype and a torch_dtype that differ"),
        (model("mistral", 2, 8, 512, sliding_window=None), "has no num_key_value_heads"),
        (model("qwen3", 2, 8, 512, num_key_value_heads=2), "has no head_dim"),
        (model("falcon", 2, 8, 512), "has no multi_query"),
        (DBRX | {"attn_config": {}}, "has no attn_config.kv_n_heads"),
        (MPT | {"attn_config": {"attn_type": "multiquery_attention"}}, "no attn_config.kv_n_heads"),
        (CHATGLM, "has no multi_query_group_num"),
        (DEEPSEEK | {"qk_rope_head_dim": None}, "has no qk_rope_head_dim"),
        ({"text_config": {"hidden_size": 512}}, "has no text_config.num_attention_heads"),
        ({"text_config": LLAMA, "llm_config": LLAMA}, "text_config and llm_config"),
        ({"text_config": "llama"}, "text_config that is not an object"),
    ],
)
def test_missing_and_wrong_values_are_named(config: object, message: str) -> None:
    """What is missing or wrong is named with its value; no default is guessed."""
    with pytest.raises(InputError) as caught:
        kv_shape(config, source="config.json")
    assert message in str(caught.value)
    assert all(line.startswith("config.json: ") for line in str(caught.value).splitlines())


def test_all_missing_keys_are_told_at_once() -> None:
    """A file without any of the keys is told of each, one line a fault."""
    with pytest.raises(InputError) as caught:
        kv_shape({"model_type": "llama"})
    assert [fault.message.split(";")[0] for fault in caught.value.faults] == [
        "has no num_hidden_layers",
        "has no num_attention_heads",
    ]


def test_a_family_that_is_not_known_is_counted_with_a_note() -> None:
    """A plain config of an unknown family gets the plain sum and a note that says so."""
    shape = kv_shape(model("newmodel", 2, 8, 512))
    assert "has model_type 'newmodel', none that is known" in shape.notes[0]
    assert kv_shape(LLAMA).notes == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b"\xff\xfe\x00", "is not a text file"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"num_hidden_layers": NaN}', "num_hidden_layers nan"),
    ],
)
def test_files_that_are_no_config_are_input_errors(
    tmp_path: Path, content: bytes, message: str
) -> None:
    """Whatever the file holds, the error is one of input that begins with the file's name."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_the_line_of_a_json_fault_is_told(tmp_path: Path) -> None:
    """A syntax error is shown with its line."""
    path = tmp_path / "config.json"
    path.write_text('{\n "num_hidden_layers": 2,\n}\n')
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(caught.value).startswith((f"{path}:2: ", f"{path}:3: "))


def test_paths_that_are_no_file_are_input_errors(tmp_path: Path) -> None:
    """A missing file, a folder and an impossible name are told apart."""
    with pytest.raises(InputError, match=r"cannot be read .*check the path"):
        read_config(tmp_path / "config.json")
    with pytest.raises(InputError, match=r"is a folder; give the config\.json in it"):
        read_config(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_config("a\0b")


def test_a_byte_order_mark_is_tolerated(tmp_path: Path) -> None:
    """An editor's byte order mark does not spoil the file."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8-sig")
    assert read_config(path).layers == 32


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 130)
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["llama", "falcon", "mpt", "deepseek_v3", "full_attention", "bfloat16"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
NAMES = st.sampled_from(
    [
        *(*LAYERS, *HEADS, *HIDDEN, *HEAD_DIM, *KV_HEADS, "model_type", "dtype", "torch_dtype"),
        *("text_config", "llm_config", "thinker_config", "attn_config", "kv_n_heads"),
        *("kv_lora_rank", "qk_rope_head_dim", "v_head_dim", "layer_types", "attn_type_list"),
        *("sliding_window", "use_sliding_window", "max_position_embeddings", "mamba_d_conv"),
        *("multi_query", "multi_query_attention", "multi_query_group_num", "quantization_config"),
        *("new_decoder_architecture", "is_encoder_decoder", "quant_method", "kv_cache_scheme"),
    ]
)


@given(
    config=st.recursive(
        VALUES | st.dictionaries(NAMES, VALUES),
        lambda inner: st.dictionaries(NAMES, VALUES | inner, max_size=6),
        max_leaves=4,
    ),
    plain=st.booleans(),
    full_attention=st.booleans(),
)
def test_any_json_is_a_shape_or_an_input_error(
    config: object, plain: bool, full_attention: bool
) -> None:
    """Random configs, bare or laid over a good one, raise nothing but sortedf's own errors."""
    if plain and isinstance(config, dict):
        config = LLAMA | config
    try:
        shape = kv_shape(config, full_attention=full_attention)
        budget = kv_budget(shape, kv_memory=2**50)
    except SortedfError:
        return
    assert budget.bytes_per_token is not None
    assert 0 < budget.bytes_per_token * budget.block_size <= 2**49


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_kinds_of_attention_are_told_of_any_keys(config: dict[str, object]) -> None:
    """The tests for kinds of attention take values of any type and name each kind on one line."""
    for kind in kinds_unlike_full(config, config):
        assert "\n" not in kind.what

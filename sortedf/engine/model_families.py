"""What a ``model_type`` implies that its config.json need not say.

A config.json may leave out whatever equals the default of the class that reads it, and those
defaults differ from family to family. The sets below name the families where leaving a key out, or
having the type at all, changes how much KV cache a token takes (transformers 5, vLLM 0.32).
"""

from __future__ import annotations

from collections.abc import Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PLAIN = _names(
    """
    apertus aquila arcee aria_text baichuan bailing_moe bitnet bloom chatglm codegen cohere dbrx
    deepseek deepseek_v2 deepseek_v3 dots1 ernie4_5 ernie4_5_moe exaone exaone4 falcon flex_olmo
    gemma glm glm4 glm4_moe glm4_moe_lite glm4v_text glm4v_moe_text gpt2 gpt_bigcode gpt_neox gptj
    granite granitemoe granitemoeshared grok-1 helium hunyuan_v1_dense hunyuan_v1_moe hy_v3
    hyperclovax internlm internlm2 internlm3 jais kimi_k2 llama mimo minicpm minimax_m2 ministral3
    mistral mixtral mpt nemotron olmo olmo2 olmoe opt orion pangu_ultra_moe persimmon phi phi3
    phi4_multimodal phimoe qwen qwen2 qwen2_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text
    qwen2_5_omni_text qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text
    RefinedWeb RefinedWebModel seed_oss smollm3 solar solar_open stablelm starcoder2 step3_text
    telechat xverse
    """
)
"""Families known to keep one K and one V vector per KV head in every layer, once their keys say
so; any other type is counted the same way, but with a note that it is not known."""

KV_HEADS_BY_CLASS = _names(
    """
    bitnet dbrx dots1 emu3_text_model ernie4_5 ernie4_5_moe exaone exaone4 gemma gemma2 gemma3_text
    glm glm4 glm4_moe glm4v_text glm4v_moe_text gpt_oss helium hy_v3 internlm3 jetmoe llama4_text
    minimax_m2 ministral ministral3 mistral mixtral molmo2_text paddleocr_vl_text phi4_multimodal
    phimoe qwen2 qwen2_moe qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text qwen3 qwen3_moe
    qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text seed_oss smollm3 solar_open stablelm
    starcoder2
    """
)
"""Without the key, these do not have as many KV heads as attention heads but a fixed number."""

HEAD_DIM_BY_CLASS = _names(
    """
    cwm ernie4_5 gemma gemma2 gemma3_text glm glm4 gpt_oss helium hy_v3 internlm3 jetmoe llama4_text
    minimax_m2 ministral3 molmo2_text paddleocr_vl_text qwen3 qwen3_vl_text seed_oss solar_open
    """
)
"""Without the key, the head size of these is a fixed number, not hidden size / heads."""

WINDOW_BY_CLASS: Mapping[str, str] = {
    "gpt_neo": "attention_types",
    "llama4_text": "attention_chunk_size",
    **dict.fromkeys(
        _names(
            """
            afmoe cohere2 cohere2_moe cwm exaone4 exaone_moe gemma2 gemma3_text gpt_oss granite_swa
            granitemoe_swa laguna ministral mistral olmo3 vaultgemma
            """
        ),
        "sliding_window",
    ),
}
"""Without this key, these restrict (some) layers to the last tokens all the same."""

LATENT = _names("deepseek_v2 deepseek_v3 glm4_moe_lite kimi_k2 pangu_ultra_moe")
"""Families whose multi-head latent attention vLLM stores as the latent itself."""

STATE = _names(
    """
    bailing_hybrid bamba falcon_h1 falcon_mamba granitemoehybrid jamba kimi_linear lfm2 lfm2_moe
    mamba mamba2 minimax minimax_text_01 nemotron_h olmo_hybrid plamo2 qwen3_5 qwen3_5_moe
    qwen3_5_text qwen3_5_moe_text qwen3_next recurrent_gemma rwkv rwkv5 rwkv6 rwkv7 xlstm zamba
    zamba2 zaya
    """
)
"""State-space, linear-attention or recurrent layers: memory per sequence, not per token."""

ENCODER = _names(
    """
    albert bart bert bert-generation blenderbot camembert clip deberta deberta-v2 distilbert electra
    ernie ernie_m longformer m2m_100 marian mbart megatron-bert modernbert mpnet mt5 mvp new
    nllb-moe nomic_bert pegasus prophetnet roberta siglip speech_to_text switch_transformers t5 umt5
    whisper xlm xlm-roberta xlm-roberta-xl
    """
)
"""Encoders and encoder-decoders: no cache of generated tokens, or a second one."""

OTHER: Mapping[str, str] = {
    "deepseek_v32": "sparse attention with a second cache for its indexer",
    "deepseek_v4": "compressed sparse attention",
    "gemma3n": "layers that share the KV cache of others",
    "gemma3n_text": "layers that share the KV cache of others",
    "gemma4": "two head sizes",
    "gemma4_text": "two head sizes",
    "glm_moe_dsa": "sparse attention with a second cache for its indexer",
    "hrm_text": "layers that are passed several times, each time with its own KV cache",
    "longcat_flash": "two attention blocks in every layer",
    "mimo_v2": "K and V heads of different size",
    "mimo_v2_flash": "K and V heads of different size",
    "mllama": "cross-attention layers",
    "mllama_text_model": "cross-attention layers",
    "nemotron-nas": "a number of KV heads that differs from layer to layer",
    "openelm": "a number of KV heads that differs from layer to layer",
    "ouro": "layers that are passed several times, each time with its own KV cache",
    "step3p5": "a number of heads that differs from layer to layer",
}
"""Other families whose KV cache is not one K and one V of fixed size per layer: what they have."""

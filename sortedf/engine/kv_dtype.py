"""How many bytes a value in the KV cache takes."""

from __future__ import annotations

from collections.abc import Mapping

from sortedf.engine.config_keys import Keys

KV_BYTES: Mapping[str, int] = {
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "float32": 4,
    "float": 4,
}
"""Bytes per value of the KV cache types that store values alone; the types of vLLM that store
scales beside them (per token and head, nvfp4, ...) take more and are not in the table."""


def kv_value_bytes(
    kv_cache_dtype: str, model: str | None, checkpoint: str | None
) -> tuple[int, str]:
    """Bytes per value in the KV cache, and the reason in words.

    ``auto`` is what vLLM makes of it: the type that a quantised checkpoint asks for, else the
    model's. Models stored as float32 (or without a dtype) are run in 16 bits unless vLLM is told
    otherwise, so their KV cache is too.

    Parameters
    ----------
    kv_cache_dtype
        ``auto`` or a key of :data:`KV_BYTES`.
    model
        The model's data type; ``None`` when its config names none.
    checkpoint
        The KV cache type that the checkpoint asks for, if any.

    Raises
    ------
    ValueError
        When the type is not known.
    """
    if kv_cache_dtype != "auto":
        if kv_cache_dtype not in KV_BYTES:
            raise ValueError(
                f"KV cache type {kv_cache_dtype!r} is not known; use auto, {', '.join(KV_BYTES)}"
            )
        return KV_BYTES[kv_cache_dtype], f"KV cache type {kv_cache_dtype}"
    if checkpoint is not None:
        if checkpoint not in KV_BYTES:
            raise ValueError(
                f"the checkpoint wants a KV cache of {checkpoint!r}, whose size is not known; "
                "give the KV cache type, for example bfloat16"
            )
        return KV_BYTES[checkpoint], f"the quantised checkpoint asks for {checkpoint}"
    if model is None:
        return 2, "no dtype in the file: taken as 16 bits, as vLLM runs such models"
    if model not in KV_BYTES or KV_BYTES[model] == 1:
        raise ValueError(
            f"the model's dtype {model!r} says nothing of the KV cache; "
            "give the KV cache type, for example bfloat16"
        )
    if KV_BYTES[model] == 4:
        return 2, f"{model} models run in 16 bits unless vLLM is told --dtype float32"
    return KV_BYTES[model], f"the model's dtype {model}"


def model_dtype(whole: Mapping[str, object], keys: Keys) -> str | None:
    """Return the data type that a config names: of the whole first, as vLLM does, then of the text.

    Parameters
    ----------
    whole
        The config.json.
    keys
        The part of it that describes the language model; takes the faults.
    """
    for part in (whole, keys.config):
        named = {part[key] for key in ("dtype", "torch_dtype") if isinstance(part.get(key), str)}
        if any(not isinstance(part.get(key), str | None) for key in ("dtype", "torch_dtype")):
            keys.fault('has a dtype that is not a text; write one like "bfloat16"')
            return None
        if len(named) > 1:
            keys.fault("has a dtype and a torch_dtype that differ; keep the right one")
            return None
        if named:
            return str(named.pop()).removeprefix("torch.")
    return None


def checkpoint_kv_dtype(whole: Mapping[str, object], text: Mapping[str, object]) -> str | None:
    """Return the KV cache type that the quantisation of a checkpoint asks for, if any.

    Quantised weights alone do not change the KV cache. vLLM obeys what two formats ask for,
    compressed-tensors (``kv_cache_scheme``) and ModelOpt (that or ``kv_cache_quant_algo``).
    """
    for part in (whole, text):
        for key in ("quantization_config", "compression_config"):
            quantisation = part.get(key)
            if isinstance(quantisation, Mapping):
                return _asked_for(quantisation)
    return None


def _asked_for(quantisation: Mapping[str, object]) -> str | None:
    method = str(quantisation.get("quant_method", "")).replace("_", "-").lower()
    if not method.startswith(("modelopt", "compressed-tensors")):
        return None
    inner = quantisation.get("quantization")
    parts = (inner, quantisation) if isinstance(inner, Mapping) else (quantisation,)
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for part in parts:
            asked = part.get(key)
            if isinstance(asked, Mapping):
                bits, kind = asked.get("num_bits"), asked.get("type")
                return "fp8" if (bits, kind) == (8, "float") else f"{kind} of {bits} bits"
            if asked:
                return str(asked).lower()
    return None

"""How much a token takes in the KV cache of a model, read from its config.json.

Key names differ from family to family; the tables below hold the ones in use. A model whose cache
is not K and V of one fixed size in every layer is refused by name (:mod:`~.attention_kinds`),
except for multi-head latent attention, which has an exact sum of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sortedf.engine.attention_kinds import Config, kinds_unlike_full, model_type
from sortedf.engine.config_keys import HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, Keys
from sortedf.engine.kv_dtype import checkpoint_kv_dtype, model_dtype
from sortedf.engine.model_families import HEAD_DIM_BY_CLASS, KV_HEADS_BY_CLASS, LATENT, PLAIN
from sortedf.errors import Fault, InputError, OptionError

TEXT_PARTS = ("text_config", "language_config", "llm_config", "thinker_config")
"""Where multimodal models keep the config of their language model."""

_FALCON = ("falcon", "RefinedWeb", "RefinedWebModel")


@dataclass(frozen=True, kw_only=True)
class KvShape:
    """What the KV cache of a model keeps of every token.

    Parameters
    ----------
    layers
        Attention layers, each with its own cache.
    attention_heads
        Query heads; tensor parallelism must divide them.
    kv_heads
        Key (and value) heads before tensor parallelism; 1 for a latent.
    head_dim
        Values per head; for a latent, its rank plus the rotary part.
    latent
        One latent vector per token and layer (MLA) instead of K and V; not split over GPUs.
    dtype
        The model's data type as the file names it; ``None`` when it does not.
    checkpoint_kv_dtype
        The KV cache type that a quantised checkpoint asks for; ``None`` when it does not.
    source
        The file, for messages.
    notes
        What the reader took for granted, one line each.
    """

    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    latent: bool = False
    dtype: str | None = None
    checkpoint_kv_dtype: str | None = None
    source: str = "config"
    notes: tuple[str, ...] = ()

    def heads_on_a_gpu(self, tensor_parallel: int) -> int:
        """KV heads that each GPU of a tensor-parallel group keeps.

        When there are fewer heads than GPUs they are repeated, so each GPU keeps at least one.

        Raises
        ------
        OptionError
            When the heads cannot be shared out among so many GPUs.
        """
        if self.attention_heads % tensor_parallel:
            raise OptionError(
                f"tensor_parallel {tensor_parallel} does not divide the "
                f"{self.attention_heads} attention heads; use a divisor of them"
            )
        if self.kv_heads % tensor_parallel and tensor_parallel % self.kv_heads:
            raise OptionError(
                f"tensor_parallel {tensor_parallel} is neither a divisor nor a multiple of the "
                f"{self.kv_heads} KV heads; use one that is"
            )
        return max(1, self.kv_heads // tensor_parallel)


def read_config(path: str | Path, *, full_attention: bool = False) -> KvShape:
    """Read the shape of a model's KV cache from its config.json.

    Parameters
    ----------
    path
        The file.
    full_attention
        Count layers with a sliding window or chunked attention as full ones instead of refusing
        them. This is what vLLM allots with ``--disable-hybrid-kv-cache-manager``.

    Raises
    ------
    InputError
        When the file cannot be read, or the sum would not hold for the model.
    """
    source = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except IsADirectoryError:
        raise _fault(source, "is a folder; give the config.json in it") from None
    except UnicodeDecodeError:
        raise _fault(source, "is not a text file; give a model's config.json") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise _fault(source, f"cannot be read ({reason}); check the path") from None
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"is not JSON ({error.msg}); give a model's config.json"
        raise InputError([Fault(source, error.lineno, message)]) from None
    except (ValueError, RecursionError):
        message = "is not JSON that can be read (too deep, or a number too long)"
        raise _fault(source, f"{message}; give a model's config.json") from None
    return kv_shape(config, source=source, full_attention=full_attention)


def kv_shape(config: object, *, source: str = "config", full_attention: bool = False) -> KvShape:
    """Work out the shape of a model's KV cache from the content of its config.json.

    Parameters
    ----------
    config
        The content, as ``json`` reads it.
    source
        What messages call the file.
    full_attention
        As in :func:`read_config`.

    Raises
    ------
    InputError
        When keys are missing or wrong, or the sum would not hold for the model.
    """
    if not isinstance(config, dict):
        raise _fault(source, "is not a JSON object; give a model's config.json")
    keys = _text_part(Keys(config, source))
    kind = model_type(config, keys.config)
    notes = _refuse_unlike_full(config, keys, full_attention)
    if kind not in PLAIN and not notes:
        named = "names no model_type" if kind is None else f"has model_type {kind!r}"
        notes.append(f"{named}, none that is known: counted as full attention in every layer")
    layers, heads = keys.count(LAYERS), keys.count(HEADS)
    latent = keys.config.get("kv_lora_rank") not in (None, 0)
    if latent:
        kv_heads, head_dim = 1, _latent_size(keys, kind)
    else:
        kv_heads, head_dim = _kv_heads(keys, kind, heads), _head_dim(keys, kind, heads)
        _check(keys, layers, heads, kv_heads, head_dim)
    dtype = model_dtype(config, keys)
    keys.close()
    return KvShape(
        layers=layers,
        attention_heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        latent=latent,
        dtype=dtype,
        checkpoint_kv_dtype=checkpoint_kv_dtype(config, keys.config),
        source=source,
        notes=tuple(notes),
    )


def _text_part(keys: Keys) -> Keys:
    """Go down to the config of the language model."""
    while inner := [name for name in TEXT_PARTS if keys.config.get(name) is not None]:
        part = keys.config[inner[0]]
        if len(inner) > 1:
            keys.fault(f"has {' and '.join(inner)}; keep the one of the language model")
        elif not isinstance(part, dict):
            keys.fault(f"has a {keys.place}{inner[0]} that is not an object; check the file")
        keys.close()
        assert isinstance(part, dict)
        keys = keys.inside(inner[0], part)
    return keys


def _refuse_unlike_full(whole: Config, keys: Keys, full_attention: bool) -> list[str]:
    """Raise for each kind of attention that breaks the sum; note those counted as full."""
    notes = []
    for kind in kinds_unlike_full(whole, keys.config):
        if not kind.windowed:
            keys.fault(f"has {kind.what}; the KV cache of such a model is not supported")
        elif not full_attention:
            keys.fault(
                f"has {kind.what}, so what a token takes is not fixed; "
                "count every layer as full attention (--full-attention) for a careful number"
            )
        else:
            notes.append(
                f"{kind.what}: every layer is counted as full attention, as vLLM does with "
                "--disable-hybrid-kv-cache-manager; without that, more tokens usually fit"
            )
    keys.close()
    return notes


def _kv_heads(keys: Keys, kind: str | None, heads: int) -> int:
    """KV heads of the whole model; families that say it in a way of their own come first."""
    config = keys.config
    if kind == "chatglm":
        grouped = config.get("multi_query_attention") is True
        return keys.count(("multi_query_group_num",)) if grouped else heads
    new_falcon = kind in _FALCON and config.get("new_decoder_architecture") is True
    if (kind in _FALCON and not new_falcon) or kind == "gpt_bigcode":
        one = config.get("multi_query")
        if type(one) is not bool:
            keys.fault(f"has no {keys.place}multi_query (true or false); write it into the file")
        return 1 if one else heads
    if isinstance(part := config.get("attn_config"), dict):
        all_by_default = part.get("attn_type") in (None, "multihead_attention") and kind != "dbrx"
        inner = keys.inside("attn_config", part)
        return inner.count(("kv_n_heads",), default=heads if all_by_default else None)
    fixed_by_class = kind in KV_HEADS_BY_CLASS and not keys.have(KV_HEADS)
    return keys.count(KV_HEADS, default=None if fixed_by_class else heads)


def _head_dim(keys: Keys, kind: str | None, heads: int) -> int:
    """Read the head size or, where the family derives it, divide the hidden size by the heads."""
    fixed_by_class = kind in HEAD_DIM_BY_CLASS and not keys.have(HEAD_DIM)
    given = keys.count(HEAD_DIM, default=None if fixed_by_class else 0, zero_is_none=True)
    if given or keys.faults:
        return given
    hidden = keys.count(HIDDEN)
    if hidden % heads and not keys.faults:
        keys.fault(
            f"has no {keys.place}head_dim, and its hidden size {hidden} is not a multiple of "
            f"{heads} heads; write head_dim into the file"
        )
    return hidden // heads


def _check(keys: Keys, layers: int, heads: int, kv_heads: int, head_dim: int) -> None:
    """Hold the counts against each other."""
    if keys.faults:
        return
    if heads % kv_heads:
        keys.fault(
            f"has {heads} attention heads, not a multiple of {kv_heads} KV heads; check both"
        )
    if keys.count(("v_head_dim",), default=head_dim, zero_is_none=True) != head_dim:
        keys.fault("has a v_head_dim unlike its head_dim; such a model is not supported")
    listed = keys.config.get("layer_types")
    if isinstance(listed, list) and len(listed) != layers:
        keys.fault(f"lists {len(listed)} layer_types for {layers} layers; check both")


def _latent_size(keys: Keys, kind: str | None) -> int:
    """Values in the latent of a token: vLLM caches it with the rotary part of the key behind it."""
    if kind not in LATENT:
        keys.fault(
            f"has latent attention (kv_lora_rank) in model_type {kind!r}; "
            f"it is supported in {', '.join(sorted(LATENT))}"
        )
    return keys.count(("kv_lora_rank",)) + keys.count(("qk_rope_head_dim",))


def _fault(source: str, message: str) -> InputError:
    return InputError([Fault(source, None, message)])

"""Which kinds of attention break the sum "layers x KV heads x head size", found from a config.json.

The sum holds for layers that each keep K and V of every token. Each test below names one kind that
does not, from the keys it leaves in the file or from the model type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sortedf.engine.model_families import ENCODER, OTHER, STATE, WINDOW_BY_CLASS

Config = Mapping[str, object]

_FULL_LAYER_TYPES = ("full_attention", "attention")

# The keys that give a kind of attention away, whole or by their beginning.
_STATE_KEYS = (
    *("attn_layer_idx", "attn_layer_indices", "attn_layer_offset", "attn_layer_period"),
    *("block_types", "conv_L_cache", "full_attention_interval", "full_attn_idxs"),
    *("layer_group_size", "layers_block_type", "state_size", "time_step_rank"),
)
_STATE_PREFIXES = (
    *("hybrid_", "linear_attn", "linear_conv_", "linear_key_", "linear_num_", "lru_"),
    *("mamba_", "rwkv_", "ssm_"),
)
_SHARING_KEYS = (
    "cla_share_factor",
    "loop_num",
    "num_kv_shared_layers",
    "total_ut_steps",
    "use_cla",
)
_VARYING_KEYS = ("attention_other_setting", "block_configs", "per_layer_config")
_VARYING_PREFIXES = ("global_head_dim", "num_global_key_value", "num_key_value_heads_", "swa_")
_CROSS_KEYS = ("add_cross_attention", "cross_attention_interval", "cross_attention_layers")
_SPARSE_PREFIXES = ("blocksparse_", "compress_ratio", "index_")
_WINDOW_KEYS = ("attention_types", "global_attn_every_n_layers")
_WINDOW_ENDINGS = ("_window", "window_size")
_PLAIN_WHEN_ONE = ("cla_share_factor", "full_attention_interval", "loop_num", "total_ut_steps")


class Unlike(NamedTuple):
    """A kind of attention that the plain sum does not hold for.

    ``windowed``: the layers are plain ones that forget; counting them as full is an upper bound of
    what they keep.
    """

    what: str
    windowed: bool = False


def kinds_unlike_full(whole: Config, text: Config) -> Iterator[Unlike]:
    """Yield each kind of attention by which a model departs from full attention in every layer.

    Parameters
    ----------
    whole
        The config.json.
    text
        The part of it that describes the language model; the same where it is not nested.
    """
    kind = model_type(whole, text)
    every_layer_full = _layer_types_all_full(text)
    yield from _by_type(kind, every_layer_full)
    yield from _encoders(whole, text)
    if not every_layer_full:
        if named := _used(text, _STATE_KEYS, _STATE_PREFIXES) or _lightning(text):
            yield Unlike(f"state-space, linear or other layers beside attention ({named})")
        yield from _other_layer_types(text)
    yield from _windows(text, kind, every_layer_full)
    for keys, prefixes, what in (
        (_SHARING_KEYS, (), "layers that share or repeat a KV cache"),
        (_VARYING_KEYS, _VARYING_PREFIXES, "heads that differ from layer to layer"),
        (_CROSS_KEYS, (), "cross-attention layers"),
        ((), _SPARSE_PREFIXES, "sparse or compressed attention"),
    ):
        if named := _used(text, keys, prefixes):
            yield Unlike(f"{what} ({named})")


def model_type(whole: Config, text: Config) -> str | None:
    """Name the family of the language model, or of the whole when its own part does not say."""
    kind = text.get("model_type") or whole.get("model_type")
    return kind if isinstance(kind, str) else None


def _by_type(kind: str | None, every_layer_full: bool) -> Iterator[Unlike]:
    if kind in STATE and not every_layer_full:
        yield Unlike(f"state-space, linear or recurrent layers (model_type {kind!r})")
    if kind in ENCODER:
        yield Unlike(f"an encoder, whose cache is another (model_type {kind!r})")
    if kind is not None and kind in OTHER:
        yield Unlike(f"{OTHER[kind]} (model_type {kind!r})")


def _encoders(whole: Config, text: Config) -> Iterator[Unlike]:
    for part in (whole,) if whole is text else (whole, text):
        if _in_use(part.get("is_encoder_decoder")):
            yield Unlike("an encoder beside the decoder (is_encoder_decoder)")
        if part.get("use_bidirectional_attention") is True or part.get("is_causal") is False:
            yield Unlike("attention in both directions, as encoders have it")


def _windows(text: Config, kind: str | None, every_layer_full: bool) -> Iterator[Unlike]:
    """Layers that see only the last tokens, and that the engine frees blocks of."""
    decided_by = WINDOW_BY_CLASS.get(kind or "")
    if decided_by is not None and decided_by not in text and not every_layer_full:
        yield Unlike(
            f"local attention by default (model_type {kind!r}; "
            f'write "{decided_by}": null into the file if this model has none)',
            windowed=True,
        )
    if _in_use(chunk := text.get("attention_chunk_size")):
        yield Unlike(f"chunked local attention (attention_chunk_size {chunk!r})", windowed=True)
    if text.get("use_sliding_window") is False or _never_cuts(text):
        return
    if _in_use(window := text.get("sliding_window")):
        yield Unlike(f"sliding-window attention (sliding_window {window!r})", windowed=True)
    elif "sliding_window" not in text and (named := _window_keys(text)):
        # Beside "sliding_window": null a pattern says nothing, as no layer has a window.
        yield Unlike(f"local attention ({named})", windowed=True)


def _window_keys(text: Config) -> str:
    named = [
        _quoted(key)
        for key, value in text.items()
        if (key in _WINDOW_KEYS or "sliding" in key or key.endswith(_WINDOW_ENDINGS))
        and key != "use_sliding_window"
        and _in_use(value)
    ]
    return ", ".join(named)


def _other_layer_types(text: Config) -> Iterator[Unlike]:
    """Report what ``layer_types`` lists beside full attention."""
    listed = text.get("layer_types")
    if not isinstance(listed, list):
        return
    others = sorted({_quoted(kind) for kind in listed if kind not in _FULL_LAYER_TYPES})
    if not others:
        return
    windowed = all("sliding" in kind or "chunked" in kind for kind in others)
    if windowed and (text.get("use_sliding_window") is False or _never_cuts(text)):
        return
    yield Unlike(f"layers of another kind (layer_types has {', '.join(others)})", windowed=windowed)


def _layer_types_all_full(text: Config) -> bool:
    listed = text.get("layer_types")
    return (
        isinstance(listed, list)
        and len(listed) > 0
        and all(kind in _FULL_LAYER_TYPES for kind in listed)
    )


def _lightning(text: Config) -> str:
    """``attn_type_list`` (MiniMax): 1 is softmax attention, 0 is lightning attention."""
    listed = text.get("attn_type_list")
    plain = listed is None or (isinstance(listed, list) and all(kind == 1 for kind in listed))
    return "" if plain else "attn_type_list"


def _never_cuts(text: Config) -> bool:
    """Whether the window is as long as the longest sequence, and so has no effect."""
    window, longest = text.get("sliding_window"), text.get("max_position_embeddings")
    return type(window) is int and type(longest) is int and 0 < longest <= window


def _used(text: Config, keys: tuple[str, ...], prefixes: tuple[str, ...]) -> str:
    """Name the keys of a group that the file gives a meaning to, joined; empty when none."""
    named = [
        _quoted(key)
        for key, value in text.items()
        if (key in keys or key.startswith(prefixes))
        and _in_use(value)
        and not (key in _PLAIN_WHEN_ONE and value == 1)
    ]
    return ", ".join(named)


def _quoted(name: object) -> str:
    """Write a name of the file so that it stays on one line."""
    text = str(name)
    return text if text.isidentifier() else repr(text[:40])


def _in_use(value: object) -> bool:
    """Null, false, 0 and empty lists are the ways in which files say "not used"."""
    return value not in (None, False, 0, "") and value != [] and value != {}

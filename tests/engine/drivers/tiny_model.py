"""Models of random weights for vLLM on the CPU: drivers, tests and benches take them from here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "torch_dtype": "float32",
}
"""As small as vLLM takes."""

LARGER = {
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
"""Sizes large enough that a step is more than what the engine's own Python takes."""


def write_model(folder: str | Path, *, context: int, vocabulary: int, **changed: Any) -> Path:
    """Write the configuration of a tiny model into a folder, which is made; gives the folder.

    Parameters
    ----------
    context
        Most tokens of a request.
    vocabulary
        Tokens that the model knows.
    changed
        Keys of the configuration that are other ones, or more.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    sizes = {"max_position_embeddings": context, "vocab_size": vocabulary}
    (path / "config.json").write_text(json.dumps(_TINY | sizes | changed))
    return path

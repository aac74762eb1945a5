"""From how a job is sampled, under vLLM's names, to what transformers' continuous batching can do.

Temperature, top_k and top_p are of each request, the rest of the library's processors of all at
once. What a job asks for beyond that is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from transformers import GenerationConfig, LogitsProcessorList
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingTemperatureLogitsWarper,
)

from sortedf.runner.engines import Job

GREEDY = 1e-5
"""Temperatures below are 0, as in vLLM."""

DONE = frozenset(
    (
        "max_tokens",
        "temperature",
        "top_k",
        "top_p",
        "ignore_eos",
        "stop_token_ids",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "include_stop_str_in_output",
        "detokenize",
    )
)
"""What can be done, whatever the value."""

NOTHING: Mapping[str, Any] = {
    "min_p": 0,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "min_tokens": 0,
    "stop": [],
    "bad_words": [],
    "logit_bias": {},
}
"""Values that ask for nothing."""


def with_all_processors() -> Any:
    """Make a config that has the library make its three processors; requests bring the values."""
    make: Any = GenerationConfig
    return make(do_sample=True, temperature=0.5, top_k=2, top_p=0.5, eos_token_id=-1)


class Chosen(NamedTuple):
    """What a request brings. ``top_k`` is the size of the vocabulary where nothing is cut."""

    temperature: float
    top_k: int
    top_p: float


class Sampling:
    """Reads what jobs ask for; a model's generation config says what they leave out."""

    def __init__(self, config: GenerationConfig, vocabulary: int) -> None:
        self._defaults = {name: getattr(config, name) for name in Chosen._fields}
        self._vocabulary = vocabulary
        ends = config.eos_token_id
        self._ends = [ends] if isinstance(ends, int) else list(ends or ())

    def chosen(self, job: Job) -> Chosen:
        """Give the values of a request."""
        asked = {k: v for k, v in self._defaults.items() if v is not None} | dict(job.sampling)
        top_k = asked.get("top_k", 0)
        temperature = float(asked.get("temperature", 1.0))
        if temperature < GREEDY:
            return Chosen(0.0, self._vocabulary, 1.0)
        cut = min(top_k, self._vocabulary) if top_k > 0 else self._vocabulary
        return Chosen(temperature, cut, float(asked.get("top_p", 1.0)))

    def ends(self, job: Job) -> list[int]:
        """Give the tokens that end a request; -1 is the library's word for none."""
        ends = list(job.sampling.get("stop_token_ids") or ())
        if not job.sampling.get("ignore_eos"):
            ends += self._ends
        return ends or [-1]

    def refused(self, job: Job) -> str | None:
        """Say what cannot be done for a job."""
        asked, chosen = job.sampling, self.chosen(job)
        for name, value in asked.items():
            harmless = value is None or name in DONE or NOTHING.get(name) == value
            if name == "seed":
                harmless = chosen.temperature == 0
            elif name == "min_tokens":
                harmless = value == 0 or self.ends(job) == [-1]
            elif name == "logprobs" and value is not None:
                plain = chosen == (1.0, self._vocabulary, 1.0)
                if value == 0 and plain:
                    continue
                return (
                    f"logprobs is {value}; the engine transformers has only those of the tokens "
                    "that were taken (0), at temperature 1 without top_k and top_p"
                )
            if not harmless:
                return f"{name} is {value!r}; the engine transformers cannot do this"
        return None


class Temperature(ContinuousBatchingTemperatureLogitsWarper):
    """The library's, where 0 leaves nothing but the likeliest token, the first of several."""

    def __init__(self) -> None:
        self.temperature = 1.0

    def __call__(self, scores: Any, tensor_arg: Any) -> Any:
        """Divide the scores, shape (requests, vocabulary)."""
        temperature = tensor_arg[: scores.size(0)].view(dtype=torch.float32).unsqueeze(-1)
        best = scores.argmax(dim=-1, keepdim=True)
        alone = torch.full_like(scores, -torch.inf).scatter_(-1, best, 0.0)
        return torch.where(temperature == 0, alone, scores / temperature.clamp(min=GREEDY))


def needed(processors: Sequence[Any], every: Sequence[Chosen], vocabulary: int) -> Any:
    """Leave out, of the three processors, those that no request needs: two sort the vocabulary."""
    _, top_k, top_p = processors
    kept: list[Any] = []
    if any(chosen.temperature != 1 for chosen in every):
        kept.append(Temperature())
    if any(chosen.top_k < vocabulary for chosen in every):
        kept.append(top_k)
    if any(chosen.top_p < 1 for chosen in every):
        kept.append(top_p)
    return LogitsProcessorList(kept)

"""A byte-level tokenizer of a few hundred tokens, made on the spot."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

CHATML = """\
{%- for tool in tools or [] %}<|tool|>{{ tool | tojson }}{% endfor -%}
{%- for message in messages -%}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}
{%- for c in message.tool_calls or [] %}<|call|>{{ c.function.arguments.items() }}{% endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif -%}
"""

SPECIAL_TOKENS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|tool|>", "<|call|>"]


def save_tokenizer(folder: Path, chat_template: str | None = CHATML) -> Any:
    """Train a tokenizer that puts <s> before a text, save it in the folder and return it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    transformers: Any = import_module("transformers")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["Say hi to the user. Say the sum of two numbers."], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>"
    )
    fast.chat_template = chat_template
    fast.save_pretrained(folder)
    return fast

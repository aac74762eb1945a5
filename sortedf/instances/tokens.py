"""How many tokens a prompt has: counted by a tokenizer, or estimated from its characters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from sortedf.errors import OptionError
from sortedf.instances.batch_line import BatchLine
from sortedf.instances.json_values import flag
from sortedf.instances.prompts import Text, content_texts
from sortedf.instances.reading import Note, ReadOptions
from sortedf.instances.tokenizer import TokenizerCounter

NEEDS_COUNTER = (
    "its prompt is text: name a local tokenizer with --tokenizer FOLDER, or estimate with "
    "--prompt-tokens chars/4"
)

_CHARACTERS = re.compile(r"chars/([0-9]{1,9}(?:\.[0-9]{1,9})?)")


class PromptCounter(Protocol):
    """Counts the prompt tokens of texts, many at a time."""

    def chat(self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Text:
        """Turn the checked messages of a chat into the text that is counted.

        Raises
        ------
        BadLine
            When the chat template refuses them.
        """

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Tokens of each text, in order."""


class CharacterCounter:
    """Estimates ceil(characters / ``divisor``), at least 1 token; says so once.

    Characters are Unicode code points. Of a chat the contents of all messages count; the roles,
    tool calls, tool definitions and what a chat template adds do not.
    """

    def __init__(self, divisor: Fraction, note: Note) -> None:
        self._divisor = divisor
        self._note = note
        self._told = False

    def chat(self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Text:
        """Join the contents of the messages."""
        return Text("".join(text for message in messages for text in content_texts(message)))

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Estimate the tokens of each text."""
        if texts and not self._told:
            self._told = True
            self._note(
                f"tokens of text are estimated as characters / {float(self._divisor):g}, not "
                "counted; --tokenizer counts them"
            )
        p, q = self._divisor.numerator, self._divisor.denominator
        return [max(1, -(-len(text) * q // p)) for text, _ in texts]


def has_text(checked: BatchLine) -> bool:
    """Whether a line has a prompt that must be tokenized."""
    return checked.chat is not None or any(isinstance(p, str) for p in checked.prompts)


def prompts_of(checked: BatchLine, counter: PromptCounter | None) -> list[Text | list[int]]:
    """Prompts of a line: texts to tokenize, for which a counter is needed, or lists of token ids.

    Raises
    ------
    BadLine
        When the chat template refuses the messages.
    """
    if checked.chat is not None:
        assert counter is not None
        return [counter.chat(checked.body, checked.chat)]
    special_tokens = flag(checked.body, "add_special_tokens", True)
    return [Text(p, special_tokens) if isinstance(p, str) else p for p in checked.prompts]


def prompt_counter(options: ReadOptions, note: Note) -> PromptCounter | None:
    """Build what ``--tokenizer`` or ``--prompt-tokens`` asks for; ``None`` when neither is given.

    Raises
    ------
    OptionError
        Both are given, one is not understood, or the tokenizer cannot be loaded.
    """
    if options.prompt_tokens is None:
        if options.tokenizer is None:
            return None
        return TokenizerCounter(options.tokenizer)
    if options.tokenizer is not None:
        raise OptionError("--tokenizer and --prompt-tokens exclude each other; give one of them")
    match = _CHARACTERS.fullmatch(options.prompt_tokens)
    divisor = Fraction(match[1]) if match else Fraction(0)
    if not divisor:
        raise OptionError(
            f"--prompt-tokens is {options.prompt_tokens!r}; it must be chars/N with a number "
            "N > 0, such as chars/4"
        )
    return CharacterCounter(divisor, note)

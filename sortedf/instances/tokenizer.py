"""Prompt tokens as vLLM counts them, by a local tokenizer and its chat template."""

from __future__ import annotations

import logging
import warnings
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from sortedf.errors import OptionError
from sortedf.instances.json_values import BadLine, decode, flag, shown
from sortedf.instances.prompts import Text, content_texts

# Texts that are tokenized together use all cores, but the tokenizer's working memory is some
# hundred bytes for each of their tokens.
_CHUNK_TEXTS = 1024
_CHUNK_CHARACTERS = 2**22


class TokenizerCounter:
    """Counts with a tokenizer from this machine; nothing is ever fetched.

    Parameters
    ----------
    path
        Folder of a tokenizer (as ``save_pretrained`` or a model download leaves it), or a file in
        the format of ``tokenizer.json``, which has no chat template.

    Raises
    ------
    OptionError
        No such folder or file, not a tokenizer, or the extra ``tokenize`` is not installed.

    Notes
    -----
    A chat is rendered by the template and tokenized without further special tokens; other text gets
    the special tokens that the tokenizer puts around it (often one at the front). Text that looks
    like a special token becomes that token. All of this is what vLLM does with the same request.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._tokenizer = _load(path)
        self._wants_parts = self._template_wants_parts()

    def chat(self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Text:
        """Render a chat by the template, with the body's tools and vLLM's template settings.

        Those are ``add_generation_prompt`` (true unless given), ``continue_final_message``,
        ``documents``, ``reasoning_effort``, ``chat_template_kwargs`` and ``add_special_tokens``
        (false unless given).
        """
        if not self._tokenizer.chat_template:
            raise OptionError(
                f"--tokenizer {self._path}: it has no chat template, which chat requests need; "
                "name the folder of a chat model (chat_template.jinja or tokenizer_config.json)"
            )
        if body.get("chat_template") is not None:
            raise BadLine("a chat_template in the body is not supported, only the tokenizer's own")
        effort = body.get("reasoning_effort")
        # A template that asks for consent to think takes an effort as that, as with vLLM.
        thinks = {"reasoning_effort": effort, "enable_thinking": effort != "none"}
        settings = {
            **({} if effort is None else thinks),
            "add_generation_prompt": flag(body, "add_generation_prompt", True),
            "continue_final_message": flag(body, "continue_final_message", False),
            "documents": body.get("documents"),
            **_object(body, "chat_template_kwargs"),
            "tools": body.get("tools") or None,
        }
        prepared = [_prepared(message, self._wants_parts) for message in messages]
        special_tokens = flag(body, "add_special_tokens", False)
        try:
            return Text(self._render(prepared, settings), special_tokens)
        except Exception as error:
            # The template is a program out of a file, and it may stumble over anything.
            raise BadLine(f"the chat template refuses it: {_first_line(error)}") from None

    def count(self, texts: Sequence[Text]) -> list[int]:
        """Tokens of each text. Linear in the characters, about a million a second and core."""
        lengths = [0] * len(texts)
        for k, ids in self._encoded(texts):
            lengths[k] = len(ids)
        return lengths

    def token_ids(self, texts: Sequence[Text]) -> list[array[int]]:
        """Token ids of each text, four bytes each; as many as :meth:`count` says."""
        found = [array("i")] * len(texts)
        for k, ids in self._encoded(texts):
            found[k] = array("i", ids)
        return found

    def _encoded(self, texts: Sequence[Text]) -> Iterator[tuple[int, list[int]]]:
        """Token ids of each text with its position, a chunk at a time."""
        for special_tokens in (False, True):
            chosen = [k for k, text in enumerate(texts) if text.special_tokens == special_tokens]
            for chunk in _chunks(chosen, texts):
                encoded = self._encode([texts[k].text for k in chunk], special_tokens)
                yield from zip(chunk, encoded, strict=True)

    def _encode(self, texts: list[str], special_tokens: bool) -> list[list[int]]:
        try:
            with _quiet():
                encoded = self._tokenizer(
                    texts,
                    add_special_tokens=special_tokens,
                    return_attention_mask=False,
                    return_token_type_ids=False,
                )
        except Exception as error:
            # Some tokenizers have no token for what they do not know.
            raise OptionError(
                f"--tokenizer {self._path}: it cannot tokenize the prompts: {_first_line(error)}"
            ) from None
        return list(encoded["input_ids"])

    def _render(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> str:
        fixed = {"chat_template": None, "tokenize": False}
        with _quiet():
            return str(self._tokenizer.apply_chat_template(messages, **{**settings, **fixed}))

    def _template_wants_parts(self) -> bool:
        """Tell whether the template spells out a content that is a list of parts.

        vLLM hands lists to such templates and joins the texts by line ends for all others; it reads
        this off the template's syntax, here the template is asked.
        """
        as_parts = [{"role": "user", "content": [{"type": "text", "text": "sortedf"}]}]
        as_text = [{"role": "user", "content": "sortedf"}]
        try:
            return self._render(as_parts, {}) == self._render(as_text, {})
        except Exception:
            return False  # it does not take lists, or takes nothing: then every line says why


def _chunks(chosen: Sequence[int], texts: Sequence[Text]) -> Iterator[list[int]]:
    """Split positions of texts into lists that are tokenized together."""
    chunk: list[int] = []
    characters = 0
    for k in chosen:
        chunk.append(k)
        characters += len(texts[k].text)
        if len(chunk) >= _CHUNK_TEXTS or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _prepared(message: Mapping[str, Any], wants_parts: bool) -> dict[str, Any]:
    """Message as vLLM hands it to a template: lists only where wanted, arguments as objects."""
    prepared = dict(message)
    if not wants_parts:
        prepared["content"] = "\n".join(content_texts(message))
    calls = prepared.pop("tool_calls", None)
    if calls and isinstance(calls, list):
        prepared["tool_calls"] = [_with_arguments(call) for call in calls]
    return prepared


def _with_arguments(call: object) -> object:
    """Tool call whose arguments are an object, as templates expect; in a request they are text."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise BadLine(f"a tool call without function: {shown(call)}")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = decode(arguments.encode())
        except BadLine:
            arguments = None
    if not isinstance(arguments, dict):
        arguments = {}  # as vLLM, so that old turns do not spoil a conversation
    return call | {"function": function | {"arguments": arguments}}


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadLine(f"{name} is {shown(value)}, not an object")
    return value or {}


def _load(path: str) -> Any:
    # A name that is no path would be looked up on the hub.
    if not _exists(path):
        raise OptionError(f"--tokenizer {path}: no such folder or file; a local one is needed")
    try:
        with _quiet():
            transformers: Any = import_module("transformers")
    except ImportError as error:
        raise OptionError(
            f"--tokenizer needs transformers ({error}): pip install 'sortedf[tokenize]'"
        ) from None
    try:
        with _quiet():
            if Path(path).is_file():
                return transformers.PreTrainedTokenizerFast(tokenizer_file=path)
            return transformers.AutoTokenizer.from_pretrained(
                path, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        # Anything may come out of files that are not what they should be.
        raise OptionError(
            f"--tokenizer {path}: it cannot be loaded as a tokenizer: {_first_line(error)}"
        ) from None


def _exists(path: str) -> bool:
    try:
        return bool(path) and Path(path).exists()
    except (OSError, ValueError):  # a name too long, or no permission to look
        return False


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what transformers logs and warns: no PyTorch, a text longer than the model's."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

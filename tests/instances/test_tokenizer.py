"""Prompt tokens counted by a tokenizer: as many as the engine will see."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from batch_files import JSON, chat, completion, faults, read
from hypothesis import given
from hypothesis import strategies as st
from tiny_tokenizer import CHATML, SPECIAL_TOKENS, save_tokenizer

import sortedf.instances.tokenizer
from sortedf.errors import OptionError

PARTS = """\
{% for message in messages %}{% if message.content is string %}{{ message.content }}\
{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}"""

TEMPLATE_KEYS = [
    "tools",
    "documents",
    "chat_template_kwargs",
    "continue_final_message",
    "add_generation_prompt",
    "tool_calls",
]

STRICT = "{{ raise_exception('no tools here') if tools }}{{ messages[0].content }}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    """Give the tokenizer as transformers loads it, to count by its own way."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder)


def tokens(folder: Path, *entries: Any) -> list[int]:
    return list(read(entries, tokenizer=str(folder))[0].prompt_tokens)


def fault(folder: Path, entry: Any) -> str:
    [(line, message)] = faults([entry], tokenizer=str(folder))
    assert line == 1
    return message


@given(st.lists(st.text(max_size=20) | st.sampled_from(SPECIAL_TOKENS), min_size=1, max_size=4))
def test_a_chat_has_the_tokens_that_transformers_gives(
    folder: Path, reference: Any, texts: list[str]
) -> None:
    """The count is the length of the ids that the template with a generation prompt leads to.

    This includes text that looks like a special token, and no second <s> is put before it.
    """
    messages = [{"role": "user", "content": text} for text in texts]
    expected = reference.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert tokens(folder, chat(messages=messages)) == [len(expected)]


@given(st.lists(st.text(min_size=1, max_size=20) | st.sampled_from(SPECIAL_TOKENS), min_size=1))
def test_a_completion_has_special_tokens(folder: Path, reference: Any, texts: list[str]) -> None:
    """A text prompt is tokenized as it is, with the <s> that the tokenizer puts before it."""
    expected = [len(reference(text)["input_ids"]) for text in texts]
    assert tokens(folder, completion("a", texts)) == expected
    bare = completion("a", texts, add_special_tokens=False)
    assert tokens(folder, bare) == [count - 1 for count in expected]


def test_the_generation_prompt_is_counted(folder: Path) -> None:
    """The header of the answer is part of the prompt unless the body says otherwise."""
    with_header, without = tokens(
        folder,
        chat("a"),
        chat("b", add_generation_prompt=False),
    )
    assert with_header > without


def test_tools_are_counted(folder: Path, reference: Any) -> None:
    """Tool definitions in the body go through the template like the messages."""
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    entry = chat("a", "Say hi.", tools=tools)
    expected = reference.apply_chat_template(
        entry["body"]["messages"], tools=tools, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert tokens(folder, entry) == [len(expected)]
    assert tokens(folder, entry)[0] > tokens(folder, chat("a", "Say hi.", tools=[]))[0]


def test_arguments_of_tool_calls_reach_the_template_as_objects(folder: Path) -> None:
    """Arguments, which a request holds as text, are parsed; what is no object becomes empty."""

    def calling(arguments: Any) -> Any:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        return chat(messages=[{"role": "assistant", "content": None, "tool_calls": [call]}])

    [full] = tokens(folder, calling('{"number": 12345}'))
    assert tokens(folder, calling({"number": 12345})) == [full]
    [empty] = tokens(folder, calling("{}"))
    assert full > empty
    for arguments in ("", "[1]", "{broken", None, 5, '"\\ud800"'):
        assert tokens(folder, calling(arguments)) == [empty]


def test_settings_of_the_template(folder: Path) -> None:
    """chat_template_kwargs of the body reach the template."""
    plain, thoughtless = tokens(
        folder, chat("a"), chat("b", chat_template_kwargs={"enable_thinking": False})
    )
    assert thoughtless > plain


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"chat_template_kwargs": []}, "chat_template_kwargs is a list"),
        ({"chat_template_kwargs": {"conversation": []}}, "the chat template refuses it"),
        ({"chat_template": "{{ 1 }}"}, "chat_template in the body"),
        ({"add_generation_prompt": "yes"}, 'add_generation_prompt is "yes"'),
        ({"continue_final_message": True}, "the chat template refuses it"),
        ({"add_special_tokens": 1}, "add_special_tokens is 1"),
        ({"tools": ["f"]}, "the chat template refuses it"),
        ({"tools": "f"}, "the chat template refuses it"),
    ],
)
def test_settings_that_no_template_takes(folder: Path, setting: Any, message: str) -> None:
    """A setting of the wrong kind is a fault of its line."""
    assert message in fault(folder, chat(**setting))


@given(st.sampled_from(TEMPLATE_KEYS), JSON)
def test_random_json_for_the_template(folder: Path, key: str, value: Any) -> None:
    """Whatever JSON goes to the template, the line is counted or refused with a clear error."""
    message = {"role": "assistant", "content": "hi"}
    body = {key: value}
    if key == "tool_calls":
        message, body = message | {key: value}, {}
    entries = [chat("a"), chat("b", messages=[message], **body)]
    columns, notes = read(entries, skip=True, tokenizer=str(folder))
    assert columns.ids == (["a"] if notes else ["a", "b"])
    assert min(columns.prompt_tokens) > 0


def test_a_setting_cannot_replace_the_template(folder: Path) -> None:
    """Not even chat_template_kwargs make the count depend on a template of the request."""
    settings = {"chat_template": "", "tokenize": True, "return_tensors": "pt"}
    assert tokens(folder, chat(chat_template_kwargs=settings)) == tokens(folder, chat())


def test_parts_are_joined_unless_the_template_takes_them(tmp_path: Path, folder: Path) -> None:
    """Text parts count as lines of one text, or as a template that takes lists spells them."""
    parts = [{"type": "text", "text": "Say"}, {"type": "text", "text": "hi"}]
    assert tokens(folder, chat("a", parts)) == tokens(folder, chat("a", "Say\nhi"))
    pytest.importorskip("transformers")
    save_tokenizer(tmp_path, PARTS)
    assert tokens(tmp_path, chat("a", parts)) == tokens(tmp_path, chat("a", "Sayhi"))


def test_what_the_template_refuses_is_a_fault_of_its_line(tmp_path: Path) -> None:
    """A template that raises spoils the line that it was applied to, and no other."""
    pytest.importorskip("transformers")
    save_tokenizer(tmp_path, STRICT)
    bad = chat("b", tools=[{"type": "function"}])
    columns, notes = read([chat("a"), bad, chat("c")], skip=True, tokenizer=str(tmp_path))
    assert columns.ids == ["a", "c"]
    assert any("batch.jsonl:2: the chat template refuses it: no tools here" in n for n in notes)


@pytest.mark.parametrize("template", ["{% if %}", "{{ 1 / 0 }}", "{{ messages | nothing }}"])
def test_a_broken_template_is_reported(tmp_path: Path, template: str) -> None:
    """A template that cannot be run at all is reported line by line, not raised."""
    pytest.importorskip("transformers")
    save_tokenizer(tmp_path, template)
    assert "the chat template refuses it" in fault(tmp_path, chat())


def test_a_prompt_without_tokens_is_a_fault(tmp_path: Path) -> None:
    """A prompt that the template or the tokenizer makes nothing of cannot be planned."""
    pytest.importorskip("transformers")
    save_tokenizer(tmp_path, "{{ messages[0].content }}")
    assert fault(tmp_path, chat("a", "")) == "its prompt has no tokens"
    columns, _ = read([chat("a", ""), chat("b", "hi")], skip=True, tokenizer=str(tmp_path))
    assert columns.ids == ["b"]


def test_a_tokenizer_without_template(tmp_path: Path, folder: Path) -> None:
    """Chats need a chat template, and the error says so; completions do without."""
    pytest.importorskip("transformers")
    save_tokenizer(tmp_path, None)
    for path in (tmp_path, folder / "tokenizer.json"):
        assert tokens(path, completion("a", "Say hi.")) == tokens(
            folder, completion("a", "Say hi.")
        )
        with pytest.raises(OptionError, match="no chat template"):
            tokens(path, chat())


@pytest.mark.parametrize("path", ["no/such/folder", "gpt2", "", "x" * 5000, "a\0b"])
def test_only_what_is_there_is_loaded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is not there is refused by name, and no model hub is asked for it."""

    def fail(*_: Any) -> NoReturn:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(OptionError, match="no such folder or file"):
        read([completion()], tokenizer=path)


def test_loading_opens_no_connection(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer that is there is used without asking a model hub for anything."""

    def fail(*_: Any) -> NoReturn:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert tokens(folder, chat())[0] > 0


def test_code_in_the_folder_is_not_run(tmp_path: Path) -> None:
    """A tokenizer that wants its own code to be run is refused."""
    pytest.importorskip("transformers")
    (tmp_path / "mine.py").write_text("raise SystemExit('this code was run')")
    config = {"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": [None, "mine.Mine"]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError, match="cannot be loaded"):
        read([completion()], tokenizer=str(tmp_path))


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"model": {"type": "BPE"}}'])
def test_files_that_are_no_tokenizer(tmp_path: Path, text: str) -> None:
    """A file or folder that is not a tokenizer is an error that names it, not a traceback."""
    pytest.importorskip("transformers")
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    for path in (file, tmp_path):
        with pytest.raises(OptionError, match="cannot be loaded"):
            read([completion()], tokenizer=str(path))


def test_a_tokenizer_that_knows_too_little(tmp_path: Path) -> None:
    """A vocabulary without a token for the unknown is an error that says so."""
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"hi": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert tokens(tmp_path, completion("a", "hi hi")) == [2]
    with pytest.raises(OptionError, match="cannot tokenize"):
        tokens(tmp_path, completion("a", "hello"))


def test_without_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed the error says how to install it."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(OptionError, match=r"pip install 'sortedf\[tokenize\]'"):
        tokens(folder, chat())


def test_chunks_do_not_show(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts do not depend on how many texts are tokenized together, nor on their order."""
    entries = [
        completion(str(k), "Say " * (k % 7 + 1), add_special_tokens=k % 3 > 0) for k in range(40)
    ]
    together = tokens(folder, *entries)
    assert len(set(together)) > 7
    monkeypatch.setattr(sortedf.instances.tokenizer, "_CHUNK_TEXTS", 3)
    assert tokens(folder, *entries) == together
    monkeypatch.setattr(sortedf.instances.tokenizer, "_CHUNK_CHARACTERS", 10)
    assert tokens(folder, *entries) == together


def test_logging_is_left_as_it_was(folder: Path) -> None:
    """Keeping transformers quiet does not change what the program around it logs."""
    for level in (logging.NOTSET, logging.INFO, logging.CRITICAL):
        logging.disable(level)
        try:
            tokens(folder, chat())
            assert logging.root.manager.disable == level
        finally:
            logging.disable(logging.NOTSET)


def test_nothing_is_printed(folder: Path, tmp_path: Path) -> None:
    """In a fresh process counting prints nothing: no advice on PyTorch, no warning on length."""
    program = (
        "import sys\n"
        "from sortedf.instances.reading import ReadOptions\n"
        "from sortedf.instances.prompts import Text\n"
        "from sortedf.instances.tokens import prompt_counter\n"
        "counter = prompt_counter(ReadOptions(tokenizer=sys.argv[1]), print)\n"
        "text = counter.chat({}, [{'role': 'user', 'content': 'hi ' * 5000}])\n"
        "assert counter.count([text, Text('hi')])[0] > 5000\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_template_of_these_tests_is_whole() -> None:
    """The template names the special tokens, so that counts above include them."""
    assert all(token in CHATML for token in SPECIAL_TOKENS if "|" in token)

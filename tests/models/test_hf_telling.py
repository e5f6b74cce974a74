"""What is told while a model is opened: the weights always, the vocabulary when its reading is long."""

import threading
from pathlib import Path

import pytest
from hf_folders import byte_tokenizer, save_folder
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from attnscope.models import load
from attnscope.models.huggingface import tokenizer_files
from attnscope.nn import progress_heard, tell, tell_and_wait


def tiny_folder(folder: Path) -> Path:
    tokenizer: Tokenizer = byte_tokenizer()
    size = tokenizer.get_vocab_size()
    config = GPT2Config(vocab_size=size, n_embd=8, n_layer=1, n_head=2, n_positions=32)
    return save_folder(folder, GPT2LMHeadModel(config), tokenizer)


def test_that_a_thread_tells_only_who_listens_on_it() -> None:
    heard: list[str] = []
    tell("before")
    with progress_heard(heard.append):
        tell("one")
        with progress_heard(lambda what: heard.append(f"inner {what}")):
            tell("two")
        other = threading.Thread(target=tell, args=("from elsewhere",))
        other.start()
        other.join()
        tell("three")
    tell_and_wait("after")
    assert heard == ["one", "inner two", "three"]


def test_that_a_long_vocabulary_is_told_before_the_library_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, heard = tiny_folder(tmp_path / "tiny"), []
    read = Tokenizer.from_str

    class Library:
        @staticmethod
        def from_str(content: str) -> Tokenizer:
            heard.append("read")
            return read(content)

    monkeypatch.setattr(tokenizer_files, "LibraryTokenizer", Library)
    with progress_heard(heard.append):
        load(folder, device="cpu")
        assert heard == ["read", "Reading the weights…"]
        heard.clear()
        monkeypatch.setattr(tokenizer_files, "_LONG", 100)
        load(folder, device="cpu")
    assert [what.split(":")[0] for what in heard] == [
        "Reading a large vocabulary",
        "read",
        "Reading the weights…",
    ]

"""A tokenizer kind is one file: whatever stands in the package is in every list."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from added_files import look_also_in

from attnscope.schemes import tokenizers
from attnscope.schemes.registry import schemes_of
from attnscope.schemes.tokenizers import KINDS
from attnscope.schemes.tokenizers.kind import TokenizerKind
from attnscope.text.inspection import tokenizer_kind
from attnscope.text.tokenizer import train_tokenizer

TEXTS = ("the cat sat on the mat", "a dog and a bird saw the cat") * 4
ADDED = """
from attnscope.schemes.tokenizers.kind import Library
from attnscope.schemes.tokenizers.words import Words


class Lines(Words):
    name, title, order = "lines", "lines", 900

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, models

        return Tokenizer(models.WordLevel(unk_token="<unk>"))
"""


@pytest.mark.parametrize("name", KINDS)
def test_that_a_tokenizer_of_every_kind_is_known_as_that_kind(name: str) -> None:
    tokenizer = train_tokenizer(name, TEXTS, vocab_size=300)
    assert tokenizer_kind(tokenizer.entries.library) == name


def test_that_kinds_have_titles_of_their_own_and_an_order() -> None:
    assert [*KINDS][:6] == ["words", "characters", "bpe", "wordpiece", "unigram", "byte-bpe"]
    titles, orders = ({getattr(kind, part) for kind in KINDS.values()} for part in ("title", "order"))
    assert len(titles) == len(orders) == len(KINDS)


def test_that_one_more_file_is_one_more_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lines.py").write_text(ADDED, encoding="utf-8")
    look_also_in(tmp_path, tokenizers, monkeypatch)
    try:
        found = schemes_of("attnscope.schemes.tokenizers", TokenizerKind)
    finally:
        sys.modules.pop("attnscope.schemes.tokenizers.lines", None)
    assert list(found) == [*KINDS, "lines"]
    library = found["lines"].untrained()
    library.train_from_iterator(TEXTS, found["lines"].trainer(10, Counter()))
    assert library.get_vocab_size() == 7

"""Tokenizers that make a short text endless are refused at opening; those of real models are not."""

import json
from collections.abc import Callable

import pytest
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from attnscope.errors import LoadError
from attnscope.text import Tokenizer, check_vocabulary, growth_of, require_no_growth, require_sane_count

Change = Callable[[Library], None]


def _library() -> Library:
    library = Library(models.WordLevel({"<unk>": 0, "a": 1, "</s>": 2}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    return library


def _steps(*steps: object) -> list[dict[str, object]]:
    return [json.loads(step.__getstate__()) for step in steps]  # type: ignore[attr-defined]


_ENDLESS: dict[str, Change] = {
    "doubling": lambda t: setattr(
        t, "normalizer", normalizers.Sequence([normalizers.Replace("a", "aa") for _ in range(40)])
    ),
    "nested": lambda t: setattr(
        t,
        "normalizer",
        normalizers.Sequence([normalizers.Sequence([normalizers.Replace("a", "a" * 200)]) for _ in range(9)]),
    ),
    "a chain of letters": lambda t: setattr(
        t,
        "normalizer",
        normalizers.Sequence([normalizers.Replace(chr(97 + i), chr(98 + i) * 9) for i in range(20)]),
    ),
    "an empty match": lambda t: setattr(t, "normalizer", normalizers.Replace(Regex("(?=a)"), "x" * 1000)),
    "before": lambda t: setattr(
        t,
        "normalizer",
        normalizers.Sequence([normalizers.Prepend("ab"), normalizers.Replace("b", "a" * 300)]),
    ),
    "bytes of bytes": lambda t: setattr(
        t, "pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.ByteLevel() for _ in range(30)])
    ),
    "decoding": lambda t: setattr(
        t, "decoder", decoders.Sequence([decoders.Replace("a", "aaaa") for _ in range(20)])
    ),
    "a template": lambda t: setattr(
        t, "post_processor", processors.TemplateProcessing(single=" ".join(["$A"] * 1000), special_tokens=[])
    ),
    "templates": lambda t: setattr(
        t,
        "post_processor",
        processors.Sequence(
            [processors.TemplateProcessing(single="$A $A", special_tokens=[]) for _ in range(30)]
        ),
    ),
    "a long piece": lambda t: t.add_tokens(["b" * 20_000]),
}


@pytest.mark.parametrize("name", _ENDLESS)
def test_that_endless_growth_is_refused_before_a_text_is_read(name: str) -> None:
    library = _library()
    _ENDLESS[name](library)
    with pytest.raises(LoadError) as caught:
        Tokenizer(library)
    assert caught.value.kind == "tokenizer"


@pytest.mark.parametrize(
    "steps",
    [
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")],
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ],
        [normalizers.BertNormalizer()],
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()],
        [normalizers.Replace("\n", "<|newline|>"), normalizers.Replace("\t", "<|tab|>")],
        [normalizers.ByteLevel()],
    ],
)
def test_that_the_rules_of_real_tokenizers_pass(steps: list[object]) -> None:
    library = _library()
    library.normalizer = normalizers.Sequence(steps)  # type: ignore[arg-type]
    require_no_growth(library)


def test_that_the_bound_is_never_below_the_true_growth() -> None:
    chains = [
        [normalizers.Replace("ab", "ba"), normalizers.Replace("b", "ccc"), normalizers.Replace("cc", "abc")],
        [normalizers.Replace("a", "bb"), normalizers.Replace("bbbb", "x" * 9), normalizers.Replace("x", "")],
        [
            normalizers.Replace(Regex("a*"), "q"),
            normalizers.Replace("q", "rs"),
            normalizers.Replace("r", "qq"),
        ],
        [normalizers.Prepend("ab"), normalizers.Replace("ab", "abab"), normalizers.Replace("b", "aa")],
        [normalizers.BertNormalizer(), normalizers.Replace(" ", "--")],
        [normalizers.ByteLevel(), normalizers.ByteLevel()],
    ]
    for chain in chains:
        bound = growth_of(_steps(*chain))
        for text in ("a", "b", "ab" * 8, "a" * 16, "ba" * 5 + "q", "漢字", "é"):
            found = normalizers.Sequence(chain).normalize_str(text)
            assert len(found) <= bound * (len(text) + 1), (chain, text, len(found), bound)


def test_that_a_piece_for_every_unknown_letter_counts() -> None:
    require_sane_count(10_000, 1)
    with pytest.raises(LoadError, match="makes 10,065 tokens of 1 characters"):
        require_sane_count(10_065, 1)


class Asked:
    """A tokenizer of the library that may not be asked for everything at once: that freezes the window."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def __getattr__(self, name: str) -> object:
        assert name != "get_vocab", "the whole vocabulary was asked for at once"
        return getattr(self._library, name)

    def get_vocab_size(self, *, with_added_tokens: bool) -> int:
        assert not with_added_tokens, "the library lists everything to count it"
        return self._library.get_vocab_size(with_added_tokens=False)


@pytest.mark.parametrize("added", [(), ("<new>",), ("a",), ("<new>", "a", "<newer>")])
def test_that_a_vocabulary_is_looked_through_piece_by_piece(added: tuple[str, ...]) -> None:
    library = Library(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    library.add_tokens(list(added))
    assert check_vocabulary(Asked(library)) == len(library.get_vocab(with_added_tokens=True))


@pytest.mark.parametrize("ids", [(0, 1), (0, 9_000)])
def test_that_a_piece_as_long_as_a_book_is_refused(ids: tuple[int, int]) -> None:
    library = Library(models.WordLevel({"a": ids[0], "b" * 10_001: ids[1]}, unk_token="a"))
    with pytest.raises(LoadError, match="One of its pieces has 10,001 characters"):
        check_vocabulary(library)

"""Tokenizers that make a short text endless are refused at opening; those of real models are not."""

import json
from collections.abc import Callable

import pytest
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from attnscope.errors import LoadError
from attnscope.text.growth import growth_of, require_no_growth, require_sane_count
from attnscope.text.tokenizer import Tokenizer

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

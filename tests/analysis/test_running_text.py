"""How well a model tells running text, against sums of logarithms in float64, window by window."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from hf_folders import bert_tokenizer, byte_tokenizer, save_folder
from tiny_models import SENTENCE, tiny_model, tiny_tokenizer

from attnscope.analysis import (
    MASK_SEED,
    MASK_SHARE,
    hidden_words_right,
    metrics,
    ratio_of,
    tell_text,
    telling_subject,
)
from attnscope.errors import UserError
from attnscope.models import Model, load
from attnscope.records import NO_GATES, Gates, HeadRef
from attnscope.text import train_tokenizer

TEXT = "the cat sat on the mat\n\na dog saw the bird and the cat\n" * 9 + "sat"
LETTERS = train_tokenizer("byte-bpe", [TEXT], vocab_size=280)


def parts_of(model: Model, text: str) -> list[str]:
    """As many whole words at a time as the model reads."""
    parts, rest = [], text
    while rest.strip():
        ends = [i for i in range(1, len(rest)) if rest[i].isspace() or rest[i - 1] == "\n"] + [len(rest)]
        n = max(i for i in ends if not model.encode(rest[:i]).source.n_dropped)
        parts.append(rest[:n])
        rest = rest[n:]
    return parts


def told_slowly(model: Model, parts: list[str]) -> tuple[float, int, int]:
    """The sum of −ln p, of tokens told, and of those told first."""
    loss, n, n_right = 0.0, 0, 0
    for part in parts:
        inputs = model.encode(part)
        logits = model.network.run(inputs).logits().double().numpy()
        for i, id in enumerate(inputs.source.ids[1:]):
            row = logits[i]
            loss += math.log(sum(math.exp(x - row.max()) for x in row)) - (row[id] - row.max())
            n, n_right = n + 1, n_right + (int(row.argmax()) == id)
    return loss, n, n_right


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", [tiny_tokenizer(), LETTERS], ids=["words", "byte-bpe"])
@pytest.mark.parametrize("n_tokens", [7, 24])
def test_that_nats_a_character_are_those_of_every_window(tokenizer: object, n_tokens: int) -> None:
    model = tiny_model("decoder", tokenizer, max_tokens=n_tokens)  # type: ignore[arg-type]
    parts = parts_of(model, TEXT)
    loss, n, n_right = told_slowly(model, parts)
    told = tell_text(model, TEXT)
    assert (told.n_windows, told.n_tokens, told.n_characters) == (len(parts), n, len(TEXT))
    assert told.per_token[0] == pytest.approx(loss / n, rel=1e-5)
    assert told.per_character is not None
    assert told.per_character[0] == pytest.approx(loss / len(TEXT), rel=1e-5)
    assert told.accuracy[0] == pytest.approx(n_right / n)
    assert told.per_character[1] < told.per_character[0] < told.per_character[2]


def test_that_a_single_short_text_has_no_interval() -> None:
    told = tell_text(tiny_model("decoder"), SENTENCE)
    assert (told.n_windows, told.n_tokens) == (1, 6)
    assert math.isnan(told.per_token[1])


def test_that_no_interval_of_a_share_goes_beyond_1(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([[9.0, 10.0], *[[10.0, 10.0]] * 5])
    monkeypatch.setattr(metrics, "hidden_words_right", lambda *_: counts)
    told = tell_text(tiny_model("encoder"), TEXT)
    assert told.words is not None
    assert told.words[1] < told.words[0] < told.words[2] == 1.0
    monkeypatch.setattr(metrics, "make_metric", lambda *_: metrics.Metric(lambda _: iter([counts]), ratio_of))
    told = tell_text(tiny_model("decoder"), TEXT)
    assert told.accuracy == pytest.approx((59 / 60, 59 / 60 - 2.5706 / 60, 1.0), abs=1e-5)
    assert told.per_token[2] > 1.0


def test_that_a_masked_model_tells_what_is_hidden_and_no_characters() -> None:
    model = tiny_model("encoder")
    told = tell_text(model, TEXT)
    assert told.per_character is None
    assert told.words is not None
    assert 0 < told.n_tokens < 0.5 * len(TEXT.split())
    assert np.isfinite(told.per_token[0])


@pytest.mark.parametrize("tokenizer", [tiny_tokenizer(), LETTERS], ids=["words", "byte-bpe"])
def test_that_a_hidden_word_is_right_where_all_its_pieces_are(tokenizer: object) -> None:
    model = tiny_model("encoder", tokenizer, max_tokens=64)  # type: ignore[arg-type]
    texts = [f"a dog saw, the bird and the {word}." for word in ("cat", "zebra", "café")] + ["...", ""]
    told = hidden_words_right(model, telling_subject(model), texts, NO_GATES)
    rng = np.random.default_rng(MASK_SEED)
    for text, (n_right, n_hidden) in zip(texts, told, strict=True):
        tokens = model.encode(text).source.tokens
        words = [
            [k for k, t in enumerate(tokens) if not t.is_special and m.start() <= t.start < m.end()]
            for m in re.finditer(r"\w+", text)
        ]
        words = [word for word in words if word]  # one that is unknown cannot be right
        draw = rng.random(len(words))
        hidden = [word for word, x in zip(words, draw, strict=True) if x < MASK_SHARE or x == draw.min()]
        shown = [token.id for token in tokens]
        for k in (k for word in hidden for k in word):
            shown[k] = model.network.vocabulary.mask_id
        logits = model.own.module(torch.tensor([shown]))[0] if shown else None
        right = [all(int(logits[k].argmax()) == tokens[k].id for k in word) for word in hidden]
        assert (n_right, n_hidden) == (sum(right), len(hidden))


def test_that_what_has_nothing_to_be_told_is_refused() -> None:
    with pytest.raises(UserError, match="translates"):
        tell_text(tiny_model("encoder-decoder"), SENTENCE)
    with pytest.raises(UserError, match="no text"):
        tell_text(tiny_model("decoder"), "")


READ = "the animal did n't cross the street because it was too tired to go home"
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}


def _of_library(kind: str, folder: Path) -> Model:
    """A causal BERT, whose tokenizer puts an end after every text, or a Bloom, which has no gates."""
    tokenizer = bert_tokenizer() if kind == "bert" else byte_tokenizer()
    n_pieces = tokenizer.get_vocab_size()
    if kind == "bert":
        config = hf.BertConfig(vocab_size=n_pieces, **SIZES, intermediate_size=24, is_decoder=True)
        return load(save_folder(folder, hf.BertLMHeadModel(config), tokenizer), "cpu")
    bloom = hf.BloomForCausalLM(hf.BloomConfig(vocab_size=n_pieces, hidden_size=16, n_layer=1, n_head=2))
    return load(save_folder(folder, bloom, tokenizer), "cpu")


@pytest.mark.parametrize("kind", ["bert", "bloom"])
def test_that_of_a_library_s_model_the_tokens_of_the_text_are_told(kind: str, tmp_path: Path) -> None:
    model = _of_library(kind, tmp_path / kind)
    source = model.encode(READ).source
    logits = model.network.run(model.encode(READ)).logits().double()[: len(source.ids) - 1]
    losses = torch.nn.functional.cross_entropy(logits, torch.tensor(source.ids[1:]), reduction="none")
    losses = losses[[not token.is_special for token in source.tokens[1:]]]
    told = tell_text(model, READ)
    assert told.n_tokens == len(losses)
    assert told.per_token[0] == pytest.approx(float(losses.mean()), rel=1e-5)
    n_read = len(READ) - (0 if kind == "bert" else source.tokens[0].end)
    assert told.per_character is not None
    assert told.per_character[0] == pytest.approx(float(losses.sum()) / n_read, rel=1e-5)


def test_that_where_weights_are_kept_whole_a_part_is_short_and_gates_are_refused(tmp_path: Path) -> None:
    bloom = _of_library("bloom", tmp_path / "bloom")
    told = tell_text(bloom, READ * 50)
    assert told.n_windows == math.ceil(len(bloom.encode(READ * 50).source.ids) / 1024)
    with pytest.raises(UserError, match="heads cannot be scored"):
        tell_text(bloom, READ, Gates.of({HeadRef(stack="decoder", layer=0, head=0): 0.0}))

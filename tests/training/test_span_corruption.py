"""Span corruption: what is hidden, that nothing is lost by it, and that typed texts are filled."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.models import load, number_masks, written_text
from attnscope.text import train_tokenizer
from attnscope.training import corrupt, count_spans, hidden_tokens, parse_recipe, prepare, train

SPANS = {"objective.kind": "span-corruption"}


def _restored(source: list[int], target: list[int], sentinels: tuple[int, ...]) -> list[int]:
    """The text again, by hand: each sentinel of the source gives way to what stands behind it."""
    spans: dict[int, list[int]] = {}
    for id in target:
        if id in sentinels:
            current = spans.setdefault(id, [])
        else:
            current.append(id)
    whole: list[int] = []
    for id in source:
        whole.extend(spans[id] if id in sentinels else [id])
    return whole


@pytest.mark.parametrize(("length", "share", "mean"), [(64, 0.15, 3.0), (9, 0.5, 1.0), (3, 0.9, 3.0)])
def test_that_hidden_spans_give_back_the_text(length: int, share: float, mean: float) -> None:
    sentinels = tuple(range(1000, 1100))
    rng = np.random.default_rng(0)
    window = np.arange(10, 10 + length)
    n_hidden, n_spans = count_spans(length, share, mean)
    for _ in range(20):
        hidden = hidden_tokens(length, share, mean, rng)
        source, target = corrupt(window, hidden, sentinels)
        assert hidden.sum() == n_hidden
        assert not hidden[0]
        assert hidden[-1]
        assert [id for id in source if id >= 1000] == list(sentinels[:n_spans])
        assert len(target) == n_hidden + n_spans
        assert _restored(source.tolist(), target.tolist(), sentinels) == window.tolist()


def test_that_fifteen_percent_in_spans_of_three_is_what_the_paper_hides() -> None:
    assert count_spans(512, 0.15, 3.0) == (77, 26)
    rng = np.random.default_rng(1)
    means = [hidden_tokens(512, 0.15, 3.0, rng).mean() for _ in range(3)]
    assert means == [77 / 512] * 3


def test_that_batches_hold_sources_and_targets_of_the_text(tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe, overrides=SPANS)
    data = prepare(recipe)
    tokenizer = data.tokenizer
    assert tokenizer.vocab_size == 300 + len(tokenizer.sentinel_ids)
    batch = data.batches.draw(np.random.default_rng(0), 0.0)
    again = data.batches.draw(np.random.default_rng(0), 0.0)
    assert torch.equal(batch.ids, again.ids)
    assert batch.ids.shape[1] <= recipe.model.max_tokens
    assert batch.target_ids is not None
    assert (batch.ids[:, -1] == tokenizer.end_id).all()
    assert (batch.target_ids[:, 0] == tokenizer.begin_id).all()
    text = Path(recipe.data.path).read_text()
    width = batch.target_ids.shape[1]
    for row in range(len(batch.ids)):
        source = batch.ids[row, :-1].tolist()
        target = batch.labels[row * width : (row + 1) * width].tolist()
        assert target[-1] == tokenizer.end_id
        whole = _restored(source, target[:-1], tokenizer.sentinel_ids)
        assert tokenizer.decode(whole) in text


@pytest.mark.slow
def test_that_a_typed_text_is_read_with_sentinels_and_filled(tiny_recipe: str, tmp_path: Path) -> None:
    changes = {**SPANS, "training.n_steps": "2", "model.max_tokens": "40", "objective.mean_span": "3"}
    list(train(tiny_recipe, tmp_path / "run", "cpu", changes))
    model = load(tmp_path / "run", device="cpu")
    assert model.info.objective == "span-corruption"
    text = "Before <mask> proceed <extra_0> further, <mask> me"
    inputs = model.network.encode(text)
    v = model.own.vocabulary
    read = [t.id for t in inputs.source.tokens if t.id in (*v.sentinel_ids, v.mask_id)]
    assert read == [v.sentinel_ids[1], v.sentinel_ids[0], v.mask_id]  # there are two sentinels
    marks = [text[t.start : t.end] for t in inputs.source.tokens if t.id in v.sentinel_ids]
    assert marks == ["<mask>", "<extra_0>"]
    ids = v.encode_ids("<extra_0> any <extra_1> we")
    assert written_text(model.network, inputs, ids) == "Before we proceed any further, <mask> me"
    assert written_text(model.network, inputs, v.encode_ids("<extra_1>")).startswith(
        "Before proceed <extra_0>"
    )
    assert model.trace("Before <mask> proceed", "<extra_0> we").check().is_good
    assert isinstance(model.generate("Before <mask> proceed"), str)


def test_that_a_translation_tokenizer_leaves_masks_alone() -> None:
    tokenizer = train_tokenizer("words", ["a b c"], vocab_size=12)
    tokens = tokenizer.encode("a <mask> c")
    assert number_masks(tokens, tokenizer) is tokens


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "wordpiece", "unigram", "words", "characters"])
def test_that_sentinels_are_special_tokens_of_every_kind(kind: str) -> None:
    size = 300 if kind == "byte-bpe" else 60
    plain = train_tokenizer(kind, ["Thank you for inviting me last week"] * 3, vocab_size=size)
    tokenizer = plain.with_sentinels(2)
    assert tokenizer.vocab_size == plain.vocab_size + 2
    target = tokenizer.encode("<extra_0> for inviting <extra_1> last")
    assert [t.piece for t in target.tokens if t.is_special] == ["<extra_0>", "<extra_1>"]
    assert tokenizer.encode_ids(tokenizer.decode(target.ids)) == list(target.ids)
    assert plain.encode_ids("<extra_0>") != tokenizer.encode_ids("<extra_0>")


def test_that_sentinels_count_as_numbers_and_not_as_words() -> None:
    tokenizer = train_tokenizer("words", ["a b c"], vocab_size=12).with_sentinels(12)
    first = tokenizer.vocab_size - 12
    assert tokenizer.sentinel_ids == tuple(range(first, first + 12))


@pytest.mark.parametrize(("share", "mean"), [("0.5", "1.0"), ("0.8", "4.0")])  # one token more does not fit
def test_that_texts_that_grow_by_their_sentinels_still_fit(tiny_recipe: str, share: str, mean: str) -> None:
    changes = {**SPANS, "objective.corrupted_share": share, "objective.mean_span": mean}
    recipe = parse_recipe(tiny_recipe, overrides=changes)
    batch = prepare(recipe).batches.draw(np.random.default_rng(0), 0.0)
    assert batch.target_ids is not None
    assert max(batch.ids.shape[1], batch.target_ids.shape[1]) == recipe.model.max_tokens


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"objective.corrupted_share": "0"}, "objective.corrupted_share is 0"),
        ({"objective.mean_span": '"long"'}, 'objective.mean_span is "long"'),
        ({"model.max_tokens": "4"}, "model.max_tokens is 4"),
        ({"objective.next_sentence": "true"}, "objective.next_sentence is true"),
        ({"data.kind": "pairs"}, 'objective.kind is "span-corruption"'),
    ],
)
def test_that_impossible_spans_are_refused(tiny_recipe: str, changes: dict[str, str], found: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(tiny_recipe, overrides={**SPANS, **changes})
    assert found in str(caught.value)

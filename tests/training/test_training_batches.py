"""Batches: what is read, what has to be told, and what is never scored."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig, build_transformer
from attnscope.text import train_tokenizer
from attnscope.training import (
    Batch,
    ExampleBatches,
    Examples,
    ObjectivePart,
    TextBatches,
    VocabularyIds,
    loss_sum,
    masked_batch,
    pack,
    padded,
    parse_recipe,
    prepare,
    repeated_words,
    unpack,
    vocabulary_of,
)

VOCABULARY = VocabularyIds(
    pad_id=0, begin_id=2, end_id=3, mask_id=4, ordinary=np.arange(5, 200), words=np.arange(100, 200)
)


def _text(mask_share: float | None = None, repeated_share: float = 0.0) -> TextBatches:
    return TextBatches(
        training=np.arange(5, 105),
        held_out=np.arange(105, 165),
        vocabulary=VOCABULARY,
        n_tokens=10,
        batch_size=6,
        mask_share=mask_share,
        repeated_share=repeated_share,
        n_evaluation=3,
    )


def test_that_a_causal_window_begins_with_the_begin_token_and_tells_each_next_token() -> None:
    batch = _text().draw(np.random.default_rng(0), 0.0)
    assert batch.ids.shape == (6, 10)
    assert (batch.ids[:, 0] == 2).all()
    labels = batch.labels.view(6, 10)
    assert (labels[:, :-1] == batch.ids[:, 1:]).all()
    assert (labels[:, 1:] == labels[:, :-1] + 1).all()
    assert batch.labels.max() < 105


def test_that_evaluation_windows_are_the_same_every_time_and_held_out() -> None:
    for share in (None, 0.3):
        first, second = _text(share).evaluation(), _text(share).evaluation()
        assert sum(len(batch.ids) for batch in first) == 60 // (10 if share is None else 8)
        for a, b in zip(first, second, strict=True):
            assert (a.ids == b.ids).all()
            assert (a.labels >= 105).all()


def test_that_a_masked_window_lies_between_begin_and_end() -> None:
    batch = _text(mask_share=0.5).draw(np.random.default_rng(0), 0.0)
    assert (batch.ids[:, 0] == 2).all()
    assert (batch.ids[:, -1] == 3).all()


def test_that_text_shorter_than_a_window_still_gives_batches() -> None:
    short = TextBatches(
        training=np.arange(5, 9),
        held_out=np.arange(5, 8),
        vocabulary=VOCABULARY,
        n_tokens=10,
        batch_size=2,
        mask_share=None,
        repeated_share=1.0,
        n_evaluation=3,
    )
    assert short.draw(np.random.default_rng(0), 0.0).ids.shape == (2, 4)
    assert [batch.ids.shape for batch in short.evaluation()] == [(1, 3)]


def test_that_masking_hides_the_share_and_splits_it_80_10_10() -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(5, 200, size=(400, 100))
    whole[:, 0], whole[:, -1], whole[:, 50:60] = 2, 3, 0
    batch = masked_batch(whole, VOCABULARY, 0.15, rng)
    ids, scored = batch.ids.numpy(), batch.scored.numpy()
    assert len(scored) / (400 * 88) == pytest.approx(0.15, abs=0.006)  # three standard deviations
    shown, true = ids.reshape(-1)[scored], batch.labels.numpy()
    assert (shown == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == true).mean() == pytest.approx(0.1, abs=0.015)
    assert (true == whole.reshape(-1)[scored]).all()


def test_that_specials_are_never_hidden_and_every_row_has_something_to_guess() -> None:
    whole = np.full((50, 6), 0)
    whole[:, 0], whole[:, 1], whole[:, 2] = 2, 77, 3
    batch = masked_batch(whole, VOCABULARY, 0.01, np.random.default_rng(0))
    assert (batch.labels == 77).all()
    assert len(batch.labels) == 50


def test_that_masking_leaves_everything_else_as_it_was() -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(5, 200, size=(20, 30))
    batch = masked_batch(whole, VOCABULARY, 0.2, rng)
    is_scored = np.zeros(whole.size, dtype=bool)
    is_scored[batch.scored.numpy()] = True
    assert (batch.ids.numpy().reshape(-1)[~is_scored] == whole.reshape(-1)[~is_scored]).all()


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_that_what_is_scored_in_repeated_words_followed_the_same_word_before(progress: float) -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        ids, can_know = repeated_words(VOCABULARY, 60, rng, progress)
        assert can_know.any()
        followed: dict[int, set[int]] = {}
        for i in range(1, 60):
            if can_know[i]:
                assert int(ids[i]) in followed[int(ids[i - 1])]
            followed.setdefault(int(ids[i - 1]), set()).add(int(ids[i]))
        assert not can_know[0]


def test_that_stretches_stand_at_changing_places_in_changing_lengths() -> None:
    rng = np.random.default_rng(3)
    firsts = {int(np.flatnonzero(repeated_words(VOCABULARY, 60, rng)[1])[0]) for _ in range(200)}
    assert len(firsts) > 15


def test_that_the_pool_of_words_grows_from_a_few_words_to_every_token() -> None:
    rng = np.random.default_rng(4)

    def seen(progress: float) -> set[int]:
        return {int(i) for _ in range(200) for i in repeated_words(VOCABULARY, 60, rng, progress)[0]}

    assert seen(0.0) == set(range(100, 140))
    assert 40 < len(seen(0.35)) < 195
    assert seen(1.0) == set(range(5, 200))


def test_that_a_vocabulary_of_one_word_still_repeats() -> None:
    one = VocabularyIds(
        pad_id=0, begin_id=2, end_id=3, mask_id=4, ordinary=np.array([7]), words=np.array([7])
    )
    ids, _ = repeated_words(one, 6, np.random.default_rng(0))
    assert (ids == 7).all()


def _examples() -> Examples:
    ids, lengths = padded([[2, 10, 11, 3], [2, 12, 13, 14, 15, 3]], 0)
    sources, source_lengths = padded([[20, 3], [21, 22, 23, 3]], 0)
    return Examples(
        ids=ids, lengths=lengths, n_given=0 * lengths, sources=sources, source_lengths=source_lengths
    )


def test_that_padding_is_neither_seen_nor_scored() -> None:
    batches = ExampleBatches(training=_examples(), held_out=_examples(), batch_size=2, n_evaluation=1)
    (batch,) = batches.evaluation()
    assert batch.target_ids is not None
    assert batch.valid is not None
    assert batch.ids.tolist() == [[20, 3, 0, 0], [21, 22, 23, 3]]
    assert batch.valid.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.target_ids.tolist() == [[2, 10, 11, 3, 0], [2, 12, 13, 14, 15]]
    assert batch.labels.tolist() == [10, 11, 3, 12, 13, 14, 15, 3]


def test_that_what_is_given_of_a_text_is_not_scored() -> None:
    ids, lengths = padded([[2, 10, 11, 10, 11, 3]], 0)
    rows = Examples(ids=ids, lengths=lengths, n_given=np.array([3]))
    batches = ExampleBatches(training=rows, held_out=rows, batch_size=1, n_evaluation=1)
    (batch,) = batches.evaluation()
    assert batch.target_ids is None
    assert batch.labels.tolist() == [11, 3]
    assert batch.scored.tolist() == [3, 4]


@pytest.mark.slow
def test_that_batches_of_similar_lengths_hold_little_padding_and_every_example_as_often() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 40, size=200)
    ids = np.where(np.arange(40) < lengths[:, None], np.arange(200)[:, None] + 10, 0)
    rows = Examples(ids=ids, lengths=lengths, n_given=0 * lengths, sources=ids, source_lengths=lengths)
    assert rows.total_lengths.tolist() == (2 * lengths).tolist()
    batches = ExampleBatches(
        training=rows, held_out=rows, batch_size=8, n_evaluation=1, has_similar_lengths=True
    )
    counts = np.zeros(200)
    n_cells = n_padding = 0
    for step in range(1500):
        batch = batches.draw(np.random.default_rng((3, step)), 0.5)
        np.add.at(counts, batch.ids[:, 0].numpy() - 10, 1)
        n_cells += batch.ids.numel()
        n_padding += 0 if batch.valid is None else int((~batch.valid).sum())
    assert n_padding / n_cells < 0.05  # at random it is more than a third
    expected = 1500 * 8 / 200
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < 290  # chi-squared of 199 degrees of freedom: one in 30,000


def test_that_label_smoothing_is_the_mean_over_all_pieces_mixed_into_the_loss() -> None:
    config = ModelConfig(
        form="decoder", vocab_size=11, d_model=8, n_layers=1, n_heads=2, d_ff=8, max_tokens=6
    )
    module = build_transformer(config, seed=3).double()
    batch = Batch(ids=torch.arange(6)[None], scored=torch.arange(6), labels=torch.tensor([1, 3, 5, 7, 9, 10]))
    log_p = module(batch.ids)[0].log_softmax(-1).detach()
    slow = -sum(
        0.9 * log_p[i, label] + 0.1 * log_p[i].mean() for i, label in enumerate(batch.labels.tolist())
    )
    assert loss_sum(module, batch, 0.1).item() == pytest.approx(float(slow), rel=1e-6)
    assert loss_sum(module, batch).item() == pytest.approx(
        -float(log_p[range(6), batch.labels].sum()), rel=1e-6
    )


def test_that_the_pieces_of_a_word_are_hidden_together_and_no_others() -> None:
    part = ObjectivePart(kind="masked", whole_words=True)
    texts = ["un happi ness, un happi ness! cafe's 1234 日本", "happiness, unhappiness (happi)un"]
    tokenizer = train_tokenizer("byte-bpe", [*texts, "unhappy happily happiness"], vocab_size=290)
    vocabulary = vocabulary_of(tokenizer, part)
    rng = np.random.default_rng(3)
    for text in (*texts, "“unhappiness”,happiness 12 34é"):
        tokens = tokenizer.encode(text, max_tokens=200).tokens
        ids = np.array([token.id for token in tokens])
        letters = [text[t.start : t.end] for t in tokens]
        words, word = (
            [],
            -1,
        )  # slowly: a new word wherever something else than letters stands between two pieces
        for i, (piece, t) in enumerate(zip(letters, tokens, strict=True)):
            after = i and tokens[i - 1].end >= t.start and (letters[i - 1] + piece).isalnum()
            word += 0 if after else 1
            words.append(word)
        hidden = set()
        for _ in range(60):
            batch = masked_batch(ids[None], vocabulary, 0.3, rng)
            found = set(batch.scored.tolist())
            assert all(
                (i in found) == (j in found)
                for i in range(len(ids))
                for j in range(len(ids))
                if words[i] == words[j]
            ), (text, letters, words)
            hidden.add(frozenset(words[i] for i in found))
        assert len(hidden) > 5


def test_that_whole_words_are_for_masked_models_alone() -> None:
    with pytest.raises(RecipeError, match=r"objective\.whole_words is true"):
        parse_recipe(
            '[data]\nkind = "text"\npath = "x"\n[objective]\nkind = "causal"\nwhole_words = true\n'
            "[training]\nn_steps = 1\n"
        )


def test_that_some_sources_are_read_once_more_as_they_are_typed_in_haste(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"The Number {n}.\tLe nombre {n}.\n" for n in range(40)))
    recipe = (
        '[model]\nd_model = 8\nn_heads = 1\n[tokenizer]\nkind = "characters"\nvocab_size = 60\n'
        '[data]\nkind = "pairs"\n'
        f'path = "{path}"\nvalidation_share = 0.25\ncareless_share = 0.5\n[objective]\nkind = "translation"\n'
        "[training]\nn_steps = 1\nseed = 4\n"
    )
    prepared = prepare(parse_recipe(recipe))
    assert isinstance(prepared.batches, ExampleBatches)
    rows, lengths = prepared.batches.training.sources, prepared.batches.training.source_lengths
    assert rows is not None
    assert lengths is not None
    decode = prepared.tokenizer.decode
    found = [decode(ids[: n - 1]) for ids, n in zip(rows.tolist(), lengths, strict=True)]
    whole, typed = found[:30], found[30:]
    assert all(text.startswith("The Number ") and text.endswith(".") for text in whole)
    assert len(set(typed)) == len(typed) == 15
    assert all(f"T{text[1:]}." in whole and text.startswith("the Number") for text in typed)
    assert len(prepared.batches.held_out.lengths) == 10


def test_that_a_packed_batch_unpacks_to_itself(task_recipe: str, tiny_recipe: str) -> None:
    pairs = {"objective.kind": "masked", "objective.next_sentence": "true"}
    for text, changes in ((task_recipe, {}), (tiny_recipe, {}), (tiny_recipe, pairs)):
        data = prepare(parse_recipe(text, overrides={"training.precision": "float32", **changes}))
        batch = data.batches.draw(np.random.default_rng(0), 0.0)
        again = unpack(batch, pack(batch))
        for name in ("ids", "scored", "labels", "valid", "target_ids", "target_valid", "segments", "is_next"):
            given, found = getattr(batch, name), getattr(again, name)
            assert (given is None) == (found is None), name
            assert given is None or (torch.equal(given, found) and given.dtype == found.dtype), name

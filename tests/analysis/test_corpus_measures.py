import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from known_heads import KNOWN_WORDS, known_decoder
from tiny_models import FORMS, FRENCH, SENTENCE, tiny_model

from attnscope import measure, measure_texts
from attnscope.analysis import (
    HeadSums,
    RatioBootstrap,
    build_facts,
    mean_interval,
    measure_corpus,
    output_matrices,
    read_corpus,
)
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records import (
    MEASURE_NAMES,
    OFFSET_REACH,
    CorpusProgress,
    HeadRef,
    HeadTable,
    Token,
    order_heads,
)

W1 = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
W2 = torch.tensor([[1, 0, 0], [0.4, 0.6, 0], [0.1, 0.1, 0.8]])
TEXTS = [
    SENTENCE,
    "a dog saw the bird on the mat the cat saw",
    "the cat saw the cat",
    "le chat sat sur the tapis",
]
WORDS = KNOWN_WORDS


def fixture(weights: torch.Tensor, ids: Sequence[int] = (5, 6, 7)) -> dict[str, float]:
    tokens = [Token(id=id, piece=str(id)) for id in ids]
    sums = HeadSums(build_facts([tokens], [tokens], is_self=True), 1)
    allowed = torch.ones(3, 3).tril().bool()[None, None]
    sums.add(weights.log()[None, None], allowed, slice(0, 3), slice(0, 3))
    return {name: float(value[0, 0]) for name, value in sums.values().items()}


def test_that_the_hand_fixture_comes_out_to_four_digits_in_every_column() -> None:
    found = fixture(W1)
    expected = {
        "entropy_nats": 0.5743,
        "entropy": (1 + 1.0297 / math.log(3)) / 2,
        "distance": 0.4,
        "confidence": 0.6667,
        "previous_mul": 0.26667,
        "previous_abs": -0.13333,
        "first": 0.5667,
        "diagonal": 0.6667,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=5e-5), name
    assert fixture(W2)["previous_mul"] == pytest.approx(0.16667, abs=5e-6)
    assert math.isnan(fixture(W1)["duplicate_mul"])  # nothing repeats: nothing to detect
    repeated = fixture(W1, (5, 6, 5))  # query 2 equals key 0, and key 1 followed it
    assert repeated["duplicate_mul"] == pytest.approx(0.2 / 3, abs=1e-6)
    assert repeated["induction_mul"] == pytest.approx(0.3 / 3, abs=1e-6)
    assert repeated["duplicate_abs"] == pytest.approx(1 - (3 + 1 - 0.4) / 3, abs=1e-6)


def slow_values(model: Model, text: object, head: HeadRef, specials: str) -> dict[str, float]:
    """Every measure of one head on one text, by loops in float64."""
    source, target = text if isinstance(text, tuple) else (text, None)
    trace = model.trace(source, target, keep_values=True)
    a = trace.weights(head.site_key, head.head).astype(np.float64)
    queries, keys = trace.tokens(head.site_key)
    is_self = head.stack != "cross"
    kept_rows = [i for i, t in enumerate(queries) if specials == "kept" or not t.is_special]
    kept_keys = [j for j, t in enumerate(keys) if specials == "kept" or not t.is_special]
    record = trace.records[head.site_key]
    v = record.v[head.head // (record.q.shape[0] // record.k.shape[0])].double().numpy()
    norms = np.linalg.norm(v @ output_matrices(model)[head.site_key][head.head].double().numpy(), axis=1)
    rows = []
    for i in kept_rows:
        seen = {j: a[i, j] for j in kept_keys if not np.isnan(a[i, j])}
        total = sum(seen.values())
        if seen:
            rows.append((i, {j: w / total if specials == "renormalised" else w for j, w in seen.items()}))
    words = [(i, row) for i, row in rows if not (is_self and queries[i].is_special)]
    n, total = len(rows), sum(sum(row.values()) for _, row in rows)
    separators = [j for j in kept_keys[1:] if keys[j].is_special]
    entropies = [-sum(w * math.log(w) for w in row.values() if w > 0) for _, row in rows]
    chosen = [(e, len(row)) for e, (_, row) in zip(entropies, rows, strict=True) if len(row) > 1]
    end = len(keys) - 1 if len(keys) > 1 and keys[-1].is_special else None
    written = {j: sum(row.get(j, 0.0) for _, row in rows) * norms[j] for j in kept_keys}
    found = {
        "entropy": np.mean([e / math.log(m) for e, m in chosen]),
        "entropy_nats": np.mean(entropies),
        "confidence": np.mean([max((w for j, w in row.items() if j != end), default=0) for _, row in rows]),
        "first": np.mean([row.get(kept_keys[0], 0.0) for _, row in words]),
        "separator": np.mean([sum(row.get(j, 0.0) for j in separators) for _, row in words])
        if specials == "kept"
        else math.nan,
        "norm": sum(written.values()) / n,
        "norm_first": written[kept_keys[0]] / sum(written.values()),
    }
    if not is_self:
        return found
    found["distance"] = np.mean([sum(w * abs(i - j) for j, w in row.items()) for i, row in rows])
    found["diagonal"] = np.mean([row.get(i, 0.0) for i, row in words])
    found["previous"] = np.mean([row.get(i - 1, 0.0) for i, row in words if i - 1 in kept_keys])
    patterns = {
        "previous": lambda i, j: j == i - 1,
        "duplicate": lambda i, j: j < i and keys[j].id == queries[i].id,
        "induction": lambda i, j: 1 <= j <= i and keys[j - 1].id == queries[i].id,
    }
    for name, is_wanted in patterns.items():
        cells = [(row.get(j, 0.0), float(is_wanted(i, j))) for i, row in rows for j in kept_keys]
        if not any(p for _, p in cells):
            found[f"{name}_mul"] = found[f"{name}_abs"] = math.nan
            continue
        found[f"{name}_mul"] = sum(w * p for w, p in cells) / total
        found[f"{name}_abs"] = 1 - sum(abs(w - p) for w, p in cells) / n
    return found


def slow_offsets(model: Model, text: object, head: HeadRef, specials: str) -> list[float]:
    """The mean weight of rows of words at each offset, by loops in float64."""
    source, target = text if isinstance(text, tuple) else (text, None)
    trace = model.trace(source, target)
    a = trace.weights(head.site_key, head.head).astype(np.float64)
    queries, keys = trace.tokens(head.site_key)
    kept = [j for j, token in enumerate(keys) if specials == "kept" or not token.is_special]
    words = [i for i, token in enumerate(queries) if not token.is_special]
    found = []
    for offset in range(-OFFSET_REACH, OFFSET_REACH + 1):
        total = 0.0
        for i in words:
            if i + offset in kept and not np.isnan(a[i, i + offset]):
                whole = np.nansum(a[i, kept]) if specials == "renormalised" else 1.0
                total += a[i, i + offset] / whole
        found.append(total / len(words))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "specials"),
    [("decoder", "kept"), ("encoder", "kept"), ("encoder-decoder", "dropped"), ("encoder", "renormalised")],
)
def test_that_every_measure_over_a_padded_corpus_equals_slow_float64_loops(form: str, specials: str) -> None:
    model = tiny_model(form)
    some = [*TEXTS, *TEXTS[:2]]
    texts = [(text, FRENCH) for text in some] if form == "encoder-decoder" else some
    table = measure_texts(model, texts, specials=specials).table  # type: ignore[arg-type]
    assert table.n_texts == len(texts)
    for head in table.heads[::3]:
        slow = [slow_values(model, text, head, specials) for text in texts]
        shares = table.offset_shares[table.heads.index(head)]
        if head.stack != "cross":
            expected_shares = [slow_offsets(model, text, head, specials) for text in texts]
            np.testing.assert_allclose(shares, np.nanmean(expected_shares, axis=0), atol=2e-5)
            assert table.estimate(head, "offset").value == pytest.approx(shares.max())
            assert table.heaviest_offset(head) == int(shares.argmax()) - OFFSET_REACH
        else:
            assert np.isnan(shares).all()
            assert table.heaviest_offset(head) is None
        for name in slow[0]:
            values = np.array([one[name] for one in slow])
            estimate = table.estimate(head, name)
            assert estimate.n == np.isfinite(values).sum(), name
            expected = np.nanmean(values) if estimate.n else math.nan
            assert estimate.value == pytest.approx(expected, abs=2e-5, nan_ok=True), (head.label, name)
            has_spread = estimate.n >= 5 and np.nanstd(values) > 1e-4
            assert np.isfinite(estimate.low) or not has_spread, name
            assert np.isnan(estimate.low) or estimate.n >= 5, name
            if np.isfinite(estimate.low):
                assert estimate.low - 1e-6 <= estimate.value <= estimate.high + 1e-6


def test_that_heads_with_weights_set_by_hand_score_what_they_must() -> None:
    model = known_decoder()
    halves = (WORDS[:8], WORDS[8:14], WORDS[20:32])
    texts = [" ".join([*half, *half]) for half in halves]
    table = measure_texts(model, texts).table
    lengths = np.array([2 * len(half) + 1 for half in halves])  # with the begin token

    def value(layer: int, head: int, name: str) -> float:
        return table.estimate(HeadRef(stack="decoder", layer=layer, head=head), name).value

    close = {"abs": 1e-4}
    share = float(np.mean((lengths - 1) / lengths))
    for name, expected in (
        ("previous", 1.0),
        ("previous_mul", share),
        ("previous_abs", 1 - 2 * (1 - share) + (1 - share)),
        ("distance", share),
        ("entropy", 0.0),
        ("positional", 1.0),
        ("stripe", 0.0),
    ):
        assert value(0, 0, name) == pytest.approx(expected, **close), name
    assert table.best_offsets[0] == -1
    assert value(0, 1, "distance") == pytest.approx(0.0, **close)
    assert value(0, 1, "diagonal") == pytest.approx(1.0, **close)
    assert value(0, 2, "entropy") == pytest.approx(1.0, **close)
    nats = np.mean([np.mean([math.log(i + 1) for i in range(n)]) for n in lengths])
    assert value(0, 2, "entropy_nats") == pytest.approx(nats, **close)
    assert value(0, 3, "first") == pytest.approx(1.0, **close)
    assert value(1, 0, "stripe") == pytest.approx(1.0, **close)
    n_right = [len(half) for half in halves]
    assert value(1, 0, "induction_mul") == pytest.approx(np.mean(n_right / lengths), **close)
    assert value(1, 1, "stripe") < 0.06
    # Only the first head writes anything: its norm is that of one-hot vectors, the others write nothing.
    assert value(0, 0, "norm") == pytest.approx(1.0, abs=5e-3)
    assert value(0, 1, "norm") == 0.0


@pytest.mark.parametrize("form", FORMS)
def test_that_blocks_of_rows_change_no_number(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(form)
    texts = [(text, FRENCH) for text in TEXTS] if form == "encoder-decoder" else TEXTS
    whole = measure_texts(model, texts).table
    monkeypatch.setattr("attnscope.analysis.measures.BLOCK_CELLS", 1)
    np.testing.assert_allclose(measure_texts(model, texts).table.values, whole.values, atol=2e-6)


def test_that_the_corpus_agrees_with_the_measures_of_one_trace_and_leaves_it_alone() -> None:
    model = tiny_model("encoder")
    trace = model.trace(SENTENCE)
    before = trace.all_weights(0).clone()
    one = {m.head: m for m in measure(trace)}
    table = measure_texts(model, [SENTENCE]).table
    for head in table.heads:
        for name in ("entropy", "distance", "confidence", "previous", "first", "diagonal"):
            assert table.estimate(head, name).value == pytest.approx(getattr(one[head], name), abs=1e-5)
    assert torch.equal(before, trace.all_weights(0))


def test_that_a_pass_tells_its_progress_and_can_be_closed() -> None:
    model = tiny_model("decoder")
    found = list(measure_corpus(model, TEXTS * 40))
    assert [one.n_done for one in found[:-1] if isinstance(one, CorpusProgress)][-1] == 160
    assert isinstance(found[-1], HeadTable)
    stream = measure_corpus(model, TEXTS * 40)
    next(stream)
    stream.close()


def test_that_translation_models_without_targets_are_measured_in_their_encoder() -> None:
    model = tiny_model("encoder-decoder")
    assert {head.stack for head in measure_texts(model, TEXTS).table.heads} == {"encoder"}
    with pytest.raises(UserError, match="some have none"):
        measure_texts(model, [TEXTS[0], (TEXTS[1], FRENCH)])
    with pytest.raises(UserError, match="one text only"):
        measure_texts(tiny_model("encoder"), [(TEXTS[0], FRENCH)])
    with pytest.raises(UserError, match="no text to measure"):
        measure_texts(model, [])


def test_that_rare_heads_point_to_the_least_frequent_words() -> None:
    model = known_decoder()
    common = " ".join(WORDS[:6])
    # The head that looks at the first token leads no word; the identity spreads over words alike.
    texts = [f"{common} {WORDS[30 + n]} {WORDS[20 + n]}" for n in range(4)]
    assert (
        measure_texts(model, texts).table.estimate(HeadRef(stack="decoder", layer=0, head=2), "rare").value
        == 0
    )
    assert (
        measure_texts(model, [" ".join(WORDS[:2])])
        .table.estimate(HeadRef(stack="decoder", layer=0, head=2), "rare")
        .n
        == 0
    )


def test_that_intervals_are_those_of_a_plain_bootstrap_and_depend_on_seed_alone() -> None:
    values = np.random.default_rng(3).normal(2.0, 1.0, 200).astype(np.float32)
    value, low, high = mean_interval(list(values))
    assert value == pytest.approx(float(values.mean()), abs=1e-5)
    rng = np.random.default_rng(0)
    plain = [rng.choice(values, len(values)).mean() for _ in range(2000)]
    np.testing.assert_allclose((low, high), np.percentile(plain, (2.5, 97.5)), atol=0.03)
    order = rng.permutation(200)
    shuffled = RatioBootstrap(1)
    for part in np.array_split(order, 7):
        shuffled.add_means([int(n) for n in part], values[part][:, None])
    again = shuffled.intervals()
    assert (float(again.low[0]), float(again.high[0])) == pytest.approx((low, high), abs=1e-5)
    empty = RatioBootstrap(2).intervals()
    assert np.isnan(empty.values).all()
    assert np.isnan(empty.low).all()


def test_that_heads_are_ordered_with_unknown_numbers_last() -> None:
    table = measure_texts(tiny_model("encoder-decoder"), [(SENTENCE, FRENCH)]).table
    order = order_heads(table, "distance")
    column = table.column("distance")[list(order)]
    known = column[~np.isnan(column)]
    assert list(known) == sorted(known, reverse=True)
    assert np.isnan(column[len(known) :]).all()
    assert set(table.names) == set(MEASURE_NAMES)
    with pytest.raises(KeyError):
        table.column("nothing")


def test_that_corpora_are_read_as_texts_or_pairs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "pairs.txt"
    path.write_text("a b\tc d\ne\tf\n\n", encoding="utf-8")
    assert read_corpus(path, takes_target=True) == [("a b", "c d"), ("e", "f")]
    assert read_corpus(path, takes_target=False, max_texts=1) == ["a b\tc d"]


def test_that_blank_texts_are_passed_over_as_blank_lines_of_a_file_are() -> None:
    model = tiny_model("decoder")
    found = measure_texts(model, ["", SENTENCE, "  "])
    np.testing.assert_array_equal(found.table.values, measure_texts(model, [SENTENCE]).table.values)
    with pytest.raises(UserError, match="no text to measure"):
        measure_texts(model, ["", " \n"])

"""The study of lengths on readings whose answer is known."""

import math
from pathlib import Path

import pytest
import torch

from attnscope.models import load
from attnscope.models.writing import RightTexts
from attnscope.studies.making import QUICK, train_study
from attnscope.studies.study import study_module

length = study_module("length")
Reading = length.Reading
compare = length.compare
held_out_rows = length.held_out_rows
length_charts = length.length_charts
read_rows = length.read_rows
rows_of = length.rows_of


def reading(body: str, seed: int, n_words: int, n_exact: int) -> Reading:
    right = RightTexts(n_texts=100, n_exact=n_exact, token_share=n_exact / 100)
    return Reading(body=body, seed=seed, n_words=n_words, right=right)  # type: ignore[arg-type]


def readings(none: int, additive: int, spread: int = 0) -> list[Reading]:
    """Every body has all short rows right; of long ones as many as are given, more and less by seed."""
    found = []
    for body, n_long in (("none", none), ("additive", additive), ("dot", additive), ("transformer", none)):
        for seed, turn in ((1, -1), (2, 0), (3, 1)):
            found += [reading(body, seed, n, 100) for n in (3, 4)]
            found += [reading(body, seed, n, n_long + turn * spread) for n in (19, 20, 25)]
    return found


def test_that_differences_of_the_seeds_are_told_with_their_signs() -> None:
    fall, kept, better, past, luong, transformer = compare(readings(10, 95))
    assert fall.ours == pytest.approx(-0.9)
    assert kept.ours == pytest.approx(-0.05)
    assert better.ours == past.ours == luong.ours == pytest.approx(0.85)
    assert [one.is_as_published for one in (fall, kept, better, past)] == [True] * 4
    assert transformer.ours == 0.0
    assert luong.is_as_published is transformer.is_as_published is None
    assert fall.low <= fall.ours <= fall.high


def test_that_a_difference_within_its_interval_claims_nothing() -> None:
    rows = [
        one if one.body != "additive" else reading(one.body, one.seed, one.n_words, 10 + 20 * one.seed)
        for one in readings(40, 40)
    ]
    better = compare(rows)[2]
    assert better.ours == pytest.approx(0.1)
    assert better.low < 0 < better.high
    assert better.is_as_published is None
    worse = compare(readings(95, 10))
    assert [one.is_as_published for one in worse[1:4]] == [False] * 3


def test_that_charts_and_rows_hold_every_length() -> None:
    found = readings(10, 95, spread=5)
    whole, single = length_charts(found)
    drawn = {series.name: series for series in whole.series if series.name}
    assert drawn["GRU, one vector"].xs.tolist() == [3.0, 4.0, 19.0, 20.0, 25.0]
    assert drawn["GRU, one vector"].ys.tolist() == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.1])
    assert len(whole.series) == 3 * len(single.series) == 12
    rows = rows_of(found)
    pooled = next(row for row in rows if row[0] == "GRU, Bahdanau" and row[1:3] == ("all", 19))
    assert pooled[3:5] == (300, pytest.approx(0.95))
    assert pooled[6] == pytest.approx(min(1.0, 0.95 + 4.30265 * 0.05 / math.sqrt(3)))


@pytest.mark.slow
def test_that_rows_are_read_as_the_model_tells_them_one_by_one(tmp_path: Path) -> None:
    changes = {**QUICK, "training.n_steps": "1", "model.d_model": "8"}
    list(train_study("length", tmp_path / "run", seed=1, device="cpu", changes=changes))
    model = load(str(tmp_path / "run"), device="cpu")
    examples = held_out_rows(4, 5).examples
    assert all(one.target == " ".join(reversed(one.source.split())) for one in examples)
    found = read_rows(model, examples)
    n_right = 0
    network = model.network
    for one in examples:
        ids = list(network.encode(one.source).source.ids)
        right = [*network.encode(one.target or "").source.ids]
        written = [network.vocabulary.begin_id]
        for _ in right:
            memory = network.module.encode(torch.tensor([ids]))
            hidden = network.module.decode(torch.tensor([written]), memory=memory)
            written.append(int(network.module.logits(hidden)[0, -1].argmax()))
        n_right += sum(a == b for a, b in zip(written[1:], right, strict=True))
    assert found.token_share == pytest.approx(n_right / 25)

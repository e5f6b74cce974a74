"""Classifiers without a softmax over labels: of a single label, of several that may hold, of numbers."""

import math
from pathlib import Path
from typing import Any

import hf_tiny
import pytest
import torch
from hf_folders import bert_tokenizer, save_folder

import attnscope as at
from attnscope.analysis import attribute_logits, relevance
from attnscope.models import Model

hf = pytest.importorskip("transformers")
TEXT = "the animal said it was good"
OFF = {"L0H0": 0.0, "L1H2": 0.0}


def opened(folder: Path, **labels: Any) -> tuple[Model, Any]:
    tokenizer = bert_tokenizer()
    config = hf.BertConfig(**{**hf_tiny.ENCODER, "vocab_size": tokenizer.get_vocab_size()}, **labels)
    model = hf.BertForSequenceClassification(config).eval()
    hf_tiny.fill(model)
    return at.load(save_folder(folder, model, tokenizer), "cpu"), model


def slow_bernoulli(before: list[float], after: list[float]) -> float:
    return sum(
        p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        for p, q in zip(before, after, strict=True)
    )


@pytest.mark.parametrize(
    ("n_labels", "problem"), [(1, None), (1, "regression"), (3, "multi_label_classification")]
)
def test_that_a_label_that_is_told_by_itself_has_the_sigmoid_of_its_logit(
    n_labels: int, problem: str | None, tmp_path: Path
) -> None:
    model, library = opened(tmp_path / "m", num_labels=n_labels, problem_type=problem)
    ids = torch.tensor([model.encode(TEXT).source.ids])
    with torch.no_grad():
        logits = library(input_ids=ids).logits[0].double()
    told = {one.token.id: one.probability for one in model.predict(TEXT).predictions[0].candidates}
    assert [told[k] for k in range(n_labels)] == pytest.approx((1 / (1 + (-logits).exp())).tolist(), abs=1e-6)
    found = model.compare(TEXT, gates=OFF)
    sides = [
        {one.token.id: one.probability for one in side.predictions[0].candidates}
        for side in (found.before, found.after)
    ]
    before, after = ([side[k] for k in range(n_labels)] for side in sides)
    assert found.kl_nats[0] == pytest.approx(slow_bernoulli(before, after), rel=1e-5)
    assert found.kl_nats[0] > 1e-5
    assert "sigmoid" in model.info.note


def test_that_two_labels_share_a_softmax(tmp_path: Path) -> None:
    model, _ = opened(tmp_path / "m", num_labels=2)
    found = model.compare(TEXT, gates=OFF)
    for side in (found.before, found.after):
        assert sum(one.probability for one in side.predictions[0].candidates) == pytest.approx(1.0)
    p, q = (
        {one.token.id: one.probability for one in s.predictions[0].candidates}
        for s in (found.before, found.after)
    )
    assert found.kl_nats[0] == pytest.approx(sum(p[k] * math.log(p[k] / q[k]) for k in p), rel=1e-5)
    assert "sigmoid" not in model.info.note


def test_that_a_single_number_is_compared_with_no_other_but_explained(tmp_path: Path) -> None:
    model, _ = opened(tmp_path / "m", num_labels=1)
    with pytest.raises(at.UserError, match="one number"):
        attribute_logits(model, TEXT, position=0)
    assert relevance(model, TEXT, position=0).weights.sum() > 0

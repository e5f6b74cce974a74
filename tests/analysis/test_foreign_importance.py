"""Importance, pruning curves and relevance of models of Hugging Face's library."""

from typing import Any

import numpy as np
import pytest
import torch
from hf_folders import make, save_folder

from attnscope import importance, pruning_curve
from attnscope.analysis import build_batches, relevance, rollout, subject_of, text_losses
from attnscope.errors import UserError
from attnscope.models import Model, load
from attnscope.nn import TensorGates

pytest.importorskip("transformers")

KINDS = ("gpt2", "llama", "bert", "t5")
TEXTS = ["the animal said it", "the animal said it was the animal", "it said"]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder, made = tmp_path_factory.mktemp("foreign"), {}

    def get(kind: str) -> Model:
        if kind not in made:
            made[kind] = load(save_folder(folder / kind, *make(kind)), "cpu")
        return made[kind]

    return get


def samples_of(model: Model) -> list:
    if model.info.form == "encoder-decoder":
        return [(text, text[::-1]) for text in TEXTS]
    return TEXTS


@pytest.mark.parametrize("kind", KINDS)
def test_that_batches_and_padding_change_no_loss_of_a_foreign_model(kind: str, opened: Any) -> None:
    model = opened(kind)
    subject = subject_of(model)
    together, apart = (build_batches(model, samples_of(model), batch_size=n) for n in (8, 1))
    with subject.studying():
        losses = [torch.cat([text_losses(subject, b) for b in bs]) for bs in (together, apart)]
    torch.testing.assert_close(losses[0], losses[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_that_the_gradient_of_a_foreign_gate_is_that_of_the_loss(kind: str, opened: Any) -> None:
    model = opened(kind)
    subject, h = subject_of(model), 1e-2
    found = importance(model, samples_of(model), batch_size=1)
    for site in (model.sites[0], model.sites[-1]):
        slopes = []
        for batch in build_batches(model, samples_of(model), batch_size=1):
            sides = []
            for step in (h, -h):
                gate = torch.ones(site.n_heads)
                gate[1] += step
                with subject.studying():
                    sides.append(float(text_losses(subject, batch, TensorGates({site.key: gate}))[0]))
            slopes.append((sides[0] - sides[1]) / (2 * h))
        expected = np.abs(slopes).mean()
        assert found.score(site.heads[1]).value == pytest.approx(expected, rel=0.02, abs=2e-5)


def test_that_a_foreign_model_has_a_curve_a_rollout_and_relevance(opened: Any) -> None:
    model = opened("gpt2")
    curve = pruning_curve(model, TEXTS, "gradient", step_share=0.5)
    assert [point.n_removed for point in curve.points][-1] == curve.n_heads
    assert curve.points[0].value != curve.points[-1].value
    rolled = rollout(model.trace(TEXTS[0]))
    np.testing.assert_allclose(rolled.weights.sum(axis=1), 1.0, atol=1e-5)
    explained = relevance(model, TEXTS[0])
    assert explained.weights[0].sum() > 1.0


def test_that_a_foreign_classifier_is_refused(opened: Any) -> None:
    with pytest.raises(UserError, match="cannot be scored"):
        importance(opened("bert-classes"), TEXTS)

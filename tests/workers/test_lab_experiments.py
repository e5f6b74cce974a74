"""The experiments that labs have done: gradients, first updates and losses against slow references."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnscope.records import (
    PLACES,
    SCHEMES,
    WARMINGS,
    GradientFinding,
    GradientQuestion,
    ReachFinding,
    ReachQuestion,
    WarmupFinding,
    WarmupQuestion,
)
from attnscope.workers import experiments as tiny_models
from attnscope.workers.experiments import first_gradients, reaching, warming

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stack", ["decoder", "encoder"])
def test_that_a_layers_gradient_is_the_slope_of_the_loss_along_it(place: str, stack: str) -> None:
    question = GradientQuestion(stack=stack, n_layers=2, d_model=8, seed=3)  # type: ignore[arg-type]
    model = first_gradients.model_of_depth(question, place).double()  # type: ignore[arg-type]
    ids, targets, source = first_gradients.random_texts(3)
    norms = first_gradients.gradient_norms(model, ids, targets, source)
    for layer, block in enumerate(getattr(model, stack)):
        weight = block.feed_forward.down.weight

        def loss() -> torch.Tensor:
            logits = (
                model(ids)
                if stack == "encoder"
                else model.logits(model.decode(ids, memory=model.encode(source)))
            )
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

        (gradient,) = torch.autograd.grad(loss(), weight)
        along, step = gradient / gradient.norm(), 1e-7
        with torch.no_grad():  # the slope along the gradient is its norm
            weight += step * along
            above = loss()
            weight -= 2 * step * along
            slope = (above - loss()) / (2 * step)
            weight += step * along
        assert float(norms[layer]) == pytest.approx(float(slope), rel=1e-5)


@pytest.mark.parametrize(
    ("drawing", "std"), [("xavier", (2 / 320) ** 0.5), ("he", (2 / 64) ** 0.5), ("small", 0.02)]
)
def test_that_first_weights_are_as_wide_as_asked(drawing: str, std: float) -> None:
    model = first_gradients.model_of_depth(GradientQuestion(n_layers=1, drawing=drawing), "pre")  # type: ignore[arg-type]
    for block in (model.encoder[0], model.decoder[0]):
        up = block.feed_forward.up.weight  # [256, 64]
        assert float(up.detach().std()) == pytest.approx(std, rel=0.03)


def test_that_every_depth_comes_with_both_places_and_the_law_of_the_paper_is_seen() -> None:
    question = GradientQuestion(n_layers=6, d_model=32, n_draws=2)
    news = list(tiny_models.work_on(question, 7, lambda: pytest.fail("no model is open")))
    assert [n.n_done for n in news] == list(range(1, news[-1].n_total + 1))
    assert {n.number for n in news} == {7}
    assert [n.is_done for n in news].index(True) == len(news) - 1
    finding = news[-1].finding
    assert isinstance(finding, GradientFinding)
    assert {(c.place, c.n_layers) for c in finding.curves} == {(p, n) for p in PLACES for n in (1, 2, 4, 6)}
    last = {place: finding.curve(place, 6).norms[-1] for place in PLACES}  # type: ignore[union-attr]
    assert last["post"] > 1.5 * last["pre"]
    post, pre = (finding.curve(place, 6).norms for place in PLACES)  # type: ignore[union-attr]
    assert list(post) == sorted(post)  # their figure 3: it grows towards the output of the decoder,
    assert post[-1] > 2 * post[0]
    assert pre[-1] < pre[0]


def test_that_an_encoders_first_gradients_are_about_alike_with_norms_after() -> None:
    question = GradientQuestion(stack="encoder", n_layers=6, n_draws=1)
    finding = list(first_gradients.first_gradients(question))[-1].finding
    assert isinstance(finding, GradientFinding)
    norms = finding.curve("post", 6).norms  # type: ignore[union-attr]
    assert max(norms) < 1.5 * min(norms)


def test_that_adams_first_step_moves_everything_by_the_rate_and_radams_by_its_gradient() -> None:
    question = WarmupQuestion(learning_rate=0.01, n_warmup=20, n_steps=20, n_layers=1)
    finding = list(warming.try_warmups(question))[-1].finding
    assert isinstance(finding, WarmupFinding)
    runs = {run.warming: run for run in finding.runs}
    assert set(runs) == set(WARMINGS)
    assert runs["none"].typical[0] == pytest.approx(0.01, rel=1e-3)
    assert runs["warmup"].typical[0] == pytest.approx(0.01 / 20, rel=1e-3)
    assert runs["none"].losses[0] == runs["warmup"].losses[0] == runs["radam"].losses[0]
    bins = [sum(e <= math.log10(size) for e in finding.edges) - 1 for size in (0.01 * 0.999, 0.0005 * 0.999)]
    for name, at in zip(("none", "warmup"), bins, strict=True):
        first = runs[name].histograms[0]
        assert first[at] + first[at - 1] > 0.9 * sum(first)
    model = warming.new_model(question)
    ids, targets = tiny_models.draw_texts(
        tiny_models.BATCH, warming.N_TOKENS, warming.LOOK_BACK, torch.Generator().manual_seed(question.seed)
    )
    tiny_models.mean_loss(model, ids, targets).backward()
    gradients = torch.cat([p.grad.abs().flatten() for p in model.parameters()])
    assert runs["radam"].typical[0] == pytest.approx(0.01 * float(gradients.median()), rel=0.02)


def test_that_the_loss_of_each_place_is_that_of_a_loop() -> None:
    model = tiny_models.tiny_decoder(
        "rotary", n_layers=1, n_heads=2, n_tokens=5, place="pre", d_ff=16, seed=1
    ).eval()
    ids, targets = tiny_models.draw_texts(4, 5, 2, torch.Generator().manual_seed(0))
    found = tiny_models.loss_by_place(model, ids, targets).numpy()
    logits = model(ids).detach().double().numpy()
    assert np.isnan(found[:2]).all()
    for t in (2, 3, 4):
        assert (targets[:, t] == ids[:, t - 2]).all()
        each = [
            math.log(sum(math.exp(v) for v in logits[i, t])) - logits[i, t, ids[i, t - 2]] for i in range(4)
        ]
        assert found[t] == pytest.approx(sum(each) / 4, rel=1e-6)
    known = found[2:].mean()
    assert tiny_models.mean_loss(model, ids, targets).item() == pytest.approx(known, rel=1e-5)


def test_that_longer_texts_are_read_by_all_but_the_learned_table() -> None:
    question = ReachQuestion(n_trained=6, n_steps=20, look_back=2)
    news = list(reaching.read_past(question))
    finding = news[-1].finding
    assert isinstance(finding, ReachFinding)
    assert (news[-1].is_done, news[-1].n_done) == (True, 20 * len(SCHEMES))
    assert [c.scheme for c in finding.curves] == list(SCHEMES)
    for curve in finding.curves:
        is_known = np.isfinite(curve.losses)
        assert len(curve.losses) == finding.n_read == 24
        assert not is_known[:2].any()
        assert is_known[2:6].all()
        assert is_known[6:].any() == (curve.scheme != "learned")


@pytest.mark.slow
def test_that_the_examples_findings_are_what_the_labs_say() -> None:
    warm = list(warming.try_warmups(WarmupQuestion()))[-1].finding
    assert isinstance(warm, WarmupFinding)
    ends = {run.warming: np.mean(run.losses[-10:]) for run in warm.runs}
    assert ends["none"] > 2.0 > 0.5 > max(ends["warmup"], ends["radam"])


def test_that_an_experiment_can_be_given_up_between_two_steps() -> None:
    steps = warming.try_warmups(WarmupQuestion(n_layers=1))
    assert [n.n_done for n in islice(steps, 3)] == [10, 20, 30]
    steps.close()

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_models import FORMS, FRENCH, SENTENCE, tiny_model

from attnscope import importance
from attnscope.analysis import (
    build_batches,
    gradient_scores,
    heads_of,
    learn_gates,
    measure_importance,
    subject_of,
    summarise,
    text_losses,
    token_losses,
)
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.nn import (
    STRETCH,
    TEMPERATURE,
    Call,
    TensorGates,
    open_probability,
    sample_gates,
    settled_gates,
)
from attnscope.records import Gates, HeadRef, Importance, LearnedGates, PartsDone
from attnscope.text import Example

PAIRS = [(SENTENCE, FRENCH), ("a dog saw the bird", "le chat"), ("the cat", "le tapis est sur")]


def samples_of(form: str) -> list:
    return PAIRS if form == "encoder-decoder" else [source for source, _ in PAIRS]


def scores_of(model: Model, samples: list, **choices: object) -> np.ndarray:
    return np.array([score.value for score in importance(model, samples, **choices).scores])


class KeepOutputs(TensorGates):
    """Keeps each head output in the graph."""

    def __init__(self) -> None:
        super().__init__({})
        self.outs: list[torch.Tensor] = []

    def wants(self, site: object) -> bool:
        return True

    def record(self, site: object, call: Call, *, lse: object, out: torch.Tensor, is_training: bool) -> None:
        self.outs.append(out)


def test_that_no_interval_of_a_mean_size_goes_below_0() -> None:
    head = HeadRef(stack="encoder", layer=0, head=0)
    per_text = np.array([[0.0], [0.0], [0.01], [0.0], [2.0]])
    (size,) = summarise(per_text, [head], "gradient", n_texts=5).scores
    (rise,) = summarise(per_text, [head], "leave-one-out", n_texts=5).scores
    assert rise.low < 0.0 == size.low < size.value == rise.value < size.high == rise.high


@pytest.mark.parametrize("form", FORMS)
def test_that_importance_is_the_mean_of_each_texts_output_times_gradient(form: str) -> None:
    model, subject = tiny_model(form), subject_of(tiny_model(form))
    expected = np.zeros(len(heads_of(subject)))
    for batch in build_batches(model, samples_of(form), batch_size=1):
        probe = KeepOutputs()
        loss = text_losses(subject, batch, probe)[0]
        gradients = torch.autograd.grad(loss, probe.outs)
        products = [(o * g).sum(dim=(0, 2, 3)) for o, g in zip(probe.outs, gradients, strict=True)]
        expected += np.concatenate([p.abs().detach().numpy() for p in by_site(model, products)])
    found = scores_of(model, samples_of(form))
    np.testing.assert_allclose(found, expected / len(PAIRS), rtol=2e-4, atol=1e-6)


def by_site(model: Model, products: list[torch.Tensor]) -> list[torch.Tensor]:
    """From the order of the pass (decoder and cross take turns) to the order of the sites."""
    called = sorted(model.sites, key=lambda s: (s.stack != "encoder", s.layer, s.stack == "cross"))
    return [products[called.index(site)] for site in model.sites]


def test_that_the_gradient_is_that_of_the_loss() -> None:
    model = tiny_model("decoder")
    subject, (batch,) = subject_of(model), build_batches(model, [SENTENCE])
    head, h = HeadRef(stack="decoder", layer=0, head=2), 1e-2
    found = float(gradient_scores(subject, batch)[0, 2])
    sides = [gate_loss(subject, batch, head, 1.0 + step) for step in (h, -h)]
    assert found == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-2)


def gate_loss(subject: object, batch: object, head: HeadRef, value: float) -> float:
    gate = torch.ones(4)
    gate[head.head] = value
    with torch.no_grad():
        return float(text_losses(subject, batch, TensorGates({head.site_key: gate}))[0])


def test_that_the_absolute_value_comes_before_the_mean() -> None:
    model = tiny_model("decoder")
    subject, (batch,) = subject_of(model), build_batches(model, samples_of("decoder"))
    signed = gradient_scores(subject, batch)
    assert (signed.abs().mean(0) > signed.mean(0).abs() + 1e-4).any()
    np.testing.assert_allclose(scores_of(model, samples_of("decoder")), signed.abs().mean(0), rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_that_batches_and_padding_change_no_score(form: str) -> None:
    model, samples = tiny_model(form), samples_of(form)
    together = scores_of(model, samples)
    np.testing.assert_allclose(scores_of(model, samples, batch_size=1), together, rtol=1e-3, atol=1e-6)


def test_that_scoring_leaves_a_model_in_training_as_it_was() -> None:
    model = tiny_model("decoder", dropout=0.5)
    calm = scores_of(model, [SENTENCE])
    module = model.own.module
    module.train()
    state, before = torch.get_rng_state(), {n: p.clone() for n, p in module.named_parameters()}
    np.testing.assert_array_equal(scores_of(model, [SENTENCE]), calm)
    assert module.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in module.named_parameters())


def test_that_normalised_scores_of_a_site_have_length_one() -> None:
    model = tiny_model("decoder")
    plain, normal = (scores_of(model, [SENTENCE], is_normalised=flag) for flag in (False, True))
    for part in (slice(0, 4), slice(4, 8)):
        assert np.linalg.norm(normal[part]) == pytest.approx(1.0)
        np.testing.assert_allclose(normal[part], plain[part] / np.linalg.norm(plain[part]), rtol=1e-5)


def test_that_leaving_a_head_out_is_zeroing_it_before_the_projection() -> None:
    model = tiny_model("decoder")
    subject, (batch,) = subject_of(model), build_batches(model, [SENTENCE])
    found = scores_of(model, [SENTENCE], ranking="leave-one-out")
    with torch.no_grad():
        base = float(text_losses(subject, batch)[0])
        output = subject.projection(("decoder", 1))
        kept = output.weight.clone()
        output.weight[:, 4:8] = 0.0  # what head 1 reads
        ablated = float(text_losses(subject, batch)[0])
        output.weight.copy_(kept)
        output.weight[4:8] = 0.0  # four numbers of the stream: no head at all
        wrong = float(text_losses(subject, batch)[0])
        output.weight.copy_(kept)
    assert found[5] == pytest.approx(ablated - base, abs=1e-5)
    assert abs(found[5] - (wrong - base)) > 1e-3


def test_that_the_control_is_random_and_repeats() -> None:
    model = tiny_model("decoder")
    first, again, other = (scores_of(model, [SENTENCE], ranking="random", seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(UserError, match="no ranking"):
        importance(model, [SENTENCE], "learned")


def test_that_order_and_progress_follow_the_scores() -> None:
    model = tiny_model("decoder")
    subject, batches = subject_of(model), build_batches(model, samples_of("decoder") * 2, batch_size=1)
    events = list(measure_importance(subject, batches, "leave-one-out"))
    assert [e.n_done for e in events[:-1]] == list(range(1, 6 * 9 + 1))
    assert all(isinstance(e, PartsDone) and e.n_total == 54 for e in events[:-1])
    found = events[-1]
    assert isinstance(found, Importance)
    values = [found.score(head).value for head in found.order]
    assert values == sorted(values)
    assert all(score.low <= score.value <= score.high for score in found.scores)


# -- what is scored -------------------------------------------------------------------------------


def test_that_each_form_scores_what_it_learns() -> None:
    decoder, encoder, both = (tiny_model(form) for form in ("decoder", "encoder", "encoder-decoder"))
    (batch,) = build_batches(decoder, [SENTENCE])
    assert batch.labels.tolist() == [[*batch.ids[0, 1:].tolist(), -1]]
    given = Example(source=SENTENCE, n_given=3)
    (batch,) = build_batches(decoder, [given])
    assert batch.labels[0].tolist()[:4] == [-1, -1, -1, int(batch.ids[0, 4])]
    assert int(batch.labels[0, -1]) == decoder.own.vocabulary.end_id
    (batch,) = build_batches(encoder, [SENTENCE])
    hidden = batch.labels[0] != -1
    assert 1 <= int(hidden.sum()) <= 4
    assert set(batch.ids[0, hidden].tolist()) == {encoder.own.vocabulary.mask_id}
    (batch,) = build_batches(both, [(SENTENCE, FRENCH)])
    assert batch.labels.shape == batch.target_ids.shape
    assert int(batch.labels[0, -1]) == both.own.vocabulary.end_id
    with pytest.raises(UserError, match="translates"):
        build_batches(both, [SENTENCE])
    with pytest.raises(UserError, match="no text"):
        build_batches(decoder, [""])


def test_that_losses_are_cross_entropies_of_the_models_logits() -> None:
    model = tiny_model("decoder")
    subject, (batch,) = subject_of(model), build_batches(model, [SENTENCE])
    logits = torch.from_numpy(model.trace(SENTENCE).logits)
    expected = F.cross_entropy(logits[:-1], batch.ids[0, 1:], reduction="none")
    with torch.no_grad():
        torch.testing.assert_close(token_losses(subject, batch)[0, :-1], expected, atol=1e-5, rtol=1e-5)
        assert float(text_losses(subject, batch)[0]) == pytest.approx(float(expected.mean()), rel=1e-5)


# -- learned gates --------------------------------------------------------------------------------


def test_that_hard_concrete_gates_follow_their_equations() -> None:
    log_alpha = torch.tensor([-3.0, 0.0, 0.5, 4.0])
    for u in (0.01, 0.4, 0.99):
        for alpha, found in zip(
            log_alpha.tolist(), sample_gates(log_alpha, torch.full((4,), u)), strict=True
        ):
            s = 1 / (1 + math.exp(-(math.log(u) - math.log(1 - u) + alpha) / TEMPERATURE))
            assert float(found) == pytest.approx(
                min(1, max(0, s * (STRETCH[1] - STRETCH[0]) + STRETCH[0])), abs=1e-6
            )
    u = torch.linspace(0.0005, 0.9995, 1000)[:, None]
    share = (sample_gates(log_alpha, u.expand(-1, 4)) > 0).float().mean(0)
    torch.testing.assert_close(share, open_probability(log_alpha), atol=2e-3, rtol=0)
    assert settled_gates(torch.tensor([-9.0, 9.0])).tolist() == [0.0, 1.0]


def test_that_learning_closes_a_head_that_does_nothing() -> None:
    model = tiny_model("decoder")
    subject, batches = subject_of(model), build_batches(model, samples_of("decoder"))
    with torch.no_grad():
        subject.projection(("decoder", 0)).weight[:, 8:12] = 0.0
    *progress, learned = learn_gates(subject, batches, penalty=0.05, n_steps=40, learning_rate=0.3)
    assert isinstance(learned, LearnedGates)
    chances = dict(learned.open_probability)
    useless = HeadRef(stack="decoder", layer=0, head=2)
    assert chances[useless] == min(chances.values())
    assert learned.gates.value(useless) == 0.0
    assert learned.n_kept < 8
    assert len(progress) == 40
    assert all(p.grad is None for p in subject.module.parameters())
    assert isinstance(learned.gates, Gates)

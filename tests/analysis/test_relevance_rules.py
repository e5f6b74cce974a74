import numpy as np
import pytest
import torch
from eager_attention import full_gradients, use_eager_attention
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.analysis import normalise_rows, read_text, relevance, relevance_maps, subject_of
from attnscope.errors import UserError
from attnscope.records import Gates, HeadRef, MakeUniform, RemoveEdge


def slow_relevance(model, weights, gradients, position: int) -> np.ndarray:
    """Equations 5 to 10 of Chefer et al. 2021, written out."""

    def mean(site) -> np.ndarray:
        a, slope = (t[site][0].detach().double().numpy() for t in (weights, gradients))
        return np.clip(a * slope, 0, None).mean(axis=0)

    def normal(r: np.ndarray) -> np.ndarray:
        r = r - np.eye(len(r))
        for row in r:
            if row.sum() > 0:
                row /= row.sum()
        return r + np.eye(len(r))

    form = model.info.form
    if form != "encoder-decoder":
        n = weights[(form, 0)].shape[2]
        r = np.eye(n)
        for layer in range(2):
            r = r + mean((form, layer)) @ r
        return r[position]
    qq = np.eye(weights[("encoder", 0)].shape[2])
    ss = np.eye(weights[("decoder", 0)].shape[2])
    sq = np.zeros((len(ss), len(qq)))
    for layer in range(2):
        qq = qq + mean(("encoder", layer)) @ qq
    for layer in range(2):
        a = mean(("decoder", layer))
        ss, sq = ss + a @ ss, sq + a @ sq
        sq = sq + normal(ss).T @ mean(("cross", layer)) @ normal(qq)
    return np.concatenate([sq[position], ss[position]])


@pytest.mark.parametrize("form", FORMS)
def test_that_relevance_equals_gradients_through_written_out_weights(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(form)
    found = relevance(model, SENTENCE, target_of(form), position=2, token_id=9)
    weights: dict = {}
    use_eager_attention(monkeypatch, weights)
    subject = subject_of(model)
    _, batch = read_text(model, SENTENCE, target_of(form))
    y = subject.logits(subject.hidden(batch)[0, 2])[9]
    expected = slow_relevance(model, weights, full_gradients(weights, y), 2)
    np.testing.assert_allclose(found.weights[0], expected, atol=2e-5)
    assert found.weights.shape == (1, len(found.keys))
    assert (found.weights >= 0).all()


@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
def test_that_no_logit_owes_anything_to_later_tokens(form: str) -> None:
    found = relevance(tiny_model(form), SENTENCE, target_of(form), position=2)
    own = found.weights[0, found.n_source :]
    assert (own[3:] == 0).all()
    assert own[2] >= 1.0


def test_that_the_explained_token_is_the_one_the_model_says() -> None:
    model = tiny_model("decoder")
    said = int(model.trace(SENTENCE).logits[-1].argmax())
    found = relevance(model, SENTENCE)
    assert model.network.vocabulary.token(said).piece in found.about
    np.testing.assert_array_equal(found.weights, relevance(model, SENTENCE, token_id=said).weights)
    (place,) = found.queries
    last = len(found.keys) - 1
    assert found.about == f'logit of "{model.network.answer(said).piece}" at "{place.piece}" ({last})'
    with pytest.raises(UserError):
        relevance(model, SENTENCE, position=50)


def test_that_a_head_that_is_off_is_irrelevant() -> None:
    model = tiny_model("decoder")
    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE)
    off = Gates.of({HeadRef(stack="decoder", layer=1, head=h): 0.0 for h in range(4)})
    _, maps = relevance_maps(subject, batch, -1, gates=off)
    assert float(maps["decoder", 1].abs().max()) == 0.0
    assert float(maps["decoder", 0].abs().max()) > 0.0


def test_that_a_token_whose_every_path_is_cut_is_owed_nothing() -> None:
    model = tiny_model("decoder")
    heads = [head for site in model.sites for head in site.heads]
    cut = tuple(RemoveEdge(head=head, query=q, key=0) for head in heads for q in (1, 2))
    plain = relevance(model, SENTENCE, position=2).weights[0]
    found = relevance(model, SENTENCE, position=2, interventions=cut).weights[0]
    assert (plain[0] > 0, found[0]) == (True, 0.0)
    assert found[2] >= 1.0
    seen = relevance(model, SENTENCE, position=2, interventions=(MakeUniform(head=heads[-1]),)).weights[0]
    assert not np.allclose(seen, plain)


def test_that_a_model_in_training_is_explained_without_dropout() -> None:
    model = tiny_model("decoder", dropout=0.5)
    calm = relevance(model, SENTENCE).weights
    model.own.module.train()
    np.testing.assert_array_equal(relevance(model, SENTENCE).weights, calm)
    assert model.own.module.training
    assert all(p.grad is None for p in model.own.module.parameters())


def test_that_rows_are_normalised_but_for_the_stream() -> None:
    r = torch.tensor([[1.0, 0.0], [3.0, 2.0]], dtype=torch.float64)
    assert normalise_rows(r).tolist() == [[1.0, 0.0], [0.75, 1.25]]


def test_that_frozen_weights_change_nothing() -> None:
    model = tiny_model("encoder-decoder")
    free = relevance(model, SENTENCE, target_of("encoder-decoder")).weights
    model.own.module.requires_grad_(False)
    np.testing.assert_allclose(
        relevance(model, SENTENCE, target_of("encoder-decoder")).weights, free, atol=1e-6
    )

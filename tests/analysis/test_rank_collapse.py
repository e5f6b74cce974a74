import numpy as np
import pytest
import torch
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope.analysis import rank_collapse, read_text, residual_ratio, subject_of, watched_streams
from attnscope.errors import UserError


def test_that_the_residual_of_the_hand_fixture_has_squared_norm_34() -> None:
    x = torch.tensor([[1.0, 2], [3, 4], [5, 9]])
    assert residual_ratio(x) ** 2 * float(x.square().sum()) == pytest.approx(34)
    assert residual_ratio(torch.ones(4, 3)) == 0.0
    assert residual_ratio(torch.tensor([[1.0, 0], [-1, 0]])) == 1.0


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
def test_that_with_everything_on_the_curve_is_the_models_own(form: str, norm_place: str) -> None:
    model = tiny_model(form, norm_place=norm_place)
    target = FRENCH if form == "encoder-decoder" else None
    curve = rank_collapse(model, SENTENCE, target)[0]
    assert (curve.has_skips, curve.has_feed_forward) == (True, True)
    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE, target)
    with subject.studying(), watched_streams(subject, curve.stack) as streams:
        subject.hidden(batch)
    np.testing.assert_allclose(curve.ratios, [residual_ratio(stream[0]) for stream in streams], rtol=1e-6)


def test_that_uniform_attention_alone_makes_all_tokens_alike_at_once() -> None:
    model = tiny_model("encoder")
    for block in model.own.module.encoder:
        torch.nn.init.zeros_(block.attention.qkv.weight[:32])  # no scores: every key counts the same
        torch.nn.init.zeros_(block.attention.qkv.bias[:32])
    curves = {(c.has_skips, c.has_feed_forward): c.ratios for c in rank_collapse(model, SENTENCE)}
    assert max(curves[False, False][1:]) < 1e-6
    assert min(curves[True, False]) > 0.1


def test_that_parts_that_are_off_add_nothing() -> None:
    model = tiny_model("encoder", n_layers=1)
    block = model.own.module.encoder[0]
    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE)
    with subject.studying(), watched_streams(subject, "encoder") as streams:
        subject.hidden(batch)
    with torch.no_grad():
        x = streams[0]
        attended = block.attention(block.attention_norm(x), rule=rule_of(model))
        fed = block.feed_forward(block.feed_forward_norm(attended))
    found = {(c.has_skips, c.has_feed_forward): c.ratios[1] for c in rank_collapse(model, SENTENCE)}
    assert found[True, False] == pytest.approx(residual_ratio((x + attended)[0]), rel=1e-5)
    assert found[False, False] == pytest.approx(residual_ratio(attended[0]), rel=1e-5)
    assert found[False, True] == pytest.approx(residual_ratio(fed[0]), rel=1e-5)


def rule_of(model):
    from attnscope.nn import MaskRule

    return MaskRule(is_causal=model.info.form == "decoder")


def test_that_collapse_is_told_in_words_and_refused_where_it_means_nothing() -> None:
    labels = [curve.label for curve in rank_collapse(tiny_model("decoder"), SENTENCE)]
    assert labels == [
        "with skips, with feed-forward",
        "with skips, no feed-forward",
        "no skips, with feed-forward",
        "no skips, no feed-forward",
    ]
    with pytest.raises(UserError, match="more than one text"):
        rank_collapse(tiny_model("encoder-decoder"), SENTENCE, FRENCH, stack="decoder")
    with pytest.raises(UserError, match="One token"):
        rank_collapse(tiny_model("decoder"), "")

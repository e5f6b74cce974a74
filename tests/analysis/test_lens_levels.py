import numpy as np
import pytest
import torch
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.analysis import (
    layer_logits,
    logit_lens,
    predicting_stack,
    read_text,
    subject_of,
    watched_streams,
)
from attnscope.records import Gates, HeadRef, MakeMean, MakeUniform

SHAPES = [{}, {"norm_place": "post"}, {"norm": "rms"}, {"transform_head": True}, {"embedding_norm": True}]
SHAPES += [{"residual": "reversible"}]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "".join(shape) or "plain")
def test_that_the_last_layer_says_exactly_what_the_model_says(form: str, shape: dict[str, object]) -> None:
    model = tiny_model(form, **shape)
    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE, target_of(form))
    with subject.studying(), watched_streams(subject, predicting_stack(subject.form)) as streams:
        subject.hidden(batch)
    with subject.studying():
        last = layer_logits(subject, streams[-1][0])
    assert len(streams) == 3
    assert torch.equal(last, torch.from_numpy(model.trace(SENTENCE, target_of(form)).logits))
    found = logit_lens(model, SENTENCE, target_of(form))
    assert found.kl_nats[-1].max() < 1e-6
    assert (found.rank[-1] == 0).all()
    assert found.levels == ("input", "layer 0", "layer 1")


@pytest.mark.parametrize("form", FORMS)
def test_that_every_level_equals_a_slow_float64_version(form: str) -> None:
    model = tiny_model(form)
    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE, target_of(form))
    with subject.studying(), watched_streams(subject, predicting_stack(subject.form)) as streams:
        subject.hidden(batch)
    norm = subject.module.encoder_norm if form == "encoder" else subject.module.decoder_norm
    found = logit_lens(model, SENTENCE, target_of(form), top=3)
    said = model.trace(SENTENCE, target_of(form)).logits.astype(np.float64)
    for level, stream in enumerate(streams):
        for position, row in enumerate(stream[0].double().numpy()):
            x = (row - row.mean()) / np.sqrt(row.var() + norm.epsilon)
            x = x * norm.weight.detach().numpy() + norm.bias.detach().numpy()
            p = softmax(subject.module.tokens.weight.detach().double().numpy() @ x)
            q = softmax(said[position])
            best = int(q.argmax())
            assert found.probability[level, position] == pytest.approx(p[best], abs=1e-5)
            assert found.rank[level, position] == (p > p[best]).sum()
            assert found.entropy[level, position] == pytest.approx(-(p * np.log(p)).sum(), abs=1e-4)
            assert found.kl_nats[level, position] == pytest.approx((q * np.log(q / p)).sum(), abs=1e-4)
            ids = [c.token.id for c in found.candidates[level][position]]
            assert ids == np.argsort(-p)[:3].tolist()


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def test_that_without_the_norm_the_lens_would_say_something_else() -> None:
    model = tiny_model("decoder")
    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE)
    with subject.studying(), watched_streams(subject, "decoder") as streams:
        subject.hidden(batch)
    with subject.studying():
        with_norm, without = layer_logits(subject, streams[1][0]), subject.logits(streams[1][0])
    assert float((with_norm - without).abs().max()) > 0.1


def test_that_some_positions_are_columns_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("encoder")
    whole, part = logit_lens(model, SENTENCE), logit_lens(model, SENTENCE, positions=[4, -1])
    last = len(whole.tokens) - 1
    assert part.positions == (4, last)
    np.testing.assert_allclose(part.kl_nats, whole.kl_nats[:, [4, last]], atol=1e-5)
    assert part.tokens == (whole.tokens[4], whole.tokens[last])
    monkeypatch.setattr("attnscope.analysis.causes._BLOCK_LOGITS", 1)
    blocks = logit_lens(model, SENTENCE)
    np.testing.assert_allclose(blocks.probability, whole.probability, atol=1e-6)
    assert [[c[0].token for c in row] for row in blocks.candidates] == [
        [c[0].token for c in row] for row in whole.candidates
    ]


def test_that_the_lens_sees_gates_and_leaves_no_hook_behind() -> None:
    model = tiny_model("decoder", dropout=0.5)
    model.own.module.train()
    plain = logit_lens(model, SENTENCE)
    gates = Gates.of({HeadRef(stack="decoder", layer=1, head=0): 0.0})
    gated = logit_lens(model, SENTENCE, gates=gates)
    np.testing.assert_allclose(gated.entropy[1], plain.entropy[1])
    assert not np.allclose(gated.entropy[2], plain.entropy[2])
    assert model.own.module.training
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in model.own.module.decoder)


@pytest.mark.parametrize("form", FORMS)
def test_that_the_lens_sees_changes_inside_heads(form: str) -> None:
    model, target = tiny_model(form), target_of(form)
    stack = predicting_stack(form)
    changes = (
        MakeUniform(head=HeadRef(stack=stack, layer=1, head=0)),
        MakeMean(head=HeadRef(stack=stack, layer=1, head=2)),
    )
    found = logit_lens(model, SENTENCE, target, interventions=changes)
    said = model.trace(SENTENCE, target, interventions=changes).logits.astype(np.float64)
    assert found.probability[-1] == pytest.approx(softmax_rows(said).max(axis=1), abs=1e-5)
    plain = logit_lens(model, SENTENCE, target)
    np.testing.assert_allclose(found.entropy[1], plain.entropy[1])  # layer 0 was not touched
    assert not np.allclose(found.entropy[2], plain.entropy[2])


def softmax_rows(x: np.ndarray) -> np.ndarray:
    return np.stack([softmax(row) for row in x])

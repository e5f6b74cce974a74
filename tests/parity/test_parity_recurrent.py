"""Our recurrent models against the papers' equations written out in loops, float64."""

import numpy as np
import pytest
import torch
from slow_recurrent import SlowRecurrent

from attnscope.nn import ModelConfig, build_own, count_parameters, empty_own
from attnscope.records import Gates, HeadRef
from attnscope.trace import GateProbe, TraceProbe, site_weights

SCORES = ("dot", "general", "additive", "scaled-dot", "cosine", "gaussian")
SOURCES = ([3, 1, 4, 1, 5, 9, 2], [6, 5], [3, 5, 8, 9])
TARGETS = ([2, 7, 1, 8], [2, 8, 1, 8], [4, 5, 9, 0])


@pytest.fixture
def build(fill_with_ramp):
    def make(**choices):
        values = {
            "form": "encoder-decoder",
            "vocab_size": 10,
            "d_model": 8,
            "n_layers": 2,
            "n_heads": 2,
            "max_tokens": 12,
            "sigma": None,
            **choices,
        }
        module = empty_own(ModelConfig(**values))
        fill_with_ramp(module)
        return module.double().eval()

    return make


def run(module, source, target, probe=None, valid=None):
    memory = module.encode(source, valid=valid, probe=probe)
    return module.logits(module.decode(target, memory=memory, memory_valid=valid, probe=probe))


def one_by_one(module, gates=None):
    return [SlowRecurrent(module).run(s, t, gates) for s, t in zip(SOURCES, TARGETS, strict=True)]


def padded():
    longest = max(map(len, SOURCES))
    ids = torch.tensor([s + [0] * (longest - len(s)) for s in SOURCES])
    valid = torch.tensor([[j < len(s) for j in range(longest)] for s in SOURCES])
    return ids, valid, torch.tensor(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("reach", [0, 2])
@pytest.mark.parametrize("feeds_context", [True, False])
@pytest.mark.parametrize("body", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("score", SCORES)
def test_that_a_padded_batch_says_what_the_equations_say_text_by_text(
    build, score, body, feeds_context, reach
):
    module = build(
        body=body, feeds_context=feeds_context, score=score, local_reach=reach, tie_embeddings=reach == 0
    )
    ids, valid, targets = padded()
    probe = TraceProbe(module.sites(), Gates())
    with torch.no_grad():
        found = run(module, ids, targets, probe, valid)
        plain = run(module, ids, targets, None, valid)
    assert torch.allclose(found, plain, rtol=0, atol=1e-12)  # looking changes nothing
    expected = one_by_one(module)
    for text, (logits, _) in enumerate(expected):
        np.testing.assert_allclose(found[text].numpy(), logits, atol=1e-10)
    record = probe.records[("cross", 0)]
    assert record.proof.output_error < 1e-10
    assert record.proof.row_sum_error < 1e-10
    weights = np.nan_to_num(site_weights(record).numpy())  # of the last text; NaN where nothing may be seen
    np.testing.assert_allclose(weights[:, :, : len(SOURCES[2])], expected[2][1], atol=5e-6)
    assert not weights[:, :, len(SOURCES[2]) :].any()


@pytest.mark.parametrize("feeds_context", [True, False])
@pytest.mark.parametrize("reach", [0, 3])
def test_that_gates_multiply_heads_in_every_step(build, feeds_context, reach):
    module = build(body="gru", feeds_context=feeds_context, score="additive", local_reach=reach)
    heads = module.sites()[0].heads
    gates = Gates(values=((heads[0], 0.0), (heads[1], 0.5)))
    source, target = torch.tensor(SOURCES[:1]), torch.tensor(TARGETS[:1])
    with torch.no_grad():
        found = run(module, source, target, GateProbe(module.sites(), gates))
    expected, _ = SlowRecurrent(module).run(SOURCES[0], TARGETS[0], gates=(0.0, 0.5))
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-7)  # gates are float32
    assert isinstance(heads[0], HeadRef)


@pytest.mark.parametrize(
    ("body", "feeds_context", "score", "reach"),
    [("gru", True, "additive", 2), ("lstm", False, "general", 2), ("rnn", True, "cosine", 0)],
)
def test_that_gradients_are_those_of_finite_differences(build, body, feeds_context, score, reach):
    module = build(
        body=body, feeds_context=feeds_context, score=score, local_reach=reach, d_model=4, n_layers=1
    )
    ids, valid, targets = padded()
    names = ("cross.query.weight", "bridge.weight", "centre.matrix", "readout.weight")
    values = dict(module.named_parameters())
    chosen = tuple(values[name] for name in names if name in values)

    def loss(*_: torch.Tensor) -> torch.Tensor:
        return run(module, ids[:2], targets[:2], None, valid[:2]).square().sum()

    assert torch.autograd.gradcheck(loss, chosen, fast_mode=True)


@pytest.mark.parametrize("body", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("feeds_context", [True, False])
def test_that_the_size_on_paper_is_the_size(body, feeds_context):
    for choices in (
        {"score": "general", "local_reach": 3, "tie_embeddings": False},
        {"score": "additive", "n_kv_heads": 1, "bias": False, "n_decoder_layers": 1, "output_bias": True},
        {"kept_heads": (("cross.0", (1,)),), "local_reach": 2, "transform_head": True},
        {"kept_heads": (("cross.0", ()),), "local_reach": 2},
    ):
        config = ModelConfig(
            form="encoder-decoder",
            vocab_size=10,
            d_model=8,
            n_heads=2,
            body=body,
            feeds_context=feeds_context,
            **choices,
        )
        module = build_own(config, seed=0)
        assert sum(p.numel() for p in module.parameters()) == count_parameters(config).total
        again = build_own(config, seed=0).state_dict()
        assert all(torch.equal(t, again[name]) for name, t in module.state_dict().items())

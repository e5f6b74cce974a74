"""Memory tokens: a text behind learned vectors, against loops in float64, and all that reads their ids."""

import numpy as np
import pytest
import torch
from kept_for_backward import kept_bytes
from refused_choices import assert_refused
from slow_site import filled
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.analysis import NOT_SCORED, build_batches
from attnscope.errors import UserError
from attnscope.models import BatchShape, activation_bytes, own_cost
from attnscope.nn import (
    Dense,
    KeyValueCache,
    ModelConfig,
    build_own,
    build_transformer,
    count_parameters,
    memory_ids,
    n_memory_ids,
)
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES
from attnscope.training import Batch, BehindMemory, loss_sum

SIZES = {
    "form": "decoder", "vocab_size": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
    "d_ff": 10, "max_tokens": 24, "memory_tokens": 3,
}  # fmt: skip
TEXT = torch.arange(2 * 9).reshape(2, 9) * 5 % 13
IDS = torch.cat([torch.tensor([13, 14, 15]).expand(2, -1), TEXT], dim=1)
FITTING = [name for name, one in POSITIONS.items() if name != "transformer-xl"]


def config_of(**choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, **choices})


class SlowBehindMemory(SlowDecoder):
    """The slow decoder, whose first rows are the memory and whose text begins at position 0."""

    def __init__(self, model: at.Model) -> None:
        super().__init__(model)
        n, weights = self.config.memory_tokens, self.weights
        places = weights["decoder_embedding.positions.weight"]
        weights["tokens.weight"] = np.concatenate([weights["tokens.weight"], weights["memory.weight"]])
        nothing = np.zeros((n, places.shape[1]))
        weights["decoder_embedding.positions.weight"] = np.concatenate([nothing, places])


@pytest.mark.parametrize("n_memory", [1, 3, 10])
@pytest.mark.parametrize("norm_place", ["pre", "post", "sandwich"])
def test_that_a_text_behind_memory_is_that_of_a_slow_float64_version(n_memory: int, norm_place: str) -> None:
    model = tiny_model("decoder", memory_tokens=n_memory, norm_place=norm_place)
    read = model.encode(SENTENCE).source
    n_pieces = model.own.config.vocab_size
    assert [token.piece for token in read.tokens[:n_memory]] == [f"<m{i + 1}>" for i in range(n_memory)]
    assert read.ids[:n_memory] == tuple(memory_ids(n_pieces, n_memory))
    slow = SlowBehindMemory(model).run(read.ids)
    np.testing.assert_allclose(model.trace(SENTENCE).logits, slow.logits[:, :n_pieces], atol=2e-5)
    assert n_memory_ids(torch.tensor([read.ids]), n_pieces) == n_memory


@pytest.mark.parametrize("position", FITTING)
@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_maps_prove_themselves_under_every_position(position: str, form: str, tmp_path) -> None:
    model = tiny_model(form, position=position, memory_tokens=2, scale_embeddings=True)
    trace = model.trace(SENTENCE)
    assert trace.check().is_good
    weights = trace.weights((form, 0), 0)
    assert weights.shape == (len(trace.source), len(trace.source))
    assert weights[4, :2].min() > 0  # the text reads the memory
    assert np.isnan(weights[0, 4]) == (form == "decoder")
    model.save(tmp_path / "m")
    opened = at.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(opened.trace(SENTENCE).logits, trace.logits)
    if form == "decoder":
        written = model.write(SENTENCE, at.WriteSettings(max_tokens=4))
        assert written.trace.check().is_good
        assert model.generate(SENTENCE, max_tokens=4) == written.text.text


@pytest.mark.parametrize("score", list(SCORES))
@torch.no_grad()
def test_that_a_text_is_read_at_once_and_in_parts_alike(score: str) -> None:
    for position in ("learned", "sinusoidal", "alibi"):
        model = filled(config_of(score=score, position=position))
        cache = KeyValueCache()
        parts = [model.decode(part, cache=cache) for part in IDS.split([5, 1, 6], dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model.decode(IDS), atol=5e-5, rtol=0)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "binary", "none"])
@torch.no_grad()
def test_that_memory_nobody_looks_at_leaves_the_text_as_it_was(position: str) -> None:
    model = filled(config_of(position=position))
    plain = filled(config_of(position=position, memory_tokens=0))
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if k != "memory.weight"})
    pattern = torch.ones(1, 1, 12, 12, dtype=torch.bool)
    pattern[:, :, 3:, :3] = False
    found = model.decode(IDS, pattern=Dense(cells=pattern))[:, 3:]
    torch.testing.assert_close(found, plain.decode(TEXT), atol=2e-5, rtol=0)
    torch.testing.assert_close(model.decode(TEXT), plain.decode(TEXT), atol=2e-5, rtol=0)


def test_that_batches_score_the_same_tokens_behind_memory() -> None:
    valid = torch.ones(2, 9, dtype=torch.bool)
    valid[1, 6:] = False
    scored, labels = torch.tensor([0, 8, 9, 14]), torch.tensor([1, 2, 3, 4])
    batch = Batch(ids=TEXT, scored=scored, labels=labels, valid=valid)

    class Once:
        def draw(self, rng: np.random.Generator, progress: float) -> Batch:
            return batch

        def evaluation(self) -> tuple[Batch, ...]:
            return (batch,)

    maker = BehindMemory(batches=Once(), vocab_size=13, n_memory=3)
    for found in (maker.draw(np.random.default_rng(0), 0.0), *maker.evaluation()):
        assert torch.equal(found.ids, IDS)
        assert IDS.flatten()[found.scored].tolist() == TEXT.flatten()[batch.scored].tolist()
        assert torch.equal(found.labels, batch.labels)
        assert found.valid.sum() == valid.sum() + 6
    model = filled(config_of()).train()
    loss = loss_sum(model, maker.evaluation()[0])
    loss.backward()
    assert model.memory.weight.grad.abs().sum(dim=1).min() > 0
    rows = model(IDS, valid=found.valid).log_softmax(dim=-1)
    told = [-rows[i, 3 + j, k] for i, j, k in ((0, 0, 1), (0, 8, 2), (1, 0, 3), (1, 5, 4))]
    assert float(loss.detach()) == pytest.approx(float(sum(told).detach()), rel=1e-5)


def test_that_counts_on_paper_are_those_of_the_built_model() -> None:
    for choices in ({}, {"form": "encoder"}, {"scale_embeddings": True}):
        config = config_of(**choices)
        model = build_transformer(config, seed=0)
        assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
        assert count_parameters(config).part("memory tokens") == 3 * 16
    assert float(model.memory.weight.detach().std()) == pytest.approx(0.25, rel=0.3)
    cost, plain = own_cost(config_of(), 10), own_cost(config_of(memory_tokens=0), 13)
    assert (cost.n_tokens, cost.parts) == (10, plain.parts)
    n, n_texts = 40, 3
    config = config_of(vocab_size=300, d_model=48, n_kv_heads=4, d_ff=96, max_tokens=n + 8, memory_tokens=8)
    module, text = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % 300
    ids = torch.cat([torch.arange(300, 308).expand(n_texts, -1), text], dim=1)
    scored = torch.arange(n_texts * (n + 8)).reshape(n_texts, -1)[:, 8:].flatten()
    batch = Batch(ids=ids, scored=scored, labels=torch.zeros(n_texts * n, dtype=torch.int64))
    found = kept_bytes(module, batch)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * 300, rel=0.15)


def test_that_a_long_text_is_cut_so_that_the_memory_has_room() -> None:
    model = tiny_model("decoder", memory_tokens=20)
    read = model.encode(SENTENCE).source
    assert len(read) == 24
    assert read.n_dropped == 3
    with pytest.raises(UserError, match="reads one text only"):
        model.encode(SENTENCE, SENTENCE)
    assert target_of("decoder") is None


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"memory_tokens": -1}, "memory_tokens"),
        ({"memory_tokens": 24}, "memory_tokens"),
        ({"form": "encoder-decoder"}, "memory_tokens"),
        ({"form": "encoder", "n_labels": 3}, "memory_tokens"),
        ({"mask": "window"}, "mask"),
        ({"mixer": "retention", "n_kv_heads": None}, "mixer"),
        ({"form": "encoder", "n_projected": 3}, "n_projected"),
    ],
)
def test_that_what_does_not_go_together_is_refused(choices: dict[str, object], key: str) -> None:
    assert_refused(SIZES, choices, key)


def test_that_surprise_is_of_the_text_alone() -> None:
    model = tiny_model("decoder", memory_tokens=3)
    read = model.encode(SENTENCE).source
    logits = torch.tensor(model.trace(SENTENCE).logits, dtype=torch.float64).log_softmax(dim=-1)
    rows = at.ask("surprise", model, SENTENCE).tables[0].rows
    assert [row[0] for row in rows] == [token.piece for token in read.tokens[4:]]
    told = [float(logits[3 + i, id].exp()) for i, id in enumerate(read.ids[4:])]
    assert any(
        [row[k] for row in rows] == pytest.approx(told, rel=1e-4)
        for k in range(1, len(rows[0]))
        if not isinstance(rows[0][k], str)
    )


@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_heads_are_scored_by_the_text_alone(form: str) -> None:
    model = tiny_model(form, memory_tokens=3)
    batch = build_batches(model, [SENTENCE, "a dog saw the bird"])[0]
    assert (batch.ids[:, :3] == torch.tensor([*memory_ids(model.own.config.vocab_size, 3)])).all()
    assert (batch.labels[:, :3] == NOT_SCORED).all()
    assert batch.labels.max() < model.own.config.vocab_size
    found = at.importance(model, [SENTENCE, "a dog saw the bird"])
    assert all(np.isfinite(one.value) for one in found.scores)

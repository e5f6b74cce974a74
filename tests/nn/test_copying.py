"""The pointer-generator against equation 9 of See et al. 2017 in loops, and what stands on it elsewhere."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from kept_for_backward import kept_bytes
from refused_choices import assert_refused
from slow_site import filled
from tiny_models import FRENCH, SENTENCE, tiny_model

import attnscope as at
from attnscope.analysis import attribute_logits
from attnscope.errors import UserError
from attnscope.models import BatchShape, OwnNetwork, activation_bytes, own_cost, prune_module
from attnscope.models.writing import translate_texts
from attnscope.nn import (
    N_DIGITS,
    UNKNOWN_ID,
    KeyValueCache,
    ModelConfig,
    build_own,
    build_transformer,
    copied_pieces,
    count_parameters,
    ids_of,
    joined_logits,
    with_ids,
)
from attnscope.records import HeadRef
from attnscope.schemes.scores import SCORES
from attnscope.training import Batch, first_batch, loss_sum, parse_recipe, prepare, scored_logits
from attnscope.viewmodels.compare import copied_text
from attnscope.viewmodels.session import text_notes

RECIPE = Path(__file__).parents[2] / "resources" / "recipes" / "reports.toml"

SIZES = {
    "form": "encoder-decoder", "vocab_size": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
    "d_ff": 10, "max_tokens": 24, "copies_source": True,
}  # fmt: skip
SOURCE = torch.arange(2 * 9).reshape(2, 9) * 5 % 13
WITH_WORDS = SOURCE.clone()
WITH_WORDS[0, [2, 4, 7]] = torch.tensor(
    [13, 14, 13]
)  # two words that the vocabulary lacks, one of them twice
WITH_WORDS[1, 1] = 13
TARGET = torch.arange(2 * 6).reshape(2, 6) * 7 % 13


def config_of(**choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, **choices})


def padding(*lengths: int) -> torch.Tensor:
    return torch.arange(9) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"tie_embeddings": False, "output_bias": True},
        {"transform_head": True, "norm_place": "post"},
        {"n_heads": 1, "n_kv_heads": 1, "n_decoder_layers": 1},
        {"shared_layers": True, "norm_place": "sandwich"},
        {"bias": False, "position": "none", "d_head": 6},
    ],
)
@pytest.mark.parametrize("source", [SOURCE, WITH_WORDS], ids=["vocabulary", "words"])
@torch.no_grad()
def test_that_a_token_is_written_or_copied_as_equation_9_says(
    choices: dict[str, object], source: torch.Tensor
) -> None:
    model = filled(config_of(**choices)).double()
    model.fill_tables()
    cross, seen = model.decoder[-1].cross, []
    handle = cross.register_forward_hook(lambda _, inputs, __: seen.append(inputs))
    memory = model.encode(source, valid=padding(9, 5))
    unknown = torch.where(source < 13, source, UNKNOWN_ID)
    torch.testing.assert_close(memory[..., :16], model.encode(unknown, valid=padding(9, 5))[..., :16])
    n_extended = max(13, int(source.max()) + 1)
    rows = model.decode(TARGET, memory=memory, memory_valid=padding(9, 5))
    handle.remove()
    found = model.logits(rows).softmax(dim=-1)
    (x, stream), head, d = seen[0], model.head, 16
    for text, n in ((0, 9), (1, 5)):
        q = cross.query(x[text]).unflatten(-1, (-1, cross.d_head))
        k = cross.kv(stream[text]).unflatten(-1, (-1, cross.d_head))
        for i in range(6):
            a = [0.0] * n
            for h in range(cross.n_heads):
                group = h // (cross.n_heads // cross.n_kv_heads)
                e = [math.exp(float(q[i, h] @ k[j, group]) / math.sqrt(cross.d_head)) for j in range(n)]
                a = [one + w / sum(e) / cross.n_heads for one, w in zip(a, e, strict=True)]
            s = rows[text, i, :d]
            p_gen = 1 / (1 + math.exp(-float(s @ head.copy_gate.weight[0] + head.copy_gate.bias)))
            written = model.logits(s).softmax(dim=-1)
            assert found.shape[-1] == n_extended
            for piece in range(n_extended):
                copied = sum(w for w, id in zip(a, source[text].tolist(), strict=False) if id == piece)
                expected = (1 - p_gen) * copied + (p_gen * float(written[piece]) if piece < 13 else 0.0)
                assert float(found[text, i, piece]) == pytest.approx(expected, abs=1e-6)


def test_that_gradients_are_right_where_nothing_is_copied_too() -> None:
    generator = torch.Generator().manual_seed(1)
    logits, gate = (torch.randn(2, 3, n, generator=generator, dtype=torch.float64) for n in (7, 1))
    weights = torch.randn(2, 2, 3, 4, generator=generator, dtype=torch.float64).softmax(dim=-1)
    ids = torch.tensor([[0, 3, 3, 6], [1, 1, 1, 1]])

    def mixed(logits: torch.Tensor, gate: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        written = gate.sigmoid() * logits.softmax(dim=-1)
        return (written + (1 - gate.sigmoid()) * copied_pieces(weights, ids, 7)).log()

    parts = [one.requires_grad_() for one in (logits, gate, weights)]
    assert torch.autograd.gradcheck(mixed, parts)
    expected = torch.autograd.grad(mixed(*parts).square().sum(), parts)
    found = joined_logits(logits, gate, copied_pieces(weights, ids, 7))
    torch.testing.assert_close(found.double(), mixed(*parts), atol=1e-5, rtol=1e-5)
    for one, other in zip(torch.autograd.grad(found.square().sum(), parts), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    model = filled(config_of()).train()
    model.logits(model.decode(TARGET, memory=model.encode(SOURCE))).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_that_a_memory_knows_its_tokens_in_every_precision(dtype: torch.dtype) -> None:
    ids = torch.tensor([[0, 1, 255, 256, 257, 65_535, 65_536, 3_999_999]])
    memory = with_ids(torch.zeros(1, 8, 4, dtype=dtype), ids)
    assert memory.shape == (1, 8, 4 + N_DIGITS)
    assert ids_of(memory).tolist() == ids.tolist()


@pytest.mark.parametrize("score", list(SCORES))
@torch.no_grad()
def test_that_every_score_copies_at_once_and_in_parts_alike(score: str) -> None:
    model, cache = filled(config_of(score=score)), KeyValueCache()
    memory = model.encode(SOURCE)
    parts = [model.decode(part, memory=memory, cache=cache) for part in TARGET.split([2, 1, 3], dim=1)]
    whole = model.decode(TARGET, memory=memory)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=5e-5, rtol=0)
    torch.testing.assert_close(whole[..., 16:].sum(dim=-1), torch.ones(2, 6), atol=1e-5, rtol=0)


def test_that_maps_files_beams_and_recomputed_blocks_go_along(tmp_path) -> None:
    model = tiny_model("encoder-decoder", copies_source=True)
    trace = model.trace(SENTENCE, FRENCH)
    assert trace.check().is_good
    model.save(tmp_path / "m")
    opened = at.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(opened.trace(SENTENCE, FRENCH).logits, trace.logits)
    texts = [SENTENCE, "a dog", "the bird saw a cat"]
    settings = at.WriteSettings(mode="beams", n_beams=2, max_tokens=6)
    together = {one.index: one.text for one in translate_texts(model, texts, settings)}
    assert together == {i: model.write(text, settings).text.text for i, text in enumerate(texts)}
    module = build_own(config_of(), 0).train()
    batch = Batch(ids=SOURCE, target_ids=TARGET, scored=torch.arange(12), labels=TARGET.flatten())
    losses = []
    for module.is_recomputing in (False, True):
        module.zero_grad()
        loss_sum(module, batch).backward()
        losses.append(torch.cat([p.grad.flatten() for p in module.parameters()]))
    torch.testing.assert_close(losses[0], losses[1], atol=1e-6, rtol=1e-5)


def test_that_closed_and_removed_heads_copy_nothing() -> None:
    model = tiny_model("encoder-decoder", copies_source=True)
    own, gates = model.own, model.gates()
    for head in range(3):
        gates["cross", 1, head] = 0.0
    smaller = at.Model(OwnNetwork(prune_module(own.module, gates.frozen()), own.vocabulary, own.card))
    weights = smaller.trace(SENTENCE, FRENCH).weights(("cross", 1), 0)
    found = at.ask("copying", smaller, SENTENCE, FRENCH)
    np.testing.assert_allclose(found.maps[1].values, weights, atol=1e-6)
    closed = at.ask("copying", model, SENTENCE, FRENCH, gates=gates)
    np.testing.assert_allclose(4 * closed.maps[1].values, weights, atol=1e-6)
    gates["cross", 1, 3] = 0.0
    none = at.Model(OwnNetwork(prune_module(own.module, gates.frozen()), own.vocabulary, own.card))
    p = [row[4:] for row in at.ask("copying", none, SENTENCE, FRENCH).tables[0].rows]
    assert all(generator == pytest.approx(whole, rel=1e-5) for generator, whole in p)


def test_that_counts_on_paper_are_those_of_the_built_model() -> None:
    for choices in ({}, {"tie_embeddings": False}, {"transform_head": True}):
        config = config_of(**choices)
        model = build_transformer(config, seed=0)
        assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
    more = own_cost(config_of(), 10).forward - own_cost(config_of(copies_source=False), 10).forward
    assert more == 2 * 10 * 16 + 4 * 10 * 10  # p_gen of each token, and the mean of the weights
    n, n_texts = 40, 3
    config = config_of(vocab_size=300, d_model=48, n_kv_heads=4, d_ff=96, max_tokens=n)
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % 300
    labels = torch.zeros(n_texts * n, dtype=torch.int64)
    batch = Batch(ids=ids, target_ids=ids, scored=torch.arange(n_texts * n), labels=labels)
    found = kept_bytes(module, batch)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * 300, rel=0.15)


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"form": "decoder"}, "copies_source"),
        ({"form": "encoder"}, "copies_source"),
        ({"copies_source": 1}, "copies_source"),
    ],
)
def test_that_what_does_not_go_together_is_refused(choices: dict[str, object], key: str) -> None:
    assert_refused(SIZES, choices, key)


def test_that_what_adds_up_logits_says_what_to_ask_instead() -> None:
    model = tiny_model("encoder-decoder", copies_source=True)
    with pytest.raises(UserError, match=r"copy a token.*Copy or write"):
        attribute_logits(model, SENTENCE, FRENCH)
    with pytest.raises(UserError, match=r"copies none.*Train the recipe reports"):
        at.ask("copying", tiny_model("encoder-decoder"), SENTENCE, FRENCH)
    gate = HeadRef(stack="cross", layer=0, head=0)
    assert at.ask("copying", model, SENTENCE, FRENCH, head=gate).sentence


def copying_model(p_gen: float = 0.0) -> at.Model:
    """A model that copies every token, from wherever its last cross-attention looks."""
    model = tiny_model("encoder-decoder", copies_source=True)
    with torch.no_grad():
        model.own.module.head.copy_gate.weight.zero_()
        model.own.module.head.copy_gate.bias.fill_(math.log((p_gen + 1e-9) / (1 - p_gen + 1e-9)))
    return model


def test_that_words_outside_the_vocabulary_are_copied_as_they_stand() -> None:
    model, text = copying_model(), "Zorbel 4711 Zorbel Zorbel Zorbel"
    trace = model.trace(text, "Zorbel le Unseen")
    n = model.info.vocab_size
    assert trace.source.ids[:4] == (n, n + 1, n, n)
    assert trace.source.pieces[:4] == ("Zorbel", "4711", "Zorbel", "Zorbel")
    assert (trace.source.n_unknown, trace.source.n_copyable) == (5, 5)
    can_be = "outside the vocabulary but can be copied"
    assert trace.source.unknown_words == f"5 tokens are {can_be}: Zorbel, 4711"
    assert text_notes(trace.source) == f"5 {can_be}"
    assert text_notes(trace.target) == f"1 unknown · 1 {can_be}"
    assert trace.target.unknown_words == f"1 token is unknown: Unseen; 1 token is {can_be}: Zorbel"
    assert f"(1 unknown, 6 {can_be})" in repr(trace)
    assert (trace.target.ids[1], trace.target.ids[3]) == (n, UNKNOWN_ID)  # "Unseen" cannot be copied
    greedy, beams = (
        model.write(text, at.WriteSettings(mode=mode, n_beams=3, max_tokens=6)).text
        for mode in ("greedy", "beams")
    )
    for written in (greedy, beams):
        words = written.text.split()
        assert words
        assert {*words} <= {*text.split()}
        assert written.tokens[0].token.piece in text.split()
    told = model.predict(text, "Zorbel le").predictions[-1]
    assert {one.token.piece for one in told.candidates[:3]} >= {"Zorbel", "4711"}
    assert sum(one.probability for one in told.candidates) == pytest.approx(1.0, abs=1e-4)
    settings = at.WriteSettings(mode="greedy", max_tokens=6)
    together = {
        one.index: one.text
        for one in translate_texts(model, [text, "Nix cat Nix Nix", "Foo Foo Foo"], settings)
    }
    assert together[0] == greedy.text
    assert {*together[1].split()} <= {"Nix", "cat"}
    assert {*together[2].split()} <= {"Foo"}
    asked = at.ask("copying", model, text)
    assert {row[0] for row in asked.tables[0].rows} <= {*text.split(), "</s>"}


def test_that_p_gen_stands_beside_every_prediction() -> None:
    text, target = "Zorbel saw a cat", "le chat"
    for model, words in ((copying_model(0.0), "copied"), (copying_model(0.75), "written")):
        look = model.look(text, target)
        rows = at.ask("copying", model, text, target).tables[0].rows
        assert look.comparison.after.p_write == pytest.approx([row[1] for row in rows], abs=1e-6)
        assert words in copied_text(look.comparison, 0)
    plain = tiny_model("encoder-decoder").look(text, target).comparison
    assert copied_text(plain, 0) == ""


def test_that_reports_teach_words_that_the_vocabulary_lacks() -> None:
    changes = {"data.n_examples": "40", "training.batch_size": "8", "training.evaluation_batches": "1"}
    recipe = parse_recipe(RECIPE.read_text(encoding="utf-8"), overrides=changes)
    prepared = prepare(recipe)
    n, batch = prepared.tokenizer.vocab_size, prepared.batches.evaluation()[0]
    assert (batch.labels >= n).any()
    assert not (batch.labels == UNKNOWN_ID).any()
    assert len(batch.words) == 8
    for i, words in enumerate(batch.words):
        reader = prepared.tokenizer.with_words(words)
        source = [token.piece for token in map(reader.token, batch.ids[i].tolist())]
        labels = batch.labels[batch.scored // batch.target_ids.shape[1] == i]
        told = [reader.token(id).piece for id in labels.tolist() if id != prepared.tokenizer.end_id]
        assert {*told} <= {*source, "by"}
        assert words == tuple(dict.fromkeys(word for word in source if word in words))
    rows = first_batch(recipe).rows
    assert not any("<m" in cell.piece for row in rows for cell in (*row.cells, *row.source))
    module = build_own(prepared.fitted(recipe.model), 0)
    loss = loss_sum(module, batch, label_smoothing=0.1)
    logits = scored_logits(module, batch).detach().log_softmax(dim=-1)
    expected = sum(
        -0.9 * float(row[label]) - 0.1 * float(row[:n].mean())
        for row, label in zip(logits.double(), batch.labels.tolist(), strict=True)
    )
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)

"""Models that tell labels: trained on tiny tasks, traced, gated, saved, pruned, and refused clearly."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnscope import measure_texts
from attnscope.analysis import build_batches, own_subject, subject_of, trace_levels
from attnscope.errors import LoadError, UserError
from attnscope.models import Model, OwnNetwork, count_cost, prune, read_model_folder
from attnscope.nn import build_own, graph_mask
from attnscope.records import GateTable, is_self_attention
from attnscope.text.tasks import make_task
from attnscope.trace import load_trace
from attnscope.training import card_of, parse_recipe, prepare, scored_logits

PAIR = ("two big wet dogs sleep by the river", "two small dogs sleep")
TEXTS = {"entailment": PAIR, "sentiment": ("the old singer gave us a superb song .", None)}


def build(task: str, model: str = "", *, n_steps: int = 0) -> Model:
    """A small model of a task after so many steps of Adam."""
    base = f"d_model = 16\nn_layers = 1\nn_heads = 2\nd_ff = 16\nmax_tokens = 40\n{model}"
    data = f'kind = "task"\ntask = "{task}"\nn_examples = 400'
    training = "n_steps = 1\nbatch_size = 32\nevaluation_batches = 4\nseed = 1"
    recipe = parse_recipe(
        f'[model]\n{base}\n[data]\n{data}\n[objective]\nkind = "classification"\n[training]\n{training}\n'
    )
    prepared = prepare(recipe)
    module = build_own(prepared.fitted(recipe.model), seed=1)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for step in range(n_steps):
        batch = prepared.batches.draw(np.random.default_rng((1, step)), 0.0)
        loss = F.cross_entropy(scored_logits(module, batch), batch.labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    card = card_of(recipe, n_steps, prepared.labels)
    return Model(OwnNetwork(module.eval(), prepared.tokenizer, card))


@pytest.mark.slow
def test_that_trained_pooling_looks_at_the_word_that_decides() -> None:
    model = build("sentiment", 'mask = "window"\nwindow = 0', n_steps=50)
    examples = [e for e in make_task("sentiment").examples(30, seed=7, held_out=True) if e.links]
    found = []
    for example in examples:
        trace = model.trace(example.source)
        assert [token.piece for token in trace.tokens(("pool", 0))[0]] == ["summary"]
        found.append(
            int(trace.weights(("pool", 0), 0)[0].argmax()) == example.links[0][1] + 1
        )  # <s> is first
        said = model.predict(example.source).predictions[0].candidates[0].token.piece
        assert said == example.label
    assert np.mean(found) > 0.9


def test_that_a_hierarchical_trace_has_sentences_as_rows_and_columns(tmp_path: Path) -> None:
    model = build("reviews", 'pooling = "hierarchical"')
    trace = model.trace("the soup was lovely . the old door was awful .")
    assert trace.source.sentences == (6, 13)
    queries, keys = trace.tokens(("sentence", 0))
    assert ([q.piece for q in queries], len(keys)) == (["sentence 0", "sentence 1"], 13)
    weights = trace.weights(("sentence", 0), 0)
    assert np.isnan(weights[0, 6:]).all()
    assert np.isnan(weights[1, :6]).all()
    np.testing.assert_allclose(np.nansum(weights, axis=1), 1.0, atol=1e-6)
    assert [k.piece for k in trace.tokens(("pool", 0))[1]] == ["sentence 0", "sentence 1"]
    trace.save(tmp_path / "trace.safetensors")
    again = load_trace(tmp_path / "trace.safetensors")
    assert again.tokens(("pool", 0)) == trace.tokens(("pool", 0))
    np.testing.assert_array_equal(again.weights(("pool", 0), 0), trace.weights(("pool", 0), 0))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["entailment", "sentiment"])
def test_that_a_saved_model_says_the_same_and_keeps_its_labels(task: str, tmp_path: Path) -> None:
    model = build(task, "reads_pair = true" if task == "entailment" else 'pooling = "max"')
    model.save(tmp_path / "model")
    loaded = read_model_folder(tmp_path / "model")
    again = Model(OwnNetwork(loaded.module, loaded.tokenizer, loaded.card))
    assert again.info.labels == make_task(task).labels  # type: ignore[attr-defined]
    before, after = model.predict(*TEXTS[task]), again.predict(*TEXTS[task])
    assert (before, before.kind) == (after, "class")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"neutral"', '"contradiction", "neutral"'))
    (tmp_path / "model" / "manifest.json").unlink()
    with pytest.raises(LoadError, match="labels for a model with 3"):
        read_model_folder(tmp_path / "model")


def test_that_both_texts_of_a_pair_have_maps_of_their_own_tokens() -> None:
    model = build("entailment", "reads_pair = true\npooling = 'attention'")
    trace = model.trace(*PAIR)
    sizes = {site.key: tuple(map(len, trace.tokens(site))) for site in trace.sites}
    assert sizes == {
        ("encoder", 0): (10, 10),
        ("second", 0): (6, 6),
        ("cross", 0): (6, 10),
        ("back", 0): (10, 6),
        ("pool", 0): (1, 10),
        ("second-pool", 0): (1, 6),
    }
    assert trace.check().is_good
    assert [site.key for site in trace.sites if is_self_attention(site)] == [("encoder", 0), ("second", 0)]
    assert len(model.encode("two dogs run").target or ()) == 2  # without a second text it is empty


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "choices", "removed"),
    [
        ("entailment", "reads_pair = true", (("encoder", 0, 1), ("second", 0, 1))),
        ("sentiment", "n_projected = 5", (("encoder", 0, 0),)),
        ("reviews", 'pooling = "hierarchical"', (("encoder", 0, 1),)),
    ],
)
def test_that_a_pruned_model_says_what_the_gated_one_says(
    task: str, choices: str, removed: tuple[tuple[str, int, int], ...]
) -> None:
    model = build(task, choices)
    gates = GateTable(model.sites)
    for head in removed:
        gates[head] = 0.0  # type: ignore[index]
    pruned = prune(model.network, gates, has_speed=False)
    text, target = TEXTS.get(task, ("the soup was lovely . the door was old .", None))
    gated, small = model.compare(text, target, gates).after, Model(pruned.network).predict(text, target)
    for one, other in zip(gated.predictions[0].candidates, small.predictions[0].candidates, strict=True):
        assert one.token == other.token
        assert one.probability == pytest.approx(other.probability, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "match"),
    [
        (("encoder", 0, 1), "same weights read both"),
        (("cross", 0, 0), "only way"),
        (("pool", 0, 0), "only way"),
    ],
)
def test_that_heads_without_weights_of_their_own_are_not_removed(
    head: tuple[str, int, int], match: str
) -> None:
    model = build("entailment", "reads_pair = true")
    gates = GateTable(model.sites)
    gates[head] = 0.0  # type: ignore[index]
    assert model.compare(*PAIR, gates).kl_nats[0] > 0.0
    with pytest.raises(UserError, match=match):
        prune(model.network, gates, has_speed=False)


def test_that_what_is_about_tokens_is_refused_in_words() -> None:
    model, slots = build("entailment", "reads_pair = true"), build("sentiment", "n_projected = 5")
    with pytest.raises(UserError, match="does not generate"):
        model.generate("two dogs run")
    with pytest.raises(UserError, match="predicts labels"):
        own_subject(model)
    with pytest.raises(UserError, match="Two texts are matched"):
        trace_levels(model.trace(*PAIR))
    with pytest.raises(UserError, match="slots"):
        trace_levels(slots.trace(TEXTS["sentiment"][0]))
    with pytest.raises(UserError, match="slots"):
        slots.trace("the song .", pattern=graph_mask([(0, 1)], 5))
    with pytest.raises(UserError, match="predicts labels"):
        build_batches(model, ["a text without a label"])


def test_that_the_analyses_batches_give_the_loss_of_the_labels() -> None:
    model = build("entailment", "reads_pair = true")
    examples = make_task("entailment").examples(5, seed=3)
    (batch,) = build_batches(model, examples)
    subject = subject_of(model)
    with subject.studying():
        logits = subject.logits(subject.hidden(batch))[:, 0]
    said = [model.predict(e.source, e.target).predictions[0] for e in examples]
    ordered = sorted(examples, key=lambda e: len(e.source.split()) + len((e.target or "").split()))
    for row, label, example in zip(logits.softmax(-1), batch.labels[:, 0], ordered, strict=True):
        answer = said[examples.index(example)]
        probability = {c.token.id: c.probability for c in answer.candidates}
        assert model.info.labels[int(label)] == example.label
        np.testing.assert_allclose([probability[i] for i in range(3)], row.tolist(), atol=1e-5)


def test_that_a_corpus_of_unequal_texts_is_measured_as_each_text_alone() -> None:
    model = build("reviews", 'pooling = "hierarchical"')
    texts = ["the soup was lovely .", "the old door was awful . the cake was poor . the room was green ."]
    table, *alone = (measure_texts(model, some).table for some in (texts, texts[:1], texts[1:]))
    assert {head.stack for head in table.heads} == {"encoder", "sentence", "pool"}
    columns = [table.names.index(name) for name in ("confidence", "first", "entropy")]
    counts = np.stack([one.counts[:, columns] for one in alone]).astype(float)
    values = np.stack([np.nan_to_num(one.values[:, columns]) for one in alone])
    np.testing.assert_array_equal(table.counts[:, columns], counts.sum(axis=0))
    expected = (counts * values).sum(axis=0) / counts.sum(axis=0)
    np.testing.assert_allclose(table.values[:, columns], expected, atol=1e-5)


def test_that_pairs_and_slots_are_measured_over_a_corpus() -> None:
    pair, slots = build("entailment", "reads_pair = true"), build("sentiment", "n_projected = 5")
    table = measure_texts(pair, [PAIR, ("two dogs run", "two cats run")]).table
    assert {head.stack for head in table.heads} == {site.stack for site in pair.sites}
    table = measure_texts(slots, ["the old song .", "a letter ."]).table
    first, itself = (table.values[0, table.names.index(name)] for name in ("first", "diagonal"))
    assert np.isfinite(first)
    assert np.isnan(itself)  # a slot is at no token's place


def test_that_the_cost_of_slots_grows_with_the_text_and_not_with_its_square() -> None:
    plain, slots = build("sentiment"), build("sentiment", "n_projected = 5")
    for n_tokens in (10, 20):
        attention = [dict(count_cost(model, n_tokens).parts)["attention"] for model in (plain, slots)]
        assert attention == [4 * n_tokens * n_tokens * 16, 4 * n_tokens * 5 * 16]

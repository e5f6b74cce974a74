"""Next-sentence prediction: the labels are right, and its loss is learned beside that of the tokens."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.models import load, read_model_folder
from attnscope.nn import build_own, count_parameters
from attnscope.records import Comparison, Evaluated, Gates, Output
from attnscope.text.tasks import make_task
from attnscope.trace import load_traces
from attnscope.training import (
    PairBatches,
    TrainingRun,
    elsewhere,
    learned_parameters,
    loss_and_hits,
    loss_sum,
    parse_recipe,
    prepare,
    read_run,
    recipe_on_paper,
    train,
    write_recipe,
)
from attnscope.viewmodels.compare import follows_text

PAIRS = {"objective.kind": "masked", "objective.next_sentence": "true"}


def test_that_half_of_the_pairs_follow_on_and_are_labelled_so(tiny_recipe: str) -> None:
    vocabulary = prepare(parse_recipe(tiny_recipe, overrides=PAIRS)).batches.vocabulary
    ids = np.arange(1000, 1400)  # each token tells its own place
    maker = PairBatches(
        training=ids,
        held_out=ids,
        vocabulary=replace(vocabulary, ordinary=ids),
        n_tokens=16,
        batch_size=200,
        mask_share=0.15,
        n_evaluation=1,
    )
    batch = maker.draw(np.random.default_rng(0), 0.0)
    assert batch.segments is not None
    assert batch.is_next is not None
    whole = batch.ids.clone().flatten()
    whole[batch.scored] = batch.labels
    for row, segments, is_next in zip(whole.view(200, 16), batch.segments, batch.is_next, strict=True):
        ends = (row == vocabulary.end_id).nonzero().flatten().tolist()
        assert row[0] == vocabulary.begin_id
        assert ends[1] == 15
        a, b = row[1 : ends[0]].tolist(), row[ends[0] + 1 : 15].tolist()
        assert segments.tolist() == [0] * (ends[0] + 1) + [1] * (15 - ends[0])
        assert min(len(a), len(b)) >= 3
        assert (b[0] == a[-1] + 1) == bool(is_next)
        assert is_next or not set(a) & set(b)
    assert 70 < int(batch.is_next.sum()) < 130
    assert batch.pair_weight == len(batch.labels) / 200


def test_that_another_stretch_never_touches_the_true_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        start = int(rng.integers(0, 31))
        place = elsewhere(40, start, 10, 4, rng)
        assert set(range(place, place + 4)).isdisjoint(range(start, start + 10))
        assert 0 <= place <= 36


def test_that_the_gradient_is_of_both_losses_and_the_number_of_the_tokens(tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe, overrides=PAIRS)
    data = prepare(recipe)
    module = build_own(data.fitted(recipe.model), 0).double()
    batch = data.batches.draw(np.random.default_rng(0), 0.0)
    told = loss_and_hits(module, batch)
    loss = loss_sum(module, batch)
    torch.autograd.backward(loss / len(batch.labels))
    gradient = module.next_sentence.weight.grad.clone()
    module.zero_grad()
    hidden = module.encode(batch.ids, segments=batch.segments)
    answers = module.next_sentence(module.pooler(hidden[:, 0]).tanh()).log_softmax(-1)
    by_hand = -sum(answers[i, int(label)] for i, label in enumerate(batch.is_next))
    torch.autograd.backward(by_hand / len(batch.ids))
    torch.testing.assert_close(gradient, module.next_sentence.weight.grad, rtol=1e-5, atol=1e-9)
    assert told.pair_loss == pytest.approx(float(by_hand.detach()), rel=1e-5)
    assert loss.item() == pytest.approx(told.loss, rel=1e-6)


def test_that_runs_tell_how_often_the_answer_is_right(tiny_recipe: str, tmp_path: Path) -> None:
    events = tuple(train(tiny_recipe, tmp_path / "run", "cpu", PAIRS))
    last = [event for event in events if isinstance(event, Evaluated)][-1]
    assert last.next_sentence_accuracy is not None
    assert 0.0 <= last.next_sentence_accuracy <= 1.0
    assert last.next_sentence_loss == pytest.approx(np.log(2), abs=0.2)
    assert read_run(tmp_path / "run").events == events
    model = load(tmp_path / "run", device="cpu")
    config = model.own.config
    assert (config.n_segments, config.has_pooler, config.has_next_sentence) == (2, True, True)
    n_built = sum(p.numel() for p in model.own.module.parameters())
    assert count_parameters(config).total == n_built
    assert count_parameters(config).part("next sentence") == 2 * config.d_model + 2
    recipe = parse_recipe(tiny_recipe, overrides=PAIRS)
    assert parse_recipe(write_recipe(recipe)) == recipe


@pytest.mark.parametrize(
    "changes",
    [{"objective.kind": "causal"}, {"model.n_segments": "1"}, {"model.has_pooler": "false"}],
)
def test_that_what_cannot_go_with_pairs_is_refused(tiny_recipe: str, changes: dict[str, str]) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(tiny_recipe, overrides={**PAIRS, **changes})
    assert "next_sentence" in str(caught.value)


def test_that_two_texts_are_read_as_two_segments(tiny_recipe: str, tmp_path: Path) -> None:
    list(train(tiny_recipe, tmp_path / "run", "cpu", PAIRS))
    model = load(tmp_path / "run", device="cpu")
    assert model.info.takes_target
    inputs = model.encode("Speak.", "hear me")
    pieces = [token.piece for token in inputs.source.tokens]
    n_first = pieces.index("</s>") + 1
    assert pieces[-1] == "</s>"
    assert inputs.segments == (0,) * n_first + (1,) * (len(pieces) - n_first)
    texts = [inputs.source.text[t.start : t.end] for t in inputs.source.tokens if not t.is_special]
    assert "".join(texts).replace(" ", "") == "Speak.hearme"
    module = model.own.module
    ids, segments = torch.tensor([inputs.source.ids]), torch.tensor([inputs.segments])
    by_hand = module.next_sentence(module.pooler(module.encode(ids, segments=segments)[:, 0]).tanh())
    expected = float(by_hand.softmax(-1)[0, 1].detach())
    assert model.predict("Speak.", "hear me").follows == pytest.approx(expected, rel=1e-6)
    changed = model.compare("Speak.", "hear me", Gates.of(dict.fromkeys(model.sites[0].heads, 0.0)))
    blind = copy.deepcopy(module)
    blind.encoder[0].attention.output.weight.data.zero_()
    without = blind.next_sentence(blind.pooler(blind.encode(ids, segments=segments)[:, 0]).tanh())
    assert changed.before.follows == pytest.approx(expected, rel=1e-6)
    assert changed.after.follows == pytest.approx(float(without.softmax(-1)[0, 1].detach()), rel=1e-5)
    assert changed.after.follows != pytest.approx(expected, rel=1e-6)
    trace = model.trace("Speak.", "hear me")
    assert trace.check().is_good
    logits = module(ids, segments=segments)[0].detach().numpy()
    np.testing.assert_allclose(trace.logits, logits, rtol=1e-5, atol=1e-6)
    assert model.encode("Speak.").segments == model.encode("Speak.", "").segments == ()
    long = model.encode("Speak.", "hear me speak " * 9)
    assert len(long.source) == len(long.segments) == 16
    assert long.source.tokens[-1].piece == "</s>"
    assert long.source.n_dropped > 0
    assert model.predict("Speak.").follows is model.predict("Speak.", "").follows is None


OF_TASK = """
[model]
d_model = 16
n_heads = 2
d_ff = 16
max_tokens = 32
[data]
kind = "task"
task = "next-sentence"
n_examples = 300
[objective]
kind = "masked"
next_sentence = true
[training]
n_steps = 2
batch_size = 40
evaluation_batches = 2
"""


def test_that_sentences_of_a_task_are_pairs_of_segments_with_words_hidden() -> None:
    prepared = prepare(parse_recipe(OF_TASK))
    tokenizer, drawn = prepared.tokenizer, make_task("next-sentence").examples(300, seed=0)
    known = {(one.source, one.target): one.is_next for one in drawn}
    batch = prepared.batches.draw(np.random.default_rng(3), 0.0)
    assert batch.segments is not None
    assert batch.valid is not None
    assert batch.is_next is not None
    whole = batch.ids.clone().flatten()
    whole[batch.scored] = batch.labels
    n_ordinary = 0
    rows = zip(
        whole.view(batch.ids.shape).tolist(), batch.segments.tolist(), batch.valid.tolist(), strict=True
    )
    for (row, segments, valid), is_next in zip(rows, batch.is_next.tolist(), strict=True):
        n = sum(valid)
        assert valid == [True] * n + [False] * (len(row) - n)
        assert row[n:] == [tokenizer.pad_id] * (len(row) - n)
        pieces = [tokenizer.token(id).piece for id in row[:n]]
        end = pieces.index("</s>")
        assert (pieces[0], pieces[-1], pieces.count("</s>")) == ("<s>", "</s>", 2)
        assert segments[:n] == [0] * (end + 1) + [1] * (n - end - 1)
        pair = " ".join(pieces[1:end]), " ".join(pieces[end + 1 : -1])
        assert known[pair] == bool(is_next)
        n_ordinary += n - 3
    assert 0.08 < len(batch.labels) / n_ordinary < 0.25
    assert batch.pair_weight == len(batch.labels) / 40
    first, again = prepared.batches.evaluation(), prepared.batches.evaluation()
    assert [len(one.ids) for one in first] == [40, 40]
    assert all(
        torch.equal(a.ids, b.ids) and torch.equal(a.labels, b.labels)
        for a, b in zip(first, again, strict=True)
    )


def test_that_padding_of_pairs_changes_no_answer() -> None:
    recipe = parse_recipe(OF_TASK)
    data = prepare(recipe)
    module = build_own(data.fitted(recipe.model), 0).double().eval()
    batch = data.batches.evaluation()[0]
    assert batch.valid is not None
    assert batch.segments is not None
    together = loss_and_hits(module, batch)
    alone = 0.0
    for row, segments, valid, is_next in zip(
        batch.ids, batch.segments, batch.valid, batch.is_next, strict=True
    ):
        n = int(valid.sum())
        hidden = module.encode(row[None, :n], segments=segments[None, :n])
        alone -= float(module.next_sentence_logits(hidden).log_softmax(-1)[0, int(is_next)].detach())
    assert together.pair_loss == pytest.approx(alone, rel=1e-5)


def test_that_the_verdict_on_a_watched_pair_is_kept_with_its_trace(tiny_recipe: str, tmp_path: Path) -> None:
    watched = f'{tiny_recipe}\n[[watch]]\ntext = "Speak."\ntarget = "hear me"\n'
    list(train(watched, tmp_path / "run", "cpu", PAIRS))
    step, path = read_run(tmp_path / "run").probes[-1]
    (*_, kept) = load_traces(path)
    assert kept.said is not None
    model = load(tmp_path / "run" / "checkpoints" / str(step), device="cpu")
    assert kept.said.follows == pytest.approx(model.predict("Speak.", "hear me").follows, rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective.next_sentence": "false"},
        {"objective.kind": "causal", "objective.next_sentence": "false"},
        {"data.task": "tagging"},
        {"data.task": "entailment"},
    ],
)
def test_that_a_task_of_pairs_goes_with_next_sentences_alone(changes: dict[str, str]) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(OF_TASK, overrides=changes)
    assert "objective" in str(caught.value)


@pytest.mark.slow
def test_that_what_the_pairs_ask_for_learns_along_with_low_rank_adapters(
    tiny_recipe: str, tmp_path: Path
) -> None:
    few = {"training.n_steps": "2", "schedule.kind": "constant", "optimizer.learning_rate": "0.01"}
    list(train(tiny_recipe, tmp_path / "masked", "cpu", {**few, "objective.kind": "masked"}))
    low_rank = {**few, **PAIRS, "start.from": str(tmp_path / "masked"), "start.lora_rank": "1"}
    run = TrainingRun(parse_recipe(tiny_recipe, overrides=low_rank), tmp_path / "low", "cpu")
    n_learning = sum(p.numel() for p in run.model.own.module.parameters() if p.requires_grad)
    list(run.events())
    before, after = (read_model_folder(tmp_path / "low" / "checkpoints" / str(step)).module.state_dict()
                     for step in (0, 2))  # fmt: skip
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    made = {"encoder_embedding.segments.weight", "pooler.weight", "next_sentence.weight"}
    assert made <= changed
    assert not any(name.startswith(("tokens", "encoder_norm")) or ".ff" in name for name in changed)
    assert learned_parameters(recipe_on_paper(run.recipe)) == n_learning


def test_that_the_answer_is_said_in_words_with_what_changed() -> None:
    def told(before: float | None, after: float | None) -> str:
        sides = [Output(kind="masked-token", predictions=(), follows=value) for value in (before, after)]
        return follows_text(Comparison(before=sides[0], after=sides[1], kl_nats=()))

    assert told(0.25, 0.25) == "second follows first: 0.250 (NotNext)"
    assert told(0.25, 0.9999) == "second follows first: 0.250 → 1.000 (NotNext → IsNext)"
    assert told(0.75, 0.625) == "second follows first: 0.750 → 0.625 (IsNext)"
    assert told(None, None) == ""

"""Modifications that labs train: each can be trained, from the same batches, and is read as it should be."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.nn import build_own, count_parameters
from attnscope.records import MODIFICATIONS, ModifyFinding, ModifyQuestion, of_group
from attnscope.training import scored_logits
from attnscope.workers.experiments import modifying
from attnscope.workers.experiments.modifying import (
    descend,
    early_step,
    held_out_examples,
    held_out_loss,
    modified,
    translated,
    try_modifications,
    warmed_share,
)


@pytest.fixture(scope="module")
def data():
    return modifying.prepare(modifying.parse_recipe(modifying._RECIPE))


@pytest.fixture(scope="module")
def model(data):
    return data.fitted(modifying.parse_recipe(modifying._RECIPE).model)


@pytest.mark.parametrize("name", MODIFICATIONS)
def test_that_every_modification_takes_a_step(name: str, data, model) -> None:
    config = modified(model, MODIFICATIONS[name])
    module = build_own(config, 0)
    assert sum(p.numel() for p in module.parameters()) == count_parameters(config).total
    before = [p.detach().clone() for p in module.parameters()]
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    descend(module, optimizer, data, seed=3, step=1)
    assert any(not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert all(torch.isfinite(p).all() for p in module.parameters())


def test_that_gated_feed_forwards_have_as_many_weights(model) -> None:
    sizes = {one.name: count_parameters(modified(model, one)).total for one in of_group("activation")}
    assert max(sizes.values()) - min(sizes.values()) < 0.005 * sizes["vanilla"]


def test_that_the_held_out_loss_is_the_mean_of_minus_ln_p(data, model) -> None:
    module = build_own(model, 1)
    total, n = 0.0, 0
    for batch in data.batches.evaluation():
        logits = scored_logits(module.eval(), batch).detach().double().numpy()
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        total -= log_p[np.arange(len(log_p)), batch.labels.numpy()].sum()
        n += len(log_p)
    assert held_out_loss(module, data) == pytest.approx(total / n, rel=1e-5)


def test_that_each_sentence_is_translated_to_its_end_and_held_against_its_reference(
    data, model, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = held_out_examples()
    tokenizer = data.tokenizer
    sources = list(tokenizer.encode_lines(one.source for one in examples))
    targets = list(tokenizer.encode_lines(one.target for one in examples))
    right = {tuple(source): target for source, target in zip(sources, targets, strict=True)}
    pairs: list[tuple[str, str]] = []

    def bleu(written, references) -> float:
        pairs.extend(zip(written, references, strict=True))
        return 7.0

    def knowing(_module, rows, begin_id, n_tokens):  # writes what is right, and goes on after the end
        assert set(rows[:, 0].tolist()) == {begin_id}
        told = [[*right[tuple(row[1:-1])], tokenizer.end_id, *([5] * n_tokens)] for row in rows.tolist()]
        return torch.tensor([row[:n_tokens] for row in told])

    monkeypatch.setattr(modifying, "write_rows", knowing)
    assert translated(build_own(model, 0), data, bleu) == 7.0
    assert len(pairs) == len(examples) == modifying.N_TRANSLATED
    assert all(written == reference for written, reference in pairs)
    assert sorted(reference for _, reference in pairs) == sorted(map(tokenizer.decode, targets))


def test_that_the_rate_rises_and_falls() -> None:
    shares = [warmed_share(step, 100) for step in range(1, 101)]
    assert shares[0] == pytest.approx(0.1 * (1 - 0.95 * 0.01))
    assert int(np.argmax(shares)) == 9
    assert shares[-1] == pytest.approx(0.05)
    assert early_step(ModifyQuestion(n_steps=1)) == 1


@pytest.mark.slow
def test_that_models_of_a_seed_are_the_same_in_every_group_and_news_count_to_the_end() -> None:
    question = ModifyQuestion(group="sharing", n_steps=6, n_seeds=2, seed=4)
    *some, last = try_modifications(question)
    assert last.is_done
    assert last.n_done == last.n_total == 6 * 2 * len(of_group("sharing"))
    assert [news.n_done for news in some] == sorted(news.n_done for news in some)
    found = last.finding
    assert isinstance(found, ModifyFinding)
    assert [row.name for row in found.rows] == [one.name for one in of_group("sharing")]
    assert all(len(row.finals) == len(row.earlies) == 2 for row in found.rows)
    assert all(np.isnan(row.bleus).all() for row in found.rows)
    *_, other = try_modifications(replace(question, group="norm", n_seeds=1))
    assert isinstance(other.finding, ModifyFinding)
    assert other.finding.rows[0].finals[0] == found.rows[0].finals[0]
    assert found.rows[0].finals[0] != found.rows[0].finals[1]


def test_that_only_the_named_rows_are_trained_and_as_among_the_others() -> None:
    whole = ModifyQuestion(group="norm", n_steps=2, n_seeds=1)
    *_, every = try_modifications(whole)
    *_, some = try_modifications(replace(whole, only=("rms",)))
    assert isinstance(every.finding, ModifyFinding)
    assert isinstance(some.finding, ModifyFinding)
    (one,) = some.finding.rows
    (same,) = [row for row in every.finding.rows if row.name == "rms"]
    assert (one.name, one.finals, one.earlies) == (same.name, same.finals, same.earlies)
    assert some.n_total == 2

"""The question Copy or write: what it says is what the model does."""

import math

import pytest
import torch
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.questions import QUESTIONS

QUESTION = QUESTIONS["copying"]


@torch.no_grad()
def test_that_every_number_is_that_of_the_pass() -> None:
    model = tiny_model("encoder-decoder", copies_source=True)
    found = ask_model(QUESTION, model, SENTENCE, FRENCH)
    trace, module = model.trace(SENTENCE, FRENCH), model.own.module
    ids = model.encode(SENTENCE, FRENCH)
    source, target = ids.source, ids.target
    told = [*target.ids[1:], int(torch.tensor(trace.logits[-1]).argmax())]
    rows = module.decode(torch.tensor([target.ids]), memory=module.encode(torch.tensor([source.ids])))[0]
    for i, row in enumerate(found.tables[0].rows):
        a = [
            sum(float(trace.weights(("cross", 1), h)[i, j]) for h in range(4)) / 4 for j in range(len(source))
        ]
        gate = float(module.head.copy_gate.weight[0] @ rows[i, :16] + module.head.copy_gate.bias)
        p_gen = 1 / (1 + math.exp(-gate))
        p_vocab = float(module.logits(rows[i, :16]).softmax(dim=-1)[told[i]])
        copied = sum(w for w, id in zip(a, source.ids, strict=True) if id == told[i])
        best = max(range(len(a)), key=lambda j: a[j])
        assert row[0] == model.network.answer(told[i]).piece
        assert row[2] == source.tokens[best].piece
        expected = (p_gen, a[best], p_vocab, p_gen * p_vocab + (1 - p_gen) * copied)
        assert [row[k] for k in (1, 3, 4, 5)] == pytest.approx(expected, abs=1e-5)
        assert found.cells[0].values[i].tolist() == pytest.approx([(1 - p_gen) * w for w in a], abs=1e-5)
    n_copied = sum(row[1] < 0.5 for row in found.tables[0].rows)
    assert found.sentence.startswith(f"{n_copied} of {len(told)} tokens" if n_copied else "All of")
    assert found.charts[0].x_names == tuple(row[0] for row in found.tables[0].rows)


@pytest.mark.parametrize("bias", [-9.0, 9.0])
def test_that_the_sentence_names_what_is_copied(bias: float) -> None:
    model = tiny_model("encoder-decoder", copies_source=True)
    model.own.module.head.copy_gate.bias.data.fill_(bias)
    sentence = ask_model(QUESTION, model, SENTENCE, FRENCH).sentence
    if bias < 0:
        assert sentence.startswith("7 of 7 tokens are rather copied")
        assert sentence.endswith("and 1 more.")
    else:
        assert sentence.startswith("All of 7 tokens are written")


@pytest.mark.parametrize("form", ["encoder", "decoder"])
def test_that_a_model_that_copies_nothing_is_refused(form: str) -> None:
    with pytest.raises(UserError, match="copies none"):
        ask_model(QUESTION, tiny_model(form), SENTENCE)

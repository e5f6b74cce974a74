"""A written text: its trace is that of the text read at once, whatever way its tokens were chosen."""

import math

import numpy as np
import pytest
import torch
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope.errors import UserError
from attnscope.models.writing import OwnWriter, RecomputingWriter
from attnscope.records import Gates, HeadRef, WriteSettings
from attnscope.trace import TraceProbe

WAYS = (
    WriteSettings(max_tokens=9),
    WriteSettings(mode="sample", temperature=1.3, top_k=7, seed=4, max_tokens=9),
    WriteSettings(mode="beams", n_beams=3, max_tokens=7),
)
PROMPTS = {"decoder": ("the cat sat", ""), "encoder-decoder": (SENTENCE, "le chat")}


def full_records(model, written):
    """The records of the same ids in one pass that knows nothing of writing."""
    probe = TraceProbe(model.sites, written.trace.gates)
    model.network.run(written.inputs, probe)
    return probe.records


def assert_same_maps(written, model) -> None:
    records = full_records(model, written)
    for site in model.sites:
        found, expected = written.trace.records[site.key], records[site.key]
        assert found.q.shape == expected.q.shape
        assert found.k.shape == expected.k.shape
        for name in ("q", "k", "lse"):
            difference = (getattr(found, name) - getattr(expected, name)).abs().max()
            assert float(difference) <= 1e-5, (site.key, name, float(difference))
    assert written.trace.check().is_good


@pytest.mark.slow
@pytest.mark.parametrize("form", list(PROMPTS))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.mode)
@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_that_rows_recorded_while_writing_are_those_of_one_pass(form, way, position):
    model = tiny_model(form, position=position)
    text, prefix = PROMPTS[form]
    written = model.write(text, way, prefix=prefix)
    assert written.is_from_rows
    assert_same_maps(written, model)


def test_that_gates_hold_while_writing():
    model = tiny_model("decoder")
    gates = Gates.of({HeadRef(stack="decoder", layer=0, head=h): 0.0 for h in (0, 2)})
    for way in WAYS:
        written = model.write("the cat", way, gates)
        assert written.trace.gates == gates
        assert_same_maps(written, model)
    assert model.write("the cat", WAYS[0], gates).text.text == model.generate("the cat", gates, max_tokens=9)


@pytest.mark.parametrize("form", list(PROMPTS))
def test_that_greedy_writing_is_what_generate_says(form):
    model = tiny_model(form)
    written = model.write(PROMPTS[form][0], WriteSettings(max_tokens=12))
    assert written.text.text == model.generate(PROMPTS[form][0], max_tokens=12)


@pytest.mark.parametrize("form", list(PROMPTS))
def test_that_cached_logits_are_those_without_a_cache(form):
    model = tiny_model(form, position="rotary")
    source, prefix = ([5, 6, 7], [1, 8]) if form == "encoder-decoder" else ([], [1, 8])
    cached, slow = OwnWriter(model.network.module), RecomputingWriter(model.network)
    for writer_call in (
        lambda w: w.begin(source, prefix),
        lambda w: w.step([4, 5, 6], [0, 0, 0]),
        lambda w: w.step([7, 8], [2, 0]),
        lambda w: w.step([9], [1]),
        lambda w: w.step([2], [0]),
    ):
        found, expected = writer_call(cached), writer_call(slow)
        assert found.shape == expected.shape
        assert float((found - expected).abs().max()) <= 1e-5


def test_that_each_token_says_where_it_came_from():
    model = tiny_model("decoder")
    written = model.write("the cat sat", WriteSettings(max_tokens=2)).text
    n_prompt = len(model.encode("the cat sat").source)
    assert [token.position for token in written.tokens] == [n_prompt - 1 + k for k in range(2)]
    assert written.source.ids[n_prompt:] == tuple(token.token.id for token in written.tokens)
    logits = model.network.run(model.network.encode("the cat sat")).logits([n_prompt - 1])[0].double()
    first = written.tokens[0]
    p = logits.softmax(dim=0)
    assert first.probability == pytest.approx(float(p.max()), abs=1e-6)
    assert first.chance == 1.0
    shown = [candidate.probability for candidate in first.alternatives]
    assert shown == pytest.approx(sorted(p.tolist(), reverse=True)[:8], abs=1e-6)
    assert written.log_probability == pytest.approx(sum(math.log(t.probability) for t in written.tokens))
    assert written.whole.startswith("the cat sat ")
    readable = tuple(token.id for token in written.source.tokens[1:] if not token.is_special)
    assert model.encode(written.whole).source.ids[1:] == readable


def test_that_each_alternative_says_what_it_was_drawn_with():
    model = tiny_model("decoder")
    wish = WriteSettings(mode="sample", temperature=0.5, top_k=5, top_p=0.6, max_tokens=1, n_alternatives=12)
    (token,) = model.write("the cat sat", wish).text.tokens
    n_prompt = len(model.encode("the cat sat").source)
    logits = model.network.run(model.network.encode("the cat sat")).logits([n_prompt - 1])[0].double()
    sharp = sorted((math.exp(value / 0.5) for value in logits.tolist()), reverse=True)[:5]
    held, kept = 0.0, []
    for value in sharp:  # the fewest of the five that hold 0.6 of what the five hold
        if held < 0.6 * sum(sharp):
            kept.append(value)
        held += value
    expected = [value / sum(kept) for value in kept]
    assert 0 < len(kept) < 5
    assert [c.chance for c in token.alternatives] == pytest.approx(expected + [0.0] * (12 - len(kept)))
    assert token.chance in [c.chance for c in token.alternatives]
    greedy = model.write("the cat sat", WriteSettings(max_tokens=1)).text.tokens[0]
    assert {c.chance for c in greedy.alternatives} == {None}


def test_that_equal_seeds_write_equal_texts_and_others_do_not():
    model = tiny_model("decoder")
    texts = [
        model.write("the", WriteSettings(mode="sample", temperature=2.0, seed=seed, max_tokens=15)).text.text
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]
    cold = WriteSettings(mode="sample", temperature=0.0, seed=1, max_tokens=15)
    assert model.write("the", cold).text.text == model.generate("the", max_tokens=15)


@pytest.mark.slow
def test_that_an_end_token_is_told_but_not_read():
    model = tiny_model("encoder-decoder")
    ends = [
        written
        for seed in range(12)
        if (
            written := model.write(
                SENTENCE, WriteSettings(mode="sample", temperature=3.0, seed=seed, max_tokens=20)
            )
        ).text.has_ended
    ]
    assert ends, "no seed wrote the end token; take other seeds"
    for written in ends[:2]:
        assert written.text.tokens[-1].token.is_special
        assert written.text.target.ids == (
            model.network.vocabulary.begin_id,
            *(token.token.id for token in written.text.tokens[:-1]),
        )
        assert_same_maps(written, model)


def test_that_a_network_without_a_cache_writes_the_same():
    model = tiny_model("decoder")

    class Plain:
        """The network without its own writer."""

        def __getattr__(self, name: str) -> object:
            if name == "writer":
                raise AttributeError(name)
            return getattr(model.network, name)

    from attnscope.models import Model

    for way in WAYS:
        slow, quick = Model(Plain()).write("the cat", way), model.write("the cat", way)
        assert not slow.is_from_rows
        assert slow.text.text == quick.text.text
        for site in model.sites:
            assert np.allclose(
                slow.trace.weights(site, 1), quick.trace.weights(site, 1), atol=1e-5, equal_nan=True
            )


def test_that_writing_can_be_given_up_after_any_token():
    model = tiny_model("decoder")
    steps = model.writing("the cat", WriteSettings(max_tokens=10))
    seen = [next(steps) for _ in range(3)]
    steps.close()
    assert [len(so_far.tokens) for so_far in seen] == [1, 2, 3]
    assert seen[2].whole().startswith(seen[1].whole())
    assert torch.is_grad_enabled()


def test_that_a_model_in_training_is_left_as_it_was_between_tokens():
    model = tiny_model("decoder", dropout=0.5)
    model.network.module.train()
    steps = model.writing("the cat", WriteSettings(max_tokens=5))
    for _ in range(3):
        next(steps)
        assert model.network.module.training
        assert torch.is_grad_enabled()
    steps.close()


@pytest.mark.parametrize("given", [None, b"the cat", 7, ["the", "cat"]])
def test_that_what_is_no_string_is_not_written_after(given):
    model = tiny_model("encoder-decoder")
    for write in (model.write, model.generate):
        with pytest.raises(UserError, match=r"The text: .*Expected: one string"):
            write(given)
    with pytest.raises(UserError, match=r"The prefix: .*Expected: one string"):
        model.write("the cat", prefix=given)


def test_that_a_full_text_leaves_no_room_and_says_so():
    model = tiny_model("decoder")
    long = " ".join(["the cat"] * 30)
    with pytest.raises(UserError, match="fills 24 tokens, and the model can read no more"):
        model.write(long)
    nearly = " ".join(["cat"] * 21)
    assert len(model.write(nearly, WriteSettings(max_tokens=50)).text.tokens) == 2


def test_that_a_masked_model_does_not_write():
    with pytest.raises(UserError, match="does not generate text"):
        tiny_model("encoder").write(FRENCH)

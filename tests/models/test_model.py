from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import FORMS, FRENCH, SENTENCE, target_of, tiny_model

from attnscope.errors import UserError
from attnscope.models import (
    Model,
    choose_device,
    demo_models,
    kl_nats,
    load,
    log_probabilities,
    write_greedily,
)
from attnscope.records import Gates, HeadRef


def all_gates(model: Model, value: float) -> Gates:
    return Gates.of({head: value for site in model.sites for head in site.heads})


@pytest.mark.parametrize("form", FORMS)
def test_that_traced_logits_equal_the_plain_forward(form: str) -> None:
    model = tiny_model(form)
    inputs = model.encode(SENTENCE, target_of(form))
    source = torch.tensor([inputs.source.ids])
    target = None if inputs.target is None else torch.tensor([inputs.target.ids])
    with torch.no_grad():
        plain = model.own.module(source, target_ids=target)[0].numpy()
    traced = model.trace(SENTENCE, target_of(form)).logits
    np.testing.assert_allclose(traced, plain, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_that_gate_zero_equals_zeroed_columns_of_the_output_projection(form: str) -> None:
    model, cut = tiny_model(form), tiny_model(form)
    for site in model.sites:
        head = site.heads[2]
        blocks = cut.own.module.encoder if site.stack == "encoder" else cut.own.module.decoder
        block = blocks[site.layer]
        output = (block.cross if site.stack == "cross" else block.attention).output
        before = output.weight.detach().clone()
        with torch.no_grad():
            output.weight[:, 2 * 4 : 3 * 4] = 0.0  # d_head is 4; columns read head 2's output
        gated = model.trace(SENTENCE, target_of(form), Gates.of({head: 0.0})).logits
        physical = cut.trace(SENTENCE, target_of(form)).logits
        np.testing.assert_allclose(gated, physical, atol=1e-5)
        assert np.abs(gated - model.trace(SENTENCE, target_of(form)).logits).max() > 1e-4
        with torch.no_grad():
            output.weight.copy_(before)


@pytest.mark.parametrize("form", FORMS)
def test_that_pruning_no_head_changes_nothing(form: str) -> None:
    model = tiny_model(form)
    found = model.compare(SENTENCE, target_of(form), all_gates(model, 1.0))
    assert found.before == found.after
    assert set(found.kl_nats) == {0.0}
    table = model.gates()
    assert model.compare(SENTENCE, target_of(form), table) == found


@pytest.mark.parametrize("form", FORMS)
def test_that_all_heads_off_is_defined(form: str) -> None:
    model = tiny_model(form)
    look = model.look(SENTENCE, target_of(form), all_gates(model, 0.0))
    assert np.isfinite(look.comparison.kl_nats).all()
    assert all(np.isfinite(kl) for kl in look.comparison.kl_nats)
    assert look.trace.check().is_good


@pytest.mark.parametrize("form", FORMS)
def test_that_a_look_is_a_trace_and_a_comparison(form: str) -> None:
    model = tiny_model(form)
    gates = Gates.of({model.sites[0].heads[1]: 0.3})
    look = model.look(SENTENCE, target_of(form), gates, top=3)
    alone = model.trace(SENTENCE, target_of(form), gates)
    for site in model.sites:
        difference = (look.trace.all_weights(site) - alone.all_weights(site)).nan_to_num().abs()
        assert float(difference.max()) <= 1e-5
    comparison = model.compare(SENTENCE, target_of(form), gates, top=3)
    np.testing.assert_allclose(look.comparison.kl_nats, comparison.kl_nats, atol=1e-6)
    assert look.comparison.after.generated == comparison.after.generated
    assert look.trace.gates == gates


@pytest.mark.parametrize("form", FORMS)
def test_that_kl_is_over_the_whole_vocabulary(form: str) -> None:
    model = tiny_model(form)
    gates = Gates.of({model.sites[-1].heads[0]: 0.0})
    before = torch.from_numpy(model.trace(SENTENCE, target_of(form)).logits).double().log_softmax(-1)
    after = torch.from_numpy(model.trace(SENTENCE, target_of(form), gates).logits).double().log_softmax(-1)
    comparison = model.compare(SENTENCE, target_of(form), gates, top=1)
    positions = [p.position for p in comparison.before.predictions]
    expected = (before.exp() * (before - after)).sum(-1)[positions]
    np.testing.assert_allclose(comparison.kl_nats, expected.numpy(), atol=1e-5)


def test_that_kl_of_an_impossible_token_is_not_nan() -> None:
    before = torch.tensor([[0.0, -torch.inf]])
    after = torch.tensor([[0.5, 0.5]]).log()
    assert kl_nats(before, after)[0] == pytest.approx(np.log(2))
    assert kl_nats(before, before) == (0.0,)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["", "   ", "the", "the " * 500, "\ud800 \u202e \0", "zzz"])
def test_that_any_text_is_traced_and_what_is_lost_is_counted(form: str, text: str) -> None:
    model = tiny_model(form)
    look = model.look(text, None, Gates.of({model.sites[0].heads[0]: 0.0}))
    n = len(look.inputs.source)
    assert 1 <= n <= 24
    assert look.trace.check().is_good
    if text.startswith("the the"):
        assert (n, look.inputs.source.n_dropped) == (24, 500 - 24 + {"decoder": 1, "encoder": 2}.get(form, 1))


def test_that_each_form_reads_its_special_tokens() -> None:
    def pieces(form: str, target: str | None = None) -> tuple[list[str], list[str]]:
        inputs = tiny_model(form).encode("the cat", target)
        return list(inputs.source.pieces), list(inputs.target.pieces if inputs.target else ())

    assert pieces("decoder") == (["<s>", "the", "cat"], [])
    assert pieces("encoder") == (["<s>", "the", "cat", "</s>"], [])
    assert pieces("encoder-decoder", "le chat") == (["the", "cat", "</s>"], ["<s>", "le", "chat"])


def test_that_a_second_text_is_refused_where_there_is_no_place_for_it() -> None:
    with pytest.raises(UserError, match="one text only"):
        tiny_model("decoder").trace("the cat", "le chat")


def test_that_masked_models_predict_masks_or_every_word() -> None:
    model = tiny_model("encoder")
    masks = model.predict("the <mask> sat on <mask>", top=4)
    assert masks.kind == "masked-token"
    assert [(p.position, p.context) for p in masks.predictions] == [(2, "<mask> 1"), (5, "<mask> 2")]
    words = model.predict("the cat")
    assert [p.position for p in words.predictions] == [1, 2]
    assert len(masks.predictions[0].candidates) == 4
    assert masks.generated == ""
    assert model.predict("").predictions == ()


def test_that_candidates_are_the_most_probable_first() -> None:
    model = tiny_model("decoder")
    output = model.predict(SENTENCE, top=5)
    assert output.kind == "next-token"
    (prediction,) = output.predictions
    assert (prediction.position, prediction.context) == (6, 'after "mat"')
    expected = torch.from_numpy(model.trace(SENTENCE).logits[-1]).softmax(-1).topk(5)
    assert [c.token.id for c in prediction.candidates] == expected.indices.tolist()
    found = [c.probability for c in prediction.candidates]
    np.testing.assert_allclose(found, expected.values.numpy(), atol=1e-6)


def naive(model: Model, ids: list[int], n: int, memory: torch.Tensor | None = None) -> list[int]:
    written: list[int] = []
    for _ in range(n):
        with torch.no_grad():
            hidden = model.own.module.decode(torch.tensor([[*ids, *written]]), memory=memory)
            best = int(model.own.module.logits(hidden[0, -1]).argmax())
        if best == model.own.vocabulary.end_id:
            break
        written.append(best)
    return written


def test_that_writing_ahead_equals_one_token_at_a_time() -> None:
    model = tiny_model("decoder")
    ids = list(model.encode("the cat").source.ids)
    expected = model.own.vocabulary.decode(naive(model, ids, 12))
    assert model.generate("the cat", max_tokens=12) == expected
    for _ in range(2):  # the second time the first one is the guess
        assert model.predict("the cat", n_continue=12).generated == expected


def test_that_a_translation_is_traced_as_the_model_writes_it() -> None:
    model = tiny_model("encoder-decoder")
    inputs = model.encode(SENTENCE)
    assert inputs.is_own_target
    assert inputs.target is not None
    with torch.no_grad():
        memory = model.own.module.encode(torch.tensor([inputs.source.ids]))
    expected = naive(model, [model.own.vocabulary.begin_id], 3 * len(inputs.source) // 2 + 10, memory)
    assert list(inputs.target.ids[1:]) == expected
    gates = Gates.of({HeadRef(stack="cross", layer=0, head=0): 0.0})
    look = model.look(SENTENCE, None, gates)
    follows = look.comparison.after.predictions[-1].candidates[0].token
    assert look.trace.target == replace(inputs.target, following=follows)
    assert look.comparison.before.generated == inputs.target.text
    assert look.comparison.after.generated == model.generate(SENTENCE, gates, max_tokens=len(expected))
    assert len(look.comparison.kl_nats) == len(inputs.target)


@pytest.mark.parametrize("guess", [(), (3, 1, 4, 1, 5, 9), (3, 1, 4), (7, 7, 7), (3, 1, 9, 1, 5)])
@pytest.mark.parametrize("n_tokens", [0, 1, 4, 6, 20])
def test_that_a_guess_never_changes_what_is_written(guess: tuple[int, ...], n_tokens: int) -> None:
    story = [3, 1, 4, 1, 5, 9, 2, 6, 0]
    longest = 0

    def next_tokens(ids: object, n_last: int) -> list[int]:
        nonlocal longest
        sequence = list(ids)  # type: ignore[call-overload]
        longest = max(longest, len(sequence))
        ends = range(len(sequence) - n_last + 1, len(sequence) + 1)
        return [story[n - 1] if sequence[1:n] == story[: n - 1] and n <= 9 else 7 for n in ends]

    written = write_greedily(next_tokens, [8], n_tokens=n_tokens, end_id=0, guess=guess)
    assert written == story[: min(n_tokens, 8)]
    assert longest <= max(n_tokens, 1)


def test_that_a_right_guess_costs_one_pass() -> None:
    n_passes = 0

    def next_tokens(ids: object, n_last: int) -> list[int]:
        nonlocal n_passes
        n_passes += 1
        n = len(list(ids))  # type: ignore[call-overload]
        return list(range(n - n_last + 1, n + 1))

    assert write_greedily(next_tokens, [0], n_tokens=6, end_id=None, guess=(1, 2, 3, 4, 5, 6)) == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert n_passes == 1


def test_that_a_masked_model_does_not_write() -> None:
    with pytest.raises(UserError, match="does not generate"):
        tiny_model("encoder").generate("the cat")


@pytest.mark.parametrize("form", FORMS)
def test_that_looking_at_a_model_in_training_changes_nothing(form: str) -> None:
    model = tiny_model(form, dropout=0.5)
    model.own.module.train()
    state = torch.get_rng_state()
    weights = {name: p.clone() for name, p in model.own.module.state_dict().items()}
    look = model.look(SENTENCE, None, Gates.of({model.sites[0].heads[0]: 0.0}))
    assert model.own.module.training
    assert all(m.training for m in model.own.module.modules())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(weights[name], p) for name, p in model.own.module.state_dict().items())
    assert look.trace.check().is_evaluation_mode
    assert all(p.grad is None for p in model.own.module.parameters())
    with pytest.raises(UserError):
        model.trace(SENTENCE, None, Gates.of({HeadRef(stack="pool", layer=0, head=0): 0.0}))
    assert model.own.module.training


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_that_a_saved_model_says_the_same(form: str, tmp_path: Path) -> None:
    model = tiny_model(form)
    model.save(tmp_path / "kept")
    found = load(tmp_path / "kept", device="cpu")
    assert found.own.config == model.own.config
    assert found.info.objective == model.info.objective
    np.testing.assert_array_equal(
        found.trace(SENTENCE, target_of(form)).logits, model.trace(SENTENCE, target_of(form)).logits
    )
    info = found.info
    assert (info.name, info.form, info.vocab_size, info.note) == (
        "tiny",
        form,
        model.own.config.vocab_size,
        "",
    )
    assert len(info.sha256) == 64
    assert info.n_parameters == sum(p.numel() for p in model.own.module.parameters())
    assert info.takes_target == (form == "encoder-decoder")
    assert load(str(tmp_path / "kept" / "model.safetensors"), device="cpu").info == info


def test_that_the_newest_good_checkpoint_of_a_run_is_opened(tmp_path: Path) -> None:
    model = tiny_model("decoder")
    for step in (2, 10):
        model.save(tmp_path / "checkpoints" / str(step))
    assert load(tmp_path, device="cpu").info.source.endswith("10")
    (tmp_path / "checkpoints" / "10" / "model.safetensors").write_bytes(b"cut")
    found = load(tmp_path, device="cpu")
    assert found.info.source.endswith("2")
    assert "newest checkpoint cannot be read" in found.info.note


def test_that_devices_are_chosen_by_name() -> None:
    assert choose_device("cpu").type == "cpu"
    assert choose_device().type in ("cpu", "cuda", "mps")
    with pytest.raises(UserError, match="not known"):
        choose_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="no usable cuda"):
            choose_device("cuda")


def test_that_the_public_names_are_there() -> None:
    import attnscope

    assert attnscope.load is load
    assert attnscope.demo_models is demo_models
    assert attnscope.Gates is Gates
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = attnscope.nonsense
    assert "load" in dir(attnscope)


def test_that_log_probabilities_sum_to_one() -> None:
    log_p = log_probabilities(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1e4]]))
    np.testing.assert_allclose(log_p.exp().sum(-1).numpy(), 1.0)


def test_that_french_is_its_own_second_text() -> None:
    prediction = tiny_model("encoder-decoder").predict(SENTENCE, FRENCH, n_continue=0)
    assert [p.context for p in prediction.predictions][:2] == ["at the start", 'after "le"']
    assert prediction.generated == ""

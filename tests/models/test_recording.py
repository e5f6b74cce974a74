"""Attention recorded from modules that the program did not open, against slow float64 softmaxes."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import attnscope
from attnscope.errors import UserError


def slow_weights(
    q: Tensor, k: Tensor, mask: Tensor | None = None, *, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """Cell by cell, float64 [n_heads, n_queries, n_keys]; a query sees keys up to its own number."""
    (n_heads, n_queries, d_head), (n_kv_heads, n_keys, _) = q.shape, k.shape
    scores = torch.full((n_heads, n_queries, n_keys), -math.inf, dtype=torch.float64)
    cells = None if mask is None else mask.expand(n_heads, n_queries, n_keys)
    for h, i, j in itertools.product(range(n_heads), range(n_queries), range(n_keys)):
        if is_causal and j > i:
            continue
        product = float(q[h, i].double() @ k[h * n_kv_heads // n_heads, j].double())
        score = product * (d_head**-0.5 if scale is None else scale)
        if cells is not None and cells.dtype == torch.bool:
            score = score if cells[h, i, j] else -math.inf
        elif cells is not None:
            score += float(cells[h, i, j])
        scores[h, i, j] = score
    return scores.softmax(dim=-1)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some(*shape: int) -> Tensor:
    """A mask that leaves every query its first key."""
    cells = torch.rand(*shape, generator=torch.Generator().manual_seed(7)) > 0.4
    cells[..., 0] = True
    return cells


Q, K, V = numbers(1, 4, 5, 8), numbers(1, 4, 7, 8, seed=1), numbers(1, 4, 7, 6, seed=2)
NO_KEYS = some(5, 7).index_fill(0, torch.tensor([2]), False)
FLOATS = numbers(5, 7, seed=3)


@pytest.mark.parametrize(
    ("arguments", "mask", "expected"),
    [
        ({}, None, {}),
        ({"is_causal": True}, None, {"is_causal": True}),
        ({"scale": 0.3}, None, {"scale": 0.3}),
        ({"scale": -0.3, "is_causal": True}, None, {"scale": -0.3, "is_causal": True}),
        ({"scale": 0.0, "is_causal": True}, None, {"scale": 0.0, "is_causal": True}),
        ({"scale": -0.3}, some(4, 5, 7), {"scale": -0.3}),
        ({}, some(5, 7), {}),
        ({}, some(1, 4, 5, 7), {}),
        ({}, some(4, 1, 7), {}),
        ({}, some(1, 1, 1, 7), {}),
        ({}, FLOATS, {}),
        ({}, FLOATS.masked_fill(~some(5, 7), -math.inf), {}),
        ({}, torch.zeros(5, 7).masked_fill(~some(5, 7), torch.finfo(torch.float32).min), {}),
        ({}, NO_KEYS, {}),
    ],
)
def test_that_recorded_weights_are_those_of_a_slow_softmax(
    arguments: dict, mask: Tensor | None, expected: dict
) -> None:
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, **arguments)
    trace = recording.trace()
    cells = mask[0] if mask is not None and mask.ndim == 4 else mask
    slow = slow_weights(Q[0], K[0], cells, **expected)
    found = trace.all_weights(0).double()
    torch.testing.assert_close(found.nan_to_num(0.0), slow.nan_to_num(0.0), atol=1e-6, rtol=0)
    if mask is not None and mask.dtype == torch.bool:
        assert torch.equal(found.isnan(), ~cells.expand(4, 5, 7))
    assert trace.check().is_good


@pytest.mark.parametrize(("bias", "last"), [(causal_lower_right, 2), (causal_upper_left, 0)])
def test_that_the_corners_of_causal_biases_are_kept(bias: Callable[[int, int], Tensor], last: int) -> None:
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(Q, K, V, attn_mask=bias(5, 7))
    seen = torch.ones(5, 7, dtype=torch.bool).tril(last)
    found = recording.trace().all_weights(0).nan_to_num(0.0).double()
    torch.testing.assert_close(found, slow_weights(Q[0], K[0], seen), atol=1e-6, rtol=0)


def test_that_heads_may_be_shared_by_groups_or_broadcast() -> None:
    for n_kv, is_grouped in ((2, True), (1, False)):
        k, v = K[:, :n_kv], V[:, :n_kv]
        with attnscope.record() as recording:
            F.scaled_dot_product_attention(Q, k, v, enable_gqa=is_grouped)
        found = recording.trace().all_weights(0).double()
        torch.testing.assert_close(found, slow_weights(Q[0], k[0]), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("lead", "row", "place"), [((3,), 2, (2,)), ((2, 3), 4, (1, 1)), ((2, 3), -1, (1, 2))]
)
def test_that_one_row_of_a_batch_is_chosen_and_others_broadcast(
    lead: tuple[int, ...], row: int, place: tuple[int, ...]
) -> None:
    q, mask = numbers(*lead, 4, 5, 8), some(*lead, 1, 5, 7)
    with attnscope.record(row=row) as recording:
        F.scaled_dot_product_attention(q, K, V, attn_mask=mask)
    found = recording.trace().all_weights(0).nan_to_num(0.0).double()
    torch.testing.assert_close(found, slow_weights(q[place], K[0], mask[place]), atol=1e-6, rtol=0)
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(q, K, V, attn_mask=mask)
    with pytest.raises(UserError, match=f"{math.prod(lead)} batch rows.*row=0"):
        recording.trace()
    with attnscope.record(row=99) as recording:
        F.scaled_dot_product_attention(q, K, V)
    with pytest.raises(UserError, match="no row 99"):
        recording.trace()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_that_other_precisions_are_compared_with_their_own_rounding(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in (Q, K, V))
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(q, k, v)
    trace = recording.trace()
    torch.testing.assert_close(trace.all_weights(0).double(), slow_weights(q[0], k[0]), atol=1e-6, rtol=0)
    assert trace.check().is_good


def test_that_what_is_changed_afterwards_does_not_change_the_recording() -> None:
    q = Q.clone()
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(q, K, V)
        q.zero_()
    torch.testing.assert_close(
        recording.trace().all_weights(0).double(), slow_weights(Q[0], K[0]), atol=1e-6, rtol=0
    )


class Wrong(nn.Module):
    """Says one thing and does another: its output is not that of its attention."""

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


def test_that_the_check_compares_with_what_the_call_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnscope.models.recording import recording as module

    honest = module.see_product

    def shifted(args: tuple, kwargs: dict, out: Tensor, *others: object) -> object:
        return honest(args, kwargs, out + 0.01, *others)

    monkeypatch.setattr(module, "see_product", shifted)
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(Q, K, V)
    assert recording.trace().check().output_error == pytest.approx(0.01, rel=1e-2)


def test_that_calls_outside_of_the_module_are_left_out_and_names_are_paths() -> None:
    inner, outer = Wrong(), Wrong()
    model = nn.Sequential(inner, nn.Identity(), Wrong())
    with attnscope.record(model) as recording:
        outer(Q)
        model(Q)
        model(Q)
    assert [call.name for call in recording.calls] == ["0", "2", "0 (call 2)", "2 (call 2)"]
    with attnscope.record() as recording:
        outer(Q)
        model(Q)
    assert [call.name for call in recording.calls] == ["Wrong", "0", "2"]


def test_that_calls_are_chosen_by_name_number_and_test() -> None:
    model = nn.ModuleDict({"first": Wrong(), "next": Wrong()})
    with attnscope.record(model) as recording:
        for name in ("first", "next", "first"):
            model[name](Q)
    chosen = {
        "names": recording.trace(calls="first"),
        "numbers": recording.trace(calls=[1]),
        "test": recording.trace(calls=lambda call: call.number > 0),
    }
    assert {key: len(trace.sites) for key, trace in chosen.items()} == {"names": 2, "numbers": 1, "test": 2}
    with pytest.raises(UserError, match=r"'third'.*first"):
        recording.trace(calls="third")


def test_that_texts_of_three_lengths_must_be_chosen_from() -> None:
    with attnscope.record() as recording:
        for n in (3, 4, 5):
            x = numbers(1, 2, n, 8)
            F.scaled_dot_product_attention(x, x, x)
    with pytest.raises(UserError, match=r"3 lengths \(3, 4, 5 tokens\).*calls="):
        recording.trace()
    assert recording.trace(calls=[0, 2]).target is not None


def test_that_tokens_must_be_as_many_as_were_attended_to() -> None:
    with attnscope.record() as recording:
        Wrong()(Q)
    with pytest.raises(UserError, match=r"There are 3 tokens.*5"):
        recording.trace(["a", "b", "c"])
    with pytest.raises(UserError, match="one text"):
        recording.trace("a b c d e")
    trace = recording.trace(["[CLS]", "un", "##believ", "##able", "[SEP]"])
    tokens = trace.tokens(0)[0]
    assert [t.piece for t in tokens] == ["[CLS]", "un", "believ", "able", "[SEP]"]
    assert [t.joins_previous for t in tokens] == [False, False, True, True, False]
    assert [t.is_special for t in tokens] == [True, False, False, False, True]
    assert trace.source.text == "[CLS] unbelievable [SEP]"
    assert [trace.source.text[t.start : t.end] for t in tokens] == [t.piece for t in tokens]


@pytest.mark.parametrize(
    ("pieces", "shown", "joins"),
    [
        (["The", "Ġcat", "s", "Ġsat", "Ġ."], ["The", "cat", "s", "sat", "."], [2]),
        (["▁The", "▁cat", "s", "</s>", "▁sat"], ["The", "cat", "s", "</s>", "sat"], [2]),
    ],
)
def test_that_marks_of_vocabularies_are_read(pieces: list[str], shown: list[str], joins: list[int]) -> None:
    with attnscope.record() as recording:
        Wrong()(Q)
    tokens = recording.trace(pieces).tokens(0)[0]
    assert [token.piece for token in tokens] == shown
    assert [place for place, token in enumerate(tokens) if token.joins_previous] == joins


class ByHand(nn.Module):
    """Attention as tutorials write it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).chunk(3, dim=-1)
        self.weights = (q @ k.mT).softmax(dim=-1)
        return self.weights @ v


class HandAttention(ByHand):
    """Its name tells what it is."""


def test_that_attention_written_by_hand_is_seen_by_its_softmax_when_asked_for() -> None:
    model, x = nn.Sequential(HandAttention()).eval(), numbers(1, 5, 8)
    with attnscope.record(model) as recording:
        model(x)
    with pytest.raises(UserError, match=r"HandAttention.*softmax=True.*scaled_dot_product_attention") as told:
        recording.trace()
    assert str(told.value).count("softmax=True") == 1
    with attnscope.record(model, softmax=True) as recording:
        model(x)
    trace = recording.trace()
    torch.testing.assert_close(trace.all_weights(0), model[0].weights.detach(), atol=1e-6, rtol=0)
    assert trace.check().is_given
    assert trace.recorded is not None
    assert trace.recorded.notes == ("Some weights were taken directly from a softmax.",)
    with attnscope.record(model.train(), softmax=True) as recording:
        model(x)
    notes = (recording.trace().recorded or trace.recorded).notes
    assert notes[1:] == (
        "The module was in training mode: what it may have dropped after the softmax is not seen.",
    )


def test_that_what_cannot_be_recorded_is_refused_and_does_not_break_the_module() -> None:
    with pytest.raises(UserError, match="type list"):
        attnscope.record([1])  # type: ignore[arg-type]
    compiled = Wrong()
    compiled._compiled_call_impl = compiled.forward  # what Module.compile() sets
    with pytest.raises(UserError, match=r"0 is compiled.*before `.compile\(\)`.*_orig_mod"):
        attnscope.record(nn.Sequential(compiled))
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(*(x.to("meta") for x in (Q, K, V)))
    with pytest.raises(UserError, match="without numbers"):
        recording.trace()
    with attnscope.record() as recording:
        torch.vmap(F.scaled_dot_product_attention)(Q, K, V)
    with pytest.raises(UserError, match="vmap"):
        recording.trace()
    with attnscope.record() as recording:
        torch.zeros(2).softmax(dim=0)
    with pytest.raises(UserError, match="No attention call was seen"):
        recording.trace()
    assert "0 attention calls" in repr(recording)


def test_that_everything_is_put_back_even_after_an_error() -> None:
    was = torch.backends.mha.get_fastpath_enabled()
    seen = []

    def fail() -> None:
        with attnscope.record():
            seen.append(torch.backends.mha.get_fastpath_enabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [False]
    assert torch.backends.mha.get_fastpath_enabled() == was
    hooks = torch.nn.modules.module
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert torch.overrides._get_current_function_mode() is None


def test_that_recordings_measure_draw_and_tile_as_traces_do() -> None:
    with attnscope.record() as recording:
        Wrong()(Q)
    trace = recording.trace(list("abcde"), name="mine")
    measures = attnscope.measure(trace)
    weights = trace.all_weights(0).double()
    entropy = -(weights * weights.log()).sum(dim=-1).mean(dim=-1) / math.log(5)
    assert [m.entropy for m in measures] == pytest.approx(entropy.tolist(), abs=1e-5)
    assert trace.head_tile("L0H1").weights == pytest.approx(weights[1].numpy(), abs=1e-6)
    assert "svg" in attnscope.figure(trace, view="head", head="L0H1").render("svg").decode()[:200]
    assert trace.recorded is not None
    assert trace.recorded.name == "mine"
    with pytest.raises(UserError, match="does not hold the model's output"):
        _ = trace.logits


def test_that_recordings_in_each_other_see_each_call_once() -> None:
    with attnscope.record() as outer:
        with attnscope.record() as inner:
            Wrong()(Q)
        Wrong()(Q)
    assert (len(inner.calls), len(outer.calls)) == (1, 2)
    assert outer.trace().check().is_good


def test_that_a_mask_is_read_again_where_it_was_changed_or_means_something_else() -> None:
    """One tensor for two calls: filled in place between them, then of a batch and then of heads."""
    mask = some(5, 7)
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
        mask.fill_(True)
        F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
    trace = recording.trace()
    for layer, cells in enumerate((some(5, 7), mask)):
        found = trace.all_weights(layer).nan_to_num(0.0).double()
        torch.testing.assert_close(found, slow_weights(Q[0], K[0], cells).nan_to_num(0.0), atol=1e-6, rtol=0)
    mask = some(4, 5, 7)
    with attnscope.record(row=0, heads=1) as recording:
        F.scaled_dot_product_attention(Q[0], K[0], V[0], attn_mask=mask)  # four texts of one head
        F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)  # one text of four
    trace = recording.trace()
    for layer, n_heads in enumerate((1, 4)):
        found = trace.all_weights(layer).nan_to_num(0.0).double()
        slow = slow_weights(Q[0, :n_heads], K[0, :n_heads], mask[:n_heads])
        torch.testing.assert_close(found, slow.nan_to_num(0.0), atol=1e-6, rtol=0)


def test_that_numbers_by_distance_that_all_heads_share_are_tiled_for_every_head() -> None:
    distance = (torch.arange(5)[:, None] - torch.arange(7)).float()
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(Q, K, V, attn_mask=-0.3 * distance)
    trace = recording.trace()
    slow = slow_weights(Q[0], K[0], -0.3 * distance)
    for head in range(4):
        tile = torch.from_numpy(trace.head_tile(f"L0H{head}").weights.copy()).double()
        torch.testing.assert_close(tile, slow[head], atol=1e-6, rtol=0)


def test_that_masks_that_are_gone_and_masks_of_one_row_are_not_mixed_up() -> None:
    row = some(1, 7)
    with attnscope.record() as recording:
        for n_hidden in range(1, 5):  # each may stand where the one before stood in memory
            F.scaled_dot_product_attention(Q, K, V, attn_mask=torch.arange(7).expand(5, 7) >= n_hidden)
    trace = recording.trace()
    for layer, n_hidden in enumerate(range(1, 5)):
        assert trace.all_weights(layer).isnan().sum() == 4 * 5 * n_hidden
    with attnscope.record() as recording:
        for n_queries in (5, 3):
            F.scaled_dot_product_attention(Q[:, :, :n_queries], K, V, attn_mask=row)
    for k, n_queries in enumerate((5, 3)):
        found = recording.trace(calls=[k]).all_weights(0).nan_to_num(0.0).double()
        slow = slow_weights(Q[0, :, :n_queries], K[0], row)
        torch.testing.assert_close(found, slow.nan_to_num(0.0), atol=1e-6, rtol=0)


def test_that_the_last_axis_of_a_softmax_may_be_counted_from_the_front() -> None:
    scores = numbers(1, 2, 5, 7)
    with attnscope.record(softmax=True) as recording:
        scores.softmax(dim=3)
        scores.softmax(dim=1)  # over heads: no attention
    torch.testing.assert_close(recording.trace().all_weights(0), scores[0].softmax(-1), atol=1e-6, rtol=0)
    assert len(recording.calls) == 1


class Attends(nn.Module):
    """Attention of the first text on the second."""

    def forward(self, x: Tensor, memory: Tensor, *, is_causal: bool = False) -> Tensor:
        return F.scaled_dot_product_attention(x, memory, memory, is_causal=is_causal)


def test_that_stacks_are_told_by_lengths_and_where_these_are_equal_by_masks_and_names() -> None:
    short, long = numbers(1, 2, 3, 4), numbers(1, 2, 5, 4, seed=1)
    with attnscope.record() as recording:
        for queries, keys in ((long, long), (short, short), (short, long), (long, short)):
            F.scaled_dot_product_attention(queries, keys, keys)
    assert [site.stack for site in recording.trace().sites] == ["encoder", "decoder", "cross", "back"]
    names = ("reading", "decoder", "cross_attention", "third")
    parts = nn.ModuleDict({name: Attends() for name in names})
    other = numbers(1, 2, 5, 4, seed=2)
    with attnscope.record(parts) as recording:
        parts["reading"](long, long)
        parts["decoder"](other, other)
        parts["cross_attention"](other, long)
        parts["third"](other, other, is_causal=True)
    found = {name: key[0] for key, name in recording.trace().recorded.site_names}
    assert found == dict(zip(names, ("encoder", "decoder", "cross", "decoder"), strict=True))


def test_that_a_softmax_over_a_vocabulary_is_named_as_what_to_leave_out() -> None:
    attention, vocabulary = numbers(1, 1, 3, 3), numbers(1, 3, 9)
    with attnscope.record(softmax=True) as recording:
        attention.softmax(-1)
        vocabulary.softmax(-1)
    with pytest.raises(UserError, match="There are 3 tokens") as caught:
        recording.trace(["a", "b", "c"])
    assert "leave out what is not attention with calls=, such as: 1  " in caught.value.action
    assert "1 head, 3 × 9" in caught.value.action
    assert recording.trace(["a", "b", "c"], calls=[0]).source.text == "a b c"
    ids = torch.tensor([5, 6, 7])
    for given in (ids, ids.numpy()):  # what a person has at hand
        assert recording.trace(given, calls=[0]).source.text == "5 6 7"


@pytest.mark.parametrize("scale", [-1.5, 0.0, 40.0])
def test_that_a_causal_mask_stays_one_whatever_the_scale(scale: float) -> None:
    q, k, v = (numbers(1, 2, 5, 8, seed=seed) for seed in (4, 5, 6))
    seen = torch.ones(5, 5, dtype=torch.bool).tril()
    with attnscope.record() as recording:
        F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    trace = recording.trace()
    found = trace.all_weights(0).nan_to_num(0.0).double()
    slow = slow_weights(q[0], k[0], is_causal=True, scale=scale)
    torch.testing.assert_close(found, slow, atol=1e-4 if scale > 1 else 1e-6, rtol=0)
    assert trace.check().is_good

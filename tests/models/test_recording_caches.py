"""Texts written with caches of a fixed size and with softmaxes, against one eager pass; what is refused."""

import hf_tiny
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.errors import UserError

PROMPT = torch.arange(3, 9)[None]


def library_model(kind: str, implementation: str) -> nn.Module:
    torch.manual_seed(0)
    model = hf_tiny.build(kind)
    for weight in model.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.3)
    model.set_attn_implementation(implementation)
    return model


def whole_pass(model: nn.Module, ids: Tensor, source: Tensor | None = None) -> dict[tuple[str, int], Tensor]:
    """The library's own weights of one pass, by sites; 0 where not allowed."""
    model.set_attn_implementation("eager")
    options = {"output_attentions": True, "use_cache": False}
    if source is None:
        return {("decoder", n): w[0] for n, w in enumerate(model(input_ids=ids, **options).attentions)}
    out = model(input_ids=source, decoder_input_ids=ids, **options)
    stacks = {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions}
    stacks["cross"] = out.cross_attentions
    return {(stack, n): w[0] for stack, maps in stacks.items() for n, w in enumerate(maps)}


def assert_maps(trace: attnscope.Trace, expected: dict[tuple[str, int], Tensor]) -> None:
    assert {site.key for site in trace.sites} == set(expected)
    for key, theirs in expected.items():
        torch.testing.assert_close(trace.all_weights(key).nan_to_num(0.0), theirs, atol=2e-5, rtol=0)
    assert trace.check().is_good


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "implementation", "cache"),
    [
        ("llama", "sdpa", "static"),  # lays the heads of a group where queries stand
        ("gpt2", "eager", "static"),  # softmaxes of keys that are not written yet
        ("gpt2", "eager", None),
    ],
)
def test_that_every_cache_gives_the_maps_of_a_whole_pass(
    kind: str, implementation: str, cache: str | None
) -> None:
    model = library_model(kind, implementation)
    options = {} if cache is None else {"cache_implementation": cache}
    with attnscope.record(model, softmax=implementation == "eager") as recording:
        ids = model.generate(PROMPT, max_new_tokens=5, min_new_tokens=5, do_sample=False, **options)
    trace = recording.trace(ids[:, :-1])  # with its batch axis
    assert_maps(trace, whole_pass(model, ids[:, :-1]))


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "implementation", "options"),
    [
        ("mistral", "sdpa", {}),  # slides
        ("mistral", "sdpa", {"cache_implementation": "static"}),
        ("gemma2", "eager", {}),  # softmaxes that slide
        ("gemma3", "sdpa", {"cache_implementation": "static"}),  # one layer slides, one does not
        ("llama", "sdpa", {"num_beams": 3}),
        ("bart", "sdpa", {"num_beams": 3}),
        ("gpt2", "eager", {"num_beams": 3}),
    ],
)
def test_that_caches_that_slide_and_beams_are_refused_with_what_to_do(
    kind: str, implementation: str, options: dict[str, object]
) -> None:
    model, is_by_hand = library_model(kind, implementation), implementation == "eager"
    with attnscope.record(model, softmax=is_by_hand, row=0 if is_by_hand else None) as recording:
        model.generate(PROMPT, max_new_tokens=5, min_new_tokens=5, do_sample=False, **options)
    row = None if is_by_hand or "num_beams" not in options else 0
    with pytest.raises(UserError, match=r"lengths.*without beams or a sliding cache, or record one pass"):
        recording.trace(row=row)


@torch.no_grad()
def test_that_a_row_of_a_batch_may_be_chosen_afterwards() -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(3, 4, 8)
    with attnscope.record(layer) as recording:
        _, theirs = layer(x, x, x, average_attn_weights=False)
    assert "3 batch rows" in str(recording)
    for row in (0, 2, -1):
        torch.testing.assert_close(recording.trace(row=row).all_weights(0), theirs[row])
    with pytest.raises(UserError, match=r"3 batch rows at once.*row=0"):
        recording.trace()
    with pytest.raises(UserError, match=r"3 batch rows; there is no row 3\. Expected: 0 to 2"):
        recording.trace(row=3)
    with attnscope.record(layer) as recording:
        layer(*[torch.randn(17, 4, 8)] * 3)
    with pytest.raises(UserError, match="17 batch rows at once"):
        recording.trace(row=0)


class Reader(nn.Module):
    """Attention written by hand that reads a memory, one query at a time; with `keys` its own past."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Linear(4, 4)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return F.softmax(self.attention(query) @ keys.T, dim=-1) @ keys


@torch.no_grad()
def test_that_one_query_at_a_time_makes_the_rows_of_a_map() -> None:
    attention, memory, queries = nn.ModuleDict({"attention": Reader()}), torch.randn(6, 4), torch.randn(3, 4)
    reader = attention["attention"]
    expected = (reader.attention(queries).double() @ memory.double().T).softmax(dim=-1)
    with attnscope.record(attention, softmax=True) as recording:
        for query in queries:
            reader(query[None], memory)
    trace = recording.trace(list("abcdef"), ["x", "y", "z"])
    assert [site.key for site in trace.sites] == [("cross", 0)]
    torch.testing.assert_close(trace.all_weights(0)[0].double(), expected, atol=1e-6, rtol=0)
    with pytest.raises(UserError, match="There are 2 tokens in `target`"):
        recording.trace(list("abcdef"), ["x", "y"])  # three calls are no two rows
    with attnscope.record(attention, softmax=True) as recording:
        for n in range(1, 5):
            reader(memory[n - 1 : n], memory[:n])
    own = recording.trace(list("abcd")).all_weights(0)[0]
    scores = reader.attention(memory[:4]).double() @ memory[:4].double().T
    later = torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
    torch.testing.assert_close(own.nan_to_num(0.0).double(), expected, atol=1e-6, rtol=0)
    assert torch.equal(own.isnan(), later)


@torch.no_grad()
def test_that_softmaxes_whose_counts_do_not_fit_stay_apart() -> None:
    model = nn.Softmax(dim=-1)
    for sizes in (
        ((3, 3), (1, 4), (1, 5)),  # the first one looks ahead: it wrote nothing
        ((3, 3), (1, 3), (1, 3)),  # another text of three keys
        ((1, 1), (1, 2), (1, 4)),
    ):
        with attnscope.record(model, softmax=True) as recording:
            for n_queries, n_keys in sizes:
                model(torch.zeros(1, 2, n_queries, n_keys))
        with pytest.raises(UserError, match="calls="):
            recording.trace(list("abcd"))


@torch.no_grad()
@pytest.mark.parametrize("is_zeroed", [True, False])
def test_that_keys_left_in_a_cache_by_a_former_text_are_not_of_this_one(is_zeroed: bool) -> None:
    keys, x = torch.zeros(1, 2, 12, 4), torch.randn(1, 2, 6, 4)
    if not is_zeroed:
        keys += 7.0
    model = nn.Module()
    model.forward = lambda part, start: F.scaled_dot_product_attention(
        part,
        keys.index_copy_(2, torch.arange(start, start + part.shape[2]), part),
        keys,
        attn_mask=(torch.arange(12) <= torch.arange(start, start + part.shape[2])[:, None]),
    )
    with attnscope.record(model) as recording:
        for start, n in ((0, 3), (3, 1), (4, 2)):
            model(x[:, :, start : start + n], start)
    scores = (x[0].double() @ x[0].double().transpose(1, 2)) / 2.0
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
    found = recording.trace(list("abcdef")).all_weights(0)
    assert torch.equal(found.isnan(), later.expand(2, 6, 6))
    torch.testing.assert_close(found.nan_to_num(0.0).double(), expected, atol=1e-6, rtol=0)


def test_that_tokens_may_have_a_batch_axis_of_one_and_no_more() -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 3, 8)
    with attnscope.record(layer) as recording:
        layer(x, x, x)
    ids = torch.tensor([[5, 6, 7]])
    for given in (ids, ids.numpy(), ids[0], ids.tolist(), [["a", "b", "c"]]):
        assert len(recording.trace(given).source) == 3
    with pytest.raises(UserError, match=r"of 2 texts.*\[T\] or \[1, T\].*ids\[0\]"):
        recording.trace(ids.repeat(2, 1))
    with pytest.raises(UserError, match=r"type dict.*input_ids"):
        recording.trace({"input_ids": ids})
    with pytest.raises(UserError, match="type int"):
        recording.trace(5)

"""Attention whose heads stand on other axes than the second, and what a recording says it has not seen."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import attnscope
from attnscope.errors import UserError

N_HEADS, N_GROUPS, WIDTH, N_TOKENS = 4, 2, 3, 6
D_MODEL = N_HEADS * WIDTH


class Own(nn.Module):
    """Causal attention written by `attend`; keys are shared by groups of heads where `n_kv_heads` says so."""

    def __init__(
        self, attend: Callable[..., Tensor], *, n_kv_heads: int = N_HEADS, told: int | None = N_HEADS
    ) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.attend, self.n_kv_heads = attend, n_kv_heads
        self.to_q, self.to_k = (nn.Linear(D_MODEL, n * WIDTH) for n in (N_HEADS, n_kv_heads))
        if told is not None:
            self.num_heads = told

    def forward(self, x: Tensor) -> Tensor:
        q, k = (
            f(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2) for f in (self.to_q, self.to_k)
        )  # [batch, heads, tokens, width]
        return self.attend(q, k)


def text(n_rows: int = 2, n_tokens: int = N_TOKENS) -> Tensor:
    return torch.randn(n_rows, n_tokens, D_MODEL, generator=torch.Generator().manual_seed(n_rows + n_tokens))


@torch.no_grad()
def slow(model: Own, x: Tensor) -> Tensor:
    """The causal weights of one text, head by head, row by row: [n_heads, n_tokens, n_tokens]."""
    q = x.double() @ model.to_q.weight.T.double() + model.to_q.bias.double()
    k = x.double() @ model.to_k.weight.T.double() + model.to_k.bias.double()
    found = torch.zeros(N_HEADS, len(x), len(x), dtype=torch.float64)
    for head in range(N_HEADS):
        own = head * model.n_kv_heads // N_HEADS
        for i in range(len(x)):
            scores = [
                float(q[i, head * WIDTH : (head + 1) * WIDTH] @ k[j, own * WIDTH : (own + 1) * WIDTH])
                for j in range(i + 1)
            ]
            exps = [math.exp(score / WIDTH**0.5) for score in scores]
            found[head, i, : i + 1] = torch.tensor(exps, dtype=torch.float64) / sum(exps)
    return found


def causal(scores: Tensor, queries: int = -2) -> Tensor:
    """The softmax of scores whose queries stand at `queries` and whose keys are last."""
    n = scores.shape[-1]
    seen = torch.ones(n, n).tril().bool()
    return scores.masked_fill(~(seen[:, None] if queries == -3 else seen), -math.inf).softmax(dim=-1)


def queries_first(q: Tensor, k: Tensor) -> Tensor:
    return causal(torch.einsum("bhqd,bhkd->bqhk", q, k) / WIDTH**0.5, queries=-3)


def queries_first_by_broadcasting(q: Tensor, k: Tensor) -> Tensor:
    """Made by no product, so that nothing tells which axis is which."""
    scores = (q.transpose(1, 2)[:, :, :, None] * k[:, None]).sum(dim=-1)
    return causal(scores / WIDTH**0.5, queries=-3)


def grouped(q: Tensor, k: Tensor) -> Tensor:
    q = q.unflatten(1, (-1, N_GROUPS))
    return causal(torch.einsum("bhgqd,bhkd->bhgqk", q, k) / WIDTH**0.5)


def grouped_and_fused(q: Tensor, k: Tensor) -> Tensor:
    k = k[:, :, None]
    return F.scaled_dot_product_attention(q.unflatten(1, (-1, N_GROUPS)), k, k, is_causal=True)


def grouped_with_a_mask_of_each_head(q: Tensor, k: Tensor) -> Tensor:
    n = q.shape[2]
    mask = torch.ones(N_HEADS // N_GROUPS, N_GROUPS, n, n).tril().bool()
    k = k[:, :, None].expand(-1, -1, N_GROUPS, -1, -1)
    return F.scaled_dot_product_attention(q.unflatten(1, (-1, N_GROUPS)), k, k, attn_mask=mask)


def weights_of(recording: attnscope.Recording, row: int | None = None) -> Tensor:
    trace = recording.trace(list("abcdef"), row=row)
    (site,) = trace.kept.sites
    return trace.all_weights(site).nan_to_num(0.0).double()


@pytest.mark.parametrize("told_as", ["module", "argument"])
@pytest.mark.parametrize("n_rows", [1, 2])
@pytest.mark.parametrize(
    ("attend", "n_kv_heads"),
    [
        (queries_first, N_HEADS),
        (grouped, N_GROUPS),
        (grouped_and_fused, N_GROUPS),
        (grouped_with_a_mask_of_each_head, N_GROUPS),
    ],
)
def test_that_heads_are_found_on_whichever_axes_they_stand(
    attend: Callable[..., Tensor], n_kv_heads: int, n_rows: int, told_as: str
) -> None:
    model = Own(attend, n_kv_heads=n_kv_heads, told=N_HEADS if told_as == "module" else None)
    heads = N_HEADS if told_as == "argument" else None
    with attnscope.record(model, softmax=True, heads=heads) as recording:
        model(text(n_rows))
    for row in range(n_rows):
        found = weights_of(recording, row if n_rows > 1 else None)
        torch.testing.assert_close(found, slow(model, text(n_rows)[row]), atol=1e-6, rtol=0)


def test_that_windows_are_rows_of_the_batch_with_all_heads_in_each() -> None:
    def windows(q: Tensor, k: Tensor) -> Tensor:
        q, k = (x.unflatten(2, (3, 2)) for x in (q, k))
        return causal(q @ k.mT / WIDTH**0.5)

    model = Own(windows)
    with attnscope.record(model, softmax=True) as recording:
        model(text(1))
    found = recording.trace(["c", "d"], row=1).all_weights(0)
    torch.testing.assert_close(
        found.nan_to_num(0.0).double(), slow(model, text(1)[0, 2:4]), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    ("attend", "n_kv_heads", "told", "words"),
    [
        (
            queries_first_by_broadcasting,
            N_HEADS,
            None,
            r"6 heads and 4 queries, or the other way round.*heads=4",
        ),
        (grouped, N_GROUPS, None, r"5 axes, 1 × 2 × 2 × 6 × 6: neither the module.*heads=4"),
        (
            lambda q, k: (q.transpose(1, 2).flatten(1, 2) @ k[:, 0].mT).softmax(dim=-1),
            1,
            N_HEADS,
            "24 queries for a text of 6: the 4 heads",
        ),
    ],
    ids=["queries first", "groups", "heads among queries"],
)
def test_that_axes_which_nothing_tells_apart_are_asked_about(
    attend: Callable[..., Tensor], n_kv_heads: int, told: int | None, words: str
) -> None:
    model = Own(attend, n_kv_heads=n_kv_heads, told=told)
    with attnscope.record(model, softmax=True) as recording:
        model(text(1))
    with pytest.raises(UserError, match=words):
        recording.trace(list("abcdef"))


def as_batches(q: Tensor, k: Tensor) -> Tensor:
    q, k = (x.flatten(0, 1) for x in (q, k))
    scores = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.mT, alpha=WIDTH**-0.5)
    return causal(scores.view(-1, N_HEADS, *scores.shape[1:]))


def queries_first_of_tokens(q: Tensor, k: Tensor) -> Tensor:
    scores = torch.einsum("bqhd, bkhd -> bhqk", q.transpose(1, 2), k.transpose(1, 2)) / WIDTH**0.5
    scores = torch.cat([scores, scores.new_full((*scores.shape[:3], 1), -math.inf)], dim=-1)[..., :-1]
    return causal(scores.permute(0, 2, 1, 3).contiguous(), queries=-3)


@pytest.mark.parametrize("n_rows", [1, 2])
@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k: causal(q @ k.mT / WIDTH**0.5),
        lambda q, k: causal((q @ k.mT).swapaxes(1, 2).mul_(WIDTH**-0.5), queries=-3),
        queries_first,
        queries_first_of_tokens,
        as_batches,
    ],
    ids=["usual", "swapped", "einsum", "einsum swapped", "folded"],
)
def test_that_a_product_tells_heads_from_as_many_queries(attend: Callable[..., Tensor], n_rows: int) -> None:
    model = Own(attend)
    with attnscope.record(model, softmax=True) as recording:
        model(text(n_rows, N_HEADS))
    for row in range(n_rows):
        found = recording.trace(list("abcd"), row=row).all_weights(0).nan_to_num(0.0).double()
        torch.testing.assert_close(found, slow(model, text(n_rows, N_HEADS)[row]), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "attend",
    [
        queries_first_by_broadcasting,
        lambda q, k: causal(torch.einsum("bhqd,bkd->bqhk", q, k[:, 0]), queries=-3),
        lambda q, k: causal(q.transpose(1, 2) @ k[:, :1].mT, queries=-3),
    ],
    ids=["no product", "shared keys", "shared keys, broadcast"],
)
def test_that_as_many_heads_as_queries_are_asked_about_where_no_product_tells(
    attend: Callable[..., Tensor],
) -> None:
    model = Own(attend)
    with attnscope.record(model, softmax=True) as recording:
        model(text(1, N_HEADS))
    with pytest.raises(UserError, match=r"1 × 4 × 4 × 4 has as many heads as queries.*another text"):
        recording.trace(list("abcd"))


def test_that_queries_come_first_in_a_module_called_by_names_too() -> None:
    model = Own(queries_first, told=None)
    with attnscope.record(model, softmax=True) as recording:
        model(x=text(1))
    torch.testing.assert_close(weights_of(recording), slow(model, text(1)[0]), atol=1e-6, rtol=0)


class Fused(Own):
    def __init__(self) -> None:
        super().__init__(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        return x


class ToScript(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_that_a_recording_names_what_it_has_not_seen() -> None:
    by_hand = Own(lambda q, k: causal(q @ k.mT).new_zeros(2, N_TOKENS, D_MODEL))
    model = nn.Sequential(Fused(), by_hand, Fused())
    with attnscope.record(model) as recording:
        model(text())
    trace = recording.trace(row=0)
    assert trace.kept.sites[-1].layer == 1
    (told,) = trace.recorded.notes
    assert told == (
        "Not recorded: 1 (Own): a softmax written by hand, which attnscope.record(module, softmax=True) "
        "records."
    )
    assert told in repr(recording)
    assert not recording.trace(calls=[0], row=0).recorded.notes  # nobody asked for the others
    with attnscope.record(model, softmax=True) as whole:
        model(text())
    assert "Not recorded" not in repr(whole)

    scripted = nn.Sequential(Fused(), torch.jit.script(ToScript()))
    with attnscope.record(scripted) as recording:
        scripted(text(1))
    assert "Not recorded: 1 (ToScript, scripted)." in recording.trace().recorded.notes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_that_a_compiled_function_inside_a_module_is_recorded_as_it_was_written() -> None:
    compiled = torch.compile(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), backend="eager"
    )
    model = Own(compiled)
    with attnscope.record(model) as recording:
        model(text(1))
    torch.testing.assert_close(weights_of(recording), slow(model, text(1)[0]), atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_that_flex_attention_is_named_as_not_recorded() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    model = nn.Sequential(Fused(), Own(lambda q, k: flex_attention(q, k, k)))
    with torch.no_grad(), attnscope.record(model) as recording:
        model(text(1))
    assert (
        "Not recorded: 1 (Own): flex_attention, whose weights no call gives."
        in recording.trace().recorded.notes
    )


def test_that_fake_tensors_are_refused_and_do_not_break_the_module() -> None:
    with FakeTensorMode():
        model = Fused()
        with attnscope.record(model) as recording:
            model(torch.zeros(1, N_TOKENS, D_MODEL))
    with pytest.raises(
        UserError, match="scaled_dot_product_attention was called with tensors without numbers"
    ):
        recording.trace()

"""Heads folded into the batch axis, as diffusers, fairseq and einops do: never taken for texts."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.errors import UserError

N_HEADS, D_MODEL, N_TOKENS = 4, 8, 5


class Folded(nn.Module):
    """Attention of `N_HEADS` heads whose weights are [batch · heads, n_queries, n_keys]."""

    def __init__(self, *, told_as: str = "", is_fused: bool = False, is_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.to_q, self.to_k, self.to_v = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(3))
        self.is_fused, self.is_first = is_fused, is_first  # [batch, tokens, d] or [tokens, batch, d]
        if told_as:
            setattr(self, told_as, N_HEADS)

    def fold(self, x: Tensor) -> Tensor:
        """To [batch · heads, tokens, d_head]: einops' `b n (h d) -> (b h) n d`."""
        if not self.is_first:
            return x.reshape(len(x), -1, D_MODEL // N_HEADS).transpose(0, 1)  # as fairseq does
        b, n, d = x.shape
        return x.reshape(b, n, N_HEADS, -1).permute(0, 2, 1, 3).reshape(b * N_HEADS, n, d // N_HEADS)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        seen = x if memory is None else memory
        q, k, v = self.fold(self.to_q(x)), self.fold(self.to_k(seen)), self.fold(self.to_v(seen))
        if self.is_fused:
            return F.scaled_dot_product_attention(q, k, v)
        scores = torch.baddbmm(q.new_zeros(len(q), q.shape[1], k.shape[1]), q, k.mT, alpha=q.shape[2] ** -0.5)
        return torch.bmm(scores.softmax(dim=-1), v)


class Inner(nn.Module):
    """The same with the softmax in a module of its own, which is given what is folded already."""

    def __init__(self) -> None:
        super().__init__()
        self.folded, self.softmax = Folded(), nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.folded.fold(self.folded.to_q(x)), self.folded.fold(self.folded.to_k(x))
        return self.softmax(q @ k.mT / q.shape[2] ** 0.5)


def slow(model: Folded, x: Tensor, memory: Tensor | None = None) -> Tensor:
    """The weights of one text, head by head, row by row: [n_heads, n_queries, n_keys]."""
    seen = x if memory is None else memory
    q, k = x.double() @ model.to_q.weight.T.double(), seen.double() @ model.to_k.weight.T.double()
    width = D_MODEL // N_HEADS
    found = torch.zeros(N_HEADS, len(q), len(k), dtype=torch.float64)
    for head in range(N_HEADS):
        own = slice(head * width, (head + 1) * width)
        for i in range(len(q)):
            scores = torch.stack([(q[i, own] * k[j, own]).sum() / width**0.5 for j in range(len(k))])
            found[head, i] = scores.exp() / scores.exp().sum()
    return found


def text(n_rows: int, n_tokens: int = N_TOKENS) -> Tensor:
    return torch.randn(n_rows, n_tokens, D_MODEL, generator=torch.Generator().manual_seed(n_rows + n_tokens))


@pytest.mark.slow
@pytest.mark.parametrize("is_fused", [False, True], ids=["softmax", "fused"])
@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("told_as", ["heads", "num_heads", "n_head", "nhead", ""])
def test_that_heads_folded_into_the_batch_are_heads(told_as: str, n_rows: int, is_fused: bool) -> None:
    model, x = Folded(told_as=told_as, is_fused=is_fused).eval(), text(n_rows)
    with attnscope.record(model, softmax=not is_fused) as recording:
        model(x)
    for row in range(n_rows):
        trace = recording.trace(list("abcde"), row=row)
        assert [(site.n_heads, site.stack) for site in trace.sites] == [(N_HEADS, "encoder")]
        torch.testing.assert_close(trace.all_weights(0).double(), slow(model, x[row]), atol=1e-6, rtol=0)
        told = " ".join(trace.recorded.notes)
        assert ("2 batch rows of 4 heads each, row by row" in told) == (n_rows == 2)
    if n_rows > 1:
        with pytest.raises(UserError, match=f"{n_rows} batch rows"):
            recording.trace()
    with attnscope.record(model, row=n_rows - 1, softmax=not is_fused) as recording:
        model(x)
    torch.testing.assert_close(
        recording.trace().all_weights(0).double(), slow(model, x[-1]), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_that_tokens_may_stand_before_the_batch(n_rows: int) -> None:
    x = text(n_rows)
    model = Folded(told_as="num_heads", is_first=False).eval()
    with attnscope.record(model, softmax=True) as recording:
        model(x.transpose(0, 1))
    trace = recording.trace(row=n_rows - 1)
    torch.testing.assert_close(trace.all_weights(0).double(), slow(model, x[-1]), atol=1e-6, rtol=0)


def test_that_cross_attention_with_keys_of_another_length_is_told_apart() -> None:
    model, x, memory = Folded(told_as="heads").eval(), text(2), text(2, 7)
    with attnscope.record(model, softmax=True) as recording:
        model(x, memory)
    trace = recording.trace(list("abcdefg"), list("vwxyz"), row=1)
    assert trace.sites[0].stack == "cross"
    found = trace.all_weights(0).double()
    torch.testing.assert_close(found, slow(model, x[1], memory[1]), atol=1e-6, rtol=0)


def test_that_a_mask_of_each_text_and_head_goes_with_its_row() -> None:
    class Masked(Folded):
        def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
            q, k, v = self.fold(self.to_q(x)), self.fold(self.to_k(x)), self.fold(self.to_v(x))
            return F.scaled_dot_product_attention(q, k, v, self.mask)

    for n_masks in (1, 2 * N_HEADS):
        model, x = Masked().eval(), text(2)
        model.mask = torch.rand(n_masks, 5, 5, generator=torch.Generator().manual_seed(1)) > 0.4
        model.mask |= torch.eye(5, dtype=torch.bool)
        with attnscope.record(model) as recording:
            model(x)
        found = recording.trace(row=1).all_weights(0)
        allowed = model.mask.expand(2 * N_HEADS, 5, 5)[N_HEADS:]
        assert torch.equal(~found.isnan(), allowed)
        full = slow(model, x[1]) * allowed
        wanted = full / full.sum(-1, keepdim=True)
        torch.testing.assert_close(found.nan_to_num(0.0).double(), wanted, atol=1e-6, rtol=0)


def test_that_the_batch_is_read_where_it_is_not_folded_yet() -> None:
    model, x = Inner().eval(), text(2)
    with attnscope.record(model, softmax=True) as recording:
        model(x)
    found = recording.trace(row=1).all_weights(0).double()
    torch.testing.assert_close(found, slow(model.folded, x[1]), atol=1e-6, rtol=0)


def test_that_one_head_of_several_texts_stays_one_head() -> None:
    class OneHead(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).softmax(dim=-1) @ x

    with attnscope.record(OneHead(), softmax=True) as recording:
        OneHead()(text(3))
    with attnscope.record(softmax=True) as recording:
        OneHead()(text(3))
    told = r"row=0.*Where the rows are heads: attnscope\.record\(module, heads="
    with pytest.raises(UserError, match=told):
        recording.trace()
    trace = recording.trace(row=2)
    assert trace.sites[0].n_heads == 1
    wanted = (text(3)[2] @ text(3)[2].mT).softmax(dim=-1)
    torch.testing.assert_close(trace.all_weights(0)[0], wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("row", [None, 0])
def test_that_nothing_is_guessed_where_nothing_says_how_many_heads_there_are(row: int | None) -> None:
    q = torch.randn(8, 5, 2, generator=torch.Generator().manual_seed(1))
    with attnscope.record(row=row) as recording:
        F.scaled_dot_product_attention(q, q, q)
    with pytest.raises(UserError, match="There are 8 maps of 5 × 5: batch rows, heads, or both") as refused:
        recording.trace()
    assert "heads=4" in str(refused.value)
    assert "row=" not in str(refused.value)
    wanted = (q @ q.mT / 2**0.5).softmax(dim=-1)
    for heads in (1, 2, 4, 8):
        with attnscope.record(row=-1, heads=heads) as recording:
            F.scaled_dot_product_attention(q, q, q)
        torch.testing.assert_close(recording.trace().all_weights(0), wanted[8 - heads :], atol=1e-6, rtol=0)
    with attnscope.record(heads=3) as recording:
        F.scaled_dot_product_attention(q, q, q)
    with pytest.raises(UserError, match="which are not batch rows of 3 heads"):
        recording.trace()


def test_that_a_module_that_contradicts_its_input_is_asked_about() -> None:
    class Outer(nn.Module):
        """Its `num_heads` is of something else."""

        def __init__(self) -> None:
            super().__init__()
            self.num_heads = 2
            self.folded = Folded()

        def forward(self, x: Tensor) -> Tensor:
            return self.folded(x)

    model, x = Outer().eval(), text(2)
    with attnscope.record(model, softmax=True) as recording:
        model(x)
    with pytest.raises(UserError, match="batch rows, heads, or both"):
        recording.trace()
    with attnscope.record(model, heads=N_HEADS, softmax=True) as recording:
        model(x)
    found = recording.trace(row=1).all_weights(0).double()
    torch.testing.assert_close(found, slow(model.folded, x[1]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("heads", [0, -1, True, 2.0, "4"])
def test_that_heads_are_a_number_from_1(heads: object) -> None:
    with pytest.raises(UserError, match="the number of heads, from 1"):
        attnscope.record(heads=heads)  # type: ignore[arg-type]

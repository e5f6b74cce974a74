"""Texts that were written token by token with kept keys and values: joined to the maps of a whole pass."""

from collections.abc import Sequence

import hf_tiny
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.errors import UserError
from attnscope.models.recording import SharedKeys
from attnscope.nn import RelativeBias

N_HEADS, D_HEAD = 2, 4
D_MODEL = N_HEADS * D_HEAD


class Attention(nn.Module):
    """Attention that keeps keys and values; `bias` is added to the scores of its newest queries."""

    def __init__(self, *, is_kept: bool = True, drift: float = 0.0) -> None:
        super().__init__()
        self.project = nn.Linear(D_MODEL, 3 * D_MODEL)
        self.is_kept, self.drift = is_kept, drift
        self.forget()

    def forget(self) -> None:
        self.keys = self.values = torch.zeros(1, N_HEADS, 0, D_HEAD)

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        q, k, v = (self._split(part) for part in self.project(x).chunk(3, dim=-1))
        if memory is not None:
            k, v = (self._split(part) for part in self.project(memory).chunk(3, dim=-1)[1:])
        elif self.is_kept:
            k, v = torch.cat([self.keys * (1 + self.drift), k], dim=2), torch.cat([self.values, v], dim=2)
            self.keys, self.values = k, v
        is_causal = memory is None and mask is None and q.shape[2] == k.shape[2]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        return x + out.transpose(1, 2).flatten(2)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (N_HEADS, D_HEAD)).transpose(1, 2)


class Decoder(nn.Module):
    """Layers of self-attention, each followed by one that reads a memory where there is one."""

    def __init__(self, n_layers: int = 3, **options: float) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.own = nn.ModuleList(Attention(**options) for _ in range(n_layers))
        self.other = nn.ModuleList(Attention() for _ in range(n_layers))
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.3, generator=generator)

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        for own, other in zip(self.own, self.other, strict=True):
            x = own(x, mask=mask)
            x = x if memory is None else other(x, memory)
        return x

    def forget(self) -> None:
        for layer in self.own:
            layer.forget()


def text(n: int, seed: int = 0) -> Tensor:
    return torch.randn(1, n, D_MODEL, generator=torch.Generator().manual_seed(seed))


def steps(model: nn.Module, x: Tensor, sizes: Sequence[int], memory: Tensor | None = None) -> None:
    model.forget()
    for part in x.split(list(sizes), dim=1):
        model(part, memory)


def assert_same_maps(found: attnscope.Trace, whole: attnscope.Trace) -> None:
    assert [site.key for site in found.sites] == [site.key for site in whole.sites]
    for site in found.sites:
        torch.testing.assert_close(
            found.all_weights(site), whole.all_weights(site), atol=1e-6, rtol=0, equal_nan=True
        )
    assert found.check().is_good


@torch.no_grad()
@pytest.mark.parametrize("sizes", [[5, 1, 1, 1], [1] * 8])
def test_that_a_text_written_step_by_step_has_the_maps_of_a_whole_pass(sizes: list[int]) -> None:
    model, x = Decoder(), text(8)
    with attnscope.record(model) as recording:
        steps(model, x, sizes)
    with attnscope.record(model) as at_once:
        steps(model, x, [8])
    tokens = list("abcdefgh")
    trace = recording.trace(tokens)
    assert_same_maps(trace, at_once.trace(tokens))
    assert [site.key for site in trace.sites] == [("decoder", layer) for layer in range(3)]
    assert trace.recorded.site_name(("decoder", 2)) == "own.2"
    assert trace.recorded.notes == (
        f"The text was generated in {len(sizes)} calls of the module, which are joined into one map.",
    )
    assert trace.records["decoder", 0].rule.is_causal  # a rule, no cells
    with pytest.raises(UserError, match="There are 9 tokens") as caught:
        recording.trace([*tokens, "i"])
    assert "last token that a model generates is never read" in caught.value.action


@torch.no_grad()
@pytest.mark.parametrize("n_source", [4, 6])  # as many source tokens as target tokens, too
def test_that_cross_attention_is_joined_query_below_query(n_source: int) -> None:
    model, x, memory = Decoder(2), text(6), text(n_source, seed=1)
    with attnscope.record(model) as recording:
        steps(model, x, [2, 1, 1, 1, 1], memory)
    with attnscope.record(model) as at_once:
        steps(model, x, [6], memory)
    trace = recording.trace([f"s{i}" for i in range(n_source)], [f"t{i}" for i in range(6)])
    cells = {site.key: trace.records[site.key].rule for site in trace.sites}
    assert [key for key, rule in cells.items() if rule.is_causal] == [("decoder", 0), ("decoder", 1)]
    assert [key for key, rule in cells.items() if rule.is_empty] == [("cross", 0), ("cross", 1)]
    whole = {call.name: call.record for call in at_once.calls}
    for key, name in trace.recorded.site_names:
        one = at_once.trace(calls=name).all_weights(0)
        torch.testing.assert_close(trace.all_weights(key), one, atol=1e-6, rtol=0, equal_nan=True)
        assert trace.records[key].n_queries == whole[name].n_queries == 6


@torch.no_grad()
def test_that_masks_and_numbers_of_each_call_stay_with_its_rows() -> None:
    n = 7
    cells = (torch.rand(n, n, generator=torch.Generator().manual_seed(5)) > 0.4).tril()
    cells.fill_diagonal_(True)
    distances = torch.arange(n)[:, None] - torch.arange(n)
    numbers = torch.randn(n, n, generator=torch.Generator().manual_seed(6))
    for mask in (
        cells,
        (-0.3 * distances).masked_fill(distances < 0, -torch.inf),
        numbers.masked_fill(~cells, -torch.inf),
        torch.ones(n, n, dtype=torch.bool).tril().triu(-2),
        torch.ones(n, n, dtype=torch.bool).tril() | (torch.arange(n) < 3),  # a prefix that sees itself
    ):
        model, x = Decoder(1), text(n)
        with attnscope.record(model) as recording:
            model(x[:, :3], mask=mask[:3, :3])
            for i in range(3, n):
                model(x[:, i : i + 1], mask=mask[i : i + 1, : i + 1])
        model.forget()
        with attnscope.record(model) as at_once:
            model(x, mask=mask)
        found, whole = recording.trace(), at_once.trace()
        torch.testing.assert_close(
            found.all_weights(0), whole.all_weights(0), atol=1e-6, rtol=0, equal_nan=True
        )
        assert found.head_tile("L0H1").weights == pytest.approx(found.weights(0, 1), abs=1e-6, nan_ok=True)
        assert found.check().is_good


@torch.no_grad()
def test_that_keys_may_differ_by_rounding_and_by_no_more() -> None:
    x = text(6)
    for drift, is_joined in ((1e-7, True), (1e-3, False)):
        model = Decoder(1, drift=drift)
        with attnscope.record(model) as recording:
            steps(model, x, [3, 1, 1, 1])
        if is_joined:
            assert recording.trace().records["decoder", 0].n_queries == 6
            assert recording.trace().check().is_good
        else:
            with pytest.raises(UserError, match=r"5 lengths \(1, 3, 4, 5, 6 tokens\)"):
                recording.trace()


@torch.no_grad()
def test_that_two_texts_one_after_the_other_are_refused_as_ever() -> None:
    model = Decoder(2)
    with attnscope.record(model) as recording:
        steps(model, text(6), [4, 1, 1])
        steps(model, text(6, seed=2), [3, 1, 1, 1])
    with pytest.raises(UserError, match=r"14 recorded calls have texts of 5 lengths.*calls="):
        recording.trace()
    assert len(recording.trace(calls=range(6)).sites) == 2
    with attnscope.record(model) as recording:
        steps(model, text(6), [4, 1, 1])
        steps(model, text(6), [6])
    with pytest.raises(UserError, match="texts of 4 lengths"):
        recording.trace()
    plain = Decoder(1, is_kept=False)
    with attnscope.record(plain) as recording:
        for n in (3, 4, 5):
            plain(text(n, seed=n))
    with pytest.raises(UserError, match=r"3 lengths \(3, 4, 5 tokens\)"):
        recording.trace()


@torch.no_grad()
def test_that_the_last_calls_alone_and_calls_that_were_left_out_join_nothing() -> None:
    model = Decoder(1)
    with attnscope.record(model) as recording:
        steps(model, text(8), [4, 1, 1, 1, 1])
    for calls in ([2, 3, 4], [0, 2, 3]):
        with pytest.raises(UserError, match="lengths"):
            recording.trace(calls=calls)
    assert recording.trace(calls=[0, 1, 2]).source.text == "0 1 2 3 4 5"


@torch.no_grad()
def test_that_too_many_numbers_of_their_own_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.models.recording.joining.DENSE_CELLS", 2 * 5 * 5 - 1)
    model, mask = Decoder(1), text(25).reshape(25, -1)[:5, :5]
    with attnscope.record(model) as recording:
        for i, part in enumerate(text(5).split(1, dim=1)):
            model(part, mask=mask[i : i + 1, : i + 1])
    with pytest.raises(UserError, match=r"own\.0 adds a number.*5 × 5 scores, written in 5 calls"):
        recording.trace()


@torch.no_grad()
@pytest.mark.parametrize("n_source", [1, 3])
def test_that_a_memory_read_anew_at_every_step_is_not_taken_for_written(n_source: int) -> None:
    """An encoder that runs at each step reads one text all over again."""
    model, encoder = Decoder(1), Decoder(1, is_kept=False)
    parts = nn.ModuleDict({"model": model, "encoder": encoder})
    with attnscope.record(parts) as recording:
        for part in text(4).split(1, dim=1):
            encoder(text(n_source, seed=9))
            model(part)
    with pytest.raises(UserError, match="4 lengths"):
        recording.trace()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_that_what_a_library_model_wrote_is_one_trace(kind: str) -> None:
    torch.manual_seed(0)
    model = hf_tiny.build(kind)
    for weight in model.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.1)
    model.set_attn_implementation("sdpa")
    with attnscope.record(model) as recording:
        ids = model.generate(
            torch.arange(3, 12)[None], max_new_tokens=6, min_new_tokens=6, do_sample=True, use_cache=True
        )
    with attnscope.record(model) as at_once:
        model(input_ids=ids[:, :-1], use_cache=False)
    assert ids.shape == (1, 15)
    assert_same_maps(recording.trace(ids[0, :-1]), at_once.trace(ids[0, :-1]))


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_that_a_translation_a_library_model_wrote_is_one_trace(kind: str) -> None:
    model = hf_tiny.build(kind)
    model.set_attn_implementation("sdpa")
    source = torch.arange(3, 9)[None]
    for n_new in (5, 6):
        with attnscope.record(model) as recording:
            ids = model.generate(
                source, max_new_tokens=n_new, min_new_tokens=n_new, do_sample=False, num_beams=1
            )
        with attnscope.record(model) as at_once:
            model(input_ids=source, decoder_input_ids=ids[:, :-1], use_cache=False)
        trace = recording.trace(source[0], ids[0, :-1])
        assert {site.stack for site in trace.sites} == {"encoder", "decoder", "cross"}
        bias = trace.records["decoder", 1].score.bias
        assert isinstance(bias, RelativeBias if kind == "t5" else type(None))
        for key, name in trace.recorded.site_names:
            one = at_once.trace(calls=name).all_weights(0)
            torch.testing.assert_close(trace.all_weights(key), one, atol=1e-6, rtol=0, equal_nan=True)
        assert trace.check().is_good


@torch.no_grad()
def test_that_keys_that_a_layer_projects_anew_at_each_step_are_joined_too() -> None:
    layer, x = nn.MultiheadAttention(256, 2, batch_first=True).eval(), torch.randn(1, 9, 256)
    later = torch.ones(9, 9, dtype=torch.bool).triu(1)
    with attnscope.record(layer) as recording:
        layer(x[:, :4], x[:, :4], x[:, :4], attn_mask=later[:4, :4])
        for i in range(4, 9):
            layer(x[:, i : i + 1], x[:, : i + 1], x[:, : i + 1])
    _, theirs = layer(x, x, x, attn_mask=later, average_attn_weights=False)
    trace = recording.trace()
    torch.testing.assert_close(trace.all_weights(0).nan_to_num(0.0), theirs[0], atol=1e-6, rtol=0)
    assert torch.equal(trace.all_weights(0).isnan(), later.expand(2, 9, 9))
    assert trace.check().is_good


@torch.no_grad()
def test_that_the_padding_of_a_batch_row_stays_not_allowed() -> None:
    model = hf_tiny.build("gpt2")
    model.set_attn_implementation("sdpa")
    ids = torch.arange(3, 9).repeat(2, 1)
    valid = torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])
    with attnscope.record(model, row=1) as recording:
        model.generate(ids, attention_mask=valid, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    found = recording.trace().all_weights(0)
    allowed = torch.ones(9, 9, dtype=torch.bool).tril()
    allowed[:, :2] = False
    assert torch.equal(found.isnan(), ~allowed.expand(4, 9, 9))


def test_that_joined_maps_are_kept_in_files_and_measured(tmp_path) -> None:
    model = Decoder(2)
    with torch.inference_mode(), attnscope.record(model) as recording:
        steps(model, text(6), [3, 1, 1, 1])
    trace = recording.trace(list("abcdef"))
    trace.save(tmp_path / "mine.safetensors")
    again = attnscope.load_trace(tmp_path / "mine.safetensors")
    assert_same_maps(again, trace)
    assert len(attnscope.measure(again)) == 4


def test_that_kept_keys_take_memory_once_and_are_never_written_over() -> None:
    keys, store = torch.randn(2, 40, 4), SharedKeys()
    views = [store.keep("layer", keys[:, :n].clone()) for n in range(10, 41)]
    assert all(torch.equal(view, keys[:, : view.shape[1]]) for view in views)
    memory = {view.untyped_storage().data_ptr(): view.untyped_storage().nbytes() for view in views}
    assert sum(memory.values()) < 4 * keys.numel() * 4
    other = keys[:, :25].clone()
    other[:, 20:] = 0.0
    assert torch.equal(store.keep("layer", other), other)
    assert torch.equal(views[-1], keys)

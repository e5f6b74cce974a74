"""Every mask, score and position of one attention against loops in float64, written from their papers."""

import math
import random

import pytest
import torch
from torch import Tensor

from attnscope.nn import KeyValueCache, ModelConfig, Transformer, attention, build_transformer, graph_mask

ATOL = 2e-5  # two layers' worth of float32 sums of at most 24 terms near 1
N = 13
TINY = {
    "vocab_size": 13,
    "d_model": 16,
    "n_layers": 1,
    "n_heads": 4,
    "n_kv_heads": 2,
    "d_ff": 24,
    "max_tokens": 24,
    "position": "none",
    "window": 3,
    "mask_block": 2,
    "random_blocks": 1,
    "prefix_tokens": 4,
    "n_buckets": 8,
    "max_distance": 6,
}
MASKS = ("full", "window", "dilated", "global", "bigbird", "prefix")
SCORES = ("scaled-dot", "dot", "general", "cosine", "gaussian", "additive", "kernel")
POSITIONS = ("none", "sinusoidal", "binary", "learned", "rotary", "t5", "alibi", "shaw")
VARIANTS = [
    *({"mask": mask} for mask in MASKS),
    *({"score": score} for score in SCORES),
    *({"position": position} for position in POSITIONS),
    {"mask": "bigbird", "global_tokens": 0},
    {"mask": "global", "global_tokens": 3, "score": "gaussian", "sigma": 0.7, "position": "rotary"},
    {"mask": "dilated", "dilation": 3, "score": "additive", "position": "alibi"},
    {"mask": "window", "score": "kernel", "position": "t5"},
    {"mask": "bigbird", "score": "cosine", "temperature": 0.3, "position": "t5"},
    {"mask": "window", "score": "general", "position": "shaw"},
    {"score": "general", "position": "rotary"},
    {"d_head": 6},
    {"d_head": 6, "score": "general", "position": "rotary"},
    {"d_head": 3, "score": "additive", "position": "t5"},
]


def is_allowed(config: ModelConfig, i: int, j: int) -> bool:
    """The definition of each mask, for one cell of a text read at once."""
    w, distance, is_causal = config.window, abs(i - j), config.form == "decoder"
    if config.mask == "prefix":
        return j < config.prefix_tokens or j <= i
    if is_causal and j > i:
        return False
    n_global = config.global_tokens if config.mask in ("global", "bigbird") else 0
    if config.mask == "full" or i < n_global or j < n_global:
        return True
    if config.mask == "dilated":
        return distance % config.dilation == 0 and distance // config.dilation <= w
    if distance <= w:
        return True
    if config.mask != "bigbird":
        return False
    block = config.mask_block
    if config.random_links == "each":
        return j // block in drawn_blocks(config, i // block)
    late, early = max(i, j) // block, min(i, j) // block
    return early in linked_blocks(config, late)


def drawn_blocks(config: ModelConfig, number: int) -> list[int]:
    """The blocks that a query block sees: earlier ones, and the rest of the next later ones."""
    earlier, draws = linked_blocks(config, number), random.Random(f"{config.mask_seed} {number}")
    near, first = (
        math.ceil(config.window / config.mask_block),
        math.ceil(config.global_tokens / config.mask_block),
    )
    after = max(first, number + near + 1)
    left = list(range(after, after + 2 * config.random_blocks))
    n_later = config.random_blocks - len(earlier)
    return earlier + [left.pop(int(draws.random() * len(left))) for _ in range(n_later)]


def linked_blocks(config: ModelConfig, number: int) -> list[int]:
    """Different blocks drawn one after the other from those that are neither global nor near."""
    block, draws = config.mask_block, random.Random(config.mask_seed * 1_000_003 + number)
    left = list(range(math.ceil(config.global_tokens / block), number - math.ceil(config.window / block)))
    return [left.pop(int(draws.random() * len(left))) for _ in range(min(config.random_blocks, len(left)))]


def slow_score(config: ModelConfig, site: object, q: Tensor, k: Tensor, head: int) -> Tensor:
    scoring, d = site.scoring, config.head_width
    match config.score:
        case "scaled-dot":
            return q @ k / math.sqrt(d)
        case "dot":
            return q @ k
        case "general":
            return q @ scoring.bilinear[head].double() @ k
        case "cosine":
            return q @ k / (q.norm() * k.norm()) / config.temperature
        case "gaussian":
            sigma = d**0.25 if config.sigma is None else config.sigma
            return -((q - k) ** 2).sum() / (2 * sigma**2)
        case "additive":
            return scoring.vector[head].double() @ torch.tanh(q + k)
        case "kernel":
            return torch.log((torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1))
    raise ValueError(config.score)


def slow_bias(model: Transformer, q: Tensor, head: int, i: int, j: int) -> Tensor | float:
    config = model.config
    match config.position:
        case "alibi":
            return -(2.0 ** (-8 * (head + 1) / config.n_heads)) * abs(i - j)
        case "t5":
            is_causal = config.form == "decoder"
            table = model.decoder_relative if is_causal else model.encoder_relative
            return table.weight[slow_bucket(j - i, config, is_causal), head].double()
        case "shaw":
            site = (model.decoder or model.encoder)[0].attention
            reach = config.max_distance
            vector = site.scoring.offsets[max(-reach, min(reach, j - i)) + reach].double()
            scale = 1 / math.sqrt(config.head_width) if config.score == "scaled-dot" else 1.0
            if config.score == "general":
                q = q @ site.scoring.bilinear[head].double()
            return scale * (q @ vector)
    return 0.0


def slow_bucket(distance: int, config: ModelConfig, is_causal: bool) -> int:
    n, first = config.n_buckets, 0
    if not is_causal:
        n //= 2
        first = n if distance > 0 else 0
    away = max(0, -distance) if is_causal else abs(distance)
    if away < n // 2:
        return first + away
    share = math.log(away / (n // 2)) / math.log(config.max_distance / (n // 2))
    return first + min(n - 1, n // 2 + math.floor(share * (n - n // 2) + 1e-9))


def turned(x: Tensor, place: int, base: float) -> Tensor:
    half = len(x) // 2
    z = torch.complex(x[:half], x[half:])
    angle = place / base ** (torch.arange(half, dtype=torch.float64) / half)
    z = z * torch.polar(torch.ones(half, dtype=torch.float64), angle)
    return torch.cat((z.real, z.imag))


def slow_attention(model: Transformer, x: Tensor) -> tuple[Tensor, Tensor]:
    """What the first layer's attention adds to a stream [T, d_model], and its weights, cell by cell."""
    config, block = model.config, (model.decoder or model.encoder)[0]
    site, d = block.attention, config.head_width
    rows = torch.nn.functional.linear(x, site.qkv.weight.double(), site.qkv.bias.double()).unflatten(
        -1, (-1, d)
    )
    n_heads, n_kv = config.n_heads, config.kv_heads
    weights = torch.zeros(n_heads, len(x), len(x), dtype=torch.float64)
    outs = []
    for head in range(n_heads):
        kv = head // (n_heads // n_kv)
        for i in range(len(x)):
            found = {}
            for j in (j for j in range(len(x)) if is_allowed(config, i, j)):
                q, k = rows[i, head], rows[j, n_heads + kv]
                if config.position == "rotary":
                    if config.score == "general":  # the matrix comes before the turn
                        q = q @ site.scoring.bilinear[head].double()
                        found[j] = turned(q, i, config.rope_base) @ turned(k, j, config.rope_base)
                        continue
                    q, k = turned(q, i, config.rope_base), turned(k, j, config.rope_base)
                found[j] = slow_score(config, site, q, k, head) + slow_bias(model, q, head, i, j)
            top = torch.softmax(torch.stack(list(found.values())), dim=0)
            weights[head, i, list(found)] = top
    values = rows[:, n_heads + n_kv :]
    outs = [weights[head] @ values[:, head // (n_heads // n_kv)] for head in range(n_heads)]
    out = torch.nn.functional.linear(
        torch.cat(outs, dim=-1), site.output.weight.double(), site.output.bias.double()
    )
    return out, weights


class Looker:
    """Keeps the one record."""

    def gate(self, site):
        return None

    def edits(self, site):
        return None

    def wants(self, site):
        return True

    def record(self, site, call, **facts):
        self.call, self.facts = call, facts


def forms_of(variant: dict) -> tuple[str, ...]:
    return ("decoder",) if variant.get("mask") == "prefix" else ("encoder", "decoder")


CASES = [(form, variant) for variant in VARIANTS for form in forms_of(variant)]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "variant"), CASES, ids=str)
@torch.no_grad()
def test_that_an_attention_is_what_its_paper_says(form, variant, fill_with_ramp, assert_close):
    model = Transformer(ModelConfig.from_dict({**TINY, "form": form, **variant})).eval()
    fill_with_ramp(model)
    ids = (torch.arange(2 * N).reshape(2, N) * 7 + 3) % 13
    read = model.decode if form == "decoder" else model.encode
    block, seen = (model.decoder or model.encoder)[0], []
    handle = block.attention.register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    looker = Looker()
    read(ids)
    read(ids, probe=looker)
    handle.remove()
    (x, plain), (_, recorded) = seen
    expected, weights = slow_attention(model, x[1].double())
    assert_close(plain[1], expected, atol=ATOL)
    assert_close(recorded[1], expected, atol=ATOL)
    assert_close(recorded_weights(looker)[1], weights, atol=2e-6)


def recorded_weights(looker: Looker) -> Tensor:
    call = looker.call
    s = attention.scores_of(call.q, call.k, rule=call.rule, score=call.score)
    return (s - looker.facts["lse"][..., None]).exp()


@pytest.mark.slow
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.get("mask") != "prefix"], ids=str)
@torch.no_grad()
def test_that_a_text_read_in_parts_is_a_text_read_at_once(variant, fill_with_ramp, assert_close):
    model = Transformer(ModelConfig.from_dict({**TINY, "form": "decoder", "n_layers": 2, **variant})).eval()
    fill_with_ramp(model)
    ids = torch.arange(21)[None] % 13
    cache = KeyValueCache()
    parts = [model.decode(part, cache=cache) for part in ids.split([4, 1, 1, 5, 1, 9], dim=1)]
    assert_close(torch.cat(parts, dim=1), model.decode(ids), atol=ATOL)


def test_that_a_text_with_a_prefix_or_a_given_mask_is_not_read_in_parts():
    ids = torch.tensor([[1, 2, 3]])
    prefixed = build_transformer(ModelConfig.from_dict({**TINY, "form": "decoder", "mask": "prefix"}), 0)
    plain = build_transformer(ModelConfig.from_dict({**TINY, "form": "decoder"}), 0)
    assert (prefixed.can_cache, plain.can_cache) == (False, True)
    for call in (
        lambda: prefixed.decode(ids, cache=KeyValueCache()),
        lambda: plain.decode(ids, cache=KeyValueCache(), prefix=torch.tensor([2])),
        lambda: plain.decode(ids, cache=KeyValueCache(), pattern=graph_mask([(0, 1)], 3)),
    ):
        with pytest.raises(ValueError, match="read at once"):
            call()


@torch.no_grad()
def test_that_each_text_may_have_a_prefix_of_its_own(fill_with_ramp, assert_close):
    given = Transformer(ModelConfig.from_dict({**TINY, "form": "decoder"})).eval()
    fixed = Transformer(ModelConfig.from_dict({**TINY, "form": "decoder", "mask": "prefix"})).eval()
    fill_with_ramp(given)
    fixed.load_state_dict(given.state_dict())
    ids = (torch.arange(2 * N).reshape(2, N) * 5 + 1) % 13
    found = given.decode(ids, prefix=torch.tensor([4, 1]))
    assert_close(found[0], fixed.decode(ids)[0], atol=ATOL)
    assert_close(found[1], given.decode(ids)[1], atol=ATOL)


@torch.no_grad()
def test_that_a_graph_of_single_nodes_is_each_node_alone(fill_with_ramp, assert_close):
    model = Transformer(ModelConfig.from_dict({**TINY, "form": "encoder"})).eval()
    fill_with_ramp(model)
    ids = torch.tensor([[5, 2, 9, 7]])
    found = model.encode(ids, pattern=graph_mask([], 4))
    alone = torch.cat([model.encode(ids[:, i : i + 1]) for i in range(4)], dim=1)
    assert_close(found, alone, atol=ATOL)
    pairs = model.encode(ids, pattern=graph_mask([(0, 1), (2, 3)], 4))
    assert_close(pairs[:, :2], model.encode(ids[:, :2]), atol=ATOL)


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("mask", ["global", "bigbird"])
@pytest.mark.parametrize("has_lse", [False, True])
@torch.no_grad()
def test_that_keys_picked_out_for_long_texts_change_nothing(
    form, mask, has_lse, fill_with_ramp, assert_close, monkeypatch
):
    sizes = {"max_tokens": 60, "window": 2, "n_layers": 2}
    model = Transformer(ModelConfig.from_dict({**TINY, "form": form, "mask": mask, **sizes})).eval()
    fill_with_ramp(model)
    ids = torch.arange(60)[None] * 3 % 13
    read = model.decode if form == "decoder" else model.encode
    valid = (torch.arange(60) % 9 != 4)[None]
    probe = Looker() if has_lse else None
    expected = read(ids, valid=valid, probe=probe)
    lse = probe.facts["lse"] if probe else None
    monkeypatch.setattr(attention, "_LEAST_GATHERED", 1)
    monkeypatch.setattr(attention, "_GATHERED_ROWS", 4)
    picked = []
    columns = attention.Sparse.columns

    def spy(self, rows, n_keys):
        picked.append(columns(self, rows, n_keys))
        return picked[-1]

    monkeypatch.setattr(attention.Sparse, "columns", spy)
    assert_close(read(ids, valid=valid, probe=probe), expected, atol=ATOL)
    assert any(found is not None and len(found) < 20 for found in picked)
    if probe:
        assert_close(probe.facts["lse"], lse, atol=ATOL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "variant"),
    [*CASES, *(("encoder-decoder", v) for v in VARIANTS if v.get("mask") != "prefix")],
    ids=str,
)
def test_that_every_parameter_of_every_variant_learns(form, variant):
    model = build_transformer(ModelConfig.from_dict({**TINY, "form": form, **variant}), seed=1)
    ids = (torch.arange(2 * N).reshape(2, N) * 7 + 3) % 13
    target = {"target_ids": ids[:, :9]} if form == "encoder-decoder" else {}
    valid = torch.arange(N)[None] < torch.tensor([[N], [N - 4]])
    model(ids, valid=valid, **target).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
    learned = [n for n, p in model.named_parameters() if "relative" in n or "scoring" in n]
    assert all(float(model.get_parameter(name).grad.abs().sum()) > 0 for name in learned)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.get("mask") != "prefix"], ids=str)
@torch.no_grad()
def test_that_padding_on_the_right_changes_no_token(variant, fill_with_ramp, assert_close):
    model = Transformer(ModelConfig.from_dict({**TINY, "form": "encoder", **variant})).eval()
    fill_with_ramp(model)
    ids = torch.arange(9)[None]
    padded = torch.cat((ids, torch.zeros(1, 8, dtype=torch.int64)), dim=1)
    found = model.encode(padded, valid=torch.arange(17)[None] < 9)
    assert_close(found[:, :9], model.encode(ids), atol=ATOL)

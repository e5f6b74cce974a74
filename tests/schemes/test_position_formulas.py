"""The formula of every position scheme, written out in float64 as shown, against what a model computes."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from slow_site import filled, seen_and_slow

from attnscope.analysis import position_checks, position_tables
from attnscope.figures import parse_formula
from attnscope.nn import ModelConfig, Transformer
from attnscope.schemes.positions import POSITIONS

N, D, HEADS, REACH, BUCKETS = 11, 16, 4, 6, 8
SIZES = {
    "vocab_size": 13, "d_model": D, "n_layers": 1, "n_heads": HEADS, "d_ff": 10, "max_tokens": N,
    "max_distance": REACH, "n_buckets": BUCKETS, "norm_place": "post",
}  # fmt: skip
WIDTH = D // HEADS


def site_of(model: Transformer):
    return (model.decoder or model.encoder)[0].attention.scoring


def bias_of(model: Transformer):
    return model.decoder_relative or model.encoder_relative


# x_t = e_t + …: what stands beside the token's embedding e_t, number by number.


def sinusoidal(_model: Transformer, t: int, column: int) -> float:
    i = column // 2
    angle = t / 10000 ** (2 * i / D)
    return math.cos(angle) if column % 2 else math.sin(angle)


def learned(model: Transformer, t: int, column: int) -> float:
    embedding = model.decoder_embedding or model.encoder_embedding
    return float(embedding.positions.weight[t, column])


def binary(_model: Transformer, t: int, i: int) -> float:
    return math.floor(t / 2**i) % 2


def nothing(_model: Transformer, _t: int, _column: int) -> float:
    return 0.0


# s_ij, before it is divided by √d, or what it becomes once a bias is added.


def plain(_model, q, k, _head, _i, _j):
    return q @ k / math.sqrt(WIDTH)


def rotary(model, q, k, _head, i, j):
    """q·R_(j−i) k: pair n is the columns n and n + d/2."""
    turned, half = k.clone(), WIDTH // 2
    for n in range(half):
        angle = (j - i) * model.config.rope_base ** (-2 * n / WIDTH)
        turned[n] = k[n] * math.cos(angle) - k[n + half] * math.sin(angle)
        turned[n + half] = k[n] * math.sin(angle) + k[n + half] * math.cos(angle)
    return q @ turned / math.sqrt(WIDTH)


def alibi(model, q, k, head, i, j):
    return plain(model, q, k, head, i, j) - 2.0 ** (-8 * (head + 1) / HEADS) * abs(i - j)


def t5(model, q, k, head, i, j):
    return plain(model, q, k, head, i, j) + float(bias_of(model).weight[bucket(model, j - i), head])


def bucket(model: Transformer, ahead: int) -> int:
    n, first = BUCKETS, 0
    if model.config.form == "encoder":
        n //= 2
        first = n if ahead > 0 else 0
    away = abs(ahead) if model.config.form == "encoder" else max(0, -ahead)
    if away < n // 2:
        return first + away
    share = math.log(away / (n // 2)) / math.log(REACH / (n // 2))
    return first + min(n - 1, n // 2 + math.floor(share * (n - n // 2) + 1e-9))


def kerple(model, q, k, head, i, j):
    r1, r2 = (math.exp(float(getattr(bias_of(model), name)[head])) for name in ("log_r1", "log_r2"))
    return plain(model, q, k, head, i, j) - r1 * math.log(1 + r2 * abs(i - j))


def shaw(model, q, k, _head, i, j):
    away = max(-REACH, min(REACH, j - i))
    return q @ (k + site_of(model).offsets[away + REACH].double()) / math.sqrt(WIDTH)


def transformer_xl(model, q, k, head, i, j):
    site, away = site_of(model), max(-REACH, min(REACH, i - j))
    angles = [away / 10000 ** (2 * n / D) for n in range(D // 2)]
    r = torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)
    u, v, w = (getattr(site, name)[head].double() for name in ("u", "v", "relative"))
    return ((q + u) @ k + (q + v) @ (w @ r)) / math.sqrt(WIDTH)


ADDED: dict[str, Callable] = {
    "sinusoidal": sinusoidal, "learned": learned, "binary": binary, "none": nothing
}  # fmt: skip
SCORED: dict[str, Callable] = {
    "rotary": rotary, "alibi": alibi, "t5": t5, "kerple": kerple, "shaw": shaw,
    "transformer-xl": transformer_xl,
}  # fmt: skip
ELSEWHERE = {"tree": "test_tree_paths.py"}
"""Schemes whose slow version stands in a test of their own."""


def test_that_every_scheme_has_a_formula_a_source_and_a_slow_version_here() -> None:
    assert {*ADDED} | {*SCORED} | {*ELSEWHERE} == {*POSITIONS}
    assert all((Path(__file__).parent / name).is_file() for name in ELSEWHERE.values())
    for scheme in POSITIONS.values():
        assert scheme.formula, scheme.name
        assert scheme.source, scheme.name
        assert all(parse_formula(part).parts for part in scheme.formula.split(",   "))
        has_score = "s_ij" in scheme.formula
        assert has_score == (scheme.name in SCORED), scheme.name


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("name", ADDED)
def test_that_what_is_added_to_an_embedding_is_the_formula(name: str, form: str) -> None:
    model = filled(ModelConfig.from_dict({**SIZES, "form": form, "position": name})).requires_grad_(False)
    ids = torch.arange(N)[None] % 13
    seen: list[torch.Tensor] = []
    block = (model.decoder or model.encoder)[0]
    handle = block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        (model.decode if model.decoder else model.encode)(ids)
    handle.remove()
    added = seen[0][0].double() - model.tokens.weight[ids[0]].double()
    expected = [[ADDED[name](model, t, column) for column in range(D)] for t in range(N)]
    torch.testing.assert_close(added, torch.tensor(expected, dtype=torch.float64), atol=1e-5, rtol=0)


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("name", SCORED)
def test_that_attention_is_that_of_the_formula(name: str, form: str) -> None:
    model = filled(ModelConfig.from_dict({**SIZES, "form": form, "position": name})).requires_grad_(False)

    def slow(q, k, head, i, j):
        return SCORED[name](model, q, k, head, i, j)

    found, expected = seen_and_slow(model, torch.arange(N)[None] % 13, slow)
    torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=0)

    def without(q, k, head, i, j):
        return plain(model, q, k, head, i, j)

    _, other = seen_and_slow(model, torch.arange(N)[None] % 13, without)
    assert (other - expected).abs().max() > 1e-2, "a scheme that does nothing would pass"


def test_that_tables_and_checks_carry_formula_and_source() -> None:
    for table in position_tables(["sinusoidal", "rotary"], 5, 4):
        scheme = POSITIONS[table.name]
        assert (table.formula, table.source) == (scheme.formula, scheme.source)
    for check in position_checks():
        assert (check.formula, check.source) == (POSITIONS[check.name].formula, POSITIONS[check.name].source)

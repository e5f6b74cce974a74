"""Pooling, matching of two texts and projected keys against slow versions in float64."""

import math

import pytest
import torch
from torch import Tensor

from attnscope.errors import RecipeError
from attnscope.nn import (
    AttentionPool,
    MaskRule,
    Matching,
    ModelConfig,
    Projection,
    Transformer,
    build_rule,
    build_transformer,
    count_parameters,
    make_summary,
    pooled_evenly,
    sentence_reach,
)
from attnscope.records import NO_GATES
from attnscope.trace import TraceProbe

END = 3


def config_of(**choices: object) -> ModelConfig:
    plain: dict[str, object] = {
        "form": "encoder",
        "vocab_size": 12,
        "d_model": 8,
        "n_heads": 2,
        "d_ff": 12,
        "max_tokens": 12,
        "n_labels": 3,
    }
    return ModelConfig(**(plain | choices))  # type: ignore[arg-type]


def ramp(*shape: int, step: float = 0.37) -> Tensor:
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) * step).reshape(shape)


def filled(module: torch.nn.Module) -> torch.nn.Module:
    module = module.double().eval().requires_grad_(False)
    with torch.no_grad():
        for n, parameter in enumerate(module.parameters()):
            parameter.copy_(ramp(*parameter.shape, step=0.37 + 0.11 * n))
    return module


def slow_pool(pool: AttentionPool, rows: list[Tensor]) -> tuple[Tensor, list[float]]:
    """softmax(tanh(W h + b) · u) and Σ α h, row by row (Yang et al. 2016, equations 5 to 7)."""
    scores = []
    for h in rows:
        key = [math.tanh(float(pool.key.weight[i] @ h + pool.key.bias[i])) for i in range(len(h))]
        scores.append(math.exp(sum(float(pool.query[i]) * k for i, k in enumerate(key))))
    weights = [score / sum(scores) for score in scores]
    return sum((w * h for w, h in zip(weights, rows, strict=True)), torch.zeros_like(rows[0])), weights


def test_that_attention_pooling_is_the_formula_of_yang_and_leaves_padding_out() -> None:
    pool = filled(AttentionPool(6, ("pool", 0), bias=True))
    hidden, valid = ramp(2, 5, 6), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    out = pool(hidden, rule=build_rule(is_causal=False, key_valid=valid))[:, 0]
    for text, n in ((0, 5), (1, 3)):
        expected, _ = slow_pool(pool, list(hidden[text, :n]))
        torch.testing.assert_close(out[text], expected, rtol=1e-12, atol=1e-12)


def test_that_hierarchical_pooling_pools_words_then_sentences() -> None:
    config = config_of(d_model=6, n_heads=1, pooling="hierarchical", sentence_ends=(END,))
    summary = filled(make_summary(config))
    ids = torch.tensor([[1, 5, END, 6, 7, END, 2], [1, 5, 6, 2, 0, 0, 0]])
    valid = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    hidden = ramp(2, 7, 6)
    out = summary(hidden, ids, valid=valid)
    for text, sentences in ((0, ((0, 3), (3, 7))), (1, ((0, 4),))):
        rows = [slow_pool(summary.words, list(hidden[text, a:b]))[0] for a, b in sentences]
        torch.testing.assert_close(out[text], slow_pool(summary.pool, rows)[0], rtol=1e-12, atol=1e-12)


def test_that_sentences_end_with_their_end_and_the_last_token_belongs_to_the_last_one() -> None:
    ids = torch.tensor([[1, 5, END, END, 6, 2], [1, 5, 5, 5, END, 2]])
    reach = sentence_reach(ids, (END,))
    assert reach.first.tolist() == [[0, 3, 4], [0, 6, 6]]
    assert reach.last.tolist() == [[2, 3, 5], [5, 5, 5]]  # first > last: there is no such sentence


@pytest.mark.parametrize("is_max", [True, False])
def test_that_mean_and_max_are_of_tokens_that_are_no_padding(is_max: bool) -> None:
    hidden, valid = ramp(2, 4, 3), torch.tensor([[True] * 4, [True, True, False, False]])
    out = pooled_evenly(hidden, valid, is_max=is_max)
    for text, n in ((0, 4), (1, 2)):
        columns = hidden[text, :n].T.tolist()
        expected = [max(c) if is_max else sum(c) / n for c in columns]
        torch.testing.assert_close(out[text], torch.tensor(expected, dtype=torch.float64))


def test_that_matching_is_the_formula_of_chen_both_ways() -> None:
    matching = filled(Matching(config_of(d_model=4, n_heads=1, reads_pair=True)))
    a, b = ramp(1, 3, 4), ramp(1, 2, 4, step=0.71)
    first, second = matching(a, b)
    for own, other, out in ((a[0], b[0], first[0]), (b[0], a[0], second[0])):
        for i, row in enumerate(own):
            scores = [math.exp(float(row @ key)) for key in other]
            found = sum((s / sum(scores) * v for s, v in zip(scores, other, strict=True)), torch.zeros(4))
            features = torch.cat([row, found, row - found, row * found])
            expected = (matching.compose.weight @ features + matching.compose.bias).clamp(min=0.0)
            torch.testing.assert_close(out[i], expected, rtol=1e-12, atol=1e-12)


def test_that_a_projection_is_that_of_linformer_and_padding_adds_nothing() -> None:
    projection = filled(Projection(2, 6))
    k, v = ramp(1, 1, 4, 3), ramp(1, 1, 4, 3, step=0.5)
    valid = torch.tensor([[True, True, True, False]])
    keys, values, rule = projection(k, v, MaskRule(key_valid=valid))
    assert rule.is_empty
    for weight, x, out in ((projection.keys, k, keys), (projection.values, v, values)):
        expected = [
            [sum(float(weight[s, t] * x[0, 0, t, d]) for t in range(3)) for d in range(3)] for s in range(2)
        ]
        torch.testing.assert_close(out[0, 0], torch.tensor(expected, dtype=torch.float64))


def test_that_a_projection_by_the_identity_is_full_attention() -> None:
    projected = filled(Transformer(config_of(n_projected=5, max_tokens=5)))
    full = filled(Transformer(config_of(max_tokens=5)))
    with torch.no_grad():
        for name, parameter in projected.named_parameters():
            is_identity = "projection" in name
            parameter.copy_(torch.eye(5) if is_identity else dict(full.named_parameters())[name])
    ids = torch.tensor([[1, 5, 6, 7, 2]])
    torch.testing.assert_close(projected(ids), full(ids), rtol=1e-12, atol=1e-12)


KINDS = [
    {"pooling": "first"},
    {"pooling": "last"},
    {"pooling": "mean"},
    {"pooling": "max", "form": "decoder"},
    {"pooling": "attention", "n_projected": 4},
    {"pooling": "hierarchical", "sentence_ends": (END,)},
    {"pooling": "hierarchical", "sentence_ends": (END,), "sentence_encoder": "gru", "bias": False},
    {"pooling": "hierarchical", "sentence_ends": (END,), "sentence_encoder": "dense"},
    {"pooling": "attention", "reads_pair": True},
    {"pooling": "max", "reads_pair": True, "bias": False},
]


@pytest.mark.parametrize("choices", KINDS, ids=str)
def test_that_padding_changes_no_label_and_the_parameters_are_as_counted(choices: dict[str, object]) -> None:
    config = config_of(**choices)
    config.check()
    module = filled(build_transformer(config, seed=0))
    assert sum(p.numel() for p in module.parameters()) == count_parameters(config).total
    assert ModelConfig.from_dict(config.to_dict()) == config
    ids, second = torch.tensor([[1, 5, END, 6, 2]]), torch.tensor([[1, 7, 2]]) if config.reads_pair else None
    padded = torch.tensor([[1, 5, END, 6, 2, 0, 0]])
    valid = torch.tensor([[True] * 5 + [False] * 2])
    other = None if second is None else torch.tensor([[1, 7, 2, 9]])
    other_valid = None if second is None else torch.tensor([[True, True, True, False]])
    plain = module(ids, target_ids=second)
    filled_up = module(padded, target_ids=other, valid=valid, target_valid=other_valid)
    assert plain.shape == (1, 3)
    torch.testing.assert_close(plain, filled_up, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("choices", [KINDS[5], KINDS[6], KINDS[8] | {"n_projected": 3}], ids=str)
def test_that_gradients_pass_through_every_part(choices: dict[str, object]) -> None:
    config = config_of(d_model=4, n_heads=1, n_layers=1, d_ff=4, **choices)
    module = filled(build_transformer(config, seed=0))
    ids, second = torch.tensor([[1, 5, END, 6, 2]]), torch.tensor([[1, 7, 2]]) if config.reads_pair else None
    names = [n for n, _ in module.named_parameters() if n.startswith(("summary", "matching")) or "proj" in n]
    parameters = dict(module.named_parameters())

    def logits(*values: Tensor) -> Tensor:
        swapped = parameters | dict(zip(names, values, strict=True))
        out: Tensor = torch.func.functional_call(module, swapped, (ids,), {"target_ids": second})
        return out

    given = tuple(parameters[name].detach().clone().requires_grad_() for name in names)
    assert given
    assert torch.autograd.gradcheck(logits, given)


def test_that_every_site_is_recorded_and_the_second_text_has_its_own() -> None:
    module = filled(build_transformer(config_of(reads_pair=True, n_layers=1), seed=0))
    probe = TraceProbe(module.sites(), NO_GATES)
    module(torch.tensor([[1, 5, 6, 2]]), target_ids=torch.tensor([[1, 7, 2]]), probe=probe)
    sizes = {key: (record.n_queries, record.n_keys) for key, record in probe.records.items()}
    assert sizes == {
        ("encoder", 0): (4, 4),
        ("second", 0): (3, 3),
        ("cross", 0): (3, 4),
        ("back", 0): (4, 3),
        ("pool", 0): (1, 4),
        ("second-pool", 0): (1, 3),
    }
    assert {site.key for site in module.sites()} == set(sizes)


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"n_labels": 1}, "n_labels"),
        ({"n_labels": 0, "reads_pair": True}, "reads_pair"),
        ({"form": "decoder", "pooling": "first"}, "pooling"),
        ({"form": "decoder", "reads_pair": True}, "reads_pair"),
        ({"form": "encoder-decoder"}, "form"),
        ({"pooling": "hierarchical", "reads_pair": True}, "pooling"),
        ({"pooling": "mean", "sentence_encoder": "gru"}, "sentence_encoder"),
        ({"sentence_ends": (12,)}, "sentence_ends"),
        ({"has_pooler": True}, "has_pooler"),
        ({"form": "decoder", "n_projected": 3}, "n_projected"),
        ({"n_projected": 13}, "n_projected"),
        ({"n_projected": 3, "mask": "window"}, "mask"),
        ({"n_projected": 3, "position": "alibi"}, "position"),
    ],
)
def test_that_choices_that_do_not_go_together_are_named(choices: dict[str, object], key: str) -> None:
    with pytest.raises(RecipeError, match=rf"model\.{key} is "):
        config_of(**choices).check()


def test_that_a_mask_of_another_size_is_not_taken_for_a_rule_of_sentences() -> None:
    pool = filled(AttentionPool(6, ("pool", 0), bias=False))
    out = pool(
        ramp(1, 5, 6), rule=MaskRule(pattern=sentence_reach(torch.tensor([[END] * 5]), (END,))), n_queries=4
    )
    torch.testing.assert_close(out[0, 2], ramp(1, 5, 6)[0, 2])  # a sentence of one word is that word


@pytest.mark.parametrize("kind", ["gru", "dense"])
def test_that_sentences_are_encoded_between_the_poolings_as_the_papers_say(kind: str) -> None:
    config = config_of(
        d_model=6, n_heads=1, pooling="hierarchical", sentence_ends=(END,), sentence_encoder=kind
    )
    summary = filled(make_summary(config))
    ids = torch.tensor([[1, 5, END, 6, 7, END, 4, 2], [1, 5, 6, 2, 0, 0, 0, 0]])
    valid = torch.tensor([[True] * 8, [True] * 4 + [False] * 4])
    hidden = ramp(2, 8, 6)
    out = summary(hidden, ids, valid=valid)
    slow = slow_gru if kind == "gru" else slow_dense
    for text, sentences in ((0, ((0, 3), (3, 6), (6, 8))), (1, ((0, 4),))):
        rows = [slow_pool(summary.words, list(hidden[text, a:b]))[0] for a, b in sentences]
        encoded = slow(dict(summary.between.named_parameters()), rows)
        torch.testing.assert_close(out[text], slow_pool(summary.pool, encoded)[0], rtol=1e-12, atol=1e-12)


def slow_dense(weights: dict[str, Tensor], rows: list[Tensor]) -> list[Tensor]:
    return [torch.tanh(weights["dense.weight"] @ row + weights["dense.bias"]) for row in rows]


def slow_gru(weights: dict[str, Tensor], rows: list[Tensor]) -> list[Tensor]:
    """Cho et al. 2014 as torch documents it: n reads r ∘ (W h + b), h' = (1 − z) n + z h."""
    ways = []
    for end, order in (("", list(range(len(rows)))), ("_reverse", list(range(len(rows)))[::-1])):
        w, u, b, c = (weights[f"cells.{n}_l0{end}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        d, h, found = len(u) // 3, torch.zeros(len(u) // 3, dtype=torch.float64), {}
        for i in order:
            x, s = w @ rows[i] + b, u @ h + c
            r, z = torch.sigmoid(x[:d] + s[:d]), torch.sigmoid(x[d : 2 * d] + s[d : 2 * d])
            h = (1 - z) * torch.tanh(x[2 * d :] + r * s[2 * d :]) + z * h
            found[i] = h
        ways.append(found)
    return [torch.cat((ways[0][i], ways[1][i])) for i in range(len(rows))]

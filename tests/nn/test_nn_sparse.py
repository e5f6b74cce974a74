"""Masks as data: any part of them is the part of the whole, and they survive a file."""

import json

import pytest
import torch
from tiny_models import tiny_model

from attnscope.models import load
from attnscope.nn import (
    PATTERNS,
    Edges,
    MaskRule,
    ModelConfig,
    ScoreRule,
    Sparse,
    build_self_mask,
    draw_earlier_links,
    draw_links,
    graph_mask,
    pattern_kind,
)
from attnscope.trace import read_rules, rule_tensors, rules_as_json
from attnscope.training import mended_recipe

CHOICES = [
    {"mask": "window", "window": 2},
    {"mask": "dilated", "window": 2, "dilation": 3},
    {"mask": "global", "window": 1, "global_tokens": 2},
    {"mask": "bigbird", "window": 2, "global_tokens": 3, "random_blocks": 2, "mask_block": 4},
    {"mask": "bigbird", "window": 0, "global_tokens": 0, "random_blocks": 3, "mask_block": 1},
    {"mask": "prefix", "prefix_tokens": 5},
    {
        "mask": "bigbird",
        "window": 2,
        "global_tokens": 3,
        "random_blocks": 2,
        "mask_block": 4,
        "random_links": "both",
    },
]


def rule_of(choices: dict, n_queries: int, n_keys: int, *, is_causal: bool) -> MaskRule:
    config = ModelConfig.from_dict({"form": "decoder", "vocab_size": 9, "max_tokens": 64, **choices})
    return build_self_mask(config, 64).rule(n_queries, n_keys, is_causal=is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_that_every_part_of_a_mask_is_a_part_of_the_whole(choices, is_causal):
    whole = rule_of(choices, 30, 30, is_causal=is_causal).allowed(30, 30)[0, 0]
    assert bool(whole.diagonal().all())
    rule = rule_of(choices, 30, 30, is_causal=is_causal)
    for rows, cols in (
        (slice(3, 9), slice(7, 30)),
        (slice(0, 30, 4), slice(1, 29, 5)),
        (slice(5, 5), slice(0, 9)),
    ):
        assert torch.equal(rule.allowed(30, 30, rows, cols)[0, 0], whole[rows, cols])
    listed = torch.tensor([0, 4, 5, 29])
    assert torch.equal(rule.allowed(30, 30, slice(2, 20), listed)[0, 0], whole[2:20, listed])
    if choices["mask"] != "prefix":
        later = rule_of(choices, 4, 30, is_causal=is_causal)
        assert torch.equal(later.allowed(4, 30)[0, 0], whole[26:])


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_that_a_mask_survives_a_file(choices):
    rule = rule_of(choices, 30, 30, is_causal=True)
    score = ScoreRule(scale=0.5)
    described, tensors = rules_as_json(rule, score), rule_tensors(rule, score)
    read, _ = read_rules(described, tensors, n_heads=2, n_queries=30, n_keys=30, d_head=4)
    assert torch.equal(read.allowed(30, 30), rule.allowed(30, 30))


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("n_tokens", [1, 3, 17, 64])
def test_that_the_open_cells_are_counted_without_looking_at_them(choices, n_tokens):
    config = ModelConfig.from_dict({"form": "decoder", "vocab_size": 9, "max_tokens": 64, **choices})
    rule = build_self_mask(config, n_tokens).rule(n_tokens, n_tokens, is_causal=False)
    expected = n_tokens**2 if choices["mask"] == "prefix" else int(rule.allowed(n_tokens, n_tokens).sum())
    assert build_self_mask(config, n_tokens).count(n_tokens) == expected


@pytest.mark.parametrize("choices", CHOICES[2:5], ids=str)
@pytest.mark.parametrize("n_queries", [5, 40])
def test_that_the_keys_of_some_rows_are_all_they_see(choices, n_queries):
    rule = rule_of(choices, n_queries, 40, is_causal=False)
    allowed = rule.allowed(n_queries, 40)[0, 0]
    for start in range(0, n_queries, 3):
        rows = range(start, min(start + 3, n_queries))
        found = rule.pattern.columns(rows, 40)
        seen = allowed[rows.start : rows.stop].any(dim=0).nonzero()[:, 0]
        assert found is None or set(seen.tolist()) <= set(found.tolist())


def test_that_links_go_to_different_earlier_blocks_and_do_not_depend_on_the_length():
    long, short = (draw_earlier_links(n, 3, first=1, near=2, seed=7) for n in (50, 20))
    assert torch.equal(long[:20], short)
    assert not torch.equal(long, draw_earlier_links(50, 3, first=1, near=2, seed=8))
    for number, row in enumerate(long.tolist()):
        blocks = [block for block in row if block >= 0]
        assert len(set(blocks)) == len(blocks) == min(3, max(0, number - 3))
        assert all(1 <= block < number - 2 for block in blocks)
    # What a saved model was trained with must never change.
    assert draw_earlier_links(8, 2, first=0, near=0, seed=0)[5:].tolist() == [[3, 2], [4, 5], [2, 0]]


@pytest.mark.parametrize(("window", "n_global", "block"), [(2, 3, 4), (0, 0, 1), (5, 1, 2), (1, 4, 4)])
def test_that_every_query_block_sees_exactly_as_many_random_blocks_as_asked_for(window, n_global, block):
    choices = {"mask": "bigbird", "window": window, "global_tokens": n_global, "mask_block": block}
    for n_tokens in (1, 7, 33, 64):
        for n_random in (0, 1, 2, 3):
            config = ModelConfig.from_dict(
                {"form": "encoder", "vocab_size": 9, "max_tokens": 64, "random_blocks": n_random, **choices}
            )
            allowed = build_self_mask(config, 64).rule(n_tokens, n_tokens, is_causal=False)
            seen = allowed.allowed(n_tokens, n_tokens)[0, 0]
            near, first = -(-window // block), -(-n_global // block)
            n_blocks = -(-n_tokens // block)
            for i in range(n_global, n_tokens):
                other = [b for b in range(first, n_blocks) if abs(b - i // block) > near]
                opened = [b for b in other if seen[i, b * block : (b + 1) * block].any()]
                is_long = n_blocks > 2 * near + first + 3 * n_random
                assert len(opened) == n_random if is_long else len(opened) <= min(n_random, len(other))
                assert all(seen[i, b * block : (b + 1) * block].all() for b in opened)


def test_that_the_blocks_of_a_query_never_change_with_the_text():
    whole = draw_links(50, 3, first=1, near=2, seed=7)
    for n in (1, 6, 20):
        part = whole[:n].clone()
        part[part >= n] = -1
        assert [sorted(row) for row in draw_links(n, 3, first=1, near=2, seed=7).tolist()] == [
            sorted(row) for row in part.tolist()
        ]
    assert whole.amin() >= 0  # each has all of its own
    # What a saved model was trained with must never change.
    assert draw_links(8, 2, first=1, near=1, seed=0).tolist() == [
        [3, 5],
        [3, 4],
        [4, 6],
        [1, 7],
        [1, 2],
        [2, 3],
        [4, 3],
        [2, 1],
    ]


def test_that_models_and_traces_saved_before_keep_the_mask_they_had(tmp_path):
    choices = {
        "mask": "bigbird",
        "window": 1,
        "global_tokens": 1,
        "random_blocks": 2,
        "mask_block": 2,
        "max_tokens": 40,
    }
    model = tiny_model("encoder", **choices, random_links="both")
    mask = build_self_mask(model.own.config, 40).rule(40, 40, is_causal=False)
    counts = [(mask.allowed(40, 40)[0, 0, i].view(-1, 2).any(-1).sum()) for i in range(1, 40)]
    assert len(set(map(int, counts))) > 4  # from few to many, as before version 0.8
    assert mask.pattern.numbers.shape == (5,)
    model.save(tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    described = json.loads(path.read_text())
    del described["model"]["random_links"]  # as older versions wrote it
    path.write_text(json.dumps(described))
    (tmp_path / "old" / "manifest.json").unlink()
    old = load(tmp_path / "old", "cpu")
    assert old.own.config == model.own.config
    assert (
        mended_recipe('[model]\nmask = "bigbird"\n')[0]
        == '[model]\nrandom_links = "both"\nmask = "bigbird"\n'
    )
    for text in ('[model]\nmask = "window"\n', '[model]\nmask = "bigbird"\nrandom_links = "each"\n'):
        assert mended_recipe(text) == (text, "")


def test_that_edges_are_a_mask_of_their_own():
    pattern = graph_mask([(0, 2), (1, 3)], 5)
    expected = torch.eye(5, dtype=torch.bool)
    for i, j in ((0, 2), (1, 3)):
        expected[i, j] = expected[j, i] = True
    everything = torch.arange(5)
    assert torch.equal(pattern.allowed(everything, everything)[0, 0], expected)
    assert torch.equal(pattern.allowed(everything[1::2], everything[2:])[0, 0], expected[1::2, 2:])
    one_way = graph_mask([(0, 2)], 5, is_directed=True, has_loops=False)
    assert one_way.cells.tolist() == [[0, 2]]
    with pytest.raises(ValueError, match="outside 0 to 4"):
        graph_mask([(0, 5)], 5)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (
            Sparse(numbers=torch.zeros(4, dtype=torch.int64), links=torch.zeros(0, 0, dtype=torch.int64)),
            "numbers",
        ),
        (
            Sparse(numbers=torch.tensor([-1, 1, 0, 1, 0]), links=torch.zeros(0, 0, dtype=torch.int64)),
            "impossible",
        ),
        (
            Sparse(numbers=torch.tensor([1, 0, 0, 1, 0]), links=torch.zeros(0, 0, dtype=torch.int64)),
            "impossible",
        ),
        (
            Sparse(numbers=torch.tensor([1, 1, 0, 1, 2]), links=torch.zeros(0, 0, dtype=torch.int64)),
            "earlier keys",
        ),
        (
            Sparse(numbers=torch.tensor([1, 1, 0, 2, 0]), links=torch.zeros(3, 1, dtype=torch.int64)),
            "too few",
        ),
        (Edges(cells=torch.zeros(2, 3, dtype=torch.int64), sizes=torch.tensor([8, 8])), "n_edges"),
        (Edges(cells=torch.zeros(2, 2, dtype=torch.int64), sizes=torch.tensor([7, 8])), "expected"),
        (Edges(cells=torch.tensor([[0, 8]]), sizes=torch.tensor([8, 8])), "outside"),
    ],
)
def test_that_a_pattern_from_a_file_is_judged_before_it_is_used(pattern, words):
    with pytest.raises(ValueError, match=words):
        pattern.check(8, 8)


def test_that_every_kind_of_pattern_has_a_name_in_files():
    assert {
        pattern_kind(graph_mask([], 3)),
        pattern_kind(rule_of(CHOICES[1], 9, 9, is_causal=True).pattern),
    } <= set(PATTERNS)

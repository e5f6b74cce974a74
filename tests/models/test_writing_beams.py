"""Beam search against exhaustive search in float64, and the tree it leaves behind."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from tiny_models import tiny_model

from attnscope.models.writing import BeamSearch, length_penalty
from attnscope.records import Token, WriteSettings

N_IDS, END = 4, 3


def log_p(text: Sequence[int]) -> torch.Tensor:
    """A made-up model: the next token's log-probabilities hang on the whole text; float64 [N_IDS]."""
    step = torch.arange(N_IDS, dtype=torch.float64) + sum((k + 1) * (id + 1.37) for k, id in enumerate(text))
    return (2.0 * torch.sin(step * step * 0.731)).log_softmax(dim=0)


def search_all(n_beams: int, alpha: float, depth: int, end_id: int | None = END) -> BeamSearch:
    search = BeamSearch(n_beams=n_beams, alpha=alpha, max_tokens=depth, end_id=end_id)
    texts: list[list[int]] = [[]]
    while not search.is_done:
        search.advance(torch.stack([log_p(text) for text in texts]))
        texts = [[*texts[row], id] for id, row in zip(search.live_ids, search.live_rows, strict=True)]
    return search


def all_texts(depth: int, end_id: int | None = END) -> list[tuple[int, ...]]:
    """Every text that ends with the end token, or is as long as it may be without one."""
    others = [id for id in range(N_IDS) if id != end_id]
    ended = [(*head, end_id) for n in range(depth) for head in itertools.product(others, repeat=n)]
    return (ended if end_id is not None else []) + list(itertools.product(others, repeat=depth))


def score(text: Sequence[int], alpha: float) -> float:
    total = math.fsum(float(log_p(text[:k])[id]) for k, id in enumerate(text))
    return total / ((5 + len(text)) / 6) ** alpha


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("end_id", [END, None])
def test_that_a_beam_as_wide_as_everything_finds_the_best_text(alpha, depth, end_id):
    search = search_all(N_IDS**depth, alpha, depth, end_id)
    best = max(all_texts(depth, end_id), key=lambda text: score(text, alpha))
    assert tuple(search.ids(search.best)) == best
    tree = search.tree(lambda id: Token(id=id, piece=str(id)))
    assert tree.nodes[tree.best].score == pytest.approx(score(best, alpha), abs=1e-12)


@pytest.mark.parametrize("n_beams", [1, 2, 3])
def test_that_every_node_says_its_own_sums(n_beams):
    alpha = 0.6
    search = search_all(n_beams, alpha, 4)
    tree = search.tree(lambda id: Token(id=id, piece=str(id)))
    assert tree.n_beams == n_beams
    for index, node in enumerate(tree.nodes):
        path = tree.path(index)
        ids = [tree.nodes[at].token.id for at in path]
        assert len(path) == node.depth
        assert node.parent is None or tree.nodes[node.parent].state == "kept"
        assert node.log_probability == pytest.approx(float(log_p(ids[:-1])[ids[-1]]), abs=1e-12)
        assert node.score == pytest.approx(score(ids, alpha), abs=1e-12)
    for depth in range(1, tree.depth + 1):
        level = [node for node in tree.nodes if node.depth == depth]
        kept = [node for node in level if node.state == "kept"]
        assert len(kept) <= n_beams
        assert all(
            k.total >= d.total for k in kept for d in level if d.state == "dropped" and d.token.id != END
        )


def test_that_one_beam_without_an_end_is_greedy():
    search = search_all(1, 0.6, 5, end_id=None)
    text: list[int] = []
    for _ in range(5):
        text.append(int(log_p(text).argmax()))
    assert search.ids(search.best) == text


def test_that_a_search_ends_early_only_when_nothing_better_can_come():
    for alpha, n_beams in itertools.product((0.0, 0.6, 2.0), (1, 2, 4, 16)):
        early = search_all(n_beams, alpha, 6)
        late = BeamSearch(n_beams=n_beams, alpha=alpha, max_tokens=6, end_id=END)
        texts: list[list[int]] = [[]]
        while texts and late.depth < 6:
            late.advance(torch.stack([log_p(text) for text in texts]))
            texts = [[*texts[row], id] for id, row in zip(late.live_ids, late.live_rows, strict=True)]
        assert early.ids(early.best) == late.ids(late.best)


def test_that_the_length_penalty_is_that_of_the_paper():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx((5 + 7) ** 0.6 / (5 + 1) ** 0.6)
    assert length_penalty(30, 0.0) == 1.0


@torch.no_grad()
def test_that_the_beams_of_a_model_find_its_most_probable_text():
    model = tiny_model("decoder")
    network = model.network
    network.module.double()
    n_ids, begin = network.vocabulary.vocab_size, network.vocabulary.begin_id
    end = network.vocabulary.end_id

    def total(ids: tuple[int, ...]) -> float:
        logits = network.module(torch.tensor([[begin, *ids]])).log_softmax(dim=-1)[0]
        return float(sum(logits[k, id] for k, id in enumerate(ids)))

    pairs = [p for p in itertools.product(range(n_ids), repeat=2) if p[0] != end]
    best = max([(end,), *pairs], key=total)
    wide = WriteSettings(mode="beams", n_beams=n_ids, length_penalty=0.0, max_tokens=2)
    written = model.write("", wide).text
    assert tuple(token.token.id for token in written.tokens) == best
    assert written.log_probability == pytest.approx(total(best), abs=1e-5)

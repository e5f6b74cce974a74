"""Means over texts of which some lack a place, equal weights under a mask, and who is the control."""

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnscope.analysis import HeadDivergences
from attnscope.conllu import Tree, TreeWord
from attnscope.errors import UserError
from attnscope.records import HeadRef, Site, SyntaxTable, Token
from attnscope.studies.study import Choices, study_module

syntax = study_module("syntax")
PLACES = syntax.PLACES
Looks = syntax.Looks
look = syntax.look
plane_of = syntax.plane_of
best_offset = syntax.best_offset
look_rows = syntax.look_rows
syntax_rows = syntax.syntax_rows

SITE = Site(stack="decoder", layer=0, n_heads=3, n_kv_heads=3)


def causal(n: int, first: float) -> Tensor:
    """Rows that put `first` on the first key and share the rest evenly; later keys are no numbers."""
    a = torch.full((3, n, n), math.nan)
    for row in range(n):
        a[:, row, : row + 1] = (1 - first) / max(row, 1)
        a[:, row, 0] = first if row else 1.0
    return a


class Reader:
    """A model whose weights are known: `first` of each text lies on its first token."""

    info, sites = SimpleNamespace(name="known"), (SITE,)

    def trace(self, text: str) -> Any:
        pieces = text.split()
        tokens = tuple(Token(id=i, piece=piece) for i, piece in enumerate(pieces))
        weights = causal(len(pieces), 0.75 if "," in pieces else 0.5)
        return SimpleNamespace(tokens=lambda _: (tokens, tokens), all_weights=lambda _: weights)


def test_that_a_text_without_a_place_does_not_dilute_the_mean_of_the_others() -> None:
    *_, found = look(Reader(), [", a", "a b c"])  # type: ignore[arg-type]
    assert isinstance(found, Looks)
    np.testing.assert_allclose(found.share("stops and commas"), (1 + 0.75) / 2)  # of the first text alone
    np.testing.assert_allclose(found.share("previous"), (0.75 + (0.5 + 0.25) / 2) / 2)
    assert np.isnan(found.share("separators")).all()
    assert found.stops == pytest.approx(1 / 5)


def test_that_equal_weights_are_those_of_the_keys_that_a_row_may_see() -> None:
    *_, found = look(Reader(), ["a b c", "a b"])  # type: ignore[arg-type]
    assert isinstance(found, Looks)
    assert found.even == pytest.approx(((0 + math.log(2) + math.log(3)) / 3 + (0 + math.log(2)) / 2) / 2)


def test_that_the_control_is_the_model_before_its_first_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded, made = list[str](), list[Any]()

    def see(model: str, *_: Any, **__: Any) -> Iterator[syntax.Seen]:
        yield syntax.Seen(looks=model)  # type: ignore[arg-type]

    monkeypatch.setattr(syntax, "train_study", lambda *_, **__: iter(()))
    monkeypatch.setattr(syntax, "checkpoints_of", lambda _: [(0, Path("start")), (5, Path("end"))])
    monkeypatch.setattr(syntax, "run_folder", lambda *_: Path("trained"))
    monkeypatch.setattr(syntax, "load", lambda folder, **_: loaded.append(folder) or folder)
    monkeypatch.setattr(syntax, "see", see)
    monkeypatch.setattr(syntax, "_study", lambda *arguments: made.append(arguments))
    list(syntax.reproduce(Choices(folder=tmp_path, corpus=tmp_path)))
    assert loaded == ["trained", "start"]
    _, model, seen, start, _ = made[0]
    assert (model, seen.looks, start.looks) == ("trained", "trained", "start")


def looks_with(layers: tuple[int, ...], start: tuple[float, ...]) -> Looks:
    """Heads of some layers, which put so much on the start token and nothing elsewhere."""
    heads = tuple(HeadRef(stack="encoder", layer=layer, head=n) for n, layer in enumerate(layers))
    sums = HeadDivergences(heads)
    share = torch.linspace(0.1, 0.9, len(heads))[:, None]
    weights = torch.stack((share, 1 - share), dim=2)  # [n_heads, 1, 2]
    sums.add_weights(weights)
    shares = np.zeros((len(heads), len(PLACES)))
    shares[:, PLACES.index("start token")] = start
    return Looks(
        heads=heads,
        shares=shares,
        entropies=np.ones(len(heads)),
        plane=plane_of(sums, "encoder", 2),
        even=1.0,
        stops=0.0,
        n_tokens=1,
        n_texts=1,
    )


@pytest.mark.parametrize(("top", "is_lower"), [(1, True), (2, False)])
def test_that_the_third_of_four_layers_is_an_upper_one(top: int, is_lower: bool) -> None:
    start = tuple(0.9 if layer == top else 0.1 for layer in range(4))
    (row,) = [r for r in look_rows(looks_with((0, 1, 2, 3), start)) if "start token" in r.what]
    assert f"layer {top}" in row.what
    assert row.is_as_published is is_lower


@pytest.mark.parametrize("layers", [(0, 0, 0), (0, 1, 2)])
def test_that_heads_of_one_layer_are_not_set_against_those_of_none(layers: tuple[int, ...]) -> None:
    looks = looks_with(layers, (0.1,) * 3)
    assert np.isnan(looks.likeness()).tolist() == [layers[1] == 1, layers[1] == 0]
    assert not any("divergence" in row.what for row in look_rows(looks))


def test_that_two_heads_are_too_few_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "sites", (Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2),))
    with pytest.raises(UserError, match="known has 2 heads"):
        list(look(Reader(), ["a b"]))  # type: ignore[arg-type]


def test_that_two_words_in_one_place_have_no_offset() -> None:
    words = [("de", 2, "case", 0), ("el", 0, "det", 0), ("gato", -1, "root", 1)]
    tree = Tree(
        text="del gato",
        words=tuple(TreeWord(form=f, head=h, relation=r, place=p) for f, h, r, p in words),
        written=("del", "gato"),
    )
    assert best_offset([tree], ["case", "det"]) == (1, 1.0)
    offset, share = best_offset([tree], ["det"])
    assert offset == 0
    assert math.isnan(share)


def test_that_a_relation_whose_best_head_is_an_offset_says_nothing_of_the_paper() -> None:
    one = np.array([[0.9]], np.float32)
    table = SyntaxTable(
        model="m",
        corpus="",
        heads=(HeadRef(stack="encoder", layer=0, head=0),),
        relations=(("compound", "to head"),),
        values=one,
        low=one,
        high=one,
        baseline=one - 0.5,
        offsets=np.ones((1, 1), np.int32),
        n_arcs=np.full((1, 1), 4, np.int32),
        counts=np.full((1, 1), 4, np.int32),
        telling=np.zeros((1, 1, 3), np.int32),
        n_texts=1,
        manner="clark",
    )
    assert [row.is_as_published for row in syntax_rows(table, None, ())[2:]] == [None]  # 0.704 against 0.702

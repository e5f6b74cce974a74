"""Measuring heads in the worker: in the background, with views served in between."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask, save_tiny, train_to_end

from attnscope.nn import stoppable
from attnscope.records import (
    CardShown,
    Failed,
    Findings,
    HeadRef,
    HeadsMeasured,
    LoadModel,
    MeasureHeads,
    MeasuringNews,
    ShowCard,
    StopWork,
    Traced,
    TraceText,
)
from attnscope.workers import Engine

FIRST = HeadRef(stack="encoder", layer=0, head=0)
TREE = (
    "1\tthe\t_\t_\t_\t_\t2\tdet\t_\t_\n"
    "2\tcat\t_\t_\t_\t_\t3\tnsubj\t_\t_\n"
    "3\tsat\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    found = Engine(lambda error, what: None)
    ask(found, LoadModel(number=1, source=save_tiny(tmp_path / "model", "encoder"), device="cpu"))
    return found


def measured(engine: Engine) -> Findings:
    last = list(train_to_end(engine))[-1]
    assert isinstance(last, HeadsMeasured)
    return last.found


def test_that_a_pass_runs_between_views_and_gives_cards(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat on the mat\n" * 40, encoding="utf-8")
    assert ask(engine, MeasureHeads(number=2, path=str(path))) == []
    assert engine.is_training
    assert isinstance(next(iter(engine.advance_training())), MeasuringNews)
    (traced,) = ask(engine, TraceText(number=3, text="a dog", model=""))
    assert isinstance(traced, Traced)
    found = measured(engine)
    assert (found.table.n_texts, len(found.cards)) == (40, 4)
    assert not engine.is_training
    (shown,) = ask(engine, ShowCard(number=4, head=FIRST))
    assert isinstance(shown, CardShown)
    assert shown.card.texts[0].source == "the cat sat on the mat"


def test_that_trees_give_relations_and_own_texts_are_sample_sentences(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "trees.conllu"
    path.write_text(TREE * 25, encoding="utf-8")
    ask(engine, MeasureHeads(number=2, path=str(path), specials="dropped"))
    found = measured(engine)
    assert found.syntax is not None
    assert ("nsubj", "to head") in found.syntax.relations
    assert found.table.specials == "dropped"
    ask(engine, MeasureHeads(number=3))
    assert measured(engine).table.corpus == "sample sentences"


def test_that_a_pass_can_be_given_up_and_a_fault_is_told(engine: Engine, tmp_path: Path) -> None:
    ask(engine, MeasureHeads(number=2))
    ask(engine, StopWork(work="MeasureHeads", number=3))
    assert not engine.is_training
    ask(engine, MeasureHeads(number=4, path=str(tmp_path / "none.txt")))
    last = list(train_to_end(engine))[-1]
    assert isinstance(last, Failed)
    assert "cannot be read" in last.message
    (failed,) = ask(engine, ShowCard(number=5, head=FIRST))
    assert isinstance(failed, Failed)
    assert "has not been measured" in failed.message
    ask(engine, MeasureHeads(number=6))
    engine.stop_training()
    assert not engine.is_training


def test_that_another_model_ends_the_pass_of_the_one_before(engine: Engine, tmp_path: Path) -> None:
    ask(engine, MeasureHeads(number=2))
    ask(engine, LoadModel(number=3, source=save_tiny(tmp_path / "other", "decoder"), device="cpu"))
    assert not engine.is_training
    (failed,) = ask(engine, ShowCard(number=4, head=FIRST))
    assert isinstance(failed, Failed)


def test_that_a_pass_nobody_watches_finds_the_same_and_gives_cards(engine: Engine) -> None:
    ask(engine, MeasureHeads(number=2))
    found = measured(engine)
    engine.desk.forget_model()
    (unseen,) = ask(engine, MeasureHeads(number=3, is_idle=True))
    assert isinstance(unseen, HeadsMeasured)
    assert not engine.is_training
    np.testing.assert_array_equal(unseen.found.table.values, found.table.values)
    assert [card.sentence for card in unseen.found.cards] == [card.sentence for card in found.cards]
    (shown,) = ask(engine, ShowCard(number=4, head=FIRST))
    assert isinstance(shown, CardShown)


def test_that_a_pass_nobody_watches_can_be_given_up_anywhere_and_leaves_the_model_as_it_was(
    engine: Engine,
) -> None:
    def traced() -> Traced:
        first, *_ = ask(engine, TraceText(number=3, text="a dog", model=""))
        assert isinstance(first, Traced)
        return first

    before, asked = traced(), []
    with stoppable(lambda: bool(asked.append(1))):  # type: ignore[func-returns-value]
        assert len(ask(engine, MeasureHeads(number=2, is_idle=True))) == 1
    n_places = len(asked)
    assert n_places > 20
    for n in range(0, n_places, max(1, n_places // 12)):
        asked.clear()
        with stoppable(lambda n=n: asked.append(1) or len(asked) > n):  # type: ignore[func-returns-value,misc]
            assert ask(engine, MeasureHeads(number=2, is_idle=True)) == []
    after = traced()
    for one, other in zip(before.grids, after.grids, strict=True):
        np.testing.assert_array_equal(one.levels, other.levels)

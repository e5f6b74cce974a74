"""The positions page's state: one request at a time, sizes, the model's own table."""

import numpy as np
import pytest
from session_samples import state_of
from told import names_told

from attnscope.records import (
    Failed,
    ModelInfo,
    ModelLoaded,
    PositionsShown,
    PositionTable,
    Request,
    ShowPositions,
)

INFO = ModelInfo(
    name="tiny",
    source="tiny",
    form="decoder",
    objective="causal",
    n_parameters=1,
    max_tokens=8,
    vocab_size=9,
    tokenizer="words",
    device="cpu",
    sha256="",
    sites=(),
)


def table(name: str, n: int = 4, d: int = 6) -> PositionTable:
    return PositionTable(
        name=name,
        matrix=np.ones((n, d)),
        cosine=np.ones((n, n)),
        by_offset=np.ones(n),
        dot_by_offset=np.ones(n),
    )


class Desk:
    def __init__(self) -> None:
        self.posted: list[Request] = []
        self.state = state_of("positions", self.posted.append)
        self.told = names_told(self.state.changed)

    @property
    def last(self) -> ShowPositions:
        request = self.posted[-1]
        assert isinstance(request, ShowPositions)
        return request

    def answer(self) -> None:
        tables = tuple(table(name) for name in self.last.names)
        self.state.handle(PositionsShown(number=self.last.number, tables=tables))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_that_nothing_is_asked_before_the_page_is_seen(desk: Desk) -> None:
    desk.state.set_n_positions(32)
    assert not desk.posted
    desk.state.open()
    assert (desk.last.n_positions, desk.last.d_model) == (32, 128)
    desk.state.open()
    assert len(desk.posted) == 1


def test_that_turning_a_wheel_asks_only_for_the_last_size(desk: Desk) -> None:
    desk.state.open()
    for n in range(65, 200):
        desk.state.set_n_positions(n)
    assert len(desk.posted) == 1
    desk.answer()
    assert len(desk.posted) == 2
    assert desk.last.n_positions == 199
    assert desk.state.is_stale
    desk.answer()
    assert not desk.state.is_stale
    assert not desk.state.query.is_busy


@pytest.mark.parametrize(("wished", "taken"), [(7, 6), (0, 2), (-5, 2), (99_999, 1024), (64, 64)])
def test_that_d_model_is_even_and_within_bounds(desk: Desk, wished: int, taken: int) -> None:
    desk.state.set_d_model(wished)
    assert desk.state.d_model == taken


def test_that_encodings_keep_their_order(desk: Desk) -> None:
    names = desk.state.names
    assert names[:4] == ("sinusoidal", "learned", "rotary", "binary")
    desk.state.choose("sinusoidal", False)
    desk.state.choose("sinusoidal", True)
    desk.state.choose("sinusoidal", True)
    desk.state.choose("nonsense", True)
    assert desk.state.names == names


def test_that_choosing_none_shows_none_without_asking(desk: Desk) -> None:
    desk.state.open()
    desk.answer()
    for name in desk.state.names:
        desk.state.choose(name, False)
    desk.answer()
    assert desk.state.tables == ()
    n_before = len(desk.posted)
    desk.state.open()
    assert len(desk.posted) == n_before


def test_that_the_model_s_own_is_asked_for_only_with_a_model(desk: Desk) -> None:
    desk.state.choose("model", True)
    desk.state.open()
    assert "model" not in desk.last.names
    desk.answer()
    desk.state.handle(ModelLoaded(number=0, info=INFO))
    assert "model" in desk.last.names
    assert desk.state.title("model") == "tiny's own"


def test_that_a_model_without_a_table_is_named_and_the_others_are_shown(desk: Desk) -> None:
    desk.state.handle(ModelLoaded(number=0, info=INFO))
    desk.state.choose("model", True)
    desk.state.open()
    desk.state.handle(Failed(number=desk.last.number, request="ShowPositions", message="It has no table."))
    assert desk.state.model_note == "It has no table."
    assert "model" not in desk.last.names
    desk.answer()
    assert [one.name for one in desk.state.tables] == [n for n in desk.state.names if n != "model"]
    assert desk.state.query.error == ""
    desk.state.handle(ModelLoaded(number=0, info=INFO))
    assert desk.state.model_note == ""
    assert "model" in desk.last.names


def test_that_another_failure_is_told_once(desk: Desk) -> None:
    desk.state.open()
    desk.state.handle(Failed(number=desk.last.number, request="ShowPositions", message="Too large."))
    assert desk.state.query.error == "Too large."
    assert len(desk.posted) == 1
    desk.state.set_n_positions(8)
    desk.answer()
    assert desk.state.query.error == ""


def test_that_replies_of_others_are_passed_over(desk: Desk) -> None:
    desk.state.open()
    desk.state.handle(PositionsShown(number=9999, tables=(table("binary"),)))
    desk.state.handle(Failed(number=9999, request="LoadModel", message="no"))
    assert desk.state.tables == ()
    assert desk.state.query.is_busy

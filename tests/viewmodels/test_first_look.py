"""What a page measures of itself when it is first looked at, and what it leaves to the person."""

from dataclasses import replace

import pytest
from session_samples import Desk

from attnscope.records.corpora import MeasureHeads
from attnscope.records.messages import ModelLoaded
from attnscope.viewmodels.heads.first_look import FirstLook
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.numbers import Numbers


class Looked:
    """A session on a traced text, and how often a first look at it has measured."""

    def __init__(self) -> None:
        self.desk, self.n_measured, self.is_wanted = Desk().open(), 0, True
        self.look = FirstLook(self.desk.session, lambda: 200, lambda: self.is_wanted, self._measure)

    def _measure(self) -> None:
        self.n_measured, self.is_wanted = self.n_measured + 1, False


def with_parameters(looked: Looked, n_parameters: int) -> None:
    session = looked.desk.session
    session.model = replace(session.model, n_parameters=n_parameters)


def test_that_a_page_that_is_seen_measures_once_what_takes_a_second() -> None:
    looked = Looked()
    assert looked.n_measured == 0
    for is_seen in (False, True, False, True):
        looked.look.look(is_seen)
    assert looked.n_measured == 1
    assert looked.look.words == ""


@pytest.mark.parametrize(
    ("n_parameters", "words"), [(124_000_000, "about 1 min"), (7_000_000_000, "about 1 h 10 min")]
)
def test_that_a_large_model_is_left_to_the_person_with_how_long_it_takes(
    n_parameters: int, words: str
) -> None:
    looked = Looked()
    with_parameters(looked, n_parameters)
    looked.look.look(True)
    assert looked.n_measured == 0
    assert words in looked.look.words


def test_that_a_page_that_stays_in_sight_measures_the_next_model_too() -> None:
    desk, asked = Desk().open(), []
    heads = HeadsState(desk.session, asked.append, Numbers())
    heads.first_look.look(True)
    heads.stop()
    heads.first_look.look(True)
    assert sum(isinstance(one, MeasureHeads) for one in asked) == 1  # stopped is stopped
    heads.handle(ModelLoaded(number=9, info=desk.session.model))
    heads.first_look.look(True)
    assert sum(isinstance(one, MeasureHeads) for one in asked) == 2

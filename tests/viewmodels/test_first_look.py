"""What a page measures of itself when it is first looked at, and what it leaves to the person."""

from dataclasses import replace

import pytest
from heads_fakes import make_cards, make_table
from session_samples import Desk, info, state_of

from attnscope.records import Failed, Findings, HeadsMeasured, MeasureHeads, MeasuringNews, ModelLoaded


class Looked:
    """The heads of a session on a traced text, and how often a first look at them has measured."""

    def __init__(self) -> None:
        self.desk, self.posted = Desk().open(), []
        self.look = state_of("heads", self.posted.append, session=self.desk.session).first_look

    @property
    def n_measured(self) -> int:
        return sum(isinstance(one, MeasureHeads) for one in self.posted)


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
    heads = state_of("heads", asked.append, session=desk.session)
    heads.first_look.look(True)
    heads.stop()
    heads.first_look.look(True)
    assert sum(isinstance(one, MeasureHeads) for one in asked) == 1  # stopped is stopped
    heads.handle(ModelLoaded(number=9, info=desk.session.model))
    heads.first_look.look(True)
    assert sum(isinstance(one, MeasureHeads) for one in asked) == 2


class Idle:
    """The state of Heads on an open model, measured while nothing else is asked for; what was cancelled."""

    def __init__(self) -> None:
        self.desk, self.posted, self.cancelled = Desk().open(), [], []
        self.heads = state_of(
            "heads", self.posted.append, cancel=self.cancelled.append, session=self.desk.session
        )
        self.heads.measure_when_idle()

    def measured(self) -> HeadsMeasured:
        heads = tuple(head for site in self.desk.session.model.sites for head in site.heads)
        found = Findings(table=make_table(heads), cards=make_cards(heads))
        return HeadsMeasured(number=self.posted[0].number, found=found)


def test_that_idle_measuring_is_the_page_s_own_and_shows_nothing_until_it_is_done() -> None:
    idle = Idle()
    (request,) = idle.posted
    assert request == MeasureHeads(number=request.number, is_idle=True)
    idle.heads.handle(MeasuringNews(number=request.number, what="Measuring", n_done=1, n_total=2))
    assert (idle.heads.phase, idle.heads.job.news, idle.heads.table.heads) == ("empty", None, ())
    idle.heads.handle(idle.measured())
    assert idle.heads.phase == "done"
    assert list(idle.desk.session.roles.values()) == ["previous token"]
    idle.heads.first_look.look(True)
    assert sum(isinstance(one, MeasureHeads) for one in idle.posted) == 1


def test_that_idle_measuring_that_fails_leaves_the_page_to_measure_and_to_tell_why() -> None:
    idle = Idle()
    idle.heads.handle(Failed(number=idle.posted[0].number, request="MeasureHeads", message="no"))
    assert (idle.heads.phase, idle.heads.error) == ("empty", "")
    idle.heads.first_look.look(True)
    assert idle.heads.phase == "running"


def test_that_the_person_s_own_measuring_takes_the_place_of_the_idle_one() -> None:
    idle = Idle()
    idle.heads.run()
    assert idle.cancelled == [idle.posted[0].number]
    assert not idle.posted[-1].is_idle
    idle.heads.handle(idle.measured())
    assert idle.heads.phase == "running"


def test_that_another_model_is_measured_anew_unless_it_takes_minutes() -> None:
    idle = Idle()
    first = idle.posted[0].number
    large = replace(info(), n_parameters=7_000_000_000)
    idle.desk.session.model = large
    idle.heads.handle(ModelLoaded(number=9, info=large))
    idle.heads.measure_when_idle()
    assert idle.cancelled == [first]
    assert len(idle.posted) == 1
    idle.heads.handle(idle.measured())
    assert (idle.heads.phase, idle.desk.session.roles) == ("empty", {})

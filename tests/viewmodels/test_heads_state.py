"""The Heads page's state: one pass at a time, a table sorted and filtered, cards asked for."""

from dataclasses import replace

import pytest
from heads_fakes import HeadsDesk
from session_samples import ref

from attnscope.records import (
    CardShown,
    Failed,
    Findings,
    HeadCard,
    HeadsMeasured,
    MeasureHeads,
    MeasuringNews,
    ShowCard,
    StopWork,
    TellingText,
)
from attnscope.schemes.measures import MEASURES


@pytest.fixture
def fixture() -> HeadsDesk:
    found = HeadsDesk()
    found.open()
    return found


def test_that_nothing_is_measured_without_a_model_or_twice_at_once() -> None:
    bare = HeadsDesk()
    bare.state.run()
    assert not any(isinstance(one, MeasureHeads) for one in bare.posted)
    bare.open()
    bare.state.run()
    bare.state.run()
    assert sum(isinstance(one, MeasureHeads) for one in bare.posted) == 1


def test_that_progress_is_told_and_old_replies_are_dropped(fixture: HeadsDesk) -> None:
    state = fixture.state
    state.texts.choose_texts("/data/trees.conllu")
    state.texts.choose_specials("dropped")
    state.texts.choose_specials("nonsense")
    state.run()
    wish = fixture.newest(MeasureHeads)
    assert (wish.path, wish.specials) == ("/data/trees.conllu", "dropped")  # type: ignore[attr-defined]
    number = wish.number  # type: ignore[attr-defined]
    state.handle(MeasuringNews(number=number, what="Measuring heads", n_done=250, n_total=1000))
    assert (state.progress, state.job.fraction) == ("Measuring heads: 250 of 1,000", 0.25)
    state.handle(MeasuringNews(number=number - 1, what="old", n_done=1, n_total=2))
    assert state.job.fraction == 0.25
    state.stop()
    assert fixture.posted[-1] == StopWork(number=fixture.posted[-1].number, work="MeasureHeads")
    assert state.phase == "stopped"
    state.handle(MeasuringNews(number=number, what="late", n_done=1, n_total=2))
    assert state.progress == ""


def test_that_a_head_keeps_the_name_it_had_before_others_were_removed(fixture: HeadsDesk) -> None:
    sites = tuple(
        replace(site, former=(0, 3) if site.key == ("encoder", 1) else ()) for site in fixture.info.sites
    )
    fixture.session.model = replace(fixture.info, sites=sites)
    names = [fixture.state.full_name(ref(1, head)) for head in (0, 1)]
    assert names == ["encoder L1H0", "encoder L1H1, once L1H3"]
    assert fixture.state.full_name(ref(0, 1)) == "encoder L0H1"


def test_that_a_failure_is_told_and_the_table_before_it_stays(fixture: HeadsDesk) -> None:
    fixture.measure()
    fixture.state.run()
    number = fixture.newest(MeasureHeads).number  # type: ignore[attr-defined]
    fixture.state.handle(Failed(number=number, request="MeasureHeads", message="no such file"))
    assert (fixture.state.phase, fixture.state.error) == ("failed", "no such file")
    assert fixture.state.table.heads


def test_that_a_part_that_is_missing_is_told_beside_the_table(fixture: HeadsDesk) -> None:
    state = fixture.state
    fixture.measure()
    assert state.table.heads
    found = Findings(table=state.table, cards=state.cards, notes=("The relations are missing.",))
    state.run()
    number = fixture.newest(MeasureHeads).number  # type: ignore[attr-defined]
    state.handle(HeadsMeasured(number=number, found=found))
    assert (state.phase, state.error) == ("done", "The relations are missing.")
    state.handle(Failed(number=number, request="MeasureHeads", message="a fault"))
    assert (state.phase, state.error) == ("done", "The relations are missing.")
    assert state.table.heads


def test_that_rows_are_sorted_and_filtered(fixture: HeadsDesk) -> None:
    state = fixture.state
    fixture.measure()
    table = state.table
    assert table.heads
    assert state.order.rows == tuple(range(len(table.heads)))
    state.order.sort_by("entropy")
    column = table.column("entropy")[list(state.order.rows)]
    assert list(column) == sorted(column, reverse=True)
    state.order.sort_by("entropy")
    assert list(table.column("entropy")[list(state.order.rows)]) == sorted(column)
    state.order.filter("previous")
    assert [table.heads[row] for row in state.order.rows] == [table.heads[0]]
    assert state.role(0) == "previous token"
    assert state.role(1) == "(first token)"
    state.order.filter("  L0H ")
    assert {table.heads[row].layer for row in state.order.rows} == {0}
    state.order.filter("")
    state.order.show_stack(table.heads[0].stack)
    assert {table.heads[row].stack for row in state.order.rows} == {table.heads[0].stack}


def test_that_columns_without_a_number_are_left_out(fixture: HeadsDesk) -> None:
    fixture.measure()
    names = [measure.name for measure in fixture.state.order.measures]
    assert "norm" not in names
    assert "previous_abs" not in names
    fixture.state.order.show_all_measures(True)
    assert "previous_abs" in [measure.name for measure in fixture.state.order.measures]


def test_that_a_measure_says_whether_it_is_shown_among_all_alone(
    fixture: HeadsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture.measure()
    monkeypatch.setattr(type(MEASURES["confidence"]), "is_further", True, raising=False)
    assert "confidence" not in [measure.name for measure in fixture.state.order.measures]


def test_that_the_selected_head_gets_its_card_with_texts(fixture: HeadsDesk) -> None:
    state, session = fixture.state, fixture.session
    fixture.measure()
    assert state.table.heads
    state.select(3)
    assert session.primary == state.table.heads[3]
    assert state.selected_row == 3
    asked = fixture.newest(ShowCard)
    assert asked.head == state.table.heads[3]  # type: ignore[attr-defined]
    assert state.card is not None
    assert state.card.texts == ()
    text = TellingText(
        number=0, source="a b", target=None, queries=("a", "b"), keys=("a", "b"), edges=((1, 0, 0.9),)
    )
    full = HeadCard(head=state.table.heads[3], sentence="x", roles=(), texts=(text,))
    state.handle(CardShown(number=asked.number - 1, card=full))  # type: ignore[attr-defined]
    assert state.card.texts == ()
    state.handle(CardShown(number=asked.number, card=full))  # type: ignore[attr-defined]
    assert state.card.texts == (text,)
    state.look_at(0)
    assert session.text == "a b"
    state.look_at(7)


def test_that_another_model_forgets_the_numbers_of_the_one_before(fixture: HeadsDesk) -> None:
    fixture.measure()
    fixture.state.run()
    fixture.open()
    assert fixture.newest(StopWork).work == "MeasureHeads"
    state = fixture.state
    assert (state.table.heads, state.phase, state.order.rows) == ((), "empty", ())

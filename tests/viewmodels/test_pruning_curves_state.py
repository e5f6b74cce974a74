"""The state of the pruning curves: what is asked, what is shown, loading a point, the table's importance."""

import dataclasses

import pytest
from curve_samples import HEADS, CurvesDesk, curve, importance
from session_samples import info

from attnscope.counting import significant, time_left
from attnscope.figures import csv_of_curves, pruning_chart
from attnscope.records import (
    CurveMeasured,
    CurvesNews,
    Failed,
    HeadScore,
    Importance,
    MeasureCurves,
    ModelLoaded,
    StopWork,
)
from attnscope.viewmodels.heads import PointRef, grouped, pruning_label
from attnscope.widgets.heads import metric_words, taken_words


@pytest.fixture
def desk() -> CurvesDesk:
    return CurvesDesk().loaded()


def newest(desk: CurvesDesk) -> MeasureCurves:
    return next(one for one in reversed(desk.asked) if isinstance(one, MeasureCurves))


def test_that_a_pass_is_asked_for_as_it_was_chosen(desk: CurvesDesk) -> None:
    state = desk.curves
    state.choose_texts("file", "/data/texts.txt")
    state.choose_metric("accuracy")
    state.choose_rankings(["random", "learned", "nonsense"])
    state.choose_amounts(5000, 2)
    state.rescore(False)
    state.run()
    asked = newest(desk)
    assert (asked.source, asked.path, asked.metric) == ("file", "/data/texts.txt", "accuracy")
    assert asked.rankings == ("learned", "random")
    assert (asked.max_texts, asked.n_random, asked.is_rescored) == (1000, 2, False)
    assert state.texts_name == "texts.txt"
    assert not state.can_run
    state.run()
    assert sum(isinstance(one, MeasureCurves) for one in desk.asked) == 1


def test_that_without_a_ranking_nothing_runs(desk: CurvesDesk) -> None:
    desk.curves.choose_rankings([])
    desk.curves.run()
    assert desk.asked == []
    assert {"alignment-error", "bleu"} < set(desk.curves.metrics)
    desk.session.model = info("decoder")
    assert not {"alignment-error", "bleu"} & set(desk.curves.metrics)


def test_that_loading_a_point_is_one_step_with_its_name(desk: CurvesDesk) -> None:
    desk.measure(curve())
    found = PointRef(curve=desk.curves.curves[0], index=3)
    desk.curves.load(found)
    assert set(desk.session.gates.off()) == set(HEADS[-6:])
    assert desk.session.history.undo_label == "pruning: 6 heads off by gradient"
    assert desk.curves.is_loaded
    desk.session.undo()
    assert not desk.session.gates.off()
    assert not desk.curves.is_loaded
    assert desk.curves_told[-1] == "loaded"
    desk.curves.load_again()
    assert desk.curves.is_loaded


def test_that_a_point_names_the_heads_taken_last() -> None:
    one = curve()
    assert PointRef(curve=one, index=0).taken_last == ()
    assert set(PointRef(curve=one, index=2).taken_last) == set(HEADS[-4:-2])
    assert taken_words(HEADS[-4:-1]) == "cross  L0H0, L0H1, L1H0"
    assert taken_words((HEADS[-1], HEADS[0])) == "encoder  L0H0\ncross  L1H1"
    assert pruning_label(PointRef(curve=one, index=0)) == "pruning: every head on"


def test_that_late_news_change_nothing_and_a_cancelled_pass_keeps_its_curves(desk: CurvesDesk) -> None:
    desk.measure(curve(), is_whole=False)
    number = newest(desk).number
    desk.curves.handle(CurvesNews(number=number, what="random: 3 of 12 heads off", fraction=0.5, left_s=31.0))
    assert desk.curves.progress == "random: 3 of 12 heads off · about 30 s left"
    desk.curves.stop()
    assert desk.asked[-1] == StopWork(number=desk.asked[-1].number, work="MeasureCurves")
    desk.curves.handle(CurveMeasured(number=number, curve=curve("random")))
    assert [one.ranking for one in desk.curves.curves] == ["gradient"]
    desk.curves.run()
    desk.curves.handle(Failed(number=newest(desk).number, request="MeasureCurves", message="No texts."))
    assert (desk.curves.job.phase, desk.curves.job.error) == ("failed", "No texts.")
    desk.curves.handle(ModelLoaded(number=1, info=info()))
    assert (desk.curves.job.phase, desk.curves.curves, desk.curves.job.error) == ("empty", (), "")


def test_that_a_curve_is_drawn_as_it_grows_and_only_whole_ones_stay(desk: CurvesDesk) -> None:
    whole = curve()
    state = desk.curves
    state.run()
    number = newest(desk).number

    def take(n_points: int, *, is_whole: bool) -> None:
        part = dataclasses.replace(whole, points=whole.points[:n_points])
        state.handle(CurveMeasured(number=number, curve=part, is_whole=is_whole))

    take(1, is_whole=False)
    take(3, is_whole=False)
    assert [len(group.means) for group in state.groups] == [3]
    assert state.curves == ()  # nothing to export yet
    take(len(whole.points), is_whole=True)
    take(2, is_whole=False)  # another order of the same ranking: a mean over some would jump
    assert [len(group.means) for group in state.groups] == [len(whole.points)]
    state.stop()
    assert state.growing == ()
    assert state.curves == (whole,)


def test_that_random_orders_are_one_line_with_their_mean() -> None:
    groups = grouped([curve(), curve("random", slope=1.0), curve("random", seed=1, slope=3.0)])
    assert [group.name for group in groups] == ["gradient", "random, mean of 2"]
    assert groups[1].means[1] == pytest.approx(0.5 + 2.0 * 2)
    chart = pruning_chart([curve(), curve("random"), curve("random", seed=1)])
    assert [series.name for series in chart.series] == ["", "", "gradient", "", "", "random, mean of 2"]
    lines = csv_of_curves([curve("random", seed=1)]).splitlines()
    assert lines[0].split(",")[:3] == ["ranking", "is_rescored", "seed"]
    assert lines[2].startswith("random,True,1,loss,2,2.5,2.25,3.0,encoder:L0H0 encoder:L0H1")


def test_that_importance_is_a_column_with_or_without_a_measured_table(desk: CurvesDesk) -> None:
    heads = desk.heads
    heads.rank((importance(), importance("random")))
    assert [measure.title for measure in heads.order.measures] == ["importance, gradient"]
    heads.order.sort_by("importance_gradient")
    assert heads.table.heads
    assert heads.table.heads[heads.order.rows[0]] == HEADS[-1]
    assert heads.statement == "importance over 7 texts"
    learned = Importance(
        ranking="learned", scores=tuple(HeadScore(head=head, value=0.5) for head in HEADS), n_texts=7
    )
    heads.rank((importance(), learned))
    assert [m.name for m in heads.order.measures] == ["importance_gradient", "importance_learned"]
    heads.rank(())
    assert not heads.table.heads
    assert heads.order.rows == ()


def test_that_numbers_have_three_digits() -> None:
    numbers = (0.0, 1.0, 0.99999, 0.0123456, 12.34, 123.4, 0.00002, float("nan"))
    shown = ("0", "1.00", "1.00", "0.0123", "12.3", "123", "2.00·10⁻⁵", "–")
    assert tuple(significant(value, 3) for value in numbers) == shown
    assert metric_words(curve().points[1]) == "2.50 (2.25–3.00)"
    assert [time_left(left) for left in (3, 31, 200)] == [
        "a few seconds left",
        "about 30 s left",
        "about 3 min left",
    ]

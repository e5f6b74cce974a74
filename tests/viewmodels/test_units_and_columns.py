"""Units of models that tell one label for each text, and names of columns that are no tokens."""

import dataclasses
import math

import numpy as np
import pytest
from curve_samples import curve
from heads_fakes import HeadsDesk, make_cards, make_table
from session_samples import info

from attnscope.analysis import head_card
from attnscope.figures import pruning_chart
from attnscope.records import (
    MEASURE_NAMES,
    Estimate,
    Findings,
    HeadsMeasured,
    KeyKind,
    MetricName,
    ModelLoaded,
)
from attnscope.viewmodels.session import cell_tip, estimate_text


@pytest.mark.parametrize(
    ("metric", "is_per_text", "unit"),
    [
        ("loss", False, "nats per token"),
        ("loss", True, "nats per text"),
        ("accuracy", True, "share of texts predicted correctly"),
        ("exact-match", True, "share of texts predicted completely"),
    ],
)
def test_that_a_curve_says_what_its_metric_is_a_mean_over(
    metric: MetricName, is_per_text: bool, unit: str
) -> None:
    found = dataclasses.replace(curve(), metric=metric, is_per_text=is_per_text)
    assert found.unit == unit
    assert pruning_chart([found]).y_label == unit


@pytest.mark.parametrize(("metric", "top"), [("loss", None), ("accuracy", 1.02), ("bleu", 102.0)])
def test_that_the_axis_of_a_curve_reaches_as_far_as_its_metric(metric: MetricName, top: float | None) -> None:
    range_ = pruning_chart([dataclasses.replace(curve(), metric=metric)]).y_range
    assert range_ == (None if top is None else (0.0, top))


@pytest.mark.parametrize(
    ("keys", "word"), [("tokens", "token"), ("slots", "column"), ("sentences", "column")]
)
def test_that_only_a_column_of_a_token_is_called_one(keys: KeyKind, word: str) -> None:
    plain = info()
    sites = tuple(dataclasses.replace(site, keys=keys) for site in plain.sites)
    heads = tuple(head for site in sites for head in site.heads)
    desk = HeadsDesk()
    desk.session.handle(ModelLoaded(number=0, info=dataclasses.replace(plain, sites=sites)))
    table = make_table(heads)
    desk.state.run()
    number = desk.posted[-1].number  # type: ignore[attr-defined]
    desk.state.handle(HeadsMeasured(number=number, found=Findings(table=table, cards=make_cards(heads))))
    assert desk.state.role(1) == f"(first {word})"
    values = np.full_like(table.values, 0.1)
    values[:, MEASURE_NAMES.index("first")] = 0.9
    resting = dataclasses.replace(table, values=values, low=values, high=values)
    card = head_card(heads[0], resting, sites=sites)
    assert card.sentence.startswith(f"rests on the first {word}: 0.90 of its weight")


def test_that_a_cell_has_two_digits_or_three_that_count_and_its_interval_where_wanted() -> None:
    found = Estimate(value=0.123456, low=0.1, high=0.25, n=7)
    bare = Estimate(value=0.0004321, low=math.nan, high=math.nan, n=3)
    unknown = Estimate(value=math.nan, low=math.nan, high=math.nan, n=0)
    gradient = "importance_gradient"
    assert estimate_text("entropy", found, has_interval=False) == "0.12"
    assert estimate_text("entropy", found, has_interval=True) == "0.12 (0.10–0.25)"
    assert estimate_text(gradient, found, has_interval=True) == "0.123 (0.100–0.250)"
    assert estimate_text(gradient, found, has_interval=False) == "0.123"
    assert estimate_text(gradient, bare, has_interval=True) == "0.000432"
    assert estimate_text(gradient, unknown, has_interval=True) == "–"
    assert cell_tip(found) == "0.1235, 0.1000 to 0.2500; 95 % t interval over 7 texts"
    assert cell_tip(bare) == "0.0004321; no interval: 3 texts, and 5 are needed"
    assert cell_tip(dataclasses.replace(bare, n=300)) == "0.0004321; 300 texts"  # a number that never has one
    assert cell_tip(unknown) == "does not apply"

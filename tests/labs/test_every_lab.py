"""What holds of every lab: its words, its settings, its drag, and its doors without a window."""

import json
from dataclasses import replace

import pytest

import attnscope as at
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.fields import Number, OneOf, Seed, Switch, Text, fields_of, values_of
from attnscope.labs import GROUPS, LABS, Lab
from attnscope.records import NO_ANSWER

DRAWN = [lab for lab in LABS.values() if isinstance(lab, Lab)]
ALONE = [lab for lab in DRAWN if not lab.asks and not hasattr(lab.example, "points")]
"""The labs whose pictures follow at once."""
PAGE = {"title", "has_caption", "size", "width_mm", "height_mm", "font_pt", "dpi"}


@pytest.mark.parametrize("lab", LABS.values(), ids=list(LABS))
def test_that_a_lab_says_what_it_is(lab) -> None:
    assert lab.group in GROUPS
    assert lab.shows
    assert not lab.shows.endswith(".")
    assert len(lab.shows) < 110
    assert lab.help.strip()
    others = [other.order for other in LABS.values() if other.group == lab.group]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize("lab", DRAWN, ids=lambda lab: lab.name)
def test_that_its_example_can_be_set_and_its_settings_are_described(lab) -> None:
    assert lab.source
    assert lab.allows(lab.example)
    assert lab.is_example(lab.example)
    for field in fields_of(lab.example):
        assert field.name not in PAGE
        assert field.fits(field.default)
        assert field.tip
        assert not field.tip.endswith(".")
        assert field.parsed(
            field.words(field.default) if isinstance(field, OneOf) else str(field.default)
        ) == (field.default)


def neighbours(lab):
    """Choices that differ from the example in one setting, each kind of value once."""
    for field in fields_of(lab.example):
        match field:
            case Number():
                values = (field.values[0], field.values[-1])
            case OneOf():
                values = tuple(field.options)
            case Switch():
                values = (True, False)
            case Seed():
                values = (1,)
            case Text():
                values = ()
        for value in values:
            yield field.put(lab.example, field.checked(value))


@pytest.mark.parametrize("lab", ALONE, ids=lambda lab: lab.name)
def test_that_charts_and_maps_are_as_many_whatever_is_chosen(lab) -> None:
    shown = lab.resolve(lab.example)
    sizes = len(lab.charts(shown)), len(lab.cells(shown))
    assert sum(sizes) > 0
    assert all(k < sizes[0] for k in lab.dragged)
    for choice in neighbours(lab):
        try:
            shown = lab.resolve(choice)
        except ValueError:
            continue
        assert (len(lab.charts(shown)), len(lab.cells(shown))) == sizes, values_of(choice)
        assert shown.words.sentence
        assert shown.words.formula


@pytest.mark.parametrize("lab", [lab for lab in ALONE if lab.dragged], ids=lambda lab: lab.name)
def test_that_whatever_is_dragged_to_can_be_set(lab) -> None:
    for x in (0.001, 1.0, 7.3, 1e4):
        for is_start in (True, False):
            assert lab.allows(lab.drag(lab.example, x, -0.5, is_start=is_start))


@pytest.mark.parametrize("lab", [lab for lab in DRAWN if lab.asks], ids=lambda lab: lab.name)
def test_that_a_lab_that_asks_holds_an_answer_that_is_no_setting(lab) -> None:
    assert lab.example.answer is NO_ANSWER
    assert "answer" not in values_of(lab.example)
    assert lab.is_example(replace(lab.example, answer=replace(NO_ANSWER, is_asked=True)))


@pytest.mark.qt
def test_that_a_kept_finding_is_drawn_without_training() -> None:
    figure = at.lab("quality by length", has_caption=True)
    assert "in advance" in figure.spec.caption.note
    assert figure.spec.charts[0].series[0].ys.shape == figure.spec.charts[0].series[0].xs.shape


def test_that_the_list_is_json_too_and_labs_of_the_window_are_told(capsys) -> None:
    assert main(["lab", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["lab"] for one in listed] == list(LABS)
    assert {one["lab"] for one in listed if not one["is_drawn"]} == {
        "Merges replayed",
        "Tokenizers compared",
        "Vocabulary",
    }
    with pytest.raises(UserError, match="works with the window's model"):
        at.lab("Vocabulary")
    assert main(["lab", "Scaling by √d", "--set", "d_k=4"]) == 0
    told = capsys.readouterr().out
    assert "d_k=4" in told
    assert "one of 1, 2, 4, 8" in told
    assert main(["lab", "Rank colapse"]) == 2
    assert "Did you mean Rank collapse?" in capsys.readouterr().err

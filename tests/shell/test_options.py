"""Keyword arguments that several functions share."""

import inspect
from typing import Annotated, TypedDict, Unpack

import pytest

import attnscope as at
from attnscope.fields import filled, options_of, picked, spelled_out
from attnscope.figures import FigureOptions


class Size(TypedDict, total=False):
    width: Annotated[float, 2.5]
    dpi: Annotated[int, 300]


class Page(Size, total=False):
    title: Annotated[str, ""]


@spelled_out
def draw(what: str, *, is_loud: bool = False, **page: Unpack[Page]) -> dict[str, object]:
    return {"what": what, "is_loud": is_loud, **filled(Page, page)}


def test_that_options_that_are_not_given_have_their_defaults():
    assert draw("a") == {"what": "a", "is_loud": False, "width": 2.5, "dpi": 300, "title": ""}
    assert draw("a", dpi=72, title="b") == {**draw("a"), "dpi": 72, "title": "b"}
    assert picked(Size, {"dpi": 1, "title": "c"}) == {"dpi": 1}


def test_that_the_signature_names_every_option_with_type_and_default():
    parameters = inspect.signature(draw).parameters
    assert list(parameters) == ["what", "is_loud", "width", "dpi", "title"]
    assert all(one.kind is one.KEYWORD_ONLY for one in list(parameters.values())[1:])
    assert (parameters["dpi"].annotation, parameters["dpi"].default) == (int, 300)
    assert options_of(draw) is Page


def test_that_an_unknown_option_is_a_type_error_that_names_function_and_option():
    with pytest.raises(TypeError, match=r"draw\(\) got an unexpected keyword argument 'colour'"):
        draw("a", colour="red")
    with pytest.raises(TypeError, match=r"figure\(\) got an unexpected keyword argument 'sizes'"):
        at.figure(None, sizes="single")


def test_that_what_takes_no_options_cannot_be_spelled_out():
    with pytest.raises(ValueError, match="takes no options"):
        spelled_out(options_of)


def test_that_help_of_figures_names_every_argument():
    names = set(inspect.signature(at.figure).parameters)
    assert {"trace", "view", *FigureOptions.__annotations__} == names
    for function in (at.panels, at.positions_figure, at.curves_figure, at.scaling_figure, at.graph_figure):
        assert {"title", "size", "width_mm", "height_mm", "font_pt", "dpi"} <= set(
            inspect.signature(function).parameters
        )

"""A figure file holds what to draw and gives it back; anything else in it is rejected with an explanation."""

import base64
import dataclasses
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from figure_samples import head_map, site_grid, spec, tokens

from attnscope import FigureOrigin
from attnscope.errors import LoadError, UserError
from attnscope.figures import (
    FigureSpec,
    MapPart,
    MapStyle,
    SavedFigure,
    figure_file_bytes,
    figure_from_bytes,
    read_figure_file,
    render,
    save,
    target_of,
    what_to_keep,
)
from attnscope.figures.views import VIEWS, HeadFigure, panels_figure, panels_of
from attnscope.records import CellMap, Gates, GoldCell, HeadRef, MapTile, RemoveEdge, SelfCheck
from attnscope.viewmodels.maps import Aspect

HEAD = HeadRef(stack="decoder", layer=1, head=0)


def shown(**changes) -> FigureSpec:
    origin = FigureOrigin(
        source="tiny", model="tiny", sha256="ab" * 32, text="to \u2028 be", target="être",
        heads=(HEAD,), aspect=Aspect(hidden="first", is_renormalised=True),
    )  # fmt: skip
    base = spec(
        "lines",
        origin=origin,
        gates=Gates.of({HEAD: 0.5}),
        interventions=(RemoveEdge(head=HEAD, query=1, key=0),),
        style=MapStyle(turn=45, label_every=2, has_bar=False, scale="head", least_weight=0.25),
        font_pt=7.0,
        title="A title",
    )
    both = panels_figure(base, (head_map(), head_map(head=1)), has_lines=True, grids=(site_grid(),))
    return dataclasses.replace(both, **changes)


def test_that_everything_comes_back():
    saved = what_to_keep(shown())
    assert saved.also == ("lines", "grid")
    assert [h.head for h in saved.heads] == [0, 1]
    found = figure_from_bytes(figure_file_bytes(saved))
    assert dataclasses.replace(found, origin=saved.origin) == saved
    assert dataclasses.replace(found.origin, heads=()) == dataclasses.replace(saved.origin, heads=())


def test_that_gold_links_come_back_and_what_is_none_is_refused():
    link = GoldCell(rows=(0, 2), cols=(1, 2), is_sure=False, words=("être", "be"))
    saved = dataclasses.replace(what_to_keep(shown()), view="head", gold=(link,))
    assert figure_from_bytes(figure_file_bytes(saved)).gold == (link,)
    content = json.loads(figure_file_bytes(saved))
    for wrong in ([0, 0, 1, 2, True, "a", "b"], [0, 1, 1, 2, 1, "a", "b"], [0, 1], "x"):
        with pytest.raises(LoadError, match="gold link"):
            figure_from_bytes(json.dumps({**content, "gold": [wrong]}).encode())


def test_that_a_model_beside_the_file_is_named_by_its_path_from_there(tmp_path: Path):
    origin = dataclasses.replace(shown().origin, source=str(tmp_path / "models" / "m"))
    path = save(shown(origin=origin), tmp_path / "page.figure.json")
    assert json.loads(path.read_bytes())["model"]["source"] == "./models/m"
    assert read_figure_file(path).origin.source == str(tmp_path / "models" / "m")
    assert target_of("x.FIGURE.json") == (Path("x.FIGURE.json"), "figure")
    with pytest.raises(UserError, match="not a format"):
        target_of("x.json")


def test_that_a_model_is_found_from_a_folder_above_the_file(tmp_path: Path, monkeypatch):
    place = tmp_path / "paper"
    for folder in (place / "figures" / "new", place / "runs" / "one", place / "demo", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(place)
    for source, found in (("runs/one", str(place / "runs" / "one")), ("demo", "demo")):
        origin = dataclasses.replace(shown().origin, source=source)
        path = save(shown(origin=origin), place / "figures" / "new" / "page.figure.json")
        assert read_figure_file(path).origin.source == source  # from where it was drawn
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert read_figure_file(path).origin.source == found  # a mere name may be a demo model's
        monkeypatch.chdir(place)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 3},
        {"format": 99},
        {"view": "curves"},
        {"holds": "pixels"},
        {"heads": [["decoder", -1, 0]]},
        {"heads": "L0H0"},
        {"text": 3},
        {"gates": [["decoder", 0, 0, "x"]]},
        {"gates": [["decoder", 0, 0, 7.0]]},
        {"interventions": [{"kind": "run"}]},
        {"aspect": {"blend": "median" * 1_000}},
        {"style": {"turn": 30}},
        {"style": {"colour_map": "jet"}},
        {"page": {"dpi": 1.5}},
        {"page": {"width_mm": True}},
        {"model": []},
    ],
    ids=lambda change: str(change)[:60],
)
def test_that_a_file_with_something_wrong_is_refused(change):
    content = json.loads(figure_file_bytes(what_to_keep(shown())))
    with pytest.raises(LoadError, match="cannot be drawn") as caught:
        figure_from_bytes(json.dumps(content | change).encode())
    assert len(str(caught.value)) < 600


def test_that_a_file_of_the_first_format_is_read():
    content = json.loads(figure_file_bytes(what_to_keep(shown())))
    assert content.pop("holds") == "question"
    assert content["format"] == 1
    old = figure_from_bytes(json.dumps(content).encode())
    assert json.loads(render(spec("curves"), "figure"))["format"] == 2
    assert old == figure_from_bytes(figure_file_bytes(what_to_keep(shown())))


@pytest.mark.parametrize(("program", "opened"), [("AttnScope 0.7.0", "grammar"), ("AttnScope 0.9.0", None)])
def test_that_a_figure_of_the_grammar_finds_its_model_under_the_new_name(program: str, opened: str | None):
    content = json.loads(figure_file_bytes(what_to_keep(shown())))
    content["program"], content["model"]["source"] = program, "english-french"
    saved = figure_from_bytes(json.dumps(content).encode())
    assert isinstance(saved, SavedFigure)
    assert saved.origin.source == (opened or "english-french")


def many_panels() -> FigureSpec:
    return panels_of((spec("head"), spec("lines"), spec("grid")), ("one", "", "other"), spec("panels"))


@pytest.mark.parametrize("view", [*VIEWS, "long"])
@pytest.mark.usefixtures("qapp")
def test_that_any_other_figure_is_kept_as_its_numbers(view):
    one = many_panels() if view == "panels" else long_map() if view == "long" else spec(view)
    again = figure_from_bytes(render(one, "figure"))
    assert isinstance(again, FigureSpec)
    for format in ("svg", "csv", "npz"):
        assert render(again, format) == render(one, format), format


def long_map() -> FigureSpec:
    levels = np.arange(16).reshape(4, 4) + 1
    tile = MapTile(head=HEAD, trace=1, rows=(0, 8), cols=(0, 8), b=2, levels=levels, peak=0.5, head_peak=0.6)
    pieces = tokens(*"abcdefgh")
    return HeadFigure(part=MapPart(tile=tile, queries=pieces, keys=pieces))


@pytest.mark.parametrize(
    ("view", "change", "said"),
    [
        ("curves", {"view": "film"}, "is not one of"),
        ("curves", {"charts": []}, "nothing to show"),
        ("curves", {"charts": [{"title": "x"}]}, "missing"),
        ("curves", {"colour": 1}, "'colour' is not known"),
        ("curves", {"width_mm": "NaN"}, "mm wide"),
        ("curves", {"dpi": 1e300}, "whole number"),
        ("picture", {"maps": []}, "nothing to show"),
        ("lab", {"cells": [{"title": "t", "values": [[1.0]]}]}, "not an array"),
        ("difference", {"gates": [[{"stack": "cross", "layer": 0, "head": 0}, 7.0]]}, "gate"),
        ("head", {"gold": [{"rows": [0, 99], "cols": [0, 1], "is_sure": True, "words": ["", ""]}]}, "fit"),
        ("grid", {"selection": [{"stack": "cross", "layer": -1, "head": 0}]}, "below 0"),
    ],
    ids=str,
)
def test_that_numbers_with_something_wrong_are_refused(view, change, said):
    content = json.loads(render(spec(view), "figure"))
    content["figure"] |= change
    with pytest.raises(LoadError, match="cannot be drawn") as caught:
        figure_from_bytes(json.dumps(content).encode())
    assert said in str(caught.value)


def test_that_damaged_and_overfull_arrays_are_refused():
    content = json.loads(render(spec("curves"), "figure"))
    packed = content["figure"]["charts"][0]["series"][0]["xs"]
    bomb = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    for change, said in (
        ({"zlib": "x" * 8}, "damaged"),
        ({"shape": [49]}, "are not"),
        ({"shape": [2**40]}, "over"),
        ({"dtype": "object"}, "not an array"),
        ({"zlib": bomb}, "are not"),
    ):
        content["figure"]["charts"][0]["series"][0]["xs"] = packed | change
        with pytest.raises(LoadError, match=said):
            figure_from_bytes(json.dumps(content).encode())


def test_that_numbers_come_back_to_the_last_bit():
    values = np.array([[np.nan, np.inf, -np.inf], [1e-30, 0.1, -0.0]])
    one = spec("lab", cells=(CellMap(title="t", values=values, limit=2.0),), charts=())
    (cells,) = figure_from_bytes(render(one, "figure")).cells
    assert cells.values.tobytes() == values.tobytes()
    assert not cells.values.flags.writeable


def differing_fields(one, other) -> set[str]:
    fields = {field.name for field in dataclasses.fields(one)}
    return {name for name in fields if getattr(one, name) != getattr(other, name)}


def test_that_a_question_comes_back_with_every_field_other_than_usual():
    plain_origin = FigureOrigin(source="", model="", sha256="", text="")
    origin = FigureOrigin(
        source="m", model="M", sha256="cd" * 32, text="a cat", target="", past_trained=True, heads=(HEAD,),
        aspect=Aspect(blend="mean", over="layer", hidden="special", is_renormalised=True, is_by_word=True,
                      block="ab", rows="read"),
    )  # fmt: skip
    style = MapStyle(
        colour_map="greys", scale="row", show_values=True, least_weight=0.5, n_strongest=3, turn=90,
        label_every=4, has_bar=False, is_plain=True, key_name="K", query_name="Q", font="F", has_badge=True,
        has_special=False,
    )  # fmt: skip
    usual = SavedFigure(origin=plain_origin)
    saved = SavedFigure(
        origin=origin, view="panels", heads=(HEAD,), stack="cross", also=("lines",),
        gates=Gates.of({HEAD: 0.5}), interventions=(RemoveEdge(head=HEAD, query=1, key=0),),
        gold=(GoldCell(rows=(0, 2), cols=(1, 2), is_sure=False, words=("être", "be")),), style=style,
        title="T", has_caption=True, note="n", width_mm=99.5, height_mm=44.25, font_pt=6.5, dpi=123,
        columns=3,
    )  # fmt: skip
    for one, other in (
        (saved, usual),
        (origin, plain_origin),
        (style, MapStyle()),
        (origin.aspect, Aspect()),
    ):
        assert differing_fields(one, other) == {field.name for field in dataclasses.fields(one)}
    assert figure_from_bytes(figure_file_bytes(saved)) == saved
    alone = dataclasses.replace(saved, origin=dataclasses.replace(origin, target=None))
    assert figure_from_bytes(figure_file_bytes(alone)).origin.target is None


def test_that_what_a_trace_cannot_be_asked_for_is_kept_as_numbers_though_its_text_is_known():
    origin = shown().origin
    for view in VIEWS:
        one = spec(view, origin=origin)
        assert (what_to_keep(one) is one) != one.is_asked
        assert one.is_asked or view not in ("grid", "head", "lines", "panels")
    cut = dataclasses.replace(long_map().part, queries=tokens(*"abcdefghijklmnop"))  # of 16 queries 8
    part = dataclasses.replace(long_map(), origin=origin, part=cut)
    assert what_to_keep(part) is part


def test_that_heads_shown_as_one_map_are_asked_for_again_by_their_names():
    heads = (HEAD, HeadRef(stack="decoder", layer=0, head=1))
    origin = dataclasses.replace(shown().origin, heads=heads, aspect=Aspect(blend="mean"))
    one = spec("head", origin=origin, maps=(dataclasses.replace(head_map(), name="mean of 2 heads"),))
    assert what_to_keep(one).heads == heads


def test_that_a_figure_file_is_believed_no_further_than_its_numbers_go():
    good = SelfCheck(row_sum_error=0.0, forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True)
    whole = np.array([[1.0, np.nan], [0.25, 0.75]], dtype=np.float32)
    sink, false = whole * np.float32(0.5), whole * np.float32(6.9)
    one = spec("head")
    tokens_of_two = tokens("a", "b")

    def opened(weights: np.ndarray, **changes) -> SelfCheck | None:
        shown_map = dataclasses.replace(
            one.maps[0], weights=weights, queries=tokens_of_two, keys=tokens_of_two, check=good, **changes
        )
        return figure_from_bytes(render(dataclasses.replace(one, maps=(shown_map,)), "figure")).maps[0].check

    assert opened(whole).badge == "✓ rows sum to 1"
    assert opened(false).badge == "⚠ rows off by 5.9"
    assert opened(-whole).badge.startswith("⚠")
    assert opened(sink) is None
    assert opened(whole, name="mean of 2 heads") is None
    bad = dataclasses.replace(good, output_error=0.5)
    good = bad
    assert opened(whole) == bad

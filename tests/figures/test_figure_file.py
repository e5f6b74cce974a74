"""A figure file holds what to draw and gives it back; anything else in it is refused by name."""

import dataclasses
import json
from pathlib import Path

import pytest
from figure_samples import head_map, site_grid, spec

from attnscope.errors import LoadError, UserError
from attnscope.figures.export import save, target_of
from attnscope.figures.figure_file import (
    figure_file_bytes,
    figure_from_bytes,
    read_figure_file,
    saved_from_spec,
)
from attnscope.figures.panels import panels_figure
from attnscope.figures.spec import FigureOrigin, FigureSpec
from attnscope.figures.style import MapStyle
from attnscope.records.alignment import GoldCell
from attnscope.records.interventions import RemoveEdge
from attnscope.records.sites import Gates, HeadRef
from attnscope.viewmodels.maps.aspect import Aspect

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
    saved = saved_from_spec(shown())
    assert saved.also == ("lines", "grid")
    assert [h.head for h in saved.heads] == [0, 1]
    found = figure_from_bytes(figure_file_bytes(saved))
    assert dataclasses.replace(found, origin=saved.origin) == saved
    assert dataclasses.replace(found.origin, heads=()) == dataclasses.replace(saved.origin, heads=())


def test_that_gold_links_come_back_and_what_is_none_is_refused():
    link = GoldCell(rows=(0, 2), cols=(1, 2), is_sure=False, words=("être", "be"))
    saved = dataclasses.replace(saved_from_spec(shown()), view="head", gold=(link,))
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


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"view": "curves"},
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
    content = json.loads(figure_file_bytes(saved_from_spec(shown())))
    with pytest.raises(LoadError, match="cannot be drawn") as caught:
        figure_from_bytes(json.dumps(content | change).encode())
    assert len(str(caught.value)) < 600


def test_that_figures_of_no_text_cannot_be_kept():
    for one in (spec("curves"), spec("head")):
        with pytest.raises(UserError, match="figure file"):
            saved_from_spec(one)

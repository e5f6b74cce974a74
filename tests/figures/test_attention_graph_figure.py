"""Attention as a graph in figures: where things lie, what its numbers say, that it is kept whole."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from graph_samples import graph
from PySide6.QtCore import QPointF, QRectF

from attnscope import Caption, Figure
from attnscope.figures import (
    FigureSpec,
    caption_lines,
    csv_bytes,
    kept_as_json,
    kept_from_json,
    npz_bytes,
    render,
    sized,
)
from attnscope.figures.views import GraphFigure, graph_layout, inputs_share_words
from attnscope.records import Token

RECT = QRectF(0, 0, 400, 200)
pytestmark = pytest.mark.usefixtures("qapp")


def spec() -> FigureSpec:
    return GraphFigure(graph=graph(), caption=Caption(model="tiny"))


def test_that_inputs_stand_left_and_the_output_right_in_the_rows_of_their_tokens() -> None:

    layout = graph_layout(RECT, graph())
    xs, ys = [p.x() for p in layout.nodes], [p.y() for p in layout.nodes]
    assert xs[0] > xs[1] == xs[2] > xs[3] == xs[4] > layout.label_right
    assert ys[0] == ys[2] == ys[4] > ys[1] == ys[3]
    assert [row.is_output for row in layout.rows] == [False, True]
    assert [column.name for column in layout.columns] == ["in", "L0", "L1"]
    assert all(RECT.contains(place) for place in layout.nodes)
    # a circle's area is its share, a line's thickness what it carries
    assert layout.radii[2] / layout.radii[0] == pytest.approx(math.sqrt(0.75))
    assert layout.widths[1] / layout.widths[0] == pytest.approx(3.0)
    assert layout.node_at(layout.nodes[3] + QPointF(2, 2)) == 3
    assert layout.node_at(QPointF(0, 0)) is None


def test_that_circles_and_lines_stay_within_low_rows() -> None:
    layout = graph_layout(QRectF(0, 0, 400, 20.0 + 2 * 10.0), graph(), most_label_px=15.0)
    assert layout.rows[1].y - layout.rows[0].y == pytest.approx(10.0)
    assert (layout.radii[0], layout.widths[1]) == pytest.approx((4.5, 0.75 * 4.0))
    assert layout.label_px == 15.0
    assert inputs_share_words(replace(graph(), kept_share=0.254)) == "Inputs shown: 25\u00a0% of the output."


def test_that_two_texts_stand_one_above_the_other() -> None:

    one = graph()
    levels = ("encoder input", "decoder input", "cross 0")
    nodes = tuple(replace(node, level=(2, 0, 1, 0, 1)[i]) for i, node in enumerate(one.nodes[:3]))
    layout = graph_layout(RECT, replace(one, levels=levels, nodes=nodes, edges=one.edges[:2]))
    assert [row.title for row in layout.rows] == ["source", "", "target so far", ""]
    assert [column.name for column in layout.columns] == ["in", "in", "×0"]
    assert layout.nodes[1].y() < layout.nodes[0].y() == layout.nodes[2].y()


def test_that_its_numbers_are_the_edges_with_what_they_carry() -> None:
    header, *rows = csv.reader(io.StringIO(csv_bytes(spec()).decode()))
    assert header == ["from level", "position", "token", "to level", "position", "token", "weight", "carried"]
    assert rows[0] == ["decoder 0", "0", "cat", "decoder 1", "1", "'=sat", "0.25", "0.25"]
    assert [float(row[-1]) for row in rows] == [0.25, 0.75, 0.25, 0.75]
    arrays = np.load(io.BytesIO(npz_bytes(spec())))
    np.testing.assert_array_equal(arrays["lower"], [1, 2, 3, 4])
    np.testing.assert_allclose(arrays["influence"], [1.0, 0.25, 0.75, 0.25, 0.75])
    np.testing.assert_allclose(arrays["carried"], [0.25, 0.75, 0.25, 0.75])


def test_that_it_is_kept_whole_and_no_other_numbers_are_drawn() -> None:
    kept = json.loads(json.dumps(kept_as_json(spec())))
    assert kept_from_json(kept) == spec()
    for place, wrong in (("influence", "NaN"), ("influence", 7.0), ("position", -1), ("level", 9)):
        broken = json.loads(json.dumps(kept))
        broken["graph"]["nodes"][1][place] = wrong
        with pytest.raises(ValueError, match=r"fit together|not there|level that does not exist"):
            kept_from_json(broken)


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
def test_that_long_pieces_and_many_levels_fit_the_column_of_a_journal(format: str) -> None:
    one = graph()
    long = Token(id=7, piece="Donaudampfschifffahrtsgesellschaftskapitänsmütze")
    levels = ("encoder input", *(f"encoder {i}" for i in range(24)))
    nodes = tuple(replace(node, token=long, level=24 - i) for i, node in enumerate(one.nodes))
    wide = replace(one, levels=levels, nodes=nodes)
    drawn = Figure(sized(replace(spec(), graph=wide), preset="single"))
    assert len(render(drawn.spec, format)) > 1000
    layout = graph_layout(QRectF(0, 0, 320, 200), wide)
    assert all(0 < place.x() < 320 for place in layout.nodes)
    named = [column.name for column in layout.columns if column.name]
    assert named[-1] == "L23"
    assert len(named) < 25


def test_that_the_caption_says_where_it_starts() -> None:
    assert any("from “=sat” at decoder 1 down to the inputs" in line for line in caption_lines(spec()))

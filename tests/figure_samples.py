"""Small records for the tests of figures: everything from ramps, nothing from a model."""

import math

import numpy as np
from graph_samples import graph
from inside_samples import inside

from attnscope import Caption
from attnscope.figures import FigureSpec, Wanted
from attnscope.figures.views import VIEWS, InsidePart, PicturePart
from attnscope.records import (
    NO_GATES,
    CellMap,
    Chart,
    HeadMap,
    HeadRef,
    NumberTable,
    Picture,
    PositionCheck,
    PositionTable,
    Series,
    Site,
    SiteGrid,
    Token,
)
from attnscope.viewmodels.compare import ComparedMaps, align_tokens, compare_maps


def tokens(*pieces: str) -> tuple[Token, ...]:
    """Tokens of these pieces; `~` marks a continuation, `<…>` a special token."""
    return tuple(
        Token(
            id=i,
            piece=piece.removeprefix("~"),
            joins_previous=piece.startswith("~"),
            is_special=piece.startswith("<") and piece.endswith(">"),
        )
        for i, piece in enumerate(pieces)
    )


def ramp_weights(n_queries: int, n_keys: int, *, is_causal: bool = False) -> np.ndarray:
    """Rows that sum to 1, every weight different, NaN above the diagonal when causal."""
    weights = np.arange(1, n_queries * n_keys + 1, dtype=np.float64).reshape(n_queries, n_keys) % 17 + 1
    if is_causal:
        weights[~np.tri(n_queries, n_keys, dtype=bool)] = np.nan
    return (weights / np.nansum(weights, axis=1, keepdims=True)).astype(np.float32)


def head_map(n_queries: int = 4, n_keys: int = 5, *, is_causal: bool = False, head: int = 0) -> HeadMap:
    return HeadMap(
        head=HeadRef(stack="decoder", layer=1, head=head),
        queries=tokens(*(f"q{i}" for i in range(n_queries))),
        keys=tokens(*(f"k{i}" for i in range(n_keys))),
        weights=ramp_weights(n_queries, n_keys, is_causal=is_causal),
    )


def site_grid(layer: int = 0, n_heads: int = 3, n: int = 8) -> SiteGrid:
    levels = (np.arange(n_heads * n * n).reshape(n_heads, n, n) * 7 % 254 + 1).astype(np.uint8)
    levels[:, ~np.tri(n, dtype=bool)] = 0
    return SiteGrid(
        site=Site(stack="decoder", layer=layer, n_heads=n_heads, n_kv_heads=n_heads),
        n_queries=n,
        n_keys=n,
        levels=levels,
        peaks=np.linspace(0.5, 1.0, n_heads),
    )


def position_table(name: str = "ramp", n: int = 12, d: int = 6) -> PositionTable:
    matrix = np.sin(np.arange(n * d, dtype=np.float64).reshape(n, d))
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    cosine = unit @ unit.T
    by_offset = np.array([np.diagonal(cosine, i).mean() for i in range(n)])
    return PositionTable(
        name=name, matrix=matrix, cosine=cosine, by_offset=by_offset, dot_by_offset=by_offset * 3
    )


def position_check(name: str = "sinusoidal", past_change: float = 0.0) -> PositionCheck:
    return PositionCheck(
        name=name, title=name.title(), seed_change=0.0, least_apart=0.5, past_change=past_change,
        by_distance=0.19, shift_error=4e-8, shift=np.eye(2, dtype=np.float32), n_parameters=0,
    )  # fmt: skip


def compared_maps(n_first: int = 4, n_second: int = 5) -> ComparedMaps:
    """Two causal heads whose texts differ by replaced and by added tokens."""
    sides = [
        HeadMap(
            head=HeadRef(stack="decoder", layer=1, head=2),
            queries=tokens(*pieces[:n]),
            keys=tokens(*pieces[:n]),
            weights=ramp_weights(n, n, is_causal=True),
        )
        for n, pieces in (
            (n_first, ("<s>", "the", "cat", "sat")),
            (n_second, ("<s>", "the", "dog", "sat", "down")),
        )
    ]
    aligned = align_tokens(sides[0].queries, sides[1].queries)
    return compare_maps(sides[0], sides[1], aligned, aligned, names=("A · one", "B · other"))


def chart(name: str = "training") -> Chart:
    xs = np.arange(50.0)
    ys = np.exp(-xs / 20) + 1
    return Chart(title="Loss", x_label="step", y_label="nats", series=(Series(name=name, xs=xs, ys=ys),))


def lab_charts() -> tuple[Chart, ...]:
    """Points, stems and a mark, on a logarithmic x axis."""
    xs = np.array([1.0, 10.0, 100.0])
    series = (
        Series(name="points", xs=xs, ys=xs, style="points"),
        Series(name="stems", xs=xs, ys=xs / 2, style="stems", colour=1),
    )
    return (
        Chart(title="Lab", x_label="d", y_label="", series=series, is_log_x=True, marks=((10.0, "here"),)),
    )


def lab_cells() -> tuple[CellMap, ...]:
    """A small map of each kind; one cell of each is not allowed."""
    values = np.array([[1.0, 2.0], [2.0, np.nan]])
    return (
        CellMap(title="kinds", values=values, kind="kinds", legend=("near", "far", "not allowed")),
        CellMap(title="steps", values=values, kind="steps", limit=2.0, legend=("never",)),
        CellMap(title="signed", values=-values, kind="signed", limit=2.0, legend=("none",)),
        CellMap(title="weights", values=values / 2, rows=("a", "b"), columns=("c", "d"), has_numbers=True),
    )


def picture_part() -> PicturePart:
    """Four patches and one token before them."""
    pixels = (np.arange(64 * 3).reshape(8, 8, 3)).astype(np.uint8)
    picture = Picture(text="ramp.png", pixels=pixels, n_rows=2, n_columns=2, n_first=1)
    return PicturePart(picture=picture, query=3)


def spec(view: str, **changes: object) -> FigureSpec:
    """A figure of this view with something to show."""
    page = {
        "caption": Caption(model="tiny", sha256="0123456789abcdef", text="to be"),
        "width_mm": 100.0,
        "height_mm": 90.0,
        "dpi": 96,
    }
    shown = _shown(view)
    if not shown:
        return VIEWS[view].of_trace(Wanted(trace=SampleTrace()), **{**page, **changes})  # type: ignore[arg-type]
    return VIEWS[view](**{**page, **shown, **changes})  # type: ignore[arg-type]


class SampleTrace:
    """A trace of one site, for views of a trace that have no case here."""

    source, target, gates, interventions = None, None, NO_GATES, ()
    sites = (site_grid().site,)

    def tokens(self, site):
        return head_map().queries, head_map().keys

    def grid(self, site, max_px=96):
        return site_grid()

    def head_map(self, head):
        return head_map(head=head.head)


def _shown(view: str) -> dict[str, object]:
    two_maps = (head_map(), head_map(head=1))
    match view:
        case "grid":
            return {"grids": (site_grid(0), site_grid(1))}
        case "head" | "lines":
            return {"maps": two_maps}
        case "picture":
            return {"maps": (head_map(5, 5),), "picture": picture_part()}
        case "positions":
            return {"positions": (position_table(), position_table("other"))}
        case "waves":
            return {"positions": (position_table(),), "dimensions": (0, 2)}
        case "checklist":
            names = ("sinusoidal", "rotary", "binary", "t5")
            checks = (*map(position_check, names), position_check("learned", math.nan))
            return {"checks": checks, "width_mm": 150.0}
        case "answer":
            table = NumberTable(
                title="All", columns=("part", "norm"), rows=(("0 attention", 1.5), ("=1", 2.0))
            )
            return {"charts": (chart(), *lab_charts()), "cells": lab_cells()[3:], "tables": (table,)}
        case "difference":
            return {"compared": compared_maps()}
        case "curves":
            return {"charts": (chart(), chart("rate"))}
        case "lab":
            return {"charts": lab_charts(), "cells": lab_cells()}
        case "graph":
            return {"graph": graph()}
        case "inside":
            return {"inside": InsidePart(inside=inside(), row=0)}
        case "panels":
            return {"panels": (spec("head"), spec("lines"), spec("grid"))}
        case _:
            return {}

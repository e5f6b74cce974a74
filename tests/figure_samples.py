"""Small records for the tests of figures: everything from ramps, nothing from a model."""

import numpy as np

from attnscope.figures.spec import Caption, Chart, FigureSpec, Series
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.positions import PositionTable
from attnscope.records.sites import HeadRef, Site
from attnscope.records.tokens import Token


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


def chart(name: str = "training") -> Chart:
    xs = np.arange(50.0)
    ys = np.exp(-xs / 20) + 1
    return Chart(title="Loss", x_label="step", y_label="nats", series=(Series(name=name, xs=xs, ys=ys),))


def spec(view: str, **changes: object) -> FigureSpec:
    """A figure of this view with something to show."""
    values: dict[str, object] = {
        "view": view,
        "grids": (site_grid(0), site_grid(1)) if view == "grid" else (),
        "maps": (head_map(), head_map(head=1)) if view in ("head", "lines") else (),
        "positions": (position_table(), position_table("other")) if view == "positions" else (),
        "charts": (chart(), chart("rate")) if view == "curves" else (),
        "caption": Caption(model="tiny", sha256="0123456789abcdef", text="to be"),
        "width_mm": 100.0,
        "height_mm": 90.0,
        "dpi": 96,
    }
    return FigureSpec(**{**values, **changes})  # type: ignore[arg-type]

"""A figure's accompanying data: its caption, enough to make it again, and its numbers.

The numbers are CSV for people and NPZ for programs; for views of whole maps they are those of the maps.
"""

import csv
import importlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import few_listed
from attnscope.figures.spec import (
    Caption,
    FigureSpec,
    common_peak,
    lettered_maps,
    shown_maps,
    without_special,
)
from attnscope.figures.style import plain_text, shorten
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import Gates
from attnscope.records.tokens import COPYABLE, UNKNOWN_PIECES, Token
from attnscope.viewmodels.maps.aspect import even_words

_SCALE_WORDS = {"fixed": "0–{:.3g}", "head": "to each head's maximum", "row": "to each row's maximum"}
_MAX_TEXT = 400


def caption_of(model: ModelInfo, traced: Traced, note: str = "") -> Caption:
    """The caption for a model's result on a text."""
    return Caption(
        model=model.name,
        sha256=model.sha256,
        text=traced.source.read_text,
        target=traced.target_text,
        step=traced.step,
        note=note,
    )


def caption_lines(spec: FigureSpec) -> tuple[str, ...]:
    """The caption as lines of plain text; empty if the figure has none."""
    caption = spec.caption
    if caption is None:
        return ()
    model = plain_text(caption.model)
    if caption.sha256:
        model += f" (sha256 {plain_text(caption.sha256)[:12]})"
    if caption.step is not None:
        model += f", step {caption.step:,}"
    parts = (
        ("Model", model),
        (spec.text_name, quoted(caption.text)),
        ("Target", quoted(caption.target or "")),
        ("Role", plain_text(caption.role)),
        ("Shown", " · ".join(spec.shown_words())),
        ("Note", "; ".join(filter(None, (plain_text(caption.note), *_remarks(spec))))),
    )
    lines = [f"{name}: {value}" for name, value in parts if value]
    return (*lines, f"AttnScope {program_version()}")


def wrong_words(spec: FigureSpec) -> str:
    """The worst fault that the self-check found in a figure's maps; empty if none."""
    wrong = (check for check in spec.site_checks() if not check.is_good)
    worst = max(wrong, key=lambda check: check.worst, default=None)
    if worst is None:
        return ""
    return f"⚠ {worst.sentence}" if worst.where else worst.badge


def _remarks(spec: FigureSpec) -> Iterator[str]:
    """Remarks on anything surprising: a uniform colour, letters over a dashed line."""
    yield evenness(spec)
    own = {t.piece: None for m in shown_maps(spec) for t in (*m.queries, *m.keys) if t.own}
    pieces = [piece for piece in own if piece in UNKNOWN_PIECES]
    yield f"over a dashed line: unknown, read as {', '.join(pieces)}" if pieces else ""
    yield f"over a dotted line: {COPYABLE}" if len(pieces) < len(own) else ""


def evenness(spec: FigureSpec) -> str:
    """Note that the scale up to 1 shows all maps in one colour; empty if it does not."""
    if not spec.tells_evenness or spec.style.scale != "fixed":
        return ""
    words = [even_words(head_map) for head_map in shown_maps(spec)]
    return words[0] if words and all(words) else ""


def program_version() -> str:
    """The version of the program that painted the figure."""
    # Asked for by name: the package's root also names the engine, which figures must not import.
    return str(importlib.import_module("attnscope").__version__)


def mask_words(maps: tuple[HeadMap, ...]) -> str:
    """The mask in a word, according to the maps: none, causal, or partial."""
    words = {_mask_of(head_map) for head_map in maps}
    return words.pop() if len(words) == 1 else "mixed" if words else ""


def gate_words(gates: Gates) -> str:
    """The gates that are not at 1, in words."""
    if not gates:
        return "all heads on"
    shown = [f"{h.stack} {h.label} {'off' if v == 0 else f'× {v:g}'}" for h, v in gates.values]
    return f"gates {few_listed(shown, 12)}"


def _mask_of(head_map: HeadMap) -> str:
    is_forbidden = np.isnan(head_map.weights)
    if not is_forbidden.any():
        return "none"
    n_queries, n_keys = is_forbidden.shape
    return "causal" if np.array_equal(is_forbidden, ~np.tri(n_queries, n_keys, dtype=bool)) else "partial"


def scale_words(spec: FigureSpec) -> str:
    """Meaning of the colour bar's ends; of a sum of heads over 1."""
    return f"scale {_SCALE_WORDS[spec.style.scale].format(common_peak(spec))}, {spec.style.colour_map}"


def change_words(gates: Gates, interventions: Interventions) -> list[str]:
    """The gates, and other changes of heads, in words."""
    words = [change.sentence for change in interventions]
    changes = ["changed " + "; ".join(words[:4]) + (" …" if len(words) > 4 else "")] if words else []
    return [gate_words(gates), *changes]


def quoted(text: str) -> str:
    """The text in quotation marks, made safe to draw; empty for no text."""
    return f"“{shorten(plain_text(text), _MAX_TEXT)}”" if text else ""


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(spec: FigureSpec) -> bytes:
    """The figure's numbers as a UTF-8 table, one number a row, with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(spec.rows())
    return stream.getvalue().encode("utf-8", "replace")


def first_lines(spec: FigureSpec, format: str, n_lines: int) -> tuple[str, ...]:
    """The first lines of the table, or the names and shapes of the arrays, for a preview before saving."""
    if format == "npz":
        shapes = ((name, " × ".join(map(str, a.shape)) or "1") for name, a in spec.arrays().items())
        lines = [f"{name}  [{shape}]" for name, shape in shapes]
    else:
        lines = [", ".join(row) for row in itertools.islice(spec.rows(), n_lines + 1)]
    return (*lines[:n_lines], "…") if len(lines) > n_lines else tuple(lines)


def npz_bytes(spec: FigureSpec) -> bytes:
    """The figure's arrays under names such as `encoder_L0H3`, without pickles."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **spec.arrays())
    return stream.getvalue()


def safe_cell(text: str) -> str:
    """Text for a table's cell: nothing invisible, and never evaluated as a formula."""
    shown = plain_text(text) if not text.startswith(_FORMULA_STARTS[-2:]) else text
    is_formula = shown.startswith(_FORMULA_STARTS)
    return "'" + plain_text(shown) if is_formula else shown


def exact_number_text(value: float) -> str:
    """Nine digits, which restore a float32; counts, such as tokens read, have all their digits."""
    if not np.isfinite(value):
        return ""
    is_whole = 1e9 <= abs(value) < 2**53 and value == np.round(value)
    return f"{value:.0f}" if is_whole else f"{value:.9g}"


def map_rows(spec: FigureSpec) -> Iterator[Iterable[str]]:
    """One row for each weight of every map of a figure, with its panel if heads are ambiguous."""
    shown = lettered_maps(spec)
    panel = ("panel",) if any(letter for letter, _, _ in shown) else ()
    has_written = any(_writes(head_map) for _, _, head_map in shown)
    yield (*panel, *cell_header(has_written=has_written), "weight")
    for letter, _, head_map in shown:
        rows = weight_rows(head_map, has_written=has_written)
        yield from ((*((letter,) if panel else ()), *row) for row in rows)


def cell_header(*, has_written: bool = False) -> tuple[str, ...]:
    """The names of a cell's columns; a row may be named after what is generated there."""
    written = ("written token",) if has_written else ()
    return ("stack", "layer", "head", "query", "query token", *written, "key", "key token")


def _writes(head_map: HeadMap) -> bool:
    """Whether the rows are named after what is generated there."""
    return any(query.read for query in head_map.queries)


def weight_rows(
    head_map: HeadMap, only: int | None = None, *, has_written: bool = False
) -> Iterator[Iterable[str]]:
    """One row for each weight; the query's token is the one that was read."""
    head = head_map.head
    number = head_map.name or str(head.head)
    for i, query in enumerate(head_map.queries):
        written = (safe_cell(query.piece if query.read else ""),) if has_written else ()
        for j, key in enumerate(head_map.keys if only in (None, i) else ()):
            names = (str(i), safe_cell(query.read or query.piece), *written, str(j), safe_cell(key.piece))
            yield (head.stack, str(head.layer), number, *names, exact_number_text(head_map.weights[i, j]))


def map_arrays(spec: FigureSpec) -> dict[str, NDArray[np.generic]]:
    """The weights of every map of a figure, and the tokens of its rows and columns."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for letter, _, head_map in lettered_maps(spec):
        label = head_map.name.replace(" ", "_") or head_map.head.label
        name = "_".join(filter(None, (letter, head_map.head.stack, label)))
        arrays[name] = head_map.weights
        arrays |= token_arrays(name, head_map.queries, head_map.keys)
    return arrays


def token_arrays(
    name: str, queries: tuple[Token, ...], keys: tuple[Token, ...]
) -> dict[str, NDArray[np.generic]]:
    """Tokens read at the rows of a map, the tokens written there if different, and its columns."""
    written = {f"{name}_written": _pieces(queries)} if any(query.read for query in queries) else {}
    read = np.array([query.read or query.piece for query in queries], dtype=np.str_)
    return {f"{name}_queries": read, **written, f"{name}_keys": _pieces(keys)}


def _pieces(tokens: tuple[Token, ...]) -> NDArray[np.generic]:
    return np.array([token.piece for token in tokens], dtype=np.str_)


_MOST_TOKENS_IN_COLUMN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MapsFigure(FigureSpec):
    """Maps of heads, cell by cell."""

    maps: tuple[HeadMap, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.maps

    def held_maps(self) -> tuple[HeadMap, ...]:
        return self.maps

    def mapped(self, change: Callable[[HeadMap], HeadMap]) -> Self:
        return replace(self, maps=tuple(map(change, self.maps)))

    def without_special(self) -> Self:
        return self.mapped(without_special)

    def rows(self) -> Iterator[Iterable[str]]:
        return map_rows(self)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return map_arrays(self)

    def name_parts(self) -> list[str]:
        maps = shown_maps(self)
        return [*dict.fromkeys(m.head.stack for m in maps), *(m.head.label for m in maps[:3])]


def heads_words(maps: tuple[HeadMap, ...]) -> list[str]:
    """The heads of maps by name, their mask in a word, and how the first was processed."""
    names = [f"{m.head.stack} {m.name or m.head.label}" for m in maps[:12]]
    plural = "head" if len(maps) == 1 else "heads"
    words = [f"{plural} {', '.join(names)}" + (" …" if len(maps) > 12 else "")]
    words += [] if any(one.is_partial for one in maps) else [f"mask {mask_words(maps)}"]
    return words + ([maps[0].note] if maps[0].note else [])


def are_short(maps: tuple[HeadMap, ...]) -> bool:
    """Whether maps fit into one column of a journal."""
    n_tokens = max((max(len(m.queries), len(m.keys)) for m in maps), default=0)
    return 0 < n_tokens <= _MOST_TOKENS_IN_COLUMN

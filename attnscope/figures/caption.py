"""The caption block of a figure: everything a reader needs to make the same picture again."""

import importlib
from collections.abc import Iterator

import numpy as np

from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.shown_maps import common_peak, shown_maps
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import Gates
from attnscope.records.tokens import COPYABLE, UNKNOWN_PIECES
from attnscope.viewmodels.maps.evenness import even_words

_SCALE_WORDS = {"fixed": "0–{:.3g}", "head": "to each head's maximum", "row": "to each row's maximum"}
_MAX_TEXT = 400


def caption_of(model: ModelInfo, traced: Traced, note: str = "") -> Caption:
    """The caption of what a model gave on a text."""
    return Caption(
        model=model.name,
        sha256=model.sha256,
        text=traced.source.read_text,
        target=traced.target_text,
        step=traced.step,
        note=note,
    )


def caption_lines(spec: FigureSpec) -> tuple[str, ...]:
    """The caption as lines of plain text; empty when the figure has none."""
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


def _remarks(spec: FigureSpec) -> Iterator[str]:
    """What a reader may wonder at: one colour all over, and letters over a dashed line."""
    yield evenness(spec)
    own = {t.piece: None for m in shown_maps(spec) for t in (*m.queries, *m.keys) if t.own}
    pieces = [piece for piece in own if piece in UNKNOWN_PIECES]
    yield f"over a dashed line: unknown, read as {', '.join(pieces)}" if pieces else ""
    yield f"over a dotted line: {COPYABLE}" if len(pieces) < len(own) else ""


def evenness(spec: FigureSpec) -> str:
    """That the scale up to 1 shows all maps in one colour; empty where it does not."""
    if not spec.tells_evenness or spec.style.scale != "fixed":
        return ""
    words = [even_words(head_map) for head_map in shown_maps(spec)]
    return words[0] if words and all(words) else ""


def program_version() -> str:
    """The version of the program that painted the figure."""
    # Asked for by name: the package's root also names the engine, which figures must not import.
    return str(importlib.import_module("attnscope").__version__)


def mask_words(maps: tuple[HeadMap, ...]) -> str:
    """The mask in a word, as the maps show it: none, causal, or partial."""
    words = {_mask_of(head_map) for head_map in maps}
    return words.pop() if len(words) == 1 else "mixed" if words else ""


def gate_words(gates: Gates) -> str:
    """The gates that are not at 1, in words."""
    if not gates:
        return "all heads on"
    shown = [f"{h.stack} {h.label} {'off' if v == 0 else f'× {v:g}'}" for h, v in gates.values[:12]]
    more = len(gates.values) - len(shown)
    return "gates " + ", ".join(shown) + (f" and {more} more" if more else "")


def _mask_of(head_map: HeadMap) -> str:
    is_forbidden = np.isnan(head_map.weights)
    if not is_forbidden.any():
        return "none"
    n_queries, n_keys = is_forbidden.shape
    return "causal" if np.array_equal(is_forbidden, ~np.tri(n_queries, n_keys, dtype=bool)) else "partial"


def scale_words(spec: FigureSpec) -> str:
    """What the ends of the colours stand for; of a sum of heads over 1."""
    return f"scale {_SCALE_WORDS[spec.style.scale].format(common_peak(spec))}, {spec.style.colour_map}"


def change_words(gates: Gates, interventions: Interventions) -> list[str]:
    """The gates, and what else is changed of heads."""
    words = [change.sentence for change in interventions]
    changes = ["changed " + "; ".join(words[:4]) + (" …" if len(words) > 4 else "")] if words else []
    return [gate_words(gates), *changes]


def quoted(text: str) -> str:
    """The text in quotation marks, made safe to draw; nothing of no text."""
    return f"“{shorten(plain_text(text), _MAX_TEXT)}”" if text else ""

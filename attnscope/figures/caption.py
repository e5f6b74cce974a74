"""The caption block of a figure: everything a reader needs to make the same picture again."""

import importlib

import numpy as np

from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.spec import FigureSpec
from attnscope.records.maps import HeadMap
from attnscope.records.sites import Gates

_SCALE_WORDS = {"fixed": "0–1", "head": "to each head's maximum", "row": "to each row's maximum"}
_MAX_TEXT = 400


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
        ("Text", _quoted(caption.text)),
        ("Target", _quoted(caption.target or "")),
        ("Shown", _shown(spec)),
        ("Note", plain_text(caption.note)),
    )
    lines = [f"{name}: {value}" for name, value in parts if value]
    return (*lines, f"AttnScope {program_version()}")


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
        return "none"
    shown = [f"{h.stack} {h.label} {'off' if v == 0 else f'× {v:g}'}" for h, v in gates.values[:12]]
    more = len(gates.values) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _mask_of(head_map: HeadMap) -> str:
    is_forbidden = np.isnan(head_map.weights)
    if not is_forbidden.any():
        return "none"
    n_queries, n_keys = is_forbidden.shape
    return "causal" if np.array_equal(is_forbidden, ~np.tri(n_queries, n_keys, dtype=bool)) else "partial"


def _shown(spec: FigureSpec) -> str:
    parts = []
    if spec.view in ("head", "lines"):
        maps = spec.maps[:1] if spec.view == "head" else spec.maps
        names = [f"{m.head.stack} {m.head.label}" for m in maps[:12]]
        parts.append(
            f"{'head' if len(maps) == 1 else 'heads'} {', '.join(names)}" + (" …" if len(maps) > 12 else "")
        )
        parts.append(f"mask {mask_words(maps)}")
    if spec.view == "grid":
        stacks = dict.fromkeys(grid.site.stack for grid in spec.grids)
        parts.append(f"all heads, {' and '.join(stacks)}")
        if any(grid.is_pooled for grid in spec.grids):
            parts.append("each pixel the largest of its weights")
    if spec.view in ("grid", "head"):
        parts.append(f"scale {_SCALE_WORDS[spec.style.scale]}, {spec.style.colour_map}")
    if spec.view in ("grid", "head", "lines"):
        parts.append(f"gates {gate_words(spec.gates)}")
    return " · ".join(parts)


def _quoted(text: str) -> str:
    return f"“{shorten(plain_text(text), _MAX_TEXT)}”" if text else ""

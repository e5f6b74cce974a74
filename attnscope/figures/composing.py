"""`attnscope.panels(figures, …)`: figures of several heads, texts or models as the panels of one page."""

from collections.abc import Iterable, Sequence
from typing import Unpack

from attnscope.counting import plural, there_are
from attnscope.errors import UserError, of_wrong_kind
from attnscope.figures.caption import gate_words
from attnscope.figures.figure import Figure, ensure_gui, on_page
from attnscope.figures.page import PaperOptions
from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.views.head import HeadFigure
from attnscope.figures.views.panels import PanelsFigure, panels_of
from attnscope.options import spelled_out

_TITLE = 60


@spelled_out
def panels(
    figures: Sequence[Figure],
    *,
    titles: Sequence[str] = (),
    columns: int = 0,
    title: str = "",
    caption: Caption | None = None,
    **paper: Unpack[PaperOptions],
) -> Figure:
    """Figures of one head, of lines or of a grid as the panels a, b, c … of one page, on one scale.

    They may show several stacks, texts and models. `titles` are printed beside the letters; without them, the
    model and the texts are, where the figures' captions (or origins) show that they differ. `columns` is the
    number of panels side by side (0: as many as suit the page). Colours and labels are those of the first
    figure; the page is as in `attnscope.figure`.
    Raises UserError, naming the panel, for a figure that cannot be a panel, and for more than 12 panels.
    """
    for panel in figures if isinstance(figures, Iterable) else (figures,):
        if not isinstance(panel, Figure):
            raise of_wrong_kind(panel, "a panel", "a list of figures", "Draw it: attnscope.figure(trace, …).")
    parts = [made.spec for made in figures]
    if not parts:
        raise UserError("There is no figure to make a panel of.", expected="at least one figure")
    if titles and len(titles) != len(parts):
        raise UserError(
            f"{there_are(len(titles), 'title')} for {plural(len(parts), 'panel')}.",
            expected="one for each, or none",
            action="Give an empty text for a panel that needs none.",
        )
    base = PanelsFigure(style=parts[0].style, caption=caption, columns=columns)
    ensure_gui()
    page = panels_of(parts, titles or telling_titles(parts), base)
    return on_page(page, title=title, has_caption=True, **paper)


def telling_titles(parts: Sequence[FigureSpec]) -> tuple[str, ...]:
    """What tells the figures apart: of model, text, second text and gates those that are not the same in all.

    A second text that goes with its model and text, as what a model writes does, tells nothing more.
    """
    abouts = [_about(part) for part in parts]
    differing = [k for k in range(4) if len({about[k] for about in abouts}) > 1]
    if len({about[:2] for about in abouts}) == len({about[:3] for about in abouts}):
        differing = [k for k in differing if k != 2]
    return tuple(" · ".join(filter(None, (about[k] for k in differing))) for about in abouts)


def joint_caption(captions: Sequence[Caption]) -> Caption:
    """One caption for all panels: what they share once, their models by name and hash, their notes."""
    models = list(dict.fromkeys((one.model, one.sha256) for one in captions))
    is_one = len(models) == 1
    named = "; ".join(f"{name} (sha256 {sha256[:12]})" if sha256 else name for name, sha256 in models)
    texts, targets = ({getattr(one, name) for one in captions} for name in ("text", "target"))
    return Caption(
        model=models[0][0] if is_one else named,
        sha256=models[0][1] if is_one else "",
        text=texts.pop() if len(texts) == 1 else "",
        target=targets.pop() if len(targets) == 1 else None,
        note="; ".join(dict.fromkeys(one.note for one in captions if one.note)),
    )


def _about(part: FigureSpec) -> tuple[str, str, str, str]:
    """Model, text, second text and gates of a figure, as far as it says; a head's own gate stands by it."""
    said = part.caption or part.origin or Caption()
    text, target = (shorten(plain_text(words), _TITLE) for words in (said.text, said.target or ""))
    drawn = {head_map.head for head_map in part.held_maps()}
    is_own = isinstance(part, HeadFigure) and {head for head, _ in part.gates.values} <= drawn
    gates = gate_words(part.gates) if part.gates and not is_own else ""
    return (plain_text(said.model), text and f"“{text}”", target and f"→ “{target}”", gates)

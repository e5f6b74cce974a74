"""`attnscope figure … --panel WHAT --panel WHAT`: heads of several stacks, texts and models on one page.

A panel is written as people name it: `L0H1`, `cross L1H0`, `lines cross L0H0,L0H1` or `grid encoder`, and
after ` | ` what it does not share with the others: `cross L1H0 | text=the black dog | model=english-german`.
"""

import argparse
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from attnscope.cli.figure_building import LABELS, build_caption, labelled_heads
from attnscope.cli.figure_options import looks_of, paper_of
from attnscope.cli.given import flag_of, given_options
from attnscope.cli.inputs import load_and_trace, parse_stack
from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption
    from attnscope.models import Model
    from attnscope.records.sites import HeadRef, Site, Stack
    from attnscope.trace import Trace

OWN = ("model", "text", "target", "gate", "title")
EXAMPLES = """\
panels of several stacks, texts and models:
  --panel WHAT makes panel a, the next one b, and so on to l. WHAT is a head (L0H1, or cross L1H0 where a
  model has several stacks), "lines cross L0H0,L0H1" or "grid encoder"; after a | come the panel's
  own settings in place of MODEL, --text, --target and --gate: model=, text=, target=, gate= and title=, with
  a | before each.

  attnscope figure grammar --text "the white cat sleeps" --columns 3 -o page.pdf \\
      --panel "encoder L0H1" --panel "cross L1H0" --panel "cross L1H0 | text=the black dog sleeps"
"""
_NOT_WITH = (
    "head", "layer", "stack", "also", "each", "overwrite", "query", "encodings", "mask", "mask_rows",
    "with_model", "with_text", "with_target", "with_gate", "with_stack", "align", "delta_end",
)  # fmt: skip
_OWN = re.compile(rf"\s*\|\s*(?=(?:{'|'.join(OWN)})\s*=)")
_KIND = re.compile(r"(?:(lines|grid)\b)?\s*(.*)", re.DOTALL)
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelWish:
    """One panel: its letter, view and heads (or stack) as written, and what is its own."""

    letter: str
    words: str
    view: str
    shown: str
    own: dict[str, str] = field(default_factory=dict)

    def tell(self, make: Callable[[], _Made]) -> _Made:
        """What `make` gives; an error names the panel."""
        try:
            return make()
        except UserError as error:
            happened = f"Panel {self.letter} ('{self.words[:80]}'): {error.happened}"
            raise UserError(happened, expected=error.expected, action=error.action) from error


def add_panel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --panel, and what it means below the options."""
    parser.add_argument(
        "--panel",
        action="append",
        default=[],
        metavar="WHAT",
        help='one panel, such as "cross L1H0 | text=the black dog"; given again for the next: see below',
    )
    parser.formatter_class = _KeepsLines
    parser.epilog = EXAMPLES


def draw_panels(arguments: argparse.Namespace) -> "tuple[Figure, str]":
    """The page of all panels and a word on its self-checks; raises UserError naming the panel at fault."""
    from attnscope.figures.composing import joint_caption, panels

    wishes = wished_panels(arguments)
    reader = _Reader(arguments)
    drawn, captions = [], []
    for wish in wishes:
        made, caption = wish.tell(lambda wish=wish: reader.draw(wish))  # type: ignore[misc]
        drawn.append(made)
        captions.append(caption)
    page = panels(
        drawn,
        titles=_titles(wishes, drawn),
        columns=arguments.columns,
        title=arguments.title,
        caption=joint_caption(captions) if arguments.caption else None,
        **paper_of(arguments),
    )
    return page, reader.about


def wished_panels(arguments: argparse.Namespace) -> tuple[PanelWish, ...]:
    """Every --panel, read; raises UserError for one that is not understood and for options it takes over."""
    from attnscope.figures.views.panels import check_count

    given = given_options(arguments)
    others = [name for name in _NOT_WITH if name in given]
    if "view" in given and arguments.view != "panels":
        others.append("view")
    if others:
        raise UserError(
            f"--panel says what is drawn: {', '.join(map(flag_of, others))} would have no effect.",
            expected="stack, layer and head in each --panel",
            action="Leave the others out.",
        )
    check_count(len(arguments.panel))
    return tuple(map(_read_wish, string.ascii_lowercase, arguments.panel))


def _read_wish(letter: str, words: str) -> PanelWish:
    shown, *parts = _OWN.split(words.strip())
    found = _KIND.fullmatch(shown)
    kind, heads = (found[1], found[2].strip()) if found else (None, "")
    is_heads = LABELS.fullmatch(heads) is not None
    is_known = re.fullmatch(r"[a-z-]*", heads) is not None if kind == "grid" else is_heads
    if not is_known or (kind is None and "," in heads):
        raise UserError(
            f"Panel {letter} ('{words[:80]}') is not understood.",
            expected='"L0H1", "cross L1H0", "lines cross L0H0,L0H1" or "grid encoder", and after a | '
            + ", ".join(f"{name}=" for name in OWN),
            action='For instance --panel "cross L1H0 | text=the black dog sleeps".',
        )
    own = {}
    for part in parts:
        name, _, value = part.partition("=")
        own[name.strip()] = value.strip()
    return PanelWish(letter=letter, words=words, view=kind or "head", shown=heads, own=own)


class _KeepsLines(argparse.HelpFormatter):
    """Breaks texts at the width of the terminal, but those that have lines of their own."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "".join(indent + line for line in text.splitlines(keepends=True))


class _Reader:
    """Traces what panels are of, each model and each text once."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._models: dict[str, Model] = {}
        self._traces: dict[tuple[str, ...], Trace] = {}

    @property
    def about(self) -> str:
        """The self-check of the first trace that is not good, or of the first."""
        checks = [trace.check() for trace in self._traces.values()]
        return next((check for check in checks if not check.is_good), checks[0]).sentence

    def draw(self, wish: PanelWish) -> "tuple[Figure, Caption]":
        """A panel as a figure of its own, and what it is of."""
        from attnscope.figures.figure import figure

        arguments = argparse.Namespace(**vars(self._arguments))
        arguments.model = wish.own.get("model", arguments.model)
        if "text" in wish.own:
            arguments.text, arguments.file, arguments.target = wish.own["text"], None, None
        elif "model" in wish.own:
            arguments.target = None
        arguments.target = wish.own.get("target", arguments.target)
        arguments.gate = wish.own["gate"].split(",") if wish.own.get("gate") else arguments.gate
        arguments.view = wish.view
        model, trace = self._trace(arguments)
        heads = () if wish.view == "grid" else named_heads(wish.shown, trace.sites)
        caption = build_caption(arguments, model, trace)
        made = figure(
            trace,
            wish.view,
            stack=_grid_stack(wish.shown, trace.sites) if wish.view == "grid" else heads[0].stack,
            heads=heads,
            **looks_of(arguments) | {"plain": False},
            caption=caption,
        )
        return made, caption

    def _trace(self, arguments: argparse.Namespace) -> "tuple[Model, Trace]":
        key = (
            arguments.model,
            str(arguments.file),
            repr((arguments.text, arguments.target)),
            *arguments.gate,
        )
        if key not in self._traces:
            model, trace = load_and_trace(arguments, model=self._models.get(arguments.model))
            self._models[arguments.model], self._traces[key] = model, trace
        elif arguments.text is None:
            arguments.text = self._traces[key].source.text
        return self._models[arguments.model], self._traces[key]


def named_heads(words: str, sites: "tuple[Site, ...]") -> "tuple[HeadRef, ...]":
    """The heads of `cross L0H0,L0H1`: those after the first are of its stack where they name none."""
    first = re.split("[: ]", words.split(",")[0].strip())
    how = f'--panel "{{}} {words[len(first[0]) :].strip(": ") if len(first) > 1 else words}"'
    return labelled_heads(words, first[0] if len(first) > 1 else None, sites, how=how)


def _grid_stack(words: str, sites: "tuple[Site, ...]") -> "Stack":
    return parse_stack(words or None, sites, how='--panel "grid {}"')


def _titles(wishes: "tuple[PanelWish, ...]", drawn: "list[Figure]") -> tuple[str, ...]:
    """Each panel's own title, or what tells it apart."""
    from attnscope.figures.composing import telling_titles

    told = telling_titles([made.spec for made in drawn])
    return tuple(wish.own.get("title", words) for wish, words in zip(wishes, told, strict=True))

"""Redrawing figures, drawing many, and many panels on a page, in one call of `attnscope figure`.

`attnscope figure FILE.figure.json -o OUT`: a saved figure, from its model and its text, or from the numbers
in the file. What the file says holds; page and look that are given with it come first.

`attnscope figure … --each`: one figure for every line of a file, or for every line and head.

`-o` is a name with fields: `{n}` the line's number, `{head}`, `{stack}`, `{text}`. What fields stand for is
made safe for file names (F56); no two figures get one name, and no file is replaced unasked.

`attnscope figure … --panel WHAT --panel WHAT`: heads of several stacks, texts and models on one page.

A panel is written as people name it: `L0H1`, `cross L1H0`, `lines cross L0H0,L0H1` or `grid encoder`, and
after ` | ` what it does not share with the others: `cross L1H0 | text=the black dog | model=english-german`.
"""

import argparse
import copy
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from attnscope.cli.arguments import flag_of, given_options
from attnscope.cli.figure_options import (
    LABELS,
    PAGE,
    build_caption,
    build_figure,
    chosen_heads,
    labelled_heads,
    looks_of,
    paper_of,
    shows,
    turn_of,
)
from attnscope.cli.inputs import (
    check_by_word,
    load_and_trace,
    mask_changes,
    open_model,
    parse_gates,
    parse_stack,
    read_file_argument,
    tell_cut,
    tell_note,
)
from attnscope.cli.terminal import say, say_error
from attnscope.counting import plural
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.records.sites import HeadRef, Site

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.figure_file import SavedFigure
    from attnscope.figures.spec import Caption, FigureSpec
    from attnscope.figures.style import MapStyle
    from attnscope.models import Model
    from attnscope.trace import Trace

_PAGE = (*PAGE, "columns")
_LOOK = (
    "colour_map", "scale", "values", "turn", "label_every", "no_bar", "plain", "least_weight", "n_strongest",
    "badge", "no_special", "key_name", "query_name", "font",
)  # fmt: skip
_CHANGING_HEIGHT = frozenset(("width_mm", "font_pt", "title", "caption", "columns"))
_ROWS = "rows"
_ALWAYS = ("out", "device")


def draw_again(arguments: argparse.Namespace) -> "tuple[Figure, str]":
    """Read the file and make the figure, with a note about it; warns if its model has changed.

    Raises UserError when the file, the model or one of the heads is not there, and for an option that
    would make another figure.
    """
    from attnscope.drawing import figure_from
    from attnscope.figures.figure_file import SavedFigure, read_figure_file

    _refuse_others(arguments)
    kept = read_figure_file(Path(arguments.model))
    if not isinstance(kept, SavedFigure):
        drawn = _on_given_page(arguments, _kept_figure(arguments, kept))
        return drawn, f"{kept.view}, from the file's numbers"
    trace, model = _read_again(arguments, kept)
    made = figure_from(_looked(arguments, kept), model, trace)
    return _on_given_page(arguments, made), trace.check().sentence


def _kept_figure(arguments: argparse.Namespace, kept: "FigureSpec") -> "Figure":
    """The numbers of the file in the given look; raises UserError for a caption that it cannot hold."""
    from attnscope.figures.figure import Figure

    given = given_options(arguments)
    _check_columns(arguments, kept.view)
    if arguments.caption and kept.caption is None:
        raise UserError(
            f"{arguments.model} was saved without a caption.", action="Leave out --caption, or save it again."
        )
    if _ROWS in given:
        raise UserError(
            f"{arguments.model} holds numbers, whose rows have the names they were saved with.",
            action="Leave out --rows, or draw a new figure from the model and its text.",
        )
    style = _look(arguments, kept.style)
    title = arguments.title if "title" in given else kept.title
    dpi = arguments.dpi if "dpi" in given else kept.dpi
    return Figure(replace(kept.with_style(style), title=title, dpi=dpi))


def _read_again(arguments: argparse.Namespace, saved: "SavedFigure") -> "tuple[Trace, Model]":
    origin = saved.origin
    model = _load(arguments, origin.source)
    if origin.sha256 and model.info.sha256 != origin.sha256:
        say_error(
            f"attnscope: warning: the weights of {model.info.name} are not those that the figure was saved "
            f"with (sha256 {model.info.sha256[:12]}, saved {origin.sha256[:12]}); it may look different."
        )
    trace = model.trace(
        origin.text,
        origin.target,
        saved.gates,
        interventions=saved.interventions,
        past_trained=origin.past_trained and model.info.can_read_past,
    )
    tell_cut(trace.source, trace.target)
    return trace, model


def _load(arguments: argparse.Namespace, source: str) -> "Model":
    """Load the model of the file; an error says where it was looked for."""
    from attnscope.models.opening import open_named

    try:
        model = open_named(source, arguments.device)
    except LoadError as error:
        if error.kind == "not-downloaded":
            raise
        folder = Path(arguments.model).absolute().parent
        here = "" if Path.cwd() in (folder, *folder.parents) else f", in {Path.cwd()}"
        raise LoadError(
            f"The model of {arguments.model} cannot be opened: {error.happened}",
            kind=error.kind,
            expected=f"the model in {folder} or a folder above{here}, or by its name or full path",
            action="Move the figure file beside its model, or start from the folder that holds both.",
        ) from error
    tell_note(model)
    return model


def _refuse_others(arguments: argparse.Namespace) -> None:
    """Raise UserError for options that choose what is drawn: the file determines that."""
    others = sorted(given_options(arguments) - {*_PAGE, *_LOOK, _ROWS, *_ALWAYS})
    if others:
        raise UserError(
            f"{arguments.model} says what is drawn: {', '.join(map(flag_of, others))} would have no effect.",
            expected="options of page and look alone: " + ", ".join(map(flag_of, (*_PAGE, *_LOOK, _ROWS))),
            action="Leave the others out, or draw a new figure from the model and its text.",
        )


def _check_columns(arguments: argparse.Namespace, view: str) -> None:
    if "columns" in given_options(arguments) and view != "panels":
        raise UserError("--columns arranges panels, and this figure has none.", action="Leave it out.")


def _look(arguments: argparse.Namespace, saved: "MapStyle") -> "MapStyle":
    given = given_options(arguments)
    style = {name: getattr(arguments, name) for name in _LOOK if name in given}
    if "values" in style:
        style["show_values"] = style.pop("values")
    if "plain" in style:
        style["is_plain"] = style.pop("plain")
    if "badge" in style:
        style["has_badge"] = style.pop("badge")
    if "no_special" in style:
        style["has_special"] = not style.pop("no_special")
    if "no_bar" in style:
        style["has_bar"] = not style.pop("no_bar")
    if "turn" in style:
        style["turn"] = turn_of(arguments)
    return replace(saved, **style)


def _looked(arguments: argparse.Namespace, saved: "SavedFigure") -> "SavedFigure":
    """The saved figure in the given colours, labels and words."""
    given = given_options(arguments)
    _check_columns(arguments, saved.view)
    origin = saved.origin
    if _ROWS in given:
        origin = replace(origin, aspect=replace(origin.aspect, rows=arguments.rows))
    return replace(
        saved,
        origin=origin,
        style=_look(arguments, saved.style),
        title=arguments.title if "title" in given else saved.title,
        has_caption=saved.has_caption or arguments.caption,
        dpi=arguments.dpi if "dpi" in given else saved.dpi,
    )


def _on_given_page(arguments: argparse.Namespace, made: "Figure") -> "Figure":
    """The figure on the given page; other settings stay, and a height that followed the figure still does."""
    from attnscope.figures.figure import Figure
    from attnscope.figures.page import preset_of, sized
    from attnscope.figures.views.panels import PanelsFigure

    given, spec = given_options(arguments), made.spec
    if not given & set(_PAGE):
        return made
    page = preset_of(spec)
    if isinstance(spec, PanelsFigure) and "columns" in given:
        spec = replace(spec, columns=arguments.columns)
    is_new = "size" in given
    is_kept = not is_new and (not given & _CHANGING_HEIGHT or (page is not None and page.is_whole))
    height_mm = spec.height_mm if arguments.height_mm is None and is_kept else arguments.height_mm
    return Figure(
        sized(
            spec,
            preset=arguments.size,
            width_mm=arguments.width_mm if is_new or "width_mm" in given else spec.width_mm,
            height_mm=height_mm,
            font_pt=arguments.font_pt if is_new or "font_pt" in given else spec.font_pt,
        )
    )


FIELDS = ("n", "head", "stack", "text")
MAX_FIGURES = 20_000
_FIELD = re.compile(r"\{([^{}]*)\}")
_MAX_TEXT_IN_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One figure to make: its line number from 1, the head if there is one for each, its file."""

    n: int
    head: HeadRef | None
    path: Path


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--each",
        action="store_true",
        help="a figure for each line of -f; -o is then a name with {n}, {head}, {stack}, {text}",
    )
    parser.add_argument("--overwrite", action="store_true", help="with --each: replace files that exist")


def draw_each(arguments: argparse.Namespace) -> int:
    """Make every figure; report unreadable lines and continue. Raises UserError."""
    numbers, lines = _lines(arguments)
    _check_fields(arguments.out, len(lines))
    if "{head}" in arguments.out and shows(arguments) == "all heads":
        arguments.view = "head"
    model = open_model(arguments)
    check_by_word(arguments, model)
    n_pairs = sum("\t" in line for line in lines)
    if n_pairs and not model.info.takes_target:
        raise UserError(
            f"{n_pairs} of {len(lines)} lines of {arguments.file} contain a tab, as pairs do, but "
            f"{model.info.name} reads one text.",
            expected="one text on each line",
            action="Leave out the second texts, or draw the pairs with a model that reads two.",
        )
    texts = [_texts(line, number, arguments.file, model) for number, line in zip(numbers, lines, strict=True)]
    heads = _heads(arguments, model.sites)
    stack = heads[0].stack if heads[0] is not None else arguments.stack or model.sites[0].stack
    planned = plan(arguments.out, lines, heads, stack)
    _check_files(planned, may_overwrite=arguments.overwrite)
    gates = parse_gates(arguments.gate, model.sites)
    failed = []
    for n, both in enumerate(texts, start=1):
        wish = copy.copy(arguments)
        wish.text, wish.target = both
        try:
            past = wish.past_trained and model.info.can_read_past
            changes = mask_changes(wish, model, wish.text, wish.target, past_trained=past)
            trace = model.trace(wish.text, wish.target, gates, interventions=changes, past_trained=past)
            if trace.source.cut_words:
                say_error(f"attnscope: line {n}: {trace.source.cut_words}.")
            _draw_line(wish, model, trace, [p for p in planned if p.n == n])
        except SaveError:
            raise
        except UserError as error:
            failed.append(n)
            say_error(f"attnscope: line {n}: {error}")
    if failed:
        raise UserError(
            f"{len(lines) - len(failed)} of {len(lines)} lines were drawn; not line "
            f"{', '.join(map(str, failed[:10]))}{' …' if len(failed) > 10 else ''}."
        )
    say(f"{plural(len(planned), 'figure')} of {plural(len(lines), 'line')}")
    return 0


def plan(
    template: str, lines: tuple[str, ...], heads: tuple[HeadRef | None, ...], stack: str
) -> tuple[Planned, ...]:
    """Every figure with its file; raises UserError if two would get the same name, or there are too many."""
    from attnscope.figures.file_names import slug_of, target_of

    if len(lines) * len(heads) > MAX_FIGURES:
        raise UserError(
            f"{len(lines):,} lines and {len(heads):,} heads make too many figures.",
            expected=f"at most {MAX_FIGURES:,}",
            action="Name the heads with --head, or split the file.",
        )
    found: dict[str, Planned] = {}
    for n, line in enumerate(lines, start=1):
        slug = slug_of(line[:_MAX_TEXT_IN_NAME]) if "{text}" in template else ""
        for head in heads:
            words = {"n": f"{n:0{len(str(len(lines)))}}", "text": slug, "stack": stack}
            words["head"] = head.label if head is not None else ""
            name = _FIELD.sub(lambda match, words=words: words[match[1]], template)  # type: ignore[misc]
            path, _ = target_of(name)
            made = Planned(n=n, head=head, path=path)
            if found.setdefault(str(path).casefold(), made) is not made:
                raise UserError(
                    f"Two figures would be written to {path}.",
                    expected="a name that distinguishes them",
                    action="Use {n} in the name, and {head} when there are several heads.",
                )
    return tuple(found.values())


def _lines(arguments: argparse.Namespace) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The non-empty lines, with their line numbers."""
    from attnscope.figures.views import VIEWS

    views = [name for name, view in VIEWS.items() if view.reads_trace and not view.needs_other]
    if arguments.file is None or arguments.text is not None or arguments.view not in views:
        raise UserError(
            "--each draws every line of a file.",
            expected="-f FILE, no --text, and the view " + ", ".join(sorted(views)),
            action="For instance: -f sentences.txt --each -o 'out/{n}-{head}.svg'.",
        )
    whole = read_file_argument(arguments.file).split("\n")
    found = {number: line.strip("\r") for number, line in enumerate(whole, start=1) if line.strip()}
    if not found:
        raise UserError(f"{arguments.file} has no text.", expected="at least one line that is not empty")
    return tuple(found), tuple(found.values())


def _check_fields(template: str, n_lines: int) -> None:
    unknown = [name for name in _FIELD.findall(template) if name not in FIELDS]
    if unknown or re.search(r"[{}]", _FIELD.sub("", template)):
        raise UserError(
            f"The name '{template}' has an unknown field.",
            expected=", ".join(f"{{{name}}}" for name in FIELDS),
            action="For instance: 'out/{n}-{head}.svg'.",
        )
    if n_lines > 1 and "{n}" not in template and "{text}" not in template:
        raise UserError(
            f"{n_lines} lines would be written to one file.",
            expected="{n} or {text} in the name",
            action="For instance: 'out/{n}.svg'.",
        )


def _heads(arguments: argparse.Namespace, sites: tuple[Site, ...]) -> tuple[HeadRef | None, ...]:
    """The heads that get a figure each; a single None if the arguments determine the figure."""
    if "{head}" not in arguments.out or shows(arguments) != "one head" or arguments.blend != "none":
        return (None,)
    if arguments.head is None:
        stack = parse_stack(arguments.stack, sites)
        layers = (s for s in sites if s.stack == stack and arguments.layer in (None, s.layer))
        return tuple(head for site in layers for head in site.heads)
    several = copy.copy(arguments)
    several.view = "lines"
    return chosen_heads(several, sites)[1]


def _check_files(planned: tuple[Planned, ...], *, may_overwrite: bool) -> None:
    """Create the folders; raises UserError if a file already exists."""
    present = [p.path for p in planned if p.path.exists()]
    if present and not may_overwrite:
        raise UserError(
            f"{len(present):,} of {len(planned):,} files exist already, {present[0]} first.",
            expected="names that are free",
            action="Choose another name, or add --overwrite.",
        )
    for folder in dict.fromkeys(p.path.parent for p in planned):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SaveError(f"The folder {folder} cannot be made: {error.strerror}.") from error


def _texts(line: str, number: int, path: Path, model: "Model") -> tuple[str, str | None]:
    """The text of a line, and after a tab or three bars the second one if the model reads two."""
    from attnscope.text.corpora import columns_of

    columns = columns_of(line, number, path) if model.info.takes_target else [line]
    return (columns[0], columns[1]) if len(columns) > 1 else (line, None)


def _draw_line(arguments: argparse.Namespace, model: "Model", trace: "Trace", planned: list[Planned]) -> None:

    for figure in planned:
        path = build_figure(arguments, model, trace, head=figure.head).save(figure.path)
        say(f"{path}: {path.stat().st_size:,} bytes")


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
    """One panel: its letter, view and heads (or stack) as written, and its own options."""

    letter: str
    words: str
    view: str
    shown: str
    own: dict[str, str] = field(default_factory=dict)

    def tell(self, make: Callable[[], _Made]) -> _Made:
        """Result of `make`; an error names the panel."""
        try:
            return make()
        except UserError as error:
            happened = f"Panel {self.letter} ('{self.words[:80]}'): {error.happened}"
            raise UserError(happened, expected=error.expected, action=error.action) from error


def add_panel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --panel, and its explanation below the options."""
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
    """The page of all panels and a note on its self-checks; raises UserError naming the faulty panel."""
    from attnscope.figures.figure import joint_caption, panels

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
    """Parse every --panel; raises UserError for an invalid one and for options it replaces."""
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
    """Wraps texts at the width of the terminal, except those with their own lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "".join(indent + line for line in text.splitlines(keepends=True))


class _Reader:
    """Traces the panels' texts, each model and each text once."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._models: dict[str, Model] = {}
        self._traces: dict[tuple[str, ...], Trace] = {}

    @property
    def about(self) -> str:
        """The self-check of the first trace that fails it, or of the first."""
        checks = [trace.check() for trace in self._traces.values()]
        return next((check for check in checks if not check.is_good), checks[0]).sentence

    def draw(self, wish: PanelWish) -> "tuple[Figure, Caption]":
        """A panel as a figure of its own, and its description."""
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
        if wish.view == "grid":
            heads: tuple[HeadRef, ...] = ()
            stack = parse_stack(wish.shown or None, trace.sites, how='--panel "grid {}"')
        else:
            heads = named_heads(wish.shown, trace.sites)
            stack = heads[0].stack
        caption = build_caption(arguments, model, trace)
        made = figure(
            trace,
            wish.view,
            stack=stack,
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
    """The heads of `cross L0H0,L0H1`: later ones are of the first one's stack if they name none."""
    first = re.split("[: ]", words.split(",")[0].strip())
    how = f'--panel "{{}} {words[len(first[0]) :].strip(": ") if len(first) > 1 else words}"'
    return labelled_heads(words, first[0] if len(first) > 1 else None, sites, how=how)


def _titles(wishes: "tuple[PanelWish, ...]", drawn: "list[Figure]") -> tuple[str, ...]:
    """Each panel's own title, or a distinguishing one."""
    from attnscope.figures.figure import telling_titles

    told = telling_titles([made.spec for made in drawn])
    return tuple(wish.own.get("title", words) for wish, words in zip(wishes, told, strict=True))

"""The current view or comparison as a script against the public Python API and as a command line."""

from dataclasses import dataclass, replace

from attnscope import paths
from attnscope.counting import shell_line
from attnscope.records.interventions import Interventions, UseMask, as_python, rows_as_text
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.compare.difference import Way
from attnscope.viewmodels.compare.sides import Side, SideWish
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect
from attnscope.viewmodels.session.changes import of_single_heads
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Everything that a figure of the current view depends on. `view` is `grid`, `head` or `lines`.

    With `is_recorded` the source is a file of recorded attention, which has its own text.
    """

    source: str
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    heads: tuple[HeadRef, ...] = ()
    view: str = "head"
    aspect: Aspect = PLAIN
    colour_map: str = "viridis"
    scale: str = "fixed"
    least_weight: float = 0.0
    n_strongest: int = 0
    query: int = 0
    is_recorded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripts:
    """Scripts that make something again; `is_command_whole` if the command line covers all of it."""

    python: str
    command: str
    is_command_whole: bool = True


def shown_now(session: Session, view: ViewState) -> Shown | None:
    """Content of the Explore page; None without a model, a text or a head."""
    if session.model is None or not session.text.strip() or session.primary is None:
        return None
    is_lines = view.view == "lines"
    is_picture = view.view == "picture" and session.model.reads == "picture"
    is_blend = session.aspect.blend != "none"
    return Shown(
        source=paths.demo_name(session.model.source) or session.model.source,
        text=session.text,
        target=session.target,
        gates=session.gates,
        interventions=session.interventions,
        heads=session.selection if is_lines or is_blend else (session.primary,),
        view="lines" if is_lines else "picture" if is_picture else "head",
        query=view.picture_query,
        aspect=session.aspect,
        colour_map=view.colour_map,
        scale=view.scale,
        least_weight=view.least_weight,
        n_strongest=view.n_strongest,
        is_recorded=session.model.is_recorded,
    )


def python_script(shown: Shown, out: str = "figure.svg") -> str:
    """A script that makes the figure; it needs only `attnscope`."""
    lines = _recorded_trace(shown) if shown.is_recorded else _traced(shown)
    lines.append("figure = at.figure(")
    lines += [f"    {argument}," for argument in _figure_arguments(shown)]
    lines += [")"]
    if shown.view == "picture":
        lines.append(f"figure = figure.on_picture(at.picture(model, {shown.text!r}), {shown.query})")
    lines += [f"figure.save({out!r})", ""]
    return "\n".join(lines)


def _recorded_trace(shown: Shown) -> list[str]:
    return ["import attnscope as at", "", f"trace = at.load_trace({shown.source!r})"]


def _traced(shown: Shown) -> list[str]:
    lines = ["import attnscope as at", "", f"model = at.load({shown.source!r})"]
    arguments = [repr(shown.text)]
    if shown.target is not None:
        arguments.append(f"target={shown.target!r}")
    if shown.gates:
        lines.append("gates = model.gates()")
        lines += [f"gates[{h.stack!r}, {h.layer}, {h.head}] = {g!r}" for h, g in shown.gates.values]
        arguments.append("gates=gates")
    if shown.interventions:
        lines += _changes("changes", shown.interventions)
        arguments.append("interventions=changes")
    lines.append(f"trace = model.trace({', '.join(arguments)})")
    return lines


def _changes(name: str, interventions: Interventions) -> list[str]:
    return [f"{name} = [", *(f"    {as_python(change)}," for change in interventions), "]"]


def command_line(shown: Shown, out: str = "figure.svg") -> str:
    """One line for a POSIX shell that makes the figure; of interventions it can express only a drawn mask."""
    words = ["attnscope", "figure", shown.source]
    words += [] if shown.is_recorded else [f"--text={shown.text}"]
    if shown.target is not None and not shown.is_recorded:
        words.append(f"--target={shown.target}")
    words += [f"--gate={head.stack}:{head.label}={gate:g}" for head, gate in shown.gates.values]
    masks = [change for change in shown.interventions if isinstance(change, UseMask)]
    words += [f"--mask-rows={';'.join(rows_as_text(mask.cells))}" for mask in masks]
    words += ["--view", shown.view, "--stack", shown.heads[0].stack]
    words += ["--head", ",".join(head.label for head in shown.heads)]
    words += ["--query", str(shown.query)] if shown.view == "picture" else []
    for name, value, default in _options(shown):
        if value != default:
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [flag, str(value)]
    words += ["-o", out]
    return shell_line(words)


def scripts_now(session: Session, view: ViewState) -> Scripts | None:
    """Scripts that make the figure of the Explore page; None without a model, a text or a head."""
    shown = shown_now(session, view)
    if shown is None:
        return None
    is_whole = not of_single_heads(session.interventions)
    return Scripts(python=python_script(shown), command=command_line(shown), is_command_whole=is_whole)


def _options(shown: Shown) -> tuple[tuple[str, object, object], ...]:
    """Name, value and default of options that both forms omit at their defaults."""
    aspect = shown.aspect
    return (
        ("colour_map", shown.colour_map, "viridis"),
        ("scale", shown.scale, "fixed"),
        ("blend", aspect.blend, "none"),
        ("over", aspect.over, "selection"),
        ("hidden", aspect.hidden, "nothing"),
        ("renormalised", aspect.is_renormalised, False),
        ("by_word", aspect.is_by_word, False),
        ("block", aspect.block, "all"),
        ("rows", aspect.rows, PLAIN.rows),
        ("least_weight", shown.least_weight, 0.0),
        ("n_strongest", shown.n_strongest, 0),
    )


def _figure_arguments(shown: Shown) -> list[str]:
    heads = [f"({h.stack!r}, {h.layer}, {h.head})" for h in shown.heads]
    arguments = ["trace", repr("head" if shown.view == "picture" else shown.view)]
    if len(heads) == 1:
        arguments.append(f"head={heads[0]}")
    else:
        arguments.append(f"heads=({', '.join(heads)})")
    return arguments + [f"{name}={value!r}" for name, value, default in _options(shown) if value != default]


WIDTH_MM = 240.0
"""Width of the page's figure; it is as high as its maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownComparison:
    """Everything the figure of a comparison depends on; `end` is the |Δ| at the ends of the colours, or 0.

    `are_recorded` says of which side the source is a file of recorded attention, which has its own text.
    """

    first: SideWish
    second: SideWish
    head: HeadRef
    second_head: HeadRef
    names: tuple[str, str] = ("A", "B")
    way: Way = "pairs"
    end: float = 0.0
    colour_map: str = "viridis"
    are_recorded: tuple[bool, bool] = (False, False)

    @property
    def is_before_and_after(self) -> bool:
        """Whether A is one text as the model reads it, and B the same text with changes."""
        first, second = self.first, self.second
        same = (first.source, first.text, first.target) == (second.source, second.text, second.target)
        return same and not first.gates and not first.interventions

    @property
    def left_out(self) -> Interventions:
        """The changes that a command line cannot express: those of single heads, and every one of B."""
        return (*of_single_heads(self.first.interventions), *self.second.interventions)


def comparison_shown(state: CompareState, colour_map: str) -> ShownComparison | None:
    """Content of the Compare page; None while a side has no model or no text, or there is no head."""
    first, second = state.traces.wish("A"), state.traces.wish("B")
    head, second_head = state.head_of("A"), state.head_of("B")
    if first is None or second is None or head is None or second_head is None:
        return None
    return ShownComparison(
        first=_named(first),
        second=_named(second),
        head=head,
        second_head=second_head,
        names=(state.traces.name("A"), state.traces.name("B")),
        way=state.choosing.choices.way,
        end=state.differences.end,
        colour_map=colour_map,
        are_recorded=(_is_recorded(state.sides["A"]), _is_recorded(state.sides["B"])),
    )


def _named(wish: SideWish) -> SideWish:
    return replace(wish, source=paths.demo_name(wish.source) or wish.source)


def _is_recorded(side: Side) -> bool:
    return side.traced is not None and side.traced.info is not None and side.traced.info.is_recorded


def comparison_script(shown: ShownComparison, out: str = "comparison.svg") -> str:
    """A script that makes the figure; it needs only `attnscope`."""
    first, second = shown.first, shown.second
    is_first_recorded, is_second_recorded = shown.are_recorded
    lines = ["import attnscope as at", ""]
    is_same = second.source == first.source
    other = "model" if is_same else "other_model"
    if not is_first_recorded:
        lines.append(f"model = at.load({first.source!r})")
    if not is_same and not is_second_recorded:
        lines.append(f"other_model = at.load({second.source!r})")
    lines += _recorded_line(first, "first") if is_first_recorded else _trace_lines(first, "first", "model")
    lines += _recorded_line(second, "second") if is_second_recorded else _trace_lines(second, "second", other)
    lines.append("figure = at.figure(")
    lines += [f"    {argument}," for argument in _compared_arguments(shown)]
    lines += [")", f"figure.save({out!r})"]
    if shown.is_before_and_after and not is_second_recorded:
        lines += ["", "# What the model predicts before (A) and after (B), and the KL divergence."]
        lines.append(f"answers = model.compare({', '.join(_inputs(second, 'second'))})")
        lines.append("print(answers.kl_nats)")
    return "\n".join([*lines, ""])


def comparison_command(shown: ShownComparison, out: str = "comparison.svg") -> str:
    """One line for a POSIX shell that makes the figure, without the changes that are `left_out`."""
    first, second = shown.first, shown.second
    words = ["attnscope", "figure", first.source]
    if not shown.are_recorded[0]:
        words.append(f"--text={first.text}")
    if first.target is not None and not shown.are_recorded[0]:
        words.append(f"--target={first.target}")
    words += [f"--gate={head.stack}:{head.label}={gate:g}" for head, gate in first.gates.values]
    masks = [change for change in first.interventions if isinstance(change, UseMask)]
    words += [f"--mask-rows={';'.join(rows_as_text(mask.cells))}" for mask in masks]
    words += ["--view", "difference", "--stack", shown.head.stack, "--head", shown.head.label]
    if second.source != first.source:
        words.append(f"--with-model={second.source}")
    if not shown.are_recorded[1]:
        words.append(f"--with-text={second.text}")
    if second.target is not None and not shown.are_recorded[1]:
        words.append(f"--with-target={second.target}")
    words += [f"--with-gate={head.stack}:{head.label}={gate:g}" for head, gate in second.gates.values]
    if shown.second_head.stack != shown.head.stack:
        words += ["--with-stack", shown.second_head.stack]
    if shown.way != "pairs":
        words += ["--align", shown.way]
    if shown.end:
        words += ["--delta-end", repr(shown.end)]
    if shown.colour_map != "viridis":
        words += ["--colour-map", shown.colour_map]
    words += ["--width-mm", f"{WIDTH_MM:g}", "-o", out]
    return shell_line(words)


def _recorded_line(wish: SideWish, name: str) -> list[str]:
    return [f"{name} = at.load_trace({wish.source!r})"]


def _trace_lines(wish: SideWish, name: str, model: str) -> list[str]:
    """The lines that make one trace, with its gates and changes."""
    lines = []
    if wish.gates:
        lines.append(f"{name}_gates = {model}.gates()")
        lines += [f"{name}_gates[{h.stack!r}, {h.layer}, {h.head}] = {g!r}" for h, g in wish.gates.values]
    if wish.interventions:
        lines += _changes(f"{name}_changes", wish.interventions)
    arguments = _inputs(wish, name)
    if wish.is_past_trained:
        arguments.append("past_trained=True")
    return [*lines, f"{name} = {model}.trace({', '.join(arguments)})"]


def _inputs(wish: SideWish, name: str) -> list[str]:
    arguments = [repr(wish.text)]
    if wish.target is not None:
        arguments.append(f"target={wish.target!r}")
    if wish.gates:
        arguments.append(f"gates={name}_gates")
    if wish.interventions:
        arguments.append(f"interventions={name}_changes")
    return arguments


def _compared_arguments(shown: ShownComparison) -> list[str]:
    head, other = shown.head, shown.second_head
    arguments = [
        "first",
        "'difference'",
        f"head=({head.stack!r}, {head.layer}, {head.head})",
        "other=second",
    ]
    if other != head:
        arguments.append(f"other_head=({other.stack!r}, {other.layer}, {other.head})")
    options = (
        ("names", shown.names, ("A", "B")),
        ("align", shown.way, "pairs"),
        ("delta_end", shown.end, 0.0),
    )
    options_of_look = (("colour_map", shown.colour_map, "viridis"),)
    arguments += [
        f"{name}={value!r}" for name, value, default in options + options_of_look if value != default
    ]
    return [*arguments, f"width_mm={WIDTH_MM}"]

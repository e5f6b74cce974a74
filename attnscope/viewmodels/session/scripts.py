"""What is shown, as a script against the public Python API and as a command line.

Both make the same figure again: the model, the texts, the gates, the heads and the way of looking.
"""

from dataclasses import dataclass

from attnscope import paths
from attnscope.records.interventions import Interventions, interventions_as_json
from attnscope.records.masks import UseMask, rows_as_text
from attnscope.records.shell_words import shell_line
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect
from attnscope.viewmodels.session.intervening import of_single_heads
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Everything a figure of what is shown depends on. `view` is `grid`, `head` or `lines`.

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
    """What makes something again; `is_command_whole` tells whether the command line says all of it."""

    python: str
    command: str
    is_command_whole: bool = True


def shown_now(session: Session, view: ViewState) -> Shown | None:
    """What the Explore page shows; None without a model, a text or a head."""
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
    """A script that makes the figure; it needs nothing but `attnscope`."""
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
        lines.insert(1, "from attnscope.records.interventions import interventions_from_json")
        lines.append(f"changes = interventions_from_json({interventions_as_json(shown.interventions)!r})")
        arguments.append("interventions=changes")
    lines.append(f"trace = model.trace({', '.join(arguments)})")
    return lines


def command_line(shown: Shown, out: str = "figure.svg") -> str:
    """One line for a POSIX shell that makes the figure; of interventions it can say a drawn mask only."""
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
    """What makes the figure of the Explore page again; None without a model, a text or a head."""
    shown = shown_now(session, view)
    if shown is None:
        return None
    is_whole = not of_single_heads(session.interventions)
    return Scripts(python=python_script(shown), command=command_line(shown), is_command_whole=is_whole)


def _options(shown: Shown) -> tuple[tuple[str, object, object], ...]:
    """Name, value and default of what both forms leave out when it is at its default."""
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

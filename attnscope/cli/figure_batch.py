"""`attnscope figure … --each`: one figure for every line of a file, or for every line and head.

`-o` is a name with fields: `{n}` the line's number, `{head}`, `{stack}`, `{text}`. What fields stand for is
made safe for file names (F56); no two figures get one name, and no file is replaced unasked.
"""

import argparse
import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.figure_building import build_figure, chosen_heads
from attnscope.cli.inputs import check_by_word, open_model, parse_gates, parse_stack, read_file_argument
from attnscope.cli.masks import mask_changes
from attnscope.cli.terminal import say, say_error
from attnscope.counting import plural
from attnscope.errors import SaveError, UserError
from attnscope.records.sites import HeadRef, Site

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.trace import Trace

FIELDS = ("n", "head", "stack", "text")
MAX_FIGURES = 20_000
_FIELD = re.compile(r"\{([^{}]*)\}")
_VIEWS = ("grid", "head", "lines", "panels")
_MAX_TEXT_IN_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One figure to be made: its line's number from 1, the head when there is one for each, its file."""

    n: int
    head: HeadRef | None
    path: Path


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --each and --overwrite."""
    parser.add_argument(
        "--each",
        action="store_true",
        help="a figure for each line of -f; -o is then a name with {n}, {head}, {stack}, {text}",
    )
    parser.add_argument("--overwrite", action="store_true", help="with --each: replace files that exist")


def draw_each(arguments: argparse.Namespace) -> int:
    """Make every figure; a line that cannot be read is told and the others are made. Raises UserError."""
    numbers, lines = _lines(arguments)
    _check_fields(arguments.out, len(lines))
    if "{head}" in arguments.out and arguments.view == "grid":
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
    """Every figure with its file; raises UserError when two would get one name, or there are too many."""
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
    """The lines that are not empty, and their numbers in the file."""
    if arguments.file is None or arguments.text is not None or arguments.view not in _VIEWS:
        raise UserError(
            "--each draws every line of a file.",
            expected="-f FILE, no --text, and the view " + ", ".join(_VIEWS),
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
    """The heads that get a figure each; one None where a figure shows whatever the arguments say."""
    if "{head}" not in arguments.out or arguments.view != "head" or arguments.blend != "none":
        return (None,)
    if arguments.head is None:
        stack = parse_stack(arguments.stack, sites)
        layers = (s for s in sites if s.stack == stack and arguments.layer in (None, s.layer))
        return tuple(head for site in layers for head in site.heads)
    several = copy.copy(arguments)
    several.view = "lines"
    return chosen_heads(several, sites)[1]


def _check_files(planned: tuple[Planned, ...], *, may_overwrite: bool) -> None:
    """Make the folders; raises UserError when a file is there already."""
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
    """The text of a line, and after a tab or three bars the second one where the model reads two."""
    from attnscope.text.corpora import columns_of

    columns = columns_of(line, number, path) if model.info.takes_target else [line]
    return (columns[0], columns[1]) if len(columns) > 1 else (line, None)


def _draw_line(arguments: argparse.Namespace, model: "Model", trace: "Trace", planned: list[Planned]) -> None:

    for figure in planned:
        path = build_figure(arguments, model, trace, head=figure.head).save(figure.path)
        say(f"{path}: {path.stat().st_size:,} bytes")

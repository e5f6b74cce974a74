"""Options shared by the commands that read a text: model, text or texts, target, mask, gates, device."""

import argparse
import dataclasses
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnscope.cli.arguments import figure_file, flag_of, output_file, path_of, text_file, whole
from attnscope.cli.terminal import JobProgress, say, say_error, say_json
from attnscope.counting import plural
from attnscope.errors import LoadError, UserError
from attnscope.outside import open_outside
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, Stack, check_heads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attnscope.analysis.batches import Sample
    from attnscope.analysis.words import AlignedPair
    from attnscope.models import Model
    from attnscope.records.charts import Chart
    from attnscope.records.importance import PartsDone
    from attnscope.records.interventions import Cells, Interventions, UseMask
    from attnscope.records.tokens import Token, Tokens
    from attnscope.trace import Trace

_NAMED = 6


def add_mask_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "mask",
        "which tokens see which, in every head of the self-attention over the text, instead of the "
        "model's own mask; causality and padding stay",
    )
    group.add_argument(
        "--mask",
        type=path_of,
        metavar="FILE",
        help="an edge list: `query key` in each line, tokens by number (from 0) or by text",
    )
    group.add_argument("--mask-symmetric", action="store_true", help="each edge holds in both directions")
    group.add_argument("--mask-no-loops", action="store_true", help="a token sees itself only where listed")
    group.add_argument(
        "--mask-rows",
        metavar="ROWS",
        help="instead of a file: the keys of each query, rows separated by ';', such as '0-1;0 2;2'",
    )


def mask_changes(
    arguments: argparse.Namespace, model: "Model", text: str, target: str | None, *, past_trained: bool
) -> "Interventions":
    """The mask from the arguments, as a change of the pass; empty if they ask for none.

    Says on standard error which tokens see nothing. Raises UserError.
    """
    path, rows = getattr(arguments, "mask", None), getattr(arguments, "mask_rows", None)
    for name in ("mask_symmetric", "mask_no_loops"):
        if path is None and getattr(arguments, name, False):
            flag = flag_of(name)
            raise UserError(
                f"{flag} changes the edges of a file.",
                expected="--mask with it",
                action=f"Add --mask FILE, or leave {flag} out.",
            )
    if path is None and rows is None:
        return ()
    if path is not None and rows is not None:
        raise UserError("There are two masks.", expected="one", action="Give --mask or --mask-rows.")
    from attnscope.records.interventions import UseMask, maskable_stack

    stack = maskable_stack(model.sites)
    if stack is None:
        raise UserError(
            f"The model {model.info.name} has no self-attention over its text.",
            expected="an encoder or a decoder with one",
            action="Leave out the mask.",
        )
    source = model.encode(text, target, past_trained=past_trained).source
    cells = _cells_of_file(arguments, source.tokens) if path is not None else _cells_of_rows(str(rows))
    mask = UseMask.of_cells(stack, cells, f"of {path.name}" if path is not None else "by rows")
    _tell_blind(mask, [token.piece for token in source.tokens])
    if path is not None and not arguments.mask_symmetric:
        _tell_ahead(mask)
    return (mask,)


def _cells_of_file(arguments: argparse.Namespace, tokens: "tuple[Token, ...]") -> "Cells":
    from attnscope.records.interventions import cells_from_edges, edges_from_text, read_edge_list

    return cells_from_edges(
        edges_from_text(read_edge_list(arguments.mask), tokens),
        len(tokens),
        is_symmetric=arguments.mask_symmetric,
        has_loops=not arguments.mask_no_loops,
    )


def _cells_of_rows(rows: str) -> "Cells":
    from attnscope.records.interventions import cells_from_rows

    try:
        return cells_from_rows([row.strip() for row in rows.split(";")])
    except ValueError as error:
        raise UserError(
            f"The mask is not understood: {error}.",
            expected="the keys of each query, such as '0-1;0 2;2'",
            action="Give as many rows as the text has tokens.",
        ) from error


def _tell_blind(mask: "UseMask", pieces: list[str]) -> None:
    from attnscope.records.interventions import blind_rows

    blind = blind_rows(mask.cells, is_causal=mask.stack == "decoder")
    if blind:
        named = ", ".join(f"{row} “{pieces[row]}”" for row in blind[:_NAMED] if row < len(pieces))
        more = " …" if len(blind) > _NAMED else ""
        say_error(
            f"attnscope: {plural(len(blind), 'token sees', 'tokens see')} nothing under the "
            f"mask: {named}{more}."
        )


def _tell_ahead(mask: "UseMask") -> None:
    """Warn that edges to later tokens have no effect under causality."""
    from attnscope.records.interventions import n_ahead

    n = n_ahead(mask.cells) if mask.stack == "decoder" else 0
    if n:
        edges = f"{plural(n, 'edge leads', 'edges lead')} to a later token"
        say_error(f"attnscope: {edges}, which a causal model never allows; query comes before key in a line.")


def take_recorded(arguments: argparse.Namespace, model: "Model") -> "Trace":
    """The trace of a recording, with its text in place of the argument; raises UserError for another text."""
    from attnscope.records.models import needs_model

    trace, (sample,) = recorded_trace(model), model.info.samples
    path = getattr(arguments, "file", None)
    if path is not None or getattr(arguments, "view", "") == "picture":
        raise needs_model(model.info.name, "-f" if path is not None else "A picture")
    for name in ("gate", "mask", "mask_rows"):
        if getattr(arguments, name, None):
            raise needs_model(model.info.name, f"--{name.replace('_', '-')}")
    model.encode(arguments.text or "", arguments.target)  # refuses another text
    arguments.text, arguments.target = sample.text, sample.target
    return trace


def tell_recorded_notes(model: "Model") -> None:
    """Report on standard error the notes of a recording, above all sums that are not 1."""
    trace = recorded_trace(model)
    if trace.recorded is not None:
        for note in trace.recorded.notes:
            say_error(f"attnscope: {note}")
    check = trace.check()
    if not check.is_good:
        say_error(f"attnscope: {model.info.name}: {check.sentence}")


def recorded_trace(model: "Model") -> "Trace":
    from attnscope.models.opening import RecordedNetwork

    if not isinstance(model.network, RecordedNetwork):
        raise UserError(f"{model.info.name} is a model.", expected="recorded attention")
    return model.network.trace


def tell_recorded(arguments: argparse.Namespace) -> int:
    """Text of `info` for a recording: its text, its sites with the recorded modules, its check."""
    from attnscope.models.opening import open_recording

    model = open_recording(arguments.model)
    trace, info = recorded_trace(model), model.info
    names = {} if trace.recorded is None else dict(trace.recorded.site_names)
    notes = () if trace.recorded is None else trace.recorded.notes
    if arguments.json:
        sites = [{**dataclasses.asdict(site), "module": names.get(site.key, "")} for site in trace.sites]
        about = {"name": info.name, "sha256": info.sha256, "sites": sites, "notes": notes}
        check = trace.check().to_dict()
        say_json({**about, "text": info.samples[0].text, "target": info.samples[0].target, "check": check})
        return 0
    n_source = len(trace.source)
    read = plural(n_source, "token")
    if trace.target is not None:
        read = f"{n_source:,} and {plural(len(trace.target), 'token')}"
    say(f"{info.name}: recorded attention, {read}; {trace.check().sentence}")
    for site in trace.sites:
        heads = plural(site.n_heads, "head")
        say(f"  {site.stack} L{site.layer}  {heads}  {names.get(site.key, '')}".rstrip())
    for note in notes:
        say(f"  {note}")
    return 0


_GATE = re.compile(r"(?:(?P<stack>[a-z]+):)?L(?P<layer>\d{1,6})H(?P<head>\d{1,6})=(?P<value>[0-9.eE+-]+)")
_MAX_FIRST_LINE = 100_000


def add_input_arguments(parser: argparse.ArgumentParser, *, needs_text: bool = True) -> None:
    """Add MODEL, --text, --target, --gate and --device."""
    add_model_argument(parser, "" if needs_text else "; also recorded attention")
    parser.add_argument(
        "--text", required=needs_text, help="the text to look at; for a vision model a picture's path"
    )
    parser.add_argument(
        "--target", help="the second text, where the model reads one (default: what it writes)"
    )
    add_gate_argument(parser)
    parser.add_argument(
        "--past-trained",
        action="store_true",
        help="read texts longer than the model was trained for, where its positions allow it",
    )
    add_mask_arguments(parser)
    add_device_argument(parser)


def add_model_argument(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add MODEL; `more` names further possibilities."""
    kinds = "a demo model's name, a model folder or a run folder"
    parser.add_argument("model", metavar="MODEL", help=kinds + more)


def add_text_arguments(parser: argparse.ArgumentParser, text: str) -> None:
    """Add MODEL, --text, whose help is `text`, and --target."""
    add_model_argument(parser)
    parser.add_argument("--text", required=True, help=text)
    parser.add_argument("--target", help="the second text of a translation (default: what it writes)")


def add_gate_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="[STACK:]L0H1=0",
        help="multiply a head's output: 0 removes it, 1 leaves it unchanged; may be given again",
    )


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--file",
        type=text_file,
        metavar="FILE",
        help="the text, from a UTF-8 file; - is standard input",
    )


def read_file_argument(path: Path) -> str:
    """The text of a file, up to the maximum length of a text; raises LoadError."""
    from attnscope.text.corpora import TextOfFile, read_text_file

    *_, found = read_text_file(path)
    assert isinstance(found, TextOfFile)
    if found.n_cut_bytes:
        say_error(f"attnscope: {path}: {found.n_cut_bytes:,} bytes of it are left out.")
    return found.text


def tell_columns(path: Path) -> None:
    """Report on standard error if lines of a file of pairs have more than two columns."""
    try:
        with open_outside(path, expected="a text file") as stream:
            n_columns = stream.readline(_MAX_FIRST_LINE).rstrip().count(b"\t") + 1
    except (OSError, LoadError):
        return  # whoever reads the file says so
    if n_columns > 2:
        say_error(f"attnscope: {path} has {n_columns} columns; the first two are read as pairs.")


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    # Left out, it is what stands before the command, or auto: see `main`.
    parser.add_argument(
        "--device", default=argparse.SUPPRESS, help="auto, cpu, cuda, cuda:1 or mps (default: auto)"
    )


def open_model(arguments: argparse.Namespace) -> "Model":
    """Open the model of the arguments, and report anything unusual about it."""
    from attnscope.models import load

    model = load(arguments.model, device=arguments.device)
    tell_note(model)
    return model


def tell_note(model: "Model") -> None:
    """Report on standard error anything unusual about a model or a recording, above all invalid numbers."""
    if model.info.is_recorded:
        tell_recorded_notes(model)
    elif model.info.note:
        say_error(f"attnscope: {model.info.note}")


def refuse_second(model: "Model", target: str | None) -> None:
    """Raise UserError for a second text that the model does not read."""
    if target is not None and not model.info.takes_target:
        raise UserError(
            f"The model {model.info.name} reads one text only.",
            expected="no second text",
            action="Leave out --target.",
        )


def load_and_trace(arguments: argparse.Namespace, *, model: "Model | None" = None) -> "tuple[Model, Trace]":
    """Load the model, unless given, and trace the text of the arguments; raises UserError.

    A file of recorded attention has its own text.
    """
    from attnscope.models.opening import open_source

    if model is None:
        model = open_source(arguments.model, arguments.device)
        tell_note(model)
    if model.info.is_recorded:
        return model, take_recorded(arguments, model)
    if getattr(arguments, "view", "") == "picture" and model.info.reads == "text":
        raise UserError(
            f"{model.info.name} reads text, not pictures.",
            expected="a vision model, such as a ViT",
            action="Open one from its folder, or choose --view head.",
        )
    check_by_word(arguments, model)
    path = getattr(arguments, "file", None)
    if path is not None and arguments.text is None:
        arguments.text = _text_of_file(path, model)
    if not (arguments.text or "").strip():
        what = "at least one word" if model.info.reads == "text" else f"the path of a {model.info.reads}"
        raise UserError(
            f"There is no {model.info.reads} to look at.", expected=what, action="Give one with --text or -f."
        )
    refuse_second(model, arguments.target)
    gates = parse_gates(arguments.gate, model.sites)
    past_trained = arguments.past_trained and model.info.can_read_past
    text, target = arguments.text, arguments.target
    changes = mask_changes(arguments, model, text, target, past_trained=past_trained)
    trace = model.trace(text, target, gates, interventions=changes, past_trained=past_trained)
    tell_cut(trace.source, trace.target, can_read_on=model.info.can_read_past and not past_trained)
    return model, trace


def check_by_word(arguments: argparse.Namespace, model: "Model") -> None:
    """Raise UserError if words are requested of something without words."""
    if getattr(arguments, "by_word", False) and model.info.reads not in ("text", "attention"):
        raise UserError(
            f"{model.info.name} reads a {model.info.reads}, which has no words.",
            expected="a model that reads text",
            action="Leave out --by-word.",
        )


def _text_of_file(path: Path, model: "Model") -> str:
    """The text of -f; raises UserError for a picture or recording itself, whose path is the text."""
    try:
        return read_file_argument(path)
    except LoadError as error:
        kind = model.info.reads
        if kind == "text" or not path.is_file():
            raise
        raise UserError(
            f"-f takes a text file, and {path} is not one: {model.info.name} reads a {kind} by its path.",
            expected=f"the {kind}'s path as the text",
            action=f"Give the {kind}'s path with --text: --text {path}",
        ) from error


def tell_cut(source: "Tokens", target: "Tokens | None" = None, *, can_read_on: bool = False) -> None:
    """Report on standard error which texts were cut, and which words are unknown."""
    told = [source.cut_words] if source.cut_words else []
    unknown = [source.unknown_words] if source.unknown_words else []
    if target is not None and target.cut_words:
        told.append(f"of the second text {target.cut_words}")
    if target is not None and target.unknown_words:
        unknown.append(f"in the second text {target.unknown_words}")
    if told:
        hint = "; --past-trained reads on" if can_read_on and source.n_dropped else ""
        say_error(f"attnscope: {'; '.join(told)}{hint}.")
    if unknown:
        say_error(f"attnscope: {'; '.join(unknown)}.")


def parse_gates(wishes: list[str], sites: tuple[Site, ...]) -> Gates:
    """Parse gates such as `L0H1=0` or `cross:L0H1=0.5`; raises UserError naming the wrong one."""
    gates = NO_GATES
    for wish in wishes:
        match = _GATE.fullmatch(wish)
        if match is None:
            raise _gate_error(wish)
        try:
            value = float(match["value"])
        except ValueError as error:
            raise _gate_error(wish) from error
        stack = parse_stack(match["stack"], sites, how="--gate {}:L0H1=0")
        head = HeadRef(stack=stack, layer=int(match["layer"]), head=int(match["head"]))
        check_heads((head,), sites)
        gates = gates.with_value(head, value)
    return gates


def parse_stack(name: str | None, sites: tuple[Site, ...], *, how: str = "--stack {}") -> Stack:
    """The stack of that name; without a name the model's only one. `how` shows how to name it.

    Raises UserError.
    """
    present = tuple(dict.fromkeys(site.stack for site in sites))
    if name is None and len(present) == 1:
        return present[0]
    for stack in present:
        if stack == name:
            return stack
    named = f"no stack '{name}'" if name is not None else f"{len(present)} stacks, and none was named"
    raise UserError(
        f"The model has {named}.",
        expected="one of " + ", ".join(present),
        action=f"Name it, for instance {how.format(present[-1] if present else 'encoder')}.",
    )


def parse_heads(text: str, stack: Stack, layer: int, sites: tuple[Site, ...]) -> tuple[HeadRef, ...]:
    """Parse heads of one site from `3` or `0,2,5`; raises UserError."""
    try:
        heads = tuple(HeadRef(stack=stack, layer=layer, head=int(part)) for part in text.split(","))
    except ValueError as error:
        raise UserError(
            f"The head '{text}' is not a number.",
            expected="a head such as 3, or several such as 0,2,5",
            action="Layers and heads count from 0.",
        ) from error
    check_heads(heads, sites)
    return heads


def _gate_error(wish: str) -> UserError:
    return UserError(
        f"The gate '{wish[:80]}' is not understood.",
        expected="a head and a number from 0 to 1, for instance L0H1=0 or cross:L0H1=0.5",
        action="Layers and heads count from 0.",
    )


DEFAULT_TEXTS = 256
_HELD_OUT_SEED = 1


def add_corpus_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpus",
        type=text_file,
        metavar="FILE",
        help="texts, one to a line, pairs with a tab between them; - is standard input",
    )


def add_links_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--links",
        type=path_of,
        metavar="FILE",
        help="gold word links (Pharaoh or talp) of the corpus's pairs",
    )
    parser.add_argument(
        "--links-from", type=int, default=0, choices=(0, 1), help="number of a line's first word"
    )


def add_sample_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, --corpus, --links, --task and --max-texts."""
    add_model_argument(parser)
    add_corpus_argument(parser)
    add_links_arguments(parser)
    parser.add_argument("--task", help="examples of a built-in task that training never sees")
    parser.add_argument(
        "--max-texts", type=whole(1), default=DEFAULT_TEXTS, metavar="N", help=f"default {DEFAULT_TEXTS}"
    )


def read_linked(arguments: argparse.Namespace) -> "list[AlignedPair]":
    from attnscope.analysis.words import read_gold_files
    from attnscope.records.findings import GoldFiles

    files = GoldFiles(
        pairs=os.fspath(arguments.corpus), links=str(arguments.links), counts_from=arguments.links_from
    )
    return read_gold_files(files, arguments.max_texts)


def add_figure_arguments(parser: argparse.ArgumentParser) -> None:
    """Add -o, --csv and --json."""
    parser.add_argument(
        "-o",
        "--out",
        type=figure_file,
        metavar="FIGURE",
        help="draw it: .svg, .pdf, .png; .csv, .npz, or .figure.json for later",
    )
    parser.add_argument("--csv", type=output_file, metavar="OUT", help="write the numbers there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def read_samples(arguments: argparse.Namespace, model: "Model") -> "tuple[list[Sample], str]":
    """The texts and their source: corpus, task, the model's own task, or its sample sentences."""
    if arguments.corpus is not None and arguments.task is not None:
        raise UserError(
            "There are two sets of texts.", expected="--corpus or --task", action="Leave out one."
        )
    if arguments.corpus is not None:
        return _from_corpus(arguments, model), str(arguments.corpus)
    task = arguments.task or _own_task(model)
    if task is not None:
        return _from_task(task, model, arguments.max_texts), f"task {task}"
    samples: list[Sample] = [
        sample.text if sample.target is None else (sample.text, sample.target)
        for sample in model.info.samples[: arguments.max_texts]
    ]
    return samples, "the model's sample sentences"


def save_figure(view: str, path: Path, model: "Model", *, note: str = "", **fields: Any) -> None:
    """Save a figure, with a caption naming the model."""
    from attnscope import boot

    application = boot.offscreen_application()
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption
    from attnscope.figures.views import VIEWS

    caption = Caption(model=model.info.name, sha256=model.info.sha256, note=note)
    Figure(VIEWS[view](caption=caption, **fields)).save(path)
    del application


def save_chart(chart: "Chart", path: Path, model: "Model", *, note: str) -> None:
    save_figure("curves", path, model, note=note, charts=(chart,), height_mm=100.0)


def tell_progress(events: "Iterator[PartsDone | object]", unit: str = "") -> "Iterator[object]":
    """The events other than progress, which is reported on standard error, in `unit`s."""
    from attnscope.records.importance import PartsDone

    progress = JobProgress()
    for event in events:
        if isinstance(event, PartsDone):
            progress.tell(event.about, event.n_done, event.n_total, unit)
        else:
            yield event
    progress.end()


def _from_corpus(arguments: argparse.Namespace, model: "Model") -> "list[Sample]":
    from attnscope.analysis.corpus_texts import read_corpus

    if arguments.links is not None:
        return list(read_linked(arguments))
    takes_target = model.info.takes_target
    if takes_target:
        tell_columns(arguments.corpus)
    return list(read_corpus(arguments.corpus, takes_target=takes_target, max_texts=arguments.max_texts))


def _own_task(model: "Model") -> str | None:
    from attnscope.models import OwnNetwork

    network = model.network
    task = network.card.training.get("task") if isinstance(network, OwnNetwork) else None
    return task if isinstance(task, str) and task else None


def _from_task(name: str, model: "Model", n: int) -> "list[Sample]":
    from attnscope.text.tasks import task_for

    return list(task_for(model.info.form, name).examples(n, seed=_HELD_OUT_SEED, held_out=True))

"""`attnscope translate`: translate a text, or a file of lines in batches, scored against references."""

import argparse
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import output_file, path_of, real, text_file, whole
from attnscope.cli.inputs import add_device_argument, add_gate_argument, open_model, parse_gates, tell_columns
from attnscope.cli.terminal import JobProgress, save_finished, say, say_error, say_json
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.files import replace_file
from attnscope.records.measures import with_interval
from attnscope.records.outputs import WriteSettings
from attnscope.records.tokens import COPYABLE

if TYPE_CHECKING:
    from attnscope.analysis.metrics import BleuScore
    from attnscope.models import Model

_BATCHES_AT_ONCE = 8
"""Lines are translated so many batches at a time, those of like length together, and then printed."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "translate",
        description="Greedy unless --beams is given. A line may hold source, tab and reference.",
    )
    parser.add_argument("model", metavar="MODEL", help="a translation model: its name or folder")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="the text itself; each line of it is one")
    what.add_argument(
        "-f", "--file", type=text_file, metavar="FILE", help="one text a line; - is standard input"
    )
    parser.add_argument(
        "--reference", type=path_of, metavar="FILE", help="the right translations, line by line"
    )
    parser.add_argument(
        "--all-references",
        action="store_true",
        help="lines with the same source are one text with several right translations",
    )
    parser.add_argument(
        "--held-out",
        type=real(0, 1),
        metavar="SHARE",
        help='only texts held out of training by data.held_out_by = "crc32" and this data.validation_share',
    )
    parser.add_argument("--beams", type=whole(1), metavar="N", help="follow the N best texts")
    parser.add_argument(
        "--length-penalty", type=real(0, 10), default=0.6, metavar="A", help="for beams (0.6)"
    )
    parser.add_argument("--max-tokens", type=whole(1), default=200, metavar="N", help="of each (200)")
    parser.add_argument(
        "--batch", type=whole(1), default=32, metavar="N", help="texts at a time (default: 32)"
    )
    parser.add_argument(
        "--by-length",
        type=whole(1),
        nargs="?",
        const=5,
        metavar="N",
        help="BLEU of texts of 1 to N words, of N + 1 to 2 N, and so on (5)",
    )
    add_gate_argument(parser)
    parser.add_argument("-o", "--out", type=output_file, metavar="FILE", help="write the translations there")
    parser.add_argument("--json", action="store_true", help="print translations and score as JSON")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Translate, write, score."""
    settings = WriteSettings(
        mode="greedy" if arguments.beams is None else "beams",
        max_tokens=arguments.max_tokens,
        length_penalty=arguments.length_penalty,
        **({} if arguments.beams is None else {"n_beams": arguments.beams}),
    )
    settings.check()
    sources, lines = _read(arguments)
    if arguments.held_out is not None:
        sources, lines = _held_out(sources, lines, arguments.held_out)
    references: list[tuple[str, ...]] = [(line,) for line in lines] if any(lines) else []
    if arguments.all_references:
        from attnscope.text.corpora import sources_once

        sources, references = sources_once(sources, references)
    if arguments.by_length is not None and not references:
        raise UserError(
            "Without references nothing can be scored by length.",
            expected="source, tab and reference on each line, or --reference FILE",
            action="Give references, or leave out --by-length.",
        )

    if references:
        from attnscope.analysis.metrics import require_counter

        require_counter()
    model = open_model(arguments)
    found = _Found(model.info.name, settings.sentence, len(sources))
    try:
        for line in _translate(model, sources, settings, arguments):
            found.lines.append(line)
            if not (arguments.json or arguments.out):
                say(line)
        found.score = _score(found.lines, references)
        if arguments.by_length is not None:
            from attnscope.analysis.metrics import by_length

            found.parts = by_length(sources, found.lines, references, arguments.by_length)
    finally:
        _hand_over(found, arguments)
    if found.score is not None and not arguments.json:
        tell = say if arguments.out is not None else say_error
        tell(score_sentence(found.score))
        for first, last, part in found.parts:
            tell(f"{f'{first}–{last} words':>14}: {length_sentence(part)}")
    return 0


@dataclasses.dataclass
class _Found:
    """The translations so far: the lines in order, and the scores once computed."""

    model: str
    settings: str
    n_texts: int
    lines: list[str] = dataclasses.field(default_factory=list)
    score: "BleuScore | None" = None
    parts: "list[tuple[int, int, BleuScore]]" = dataclasses.field(default_factory=list)


def _hand_over(found: _Found, arguments: argparse.Namespace) -> None:
    """Write the translations, even if the rest or the score failed."""
    if 0 < len(found.lines) < found.n_texts:
        say_error(f"attnscope: the first {len(found.lines)} of {found.n_texts} lines were translated.")
    if arguments.out is not None and found.lines:
        text = "".join(f"{line}\n" for line in found.lines)
        if not (save_finished(arguments, replace_file, arguments.out, text.encode()) or arguments.json):
            say(text.removesuffix("\n"))
    if arguments.json:
        table: dict[str, object] = {"model": found.model, "settings": found.settings, "texts": found.lines}
        table["bleu"] = None if found.score is None else dataclasses.asdict(found.score)
        if arguments.by_length is not None:
            table["by_length"] = [
                {"from": first, "to": last, **dataclasses.asdict(one)} for first, last, one in found.parts
            ]
        say_json(table)


def _read(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The texts and their references, of --text or of the file."""
    if arguments.text is None:
        return read_parallel_files(arguments.file, arguments.reference)
    if not arguments.text.strip():
        raise UserError("There is no text to translate.", expected="at least one word after --text")
    from attnscope.text.corpora import columns_of_lines

    columns = columns_of_lines(_lines_of(arguments.text), "--text")
    if arguments.reference is not None:
        raise UserError(
            "--reference belongs to a file of texts.",
            expected="a tab and the right translation after the text, or -f FILE",
            action="Leave out --reference, or give the text in a file.",
        )
    return sources_of(columns, "--text")


def _lines_of(text: str) -> list[str]:
    """The lines of a text, ended like those of a file."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _held_out(sources: list[str], lines: list[str], share: float) -> tuple[list[str], list[str]]:
    """The texts unseen in training, with their references if there are any; see `split_pairs`."""
    from attnscope.text.corpora import is_kept_out

    texts = [source.strip() for source in sources]
    kept = [k for k, text in enumerate(texts) if text and share and is_kept_out(text, share)]
    if not kept:
        raise UserError(
            f"None of the {len(sources):,} texts was held out of training.",
            expected="the file that the model was trained on, and its data.validation_share, such as 0.02",
            action="Give the whole file, or leave out --held-out.",
        )
    return [sources[k] for k in kept], [lines[k] for k in kept] if lines else []


def read_parallel_files(path: Path, reference: Path | None) -> tuple[list[str], list[str]]:
    """Sources and references line by line; no references if no file holds any.

    An empty line stays one, so that lines of both files and of the translations belong together. Raises
    LoadError or UserError.
    """
    from attnscope.text.corpora import columns_of_lines, read_lines

    columns = columns_of_lines(read_lines(path), path)
    if reference is None:
        tell_columns(path)
        return sources_of(columns, str(path))
    sources = [line[0] for line in columns]
    references = list(read_lines(reference))
    n_tabs = sum("\t" in line for line in references)
    if n_tabs:
        raise UserError(
            f"{n_tabs} of {len(references)} lines of {reference} contain a tab.",
            expected="the right translation alone on each line",
            action="Give a file of translations; of lines with source, tab and reference -f alone is enough.",
        )
    if any(len(line) > 1 for line in columns):
        say_error(f"attnscope: the references of {reference} are used, not those of {path}.")
    if len(references) != len(sources):
        raise UserError(
            f"{path} has {len(sources)} lines and {reference} has {len(references)}.",
            expected="a reference on the line of its text",
            action="Check that both files belong together.",
        )
    return sources, references


def sources_of(columns: list[list[str]], where: str) -> tuple[list[str], list[str]]:
    """Sources and references of lines split at their tabs; raises UserError if only some have one."""
    sources = [line[0] for line in columns]
    n_texts = sum(bool(source.strip()) for source in sources)
    n_both = sum(len(line) > 1 for line in columns)
    if n_both not in (0, n_texts):
        raise UserError(
            f"{n_both} of {n_texts} texts of {where} have a reference after a tab or three bars.",
            expected="all of them, or none",
            action="Complete the file, or give the references as a file of their own.",
        )
    return sources, [line[1] if len(line) > 1 else "" for line in columns] if n_both else []


def score_sentence(score: "BleuScore") -> str:
    parts = "/".join(with_interval(p, math.nan, math.nan, 1) for p in score.precisions)
    return f"{length_sentence(score)}; precisions {parts}, brevity {score.brevity:.3f}; {score.signature}"


def length_sentence(score: "BleuScore") -> str:
    """The score of a part in short; what all parts share is stated with the whole."""
    from attnscope.records.measures import Estimate

    told = Estimate(value=score.value, low=score.low, high=score.high, n=score.n_texts)
    short = "" if told.is_known else " (it matches up to 4 words in a row, and no text has 4)"
    return f"BLEU {with_interval(score.value, score.low, score.high)}{short}, {told.basis}"


def _translate(
    model: "Model", sources: list[str], settings: WriteSettings, arguments: argparse.Namespace
) -> Iterator[str]:
    """The translation of each line, in their order; empty lines stay."""
    from attnscope.models.writing.translating import translate_texts

    gates = parse_gates(arguments.gate, model.sites)
    n_texts = sum(bool(source.strip()) for source in sources)
    _tell_unknown(model, [source for source in sources if source.strip()])
    n_done, n_cut, progress = 0, 0, JobProgress()
    for start in range(0, len(sources), _BATCHES_AT_ONCE * arguments.batch):
        lines = sources[start : start + _BATCHES_AT_ONCE * arguments.batch]
        numbers = [number for number, line in enumerate(lines) if line.strip()]
        texts = [lines[number] for number in numbers]
        written = [""] * len(lines)
        for one in translate_texts(model, texts, settings, gates, batch_size=arguments.batch):
            written[numbers[one.index]] = one.text.replace("\n", " ")
            n_done, n_cut = n_done + 1, n_cut + (not one.has_ended)
            progress.tell(about="Translated", n_done=n_done, n_total=n_texts)
        progress.end()
        yield from written
    if n_cut:
        say_error(f"attnscope: {n_cut} of {n_texts} translations were cut before they ended.")


def _tell_unknown(model: "Model", texts: list[str]) -> None:
    """Report how many texts hold unknown words, or are too long for the model."""
    n_texts = n_tokens = n_copyable = n_long = 0
    for text in texts:
        source = model.encode(text).source
        n = source.n_unknown
        n_texts, n_tokens, n_long = n_texts + bool(n), n_tokens + n, n_long + bool(source.n_dropped)
        n_copyable += source.n_copyable
    if n_long:
        which, most = f"{n_long} of {plural(len(texts), 'text')}", model.info.max_tokens
        say_error(f"attnscope: {which} cut to the {most} tokens that {model.info.name} reads.")
    if n_tokens:
        words, where = plural(n_tokens, "word"), f"{n_texts} of {plural(len(texts), 'text')}"
        if n_copyable == n_tokens:
            are = "is" if n_tokens == 1 else "are"
            say_error(f"attnscope: {words}, in {where}, {are} {COPYABLE}.")
        else:
            say_error(f"attnscope: {model.info.name} has no token for {words}, in {where}.")


def _score(lines: list[str], references: list[tuple[str, ...]]) -> "BleuScore | None":
    """The score of the texts that have a reference; None where there is none."""
    right = [tuple(one for one in several if one.strip()) for several in references]
    both = [(line, several) for line, several in zip(lines, right, strict=False) if several]
    if not both:
        return None
    from attnscope.analysis.metrics import bleu

    return bleu([line for line, _ in both], [several for _, several in both])

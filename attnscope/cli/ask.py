"""`attnscope ask`: questions about a model and a text; without a name, the list of them."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attnscope.cli.arguments import figure_file, given_options, note_given, tell_unused
from attnscope.cli.figure_options import PAGE, add_page_arguments, paper_of
from attnscope.cli.inputs import add_device_argument, add_gate_argument, open_model, parse_gates
from attnscope.cli.terminal import save_finished, say, say_json, say_saved
from attnscope.counting import format_number
from attnscope.errors import UserError
from attnscope.fields import fields_of, help_rows, values_of, with_texts
from attnscope.questions import QUESTIONS, Question, question_named

if TYPE_CHECKING:
    from attnscope.drawing import Asked
    from attnscope.records.charts import Answer, CellMap, NumberTable

_MOST_WIDE, _MOST_WIDE_LAST = 24, 90


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "ask",
        description="Ask a question about a model and a text. Without a name: list the questions.",
    )
    note_given(parser)
    parser.add_argument("question", metavar="NAME", nargs="?", default="", help="the question's name")
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", default="", help="a demo model's name, a model or run folder"
    )
    parser.add_argument("--text", help="the text to look at; for a vision model a picture's path")
    parser.add_argument("--target", help="the second text of a translation (default: what it writes)")
    parser.add_argument("--head", metavar="[STACK:]L0H1", help="the head that is asked about")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="an option of the question; may be given again",
    )
    add_gate_argument(parser)
    parser.add_argument("-o", "--output", type=figure_file, metavar="FILE", help="write a figure or numbers")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_page_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the questions or the options of one; or ask, print, write."""
    given = given_options(arguments)
    if not arguments.question:
        tell_unused(given - {"json"}, "without the name of a question")
        _list(is_json=arguments.json)
        return 0
    question = question_named(arguments.question)
    if not arguments.model:
        tell_unused(given - {"json"}, "without a model")
        _tell(question, is_json=arguments.json)
        return 0
    if arguments.text is None or not arguments.text.strip():
        raise UserError("There is no text to look at.", expected="at least one word after --text")
    if arguments.output is None:
        tell_unused(given.intersection(PAGE), "without --output")
    options: dict[str, Any] = dict(values_of(with_texts(question.options, arguments.set)))
    from attnscope.drawing import ask

    model = open_model(arguments)
    found = ask(
        question.name,
        model,
        arguments.text,
        arguments.target,
        head=arguments.head,
        gates=parse_gates(arguments.gate, model.sites) if arguments.gate else None,
        **options,
    )
    is_saved = arguments.output is not None and save_finished(arguments, _save, found, arguments)
    if arguments.json:
        asked = {"question": question.name, "options": options, "model": model.info.name}
        text = {"sha256": model.info.sha256, "text": arguments.text, "target": arguments.target}
        say_json({**asked, **text, **json_of_answer(found.answer)})
    elif not is_saved:
        for line in lines_of_answer(found.answer):
            say(line)
    return 0


def _save(found: "Asked", arguments: argparse.Namespace) -> None:
    figure = found.figure(
        title=arguments.title or None,
        has_caption=arguments.caption,
        **paper_of(arguments),
    )
    path = figure.save(arguments.output)
    if not arguments.json:
        say_saved(path, found.sentence)


def _list(*, is_json: bool) -> None:
    if is_json:
        say_json([_json_of_question(question) for question in QUESTIONS.values()])
        return
    wide = 2 + max(map(len, QUESTIONS), default=0)
    for name, question in QUESTIONS.items():
        say(f"{name:<{wide}}{question.words}")
    say()
    say("attnscope ask NAME shows its options; attnscope ask NAME MODEL --text TEXT asks.")


def _tell(question: Question, *, is_json: bool) -> None:
    if is_json:
        say_json(_json_of_question(question))
        return
    say(f"{question.title}: {question.words}.")
    for name, words in (
        ("formula", question.formula),
        ("source", question.source),
        ("needs", question.needs),
    ):
        if words:
            say(f"  {name:<8} {words}")
    for name, tip, expected, default in help_rows(question.options):
        say(f"  --set {name}={default}   {tip} ({expected})")


def _json_of_question(question: Question) -> dict[str, object]:
    options = [
        {"name": one.name, "about": one.tip, "expected": one.expected, "default": one.default}
        for one in fields_of(question.options)
    ]
    return {
        "name": question.name,
        "title": question.title,
        "about": question.words,
        "formula": question.formula,
        "source": question.source,
        "needs": question.needs,
        "options": options,
    }


def json_of_answer(answer: "Answer") -> dict[str, object]:
    """Sentence, curves, maps and tables."""
    return {
        "sentence": answer.sentence,
        "note": answer.note,
        "charts": [
            {
                "title": chart.title,
                "x_label": chart.x_label,
                "y_label": chart.y_label,
                "x_names": chart.x_names,
                "series": [
                    {"name": one.name, "x": one.xs.tolist(), "y": one.ys.tolist()} for one in chart.series
                ],
            }
            for chart in answer.charts
        ],
        "maps": [json_of_map(cells) for cells in answer.cells],
        "tables": [asdict(table) for table in answer.tables],
    }


def json_of_map(cells: "CellMap") -> dict[str, object]:
    n_rows, n_columns = cells.values.shape
    return {
        "title": cells.title,
        "rows": [cells.row_name(i) for i in range(n_rows)],
        "columns": [cells.column_name(j) for j in range(n_columns)],
        "values": cells.values.tolist(),
    }


def lines_of_answer(answer: "Answer") -> Iterator[str]:
    yield answer.sentence
    if answer.note:
        yield answer.note
    for table in answer.tables:
        yield ""
        yield from _lines_of_table(table)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _lines_of_table(table: "NumberTable") -> Iterator[str]:
    """Names and the last column to the left, numbers to the right."""
    cells = [[one if isinstance(one, str) else format_number(one) for one in row] for row in table.rows]
    most = [*[_MOST_WIDE] * (len(table.columns) - 1), _MOST_WIDE_LAST]
    lines = [
        list(table.columns),
        *([_cut(one, n) for one, n in zip(row, most, strict=True)] for row in cells),
    ]
    wide = [2 + max(len(line[j]) for line in lines) for j in range(len(table.columns))]
    sayings = {len(most) - 1} if all(isinstance(row[-1], str) for row in table.rows) else set()
    yield table.title
    for line in lines:
        yield "".join(
            f"{cell:<{width}}" if j == 0 else f"  {cell}" if j in sayings else f"{cell:>{width}}"
            for j, (cell, width) in enumerate(zip(line, wide, strict=True))
        ).rstrip()

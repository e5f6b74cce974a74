"""How a study is run and written: recipes of resources/recipes/studies, and texts in two halves.

Its files are NAME.svg, NAME.md, NAME.csv (published beside ours), NAME-data.csv and NAME.json.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

from attnscope import __version__
from attnscope.analysis.batches import Sample
from attnscope.analysis.corpus_texts import own_texts, read_corpus
from attnscope.counting import csv_text, shell_line
from attnscope.errors import SaveError, UserError
from attnscope.figures.figure import Figure
from attnscope.figures.spec import Caption
from attnscope.figures.views.curves import CurvesFigure
from attnscope.files import replace_file
from attnscope.models import Model
from attnscope.outside import json_text
from attnscope.paths import resources_folder
from attnscope.records.importance import PartsDone
from attnscope.records.runs import Evaluated, Finished, Step
from attnscope.studies.study import Cell, Choices, PaperComparison, Study
from attnscope.text.tasks import make_task
from attnscope.training import read_recipe, read_run, train

QUICK = {
    "training.n_steps": "4",
    "training.batch_size": "4",
    "training.evaluate_every": "2",
    "training.evaluation_batches": "1",
    "training.save_every": "1",
    "data.n_examples": "40",
    "schedule.warmup_steps": "1",
}
"""Overrides that make a recipe tiny: only its files, not its numbers, are meaningful."""

DEMO, _TASK = "grammar", "english-french"
"""The demo model that translates, and the task it was trained on."""
_HELD_OUT_SEED = 4


def study_recipe(name: str) -> Path:
    """The file of a study's recipe."""
    return resources_folder() / "recipes" / "studies" / f"{name}.toml"


def run_folder(choices: Choices, name: str) -> Path:
    """Folder of a study's run: another for another seed, and for quick ones."""
    quick = "-quick" if choices.is_quick else ""
    return choices.folder / f"run-{name}-seed-{choices.seed}{quick}"


def train_study(
    name: str, out: Path, *, seed: int, device: str = "auto", changes: Mapping[str, str] | None = None
) -> Iterator[PartsDone]:
    """Train, or continue an existing run, yielding progress; a complete run is left alone.

    Raises UserError when the training does not come to its end.
    """
    overrides = {"training.seed": str(seed), **(changes or {})}
    n_steps = read_recipe(study_recipe(name), overrides).training.n_steps
    about = f"training {name}"
    for event in train(study_recipe(name), out, device, overrides):
        match event:
            case Step():
                yield PartsDone(n_done=event.step, n_total=n_steps, about=about)
            case Evaluated():
                about = f"training {name}: loss {event.loss:.3f}"
            case Finished() if event.reason != "done":
                raise UserError(
                    f"The training of {name} ended at step {event.step}: {event.note or event.reason}.",
                    action=f"Remove {out} and start the study again.",
                )


def checkpoints_of(folder: Path) -> tuple[tuple[int, Path], ...]:
    """Step and model folder of each checkpoint of a run."""
    return read_run(folder).checkpoints


def parameters_said(name: str, n_parameters: int) -> str:
    """A model in words: its recipe, its size."""
    return f"resources/recipes/studies/{name}.toml, {n_parameters:,} parameters"


def halves(model: Model, n_texts: int, corpus: Path | None = None) -> tuple[list[Sample], list[Sample], str]:
    """Texts to score heads on, others to measure on, and their source."""
    texts: Sequence[Sample]
    if corpus is not None:
        takes_target = model.info.takes_target
        texts = read_corpus(corpus, takes_target=takes_target, max_texts=2 * n_texts)
        source = corpus.name
    elif model.info.name == DEMO:
        texts = make_task(_TASK).examples(2 * n_texts, seed=_HELD_OUT_SEED, held_out=True)
        source = f"held out of the task {_TASK}"
    else:
        texts, source = own_texts(model, 2 * n_texts)
    middle = max(1, len(texts) // 2)
    return list(texts[:middle]), list(texts[middle:] or texts), source


FORMAT = 1
_COLUMNS = ("what", "published", "where", "ours", "low", "high", "unit", "as published", "remark")
_ONE_CHART_MM, _TWO_ROWS_MM, _ROW_MM = 100.0, 175.0, 95.0


def signed(study: Study, choices: Choices) -> Study:
    """The study with the command that reproduces it, the date and the program's version."""
    command = ["attnscope", "study", study.name, "--out", "DIR", "--seed", str(choices.seed)]
    for flag, value in (
        ("--model", choices.model),
        ("--corpus", choices.corpus),
        ("--conllu", choices.trees),
    ):
        command += [flag, str(value)] if value else []
    command += ["--quick"] if choices.is_quick else []
    size = (("size", "quick, to see that it runs: these numbers mean nothing"),) if choices.is_quick else ()
    made = f"{date.today().isoformat()}, AttnScope {__version__}"
    setting = (*size, *study.setting, ("command", shell_line(command)), ("made", made))
    return replace(study, setting=setting)


def write_study(study: Study, folder: Path) -> tuple[Path, ...]:
    """Write all files of a study into a new folder; returns their paths. Raises SaveError."""
    make_folder(folder)
    paths = [study_figure(study).save(folder / f"{study.name}.svg")]
    contents = {
        f"{study.name}.md": report_of(study),
        f"{study.name}.csv": csv_of(_COLUMNS, map(_cells, study.comparisons)),
        f"{study.name}-data.csv": csv_of(study.columns, study.data),
        f"{study.name}.json": json_text(study_table(study)),
    }
    for name, text in contents.items():
        replace_file(folder / name, text.encode())
        paths.append(folder / name)
    return tuple(paths)


def make_folder(folder: Path) -> None:
    """Create the folder of a study before the work begins; raises SaveError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(
            f"The folder {folder} cannot be made: {error.strerror or error}.", action="Choose another folder."
        ) from error


def study_figure(study: Study) -> Figure:
    """The charts of a study as one figure."""
    shown = [pair for pair in study.setting if pair[0] not in ("command", "made")]
    note = f"{_ended(study.paper)} " + "; ".join(f"{name}: {value}" for name, value in shown)
    return Figure(
        CurvesFigure(
            charts=study.charts,
            caption=Caption(model=study.model, sha256=study.sha256, note=note),
            height_mm=_height_mm(len(study.charts)),
        )
    )


def study_table(study: Study) -> dict[str, object]:
    """A study for JSON, without charts: `data` holds their numbers."""
    return {
        "format": FORMAT,
        "study": study.name,
        "paper": study.paper,
        "question": study.question,
        "setting": dict(study.setting),
        "comparisons": [asdict(comparison) for comparison in study.comparisons],
        "differences": list(study.differences),
        "model": study.model,
        "sha256": study.sha256,
        "columns": list(study.columns),
        "data": [list(row) for row in study.data],
    }


def report_of(study: Study) -> str:
    """A study as Markdown: question, published beside ours, differences, method."""
    lines = [f"# {study.name}: {study.question}", "", f"After {_ended(study.paper)}", ""]
    lines += [f"![{study.name}]({study.name}.svg)", ""]
    lines += ["| what | published | where | ours | as published |", "|---|---|---|---|---|"]
    for one in study.comparisons:
        cells = (one.what, one.published, one.where, ours_text(one), agreement_text(one))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    remarks = [f"- {one.what}: {one.remark}" for one in study.comparisons if one.remark]
    lines += ["", *(["## What the numbers say", "", *remarks, ""] if remarks else [])]
    lines += ["## Where ours differs, and why", "", *(f"- {line}" for line in study.differences), ""]
    lines += ["## How it was made", "", *(f"- {name}: {value}" for name, value in study.setting), ""]
    lines.append(f"Every number: {study.name}-data.csv, {study.name}.json.")
    return "\n".join(lines) + "\n"


def ours_text(one: PaperComparison) -> str:
    """Our number with its unit and interval."""
    if math.isnan(one.ours):
        return "—"
    interval = "" if math.isnan(one.low) else f" ({one.low:.3g} to {one.high:.3g})"
    return f"{one.ours:.3g}{interval} {one.unit}".strip()


def agreement_text(one: PaperComparison) -> str:
    """Whether ours agrees, in one word."""
    return {True: "yes", False: "no", None: one.undecided or "—"}[one.is_as_published]


def csv_of(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table as CSV; a missing number is an empty cell."""
    return csv_text(columns, ([None if _is_missing(cell) else cell for cell in row] for row in rows))


def _height_mm(n_charts: int) -> float:
    """The first chart has the full width, the others are in rows of two."""
    n_rows = n_charts // 2
    return _ONE_CHART_MM if n_rows == 0 else max(_TWO_ROWS_MM, _ROW_MM * n_rows)


def _cells(one: PaperComparison) -> tuple[Cell, ...]:
    said = agreement_text(one)
    return (one.what, one.published, one.where, one.ours, one.low, one.high, one.unit, said, one.remark)


def _ended(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _is_missing(cell: Cell) -> bool:
    return isinstance(cell, float) and math.isnan(cell)

"""Reads runs from their folders: one while another process writes it, and many side by side.

A run folder that another process writes, read as it grows: only what was appended is read.

A line that is not finished yet waits; a file that was cut or replaced is read from its beginning; what an
attempt still writes after a later one has begun is skipped.

Many runs read from their folders and kept small: what each reached, at which cost, and its curves.

What a run costs is computed on paper (`models/cost.py`): operations of a training token of the mean length,
times the tokens read.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from attnscope.counting import plural
from attnscope.errors import LoadError, UserError
from attnscope.models import own_cost
from attnscope.nn import count_parameters
from attnscope.outside import as_object, read_json, read_toml_text
from attnscope.records.runs import (
    Evaluated,
    Finished,
    RunEnd,
    RunLines,
    RunMark,
    RunNews,
    RunSummary,
    RunWriter,
    Saved,
    Started,
    Step,
    TrainingEvent,
    Watched,
)
from attnscope.training.optimizers import texts_until
from attnscope.training.paper import n_texts_read
from attnscope.training.parts import mended_recipe
from attnscope.training.recipe import Recipe, parse_recipe, tables_of
from attnscope.training.run import RunFolder, event_from_line, open_metrics, read_writer

_PIECE_BYTES = 256_000
"""About 1,700 events: what a window can take in at once without a pause that is felt."""
_BEFORE_BYTES = 200


class RunFollower:
    """Follows one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = RunMark()

    def news(self) -> Iterator[RunNews]:
        """Events since the last call, in pieces; raises LoadError if the folder is not there."""
        for news in read_news(self.folder, self.mark):
            self.mark = news.mark
            yield news


def read_news(folder: Path, mark: RunMark, number: int = 0) -> Iterator[RunNews]:
    """Entries of a run folder after `mark`, one RunNews at least; raises LoadError without the folder."""
    paths = RunFolder(folder)
    if not folder.is_dir():
        raise LoadError(
            f"The run folder {folder} does not exist.",
            kind="run",
            expected="a folder that training writes",
            action="Choose the folder that was given to the training.",
        )
    try:
        with open_metrics(paths.metrics) as stream:
            yield from _news(paths, stream, mark, number)
    except LoadError as error:
        if error.kind != "missing":
            raise
        yield _first(paths, number)
    except OSError as error:
        raise LoadError(f"{paths.metrics} cannot be read: {error.strerror}.", kind="unreadable") from error


def _news(paths: RunFolder, stream: BinaryIO, mark: RunMark, number: int) -> Iterator[RunNews]:
    if _stands_at(stream, mark):
        news = RunNews(
            number=number,
            folder=str(paths.folder),
            events=(),
            checkpoints=(),
            mark=mark,
            writer=read_writer(paths.folder),
        )
    else:
        news = _first(paths, number)
        stream.seek(0)
    pieces = _pieces(stream)
    lines = next(pieces, None)
    while lines is not None:
        following = next(pieces, None)
        news = _with_lines(news, paths, lines)
        yield replace(news, has_more=following is not None)
        if following is None:
            return
        news = replace(news, events=(), checkpoints=(), probes=(), recipe="", is_restart=False)
        lines = following
    yield news


def _first(paths: RunFolder, number: int) -> RunNews:
    """The first news of a run: the recipe and the existing checkpoints."""
    try:
        recipe, _ = mended_recipe(read_toml_text(paths.recipe))
    except LoadError:
        recipe = ""
    return RunNews(
        number=number,
        folder=str(paths.folder),
        events=(),
        checkpoints=tuple((step, str(path)) for step, path in paths.checkpoints()),
        probes=tuple((step, str(path)) for step, path in paths.probes()),
        mark=RunMark(),
        writer=read_writer(paths.folder),
        recipe=recipe,
        is_restart=True,
    )


def _stands_at(stream: BinaryIO, mark: RunMark) -> bool:
    """Move to the mark; False if the text before it differs, or it is the beginning."""
    if not mark.n_bytes:
        return False
    stream.seek(mark.n_bytes - len(mark.before))
    return stream.read(len(mark.before)) == mark.before


def _pieces(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The complete lines that follow, some at a time."""
    while lines := stream.readlines(_PIECE_BYTES):
        if not lines[-1].endswith(b"\n"):
            lines.pop()
        if lines:
            yield lines


def _with_lines(news: RunNews, paths: RunFolder, lines: list[bytes]) -> RunNews:
    mark = news.mark
    parsed = [event_from_line(line) for line in lines]
    attempt, events = mark.attempt, []
    for found in parsed:
        if found is not None and found[0] >= attempt:
            attempt = found[0]
            events.append(_placed(found[1], paths))
    checkpoints, probes = dict(news.checkpoints), dict(news.probes)
    for event in events:
        if isinstance(event, Saved) and Path(event.folder).is_dir():
            checkpoints[event.step] = event.folder
        if isinstance(event, Watched) and Path(event.file).is_file():
            probes[event.step] = event.file
    before = (mark.before + b"".join(lines))[-_BEFORE_BYTES:]
    return replace(
        news,
        events=tuple(events),
        checkpoints=tuple(sorted(checkpoints.items())),
        probes=tuple(sorted(probes.items())),
        mark=RunMark(n_bytes=mark.n_bytes + sum(map(len, lines)), before=before, attempt=attempt),
        n_bad_lines=sum(found is None for found in parsed),
    )


def _placed(event: TrainingEvent, paths: RunFolder) -> TrainingEvent:
    """The event with folders relative to this process; the writer may have named them otherwise."""
    match event:
        case Started():
            return replace(event, folder=str(paths.folder))
        case Saved():
            return replace(event, folder=str(paths.checkpoint(event.step)))
        case Watched():
            return replace(event, file=str(paths.probe(event.step)))
        case _:
            return event


MAX_RUNS = 200
_SILENT_S = 600.0
"""A writer on another computer that has not written for so long is taken to have ended."""
_EMBEDDINGS = ("token embedding", "position embeddings", "segment embedding")
_UNTOLD = ("training.name", "data.about")


class RunsReader:
    """Reads many runs, with a cache, so that only appended lines are read again."""

    def __init__(self) -> None:
        self._tallies: dict[Path, _Tally] = {}

    def read(self, folders: Sequence[str]) -> Iterator[str | tuple[tuple[RunSummary, ...], tuple[str, ...]]]:
        """Yield the names of the runs as they are read, then all of them and what was left out and why.

        A folder is a run, or one whose children or grandchildren are. Raises LoadError when there is none.
        """
        found, left_out = find_runs(folders)
        names = short_names(found)
        read: list[tuple[Path, _Tally]] = []
        for folder in found:
            tally = self._tallies.setdefault(folder, _Tally(folder))
            for _ in tally.update():
                yield names[folder]
            if tally.recipe is None:
                left_out.append(f"{folder}: {tally.fault}")
            else:
                read.append((folder, tally))
        settings = differing([tally.known_recipe for _, tally in read])
        summaries = [
            tally.summary(names[folder], given) for (folder, tally), given in zip(read, settings, strict=True)
        ]
        yield tuple(summaries), tuple(left_out)


def read_runs(folders: Sequence[str]) -> tuple[tuple[RunSummary, ...], tuple[str, ...]]:
    """The runs in some folders, and what was left out; raises LoadError if there is none."""
    *_, last = RunsReader().read(folders)
    if isinstance(last, str):
        raise TypeError("a reading ends with its runs")
    return last


def find_runs(folders: Iterable[str]) -> tuple[list[Path], list[str]]:
    """The run folders among and below some folders, each once, and what was left out."""
    found: dict[Path, None] = {}
    left_out = []
    for name in folders:
        folder = Path(name)
        runs: list[Path] = []
        for pattern in ("recipe.toml", "*/recipe.toml", "*/*/recipe.toml"):
            if not runs:
                paths = sorted(folder.glob(pattern), key=_natural)
                runs = [path.parent for path in paths if path.is_file()]
        if not runs:
            left_out.append(f"{folder}: no run there or below")
        found.update(dict.fromkeys(runs))
    if not found:
        raise LoadError(
            f"There is no run in {', '.join(map(str, folders)) or 'no folder at all'}.",
            kind="run",
            expected="a folder with recipe.toml, as training writes it, or one that holds such folders",
            action="Train first: attnscope train RECIPE --out DIR, or with --sweep for several runs.",
        )
    runs = list(found)
    if len(runs) > MAX_RUNS:
        left_out.append(f"{plural(len(runs) - MAX_RUNS, 'run')} beyond the first {MAX_RUNS}")
    return runs[:MAX_RUNS], left_out


def short_names(folders: Sequence[Path]) -> dict[Path, str]:
    """The last part of each path, with as many parts before it as needed to be unique."""
    n_parts = 1
    while True:
        names = {folder: "/".join(folder.resolve().parts[-n_parts:]) for folder in folders}
        if len(set(names.values())) == len(names) or n_parts > 20:
            return names
        n_parts += 1


def differing(recipes: Sequence[Recipe]) -> list[tuple[tuple[str, str], ...]]:
    """For each recipe its values of the keys that differ between them."""
    flat = [
        {f"{part}.{key}": str(v) for part, table in tables_of(recipe).items() for key, v in table.items()}
        for recipe in recipes
    ]
    names = [name for name in dict.fromkeys(n for one in flat for n in one) if name not in _UNTOLD]
    differ = [name for name in names if len({one.get(name, "") for one in flat}) > 1]
    return [tuple((name, one[name]) for name in differ if name in one) for one in flat]


_NOT_STARTED = Started(folder="", step=0, n_steps=0, n_parameters=0, device="")


class _Tally:
    """The numbers of one run so far, a few for each step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe: Recipe | None = None
        self.fault = "its recipe cannot be read"
        self._follower = RunFollower(folder)
        self._text = ""
        self._writer: RunWriter | None = None
        self._started = _NOT_STARTED
        self._reason: RunEnd | Literal[""] = ""
        """Why it is over; empty while it is not."""
        self._note = ""
        self._steps: list[tuple[float, float, float]] = []  # step, tokens, seconds
        self._looks: list[tuple[float, float, float]] = []  # step, held-out loss and accuracy

    @property
    def known_recipe(self) -> Recipe:
        """The recipe, once read."""
        if self.recipe is None:
            raise ValueError(f"{self.folder} has no recipe")
        return self.recipe

    def update(self) -> Iterator[RunNews]:
        """Read the new lines, piece by piece."""
        for news in self._follower.news():
            self._writer = news.writer
            if news.is_restart:
                self._restart(news.recipe)
            for event in news.events:
                self._take(event)
            yield news

    def _restart(self, text: str) -> None:
        self._steps, self._looks, self._started = [], [], _NOT_STARTED
        self._text, self._reason, self._note = text, "", ""
        try:
            self.recipe = parse_recipe(text)
        except UserError as error:
            self.recipe, self.fault = None, str(error)

    def _take(self, event: object) -> None:
        match event:
            case Started():
                self._steps = [values for values in self._steps if values[0] <= event.step]
                self._looks = [values for values in self._looks if values[0] <= event.step]
                self._started, self._reason, self._note = event, "", event.note
            case Step():
                n_tokens = float(event.n_tokens) or self._usual_tokens()
                seconds = n_tokens / event.tokens_per_s if event.tokens_per_s > 0 else math.nan
                self._steps.append((event.step, n_tokens, seconds))
            case Evaluated():
                self._looks.append((event.step, event.loss, event.accuracy))
            case Finished():
                self._reason, self._note = event.reason, event.note
            case _:
                pass

    def _usual_tokens(self) -> float:
        """Tokens of a step for older versions, which did not record them: known for running text only."""
        recipe = self.recipe
        if recipe is None or recipe.data.kind != "text":
            return math.nan
        return float(recipe.training.batch_size * recipe.training.accumulate * recipe.model.max_tokens)

    def summary(self, name: str, settings: tuple[tuple[str, str], ...]) -> RunSummary:
        steps = np.array(self._steps, np.float64).reshape(-1, 3)
        looks = np.array(self._looks, np.float64).reshape(-1, 3)
        started = self._started
        is_known = np.isfinite(looks[:, 1])
        best = looks[is_known][np.argmin(looks[is_known, 1])] if is_known.any() else (0.0, math.nan, math.nan)
        n_tokens = float(steps[:, 1].sum()) if len(steps) else 0.0
        n_parameters, n_body, flops = _costs(self.known_recipe, self.folder, started, n_tokens, len(steps))
        return RunSummary(
            folder=str(self.folder),
            name=name,
            end=self._end(),
            step=int(max([started.step, *steps[-1:, 0]])),
            n_steps=started.n_steps or self.known_recipe.training.n_steps,
            n_parameters=n_parameters,
            n_body=n_body,
            last_loss=float(looks[-1, 1]) if len(looks) else math.nan,
            last_accuracy=float(looks[-1, 2]) if len(looks) else math.nan,
            best_loss=float(best[1]),
            best_step=int(best[0]),
            n_tokens=n_tokens,
            flops=flops,
            seconds=float(steps[:, 2].sum()) if len(steps) else 0.0,
            validation=RunLines(steps=looks[:, 0], values=looks[:, 1]),
            recipe=self._text,
            settings=settings,
            note=self._note,
            device=started.device,
            writer=self._writer,
            objective=self.known_recipe.objective.kind,
        )

    def _end(self) -> RunEnd:
        if self._reason:
            return self._reason
        writer = self._writer
        is_written = writer is not None and (writer.is_here or writer.silent_s < _SILENT_S)
        return "running" if is_written else "broken off"


def _costs(
    recipe: Recipe, folder: Path, started: Started, n_tokens: float, n_steps: int
) -> tuple[int, int, float]:
    """Parameters, those without embeddings, and operations of the training so far."""
    config = replace(recipe.model, vocab_size=_vocab_size(folder, recipe.model.vocab_size))
    count = count_parameters(config)
    n_parameters = started.n_parameters or count.total
    n_body = max(0, n_parameters - sum(n for part, n in count.parts if part in _EMBEDDINGS))
    n_sequences = texts_until(n_steps, recipe)
    if not n_sequences or not math.isfinite(n_tokens):
        return n_parameters, n_body, 0.0 if not n_sequences else math.nan
    n_texts = n_texts_read(config)  # costs are counted for each token of the first
    length = max(1.0, n_tokens / n_sequences / n_texts - config.memory_tokens)
    return n_parameters, n_body, own_cost(config, round(length)).training_a_token * length * n_sequences


def _vocab_size(folder: Path, wish: int) -> int:
    """The vocabulary size of a checkpoint; a recipe only has the requested one."""
    checkpoints = RunFolder(folder).checkpoints()
    if not checkpoints:
        return wish
    try:
        config: Mapping[str, object] = as_object(
            as_object(read_json(checkpoints[0][1] / "config.json"), what="config")["model"], what="model"
        )
        found = config["vocab_size"]
    except (LoadError, KeyError):
        return wish
    return found if isinstance(found, int) else wish


def _natural(path: Path) -> tuple[tuple[int, float, str], ...]:
    """A key that sorts numbers within names by size: width=64 before width=128."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", str(path))
    return tuple((0, float(p), "") if i % 2 else (1, 0.0, p) for i, p in enumerate(parts) if p or i % 2)

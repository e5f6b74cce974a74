"""A run folder that another process writes, read as it grows: only what was appended is read.

A line that is not finished yet waits; a file that was cut or replaced is read from its beginning; what an
attempt still writes after a later one has begun is passed over.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from attnscope.errors import LoadError
from attnscope.records.runs import RunMark, RunNews
from attnscope.records.training import Saved, Started, TrainingEvent, Watched
from attnscope.strict_toml import read_toml_text
from attnscope.training.lock import read_writer
from attnscope.training.metrics import event_from_line, open_metrics
from attnscope.training.old_recipes import mended_recipe
from attnscope.training.run import RunFolder

_PIECE_BYTES = 256_000
"""About 1,700 events: what a window can take in at once without a pause that is felt."""
_BEFORE_BYTES = 200


class RunFollower:
    """Follows one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = RunMark()

    def news(self) -> Iterator[RunNews]:
        """What happened since the last time, in pieces; raises LoadError when the folder is not there."""
        for news in read_news(self.folder, self.mark):
            self.mark = news.mark
            yield news


def read_news(folder: Path, mark: RunMark, number: int = 0) -> Iterator[RunNews]:
    """What a run folder says after `mark`, one RunNews at least; raises LoadError without the folder."""
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
    """The beginning of a story: the recipe and the checkpoints that are there already."""
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
    """Move to the mark; False when something else stands before it, or it is the beginning."""
    if not mark.n_bytes:
        return False
    stream.seek(mark.n_bytes - len(mark.before))
    return stream.read(len(mark.before)) == mark.before


def _pieces(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The whole lines that follow, some at a time."""
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
    """The event with folders as they are found from here; the writer may have named them otherwise."""
    match event:
        case Started():
            return replace(event, folder=str(paths.folder))
        case Saved():
            return replace(event, folder=str(paths.checkpoint(event.step)))
        case Watched():
            return replace(event, file=str(paths.probe(event.step)))
        case _:
            return event

"""Following a run that another process writes, and reading many runs. No Qt."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.records.messages import Progress
from attnscope.records.requests import Reply
from attnscope.records.runs import FollowRun, InspectionsShown, OpenRuns, RunsOpened, ShowInspections
from attnscope.workers.desk import Desk, serves

if TYPE_CHECKING:
    from attnscope.training.inspections import InspectionsReader
    from attnscope.training.summaries import RunsReader


class KnownRuns:
    """What was read of runs before, so that only what they appended is read again."""

    @cached_property
    def inspections(self) -> "InspectionsReader":
        """Made when it is first needed."""
        from attnscope.training.inspections import InspectionsReader

        return InspectionsReader()

    @cached_property
    def reader(self) -> "RunsReader":
        """Made when it is first needed."""
        from attnscope.training.summaries import RunsReader

        return RunsReader()


@serves(FollowRun)
def follow_run(request: FollowRun, desk: Desk) -> Iterator[Reply]:
    """What a run folder says that is new, in pieces that a window can take in at once."""
    from attnscope.training.follow import read_news

    yield from read_news(Path(request.folder), request.mark, request.number)


@serves(OpenRuns)
def open_runs(request: OpenRuns, desk: Desk) -> Iterator[Reply]:
    """Read the runs of some folders side by side."""
    for read in desk.kept(KnownRuns).reader.read(request.folders):
        if isinstance(read, str):
            yield Progress(number=request.number, what=f"Reading {read}")
        else:
            runs, left_out = read
            yield RunsOpened(number=request.number, folders=request.folders, runs=runs, left_out=left_out)


@serves(ShowInspections)
def show_inspections(request: ShowInspections, desk: Desk) -> Iterator[Reply]:
    """What was looked at in the steps of a run, where that is new."""
    reader = desk.kept(KnownRuns).inspections
    for _ in reader.read(Path(request.folder)):
        yield Progress(number=request.number, what="Reading inspections")
    is_new = reader.version != request.seen
    yield InspectionsShown(
        number=request.number,
        folder=request.folder,
        version=reader.version,
        history=reader.history() if is_new else None,
    )

"""Answering how well cross-attention agrees with gold links on the text that is shown. No Qt."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attnscope.analysis.gold_links import AlignedPair, read_gold_files
from attnscope.analysis.known_links import links_of_files, links_of_task
from attnscope.analysis.word_alignment import align_trace
from attnscope.last_made import LastMade
from attnscope.records.alignment import AlignmentShown, GoldFiles, ShowAlignment
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves


class GoldDesk:
    """Keeps the pairs of the files that were opened last."""

    def __init__(self) -> None:
        self._pairs: LastMade[list[AlignedPair]] = LastMade()

    def show(self, request: ShowAlignment, desk: Desk) -> Iterator[Reply]:
        """The numbers and the links, or why there are none; raises UserError for files that are none."""
        model, trace = desk.model, desk.views.find(OPEN_MODEL, request.trace)
        if trace is None or trace.target is None:
            why = "the text has changed meanwhile" if trace is None else "there is no translation to align"
            yield AlignmentShown(number=request.number, trace=request.trace, note=why)
            return
        source, target = trace.source.text, trace.target.text
        if request.files is None:
            known = links_of_task(model, source, target)
        else:
            known = links_of_files(self._read(request.files), Path(request.files.links).name, source, target)
        shown = AlignmentShown(
            number=request.number,
            trace=request.trace,
            origin=known.origin,
            note=known.note,
            offered=known.offered,
            following=known.following,
        )
        if known.pair is not None:
            table, cells = align_trace(trace, known.pair, rows=request.rows, model=model.info.name)
            shown = replace(shown, table=table, cells=cells)
        yield shown

    def _read(self, files: GoldFiles) -> list[AlignedPair]:
        changed = (_changed_ns(files.pairs), _changed_ns(files.links))
        return self._pairs.of((files, changed), lambda: read_gold_files(files))


def _changed_ns(path: str) -> int:
    """When a file was changed last; 0 where it cannot be told, so that reading it says why."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


@serves(ShowAlignment)
def show_alignment(request: ShowAlignment, desk: Desk) -> Iterator[Reply]:
    """How well cross-attention agrees with the links that are known of the text."""
    return desk.kept(GoldDesk).show(request, desk)

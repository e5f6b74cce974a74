"""A measuring pass over texts, advanced one batch at a time between other work. No Qt.

Answering how well cross-attention agrees with gold links on the text that is shown. No Qt.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from attnscope.analysis.corpus_texts import Text, own_texts, read_corpus
from attnscope.analysis.gold_links import AlignedPair, read_gold_files
from attnscope.analysis.measuring import measure_parts
from attnscope.analysis.roles import head_card
from attnscope.analysis.word_alignment import align_trace, links_of_files, links_of_task, own_pairs
from attnscope.conllu import Tree, read_conllu
from attnscope.errors import UserError
from attnscope.last_made import LastMade
from attnscope.models import Model
from attnscope.records.findings import (
    OWN_TEXTS,
    UNMEASURED,
    CardShown,
    Findings,
    HeadsMeasured,
    MeasureHeads,
    MeasuringNews,
    ShowCard,
)
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.requests import Reply
from attnscope.records.word_tables import OWN_LINKS, AlignmentShown, GoldFiles, ShowAlignment
from attnscope.workers.desk import Desk, serves, works


class Measuring:
    """One pass as a job, and afterwards what it found, for the cards of heads."""

    def __init__(self, request: MeasureHeads, model: Model) -> None:
        self._model = model
        self._texts: Sequence[Text] = ()
        self._trees: Sequence[Tree] = ()
        self._found = UNMEASURED
        self.steps = self._measure(request)

    def card(self, request: ShowCard) -> CardShown:
        """What one head does, with its telling texts; raises UserError before the pass is complete."""
        found = self._found
        if request.head not in found.table.heads:
            raise UserError("This head has not been measured.", action="Measure the heads over texts first.")
        card = head_card(
            request.head,
            found.table,
            found.syntax,
            found.alignment,
            model=self._model,
            texts=self._texts,
            tree_texts=[tree.text for tree in self._trees],
            sites=self._model.sites,
        )
        return CardShown(number=request.number, card=card)

    def _measure(self, request: MeasureHeads) -> Generator[Reply, None, None]:
        yield MeasuringNews(number=request.number, what="Reading texts", n_done=0, n_total=0)
        name = self._read(request)
        pairs = self._linked(request)
        for found in measure_parts(
            self._model,
            self._texts,
            trees=self._trees,
            pairs=pairs,
            name=name,
            specials=request.specials,
            seed=request.seed,
        ):
            if isinstance(found, Findings):
                self._found = found
                yield HeadsMeasured(number=request.number, found=found)
            else:
                yield MeasuringNews(
                    number=request.number, what=found.what, n_done=found.n_done, n_total=found.n_total
                )

    def _read(self, request: MeasureHeads) -> str:
        """Read the texts; returns what they are called."""
        if request.path == OWN_TEXTS:
            self._texts, name = own_texts(self._model, request.max_texts)
            return name
        path = Path(request.path)
        if path.name.lower().endswith((".conllu", ".conllu.gz")):
            self._trees = read_conllu(path, request.max_texts)
            self._texts = [tree.text for tree in self._trees]
        else:
            takes_target = self._model.info.takes_target
            self._texts = read_corpus(path, takes_target=takes_target, max_texts=request.max_texts)
        return path.name

    def _linked(self, request: MeasureHeads) -> list[AlignedPair]:
        """The texts that were read with their gold links; none where there are no links or no cross heads."""
        if all(site.stack != "cross" for site in self._model.sites):
            return []
        if request.links and request.path != OWN_TEXTS:
            files = GoldFiles(pairs=request.path, links=request.links, counts_from=request.links_from)
            return read_gold_files(files, request.max_texts)
        return own_pairs(self._model, request.max_texts) if request.path == OWN_TEXTS else []


class LastMeasuring:
    """The pass over the open model that was begun last."""

    measuring: Measuring | None = None

    def forget_model(self) -> None:
        """Another model is open; the pass holds the one before."""
        self.measuring = None


@works(MeasureHeads)
def answer_measuring(request: MeasureHeads, desk: Desk) -> Generator[Reply, None, None]:
    """Measure every head over texts."""
    last = desk.kept(LastMeasuring)
    last.measuring = Measuring(request, desk.model)
    return last.measuring.steps


@serves(ShowCard)
def show_card(request: ShowCard, desk: Desk) -> Iterator[Reply]:
    """What one head does, from the last pass."""
    measuring = desk.kept(LastMeasuring).measuring
    if measuring is None:
        raise UserError("No head has been measured.", action="Measure the heads over texts first.")
    yield measuring.card(request)


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
        if request.files == OWN_LINKS:
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

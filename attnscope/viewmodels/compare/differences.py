"""How far apart two traces are: their axes aligned, and the differences of all heads that both have.

Must not import Qt.
"""

from attnscope.records.compare import CompareTraces, DifferenceGrid, StackAlignment, TracesCompared
from attnscope.viewmodels.compare.rows import PairedAnswer, pair_answers
from attnscope.viewmodels.compare.traces import SideTraces
from attnscope.viewmodels.maps.alignment import align_stacks
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session


class Differences:
    """Belongs to one comparison; asks the worker once for each pair of traces and way to align."""

    def __init__(self, session: Session, traces: SideTraces, requests: Requests) -> None:
        self._session, self._traces = session, traces
        self.query = Query(TracesCompared, requests)
        """Asked only while the page is looked at."""
        self.stacks: tuple[StackAlignment, ...] = ()
        self.answers: tuple[PairedAnswer, ...] = ()

    @property
    def grids(self) -> tuple[DifferenceGrid, ...]:
        """The differences of the heads of every stack."""
        return self.query.answer.grids if self.query.answer else ()

    @property
    def kl_nats(self) -> tuple[float, ...]:
        """KL of each pair of `answers`; empty while the comparison there is belongs to other answers."""
        n_pairs = sum(answer.pair is not None for answer in self.answers)
        found = self.query.answer
        values = found.kl_nats if found and not self.query.is_busy else ()
        return values if len(values) == n_pairs else ()

    @property
    def end(self) -> float:
        """The |Δ| at the ends of the colours; 0: the largest of each head."""
        if self._session.compared.limit != "every":
            return 1.0 if self._session.compared.limit == "unit" else 0.0
        return max((float(grid.peaks.max()) for grid in self.grids), default=0.0)

    @property
    def is_aligned(self) -> bool:
        """Whether the axes are those of the traces that are there."""
        return self.query.about == self._key

    @property
    def _key(self) -> object:
        """What an alignment depends on."""
        return self._traces.numbers, self._session.compared.way, self._session.aspect.rows

    def forget(self) -> None:
        """Know nothing any more: there are other traces, or none."""
        self.stacks, self.answers = (), ()
        self.query.forget()

    def align(self) -> bool:
        """Align the tokens of both traces and ask for the differences of all heads, once; whether it did."""
        both = self._traces.both
        if both is None or self.is_aligned:
            return False
        way = self._session.compared.way
        self.stacks, self.answers = (
            align_stacks(*both, way, self._session.aspect.rows),
            pair_answers(*both, way),
        )
        request = CompareTraces(
            first=self._traces.sides["A"].view,
            second=self._traces.sides["B"].view,
            first_trace=both[0].number,
            second_trace=both[1].number,
            stacks=self.stacks,
            answers=tuple(found.pair for found in self.answers if found.pair is not None),
        )
        self.query.ask(self._key, request)
        return True

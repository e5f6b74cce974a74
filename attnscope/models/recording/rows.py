"""Which row of a batch is the text that is asked for, call by call: rows may go on with each other's keys.

Beam search writes several texts side by side, and before each step puts the keys of the best ones where
those of others were. So a row is followed back from the call in which it ends: in each call before, it is
the row whose keys it goes on with, in every module of that step. Which row ends as the text that a person
has, the ids tell that the module's embedding was given.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from attnscope.counting import counted
from attnscope.errors import UserError
from attnscope.models.recording.chains import goes_on
from attnscope.models.recording.placing import RecordedCall
from attnscope.trace.record import SiteRecord

MAX_ROWS = 16
"""So many rows of a batch are recorded where none was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """Ids that an embedding was given, int64 [rows, n_tokens], before the call with the number `before`."""

    name: str
    before: int
    ids: Tensor


def choose_rows(
    calls: Sequence[RecordedCall],
    readings: Sequence[Reading],
    row: int | None,
    ids: Sequence[int] | None,
) -> tuple[RecordedCall, ...]:
    """The calls with one row each: `row` of the last step, or the row that read `ids`.

    Steps after those that read the ids are left out. Raises UserError where neither tells one.
    """
    n_rows = max((len(call.rows) for call in calls), default=0)
    if row is not None and not -max(1, n_rows) <= row < max(1, n_rows):
        raise UserError(
            f"The recorded calls have {counted(max(1, n_rows), 'batch row')}; there is no row {row}.",
            expected=f"0 to {max(1, n_rows) - 1}",
        )
    if n_rows == 0:
        return tuple(calls)
    steps = _Steps(calls, n_rows)
    if row is not None:
        return steps.along(steps.path(len(steps) - 1, row % n_rows))
    path = None if ids is None else next(steps.paths_that_read(readings, ids), None)
    if path is None:
        raise _unchosen(n_rows, ids)
    return steps.along(path)


class _Steps:
    """Calls by the passes that they were made in: the k-th calls of all modules that were called as often."""

    def __init__(self, calls: Sequence[RecordedCall], n_rows: int) -> None:
        self._calls, self._n_rows = calls, n_rows
        of_module: defaultdict[str, list[RecordedCall]] = defaultdict(list)
        for call in calls:
            of_module[call.module or call.name].append(call)
        many = [own for own in of_module.values() if len(own[0].rows) == n_rows]
        self._n = max(len(own) for own in many)
        self._steps = [[own[k] for own in many if len(own) == self._n] for k in range(self._n)]

    def __len__(self) -> int:
        return self._n

    def path(self, end: int, row: int) -> list[int]:
        """The row of each step up to `end`, where it ends as `row`; the same where keys tell nothing."""
        path = [row]
        for k in range(end, 0, -1):
            path.insert(0, self._parent(k, path[0]))
        return path

    def paths_that_read(self, readings: Sequence[Reading], ids: Sequence[int]) -> Iterator[list[int]]:
        """Paths along which an embedding was given the first of these ids, the longest first."""
        counts = [step[0].record.n_queries for step in self._steps]
        for end in reversed(range(self._n)):
            if sum(counts[: end + 1]) > len(ids):
                continue
            for row in range(self._n_rows):
                path = self.path(end, row)
                if any(_begins(ids, read) for read in self._read_along(readings, path)):
                    yield path

    def along(self, path: Sequence[int]) -> tuple[RecordedCall, ...]:
        """Every call with its row of the path, without those of later steps."""
        row_of = {call.number: row for row, step in zip(path, self._steps, strict=False) for call in step}
        late = {call.number for step in self._steps[len(path) :] for call in step}
        return tuple(
            _of_row(call, row_of.get(call.number, path[-1] * max(1, len(call.rows)) // self._n_rows))
            for call in self._calls
            if call.number not in late
        )

    def _parent(self, k: int, row: int) -> int:
        for parent in sorted(range(self._n_rows), key=lambda other: other != row):
            pairs = zip(self._steps[k - 1], self._steps[k], strict=True)
            if all(goes_on(after.rows[row], before.rows[parent]) for before, after in pairs):
                return parent
        return row

    def _read_along(self, readings: Sequence[Reading], path: Sequence[int]) -> list[list[int]]:
        """The ids that each embedding was given along a path, of those that were called in every step."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        n_steps: Counter[str] = Counter()
        last = -1
        for row, step in zip(path, self._steps, strict=False):
            first = min(call.number for call in step)
            for reading in readings:
                is_of_step = last < reading.before <= first
                if is_of_step and reading.ids.shape == (self._n_rows, step[0].record.n_queries):
                    found[reading.name] += reading.ids[row].tolist()
                    n_steps[reading.name] += 1
            last = max(call.number for call in step)
        return [read for name, read in found.items() if n_steps[name] == len(path)]


def _of_row(call: RecordedCall, row: int) -> RecordedCall:
    record: SiteRecord = call.rows[row] if call.rows else call.record
    return replace(call, record=record, rows=())


def _begins(ids: Sequence[int], read: Sequence[int]) -> bool:
    return bool(read) and list(ids[: len(read)]) == list(read)


def _unchosen(n_rows: int, ids: Sequence[int] | None) -> UserError:
    action = "Choose one: recording.trace(tokens, row=0), or attnscope.record(module, row=0) when recording."
    if ids is None:
        action += " Of beams give the ids that were written: recording.trace(pieces, ids=ids[0])."
        return UserError(
            f"The calls were made with {n_rows} batch rows at once, and a map is of one.",
            expected=f"one of the rows 0 to {n_rows - 1}",
            action=action,
        )
    return UserError(
        f"None of the {n_rows} batch rows read the ids {', '.join(map(str, ids[:8]))}"
        f"{' …' if len(ids) > 8 else ''}.",
        expected="the ids that the module's embedding was given, special tokens counted in",
        action=action,
    )

"""Which number of each head frames its thumbnail: off, a measure of this text, or a column of the table.

Must not import Qt.
"""

import math
from dataclasses import dataclass

from psygnal import Signal, SignalGroup

from attnscope.counting import short_number
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.heads.columns import COLUMNS, is_importance
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.session.head_measures import MEASURES
from attnscope.viewmodels.session.state import Session

OFF = ""
_TEXT, _TABLE = "text:", "table:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TintChoice:
    """One number that can frame the heads; `group` is where it comes from."""

    key: str
    group: str
    name: str
    unit: str
    definition: str


class TintChanges(SignalGroup):
    """What of it can change."""

    tint = Signal()


class TintState:
    """Follows the session's trace and the table of heads; a choice whose numbers are gone shows nothing."""

    def __init__(self, session: Session, heads: HeadsState) -> None:
        self._session, self._heads = session, heads
        self.changed = TintChanges()
        self.key = OFF
        self.values: dict[HeadRef, float] = {}
        session.changed.traced.connect(self._on_measures, max_args=0)
        session.changed.model.connect(self._on_measures, max_args=0)
        heads.changed.table.connect(self._read, max_args=0)

    @property
    def choices(self) -> tuple[TintChoice, ...]:
        """Everything that can be chosen now."""
        found = [
            TintChoice(
                key=f"{_TEXT}{kind.field}",
                group="on this text",
                name=kind.name,
                unit=kind.unit,
                definition=kind.definition,
            )
            for kind in (MEASURES if self._session.measures else ())
        ]
        table = self._heads.table
        for measure in COLUMNS:
            if measure.name in table.names:
                group = "importance" if is_importance(measure.name) else f"over {table.corpus}"
                found.append(
                    TintChoice(
                        key=f"{_TABLE}{measure.name}",
                        group=group,
                        name=measure.title,
                        unit=measure.unit,
                        definition=measure.definition,
                    )
                )
        return tuple(found)

    @property
    def choice(self) -> TintChoice | None:
        """What is chosen, while it can be shown."""
        return next((choice for choice in self.choices if choice.key == self.key), None)

    @property
    def ends(self) -> tuple[float, float]:
        """The numbers of the palest and of the strongest frame: 0 or the least, and the most."""
        known = [value for value in self.values.values() if math.isfinite(value)]
        return min(0.0, *known) if known else 0.0, max(known, default=1.0)

    def share(self, head: HeadRef) -> float | None:
        """How strong the frame of a head is, 0…1; None without a number."""
        value, (low, high) = self.values.get(head, math.nan), self.ends
        if not math.isfinite(value):
            return None
        return (value - low) / (high - low) if high > low else 0.0

    def words(self, head: HeadRef) -> str:
        """The number of one head as people read it."""
        value = self.values.get(head, math.nan)
        return short_number(value) if math.isfinite(value) else "–"

    def choose(self, key: str) -> None:
        """Frame the heads by another number; OFF takes the frames away."""
        if key != self.key:
            self.key = key
            self._read()

    def choose_column(self, name: str) -> None:
        """Frame the heads by a column of the table."""
        self.choose(f"{_TABLE}{name}")

    def _read(self) -> None:
        before = self.values
        self.values = self._found()
        if self.values or before:
            self.changed.tint.emit()

    def _found(self) -> dict[HeadRef, float]:
        table, name = self._heads.table, self.key.removeprefix(_TABLE).removeprefix(_TEXT)
        if self.key.startswith(_TEXT):
            return {m.head: float(getattr(m, name)) for m in self._session.measures}
        if name not in table.names:
            return {}
        return dict(zip(table.heads, table.column(name).astype(float).tolist(), strict=True))

    def _on_measures(self) -> None:
        if self.key.startswith(_TEXT):
            self._read()

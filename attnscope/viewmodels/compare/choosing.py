"""What a person chooses to compare, and how to look at it: every choice is a step of the session's history.

Must not import Qt.
"""

from dataclasses import replace

from attnscope.records.compare import Which
from attnscope.viewmodels.compare.sides import keep_now
from attnscope.viewmodels.maps.alignment import WAYS
from attnscope.viewmodels.session.comparing import (
    LIMITS,
    Changes,
    Comparing,
    Kept,
    Order,
    SideChoice,
    choice_of,
    choice_words,
    look_words,
    with_text,
)
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.session.typed_text import clean_typed


class Choosing:
    """Belongs to one comparison; the session keeps what is chosen, and says when that has changed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def choices(self) -> Comparing:
        """Everything that is chosen here, as undo brings it back."""
        return self._session.compared

    def choose_model(self, which: Which, source: str | None) -> None:
        """Look at another model on one side; None is the open one."""
        self._choose(which, replace(self.choices.side(which), model=source))

    def set_text(self, which: Which, raw: str) -> None:
        """Another text for one side; empty follows Explore."""
        text = clean_typed(raw).text
        self._choose(which, with_text(self.choices.side(which), text), group=f"compare text {which}")
        if text.endswith(" "):
            self._session.history.close_group()

    def set_target(self, which: Which, raw: str) -> None:
        """Another second text for one side; empty lets its model write its own.

        A side that follows Explore keeps its text from then on.
        """
        choice = self.choices.side(which)
        target = clean_typed(raw).text if raw.strip() else None
        if target is None and choice.text is None:
            return
        text = self._session.text if choice.text is None else choice.text
        self._choose(which, replace(choice, text=text, target=target), group=f"compare target {which}")

    def choose_changes(self, which: Which, changes: Changes, kept: Kept | None = None) -> None:
        """Which gates and interventions a side has."""
        self._choose(which, replace(self.choices.side(which), changes=changes, kept=kept))

    def keep(self, which: Which) -> Kept | None:
        """Remember what Explore shows now and make it one side; None when it shows nothing."""
        kept = keep_now(self._session)
        if kept is not None:
            after = self.choices.with_side(which, choice_of(kept))
            self._change(f"compare: keep {which}, {kept.label}", after)
        return kept

    def swap(self) -> None:
        """A becomes B and B becomes A; nothing is traced again."""
        self._change("compare: swap A and B", self.choices.swapped)

    def choose_way(self, name: str) -> None:
        """Align tokens in another way."""
        self._look(*(replace(self.choices, way=way) for way in WAYS if way == name))

    def choose_limit(self, name: str) -> None:
        """Let the ends of the colours stand for another difference."""
        self._look(*(replace(self.choices, limit=limit) for limit in LIMITS if limit == name))

    def show_all_stacks(self, has_all: bool) -> None:
        """Show the heads of every stack small, or those of the selected head's."""
        self._look(replace(self.choices, has_all_stacks=has_all))

    def order_by(self, order: Order) -> None:
        """Order the heads by layer, or the most changed first."""
        self._look(replace(self.choices, order=order))

    def _choose(self, which: Which, choice: SideChoice, group: str = "") -> None:
        before = self.choices.side(which)
        self._change(choice_words(before, choice, which), self.choices.with_side(which, choice), group)

    def _look(self, *wanted: Comparing) -> None:
        for after in wanted:
            self._change(look_words(self.choices, after), after)

    def _change(self, label: str, after: Comparing, group: str = "") -> None:
        """One step of the session's history."""
        self._session.change(label, replace(self._session.setting, compared=after), group=group)

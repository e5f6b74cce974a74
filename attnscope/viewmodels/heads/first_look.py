"""Measuring without being asked, once, when a page is first looked at and it will not take long.

Must not import Qt.
"""

from collections.abc import Callable

from attnscope.counting import duration_text
from attnscope.viewmodels.session.state import Session

_MOST_S = 10.0
_S_PER_PASS, _N_TOKENS, _FLOPS_PER_S = 0.004, 30, 2e10
"""Of an ordinary processor and text, to tell seconds from minutes."""


class FirstLook:
    """Calls `measure` once a text is traced, where `is_wanted` and `n_passes` are over soon."""

    def __init__(
        self,
        session: Session,
        n_passes: Callable[[], int],
        is_wanted: Callable[[], bool],
        measure: Callable[[], None],
    ) -> None:
        self._session, self._n_passes = session, n_passes
        self._is_wanted, self._measure = is_wanted, measure
        self._is_seen = False
        session.changed.traced.connect(self._look, max_args=0)

    @property
    def words(self) -> str:
        """A sentence on how long measuring takes, where that is long."""
        minutes = round(self._seconds / 60)
        return f" A model of this size takes about {duration_text(60 * minutes)}." if minutes else ""

    def look(self, is_seen: bool) -> None:
        """The page comes into sight or leaves it."""
        self._is_seen = is_seen
        self._look()

    def _look(self) -> None:
        if self._is_seen and self._session.traced is not None and self.is_soon and self._is_wanted():
            self._measure()

    @property
    def is_soon(self) -> bool:
        """Whether measuring the open model takes seconds."""
        return self._session.model is not None and self._seconds <= _MOST_S

    @property
    def _seconds(self) -> float:
        model = self._session.model
        flops = 2.0 * _N_TOKENS * (model.n_parameters if model is not None else 0)
        return self._n_passes() * (_S_PER_PASS + flops / _FLOPS_PER_S)

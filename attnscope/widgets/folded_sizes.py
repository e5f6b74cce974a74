"""Where splitters stood before something in them was folded away, to stand there again."""

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter


class FoldedSizes:
    """Keeps the sizes of `splitters` once, until they are given back; those never shown are left alone."""

    def __init__(self, splitters: Iterable[QSplitter]) -> None:
        self._splitters = tuple(splitters)
        self._kept: dict[QSplitter, list[int]] | None = None

    def keep(self) -> None:
        """Remember where they stand, unless that is done."""
        if self._kept is None:
            was_shown = Qt.WidgetAttribute.WA_WState_Created
            self._kept = {s: s.sizes() for s in self._splitters if s.testAttribute(was_shown)}

    def give_back(self) -> bool:
        """Let them stand as they stood; nothing when that is not known. Whether it was."""
        is_known = bool(self._kept)
        for splitter, sizes in (self._kept or {}).items():
            splitter.setSizes(sizes)
        self._kept = None
        return is_known

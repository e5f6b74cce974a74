"""A list under the field in which a word is begun that a small vocabulary knows how to end."""

from collections.abc import Sequence

from PySide6.QtCore import QRect, QStringListModel, Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QCompleter, QLineEdit, QListView

from attnscope.viewmodels.session.known_words import begun_word, completions


class WordHelp(QCompleter):
    """Offers words while somebody types; Tab takes the chosen or the first one, Return only a chosen one."""

    def __init__(self, edit: QLineEdit) -> None:
        self._listed = QStringListModel()
        super().__init__(self._listed, edit)
        self._edit = edit
        self._words: Sequence[str] = ()
        self.setWidget(edit)
        self.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self.list = QListView()
        self.list.setAccessibleName("Known words")
        self.setPopup(self.list)
        edit.textEdited.connect(self._on_edited)
        self.activated.connect(self._put)

    def set_words(self, words: Sequence[str]) -> None:
        """Offer these from now on; none: nothing is offered."""
        self._words = words
        self.list.hide()

    def takes(self, event: QKeyEvent) -> bool:
        """Whether a key of the field is for the list that is open."""
        if not self.list.isVisible():
            return False
        chosen = self.list.selectionModel().selectedIndexes()  # the current one may only have had the focus
        match event.key():
            case Qt.Key.Key_Tab:
                self.list.hide()
                self._put(str((chosen or [self._listed.index(0)])[0].data()))
                return True
            case Qt.Key.Key_Escape:
                self.list.hide()
                return True
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if chosen:
                self.list.hide()
                self._put(str(chosen[0].data()))
                return True
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self.list.hide()
        return False

    @Slot(str)
    def _on_edited(self, text: str) -> None:
        begun = begun_word(text, self._edit.cursorPosition())
        found = completions(self._words, begun) if self._words else []
        if not found:
            self.list.hide()
            return
        self._listed.setStringList(found)
        style = self._edit.window().styleSheet()
        if self.list.styleSheet() != style:  # a window of its own, which takes no style from another
            self.list.setStyleSheet(style)
        left = self._edit.cursorRect().left() - self._edit.fontMetrics().horizontalAdvance(begun)
        width = max(120, self.list.sizeHintForColumn(0) + 32)
        self.complete(QRect(left, 0, width, self._edit.height() + 2))

    @Slot(str)
    def _put(self, word: str) -> None:
        """Write the word where it was begun; the field can undo it."""
        at = self._edit.cursorPosition()
        begun = begun_word(self._edit.text(), at)
        self._edit.setSelection(at - len(begun), len(begun))
        self._edit.insert(word)
        self.list.hide()

"""The states of the token labs, offered to the Labs page; the window's tokens lead to them."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from attnscope.records.requests import Reply, Request
from attnscope.viewmodels.labs.merges import MergesState
from attnscope.viewmodels.labs.tokenizers import TokenizersState
from attnscope.viewmodels.labs.vocabulary import VocabularyState
from attnscope.viewmodels.numbers import Numbers
from attnscope.widgets.window.main_window import MainWindow


class TokenLabs(QObject):
    """Merges, tokenizers compared, vocabulary: their states, and the way from a token to its merges."""

    def __init__(self, window: MainWindow, post: Callable[[Request], None], numbers: Numbers) -> None:
        super().__init__(window)
        self._window = window
        self.merges = MergesState(post, numbers)
        self.tokenizers = TokenizersState(post, numbers)
        self.vocabulary = VocabularyState(post, numbers)
        for state in (self.merges, self.tokenizers, self.vocabulary):
            window.pages.labs.offer(state)
        window.pages.explore.text_bar.merges_wanted.connect(self._on_merges_wanted)

    def handle(self, reply: Reply) -> None:
        """Hand a reply to every state."""
        for state in (self.merges, self.tokenizers, self.vocabulary):
            state.handle(reply)

    @Slot(str)
    def _on_merges_wanted(self, word: str) -> None:
        self._window.pages.show_lab("Merges replayed")
        self.merges.show_word(word)

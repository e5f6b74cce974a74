"""The context menu of a token: the merges of its word, and what can be copied."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from attnscope.figures.plain import plain_piece
from attnscope.records.tokens import Token, Tokens


def word_around(tokens: Sequence[Token], index: int) -> tuple[int, int]:
    """The first token of a word, and the one after its last."""
    first, last = index, index + 1
    while first > 0 and tokens[first].joins_previous:
        first -= 1
    while last < len(tokens) and tokens[last].joins_previous:
        last += 1
    return first, last


def word_text(tokens: Tokens, index: int) -> str:
    """The letters of the word that a token belongs to, as typed; empty for a token that stands nowhere."""
    first, last = word_around(tokens.tokens, index)
    return tokens.text[tokens.tokens[first].start : tokens.tokens[last - 1].end].strip()


def token_menu(
    tokens: Tokens,
    index: int,
    show_merges: Callable[[str], None],
    parent: QWidget,
    *,
    offered: Sequence[str] = (),
    put: Callable[[str], None] = lambda _: None,
) -> QMenu:
    """What can be done with one token of a text; first, known words that can be put in its place."""
    menu = QMenu(parent)
    token, word = tokens.tokens[index], word_text(tokens, index)
    shown = plain_piece(word, max_characters=24)
    for known in offered:
        _add(menu, f"Write “{known}” instead of “{shown}”", partial(put, known))
    if offered:
        menu.addSeparator()
    merges = _add(menu, f"Show how “{shown}” is split", lambda: show_merges(word))
    merges.setEnabled(bool(word))
    if not word:
        merges.setText("This token stands in no text")
    menu.addSeparator()
    clipboard = QGuiApplication.clipboard()
    _add(menu, "Copy the piece", lambda: clipboard.setText(token.piece))
    _add(menu, f"Copy the id {token.id}", lambda: clipboard.setText(str(token.id)))
    _add(menu, "Copy all ids", lambda: clipboard.setText(" ".join(map(str, tokens.ids))))
    return menu


def _add(menu: QMenu, text: str, run: Callable[[], None]) -> QAction:
    action = QAction(text.replace("&", "&&"), menu)
    action.triggered.connect(lambda _checked=False: run())
    menu.addAction(action)
    return action

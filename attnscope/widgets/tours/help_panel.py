"""The help: a searchable list of pages, and the current page."""

import itertools
from collections.abc import Iterable

from PySide6.QtCore import QObject, QRect, QRectF, QRegularExpression, QSizeF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QAction,
    QFontMetricsF,
    QKeySequence,
    QPainter,
    QPalette,
    QPyTextObject,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QTextBrowser,
    QWidget,
)

from attnscope.figures.formula_painting import SetFormula, set_formula
from attnscope.figures.style import NORMAL_PX, font, type_px
from attnscope.viewmodels.help_pages import HelpFound, HelpPage, find_in_help, heading_slug
from attnscope.viewmodels.palette import match_letters
from attnscope.widgets.actions import ACTIONS, HANDS, MENUS
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, ground, named, plain_tooltip, tool_button
from attnscope.widgets.theme import Dressed

# Formulas within the text of a document: `$q · k / √d$` becomes one, set as in a textbook.

_KIND = int(QTextFormat.ObjectTypes.UserObject.value) + 1
_TEXT = int(QTextFormat.Property.UserProperty.value) + 1
_MARKED = QRegularExpression(r"\$[^$]+\$")
_REPLACED = "\ufffc"


class FormulaObject(QPyTextObject):
    """Sizes and paints the formulas of a document, in the colour it is given."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colour = ""

    def intrinsicSize(self, _document: QTextDocument, _place: int, shape: QTextFormat) -> QSizeF:
        found = _set(shape)
        return QSizeF(found.width + 2, _height(found))

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, _of: QTextDocument, _place: int, shape: QTextFormat
    ) -> None:
        found = _set(shape)
        middle = (rect.height() + _half_x()) / 2
        found.paint(painter, rect.left() + 1, rect.top() + middle - found.baseline, self.colour)


def set_formulas(document: QTextDocument, painter: FormulaObject) -> None:
    """Turn every text between two dollar signs into a formula."""
    document.documentLayout().registerHandler(_KIND, painter)
    found = document.find(_MARKED)
    while not found.isNull():
        shape = QTextCharFormat()
        shape.setObjectType(_KIND)
        shape.setProperty(_TEXT, found.selectedText()[1:-1])
        shape.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        shape.setFont(font(NORMAL_PX))
        place = QTextCursor(document)
        place.setPosition(found.selectionStart())
        place.setPosition(found.selectionEnd(), QTextCursor.MoveMode.KeepAnchor)
        place.insertText(_REPLACED, shape)
        found = document.find(_MARKED, place)


def _set(shape: QTextFormat) -> SetFormula:
    return set_formula((str(shape.property(_TEXT)),), NORMAL_PX)


def _half_x() -> float:
    return QFontMetricsF(font(NORMAL_PX)).xHeight() / 2


def _height(found: SetFormula) -> float:
    """The height that aligns the baselines: Qt puts the middle of the object at half the height of an x."""
    above, below = found.baseline, found.height - found.baseline
    return max(2 * above - _half_x(), 2 * below + _half_x())


_LIST_PX, _TEXT_PX = 260, 720
_PAGE = Qt.ItemDataRole.UserRole


class HelpPanel(Dressed):
    """`link_wanted` carries a link to a tour, a page of the program or a lab."""

    link_wanted = Signal(str)

    def __init__(self, pages: tuple[HelpPage, ...]) -> None:
        super().__init__()
        self._pages = {page.name: page for page in pages}
        self._history: list[str] = []
        self.shown = ""
        self.search = named(QLineEdit(placeholderText="Search the help"), "Search the help")
        self.search.setClearButtonEnabled(True)
        self.list = named(QListWidget(), "Help pages", role="contents")
        self.list.setWordWrap(True)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text = _Reader()
        self.back_button = tool_button("◂ Back", "The help page before", role="flat", clicked=self.back)
        self._lay_out()
        self.search.textEdited.connect(self._show_list)
        self.search.returnPressed.connect(self._on_search_entered)
        self.list.currentItemChanged.connect(self._on_current)
        self.text.anchorClicked.connect(self._on_link)
        self.dress()
        self._show_list("")
        if pages:
            self.show_page(pages[0].name)

    def dress(self) -> None:
        self._side.setFixedWidth(round(type_px(_LIST_PX)))
        self.text.accent = self.theme.accent
        if self.shown:
            name, self.shown = self.shown, ""
            self.show_page(name)

    def show_page(self, name: str, heading: str = "") -> None:
        """Show a page, at a heading by its slug; no effect if unknown."""
        page = self._pages.get(name)
        if page is None:
            return
        if name != self.shown:
            if self.shown:
                self._history.append(self.shown)
            self.shown = name
            self.text.show_page(page)
            self._mark_shown()
        self.text.go_to(heading)
        self.back_button.setEnabled(bool(self._history))

    def back(self) -> None:
        """Show the previous page."""
        if self._history:
            name = self._history.pop()
            self.shown = ""
            self.show_page(name)

    def _lay_out(self) -> None:
        self._side = ground(QWidget(), "panel", edge="right")
        column(self.search, (self.list, 1), on=self._side, margins=(12, 12, 8, 8))
        row(
            self._side,
            (
                column(
                    (self.back_button, 0, Qt.AlignmentFlag.AlignLeft),
                    (self.text, 1),
                    margins=(24, 8, 0, 0),
                    spacing=4,
                ),
                1,
            ),
            on=self,
            spacing=0,
        )

    def _show_list(self, query: str) -> None:
        self.list.blockSignals(True)
        self.list.clear()
        pages = tuple(self._pages.values())
        if query.strip():
            for found in find_in_help(pages, query):
                self._add_found(found)
            if not self.list.count():
                nothing = QListWidgetItem("Nothing found. Try fewer or other words.")
                nothing.setFlags(Qt.ItemFlag.NoItemFlags)
                self.list.addItem(nothing)
        else:
            group = ""
            for page in pages:
                if page.group != group:
                    group = page.group
                    heading = QListWidgetItem(group)
                    heading.setFlags(Qt.ItemFlag.NoItemFlags)
                    self.list.addItem(heading)
                item = QListWidgetItem(page.title)
                item.setData(_PAGE, (page.name, ""))
                self.list.addItem(item)
            self._mark_shown()
        self.list.blockSignals(False)

    def _add_found(self, found: HelpFound) -> None:
        title = f"{found.page.title} · {found.heading}" if found.heading else found.page.title
        item = QListWidgetItem(f"{title}\n{found.excerpt}")
        item.setToolTip(plain_tooltip(found.excerpt))
        item.setData(_PAGE, (found.page.name, heading_slug(found.heading)))
        self.list.addItem(item)

    def _mark_shown(self) -> None:
        self.list.blockSignals(True)
        for k in range(self.list.count()):
            place = self.list.item(k).data(_PAGE)
            if place is not None and tuple(place) == (self.shown, ""):
                self.list.setCurrentRow(k)
        self.list.blockSignals(False)

    def _on_search_entered(self) -> None:
        for k in range(self.list.count()):
            if self.list.item(k).data(_PAGE) is not None:
                self.list.setCurrentRow(k)
                self.list.setFocus()
                return

    def _on_current(self, item: QListWidgetItem | None) -> None:
        place = item.data(_PAGE) if item is not None else None
        if place is not None:
            self.show_page(*place)

    def _on_link(self, url: QUrl) -> None:
        target = url.toString()
        kind, _, rest = target.partition(":")
        if kind == "help":
            name, _, heading = rest.partition("#")
            self.show_page(name or self.shown, heading)
        else:
            self.link_wanted.emit(target)


class _Reader(QTextBrowser):
    """One page, from Markdown of the program's own files; loads nothing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.accent = ""
        self._formulas = FormulaObject(self)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setProperty("role", "reading")
        self.setAccessibleName("Help page")
        self.setLineWrapMode(QTextBrowser.LineWrapMode.FixedPixelWidth)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        """Read nothing, from the disk or from elsewhere."""
        return None

    def show_page(self, page: HelpPage) -> None:
        self.setAccessibleName(f"Help page: {page.title}")
        document = self.document()
        document.setDefaultFont(font(13))
        features = QTextDocument.MarkdownFeature.MarkdownNoHTML
        document.setMarkdown(page.text, QTextDocument.MarkdownFeature.MarkdownDialectGitHub | features)
        document.setDocumentMargin(4)
        document.setIndentWidth(type_px(20))
        self._formulas.colour = self.palette().color(QPalette.ColorRole.Text).name()
        set_formulas(document, self._formulas)
        self.setAccessibleDescription(page.text.replace("$", ""))
        self._set_type()
        self._fit()
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def go_to(self, heading: str) -> None:
        """Scroll to a heading."""
        block = self.document().begin()
        while heading and block.isValid():
            if block.blockFormat().headingLevel() > 1 and heading_slug(block.text()) == heading:
                top = self.document().documentLayout().blockBoundingRect(block).top()
                self.verticalScrollBar().setValue(round(top))
                return
            block = block.next()
        if not heading:
            self.verticalScrollBar().setValue(0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Limit the length of lines for easy reading; the scroll bar stays at the edge."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = self.viewport().width()
        self.setLineWrapColumnOrWidth(min(room, round(type_px(_TEXT_PX))))

    def _set_type(self) -> None:
        """Three sizes of type, and room between the lines."""
        block = self.document().begin()
        while block.isValid():
            cursor = QTextCursor(block)
            level, is_listed = block.blockFormat().headingLevel(), block.textList() is not None
            shape = QTextBlockFormat()
            shape.setLineHeight(135.0, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            shape.setTopMargin(type_px(16) if level > 1 else 0)
            is_in_list = is_listed and block.next().textList() is not None
            shape.setBottomMargin(type_px(3 if is_in_list else 4 if level > 1 else 8))
            cursor.mergeBlockFormat(shape)
            if level:
                letters = QTextCharFormat()
                letters.setFont(font(18 if level == 1 else 13, is_bold=True))
                cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
                cursor.setCharFormat(letters)
            block = block.next()


# The sheet of shortcuts: every action with its keys, and what mouse and keys do in the views.


Rows = list[tuple[str, str]]


class ShortcutsSheet(QDialog):
    """Generated from the actions themselves; a few letters filter it."""

    def __init__(self, actions: Iterable[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Shortcuts")
        self._groups = shortcut_groups(actions)
        self.filter = named(QLineEdit(placeholderText="Type to find a shortcut"), "Find a shortcut")
        self.filter.setClearButtonEnabled(True)
        self.filter.textEdited.connect(self.show_rows)
        self._scroll = QScrollArea(widgetResizable=True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column(self.filter, (self._scroll, 1), buttons, on=self, margins=(24, 24, 24, 16), spacing=16)
        self.rows: Rows = []
        room = parent.size() if parent is not None else self.sizeHint()
        width, height = round(type_px(1200)), round(type_px(760))
        self.resize(min(width, room.width() - 48), min(height, room.height() - 48))
        self.show_rows("")

    def show_rows(self, query: str) -> None:
        """Show the rows whose text or keys match the query."""
        groups = [(name, [row for row in rows if _fits(row, query)]) for name, rows in self._groups]
        groups = [(name, rows) for name, rows in groups if rows]
        self.rows = [row for _, rows in groups for row in rows]
        room = self.width() - 48 - self._scroll.verticalScrollBar().sizeHint().width()
        for n_columns in (3, 2, 1):
            inner = _columns(groups, n_columns)
            self._scroll.setWidget(inner)  # where it has the size of type that there is
            inner.setAutoFillBackground(False)  # setWidget turns it on
            if inner.minimumSizeHint().width() <= room:
                break


def shortcut_groups(actions: Iterable[QAction]) -> list[tuple[str, Rows]]:
    """Text and keys of every action that has keys, by menu; then the mouse and keyboard in the views."""
    menus = {spec.name: spec.menu for spec in ACTIONS}
    found: dict[str, Rows] = {name: [] for name in (*MENUS, "Models")}
    for action in actions:
        keys = [k.toString(QKeySequence.SequenceFormat.NativeText) for k in action.shortcuts()]
        if not keys or not action.isVisible():
            continue
        name = action.objectName()
        text = name.capitalize() if name in ("undo", "redo") else action.text()
        menu = menus.get(action.objectName()) or ("Models" if action.data() else "Elsewhere")
        found.setdefault(menu, []).append((text.replace("&&", "&").rstrip("…"), " or ".join(keys[:2])))
    groups = [(name, list(dict.fromkeys(rows))) for name, rows in found.items() if rows]
    return [*groups, ("In the views", list(HANDS))]


def _fits(row: tuple[str, str], query: str) -> bool:
    words = query.lower().split()
    text = f"{row[0]} {row[1]}".lower()
    return all(word in text or match_letters(row[0].lower(), word) is not None for word in words)


def _in_columns(groups: list[tuple[str, Rows]], n_columns: int) -> list[list[tuple[str, Rows]]]:
    """The groups in columns, in order, so that the longest column is as short as possible."""
    heights = [len(rows) + 2 for _, rows in groups]
    cuts = itertools.combinations_with_replacement(range(len(groups) + 1), n_columns - 1)
    best = min(
        ((0, *cut, len(groups)) for cut in cuts),
        key=lambda ends: max(sum(heights[a:b]) for a, b in itertools.pairwise(ends)),
    )
    return [groups[a:b] for a, b in itertools.pairwise(best) if a < b]


def _columns(groups: list[tuple[str, Rows]], n_columns: int) -> QWidget:
    inner = QWidget()
    columns = row(on=inner, margins=(0, 0, 8, 0), spacing=32)
    for part in _in_columns(groups, n_columns):
        columns.addLayout(_column(part), 1)
    return inner


def _column(groups: list[tuple[str, Rows]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(4)
    line = 0
    for name, rows in groups:
        heading = PlainLabel(name, "section")
        heading.setContentsMargins(0, 12 if line else 0, 0, 0)
        grid.addWidget(heading, line, 0)
        line += 1
        for text, keys in rows:
            label = PlainLabel(text)
            grid.addWidget(label, line, 0)
            grid.addWidget(PlainLabel(keys, "muted"), line, 1)
            line += 1
    grid.setColumnStretch(0, 1)
    grid.setRowStretch(line, 1)
    return grid

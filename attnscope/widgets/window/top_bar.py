"""The bar at the top: the program, its menus, the open model, the theme."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QMenu, QMenuBar, QProgressBar, QSizePolicy, QToolButton, QWidget

from attnscope.counting import plural, short_count
from attnscope.figures.plain import plain_text, short_path, shorten
from attnscope.figures.style import type_px
from attnscope.kept_models import kept_model
from attnscope.records.models import ModelInfo
from attnscope.viewmodels.session.recents import Recents
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import THEME_NAMES, Page, ViewState
from attnscope.widgets.actions import ACTIONS, MENUS
from attnscope.widgets.form_parts import ChoiceButton, column, row
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, ground, named, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed

# The bar at the left: one button for each page there is.


WIDTH_PX = 64


class PageBar(Dressed):
    """Shows which page is open; `pages` are the actions that turn to each."""

    def __init__(
        self,
        view: ViewState,
        pages: Mapping[Page, QAction],
        help_action: QAction | None = None,
    ) -> None:
        super().__init__()
        self._view = view
        ground(self, "bar", edge="right")
        self.setMinimumHeight(1)  # so that the buttons follow the height, and never the height the buttons
        self.buttons: dict[Page, QToolButton] = {}
        layout = column(on=self, margins=(0, 8, 1, 8), spacing=0)
        group = QButtonGroup(self)
        for page, action in pages.items():
            button = tool_button(action.text(), f"Page {action.text()}", role="page", is_checkable=True)
            button.setToolTip(action.toolTip())
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            button.clicked.connect(action.trigger)
            group.addButton(button)
            layout.addWidget(button)
            self.buttons[page] = button
        layout.addStretch(1)
        self.help_button = tool_button("?", "Help on this page", role="page")
        self.help_button.setVisible(help_action is not None)
        if help_action is not None:
            self.help_button.setToolTip(help_action.toolTip())
            self.help_button.clicked.connect(help_action.trigger)
        layout.addWidget(self.help_button)
        when(self, self._show_page, view.changed.page)
        self.dress()
        self._show_page()

    def dress(self) -> None:
        side, width = round(type_px(22)), round(type_px(WIDTH_PX))
        self.setFixedWidth(width)
        for page, button in self.buttons.items():
            button.setIconSize(QSize(side, side))
            button.setIcon(icon(page, self.theme.text, side_px=22))
        self.help_button.setFixedSize(width - 1, round(type_px(40)))
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """In a low window the buttons keep their names and do without icons."""
        room = self.height() - 16 - (0 if self.help_button.isHidden() else self.help_button.height())
        height = min(max(room // len(self.buttons), round(type_px(24))), round(type_px(56)))
        styles = Qt.ToolButtonStyle
        has_icons = height >= round(type_px(50))
        for button in self.buttons.values():
            button.setFixedSize(self.width() - 1, height)
            button.setToolButtonStyle(
                styles.ToolButtonTextUnderIcon if has_icons else styles.ToolButtonTextOnly
            )

    def _show_page(self) -> None:
        for page, button in self.buttons.items():
            button.setChecked(page == self._view.page)


# The menu of models: those that come with the program, those opened before, folders, runs.

_N_RECENT = 6
_MOST_LETTERS = 60


class ModelMenu(QMenu):
    """Offers the demo models the worker has named, then `actions`."""

    def __init__(
        self,
        session: Session,
        actions: Sequence[QAction],
        parent: QWidget | None = None,
        recents: Recents | None = None,
    ) -> None:
        super().__init__("&Model", parent)
        self.setToolTipsVisible(True)
        self._session, self._recents = session, recents or Recents()
        self._fixed = tuple(actions)
        self._demos: list[QAction] = []
        self._group = QActionGroup(self)
        self._rule = self.addSeparator()
        self.addActions(self._fixed)
        self.triggered.connect(self._on_triggered)
        told = session.changed
        when(self, self._show_demos, told.ready, told.model, self._recents.changed)
        self._show_demos()

    def demo_actions(self) -> tuple[QAction, ...]:
        """One action for each demo model and each model opened before."""
        return tuple(self._demos)

    def _show_demos(self) -> None:
        for action in self._demos:
            self._group.removeAction(action)
            self.removeAction(action)
            action.setParent(None)
            action.deleteLater()
        self._demos.clear()
        open_source = self._session.model.source if self._session.model else ""
        open_name = self._session.model.name if self._session.model else ""
        for k, name in enumerate(self._session.demo_models):
            action = QAction(plain_text(name).replace("&", "&&"), self, checkable=True)
            action.setData(name)
            kept = kept_model(name)
            action.setToolTip(plain_tooltip(". ".join(filter(None, (kept.shows.rstrip("."), kept.lacks)))))
            action.setChecked(name in (open_source, open_name))
            if k < 9:
                action.setShortcut(QKeySequence(f"Ctrl+Alt+{k + 1}"))
            self._group.addAction(action)
            self.insertAction(self._rule, action)
            self._demos.append(action)
        self._show_recents(open_source)

    def _show_recents(self, open_source: str) -> None:
        """Models opened before that are no demos, under a line of their own."""
        others = [name for name in self._recents.models if name not in self._session.demo_models]
        for source in others[:_N_RECENT]:
            action = QAction(short_path(plain_text(source), _MOST_LETTERS).replace("&", "&&"), self)
            action.setData(source)
            action.setCheckable(True)
            action.setChecked(source == open_source)
            action.setToolTip(plain_tooltip(source))
            self._group.addAction(action)
            self.insertAction(self._rule, action)
            self._demos.append(action)

    def _on_triggered(self, action: QAction) -> None:
        if action in self._demos:
            self._session.opening.load(str(action.data()))


HEIGHT_PX = 40
_NAME_FROM_PX, _FACTS_FROM_PX, _WORDS_FROM_PX = 760, 900, 820


class TopBar(Dressed):
    """Shows the open model and what is being loaded; holds the menu bar."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        *,
        actions: Mapping[str, QAction],
        model_menu: QMenu,
        recent_menu: QMenu | None = None,
    ) -> None:
        super().__init__()
        self._session, self._view = session, view
        ground(self, "bar", edge="bottom")
        self._brand = PlainLabel()
        self.theme_button = ChoiceButton("", "Theme", {str(name): text for name, text in THEME_NAMES.items()})
        self.theme_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.theme_button.menu().setTitle("Theme")
        self.theme_button.chosen.connect(self._on_theme_chosen)
        more = {"smaller": self.theme_button.menu()}
        if recent_menu is not None:
            more["open-session"] = recent_menu
        self.menu_bar = build_menu_bar(actions, model_menu, more)
        self.model_button = tool_button("No model ▾", "Open model", role="flat")
        self.model_button.setPopupMode(self.model_button.ToolButtonPopupMode.InstantPopup)
        self.model_button.setMenu(model_menu)
        self.facts = PlainLabel(role="muted")
        self.progress = named(QProgressBar(textVisible=False), "Loading a model")
        self.progress.setFixedWidth(96)
        self.busy = PlainLabel(role="muted")
        self.palette_button = tool_button("Commands", "Find a command", role="flat")
        self.palette_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.palette_button.setToolTip(actions["palette"].toolTip())
        self.palette_button.clicked.connect(actions["palette"].trigger)
        self._name = PlainLabel("AttnScope", "name")
        self._lay_out()
        when(self, self._show_model, session.changed.model)
        when(self, self._show_busy, session.changed.busy)
        when(self, self._on_theme, view.changed.theme)
        self.dress()
        self._show_model()
        self._show_busy()

    def dress(self) -> None:
        self.setFixedHeight(round(type_px(HEIGHT_PX)))
        side = round(type_px(20))
        self._brand.setPixmap(icon("brand", self.theme.accent, side_px=20).pixmap(side, side))
        self.palette_button.setIcon(icon("search", self.theme.text, side_px=16))
        self.theme_button.setIcon(icon(self._view.theme, self.theme.text, side_px=16))
        self.theme_button.show_choice(self._view.theme)
        tip = f"Theme: {THEME_NAMES[self._view.theme]}"
        self.theme_button.setToolTip(tip)
        self.theme_button.setAccessibleName(tip)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the menus keep their room: the name of the program goes first."""
        super().resizeEvent(event)
        room = self.width() / max(type_px(1.0), 0.1)
        self._name.setVisible(room >= _NAME_FROM_PX)
        self.facts.setVisible(room >= _FACTS_FROM_PX)
        self.palette_button.setText("Commands" if room >= _WORDS_FROM_PX else "")

    def _lay_out(self) -> None:
        row(
            self._brand,
            self._name,
            (self.menu_bar, 0, Qt.AlignmentFlag.AlignVCenter),
            16,
            self.model_button,
            self.facts,
            None,
            self.busy,
            self.progress,
            self.palette_button,
            self.theme_button,
            on=self,
            margins=(16, 0, 8, 0),
        )

    def _on_theme(self) -> None:
        self.dress()

    def _on_theme_chosen(self, name: str) -> None:
        self._view.set_theme(next(theme for theme in THEME_NAMES if theme == name))

    def _show_model(self) -> None:
        model = self._session.model
        name = shorten(plain_text(model.name), 40) if model else "No model"
        self.model_button.setText(f"{name.replace('&', '&&')} ▾")
        self.facts.setText(_facts_in_short(model) if model else "")
        self.facts.setToolTip(plain_tooltip(_facts(model) if model else ""))

    def _show_busy(self) -> None:
        busy = self._session.opening.busy
        is_shown = busy is not None and self._session.model is not None
        self.busy.setText(shorten(plain_text(busy.what), 48) if busy and is_shown else "")
        self.progress.setVisible(is_shown)
        if busy is None or busy.fraction is None:
            self.progress.setRange(0, 0 if is_shown else 100)
        else:
            self.progress.setRange(0, 100)
            self.progress.setValue(round(100 * busy.fraction))


def build_menu_bar(actions: Mapping[str, QAction], model_menu: QMenu, more: Mapping[str, QMenu]) -> QMenuBar:
    """The menus of the table, in its order, with the menu of models in its place; `more` after actions."""
    bar = QMenuBar()
    bar.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
    for name in MENUS:
        if name == "Model":
            bar.addMenu(model_menu)
            continue
        menu = bar.addMenu(f"&{name}")
        menu.setToolTipsVisible(True)
        for spec in ACTIONS:
            if spec.menu == name and spec.name in actions:
                if spec.is_after_rule:
                    menu.addSeparator()
                menu.addAction(actions[spec.name])
                if spec.name in more:
                    menu.addMenu(more[spec.name])
    return bar


def _facts_in_short(model: ModelInfo) -> str:
    if model.is_recorded:
        return "recorded attention, no model"
    return f"{model.device} · {short_count(model.n_parameters)} parameters"


def _facts(model: ModelInfo) -> str:
    if model.is_recorded:
        return (
            f"Recorded attention of {plural(model.max_tokens, 'token')}, without a model\nfrom {model.source}"
        )
    return (
        f"{model.form}, trained for {model.objective}\n{model.n_parameters:,} parameters\n"
        f"reads at most {model.max_tokens} tokens; {model.vocab_size:,} pieces ({model.tokenizer})\n"
        f"from {model.source}\nSHA-256 of the weights {model.sha256[:16]}…"
    )

"""The bars: above, menus, the open model, the theme; below, whether results can be trusted."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QElapsedTimer, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QActionGroup, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QMenu,
    QMenuBar,
    QProgressBar,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from attnscope.counting import plural, short_count
from attnscope.figures.style import plain_text, short_path, shorten, type_px
from attnscope.kept_models import kept_model
from attnscope.records.maps import SelfCheck
from attnscope.records.models import ModelInfo
from attnscope.viewmodels.session.changes import changes_counted
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.states import BackgroundTask, WorkState
from attnscope.viewmodels.view_state import THEME_NAMES, Page, ViewState
from attnscope.widgets.actions import ACTIONS, MENUS
from attnscope.widgets.form_parts import ChoiceButton, column, row
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    ground,
    named,
    plain_tooltip,
    push_button,
    tool_button,
    when,
)
from attnscope.widgets.theme import Dressed, Dressing, icon

# The bar at the left: one button for each page there is.


WIDTH_PX = 64


class PageBar(Dressed):
    """Shows which page is open; `pages` are the actions that switch to each."""

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
        self.fit_room()

    def fit_room(self) -> None:
        """In a low window the buttons keep their names and lose their icons."""
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
    """Offers the demo models named by the worker, then `actions`."""

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
        """One action for each demo model and each recently opened model."""
        return tuple(self._demos)

    def _show_demos(self) -> None:
        for action in self._demos:
            self._group.removeAction(action)
            self.removeAction(action)
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
        """Show recently opened models that are not demos, under a line of their own."""
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


# A message in a row of its own below the page, covering nothing: what went wrong, or what was done.


_NOTE_MS, _LEAST_MS = 6000, 1500
"""How long a note stays when nothing is done, and at least, whatever is done."""


class Banner(Dressing, QFrame):
    """Shows the session's notice; errors and questions stay until dismissed.

    A note goes after some seconds, and before with the next thing that a user does. A notice that names one
    of `actions` gets a button for it.
    """

    def __init__(
        self,
        session: Session,
        view: ViewState,
        actions: Mapping[str, QAction] | None = None,
    ) -> None:
        super().__init__()
        self._session, self._actions = session, dict(actions or {})
        self._age = QElapsedTimer()
        self._help = push_button(clicked=self._on_help_clicked)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._sign, self._label = PlainLabel(), PlainLabel()
        self._label.setWordWrap(True)
        self._close = tool_button("", "Dismiss the message", role="flat", tip="Dismiss (Esc)")
        self._timer = QTimer(self, singleShot=True, interval=_NOTE_MS)
        row(self._sign, (self._label, 1), self._help, self._close, on=self, margins=(16, 4, 8, 4), spacing=-1)
        self._close.clicked.connect(session.notices.dismiss)
        self._timer.timeout.connect(session.notices.dismiss)
        self.dress()
        when(self, self._show, session.changed.notice)
        when(self, self._leave, session.changed.history, view.changed.page)
        self._show()

    def dress(self) -> None:
        self._close.setIcon(icon("close", self.theme.muted, side_px=16))
        self._show_sign()

    def _show_sign(self) -> None:
        """Show a sign in addition to the colour, for colour-blind users."""
        notice, side = self._session.notices.shown, round(type_px(16))
        is_error = notice is not None and notice.is_error
        name, colour = ("error", self.theme.error) if is_error else ("note", self.theme.accent)
        self._sign.setPixmap(icon(name, colour, side_px=16).pixmap(QSize(side, side)))

    @property
    def message(self) -> str:
        return self._label.text()

    def _on_help_clicked(self) -> None:
        notice = self._session.notices.shown
        action = self._actions.get(notice.action) if notice is not None else None
        self._session.notices.dismiss()
        if action is not None:
            action.trigger()

    def _leave(self) -> None:
        """Hide a note that the user has had time to read, on their next action."""
        notice = self._session.notices.shown
        if notice is not None and not notice.is_lasting and self._age.hasExpired(_LEAST_MS):
            self._session.notices.dismiss()

    def _show(self) -> None:
        notice = self._session.notices.shown
        self._timer.stop()
        self.setVisible(notice is not None)
        if notice is None:
            return
        log = f"  The log is {notice.crash_log}." if notice.crash_log else ""
        self._label.setText(plain_text(notice.message + log))
        self.setProperty("role", "banner-error" if notice.is_error else "banner-note")
        self.style().unpolish(self)
        self.style().polish(self)
        self._show_sign()
        self.setAccessibleName(f"{'Error' if notice.is_error else 'Note'}: {notice.message}")
        helping = self._actions.get(notice.action)
        self._help.setVisible(helping is not None)
        self._help.setText(helping.text() if helping is not None else "")
        self._age.start()
        if not notice.is_lasting:
            self._timer.start()


# What is under way: a line in the status bar, and a list with progress and Stop that it opens.

_BAR_PX = 72
_PATIENCE_MS = 400
_WIDTH_PX = 360


class WorkRow(QWidget):
    """One task: its name, its current step, its progress, and Stop."""

    def __init__(self, work: WorkState, job: BackgroundTask) -> None:
        super().__init__()
        self._work, self._name = work, job.name
        self.name = PlainLabel(job.name, "name")
        self.what = ElidedLabel(role="muted")
        self.progress = named(QProgressBar(textVisible=False), f"Progress of {job.name}")
        self.percent = PlainLabel(role="value")
        self.stop_button = push_button("Stop", name=f"Stop: {job.name}", clicked=self._on_stop)
        words = column(spacing=4)
        heading = row((self.name, 1), self.percent, spacing=-1)
        words.addLayout(heading)
        words.addWidget(self.progress)
        words.addWidget(self.what)
        row((words, 1), (self.stop_button, 0, Qt.AlignmentFlag.AlignVCenter), on=self, spacing=12)
        self.show_job(job)

    def show_job(self, job: BackgroundTask) -> None:
        """Show the task's progress."""
        self.what.set_full_text(plain_text(job.what))
        self.what.setVisible(bool(job.what))
        self.percent.setText(job.percent)
        self.progress.setRange(0, 0 if job.fraction is None else 1000)
        if job.fraction is not None:
            self.progress.setValue(round(1000 * job.fraction))
        self.stop_button.setEnabled(job.stop is not None)
        tip = "Esc stops it too" if job.is_waited_for else ""
        tip = tip if job.stop else "This will finish in a moment."
        self.stop_button.setToolTip(tip)

    def _on_stop(self) -> None:
        self._work.stop(self._name)


class WorkList(QFrame):
    """The running tasks, above the line that opened it; Esc or a click elsewhere closes it."""

    def __init__(self, work: WorkState, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._work = work
        ground(self, "panel")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName("Background tasks")
        self.empty = PlainLabel(
            "No background tasks. Long-running work is listed here and can be stopped.", "muted", wraps=True
        )
        self.empty.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.rows: dict[str, WorkRow] = {}
        self._column = column(
            PlainLabel("Background tasks", "large"), self.empty, on=self, margins=(16, 12, 16, 12), spacing=12
        )
        when(self, self._on_work, work.changed)

    def open_above(self, widget: QWidget) -> None:
        """Show the list above `widget`, with the focus on its first Stop."""
        self._show_jobs()
        self._place(widget)
        self.show()
        stops = [row.stop_button for row in self.rows.values() if row.stop_button.isEnabled()]
        (stops[0] if stops else self.empty).setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def _place(self, widget: QWidget) -> None:
        self.setFixedWidth(round(type_px(_WIDTH_PX)))
        self.adjustSize()
        corner = widget.mapToGlobal(QPoint(0, 0))
        self.move(corner.x(), corner.y() - self.height() - 4)

    def _on_work(self) -> None:
        if self.isVisible():
            bottom = self.geometry().bottom()
            self._show_jobs()
            self.adjustSize()
            self.move(self.x(), bottom - self.height() + 1)

    def _show_jobs(self) -> None:
        jobs = {job.name: job for job in self._work.jobs}
        for name in [name for name in self.rows if name not in jobs]:
            row = self.rows.pop(name)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        for name, job in jobs.items():
            if name in self.rows:
                self.rows[name].show_job(job)
            else:
                self.rows[name] = WorkRow(self._work, job)
                self._column.addWidget(self.rows[name])
        self.empty.setVisible(not jobs)


class WorkLine(Dressed):
    """Shows running tasks in the status bar, once they take longer than a moment; a click lists them."""

    def __init__(self, work: WorkState) -> None:
        super().__init__()
        self.state = work
        self.button = tool_button("", "Background tasks", role="status", clicked=self.open_list)
        self.bar = named(QProgressBar(textVisible=False, minimum=0, maximum=1000), "Progress")
        self.bar.setFixedWidth(_BAR_PX)
        row(self.bar, self.button, on=self, spacing=-1)
        self.list = WorkList(work, self)
        self._patience = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._patience.timeout.connect(self._show)
        self.hide()
        when(self, self._on_work, work.changed)

    def dress(self) -> None:
        self.bar.setFixedWidth(round(type_px(_BAR_PX)))
        self.setMaximumWidth(round(type_px(_WIDTH_PX + _BAR_PX)))

    def open_list(self) -> None:
        """List the running tasks."""
        self.list.open_above(self if self.isVisible() else self.parentWidget() or self)

    def _on_work(self) -> None:
        if not self.state.jobs:
            self._patience.stop()
            self.hide()
        elif self.isVisible():
            self._show()
        elif not self._patience.isActive():
            self._patience.start()

    def _show(self) -> None:
        summary = self.state.summary
        fraction = self.state.jobs[0].fraction if self.state.jobs else None
        self.bar.setVisible(fraction is not None)
        self.bar.setValue(round(1000 * (fraction or 0.0)))
        self.setVisible(bool(summary))
        self.button.setText(f"{plain_text(summary)} ▴".replace("&", "&&"))
        stops = "; Esc stops the current one" if self.state.waited_for else ""
        self.button.setAccessibleName(f"Background tasks: {plain_text(summary)}")
        self.button.setToolTip("Show background tasks" + stops)


_WITHOUT_MAPS = ("labs", "learn")


class StatusBar(Dressed):
    """Shows the self-check, the tracing time, the exact value under the cursor, and undo."""

    def __init__(self, session: Session, view: ViewState, *, undo: QAction, redo: QAction) -> None:
        super().__init__()
        self._session, self._view = session, view
        ground(self, "bar", edge="top")
        self.badge = PlainLabel(role="good")
        self.duration = PlainLabel(role="muted")
        self.cell = ElidedLabel(role="value")
        self.work = WorkLine(WorkState())
        self.heads_off = PlainLabel(role="muted")
        self._undo = tool_button("", "Undo", role="status")
        self._redo = tool_button("", "Redo", role="status")
        row(
            self.badge,
            8,
            self.duration,
            self.work,
            8,
            (self.cell, 1),
            self.heads_off,
            self._undo,
            self._redo,
            on=self,
            margins=(16, 0, 8, 0),
        )
        for button, action in ((self._undo, undo), (self._redo, redo)):
            button.setDefaultAction(action)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.dress()
        told, seen = session.changed, view.changed
        when(self, self._show_trace, told.traced)
        when(self, self._show_gates, told.gates, told.interventions, told.model)
        when(self, self._show_page, seen.page)
        when(self, self._show_pointed, seen.cell, seen.pointer, seen.hovered_head)
        self._show_trace()
        self._show_gates()
        self._show_page()

    def add_place(self, place: QWidget) -> None:
        """Show where the user is, for instance in a lecture, before the cell under the cursor."""
        layout = self.layout()
        if isinstance(layout, QHBoxLayout):
            layout.insertWidget(layout.indexOf(self.cell), place, 1)

    def dress(self) -> None:
        self.setFixedHeight(round(type_px(24)))
        for button, name in ((self._undo, "undo"), (self._redo, "redo")):
            button.defaultAction().setIcon(icon(name, self.theme.text, side_px=16))

    def _show_pointed(self) -> None:
        self.cell.set_full_text(plain_text(self._under_cursor()))

    def _show_page(self) -> None:
        """Hide the notes on the open model's maps on pages that do not show it."""
        is_about_maps = self._view.page not in _WITHOUT_MAPS
        for label in (self.badge, self.duration, self.heads_off):
            label.setVisible(is_about_maps)

    def _under_cursor(self) -> str:
        cell, head = self._view.cell, self._view.hovered_head
        if cell:
            return cell.sentence
        session = self._session
        pointed = self._view.pointer_text
        if head is None:
            return pointed
        does = session.line_about(head)
        return " · ".join(filter(None, (pointed, f"{head.label} {does}" if does else "")))

    def _show_trace(self) -> None:
        traced = self._session.traced
        if traced is None or not self._session.text.strip():
            self.badge.setText("")
            self.duration.setText("")
            return
        check = traced.check
        self.badge.set_role("muted" if check.is_empty else "good" if check.is_good else "alarm")
        is_quiet = check.is_good or check.is_empty
        self.badge.setText(check.badge if is_quiet else f"⚠ {check.sentence}")
        self.badge.setToolTip(plain_tooltip(_check_tooltip(check)))
        ms = traced.duration_ms
        took = f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
        said = f"traced in {took}" if traced.is_whole else ""
        self.duration.setText(said if traced.is_target_whole else "translating…")

    def _show_gates(self) -> None:
        gates = self._session.gates
        n_off, n_partly = len(gates.off()), len(gates.values) - len(gates.off())
        parts = [f"{plural(n_off, 'head')} off"] if n_off else []
        parts += [f"{n_partly} turned down"] if n_partly else []
        changes = changes_counted(self._session.interventions)
        self.heads_off.setText(" · ".join([*parts, *filter(None, [changes])]) or "all heads on")


def _check_tooltip(check: SelfCheck) -> str:
    sums = f"largest |row sum − 1|: {check.row_sum_error:.1e}\n"
    if check.is_given:
        return f"{check.sentence}\n\nThe weights were given: only their sums are checked.\n{sums}"
    how = "Every picture is checked against the model."
    if check.is_read:
        how = "Read from a file: rows are summed anew, and the last number is the file's own."
    return (
        f"{check.sentence}\n\n{how}\n{sums}"
        f"largest weight where the mask forbids: {check.forbidden_weight:.1e}\n"
        f"largest |weights · v − the model's own head output|: {check.output_error:.1e}\n"
        f"tolerance: {check.tolerance:.0e}"
    )

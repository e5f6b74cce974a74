"""Learning in one window: the Learn page, the tours with their bar, help, the invitation.

Tours and help are read when they are first asked for: the window opens on Explore and is not kept waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QApplication, QDialog, QWidget
from shiboken6 import isValid

from attnscope import paths
from attnscope.errors import UserError
from attnscope.viewmodels.help_pages import (
    HELP_OF_DIALOGS,
    STUDENTS,
    TOPICS,
    HelpPage,
    heading_slug,
    help_name,
    read_help,
)
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.states import States
from attnscope.viewmodels.tours.touring import TourState
from attnscope.viewmodels.tours.tours import TourStates, read_tours
from attnscope.viewmodels.training.recipe_text import offered_recipes
from attnscope.viewmodels.view_state import ViewState, page_named
from attnscope.widgets.command_palette import Offer
from attnscope.widgets.form_parts import SideTabs, column, row
from attnscope.widgets.labels import PlainLabel, ground, push_button, tool_button, when
from attnscope.widgets.theme import Dressed, icon
from attnscope.widgets.tours.help_panel import HelpPanel
from attnscope.widgets.tours.welcome_panel import Doors, WelcomePanel
from attnscope.widgets.window.pages import Pages
from attnscope.widgets.window.places import TourPanel, WindowPlaces
from attnscope.widgets.window.workspace import Workspace

# A calm outline around a part of the window, which the mouse goes through.

_WIDTH_PX, _RADIUS_PX, _SETTLE_MS = 2.0, 5.0, 30
_WITHOUT_PARTS = ("python",)
"""Help whose parts the palette does not list one by one: there are too many, and all for one purpose."""
_MOVED = {
    QEvent.Type.Move,
    QEvent.Type.Resize,
    QEvent.Type.Show,
    QEvent.Type.Hide,
    QEvent.Type.ParentChange,
    QEvent.Type.LayoutRequest,
}


class PointerFrame(Dressed):
    """Follows its target everywhere, in another window too; hidden while the target is."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._home = window
        self._target: QWidget | None = None
        self._watched: list[QWidget] = []
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._timer = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._timer.timeout.connect(self.place)
        self.hide()

    @property
    def target(self) -> QWidget | None:
        return self._target

    def point_at(self, target: QWidget | None) -> None:
        """Outline another part, or none."""
        if target is not self._target:
            if self._target is not None:
                self._target.destroyed.disconnect(self._on_target_gone)
            if target is not None:
                target.destroyed.connect(self._on_target_gone)
            self._target = target
        self.place()

    def place(self) -> None:
        """Surround the target in its current place."""
        self._watch()
        target = self._target
        if target is None or not target.isVisible():
            self.hide()
            return
        window = target.window()
        if self.parentWidget() is not window:
            self.setParent(window)
        corner = target.mapTo(window, target.rect().topLeft())
        seen = QRect(corner, target.size())
        parent = target.parentWidget()
        while parent is not None and parent is not window:
            seen = seen.intersected(QRect(parent.mapTo(window, parent.rect().topLeft()), parent.size()))
            parent = parent.parentWidget()
        self.setGeometry(seen.intersected(window.rect()))
        self.show()
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow moves of everything above the target; a closing window does not take the frame along."""
        is_closing = event.type() in (QEvent.Type.Close, QEvent.Type.DeferredDelete)
        if is_closing and watched is self.parentWidget() and watched is not self._home:
            self.setParent(self._home)
            self.hide()
        if event.type() in _MOVED:
            self._timer.start()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(self.theme.accent), _WIDTH_PX))
            inset = _WIDTH_PX / 2
            frame = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
            painter.drawRoundedRect(frame, _RADIUS_PX, _RADIUS_PX)

    def _watch(self) -> None:
        wanted: list[QWidget] = []
        widget = self._target
        while widget is not None:
            wanted.append(widget)
            widget = None if widget.isWindow() else widget.parentWidget()
        if wanted != self._watched:
            for old in filter(isValid, self._watched):
                old.removeEventFilter(self)
            for new in wanted:
                new.installEventFilter(self)
            self._watched = wanted

    def _on_target_gone(self) -> None:
        self._target, self._watched = None, []
        self.hide()


# The Learn page: the welcome and the help, each behind a tab; made when it is first looked at.

MakeParts = Callable[[], tuple[WelcomePanel, HelpPanel]]


class LearnPage(QWidget):
    """Holds both; `link_wanted` carries a link of a help page that leads outside the help."""

    link_wanted = Signal(str)

    def __init__(self, make: MakeParts) -> None:
        super().__init__()
        self._make = make
        ground(self, "page")
        self.tabs = SideTabs()
        self._layout = column(self.tabs, on=self, spacing=-1)

    @cached_property
    def _parts(self) -> tuple[WelcomePanel, HelpPanel]:
        """Parts of the page, made on first use."""
        welcome, guide = self._make()
        self.tabs.add("Welcome", welcome)
        self.tabs.add("Help", guide)
        guide.link_wanted.connect(self.link_wanted)
        return welcome, guide

    @property
    def welcome(self) -> WelcomePanel:
        return self._parts[0]

    @property
    def help(self) -> HelpPanel:
        return self._parts[1]

    def build(self) -> None:
        """Create the content, unless that has been done."""
        _ = self._parts

    def show_help(self, name: str, heading: str = "") -> None:
        self.build()
        self.tabs.show_panel("Help")
        self.help.show_page(name, heading)

    def showEvent(self, event: QShowEvent) -> None:
        self.build()
        super().showEvent(event)


# One line at the first start of all: where to begin. It can be sent away, and does not come again.


class Invitation(Dressed):
    """A line above the page; `accepted` if the user wants to begin there."""

    accepted = Signal()

    def __init__(self) -> None:
        super().__init__()
        ground(self, "panel", edge="bottom")
        self.setAccessibleName("Invitation to the tours")
        self.open_button = push_button("Open Learn", clicked=self._on_open)
        self.close_button = tool_button("", "Dismiss the invitation", role="flat", clicked=self.hide)
        row(
            PlainLabel("New here? Guided tours show in this window what attention computes."),
            self.open_button,
            None,
            self.close_button,
            on=self,
            margins=(16, 3, 8, 3),
            spacing=-1,
        )
        self.dress()
        self.hide()

    def dress(self) -> None:
        self.close_button.setIcon(icon("close", self.theme.muted, side_px=16))

    def _on_open(self) -> None:
        self.hide()
        self.accepted.emit()


class Learning(QObject):
    """Belongs to one window. `page` is among its pages, `invitation` above them, `bar` below them.

    `seen` is how many steps of each tour were seen; `toured` tells whether there is a tour now.
    """

    toured = Signal(bool)

    def __init__(
        self,
        pages: Pages,
        places: WindowPlaces,
        workspace: Workspace,
        states: States,
        view: ViewState,
        seen: Iterable[tuple[str, int]],
    ) -> None:
        super().__init__(pages)
        self._pages, self._workspace, self._states, self._view = pages, workspace, states, view
        self._session, self._training = states.session, states.training
        self._seen, self.places = dict(seen), places
        self.page = LearnPage(self._make_parts)
        self.page.link_wanted.connect(self.follow)
        pages.add("learn", self.page)
        self.invitation = Invitation()
        self.invitation.accepted.connect(lambda: view.show_page("learn"))
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._point)
        self.bar = QWidget()
        self.bar.setVisible(False)
        self._bar_layout = column(on=self.bar, spacing=-1)
        when(self, self._on_run, states.training.changed.status)
        when(self, self._take_back_invitation, view.changed.page)

    def progress(self) -> tuple[tuple[str, int], ...]:
        """Steps seen in each tour, to be saved."""
        return tuple(sorted(self._seen.items()))

    def invite(self) -> None:
        """Show where to begin, on the very first start."""
        self.invitation.setVisible(self._view.page != "learn")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """In a window or type of another size a step needs other room."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.StyleChange):
            self._later.start()
        return super().eventFilter(watched, event)

    # Intents

    def start_tour(self, name: str, at: int | None = None) -> None:
        """Begin a tour, or continue it where it was left, or `at` one of its steps."""
        self.invitation.hide()
        _ = self.panel
        self.tours.start(name, at)

    def show_help(self, name: str, heading: str = "") -> None:
        """Show a help page."""
        self._view.show_page("learn")
        self.page.show_help(name, heading)

    def show_help_here(self) -> None:
        """Show the help for the current view."""
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QDialog) and type(dialog).__name__ in HELP_OF_DIALOGS:
            dialog.reject()
            self.show_help(HELP_OF_DIALOGS[type(dialog).__name__])
            return
        view = self._view
        name = help_name(view.page, self.places.shown_tab(view.page), view.view)
        self.show_help(name, heading_slug(self._pages.labs.shown) if name == "labs" else "")

    def follow(self, link: str) -> None:
        """Follow a link of the help."""
        kind, _, name = link.partition(":")
        match kind:
            case "tour":
                self.start_tour(name)
            case "page":
                page = page_named(name)
                if page is not None:
                    self._view.show_page(page)
            case "help":
                self.show_help(*name.split("#", 1))
            case "lab":
                self._show_lab(name)
            case "ask":
                self._pages.explore.show_question(name)
            case "recipe":
                self._open_recipe(name)
            case "model":
                self._view.show_page("explore")
                self._session.opening.load(name)
            case _:
                pass  # links lead nowhere else

    def train(self, recipe: str) -> None:
        """Start a recipe in a run folder of its own, on the Train page."""
        if self._open_recipe(recipe):
            self._training.place.take_fresh()
            self._training.start()

    def _open_recipe(self, recipe: str) -> bool:
        """Open a bundled recipe on the Train page; False, with an error message, if that fails."""
        training, session = self._training, self._session
        self._view.show_page("train")
        if training.run.is_active:
            session.notices.say("A run is in progress. Stop it first, or wait until it finishes.")
            return False
        found = [known.path for known in offered_recipes() if Path(known.path).stem == recipe]
        try:
            training.open_recipe(found[0])
        except UserError as error:
            session.notices.say(str(error), is_error=True)
            return False
        return True

    def offers(self) -> Iterable[Offer]:
        """Palette entries: tours, help pages, and the topics of a lecture."""
        for tour in self.tours.tours:
            yield Offer(
                item=Item(
                    key=f"tour:{tour.name}", kind="page", title=f"Tour: {tour.title}", detail=tour.theme
                ),
                run=lambda name=tour.name: self.start_tour(name),  # type: ignore[misc]
            )
        yield from self._help_offers

    @cached_property
    def _help_offers(self) -> tuple[Offer, ...]:
        """Each help page and each part of one, searchable by all its words."""
        return tuple(
            offer
            for page in self._help_pages
            for heading, text in page.parts
            if not heading or page.name not in _WITHOUT_PARTS
            for offer in (self._help_offer(page, heading, text),)
        )

    def _help_offer(self, page: HelpPage, heading: str, text: str) -> Offer:
        slug = heading_slug(heading)
        is_topic, is_question = (bool(heading) and page.name == name for name in (TOPICS, STUDENTS))
        of = "Topic" if is_topic else "Question" if is_question else "Help"
        item = Item(
            key=f"help:{page.name}#{slug}" if heading else f"help:{page.name}",
            kind="question" if is_question else "page" if is_topic or not heading else "help",
            title=f"{of}: {heading or page.title}",
            detail="Where to find it" if is_topic or is_question else page.title if heading else page.group,
            search=text,
        )
        return Offer(item=item, run=lambda: self.show_help(page.name, slug))

    # Within

    @cached_property
    def tours(self) -> TourState:
        """The tours, read on first use; a kept view or a session replaces one."""
        found, states = read_tours(paths.resources_folder() / "tours"), self._states
        give_back = partial(self._workspace.files.show, label="leave the tour")
        worked_on = TourStates(
            session=states.session,
            view=self._view,
            inside=states.inside,
            heads=states.heads,
            curves=states.curves,
            training=states.training,
            positions=states.positions,
            places=self.places,
        )
        tours = TourState(found, worked_on, give_back, self._seen)
        when(self, partial(tours.leave, is_keeping=True), self._workspace.files.kept.changed.going)
        self._seen = tours.progress
        return tours

    @cached_property
    def _help_pages(self) -> tuple[HelpPage, ...]:
        return read_help(paths.resources_folder() / "help")

    @cached_property
    def panel(self) -> TourPanel:
        """The bar of the tours, created with the first one, as is the pointer."""
        tours = self.tours
        panel = TourPanel(tours, self._view)
        self._bar_layout.addWidget(panel)
        self._pages.installEventFilter(self)
        when(self, self._point, tours.changed.tour, tours.changed.step)
        when(self, self._show_bar, tours.changed.tour)
        return panel

    @cached_property
    def pointer(self) -> PointerFrame:
        """The frame around the subject of a step."""
        return PointerFrame(self._pages.window())

    def _take_back_invitation(self) -> None:
        """Remove the invitation to Learn once the user is there."""
        if self._view.page == "learn":
            self.invitation.hide()

    def _on_run(self) -> None:
        if self._training.run.status.phase in ("running", "opened"):
            self._workspace.recents.add_run(self._training.run.folder)

    def _show_bar(self) -> None:
        is_touring = self.tours.is_on
        self.bar.setVisible(is_touring)
        if not is_touring:
            self._give_focus()
        self.toured.emit(is_touring)

    def _give_focus(self) -> None:
        """Focus the page: after the bar comes Undo, where one Enter too many would bring the tour back."""
        if self._view.page == "learn" and "Welcome" in self.page.tabs.tabs:
            self.page.tabs.tabs["Welcome"].setFocus()
        elif self._view.page == "explore":
            self._pages.explore.grid_panel.grid.setFocus()

    def _point(self) -> None:
        """Outline the subject of the step, once the window is there."""
        if not isValid(self.pointer):  # it lay in a window that is gone
            del self.pointer
        step = self.tours.step if self.tours.phase == "shown" else None
        if step is not None or not self.tours.is_on:
            self.places.make_room(step.point if step is not None else None)
        self.pointer.point_at(self.places.widget(step.point) if step is not None else None)

    def _make_parts(self) -> tuple[WelcomePanel, HelpPanel]:
        doors = Doors(
            open_model=self._open_model,
            open_path=self._workspace.files.open_path,
            train=self.train,
            start_tour=self.start_tour,
            show_lab=self._pages.show_lab,
        )
        recents = self._workspace.recents
        welcome = WelcomePanel(self._session, self._training, self.tours, recents, doors)
        return welcome, HelpPanel(self._help_pages)

    def _open_model(self, name: str) -> None:
        self._session.opening.load(name)
        self._view.show_page("explore")

    def _show_lab(self, name: str) -> None:
        found = [entry.name for entry in self._pages.labs.entries if heading_slug(entry.name) == name]
        if found:
            self._pages.show_lab(found[0])

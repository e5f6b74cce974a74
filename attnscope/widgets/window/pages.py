"""The pages of the window, one in front: builds them, joins what one says to what another does."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QSplitter, QStackedWidget, QWidget

from attnscope.figures.spec import FigureSpec
from attnscope.viewmodels.session.recents import Recents
from attnscope.viewmodels.states import States
from attnscope.viewmodels.view_state import Page, ViewState, page_named
from attnscope.widgets.actions import HEAD_ACTIONS
from attnscope.widgets.compare.page import ComparePage
from attnscope.widgets.explore.page import ExplorePage
from attnscope.widgets.export.figures_offered import SpecOfPage, offered_figures
from attnscope.widgets.form_parts import SideTabs, column
from attnscope.widgets.heads.alike_page import AlikePage
from attnscope.widgets.heads.page import HeadsPage
from attnscope.widgets.heads.pruning_page import PruningPage
from attnscope.widgets.heads.weights_page import WeightsPage
from attnscope.widgets.labels import ground, when
from attnscope.widgets.labs.page import LabsPage
from attnscope.widgets.map_widget import map_style
from attnscope.widgets.positions.page import PositionsPage
from attnscope.widgets.training.page import TrainingPage

# The Heads page as a whole: the table of all heads, pruning curves, which are alike, what weights say.


class HeadsTabs(QWidget):
    """Tabs around the Heads page; `remove_wanted` asks for the dialog that removes heads."""

    failed = Signal(str, str)
    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, table: HeadsPage, states: States) -> None:
        super().__init__()
        ground(self, "page")
        self.table = table
        self.pruning = PruningPage(states.curves, table_path=lambda: states.heads.texts.path)
        self.alike = AlikePage(states.alike, table_path=lambda: states.heads.texts.path)
        self.weights = WeightsPage(states.weights)
        self.pruning.explore_wanted.connect(self.explore_wanted)
        self.pruning.remove_wanted.connect(self.remove_wanted)
        for page in (self.pruning, self.weights):
            page.failed.connect(self.failed)
        self.tabs = SideTabs()
        self.tabs.add("Table", table)
        self.tabs.add("Pruning", self.pruning)
        self.tabs.add("Alike", self.alike, label="Similar heads")
        self.tabs.add("Weights", self.weights)
        self.tabs.shown.connect(self.updateGeometry)
        column(self.tabs, on=self, spacing=-1)

    def minimumSizeHint(self) -> QSize:
        """The width of the tab in front: a panel at the right edge leaves it no less."""
        hint = super().minimumSizeHint()
        pages = (self.table, self.pruning, self.alike, self.weights)
        widths = [page.minimumSizeHint().width() for page in pages if page.isVisibleTo(self)]
        return QSize(max(widths, default=hint.width()), hint.height())

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose places are worth remembering."""
        return self.table.splitters()

    def figure_spec(self) -> FigureSpec | None:
        """The figure that can be exported from here."""
        return self.pruning.figure_spec()


class Pages(QStackedWidget):
    """Every page by its name; the view state says which is in front. `failed` tells (subject, why)."""

    failed = Signal(str, str)

    def __init__(
        self,
        states: States,
        view: ViewState,
        actions: Mapping[str, QAction],
        recents: Recents,
        *,
        offer_models: Callable[[], tuple[str, ...]],
        open_checkpoint: Callable[[str], None],
    ) -> None:
        super().__init__()
        session = states.session
        self._session, self._view = session, view
        head_actions = tuple(actions[name] for name in HEAD_ACTIONS)
        self.explore = ExplorePage(states, view, head_actions)
        self.compare = ComparePage(states.compare, session, view, offer_models=offer_models)
        self.heads = HeadsPage(states.heads)
        self.heads_tabs = HeadsTabs(self.heads, states)
        self.positions = PositionsPage(states.positions)
        self.training = TrainingPage(states.training, states.sweep, recents, open_checkpoint=open_checkpoint)
        self.labs = LabsPage(states.labs)
        self._tints, self._merges = states.tints, states.labs.merges
        self._pages: dict[Page, QWidget] = {}
        self.add("explore", self.explore)
        self.add("compare", self.compare)
        self.add("heads", self.heads_tabs)
        self.add("positions", self.positions)
        self.add("train", self.training)
        self.add("labs", self.labs)
        self._join(actions)
        when(self, self.show_page, view.changed.page)
        when(self, self._show_style, view.changed.style)

    def add(self, name: Page, page: QWidget) -> None:
        """Let a page be turned to."""
        self._pages[name] = page
        self.addWidget(page)

    def show_page(self) -> None:
        """Bring the page that the view state names to the front."""
        self.setCurrentWidget(self._pages[self._view.page])

    def splitters(self) -> dict[str, QSplitter]:
        """Every splitter that remembers where it was put, by a name that stays."""
        found = self.explore.splitters()
        for name, splitters in (
            ("train", self.training.splitters()),
            ("positions", self.positions.splitters()),
            ("heads", self.heads.splitters()),
            ("compare", self.compare.splitters()),
        ):
            found |= {f"{name}.{k}": splitter for k, splitter in enumerate(splitters)}
        return found

    def offered_figures(self) -> dict[str, FigureSpec]:
        """Every figure that can be exported now, by its view."""
        pages: dict[Page, SpecOfPage] = {
            "explore": self.explore.ask.figure_spec,
            "compare": self.compare.figure_spec,
            "positions": self.positions.figure_spec,
            "train": self.training.figure_spec,
            "labs": self.labs.figure_spec,
        }
        head = self.explore.head_panel
        is_inside = self._view.view == "inside"
        return offered_figures(
            self._session,
            self._view,
            pages,
            part=head.long_part(),
            long_lines=head.long_lines(),
            inside=head.inside.figure() if is_inside else None,
            gold=head.gold_cells(),
            picture=head.picture.figure(),
        )

    def show_lab(self, name: str) -> None:
        """Turn to a lab; raises KeyError for one there is not."""
        self.labs.show_lab(name)
        self._view.show_page("labs")

    # Inside

    def _join(self, actions: Mapping[str, QAction]) -> None:
        for page in (self.compare, self.positions, self.training, self.labs):
            page.hover_text.connect(self._view.set_pointer_text)
        for telling in (self.heads, self.heads_tabs, self.training):
            telling.failed.connect(self.failed)
        for heads in (self.heads, self.heads_tabs):
            heads.explore_wanted.connect(actions["page-explore"].trigger)
        self.heads.table.frames_wanted.connect(self._tints.choose_column)
        self.heads_tabs.remove_wanted.connect(actions["remove-heads"].trigger)
        self.labs.export_wanted.connect(actions["export"].trigger)
        self.labs.page_wanted.connect(self._on_page_wanted)
        self.positions.lab_wanted.connect(self.show_lab)
        self.explore.text_bar.merges_wanted.connect(self._on_merges_wanted)

    def _show_style(self) -> None:
        self.training.set_style(map_style(self._view))

    @Slot(str)
    def _on_merges_wanted(self, word: str) -> None:
        self.show_lab("Merges replayed")
        self._merges.show_word(word)

    @Slot(str)
    def _on_page_wanted(self, name: str) -> None:
        self._view.show_page(page_named(name) or self._view.page)

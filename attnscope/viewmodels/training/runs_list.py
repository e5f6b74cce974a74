"""Several runs side by side: those listed, those shown, their differences, and their curves."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from psygnal import Signal

from attnscope.counting import count_text, fixed, percent
from attnscope.files import replace_file
from attnscope.paths import resources_folder
from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.runs import FollowRun, OpenRuns, RunMark, RunNews, RunsOpened, RunSummary, loss_unit
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.training.recipe_text import (
    Settings,
    csv_of_table,
    differing_keys,
    is_match,
    settings_of,
)
from attnscope.viewmodels.training.run_curves import InspectionsState, RunAxis, RunCurves, RunScale
from attnscope.viewmodels.training.runs_compared import ShownRun

LIVE_EVERY_S, QUIET_EVERY_S = 0.3, 10.0
_PATIENCE_S = 30.0
Sink = Callable[[RunNews], None]
Key = tuple[str, str]


@dataclass(slots=True)
class _Place:
    """Position up to which one folder was read for one listener, and when to ask again."""

    folder: str
    sink: Sink
    due_at: float
    mark: RunMark = field(default_factory=RunMark)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The request in progress: its folder and listener, and its start; number 0: none."""

    number: int = 0
    key: Key = ("", "")
    at: float = -math.inf


class Follower:
    """Follows folders for several listeners; a folder's news reach its listener in order."""

    def __init__(self, requests: Requests, clock: Callable[[], float]) -> None:
        self._requests, self._clock = requests, clock
        self._places: dict[Key, _Place] = {}
        self._asked = _Asked()

    def follow(self, owner: str, folder: str, sink: Sink) -> None:
        """Report to `sink` the events in `folder`, from its beginning on, unless followed already."""
        if (owner, folder) not in self._places:
            self._places[owner, folder] = _Place(folder=folder, sink=sink, due_at=self._clock())

    def unfollow(self, owner: str, folder: str) -> None:
        """Stop following."""
        self._places.pop((owner, folder), None)

    def folders(self, owner: str) -> tuple[str, ...]:
        """Folders followed for a listener."""
        return tuple(folder for name, folder in self._places if name == owner)

    def tick(self) -> None:
        """Ask the folder that has waited longest, if one is due and no answer is pending."""
        now = self._clock()
        if now - self._asked.at < _PATIENCE_S:
            return
        key = min(self._places, key=lambda key: self._places[key].due_at, default=None)
        if key is None or self._places[key].due_at > now:
            return
        place = self._places[key]
        number = self._requests.send(FollowRun(folder=place.folder, mark=place.mark))
        self._asked = _Asked(number=number, key=key, at=now)

    def handle(self, reply: Reply) -> bool:
        """Handle the reply to the last request; True if it was that."""
        number = self._asked.number
        place = self._places.get(self._asked.key)
        match reply:
            case RunNews() if number and reply.number == number:
                self._asked = replace(self._asked, at=self._clock()) if reply.has_more else _Asked()
                if place is not None:
                    place.mark = reply.mark
                    place.due_at = self._clock() + (LIVE_EVERY_S if reply.writer else QUIET_EVERY_S)
                    place.sink(reply)
            case Failed() if number and reply.number == number:
                self._asked = _Asked()
                if place is not None:
                    place.due_at = self._clock() + QUIET_EVERY_S
            case _:
                return False
        return True


END_WORDS = {
    "done": "finished",
    "stopped": "stopped",
    "diverged": "diverged",
    "running": "live",
    "broken off": "interrupted",
}
FIXED_COLUMNS = ("run", "state", "step", "last loss", "best loss", "accuracy", "parameters")
COLUMN_TIPS = {
    "run": "Ticked runs are drawn; a click puts the run's recipe into the editor.",
    "state": "live: in progress; interrupted: nothing writes it any more, and it did not end properly.",
    "step": "Optimiser steps taken",
    "last loss": "The newest held-out loss in nats: per token, or per text where labels are predicted",
    "best loss": "The lowest held-out loss in nats: per token, or per text where labels are predicted",
    "accuracy": "The newest share of held-out tokens that are predicted correctly, or of texts where "
    "labels are predicted",
    "parameters": "Number of trainable parameters",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One row: `colour` is its index in the series' colours, `settings` its whole recipe."""

    summary: RunSummary
    colour: int
    is_shown: bool
    settings: Settings

    @property
    def folder(self) -> str:
        return self.summary.folder

    @property
    def state(self) -> str:
        """State in one word."""
        return END_WORDS[self.summary.end]

    def cell(self, column: str) -> str:
        """Text of a column."""
        run = self.summary
        match column:
            case "run":
                return run.name
            case "state":
                return self.state
            case "step":
                return f"{run.step:,}"
            case "last loss":
                return fixed(run.last_loss, 4)
            case "best loss":
                return fixed(run.best_loss, 4)
            case "accuracy":
                return percent(run.last_accuracy, 1)
            case "parameters":
                return count_text(run.n_parameters)
            case _:
                return dict(self.settings).get(column, "–")

    def _number(self, column: str) -> float | None:
        """Number in a numeric column; None for the other columns."""
        run = self.summary
        numbers = {
            "step": float(run.step),
            "last loss": run.last_loss,
            "best loss": run.best_loss,
            "accuracy": run.last_accuracy,
            "parameters": float(run.n_parameters),
        }
        return numbers.get(column)

    def plain_cell(self, column: str) -> str:
        """The same for a machine-readable table: whole numbers, empty if unknown."""
        value = self._number(column)
        if value is not None:
            if not math.isfinite(value):
                return ""
            return f"{value:.0f}" if value == round(value) else f"{value:.9g}"
        text = self.cell(column)
        return "" if text == "–" else text

    def sort_key(self, column: str) -> tuple[bool, float, str]:
        """Numbers by size, words alphabetically, unknown values last."""
        value, name = self._number(column), self.summary.name
        if value is not None:
            return (not math.isfinite(value), value if math.isfinite(value) else 0.0, name)
        text = self.cell(column)
        try:
            return (False, float(text), name)
        except ValueError:
            return (text == "–", math.inf, text.lower())


def sorted_rows(rows: Sequence[RunRow], column: str, *, is_descending: bool) -> tuple[RunRow, ...]:
    """The rows by a column; unknown values stay last either way."""
    known = [row for row in rows if not row.sort_key(column)[0]]
    unknown = [row for row in rows if row.sort_key(column)[0]]
    known.sort(key=lambda row: row.sort_key(column), reverse=is_descending)
    return (*known, *unknown)


REFRESH_S = 2.0
_FIRST_SHOWN = 8
"""Runs of a folder that are drawn at once; the rest wait for their tick, but laws are fitted through them."""
_OWNER = "list"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """The run of the page; without a folder there is none."""

    folder: str = ""
    curves: RunCurves = dataclasses.field(default_factory=RunCurves)
    is_live: bool = False

    def told(self, run: RunSummary) -> RunSummary:
        """The folder's data on a run, completed with newer data from this window."""
        losses, accuracy = self.curves.validation_loss.values, self.curves.last_accuracy
        looks = zip(losses.tolist(), self.curves.validation_loss.steps.tolist(), strict=True)
        best = min((look for look in looks if math.isfinite(look[0])), default=(run.best_loss, run.best_step))
        if not self.curves.last_step:
            return run
        return dataclasses.replace(
            run,
            step=self.curves.last_step,
            last_loss=float(losses[-1]) if len(losses) else run.last_loss,
            best_loss=best[0],
            best_step=int(best[1]),
            last_accuracy=accuracy if math.isfinite(accuracy) else run.last_accuracy,
            end="running" if self.is_live else run.end,
        )


class RunTable:
    """The list as displayed: the runs that match some words, in a chosen order, and its cells."""

    def __init__(self, listed: Callable[[], list[RunRow]], tell: Callable[[], None]) -> None:
        self._listed, self._tell = listed, tell
        self.words = ""
        self.sorted_by, self.is_descending = "run", False

    @property
    def rows(self) -> tuple[RunRow, ...]:
        """The runs that pass the filter, in order."""
        rows = [row for row in self._listed() if is_match(self.words, row.summary.name, row.settings)]
        return sorted_rows(rows, self.sorted_by, is_descending=self.is_descending)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the list: the same facts for all, then the keys in which the shown runs differ."""
        recipes = [row.settings for row in self._listed() if row.is_shown]
        return (*FIXED_COLUMNS, *differing_keys(recipes))

    def filter(self, words: str) -> None:
        """List only runs whose name or recipe contains these words."""
        if words != self.words:
            self.words = words
            self._tell()

    def sort_by(self, column: str) -> None:
        """Sort by a column; by the same again to reverse."""
        self.is_descending = column == self.sorted_by and not self.is_descending
        self.sorted_by = column
        self._tell()

    def cells(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The header and the cells of the list as displayed, with units and folders at the end."""
        columns = self.columns
        rows = tuple(
            (*(row.plain_cell(column) for column in columns), loss_unit([row.summary.objective]), row.folder)
            for row in self.rows
        )
        return (*columns, "loss unit", "folder"), rows

    def save(self, path: str) -> None:
        """Write the list as CSV. Raises SaveError."""
        replace_file(Path(path), csv_of_table(*self.cells()).encode("utf-8"))


class DrawnRuns:
    """The curves of the runs with their axes and colours; those drawn grow with their files."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._colours: dict[str, int] = {}
        self._curves: dict[str, RunCurves] = {}
        self._axes: dict[str, RunAxis] = {}
        self.own = OwnRun()

    def colour_of(self, folder: str) -> int:
        """The index of a run in the series' colours, kept until the run is removed."""
        if folder not in self._colours:
            used = set(self._colours.values())
            self._colours[folder] = next(k for k in range(len(used) + 1) if k not in used)
        return self._colours[folder]

    def curves_of(self, folder: str) -> RunCurves:
        """The curves of a run; they fill as they are read."""
        if folder == self.own.folder:
            return self.own.curves
        return self._curves.setdefault(folder, RunCurves())

    def follow(self, drawn: set[str]) -> None:
        """Follow the files of these runs and of no others."""
        for folder in set(self._follower.folders(_OWNER)) - drawn:
            self._follower.unfollow(_OWNER, folder)
            self._curves.pop(folder, None)
        for folder in drawn:
            self._follower.follow(_OWNER, folder, self._on_news)

    def forget(self, folder: str) -> None:
        """Drop a run that is no longer listed."""
        self._colours.pop(folder, None)
        self._curves.pop(folder, None)
        self._axes.pop(folder, None)
        self._follower.unfollow(_OWNER, folder)

    def set_own(self, own: OwnRun, *, is_listed: bool) -> None:
        """Set another run of the page; the previous one keeps its colour if it `is_listed`."""
        if own.folder != self.own.folder and not is_listed:
            self._colours.pop(self.own.folder, None)
        self.own = own

    def run_of(self, row: RunRow, *, is_strong: bool) -> ShownRun:
        run = row.summary
        steps = max(1, run.step)
        return ShownRun(
            folder=run.folder,
            name=run.name,
            colour=row.colour,
            curves=self.curves_of(run.folder),
            axis=self._axis_of(run.folder),
            scale=RunScale(
                tokens_a_step=run.n_tokens / steps,
                seconds_a_step=run.seconds / steps,
                flops_a_token=run.flops / run.n_tokens if run.n_tokens > 0 else math.nan,
            ),
            is_strong=is_strong,
            objective=run.objective,
        )

    def own_alone(self, *, is_strong: bool) -> ShownRun:
        """The page's own run, if its folder is not listed."""
        return ShownRun(
            folder=self.own.folder,
            name=Path(self.own.folder).name or "this run",
            colour=self.colour_of(self.own.folder) if self.own.folder else 0,
            curves=self.own.curves,
            axis=self._axis_of(self.own.folder),
            is_strong=is_strong,
        )

    def _axis_of(self, folder: str) -> RunAxis:
        curves = self.curves_of(folder)
        found = self._axes.get(folder)
        if found is None or found.curves is not curves:
            found = self._axes[folder] = RunAxis(curves)
        return found

    def _on_news(self, news: RunNews) -> None:
        curves = self.curves_of(news.folder)
        if curves is self.own.curves:
            return
        if news.is_restart:
            curves.clear()
        curves.add(news.events)


class ListedFolders:
    """The folders added to the list, and the runs removed from it."""

    def __init__(self) -> None:
        self.added: tuple[str, ...] = ()
        self.removed: set[str] = set()
        self._void: set[str] = set()

    def add(self, folder: str) -> None:
        """Add one more; earlier folders found to hold no run are dropped for it."""
        self.removed = {run for run in self.removed if run != folder and str(Path(run).parent) != folder}
        others = (listed for listed in self.added if listed not in self._void)
        self.added = tuple(dict.fromkeys((*others, folder)))

    def remove(self, run: str) -> None:
        """Remove a run from the list."""
        self.removed.add(run)
        self.added = tuple(listed for listed in self.added if listed != run)

    def clear(self) -> None:
        """Reset to an empty list."""
        self.added, self.removed = (), set()

    def has(self, run: str) -> bool:
        """Whether a run was added, or is in an added folder."""
        return any(Path(run).is_relative_to(folder) for folder in self.added)

    def holding(self, runs: Iterable[str]) -> tuple[str, ...]:
        """The folders above one of these runs, or above a removed one."""
        known = [Path(run) for run in (*runs, *self.removed)]
        return tuple(folder for folder in self.added if any(run.is_relative_to(folder) for run in known))

    def look_into(self, runs: Iterable[str]) -> None:
        """Note the runs found: a folder without any goes when another is added."""
        self._void = set(self.added) - set(self.holding(runs))


class RunsState:
    """`changed`: the list has; curves grow by themselves, check their versions.

    `table` is the list as it is read, `drawn` the curves.
    The run of the page (`set_own`) is always among the shown. `chosen` is the run that is drawn strongest.
    """

    changed = Signal()

    def __init__(
        self,
        requests: Requests,
        follower: Follower,
        clock: Callable[[], float],
    ) -> None:
        self._requests = requests
        self._clock = clock
        self.inspections = InspectionsState(requests, clock)
        self._asked_number = 0
        self._asked_at = -math.inf
        self._listed = ListedFolders()
        self._summaries: dict[str, RunSummary] = {}
        self._shown: set[str] = set()
        self._waiting: set[str] = set()
        self._unticked: set[str] = set()
        self._has_unread = False
        self.drawn = DrawnRuns(follower)
        self.table = RunTable(self._all_rows, self._changed)
        self.chosen = ""
        self.note = ""

    # --- what is listed ---------------------------------------------------------------------------

    @property
    def n_listed(self) -> int:
        """Number of runs, whatever the filter."""
        return len(self._summaries)

    @property
    def n_own(self) -> int:
        """Number of runs that did not come with the program."""
        kept = resources_folder()
        return sum(not Path(folder).is_relative_to(kept) for folder in self._summaries)

    @property
    def summaries(self) -> tuple[RunSummary, ...]:
        """The listed runs that are shown, by name: those drawn and exported."""
        return self._by_name(self._shown)

    @property
    def fitted(self) -> tuple[RunSummary, ...]:
        """The runs of the scaling plot, by name, including those hidden only because of their number."""
        return self._by_name(self._shown | self._waiting)

    def _by_name(self, folders: set[str]) -> tuple[RunSummary, ...]:
        rows = [row for row in self._all_rows() if row.folder in folders]
        return tuple(row.summary for row in sorted_rows(rows, "run", is_descending=False))

    def add(self, folder: str) -> None:
        """List a run, or every run of a folder; a folder once reported empty is dropped for it."""
        self._listed.add(folder)
        self._ask()

    def restore(self, listed: Sequence[str], removed: Sequence[str], unticked: Sequence[str]) -> None:
        """Restore an earlier list from `remembered`; it is read with the next tick."""
        self._listed.added, self._listed.removed = tuple(listed), set(removed)
        self._unticked = set(unticked)
        self._has_unread = bool(listed)

    @property
    def remembered(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Added folders that still hold runs, removed runs, and hidden runs."""
        removed = tuple(sorted(self._listed.removed))
        if self._has_unread:
            return self._listed.added, removed, tuple(sorted(self._unticked))
        listed = self._listed.holding(self._summaries)
        unticked = set(self._summaries) - self._shown - self._waiting
        return listed, removed if listed else (), tuple(sorted(unticked))

    def remove(self, folder: str) -> None:
        """Remove a run from the list; nothing is deleted. The page's own run stays."""
        if folder == self.drawn.own.folder:
            return
        self._listed.remove(folder)
        self._forget(folder)
        self._changed()

    def clear(self) -> None:
        """List only the page's own run."""
        for folder in [folder for folder in self._summaries if folder != self.drawn.own.folder]:
            self._forget(folder)
        self._listed.clear()
        self._changed()

    def show(self, folder: str, is_shown: bool) -> None:
        """Draw a run, or not."""
        if is_shown != (folder in self._shown):
            self._waiting.discard(folder)
            (self._shown.add if is_shown else self._shown.discard)(folder)
            self._changed()

    def show_only(self, folder: str) -> None:
        """Draw this run alone, beside the page's own."""
        self._shown, self._waiting = {folder}, set()
        self._changed()

    def show_all(self, is_shown: bool) -> None:
        """Draw every run that passes the filter, or none of them."""
        for row in self.table.rows:
            self._waiting.discard(row.folder)
            (self._shown.add if is_shown else self._shown.discard)(row.folder)
        self._changed()

    def choose(self, folder: str) -> None:
        """Emphasise a run."""
        if folder != self.chosen and folder in self._summaries:
            self.chosen = folder
            self._changed()

    def recipe_of(self, folder: str) -> str:
        """The recipe of a run, empty if unknown."""
        summary = self._summaries.get(folder)
        return summary.recipe if summary is not None else ""

    # --- curves -----------------------------------------------------------------------------------

    def set_own(self, folder: str, curves: RunCurves, *, is_live: bool) -> None:
        """Set the run that the page shows, with its curves; cheap enough for a timer."""
        before = self.drawn.own
        if (folder, is_live) == (before.folder, before.is_live) and curves is before.curves:
            return
        own = OwnRun(folder=folder, curves=curves, is_live=is_live)
        self.drawn.set_own(own, is_listed=before.folder in self._summaries)
        has_ended = before.is_live and not is_live
        if folder != before.folder:
            self.chosen = folder
            is_alone = before.folder in self._summaries and not self._listed.has(before.folder)
            if is_alone and _is_kept_of_name(before.folder, folder):
                self._forget(before.folder)
            if folder:
                self._shown.add(folder)
        if folder and (folder != before.folder or self._listed.added or has_ended) and curves.last_step:
            self._ask()
        self._changed()

    @property
    def shown(self) -> tuple[ShownRun, ...]:
        """The runs to draw, the page's own or the chosen one last, so that it is on top."""
        own = self.drawn.own
        strongest = self.chosen or own.folder
        rows = [row for row in self._all_rows() if row.is_shown]
        found = [self.drawn.run_of(row, is_strong=row.folder == strongest) for row in rows]
        if own.folder not in self._summaries and (own.curves.last_step or not found):
            found.append(self.drawn.own_alone(is_strong=self.chosen in ("", own.folder)))
        return tuple(sorted(found, key=lambda run: (run.is_strong, run.name)))

    # --- the worker -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Read the list, and the chosen run, again while they grow; called several times a second."""
        own = self.drawn.own
        chosen = self.chosen or own.folder
        growing = {run.folder for run in self._summaries.values() if run.end == "running"}
        self.inspections.want(chosen, is_live=own.is_live if chosen == own.folder else chosen in growing)
        if self._has_unread:
            self._ask()
        is_new = own.is_live and own.folder not in self._summaries and own.curves.last_step
        if (growing or is_new) and self._clock() - self._asked_at >= REFRESH_S:
            self._ask()

    def handle(self, reply: Reply) -> bool:
        """Handle a reply; True if it was for the list."""
        if self.inspections.handle(reply):
            return True
        match reply:
            case RunsOpened() if reply.number == self._asked_number:
                self._take(reply)
            case Failed() if reply.number and reply.number == self._asked_number:
                self.note = reply.message
                self._listed.look_into(self._summaries)
                self.changed.emit()
            case _:
                return False
        return True

    def _ask(self) -> None:
        own = (self.drawn.own.folder,) if self.drawn.own.folder else ()
        folders = tuple(dict.fromkeys((*self._listed.added, *own)))
        self._has_unread = False
        if folders:
            self._asked_number, self._asked_at = self._requests.next(), self._clock()
            self._requests.post(OpenRuns(number=self._asked_number, folders=folders))

    def _take(self, opened: RunsOpened) -> None:
        before = set(self._summaries)
        self._summaries = {run.folder: run for run in opened.runs if run.folder not in self._listed.removed}
        for folder in before - set(self._summaries):
            self._forget(folder)
        new = [folder for folder in self._summaries if folder not in before]
        for folder in new:
            self.drawn.colour_of(folder)
            is_early = len(self._shown & set(self._summaries)) < _FIRST_SHOWN
            if (is_early and folder not in self._unticked) or folder == self.drawn.own.folder:
                self._shown.add(folder)
            elif folder not in self._unticked:
                self._waiting.add(folder)
        self.note = " ".join(opened.left_out)
        self._listed.look_into(self._summaries)
        self._changed()

    def _all_rows(self) -> list[RunRow]:
        rows = []
        for folder, run in self._summaries.items():
            is_own = folder == self.drawn.own.folder
            rows.append(
                RunRow(
                    summary=self.drawn.own.told(run) if is_own else run,
                    colour=self.drawn.colour_of(folder),
                    is_shown=folder in self._shown,
                    settings=settings_of(run.recipe),
                )
            )
        return rows

    def _changed(self) -> None:
        self.drawn.follow(self._shown.intersection(self._summaries) - {self.drawn.own.folder})
        self.changed.emit()

    def _forget(self, folder: str) -> None:
        self._summaries.pop(folder, None)
        self._shown.discard(folder)
        self._waiting.discard(folder)
        self.drawn.forget(folder)
        if self.chosen == folder:
            self.chosen = self.drawn.own.folder


def _is_kept_of_name(run: str, other: str) -> bool:
    """Whether a bundled run has the name of another."""
    return Path(run).is_relative_to(resources_folder()) and Path(run).name == Path(other).name

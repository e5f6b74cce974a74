"""The shelf of open models: the choice, the Hub's offer for it, and the current download.

Nothing is asked of the network but by `ask` and `download`.
"""

from collections.abc import Iterator
from typing import Literal

from psygnal import Signal, SignalGroup

from attnscope.counting import bytes_text
from attnscope.records.messages import Failed
from attnscope.records.models import (
    AskModel,
    FetchEnded,
    FetchModel,
    FetchNews,
    ModelOffer,
    ModelOffered,
    ShelfEntry,
    ShelfRow,
    ShelfShown,
    ShowShelf,
    StopFetching,
    progress_words,
    typed_name,
    unlisted,
)
from attnscope.viewmodels.query import Job, Requests

Step = Literal["open", "ask", "asking", "download", "fetching", "busy"]
"""What can be done with the chosen model: open it, ask for it, download it; or what is being done."""


class ShelfChanges(SignalGroup):
    """Signals of ShelfState."""

    rows = Signal()
    chosen = Signal()
    progress = Signal()


class ShelfState:
    """The available models, and at most one download."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.changed = ShelfChanges()
        self._rows: tuple[ShelfRow, ...] = ()
        self._asked: dict[int, str] = {}
        """The model that each request is about."""
        self.job = Job(FetchNews, FetchEnded, requests)
        self._fetched = ""
        """The name of the model that was to be downloaded last."""
        self._is_stopping = False
        self._offers: dict[str, ModelOffer] = {}
        self._problems: dict[str, str] = {}
        self.is_listed = False
        self.host = ""
        self.wanted = ""
        """What is typed: words to look for, or the owner/name of a model that is on no list."""
        self.chosen = ""

    # What is shown

    @property
    def rows(self) -> tuple[ShelfRow, ...]:
        """The models that match the typed text, and the one whose full name it is."""
        name = typed_name(self.wanted)
        words = name.casefold().split()
        found = tuple(row for row in self._rows if all(word in _searched(row) for word in words))
        is_name = name.count("/") == 1 and all(name.split("/")) and " " not in name
        is_known = any(row.entry.name.casefold() == name.casefold() for row in self._rows)
        return (*found, ShelfRow(entry=unlisted(name), place="away")) if is_name and not is_known else found

    @property
    def row(self) -> ShelfRow | None:
        """The chosen model."""
        return next((row for row in self.rows if row.entry.name == self.chosen), None)

    @property
    def offer(self) -> ModelOffer | None:
        """The Hub's answer for the chosen model."""
        return self._offers.get(self.chosen)

    @property
    def problem(self) -> str:
        """The last error for the chosen model."""
        return self._problems.get(self.chosen, "")

    @property
    def fetching(self) -> str:
        """The name of the model being downloaded; empty if there is none."""
        return self._fetched if self.job.is_running else ""

    @property
    def fraction(self) -> float | None:
        """Share of the download that is done."""
        return self.job.fraction

    @property
    def progress(self) -> str:
        """Progress of the download, in words."""
        if self._is_stopping:
            return "Stopping…"
        news = self.job.news
        return "Beginning…" if news is None else progress_words(news.step)

    @property
    def step(self) -> Step | None:
        """Current or possible action for the chosen model; None without one."""
        row = self.row
        if row is None:
            return None
        if row.is_here:
            return "open"
        if self.fetching == self.chosen:
            return "fetching"
        if self.chosen in self._asked.values():
            return "asking"
        if self.offer is None:
            return "ask"
        return "busy" if self.fetching else "download"

    # Intents

    def show(self, name: str = "") -> None:
        """List the models, with one of them chosen, on the shelf or not."""
        if name:
            self.wanted, self.chosen = name, name
            self.changed.rows.emit()
            self.changed.chosen.emit()
        self._requests.send(ShowShelf())

    def look_for(self, words: str) -> None:
        """List the matches; the chosen model stays chosen while it is listed."""
        if words != self.wanted:
            self.wanted = words
            self.changed.rows.emit()
            self._keep_chosen()

    def choose(self, name: str) -> None:
        """Choose one model."""
        if name != self.chosen:
            self.chosen = name
            self.changed.chosen.emit()

    def ask(self) -> None:
        """Ask the Hub about a download of the chosen model. The only network access needed for this."""
        if self.step == "ask":
            self._asked[self._requests.send(AskModel(name=self.chosen))] = self.chosen
            self._problems.pop(self.chosen, None)
            self.changed.chosen.emit()

    def download(self) -> None:
        """Download the offered files."""
        offer = self.offer
        if offer is not None and self.step == "download":
            self._fetched, self._is_stopping = offer.name, False
            self._problems.pop(self.chosen, None)
            self.job.start(FetchModel(offer=offer))
            self.changed.progress.emit()
            self.changed.chosen.emit()

    def pause(self) -> None:
        """End the download; the part received is kept."""
        self._stop(self.fetching, keeps=True)

    def cancel(self) -> None:
        """End the download, even a paused one, and remove the part received."""
        row = self.row
        if self.fetching:
            self._stop(self.fetching, keeps=False)
        elif row is not None and row.place == "partial":
            self._stop(row.entry.name, keeps=False)

    # Replies

    def handle(self, reply: object) -> None:
        """Handle a reply of the download thread."""
        match reply:
            case ShelfShown():
                self._rows, self.host, self.is_listed = reply.rows, reply.host, True
                self.changed.rows.emit()
                self._keep_chosen()
            case ModelOffered() if self._asked.pop(reply.number, ""):
                self._offers[reply.offer.name] = reply.offer
                self.changed.chosen.emit()
            case FetchNews() if self.job.take(reply):
                self.changed.progress.emit()
            case FetchEnded():
                self._on_ended(reply)
            case Failed():
                self._on_failed(reply)
            case _:
                pass

    def _on_ended(self, reply: FetchEnded) -> None:
        self.job.take(reply)
        self._is_stopping = False
        self._offers.pop(reply.name, None)
        if reply.offer is not None:
            self._offers[reply.name] = reply.offer
        self.changed.progress.emit()
        self.show()

    def _on_failed(self, failed: Failed) -> None:
        """Keep the message with its model; a fault of the program concerns the last request."""
        is_fault = failed.number == 0
        name = self._asked.pop(failed.number, self.chosen)
        if is_fault:
            self._asked.clear()
        if self.job.owns(failed) or (is_fault and self.job.is_running):
            name = self._fetched
            self.job.give_up()
        self._is_stopping = False
        self._problems[name] = failed.message
        self.changed.progress.emit()
        self.changed.chosen.emit()

    def _stop(self, name: str, *, keeps: bool) -> None:
        if name and not self._is_stopping:
            self._is_stopping = True
            self._requests.send(StopFetching(name=name, keeps=keeps))
            self.changed.progress.emit()
            self.changed.chosen.emit()

    def _keep_chosen(self) -> None:
        names = [row.entry.name for row in self.rows]
        if self.chosen not in names:
            self.chosen = names[0] if names else ""
        self.changed.chosen.emit()


def place_words(row: ShelfRow) -> str:
    """Location of a model, in a word or two."""
    match row.place:
        case "package":
            return "Installed"
        case "cache":
            return "On this computer"
        case "partial":
            return f"Begun, {bytes_text(row.n_bytes)}"
        case "away":
            return ""


def facts_words(row: ShelfRow, offer: ModelOffer | None) -> str:
    """Facts about a model in one line: kind, parameters, licence, bytes."""
    entry = row.entry
    return " · ".join(filter(None, _facts(entry, row, offer)))


def _facts(entry: ShelfEntry, row: ShelfRow, offer: ModelOffer | None) -> Iterator[str]:
    yield entry.name if entry.name != entry.title else ""
    yield entry.kind
    yield f"{entry.n_parameters / 1e6:,.0f} million parameters" if entry.n_parameters else ""
    licence = licence_words(entry, offer)
    yield f"licence {licence}" if licence else ""
    if row.is_here:
        yield f"{row.n_bytes:,} bytes"


def licence_words(entry: ShelfEntry, offer: ModelOffer | None) -> str:
    """The licence from the Hub, in the shelf's spelling if it is the same; empty for none."""
    if offer is None or offer.licence.casefold() == entry.licence.casefold():
        return entry.licence
    return offer.licence


def _searched(row: ShelfRow) -> str:
    entry = row.entry
    return f"{entry.title} {entry.name} {entry.kind} {entry.look_for} {entry.licence}".casefold()

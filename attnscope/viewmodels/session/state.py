"""The open model, the text, the gates and the worker's results for them.

Widgets read the attributes (never write them), call the intents and connect to what `changed`.
"""

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType

from psygnal import Signal, SignalGroup

from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMeasures
from attnscope.records.messages import (
    OPEN_MODEL,
    Failed,
    HeadsShown,
    ModelLoaded,
    ModelSaved,
    OpenText,
    Progress,
    Ready,
    SaveModel,
    TextOpened,
    Traced,
    TraceText,
)
from attnscope.records.models import ModelInfo, Sample
from attnscope.records.outputs import Comparison, OutputWritten
from attnscope.records.requests import Reply
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, Stack, check_heads
from attnscope.records.tiles import GridRefined
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect, HeadMaps, aspect_words, with_grid
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.changes import (
    DEFAULT_COMPARING,
    Change,
    Comparing,
    HeadChanges,
    Histories,
    History,
    Setting,
    fitting,
    joined_selection,
    label_of_heads,
    mask_in,
    possible,
    setting_of,
)
from attnscope.viewmodels.session.head_measures import describe_head, first_choice
from attnscope.viewmodels.session.opening import Notice, Notices, Opening, SampleKept
from attnscope.viewmodels.session.typed_text import (
    NOTHING_TYPED,
    TypedText,
    clean_typed,
    is_foreign,
    is_written_over,
    named_text,
)

# The trace that a session waits for: asking, how far it is, giving it up.


STOPPED = "Tracing was stopped: the maps still show the previous trace."
STOPPED_AT = "Tracing was stopped: {}."


class Tracing:
    """Requests traces of the session's choices, and knows whether the maps are up to date."""

    is_stale: bool = False
    """Whether the maps are those of an older text or setting, or not yet all there."""
    is_growing: bool = False
    """Whether the maps that are there are of the newest text, though not all are known."""
    progress: Progress | None = None
    number: int = 0
    """Of the trace that is awaited, or shown; 0: none."""
    _is_wanted_again: bool = False

    def __init__(self, session: "Session", requests: Requests) -> None:
        self._session, self._requests = session, requests

    @property
    def is_waiting(self) -> bool:
        return self.is_stale and self.number != 0

    @property
    def settled(self) -> Traced | None:
        """The trace of the current text and settings; None while another is pending, and without a text."""
        return None if self.is_stale else self._session.traced_text

    @property
    def is_writing(self) -> bool:
        """Whether the maps are there and the generated text is still to come."""
        traced = self._session.traced
        return traced is not None and traced.comparison.is_writing

    def ask(self, *, is_drag: bool = False) -> None:
        """Request a trace. In a drag one is pending at a time, so that pictures follow the mouse."""
        session = self._session
        if session.model is None or not session.text.strip():
            self.number, self.is_stale, self._is_wanted_again = 0, False, False
            session.notices.drop("TraceText")
            session.changed.traced.emit()
            return
        self._is_wanted_again = is_drag and self.is_waiting
        if self._is_wanted_again:
            return
        self.is_stale, self.is_growing, self.progress = True, False, None
        self.number, setting = self._requests.next(), session.setting
        request = TraceText(
            number=self.number,
            text=setting.text,
            target=setting.target,
            gates=setting.gates,
            heads=session.maps.wanted,
            interventions=setting.interventions,
            past_trained=session.texts.is_past_trained,
        )
        # Before the request goes: what the window does after it waits for the worker, which holds the
        # interpreter by then for up to 5 ms.
        session.changed.stale.emit()
        self._requests.post(request)

    def show(self, traced: Traced) -> None:
        """Show a trace: the requested one, or one made for another part of the window until that comes."""
        session = self._session
        session.traced = traced
        self.is_stale = self.is_growing = not traced.is_whole
        session.maps.take_all(traced.maps)
        if not session.selection:
            session.selection = tuple(filter(None, (session.first_choice(None),)))
            session.changed.selection.emit()
        session.notices.drop("TraceText")
        session.changed.traced.emit()
        session.head_changes.leave_out_unfit_mask(traced)
        session.maps.fetch()
        if self._is_wanted_again:
            self.ask()

    def hear(self, progress: Progress) -> None:
        """Handle progress of the trace."""
        if progress.number == self.number:
            self.progress = progress
            self._session.changed.stale.emit()

    def fail(self, number: int) -> bool:
        """The pending trace failed; False if it was another. The old pictures stay, dimmed."""
        if number != self.number:
            return False
        self.number = 0
        self._session.changed.traced.emit()
        return True

    def give_up(self) -> int:
        """Stop waiting for the trace; returns the number of the request to cancel.

        The pictures of the trace before stay, dimmed.
        """
        number, self.number, self.progress = self.number, 0, None
        self._session.changed.stale.emit()
        part = self._session.traced if self.is_growing else None
        said = STOPPED_AT.format(part.part_words) if part is not None else STOPPED
        self._session.notices.say(said, action="trace-again", about="TraceText")
        return number

    def again(self) -> None:
        """Request the trace that was cancelled, or failed, again."""
        if self.is_stale and not self.is_waiting:
            self.ask()


# What the person gives the model to read: typed, of a file, or a sample.


_N_NAMES = 8


class Texts:
    """Changes the texts of a session, each as a step of its history.

    `names` are those of texts that came from files, `edges` is what the worker read of the file that was last
    taken for an edge list.
    """

    typed: TypedText = NOTHING_TYPED
    names: Mapping[str, str] = MappingProxyType({})
    is_past_trained: bool = False
    edges: TextOpened | None = None
    file_number: int = 0
    """Of the request for the file that was asked for last."""
    _edges_number: int = 0

    def __init__(self, session: "Session", requests: Requests, samples: SampleKept) -> None:
        self._session, self._requests, self.samples = session, requests, samples

    def set_text(self, raw: str, *, is_more: bool = False) -> None:
        """Set another text; traced at once. A sentence typed in one go is one step for undo, another one
        written over it the next.

        `is_more`: see `clean_typed`.
        """
        typed, session = clean_typed(raw, is_more=is_more), self._session
        if typed != self.typed:
            self.samples.to_come, self.typed = None, typed
            kept = self.samples.target_after(session.model, session.text, session.target)
            self._read(named_text(typed.text), typed.text, kept)

    def set_target(self, raw: str | None) -> None:
        """Set the text for the decoder; if empty or None, the model generates its own."""
        target = clean_typed(raw).text if raw and raw.strip() else None
        self.samples.to_come = None
        if target != self._session.target:
            self._read(named_text(target or "its own", "target"), self._session.text, target)

    def choose_sample(self, sample: Sample) -> None:
        """Choose a sample sentence, and its target if it has one."""
        self._read_alone(named_text(sample.text, "sample"), sample.text, self.target_of(sample))
        self.samples.take(sample)

    def target_of(self, sample: Sample) -> str | None:
        """The target of a sample, for a model that reads one."""
        model = self._session.model
        return sample.target if model and model.takes_target else None

    def open_file(self, path: str) -> None:
        """Open the text of a file, once the worker has read it."""
        self.file_number = self._requests.send(OpenText(path=path))

    def read_edges(self, path: str, tokens: tuple[Token, ...]) -> None:
        """Read a file as an edge list of these tokens."""
        self._edges_number = self._requests.send(OpenText(path=path, tokens=tokens))

    def read_past(self, is_past_trained: bool) -> None:
        """Read long texts beyond the model's trained length, or cut them there."""
        if is_past_trained != self.is_past_trained:
            self.is_past_trained = is_past_trained
            self._session.changed.text.emit()
            self._session.tracing.ask()

    def handle(self, reply: TextOpened) -> None:
        """Take a file that was read."""
        if reply.number == self.file_number:
            self._take_file(reply)
        elif reply.number == self._edges_number:
            self.edges = reply
            self._session.changed.edges.emit()

    def _take_file(self, file: TextOpened) -> None:
        self.typed = TypedText(text=file.text, n_cut=file.n_cut, n_replaced=file.n_replaced)
        kept = [*self.names.items()][1 - _N_NAMES :]
        self.names = MappingProxyType({**dict(kept), file.text: file.name})
        self.samples.take(None)
        self._read_alone(named_text(file.name, "file"), file.text, None)

    def _read_alone(self, label: str, text: str, target: str | None) -> None:
        """Set another text; no step if it is the same apart from surrounding typing."""
        self._session.history.close_group()
        self._read(label, text, target)
        self._session.history.close_group()

    def _read(self, label: str, text: str, target: str | None) -> None:
        """Set another text; changes that name its positions go with the old one."""
        session = self._session
        was, now = (session.text, text) if text != session.text else (session.target or "", target or "")
        if abs(len(now) - len(was)) != 1 and is_written_over(was, now):  # one letter more or less is typed
            session.history.close_group()
        before = session.interventions
        kept = fitting(before, session.sites, is_same_text=False)
        after = replace(session.setting, text=text, target=target, interventions=kept)
        session.change(label, after, group="text")
        if mask_in(before) is not None and mask_in(session.interventions) is None:
            session.notices.say(
                "The mask was drawn for the previous text; undo restores both.", action="undo"
            )


class SessionChanges(SignalGroup):
    """Signals of Session."""

    ready = Signal()
    model = Signal()
    busy = Signal()
    notice = Signal()
    text = Signal()
    gates = Signal()
    interventions = Signal()
    selection = Signal()
    aspect = Signal()
    compared = Signal()
    history = Signal()
    traced = Signal()
    stale = Signal()
    heads = Signal()
    """The full maps of the selected heads, where they came after their trace or are shown in another way."""
    grids = Signal()
    """Better thumbnails of the same trace."""
    output = Signal()
    """The generated text."""
    roles = Signal()
    edges = Signal()


class Session:
    """The open model and text, the view and their history; accepts replies and drops outdated ones.

    What is another thing has an object of its own: `opening` a model, `texts` to read, `head_changes`,
    `tracing`, the `maps` of heads, `notices` to the user.
    """

    is_ready: bool = False
    devices: tuple[str, ...] = ()
    demo_models: tuple[str, ...] = ()
    model: ModelInfo | None = None
    text: str = ""
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    selection: tuple[HeadRef, ...] = ()
    aspect: Aspect = PLAIN
    compared: Comparing = DEFAULT_COMPARING
    traced: Traced | None = None
    roles: Mapping[HeadRef, str] = MappingProxyType({})

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.changed = SessionChanges()
        self.notices = Notices(self.changed.notice)
        samples = SampleKept()
        self.opening = Opening(requests, self.notices, samples, self._take_model, self.changed.busy)
        self.texts = Texts(self, requests, samples)
        self.head_changes = HeadChanges(self)
        self.tracing = Tracing(self, requests)
        self.maps = HeadMaps(self, requests)
        self._histories, self.history = Histories(), History()
        self._last_in_stack: dict[Stack, HeadRef] = {}
        self._save_number = 0

    @property
    def primary(self) -> HeadRef | None:
        """The head shown large: the one selected last."""
        return self.selection[-1] if self.selection else None

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the open model; none before the first is open."""
        return self.model.sites if self.model else ()

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of the open model, in order."""
        return tuple(dict.fromkeys(map(attrgetter("stack"), self.model.sites))) if self.model else ()

    @property
    def stack(self) -> Stack | None:
        """The stack that is shown: the selected head's."""
        return self.primary.stack if self.primary else next(iter(self.stacks), None)

    @property
    def traced_text(self) -> Traced | None:
        """The newest trace, as long as there is a text."""
        return self.traced if self.text.strip() else None

    @property
    def measures(self) -> tuple[HeadMeasures, ...]:
        """The measures of every head on the traced text."""
        return self.traced.measures if self.traced else ()

    def line_about(self, head: HeadRef) -> str:
        """One line about a head: its role first if heads were measured, then its behaviour here."""
        here = describe_head(self.traced, self.sites, head) if self.text.strip() else ""
        return " · ".join(filter(None, (self.roles.get(head, ""), here)))

    def know_roles(self, roles: Mapping[HeadRef, str]) -> None:
        """Set the measured roles of heads of the open model, in a word or two each."""
        if roles != self.roles:
            self.roles = MappingProxyType(dict(roles))
            self.changed.roles.emit()

    def save_model(self, folder: str) -> None:
        """Write the open model to a folder."""
        if self.model:
            self._save_number = self._requests.send(SaveModel(folder=folder))

    def select_heads(self, heads: tuple[HeadRef, ...], additive: bool = False) -> None:
        """Select heads of one stack; additive adds them, or removes those already selected."""
        check_heads(heads, self.sites)
        if not heads:
            return
        selection = (
            joined_selection(self.selection, heads) if additive and self.stack == heads[0].stack else heads
        )
        self.change(
            f"select {label_of_heads(selection)}", replace(self.setting, selection=selection), group="select"
        )

    def select_stack(self, stack: Stack) -> None:
        """Show another stack, with the head selected last in it."""
        if stack in self.stacks and stack != self.stack:
            found = self._last_in_stack.get(stack) or self.first_choice(stack)
            self.select_heads((found,) if found else ())

    def set_aspect(self, aspect: Aspect) -> None:
        """Show the maps under another aspect."""
        self.change(aspect_words(aspect), replace(self.setting, aspect=aspect))

    def undo(self) -> None:
        """Undo the last change."""
        self._apply(self.history.undo())

    def redo(self) -> None:
        """Redo the last undone change."""
        self._apply(self.history.redo())

    def go_to(self, n_steps: int) -> None:
        """Go back or forward in the history until `n_steps` of its steps are done."""
        self._apply(self.history.go_to(n_steps))

    def restore(self, setting: Setting, label: str) -> None:
        """Set a whole setting, as one step, together with the opening of its model before it."""
        self.texts.samples.take(None)
        selection = setting.selection or self.selection
        self.change(label, replace(setting, selection=selection), group="open")
        self.history.close_group()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        match reply:
            case Ready():
                self.is_ready, self.devices, self.demo_models = True, reply.devices, reply.demo_models
                self.changed.ready.emit()
                if reply.note:
                    self.notices.say(reply.note)
            case ModelLoaded():
                self.opening.handle(reply)
            case Traced() if reply.number == self.tracing.number and reply.model == OPEN_MODEL:
                self.tracing.show(reply)
            case OutputWritten() if self.traced and reply.number == self.traced.number:
                self._take_output(self.traced, reply.comparison)
            case HeadsShown():
                self.maps.take(reply, self.traced)
            case ModelSaved() if reply.number == self._save_number:
                self.notices.say(f"The model is saved in {reply.folder}.")
            case TextOpened():
                self.texts.handle(reply)
            case Progress() if reply.number == self.opening.number:
                self.opening.handle(reply)
            case GridRefined() if self.traced and self.traced.number == reply.trace:
                self.traced = with_grid(self.traced, reply.grid)
                self.changed.grids.emit()
            case Progress():
                self.tracing.hear(reply)
            case Failed():
                self._take_failure(reply)
            case _ if isinstance(reply, Reply):
                pass  # too late, or for another view
            case _:
                raise TypeError(f"unknown reply {type(reply).__name__}")

    def _take_model(self, info: ModelInfo) -> None:
        if self.model:
            self._histories.leave(self.model, self.setting)
        if self.model and self.model.reads != info.reads:  # a picture's path is no sentence
            self.text, self.target = "", None
        samples = self.texts.samples
        is_own = info.reads == "text" and not samples.is_text(self.model, self.text, self.target)
        has_own_sample = bool(info.samples) and samples.to_come is None
        is_left = is_own and has_own_sample and is_foreign(self.text, info.words[0])
        own_text, own_target = self.text, self.target
        kept = samples.target_after(self.model, self.text, self.target)
        self.model, self.traced = info, None
        self.gates, self.interventions, self.selection = info.gates, (), ()
        self.maps.take_all(())
        self.head_changes.forget()
        self._last_in_stack.clear()
        sample = samples.to_come or next(iter(() if is_own and not is_left else info.samples), None)
        samples.take(sample)
        self.text = sample.text if sample else self.text
        self.target = (self.texts.target_of(sample) if sample else kept) if info.takes_target else None
        self.texts.typed = clean_typed(self.text)
        self.history = self._histories.of(info)
        before = self._histories.left(info, self.setting)
        if is_left:  # it can be had back
            before = replace(before, text=own_text, target=own_target if info.takes_target else None)
        self.history.reopen(f"open {info.name}", before, self.setting)
        self.selection = before.selection if samples.head_to_come is None else ()
        self.changed.model.emit()
        self.changed.busy.emit()
        self.changed.gates.emit()
        self.changed.selection.emit()
        self.changed.history.emit()
        self.changed.traced.emit()
        self.changed.text.emit()
        self.tracing.ask()
        if is_left:
            few = f"{info.name} knows {len(info.words[0]):,} words, few of them in your text"
            self.notices.say(f"{few}: it opens on a sample. Undo brings your text back.")
        elif info.note:
            self.notices.say(info.note)

    def _take_output(self, traced: Traced, comparison: Comparison) -> None:
        """Accept the generated text for the current trace."""
        self.traced = replace(traced, comparison=comparison)
        self.changed.output.emit()

    def _take_failure(self, reply: Failed) -> None:
        awaited = (0, self.maps.number, self._save_number, self.texts.file_number)
        if reply.number == self.opening.number:
            self.opening.give_up()
        elif self.traced and self.traced.is_whole and reply.number == self.traced.number:
            self._take_output(self.traced, replace(self.traced.comparison, is_writing=False))
        elif not self.tracing.fail(reply.number) and reply.number not in awaited:
            return
        self.notices.show(Notice(message=reply.message, request=reply.request, crash_log=reply.crash_log))

    @property
    def setting(self) -> Setting:
        """The current state that undo restores."""
        return setting_of(self)

    def change(self, label: str, after: Setting, *, group: str = "", is_drag: bool = False) -> None:
        """Set a setting as one step; consecutive steps of one `group` are merged."""
        before, after = self.setting, possible(self, after)
        if after != before:
            self.history.record(Change(label=label, before=before, after=after, group=group))
            self._apply(after, is_drag=is_drag)

    def _apply(self, setting: Setting | None, *, is_drag: bool = False) -> None:
        """Set a setting; any changes that need another trace request one, once."""
        if setting is None:
            return
        before = self.setting
        self.gates, self.selection, self.aspect = setting.gates, setting.selection, setting.aspect
        self.text, self.target = setting.text, setting.target
        self.interventions, self.compared = setting.interventions, setting.compared
        is_read = (before.text, before.target) != (setting.text, setting.target)
        if self.primary:
            self._last_in_stack[self.primary.stack] = self.primary
        for name in ("selection", "gates", "interventions", "aspect", "compared"):
            if getattr(before, name) != getattr(setting, name):
                self.changed[name].emit()
        if is_read:
            if self.texts.typed.text != self.text:
                self.texts.typed = clean_typed(self.text)
            self.changed.text.emit()
        if before.aspect != setting.aspect:
            self.changed.heads.emit()
        self.changed.history.emit()
        if is_read or (before.gates, before.interventions) != (setting.gates, setting.interventions):
            self.tracing.ask(is_drag=is_drag)
        self.maps.fetch()

    def first_choice(self, stack: Stack | None) -> HeadRef | None:
        """The requested head, or the most striking one, of a stack or of the last."""
        asked, sites = self.texts.samples.head_to_come, self.sites
        if asked is not None and stack is None and any(asked in site.heads for site in sites):
            return asked
        guided = self.model.guided if self.model else None
        if guided is not None and stack in (None, guided.stack):
            return guided
        of_latents: Stack | None = (
            "read-in" if "latents" in self.stacks else None
        )  # what they read tells most
        wanted = stack or of_latents or next(reversed(self.stacks), None)
        return first_choice(wanted, self.traced, sites)

"""The open model, the text, the gates and what the worker says about them.

Widgets read the attributes (never write them), call the intents and connect to what `changed`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from psygnal import Signal, SignalGroup

from attnscope.counting import plural
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, HeadMeasures, SiteGrid
from attnscope.records.messages import (
    OPEN_MODEL,
    Failed,
    HeadsShown,
    LoadModel,
    ModelLoaded,
    ModelSaved,
    Progress,
    Ready,
    SaveModel,
    ShowHeads,
    Traced,
    TraceText,
)
from attnscope.records.models import ModelInfo, Sample
from attnscope.records.outputs import Comparison, OutputWritten
from attnscope.records.requests import Reply
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack, check_heads
from attnscope.records.texts import OpenText, TextOpened
from attnscope.records.tiles import GridRefined
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect, aspect_words
from attnscope.viewmodels.maps.shown_maps import ShownMaps, distinct, heads_to_blend, sides_of_site, with_grid
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.comparing import DEFAULT_COMPARING, Comparing
from attnscope.viewmodels.session.gating import HeadChanges, joined_selection, label_of_heads
from attnscope.viewmodels.session.head_measures import describe_head, first_choice
from attnscope.viewmodels.session.history import Change, Histories, History, Setting, setting_of
from attnscope.viewmodels.session.intervening import fitting, mask_in, with_mask
from attnscope.viewmodels.session.notices import OPENING, Busy, Notice, short_name
from attnscope.viewmodels.session.recorded import possible
from attnscope.viewmodels.session.typed_text import TypedText, clean_typed, is_written_over, named_text

# What a session has asked of the worker: each kind of request with the number of the newest one.


class Asking:
    """Posts requests and remembers their numbers; 0 means that nothing of the kind is awaited."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.load_number = self.save_number = self.text_number = self.edges_number = 0
        self.trace_number = self.heads_number = 0

    def load(self, source: str, device: str) -> None:
        """Open a model."""
        self.load_number = self._requests.send(LoadModel(source=source, device=device))

    def save(self, folder: str) -> None:
        """Write the open model to a folder."""
        self.save_number = self._requests.send(SaveModel(folder=folder))

    def read_edges(self, path: str, tokens: tuple[Token, ...]) -> None:
        """Read a file as an edge list of these tokens."""
        self.edges_number = self._requests.send(OpenText(path=path, tokens=tokens))

    def open_text(self, path: str) -> None:
        """Read a text file."""
        self.text_number = self._requests.send(OpenText(path=path))

    def trace(
        self, setting: Setting, heads: tuple[HeadRef, ...], *, past_trained: bool, tell: Callable[[], None]
    ) -> None:
        """Trace the text of a setting with its gates and interventions; show `heads` in full.

        `tell` is called before the request goes: what the window does after it waits for the worker, which
        holds the interpreter by then for up to 5 ms.
        """
        self.trace_number = self._requests.next()
        request = TraceText(
            number=self.trace_number,
            text=setting.text,
            target=setting.target,
            gates=setting.gates,
            heads=heads,
            interventions=setting.interventions,
            past_trained=past_trained,
        )
        tell()
        self._requests.post(request)

    def show_heads(self, heads: tuple[HeadRef, ...], model: str, trace: int) -> None:
        """Show heads of the trace of `model` that the request `trace` made in full."""
        self.heads_number = self._requests.send(ShowHeads(heads=heads, model=model, trace=trace))

    def is_awaited(self, number: int) -> bool:
        """Whether a failure of this request is the session's business; 0 is of no request."""
        return number in (0, self.heads_number, self.save_number, self.text_number)


# The trace a session waits for: whether there is one, giving it up, asking for it again. No Qt.

STOPPED = "Tracing was stopped: the maps still show the previous trace."
STOPPED_AT = "Tracing was stopped: {}."


class Waiting(Protocol):
    """What is needed of a session."""

    is_stale: bool
    traced: Traced | None

    def tell_person(
        self, message: str, *, is_error: bool = False, action: str = "", about: str = ""
    ) -> None: ...


class Tracing:
    """Belongs to one session; `trace` asks for a trace of what is chosen now."""

    def __init__(
        self,
        session: Waiting,
        asking: Asking,
        trace: Callable[[], None],
        tell: Callable[[], None],
    ) -> None:
        self._session, self._asking, self._trace, self._tell = session, asking, trace, tell
        self.progress: Progress | None = None
        self.is_growing = False
        """Whether the maps that are there are of the newest text, though not all are known."""

    @property
    def is_waiting(self) -> bool:
        """Whether a trace is on its way."""
        return self._session.is_stale and self._asking.trace_number != 0

    def hear(self, progress: Progress) -> None:
        """The worker says how far the trace is."""
        if progress.number == self._asking.trace_number:
            self.progress = progress
            self._tell()

    def give_up(self) -> int:
        """Wait for the trace no more; the number of the request, which the worker is to give up.

        The pictures of the trace before stay, dimmed.
        """
        number, self._asking.trace_number, self.progress = self._asking.trace_number, 0, None
        self._tell()
        part = self._session.traced if self.is_growing else None
        said = STOPPED_AT.format(part.part_words) if part is not None else STOPPED
        self._session.tell_person(said, action="trace-again", about="TraceText")
        return number

    def again(self) -> None:
        """Ask for the trace that was given up, or failed."""
        if self._session.is_stale and not self.is_waiting:
            self._trace()


# Whether what is shown is a sample's: its text goes with the model, its target goes with the text.


class SampleKept:
    """The samples that count: those of the open model, and the one that was `given` last.

    `to_come` is what the model that is being opened is to begin with.
    """

    def __init__(self) -> None:
        self.given: Sample | None = None
        self.to_come: Sample | None = None

    def take(self, sample: Sample | None) -> None:
        """The program shows this sample, or what a person made; nothing else is to come."""
        self.given, self.to_come = sample, None

    def is_text(self, model: ModelInfo | None, text: str, target: str | None) -> bool:
        """Whether a text is a sample's, read alone or with the sample's own target; or is none at all."""
        return not text.strip() or any(
            s.text == text and target in (None, s.target) for s in self._samples(model)
        )

    def target_after(self, model: ModelInfo | None, text: str, target: str | None) -> str | None:
        """The target that stays when another text comes: one that a person typed, not a sample's."""
        is_sample = any((s.text, s.target) == (text, target) for s in self._samples(model))
        return None if is_sample else target

    def _samples(self, model: ModelInfo | None) -> tuple[Sample, ...]:
        return (*(model.samples if model else ()), *((self.given,) if self.given else ()))


class SessionChanges(SignalGroup):
    """What of a session can change."""

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
    """What the model writes."""
    roles = Signal()
    edges = Signal()


class Session:
    """What is open and shown. Posts requests, takes replies, drops those that come too late."""

    is_ready: bool = False
    devices: tuple[str, ...] = ()
    demo_models: tuple[str, ...] = ()
    model: ModelInfo | None = None
    text: str = ""
    target: str | None = None
    typed: TypedText = TypedText()
    text_names: Mapping[str, str] = MappingProxyType({})
    is_past_trained: bool = False
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    selection: tuple[HeadRef, ...] = ()
    aspect: Aspect = PLAIN
    compared: Comparing = DEFAULT_COMPARING
    traced: Traced | None = None
    maps: tuple[HeadMap, ...] = ()
    roles: Mapping[HeadRef, str] = MappingProxyType({})
    is_stale: bool = False
    busy: Busy | None = None
    notice: Notice | None = None
    edges: TextOpened | None = None

    def __init__(self, requests: Requests) -> None:
        self._asking = Asking(requests)
        self.changed = SessionChanges()
        self.tracing = Tracing(self, self._asking, self._trace, self.changed.stale.emit)
        self._shown = ShownMaps()
        self._histories, self.history = Histories(), History()
        self._head_changes = HeadChanges(self, self.changed.interventions.emit)
        self.samples = SampleKept()
        self._is_trace_wanted = False
        self._last_in_stack: dict[Stack, HeadRef] = {}
        self._open_meanwhile: ModelInfo | None = None

    @property
    def primary(self) -> HeadRef | None:
        """The head shown large: the one selected last."""
        return self.selection[-1] if self.selection else None

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of the open model, in its order."""
        return tuple(dict.fromkeys([site.stack for site in self.model.sites])) if self.model else ()

    @property
    def stack(self) -> Stack | None:
        """The stack that is shown: the selected head's."""
        return self.primary.stack if self.primary else next(iter(self.stacks), None)

    @property
    def measures(self) -> tuple[HeadMeasures, ...]:
        """The measures of every head on the traced text."""
        return self.traced.measures if self.traced else ()

    def line_about(self, head: HeadRef) -> str:
        """What a head does, in one line: its role first where heads were measured, then what it does here."""
        sites = self.model.sites if self.model else ()
        here = describe_head(self.traced, sites, head) if self.text.strip() else ""
        return " · ".join(filter(None, (self.roles.get(head, ""), here)))

    def know_roles(self, roles: Mapping[HeadRef, str]) -> None:
        """Take what heads of the open model were measured to do, in a word or two each."""
        if roles != self.roles:
            self.roles = MappingProxyType(dict(roles))
            self.changed.roles.emit()

    @property
    def head_changes(self) -> HeadChanges:
        """What can be done to heads."""
        return self._head_changes

    @property
    def blended(self) -> tuple[HeadRef, ...]:
        """The heads of the shown map: the one selected last, or those the aspect makes one of."""
        return heads_to_blend(self.aspect, self.selection, self.model, self.traced, self.text)

    def map_of(self, head: HeadRef | None) -> HeadMap | None:
        """The full map of `head` through the aspect, when the worker has sent it."""
        return self._shown.map_of(head, self.maps, self.aspect, self.blended)

    @property
    def shown_maps(self) -> tuple[HeadMap, ...]:
        """The maps of the selected heads through the aspect; a blend of them once."""
        return distinct(map(self.map_of, self.selection))

    def shown_grid(self, grid: SiteGrid) -> SiteGrid:
        """The thumbnails of one site through the aspect."""
        traced = self.traced
        return self._shown.grid(grid, self.aspect, sides_of_site(grid.site, traced)) if traced else grid

    def load_model(self, source: str, device: str = "auto", *, sample: Sample | None = None) -> None:
        """Open a model, on `sample` when given; the present one stays until the new one is complete."""
        self.samples.to_come = sample
        self.busy = Busy(source=source, what=f"Loading {short_name(source)}…")
        self._asking.load(source, device)
        self.drop_notice(*OPENING)
        self.changed.busy.emit()

    def give_up_loading(self) -> int:
        """Wait for no model any more; the number of the request, which the worker is to give up."""
        self.busy = None
        self.changed.busy.emit()
        if self._open_meanwhile is not None:
            self.samples.to_come = None
            self._take_model(self._open_meanwhile)
        return self._asking.load_number

    def save_model(self, folder: str) -> None:
        """Write the open model to a folder."""
        if self.model:
            self._asking.save(folder)

    def set_text(self, raw: str, *, is_more: bool = False) -> None:
        """Look at another text; traced at once. A sentence typed in one go is one step for undo, another one
        written over it the next.

        `is_more`: see `clean_typed`.
        """
        typed = clean_typed(raw, is_more=is_more)
        if typed != self.typed:
            self.samples.to_come, self.typed = None, typed
            kept = self.samples.target_after(self.model, self.text, self.target)
            self._read(named_text(typed.text), typed.text, kept)

    def open_text(self, path: str) -> None:
        """Look at the text of a file, as soon as the worker has read it."""
        self._asking.open_text(path)

    def read_edges(self, path: str, tokens: tuple[Token, ...]) -> None:
        """Read a file as an edge list of these tokens; `edges` is what the worker found."""
        self._asking.read_edges(path, tokens)

    def read_past(self, is_past_trained: bool) -> None:
        """Read long texts on where the model was never trained, or cut them there."""
        if is_past_trained != self.is_past_trained:
            self.is_past_trained = is_past_trained
            self.changed.text.emit()
            self._trace()

    def set_target(self, raw: str | None) -> None:
        """The text for the decoder; empty or None lets the model write its own."""
        target = clean_typed(raw).text if raw and raw.strip() else None
        self.samples.to_come = None
        if target != self.target:
            self._read(named_text(target or "its own", "target"), self.text, target)

    def choose_sample(self, sample: Sample) -> None:
        """Look at a sample sentence, and its target when it has one."""
        self.history.close_group()
        self._read(named_text(sample.text, "sample"), sample.text, self._target_of(sample))
        self.history.close_group()
        self.samples.take(sample)

    def select_heads(self, heads: tuple[HeadRef, ...], additive: bool = False) -> None:
        """Select heads of one stack; additive adds them, or takes away those already selected."""
        check_heads(heads, self.model.sites if self.model else ())
        if not heads:
            return
        selection = (
            joined_selection(self.selection, heads) if additive and self.stack == heads[0].stack else heads
        )
        self.change(
            f"select {label_of_heads(selection)}", replace(self.setting, selection=selection), group="select"
        )

    def select_stack(self, stack: Stack) -> None:
        """Show another stack, with the head last looked at there."""
        if stack in self.stacks and stack != self.stack:
            found = self._last_in_stack.get(stack) or self._first_choice(stack)
            self.select_heads((found,) if found else ())

    def set_aspect(self, aspect: Aspect) -> None:
        """Look at the maps in another way."""
        self.change(aspect_words(aspect), replace(self.setting, aspect=aspect))

    def undo(self) -> None:
        """Take back the last change."""
        self._apply(self.history.undo())

    def redo(self) -> None:
        """Do again what was taken back."""
        self._apply(self.history.redo())

    def go_to(self, n_steps: int) -> None:
        """Go back or forward in the history until `n_steps` of its steps are done."""
        self._apply(self.history.go_to(n_steps))

    def take_grid(self, trace_number: int, grid: SiteGrid) -> None:
        """Better thumbnails of one site have come for the trace that is shown."""
        if self.traced and self.traced.number == trace_number:
            self.traced = with_grid(self.traced, grid)
            self.changed.grids.emit()

    def show_traced(self, traced: Traced) -> None:
        """Show a trace that was made for another part of the window, until a newer one comes."""
        self._take_trace(traced)

    def restore(self, setting: Setting, label: str) -> None:
        """Take over a whole setting, as one step: also with the opening of its model before it."""
        self.samples.take(None)
        selection = setting.selection or self.selection
        self.change(label, replace(setting, selection=selection), group="open")
        self.history.close_group()

    def tell_person(self, message: str, *, is_error: bool = False, action: str = "", about: str = "") -> None:
        """Show a message until it is dismissed or out of date; `about` is the notice's request."""
        self.notice = Notice(message=message, is_error=is_error, action=action, request=about)
        self.changed.notice.emit()

    def dismiss_notice(self) -> None:
        """The person has read the message."""
        self.notice = None
        self.changed.notice.emit()

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        match reply:
            case Ready():
                self.is_ready, self.devices, self.demo_models = True, reply.devices, reply.demo_models
                self.changed.ready.emit()
                if reply.note:
                    self.tell_person(reply.note)
            case ModelLoaded() if reply.number == self._asking.load_number or self.busy is None:
                self._take_model(reply.info)
            case ModelLoaded():
                self._open_meanwhile = reply.info  # another was asked for since; it may not come
            case Traced() if reply.number == self._asking.trace_number and reply.model == OPEN_MODEL:
                self._take_trace(reply)
            case OutputWritten() if self.traced and reply.number == self.traced.number:
                self._take_output(self.traced, reply.comparison)
            case HeadsShown() if reply.number == self._asking.heads_number:
                if self.traced is None or reply.trace not in (0, self.traced.number):
                    return  # of the trace before, from a thread that did not know yet
                kept = tuple(m for m in self.maps if m.head not in {new.head for new in reply.maps})
                self.maps = kept + reply.maps
                self.changed.heads.emit()
            case ModelSaved() if reply.number == self._asking.save_number:
                self.tell_person(f"The model is saved in {reply.folder}.")
            case TextOpened() if reply.number == self._asking.text_number:
                self._take_text(reply)
            case TextOpened() if reply.number == self._asking.edges_number:
                self.edges = reply
                self.changed.edges.emit()
            case Progress() if reply.number == self._asking.load_number and self.busy:
                self.busy = Busy(source=self.busy.source, what=reply.what, fraction=reply.fraction)
                self.changed.busy.emit()
            case GridRefined():
                self.take_grid(reply.trace, reply.grid)
            case Progress():
                self.tracing.hear(reply)
            case Failed():
                self._take_failure(reply)
            case _ if isinstance(reply, Reply):
                pass  # too late, or for another view
            case _:
                raise TypeError(f"unknown reply {type(reply).__name__}")

    def _take_model(self, info: ModelInfo) -> None:
        self.history.left = self.setting
        if self.model and self.model.reads != info.reads:  # a picture's path is no sentence
            self.text, self.target = "", None
        is_sample_wanted = info.reads != "text" or self.samples.is_text(self.model, self.text, self.target)
        kept = self.samples.target_after(self.model, self.text, self.target)
        self.model, self.busy, self._open_meanwhile = info, None, None
        self.gates, self.interventions, self.selection, self.maps, self.traced = info.gates, (), (), (), None
        self._head_changes.forget()
        self._shown.clear()
        self._last_in_stack.clear()
        sample = self.samples.to_come or next(iter(info.samples if is_sample_wanted else ()), None)
        self.samples.take(sample)
        self.text = sample.text if sample else self.text
        self.target = (self._target_of(sample) if sample else kept) if info.takes_target else None
        self.typed, self.history = clean_typed(self.text), self._histories.of(info)
        self.selection = self.history.reopen(f"open {info.name}", self.setting)
        self.changed.model.emit()
        self.changed.busy.emit()
        self.changed.gates.emit()
        self.changed.selection.emit()
        self.changed.history.emit()
        self.changed.traced.emit()
        self.changed.text.emit()
        self._trace()
        if info.note:
            self.tell_person(info.note)

    def _take_trace(self, reply: Traced) -> None:
        self.traced, self.maps, self.is_stale = reply, reply.maps, not reply.is_whole
        self.tracing.is_growing = self.is_stale
        self._shown.clear()
        if not self.selection:
            self.selection = tuple(filter(None, (self._first_choice(None),)))
            self.changed.selection.emit()
        self.drop_notice("TraceText")
        self.changed.traced.emit()
        self._leave_out_unfit_mask(reply)
        self._fetch_heads()
        if self._is_trace_wanted:
            self._trace()

    def _take_output(self, traced: Traced, comparison: Comparison) -> None:
        """What the model writes has come for the trace that is shown."""
        self.traced = replace(traced, comparison=comparison)
        self.changed.output.emit()

    def _take_text(self, reply: TextOpened) -> None:
        self.history.close_group()
        self.typed = TypedText(text=reply.text, n_cut=reply.n_cut, n_replaced=reply.n_replaced)
        kept = [*self.text_names.items()][-7:]
        self.text_names = MappingProxyType({**dict(kept), reply.text: reply.name})
        self.samples.take(None)
        self._read(named_text(reply.name, "file"), reply.text, None)
        self.history.close_group()

    @property
    def is_writing(self) -> bool:
        """Whether the maps are there and what the model writes is still to come."""
        return self.traced is not None and self.traced.comparison.is_writing

    def _take_failure(self, reply: Failed) -> None:
        if reply.number == self._asking.load_number:
            self.give_up_loading()
        elif self.traced and self.traced.is_whole and reply.number == self.traced.number:
            self._take_output(self.traced, replace(self.traced.comparison, is_writing=False))
        elif reply.number == self._asking.trace_number:
            self._asking.trace_number = 0  # the old pictures stay, dimmed
            self.changed.traced.emit()
        elif not self._asking.is_awaited(reply.number):
            return
        self.notice = Notice(message=reply.message, request=reply.request, crash_log=reply.crash_log)
        self.changed.notice.emit()

    def _trace(self, *, is_drag: bool = False) -> None:
        """Ask for a trace. In a drag one is on its way at a time, so that pictures follow the hand."""
        if self.model is None or not self.text.strip():
            self._asking.trace_number, self.is_stale, self._is_trace_wanted = 0, False, False
            self.changed.traced.emit()
            return
        self._is_trace_wanted = is_drag and self.is_stale and self._asking.trace_number != 0
        if self._is_trace_wanted:
            return
        self.is_stale, self.tracing.is_growing, self.tracing.progress = True, False, None
        self._asking.trace(
            self.setting,
            self._wanted(),
            past_trained=self.is_past_trained,
            tell=self.changed.stale.emit,
        )

    def _wanted(self) -> tuple[HeadRef, ...]:
        """The heads to be sent in full: the selected ones, and all of a blend."""
        return tuple(dict.fromkeys((*self.selection, *self.blended)))

    def _fetch_heads(self) -> None:
        shown, wanted = {m.head for m in self.maps}, self._wanted()
        if self.traced and not shown.issuperset(wanted):
            self._asking.show_heads(wanted, self.traced.model, self.traced.number)

    @property
    def setting(self) -> Setting:
        """Everything that undo brings back, as it is now."""
        return setting_of(self)

    def _read(self, label: str, text: str, target: str | None) -> None:
        """Another text: changes that name its places go with the old one."""
        was, now = (self.text, text) if text != self.text else (self.target or "", target or "")
        if abs(len(now) - len(was)) != 1 and is_written_over(was, now):  # one letter more or less is typed
            self.history.close_group()
        before, sites = self.interventions, self.model.sites if self.model else ()
        kept = fitting(before, sites, is_same_text=False)
        self.change(label, replace(self.setting, text=text, target=target, interventions=kept), group="text")
        if mask_in(before) is not None and mask_in(self.interventions) is None:
            self.tell_person("The mask was drawn for the previous text; undo restores both.", action="undo")

    def _leave_out_unfit_mask(self, traced: Traced) -> None:
        """A mask for another number of tokens, of a file for instance, was not used for a trace."""
        mask = mask_in(self.interventions)
        if mask is None or traced.text != self.text or mask.n_tokens == len(traced.source):
            return
        left = with_mask(self.interventions, None)
        self.change("the model's own mask", replace(self.setting, interventions=left))
        self.tell_person(
            f"The mask is drawn for {plural(mask.n_tokens, 'token')}, this text has {len(traced.source)}: "
            "it is left out."
        )

    def _target_of(self, sample: Sample) -> str | None:
        return sample.target if self.model and self.model.takes_target else None

    def change(self, label: str, after: Setting, *, group: str = "", is_drag: bool = False) -> None:
        """Take over a setting as one step; steps of one `group` in a row become one."""
        before, after = self.setting, possible(self, after)
        if after != before:
            self.history.record(Change(label=label, before=before, after=after, group=group))
            self._apply(after, is_drag=is_drag)

    def _apply(self, setting: Setting | None, *, is_drag: bool = False) -> None:
        """Take over a setting; whatever needs another trace asks for one, once."""
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
            self.typed = self.typed if self.typed.text == self.text else clean_typed(self.text)
            self.changed.text.emit()
        if before.aspect != setting.aspect:
            self.changed.heads.emit()
        self.changed.history.emit()
        if is_read or (before.gates, before.interventions) != (setting.gates, setting.interventions):
            self._trace(is_drag=is_drag)
        self._fetch_heads()

    def _first_choice(self, stack: Stack | None) -> HeadRef | None:
        """The head that training guided, or the most striking one, of a stack or of the last."""
        guided = self.model.guided if self.model else None
        if guided is not None and stack in (None, guided.stack):
            return guided
        of_latents: Stack | None = (
            "read-in" if "latents" in self.stacks else None
        )  # what they read tells most
        wanted = stack or of_latents or next(reversed(self.stacks), None)
        return first_choice(wanted, self.traced, self.model.sites if self.model else ())

    def drop_notice(self, *requests: str) -> None:
        """Dismiss the message when it is about one of `requests`."""
        if self.notice and self.notice.request in requests:
            self.dismiss_notice()

"""The open model, the text, the gates and what the worker says about them.

Widgets read the attributes (never write them), call the intents and listen to `subscribe`. What can
change has a name: ready, model, text, traced, heads, gates, selection, history, busy, notice.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attnscope.records.maps import HeadMap, HeadMeasures
from attnscope.records.messages import (
    OPEN_MODEL,
    Failed,
    HeadsShown,
    LoadModel,
    ModelLoaded,
    ModelSaved,
    PositionsShown,
    Progress,
    Ready,
    Reply,
    Request,
    RunOpened,
    SaveModel,
    ShowHeads,
    Traced,
    TraceText,
    TrainingNews,
)
from attnscope.records.models import ModelInfo, Sample
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack, check_heads
from attnscope.viewmodels.gating import all_but, inverted, named, toggled
from attnscope.viewmodels.head_measures import striking_head
from attnscope.viewmodels.history import Change, History, Setting
from attnscope.viewmodels.listeners import Listener, Listeners
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.typed_text import TypedText, clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell the person; `request` names what it is about."""

    message: str
    request: str = ""
    is_error: bool = True
    crash_log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A model is being opened: what is happening, and how far it is (0…1, None when unknown)."""

    source: str
    what: str
    fraction: float | None = None


class Session:
    """What is open and shown. Posts requests, takes replies, drops those that come too late."""

    is_ready: bool = False
    devices: tuple[str, ...] = ()
    demo_models: tuple[str, ...] = ()
    model: ModelInfo | None = None
    text: str = ""
    target: str | None = None
    typed: TypedText = TypedText()
    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    traced: Traced | None = None
    maps: tuple[HeadMap, ...] = ()
    is_stale: bool = False
    busy: Busy | None = None
    notice: Notice | None = None

    def __init__(self, post: Callable[[Request], None], numbers: Numbers | None = None) -> None:
        self._post = post
        self._numbers = numbers or Numbers()
        self._listeners = Listeners()
        self._history = History()
        self._load_number = 0
        self._save_number = 0
        self._trace_number = 0
        self._heads_number = 0
        self._is_trace_wanted = False
        self._is_sample_text = self._is_sample_target = False
        self._sample_to_come: Sample | None = None
        self._last_in_stack: dict[Stack, HeadRef] = {}

    # What can be read

    @property
    def primary(self) -> HeadRef | None:
        """The head shown large: the one selected last."""
        return self.selection[-1] if self.selection else None

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of the open model, in its order."""
        return tuple(dict.fromkeys(site.stack for site in self.model.sites)) if self.model else ()

    @property
    def stack(self) -> Stack | None:
        """The stack that is shown: the selected head's."""
        return self.primary.stack if self.primary else next(iter(self.stacks), None)

    @property
    def measures(self) -> tuple[HeadMeasures, ...]:
        """The measures of every head on the traced text."""
        return self.traced.measures if self.traced else ()

    @property
    def undo_label(self) -> str:
        """What undo would take back, or an empty text."""
        return self._history.undo_label

    @property
    def redo_label(self) -> str:
        """What redo would do again, or an empty text."""
        return self._history.redo_label

    def map_of(self, head: HeadRef | None) -> HeadMap | None:
        """The full map of `head` when the worker has sent it."""
        return next((m for m in self.maps if m.head == head), None)

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` the name of what changed; the function given back ends it."""
        return self._listeners.add(callback)

    # Intents: models and text

    def load_model(self, source: str, device: str = "auto", *, sample: Sample | None = None) -> None:
        """Open a model, on `sample` when given; the present one stays until the new one is complete."""
        self._load_number, self._sample_to_come = self._numbers.next(), sample
        self.busy = Busy(source=source, what=f"Loading {_short_name(source)}…")
        self._post(LoadModel(number=self._load_number, source=source, device=device))
        self._drop_notice("LoadModel")
        self._listeners.tell("busy")

    def save_model(self, folder: str) -> None:
        """Write the open model to a folder."""
        if self.model:
            self._save_number = self._numbers.next()
            self._post(SaveModel(number=self._save_number, folder=folder))

    def set_text(self, raw: str) -> None:
        """Look at another text; traced at once."""
        typed = clean_text(raw)
        self._is_sample_text, self._sample_to_come = False, None
        if typed != self.typed:
            self.typed, self.text = typed, typed.text
            self._drop_sample_target()
            self._listeners.tell("text")
            self._trace()

    def set_target(self, raw: str | None) -> None:
        """The text for the decoder; empty or None lets the model write its own."""
        target = clean_text(raw).text if raw and raw.strip() else None
        self._sample_to_come = None
        if target != self.target:
            self.target, self._is_sample_target = target, False
            self._is_sample_text = self._is_sample_text and target is None
            self._listeners.tell("text")
            self._trace()

    def choose_sample(self, sample: Sample) -> None:
        """Look at a sample sentence, and its target when it has one."""
        self.typed = clean_text(sample.text)
        self.text = self.typed.text
        self.target = sample.target if self.model and self.model.takes_target else None
        self._is_sample_text = self._is_sample_target = True
        self._sample_to_come = None
        self._listeners.tell("text")
        self._trace()

    # Intents: heads and gates

    def select_heads(self, heads: tuple[HeadRef, ...], additive: bool = False) -> None:
        """Select heads of one stack; additive adds them, or takes away those already selected."""
        check_heads(heads, self.model.sites if self.model else ())
        if not heads:
            return
        selection = heads
        if additive and self.stack == heads[0].stack:
            kept = tuple(head for head in self.selection if head not in heads)
            added = tuple(head for head in heads if head not in self.selection)
            selection = (kept + added) or self.selection
        self._change(f"select {named(selection)}", selection=selection, group="select")

    def select_stack(self, stack: Stack) -> None:
        """Show another stack, with the head last looked at there."""
        if stack not in self.stacks or stack == self.stack:
            return
        found = self._last_in_stack.get(stack) or self._first_choice(stack)
        if found:
            self.select_heads((found,))

    def toggle_gate(self, head: HeadRef) -> None:
        """Switch one head off, or fully on when it is off."""
        self.toggle_gates((head,))

    def toggle_gates(self, heads: tuple[HeadRef, ...]) -> None:
        """Switch heads off, or fully on when all of them are off."""
        if heads:
            gates = toggled(self.gates, heads)
            verb = "switch off" if gates.value(heads[0]) == 0.0 else "switch on"
            self._change(f"{verb} {named(heads)}", gates=gates)

    def set_gate(self, head: HeadRef, value: float) -> None:
        """Move one gate; moves of one gate in a row are one step for undo until `end_drag`."""
        gates = self.gates.with_value(head, min(max(value, 0.0), 1.0))
        label = f"gate of {named((head,))} to {gates.value(head):.2f}"
        self._change(label, gates=gates, group=f"gate {head}", is_drag=True)

    def end_drag(self) -> None:
        """The gate is let go: the next move is a step of its own."""
        self._history.close_group()

    def prune_all_but(self, heads: tuple[HeadRef, ...]) -> None:
        """Switch off every head of the model except these."""
        if self.model and heads:
            self._change(f"prune all but {named(heads)}", gates=all_but(self.model.sites, heads))

    def invert_gates(self) -> None:
        """Each gate g becomes 1 − g."""
        if self.model:
            self._change("invert gates", gates=inverted(self.gates, self.model.sites))

    def reset_gates(self) -> None:
        """Every head fully on."""
        self._change("reset gates", gates=NO_GATES)

    def undo(self) -> None:
        """Take back the last change of gates or selection."""
        self._apply(self._history.undo())

    def redo(self) -> None:
        """Do again what was taken back."""
        self._apply(self._history.redo())

    def tell_person(self, message: str, *, is_error: bool = False) -> None:
        """Show a message until it is dismissed or out of date."""
        self.notice = Notice(message=message, is_error=is_error)
        self._listeners.tell("notice")

    def dismiss_notice(self) -> None:
        """The person has read the message."""
        self.notice = None
        self._listeners.tell("notice")

    # Replies

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        match reply:
            case Ready():
                self.is_ready, self.devices, self.demo_models = True, reply.devices, reply.demo_models
                self._listeners.tell("ready")
                if reply.note:
                    self.tell_person(reply.note)
            case ModelLoaded() if reply.number == self._load_number:
                self._take_model(reply.info)
            case Traced() if reply.number == self._trace_number and reply.model == OPEN_MODEL:
                self._take_trace(reply)
            case HeadsShown() if reply.number == self._heads_number and reply.model == OPEN_MODEL:
                kept = tuple(m for m in self.maps if m.head not in {new.head for new in reply.maps})
                self.maps = kept + reply.maps
                self._listeners.tell("heads")
            case ModelSaved() if reply.number == self._save_number:
                self.tell_person(f"The model is saved in {reply.folder}.")
            case Progress() if reply.number == self._load_number and self.busy:
                self.busy = Busy(source=self.busy.source, what=reply.what, fraction=reply.fraction)
                self._listeners.tell("busy")
            case Failed():
                self._take_failure(reply)
            case (
                ModelLoaded() | Traced() | HeadsShown() | ModelSaved() | Progress()
                | PositionsShown() | TrainingNews() | RunOpened()
            ):  # fmt: skip
                pass  # too late, or for another view
            case _:
                raise TypeError(f"unknown reply {type(reply).__name__}")

    def _take_model(self, info: ModelInfo) -> None:
        self.model, self.busy = info, None
        self.gates, self.selection, self.maps, self.traced = NO_GATES, (), (), None
        self._last_in_stack.clear()
        self._history.clear()
        self._listeners.tell("model", "busy", "gates", "selection", "history", "traced")
        sample = self._sample_to_come
        if info.samples and (self._is_sample_text or not self.text.strip()):
            sample = sample or info.samples[0]
        if sample:
            self.choose_sample(sample)
        else:
            self._drop_sample_target()
            self.target = self.target if info.takes_target else None
            self._listeners.tell("text")
            self._trace()
        if info.note:
            self.tell_person(info.note)

    def _take_trace(self, reply: Traced) -> None:
        self.traced, self.maps, self.is_stale = reply, reply.maps, False
        if not self.selection:
            found = self._first_choice(None)
            self.selection = (found,) if found else ()
            self._listeners.tell("selection")
        self._drop_notice("TraceText")
        self._listeners.tell("traced", "heads")
        self._show_missing_heads()
        if self._is_trace_wanted:
            self._trace()

    def _take_failure(self, reply: Failed) -> None:
        if reply.number == self._load_number:
            self._load_number, self.busy = 0, None
            self._listeners.tell("busy")
        elif reply.number == self._trace_number:
            self._trace_number = 0
        elif reply.number not in (0, self._heads_number, self._save_number):
            return
        self.notice = Notice(message=reply.message, request=reply.request, crash_log=reply.crash_log)
        self._listeners.tell("notice", "traced")

    def _trace(self, *, is_drag: bool = False) -> None:
        """Ask for a trace. In a drag one is on its way at a time, so that pictures follow the hand."""
        if self.model is None or not self.text.strip():
            self._trace_number, self.is_stale, self._is_trace_wanted = 0, False, False
            self._listeners.tell("traced")
            return
        self._is_trace_wanted = is_drag and self.is_stale and self._trace_number != 0
        if self._is_trace_wanted:
            return
        self._trace_number, self.is_stale = self._numbers.next(), True
        n, text, target = self._trace_number, self.text, self.target
        self._post(TraceText(number=n, text=text, target=target, gates=self.gates, heads=self.selection))
        self._listeners.tell("stale")

    def _show_missing_heads(self) -> None:
        shown = {m.head for m in self.maps}
        if self.traced and not shown.issuperset(self.selection):
            self._heads_number = self._numbers.next()
            self._post(ShowHeads(number=self._heads_number, heads=self.selection))

    def _change(
        self,
        label: str,
        *,
        gates: Gates | None = None,
        selection: tuple[HeadRef, ...] | None = None,
        group: str = "",
        is_drag: bool = False,
    ) -> None:
        before = Setting(gates=self.gates, selection=self.selection)
        after = Setting(
            gates=before.gates if gates is None else gates,
            selection=before.selection if selection is None else selection,
        )
        if after != before:
            self._history.record(Change(label=label, before=before, after=after, group=group))
            self._apply(after, is_drag=is_drag)

    def _apply(self, setting: Setting | None, *, is_drag: bool = False) -> None:
        if setting is None:
            return
        is_gated, is_selected = setting.gates != self.gates, setting.selection != self.selection
        self.gates, self.selection = setting.gates, setting.selection
        if self.primary:
            self._last_in_stack[self.primary.stack] = self.primary
        if is_selected:
            self._listeners.tell("selection")
            self._show_missing_heads()
        if is_gated:
            self._listeners.tell("gates")
            self._trace(is_drag=is_drag)
        self._listeners.tell("history")

    def _first_choice(self, stack: Stack | None) -> HeadRef | None:
        """The most striking head of a stack; of the last stack when none is named."""
        wanted = stack or next(reversed(self.stacks), None)
        grids = self.traced.grids if self.traced else ()
        found = striking_head((m for m in self.measures if m.head.stack == wanted), grids)
        if found is None and self.model:
            found = next((s.heads[0] for s in self.model.sites if s.stack == wanted and s.heads), None)
        return found

    def _drop_sample_target(self) -> None:
        if self._is_sample_target:
            self.target, self._is_sample_target = None, False

    def _drop_notice(self, request: str) -> None:
        if self.notice and self.notice.request == request:
            self.dismiss_notice()


def _short_name(source: str) -> str:
    return source.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or source

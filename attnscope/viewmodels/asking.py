"""The state of the panel *Ask*: the question about the session's text, and its answer.

Hears of the session, and asks, only while somebody looks.
"""

from collections.abc import Mapping
from types import MappingProxyType

from psygnal import Signal, SignalGroup, SignalInstance

from attnscope.errors import UserError
from attnscope.fields import Value, with_values
from attnscope.questions import QUESTIONS, Question
from attnscope.records.charts import Answer, Answered, Ask
from attnscope.records.requests import Reply
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session

NO_TEXT = "Enter a text to ask about."
NO_HEAD = "Select a head to ask about."


class AskChanges(SignalGroup):
    """Signals of AskState."""

    question = Signal()
    """Another question, or another option of it."""
    answer = Signal()
    busy = Signal()


class AskState:
    """One question at a time; each keeps its own options."""

    def __init__(
        self,
        session: Session,
        requests: Requests,
        questions: Mapping[str, Question] = QUESTIONS,
    ) -> None:
        self._session, self.questions = session, questions
        self._query = Query(Answered, requests)
        self.changed = AskChanges()
        self.question = next(iter(questions.values()))
        self._options: dict[str, object] = {}
        self._model = ""

    @property
    def options(self) -> object:
        """Chosen options of the question."""
        return self._options.get(self.question.name, self.question.options)

    @property
    def answer(self) -> Answer | None:
        """The answer to the question, once known."""
        reply = self._query.answer
        return reply.answer if reply is not None and reply.question == self.question.name else None

    @property
    def is_busy(self) -> bool:
        """Whether an answer is on its way."""
        return self._query.is_busy

    @property
    def note(self) -> str:
        """Message for the panel if there is no answer, with the reason."""
        if self._query.error:
            return self._query.error
        if not self._session.text.strip():
            return NO_TEXT
        if self._lacks_head:
            return NO_HEAD
        return self._query.waiting("Working it out…")

    @property
    def kept_run(self) -> str:
        """The bundled run to open instead of a model without the needed part; empty if there is none."""
        model = self._session.model
        is_open = model is not None and model.name == self.question.kept_run
        return self.question.kept_run if self._query.error and not is_open else ""

    def watch(self, is_watched: bool) -> None:
        """Note whether the panel is visible."""
        if is_watched != self._query.is_watched:
            self._query.is_watched = is_watched
            for signal in self._heard:
                signal.connect(self._ask, max_args=0) if is_watched else signal.disconnect(self._ask)
        self._ask()

    def choose(self, name: str, values: Mapping[str, Value] = MappingProxyType({})) -> None:
        """Ask another question, or the same, with some of its options set."""
        question = self.questions.get(name)
        if question is None:
            return
        options = with_values(self._options.get(name, question.options), values)
        if question is self.question and options == self.options:
            return
        if question is not self.question:
            self.question = question
            self._query.forget()
        self._options[name] = options
        self.changed.question.emit()
        self._ask()

    def set_option(self, name: str, value: Value) -> None:
        """Choose another value of an option; an invalid one changes nothing."""
        try:
            options = with_values(self.options, {name: value})
        except UserError:
            return
        if options != self.options:
            self._options[self.question.name] = options
            self.changed.question.emit()
            self._ask()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if self._query.take(reply):
            if isinstance(reply, Answered):
                self._keep_within(reply.answer)
            self.changed.answer.emit()

    def _keep_within(self, answer: Answer) -> None:
        """Clip choices beyond the model or the text: the answer is about the last."""
        over = {name: most for name, most in answer.limits if getattr(self.options, name) > most}
        if over:
            self._options[self.question.name] = with_values(self.options, over)
            self.changed.question.emit()

    @property
    def _heard(self) -> tuple[SignalInstance, ...]:
        told = self._session.changed
        return told.model, told.traced, told.selection

    @property
    def _lacks_head(self) -> bool:
        return self.question.is_of_head and self._session.primary is None

    def _ask(self) -> None:
        """Ask about the last traced text, unless that was done already."""
        session = self._session
        model = session.model.sha256 + session.model.name if session.model is not None else ""
        if model != self._model:
            self._model = model
            self._query.forget()
            self.changed.answer.emit()
        if not (self._query.is_watched and model and session.tracing.settled) or self._lacks_head:
            self.changed.busy.emit()
            return
        head = session.primary if self.question.is_of_head else None
        request = Ask(
            question=self.question.name,
            options=self.options,
            text=session.text,
            target=session.target,
            head=head,
            gates=session.gates,
            interventions=session.interventions,
        )
        self._query.ask((model, request), request)
        self.changed.busy.emit()

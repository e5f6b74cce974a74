"""Shared by all labs: a choice, and the words, charts and maps that follow from it.

A lab is a file of this folder: its choice, a frozen dataclass whose settings are fields
(`attnscope/fields.py`), what follows from a choice, as pure functions in numpy, and a class below `Lab` that
says what the lab is called, what it shows and where that comes from. Must not import Qt or torch.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, get_args

from attnscope.errors import LoadError
from attnscope.fields import fields_of, values_of
from attnscope.records.charts import CellMap, Chart
from attnscope.records.experiments import ExperimentAnswer, OpenModel, Question
from attnscope.schemes import Scheme

LabGroup = Literal["Scores", "Masks", "Positions", "Depth and training", "Attention or recurrence", "Tokens"]
GROUPS: tuple[LabGroup, ...] = get_args(LabGroup)
"""The groups in the order of the list; one without a lab is not shown."""
BLUE, ORANGE, GREEN, PURPLE, OCHRE, SKY, _, OLIVE = range(8)
"""Colours of series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabWords:
    """The words of a lab: its formula, the live numbers in it, and one sentence on what to notice."""

    formula: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    sentence: str


class HasWords(Protocol):
    """The part of every lab's result that holds its words."""

    @property
    def words(self) -> LabWords: ...


C = TypeVar("C")
S = TypeVar("S", bound=HasWords)
Q = TypeVar("Q", bound=Question)


class LabEntry(Scheme):
    """A lab in the list; `name` is its only key, `order` its place within its group."""

    group: ClassVar[LabGroup]
    shows: ClassVar[str] = ""
    """Its content, in one line."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    search: ClassVar[tuple[str, ...]] = ()
    """Further words of lectures that find it."""
    help: ClassVar[str] = ""
    """Its part of the help page, in Markdown."""


class Lab(LabEntry, Generic[C, S]):
    """A lab that is drawn from its choice; any other has a widget of its own.

    Charts and maps are as many whatever is chosen. Heights of the picture's rows against each other are its
    `stretches`, `names_px` the room for names at lines.
    """

    example: C
    """The choice that it opens with."""
    asks: ClassVar[type[Question] | None] = None
    """The question to the worker, with the settings of the choice; its `answer` is the result so far."""
    dragged: ClassVar[tuple[int, ...]] = ()
    """The charts in which something is dragged."""
    other_page: ClassVar[tuple[str, str] | None] = None
    """The words of a button, and the page that it turns to."""
    stretches: ClassVar[tuple[int, ...]] = ()
    names_px: ClassVar[int] = 84
    figure_mm: ClassVar[tuple[float, float]] = (180.0, 130.0)

    @abstractmethod
    def resolve(self, choice: C) -> S:
        """Evaluate a choice."""

    def charts(self, shown: S) -> tuple[Chart, ...]:
        return ()

    def cells(self, shown: S) -> tuple[CellMap, ...]:
        """Maps, drawn before the charts."""
        return ()

    def drag(self, choice: C, x: float, y: float, *, is_start: bool) -> C:
        """The choice after dragging to a position in a chart; `is_start` if it is pressed there."""
        return choice

    def click(self, choice: C, cells: int, i: int, j: int) -> C:
        """The choice after a click on a cell of one of its maps."""
        return choice

    def question(self, choice: C, opened: OpenModel | None) -> Question | None:
        """The question to the worker; `opened` is the open model, None without a window."""
        return None if self.asks is None else asked(self.asks, choice)

    def asks_it(self, question: Question) -> bool:
        return type(question) is self.asks

    def completed(self, choice: C) -> C:
        """The choice completed with what the window measures gradually, for a figure without one."""
        return choice

    def is_example(self, choice: C) -> bool:
        """Whether all settings are as in the example."""
        return values_of(choice) == values_of(self.example)

    def allows(self, choice: C) -> bool:
        """Whether a choice is possible with its controls."""
        return all(field.fits(field.of(choice)) for field in fields_of(choice))


AnyLab = Lab[Any, Any]


def asked(question: type[Q], choice: object) -> Q:
    """A question with the settings of a choice, and defaults for the others."""
    names = (setting.name for setting in fields(question) if hasattr(choice, setting.name))
    return question(**{name: getattr(choice, name) for name in names})


def needs_file(expected: str) -> Callable[[str], Path]:
    """Return the path of an existing file; otherwise raise LoadError with what is expected."""

    def read(file: str) -> Path:
        path = Path(file).expanduser()
        if not path.is_file():
            raise LoadError(
                f"There is no file {path}.", kind="missing", expected=expected, action="Choose another file."
            )
        return path

    return read


def file_stamp(file: str) -> str:
    """Modification time and size of a file; empty without a file, or if it is gone."""
    try:
        stat = Path(file).expanduser().stat() if file else None
    except OSError:
        return ""
    return "" if stat is None else f"{stat.st_mtime_ns} {stat.st_size}"


def claimed(claim: str, answer: ExperimentAnswer) -> str:
    """Display for a lab whose numbers are still being computed, or the error if that failed."""
    if answer.error:
        return answer.error
    done = f" ({answer.n_done:,} of {answer.n_total:,})" if answer.n_total else ""
    return f"{claim} Measured here now{done}…" if answer.is_asked else claim


def said_trained(answer: ExperimentAnswer, n_steps: int) -> str:
    """Training time of each model of an answer, and where it was trained, as the end of a sentence."""
    return f" {n_steps:,} steps each{', in advance' if answer.is_kept else ''}."


def in_advance(answer: ExperimentAnswer) -> str:
    """Sentence that says an answer came with the program; follows other sentences."""
    return " Worked out in advance." if answer.is_kept else ""


def where_trained(answer: ExperimentAnswer) -> str:
    """Where the models of an answer were trained, as a label for the way they were trained."""
    return "trained before: steps" if answer.is_kept else "trained here: steps each"


def measured_before(answer: ExperimentAnswer) -> str:
    """Sentence that says times came with the program and are another computer's; follows other sentences."""
    return " Measured in advance, on another computer." if answer.is_kept else ""

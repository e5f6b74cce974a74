"""The cost of a recipe, in words: the same in the window and on the command line; requested when the user
pauses, with the presets of training.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from psygnal import Signal, SignalGroup

from attnscope.counting import (
    bytes_text,
    count_text,
    duration_text,
    flops_text,
    number_text,
    percent,
    plural,
    rough_text,
)
from attnscope.errors import LoadError
from attnscope.records.messages import Failed
from attnscope.records.plans import (
    LEARNED_FROM,
    BatchCell,
    BatchShown,
    FirstBatch,
    Plan,
    PlanRecipe,
    PresetRow,
    PresetsShown,
    RecipePlanned,
    ShowBatch,
    ShowPresets,
)
from attnscope.records.requests import Reply
from attnscope.settings import known_run_folders
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.training.recipe_text import RecipeDraft, RecipeFile, read_recipe_text

Row = tuple[str, str]


def seconds_text(plan: Plan | None) -> str:
    """Expected training time in words; empty if unknown."""
    return "" if plan is None or plan.seconds is None else f"about {rough_text(plan.seconds[1])}"


def memory_line(plan: Plan) -> str:
    """Memory needed, against the free memory."""
    return f"{bytes_text(plan.memory_bytes)} of memory ({bytes_text(plan.available_bytes)} free)"


def plan_summary(plan: Plan) -> str:
    """One line: parameters, memory, time."""
    parts = (f"{count_text(plan.n_parameters)} parameters", memory_line(plan), seconds_text(plan))
    return " · ".join(filter(None, parts))


def problem_of(plan: Plan) -> str:
    """Anything that does not fit, in words; empty if everything does."""
    problems = []
    if not plan.fits:
        problems.append(
            f"Does not fit: it needs {bytes_text(plan.memory_bytes)} of memory and "
            f"{bytes_text(plan.available_bytes)} are free: {_smaller(plan)}."
        )
    if not plan.fits_disk:
        problems.append(
            f"Its checkpoints need {bytes_text(plan.disk_bytes)} on disk and "
            f"{bytes_text(plan.free_disk_bytes or 0)} are free: make training.save_every larger."
        )
    return " ".join(problems)


def _smaller(plan: Plan) -> str:
    """Advice on what to reduce: the file's settings if that takes most of the memory."""
    if max(plan.memory, key=itemgetter(1))[0] == LEARNED_FROM:
        return "learn from a smaller file, or from a part of it"
    return "make training.batch_size or the model smaller, or set training.checkpointing = true"


def size_rows(plan: Plan) -> tuple[Row, ...]:
    """Parameters by part."""
    learned = () if plan.n_learned is None else (("trainable low-rank changes", f"{plan.n_learned:,}"),)
    parts = tuple((name, f"{n:,}") for name, n in plan.parameters)
    return (*parts, ("all parameters", f"{plan.n_parameters:,}"), *learned)


def memory_rows(plan: Plan) -> tuple[Row, ...]:
    """Memory by part."""
    return (
        *((name, bytes_text(n)) for name, n in plan.memory),
        ("all memory", bytes_text(plan.memory_bytes)),
        (f"free on {plan.device}", bytes_text(plan.available_bytes)),
    )


def work_rows(plan: Plan) -> tuple[Row, ...]:
    """Operations and time."""
    growing = f" when full; a step costs {percent(plan.mean_share)} on average" if plan.mean_share < 1 else ""
    rows = [
        ("a batch", f"{plural(plan.n_sequences, 'text')} of at most {plural(plan.n_tokens, 'token')}"),
        ("tokens a step", f"{plan.tokens_a_step:,.0f}{growing}"),
        ("operations a step", flops_text(plan.flops_a_step)),
        (f"all {plan.n_steps:,} steps", flops_text(plan.flops)),
    ]
    if plan.rates:
        rows.append(("learning rate", rate_words(plan)))
    rows += [
        (name, words)
        for name, words in (("batch size", texts_words(plan)), ("length", tokens_words(plan)))
        if words
    ]
    if plan.seconds is not None and plan.pace is not None:
        low, expected, high = plan.seconds
        least, most = rough_text(low), rough_text(high)
        span = "" if least == most else f" ({least} to {most})"
        rows.append(("time", f"about {rough_text(expected)}{span}"))
        if plan.beside_seconds:
            parts = ", ".join(f"{name} {duration_text(s)}" for name, s in plan.pace.beside if s >= 0.5)
            rows.append(("beside the steps", f"{rough_text(plan.beside_seconds)}{': ' * bool(parts)}{parts}"))
        rows.append(("a second", f"{flops_text(plan.pace.flops_per_s)} operations in {plan.precision}"))
    return tuple(rows)


def rate_words(plan: Plan) -> str:
    """The learning rate over the run: its maximum, and its end; empty if unknown."""
    if not plan.rates:
        return ""
    peak = max(rate for _, rate in plan.rates)
    first = next(step for step, rate in plan.rates if rate == peak)
    last = plan.rates[-1][1]
    whole = number_text(peak, 3)
    whole = whole if first == 1 else f"rises to {whole} at step {first:,}"
    falls = f"falls to {number_text(last, 3)} at step {plan.rates[-1][0]:,}"
    return whole if last == peak else f"{whole}, {falls}"


def texts_words(plan: Plan) -> str:
    """Growth of the batch over a batch-size warm-up; empty if there is none."""
    return _growth(plan.texts, "text")


def tokens_words(plan: Plan) -> str:
    """Growth of the texts over a length warm-up; empty if there is none."""
    return _growth(plan.lengths, "token")


def _growth(points: Sequence[tuple[int, int]], unit: str) -> str:
    if not points:
        return ""
    values = [value for _, value in points]
    first, last = values[0], values[-1]
    if first == last:
        return plural(first, unit)
    step = next(step for step, value in points if value == last)
    is_jump = last > first + 1 and set(values) == {first, last}
    return f"{'jumps' if is_jump else 'grows'} from {first:,} to {plural(last, unit)} at step {step:,}"


def disk_rows(plan: Plan) -> tuple[Row, ...]:
    """Disk space of the run's files."""
    rows = [
        ("a checkpoint", bytes_text(plan.checkpoint_bytes)),
        (f"all {plan.n_checkpoints:,} and the latest states", bytes_text(plan.disk_bytes)),
    ]
    if plan.free_disk_bytes is not None:
        rows.append(("free on the disk", bytes_text(plan.free_disk_bytes)))
    return tuple(rows)


PRESET_COLUMNS = (
    "preset",
    "objective",
    "layers",
    "d_model",
    "d_ff",
    "heads",
    "tokens",
    "pieces",
    "parameters",
    "published",
    "operations a token",
    "memory to train",
    "data",
    "hardware",
)
WORD_COLUMNS = frozenset(PRESET_COLUMNS.index(name) for name in ("preset", "objective", "data", "hardware"))
"""The columns of words, which stand at the left; numbers stand at the right."""


def preset_row_cells(row: PresetRow) -> tuple[str, ...]:
    return (
        row.name,
        row.objective,
        str(row.n_layers),
        f"{row.d_model:,}",
        f"{row.d_ff:,}",
        str(row.n_heads),
        f"{row.n_tokens:,}",
        f"{row.vocab_size:,}",
        f"{row.n_parameters:,}",
        row.published.parameters,
        flops_text(row.flops_a_token),
        bytes_text(row.least_bytes),
        row.published.data,
        row.published.hardware or "–",
    )


def published_words(row: PresetRow) -> str:
    """Source of a preset's published numbers, and why its size differs from the counted one."""
    return " ".join(f"{part}." for part in (row.published.source, row.published.why) if part)


def batch_lines(batch: FirstBatch, width: int = 100) -> tuple[str, ...]:
    """The rows of a batch, each token over its target, in lines of at most `width`."""
    share = batch.n_padding / max(1, batch.n_tokens)
    lines = [
        f"{plural(batch.n_rows, 'text')} and {plural(batch.n_tokens, 'token')} in the first batch, "
        f"{percent(share, 1)} of them padding; {plural(batch.n_predicted, 'prediction')}"
    ]
    for i, row in enumerate(batch.rows, start=1):
        lines += ["", f"text {i}" + (f": {row.note}" if row.note else "")]
        if row.source:
            lines += _under_each_other("source", row.source, width)
        lines += _under_each_other("target" if row.source else "reads", row.cells, width)
    return tuple(lines)


def _under_each_other(name: str, cells: Sequence[BatchCell], width: int) -> list[str]:
    """Tokens in lines; below each, its segments and targets, if there are any."""
    n_padding = sum(cell.is_padding for cell in cells)
    lines: list[str] = []
    under = [f"  {word:<9}" for word in (name, "segment", "predicts")]
    first = len(under[0])

    def written() -> list[str]:
        return [line.rstrip() for line in under if line[first:].strip()]

    for cell in (cell for cell in cells if not cell.is_padding):
        answer = (
            "" if cell.told is None else trimmed_piece(cell.told) + (f" ({cell.note})" if cell.note else "")
        )
        parts = (trimmed_piece(cell.piece), cell.segment, answer)
        room = max(map(len, parts)) + 1
        if len(under[0]) + room > width and len(under[0]) > first:
            lines += written()
            under = [" " * first] * len(under)
        under = [line + part.ljust(room) for line, part in zip(under, parts, strict=True)]
    lines += written()
    return [*lines, f"  {'padding':<9}{n_padding}"] if n_padding else lines


def trimmed_piece(piece: str) -> str:
    """A piece without line breaks and blanks at its ends; one of blanks as ␣."""
    return piece.replace("\n", "↵").replace("\t", "⇥").strip() or "␣" * bool(piece)


# How long recipes that are offered would train here: the Train page's own estimate, asked for one by one.


class RecipeTimes:
    """`plans` are by recipe name, as far as known; `changed`: there is one more."""

    changed = Signal()

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._waiting: list[RecipeFile] = []
        self._number = 0
        self._device = "auto"
        self._folders: tuple[str, ...] = ()
        self.plans: dict[str, Plan] = {}

    def ask(self, recipes: Iterable[RecipeFile], device: str, out: str) -> None:
        """Request estimates of their times, again if known: later runs give a better speed.

        `device` and `out`, the folder of the next run, are those of the Train page.
        """
        self._waiting, self._device, self._folders = list(recipes), device, known_run_folders(out)
        self._ask_next()

    def handle(self, reply: Reply) -> bool:
        """Handle a reply; True if it was for this state."""
        match reply:
            case RecipePlanned() if reply.number == self._number:
                if reply.plan is None or reply.plan.pace is not None:  # else the same with its time follows
                    self._take(reply.plan)
            case Failed() if reply.number and reply.number == self._number:
                self._waiting.clear()
            case _:
                return False
        return True

    def _take(self, plan: Plan | None) -> None:
        name = self._waiting.pop(0).name
        if plan is not None:
            self.plans[name] = plan
            self.changed.emit()
        self._ask_next()

    def _ask_next(self) -> None:
        """One at a time: the worker answers the newest question only."""
        while self._waiting:
            path = Path(self._waiting[0].path)
            try:
                text = read_recipe_text(path)
            except LoadError:
                self._waiting.pop(0)
                continue
            self._number = self._requests.send(
                PlanRecipe(
                    recipe=text,
                    device=self._device,
                    base_folder=str(path.parent),
                    run_folders=self._folders,
                    place="offered",
                )
            )
            return


PAUSE_S = 0.25
"""Length of the required pause in typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The inputs of a plan; without a device no plan is wanted."""

    recipe: str = ""
    out: str = ""
    device: str = ""
    base_folder: str = ""


_NO_WISH = Wish()


class PlanChanges(SignalGroup):
    """Signals of PlanState."""

    plan = Signal()
    presets = Signal()
    batch = Signal()


class PlanState:
    """`times` are those of recipes offered elsewhere, a state of its own."""

    def __init__(
        self,
        requests: Requests,
        recipe: RecipeDraft,
        clock: Callable[[], float],
    ) -> None:
        self._requests = requests
        self._recipe, self._clock = recipe, clock
        self.changed = PlanChanges()
        self.times = RecipeTimes(requests)
        self._plan = Query(RecipePlanned, requests)
        self._presets = Query(PresetsShown, requests)
        self._batch = Query(BatchShown, requests)
        self._plan.is_watched = self._presets.is_watched = self._batch.is_watched = True
        self._asked = self._wanted = _NO_WISH
        self._due_at = 0.0
        self._is_old = False

    @property
    def plan(self) -> Plan | None:
        """Cost of the recipe; None while unknown."""
        return self._plan.answer.plan if self._plan.answer is not None else None

    @property
    def problem(self) -> str:
        """Why there is no plan."""
        return self._plan.answer.problem if self._plan.answer is not None else self._plan.error

    @property
    def presets(self) -> tuple[PresetRow, ...]:
        """The models of the literature, once requested."""
        return self._presets.answer.rows if self._presets.answer is not None else ()

    @property
    def available_bytes(self) -> int:
        """Free memory on the best device."""
        return self._presets.answer.available_bytes if self._presets.answer is not None else 0

    @property
    def batch(self) -> FirstBatch | None:
        """First batch of the recipe; None while unknown."""
        return self._batch.answer.batch if self._batch.answer is not None else None

    @property
    def batch_problem(self) -> str:
        """Why there is no first batch."""
        return self._batch.answer.problem if self._batch.answer is not None else self._batch.error

    @property
    def is_sample_batch(self) -> bool:
        """Whether the batch is of the bundled text."""
        return self._batch.answer is not None and self._batch.answer.is_sample

    @property
    def is_refused(self) -> bool:
        """Whether the current recipe cannot run; `problem` says why."""
        answer = self._plan.answer
        return answer is not None and answer.plan is None and self._asked == self._wanted

    def want(self, wish: Wish) -> None:
        """Note that the recipe, its folder or its device may have changed."""
        if wish == self._wanted:
            return
        self._wanted = wish
        self._due_at = self._clock() + (0.0 if self._asked == _NO_WISH else PAUSE_S)

    def tick(self) -> None:
        """Request when the user has paused; called several times a second while the page is visible."""
        wish = self._wanted
        is_answered = wish == self._asked and not self._is_old
        if wish == _NO_WISH or is_answered or self._clock() < self._due_at:
            return
        self._asked, self._is_old = wish, False
        if not self._recipe.is_ready:
            self._plan.forget()
            self.changed.plan.emit()
            return
        self._plan.renew()
        self._plan.ask(
            wish,
            PlanRecipe(
                recipe=wish.recipe,
                out=wish.out,
                device=wish.device,
                base_folder=wish.base_folder,
                run_folders=known_run_folders(wish.out),
            ),
        )

    def ask_again(self) -> None:
        """Plan once more: the machine's speed and memory may be known better, as after a run."""
        self._is_old = True
        self._due_at = 0.0

    def ask_presets(self) -> None:
        """Request the presets, once."""
        self._presets.ask("all", ShowPresets())

    @property
    def has_asked_batch(self) -> bool:
        """Whether a batch was requested at all."""
        return self._batch.about is not None

    @property
    def is_batch_old(self) -> bool:
        """Whether the recipe has changed since the batch was requested, if it was."""
        return self._batch.about != self._wanted

    def ask_batch(self) -> None:
        """Read the data of the current recipe, for its first batch."""
        wish = self._wanted
        if wish == _NO_WISH or not self._recipe.is_ready:
            return
        self._batch.forget()
        self._batch.ask(wish, ShowBatch(recipe=wish.recipe, base_folder=wish.base_folder))
        self.changed.batch.emit()

    def handle(self, reply: Reply) -> bool:
        """Handle a reply; True if it was for this state."""
        if self.times.handle(reply):
            return True
        if isinstance(reply, RecipePlanned) and self._plan.owns(reply) and self._lacks_time(reply):
            return True  # while one types: the same with its time follows
        for query, changed in (
            (self._plan, self.changed.plan),
            (self._presets, self.changed.presets),
            (self._batch, self.changed.batch),
        ):
            if query.take(reply):
                changed.emit()
                return True
        return False

    def _lacks_time(self, reply: RecipePlanned) -> bool:
        """Whether a plan lacks only its time, which the one shown with the same name has."""
        plan, shown = reply.plan, self.plan
        if plan is None or shown is None or plan.pace is not None:
            return False
        return shown.pace is not None and shown.name == plan.name

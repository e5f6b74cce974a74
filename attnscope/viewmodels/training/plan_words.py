"""What a recipe costs, in words: the same in the window and on the command line."""

from collections.abc import Sequence

from attnscope.counting import bytes_text, count_text, duration_text, flops_text, plural, rough_text
from attnscope.records.plans import BatchCell, FirstBatch, Plan, PresetRow

Row = tuple[str, str]


def seconds_text(plan: Plan | None) -> str:
    """How long training takes, as expected; empty while that is not known."""
    return "" if plan is None or plan.seconds is None else f"about {rough_text(plan.seconds[1])}"


def memory_line(plan: Plan) -> str:
    """Memory against what is free."""
    return f"{bytes_text(plan.memory_bytes)} of memory ({bytes_text(plan.available_bytes)} free)"


def plan_summary(plan: Plan) -> str:
    """One line: parameters, memory, time."""
    parts = (f"{count_text(plan.n_parameters)} parameters", memory_line(plan), seconds_text(plan))
    return " · ".join(filter(None, parts))


def problem_of(plan: Plan) -> str:
    """What does not fit, in words; empty when everything does."""
    problems = []
    if not plan.fits:
        problems.append(
            f"Does not fit: it needs {bytes_text(plan.memory_bytes)} of memory and "
            f"{bytes_text(plan.available_bytes)} are free: make training.batch_size or the model smaller, or "
            "set training.checkpointing = true."
        )
    if not plan.fits_disk:
        problems.append(
            f"Its checkpoints need {bytes_text(plan.disk_bytes)} on disk and "
            f"{bytes_text(plan.free_disk_bytes or 0)} are free: make training.save_every larger."
        )
    return " ".join(problems)


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
    growing = f" when full; a step costs {plan.mean_share:.0%} on average" if plan.mean_share < 1 else ""
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
    """The learning rate over the run: where it is largest, and its end; empty where it is not known."""
    if not plan.rates:
        return ""
    peak = max(rate for _, rate in plan.rates)
    first = next(step for step, rate in plan.rates if rate == peak)
    last = plan.rates[-1][1]
    whole = f"{peak:.3g}" if first == 1 else f"rises to {peak:.3g} at step {first:,}"
    return whole if last == peak else f"{whole}, falls to {last:.3g} at step {plan.rates[-1][0]:,}"


def texts_words(plan: Plan) -> str:
    """How a batch grows over a batch-size warm-up; empty where it does not."""
    return _growth(plan.texts, "text")


def tokens_words(plan: Plan) -> str:
    """How texts grow over a length warm-up; empty where they do not."""
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
    """What the run writes."""
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
    """A preset as the cells of a table."""
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
    """Where the published numbers of a preset are from, and why its size is another than the counted one."""
    return " ".join(f"{part}." for part in (row.published.source, row.published.why) if part)


def batch_lines(batch: FirstBatch, width: int = 100) -> tuple[str, ...]:
    """The rows of a batch, each token over what is to be predicted there, in lines of at most `width`."""
    share = batch.n_padding / max(1, batch.n_tokens)
    lines = [
        f"{plural(batch.n_rows, 'text')} and {plural(batch.n_tokens, 'token')} in the first batch, "
        f"{share:.1%} of them padding; {plural(batch.n_predicted, 'prediction')}"
    ]
    for i, row in enumerate(batch.rows, start=1):
        lines += ["", f"text {i}" + (f": {row.note}" if row.note else "")]
        if row.source:
            lines += _under_each_other("source", row.source, width)
        lines += _under_each_other("target" if row.source else "reads", row.cells, width)
    return tuple(lines)


def _under_each_other(name: str, cells: Sequence[BatchCell], width: int) -> list[str]:
    """Tokens in lines; below each, where there are any, its segments and what is predicted."""
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

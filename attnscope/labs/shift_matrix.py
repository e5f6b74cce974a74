"""A shift of a sinusoidal encoding is one matrix: PE(t + Δ) = A_Δ PE(t) for every t (Vaswani et al. 2017).

    symbol   meaning                                                                 shape
    PE(t)    encoding of position t: pairs sin tθ_i, cos tθ_i with θ_i = base^(−2i/d) [d]
    A_Δ      on its diagonal, for each pair, (cos Δθ_i, sin Δθ_i; −sin Δθ_i, cos Δθ_i) [d, d]
    Â_Δ      the matrix that fits PE(t + Δ) best for half of the t, by least squares   [d, d]
    error    ‖PE(t + Δ) − Â_Δ PE(t)‖ / ‖PE(t + Δ)‖ over the other half                 one number

Section 3.5 states that there is such a matrix; it does not depend on t. Of another encoding a matrix can only
be fitted: one that is to hold for positions that it was not fitted to, a random table does not have.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number
from attnscope.labs.lab import BLUE, GREEN, PURPLE, Lab, LabWords
from attnscope.records.charts import CellMap, Chart, Series

Numbers = NDArray[np.float64]
WIDTHS: tuple[int, ...] = (4, 8, 12, 16)
BASES: tuple[float, ...] = (10.0, 100.0, 1000.0, 10000.0)
N_POSITIONS, MOST_SHIFT = 128, 32
_FLOOR = 1e-17


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftChoice:
    """The encoding, the position t and the shift Δ."""

    shift: int = number(
        3,
        range(MOST_SHIFT + 1),
        title="shift Δ",
        tip="How many positions further; click or drag in the chart",
    )
    place: int = number(5, range(65), title="position t", tip="A does not depend on it: move it to see")
    d_model: int = number(8, WIDTHS, title="width d", tip="Dimensions of the encoding")
    base: float = number(
        100.0, BASES, title="base", tip="Of the angles; 10,000 in the paper", text=lambda v: f"{v:,.0f}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted:
    """`matrix` is A_Δ [d, d], `rows` PE(t), A_Δ PE(t), PE(t + Δ) [3, d]; errors by shift 0 … MOST_SHIFT."""

    choice: ShiftChoice
    matrix: Numbers
    rows: Numbers
    errors: dict[str, Numbers]
    words: LabWords


def shift(choice: ShiftChoice) -> Shifted:
    """The matrix, its effect on PE(t), and its fit to other encodings."""
    d, base = choice.d_model, choice.base
    matrix = shift_matrix(choice.shift, d, base)
    table = sinusoidal(N_POSITIONS + MOST_SHIFT, d, base)
    rows = np.stack([table[choice.place], matrix @ table[choice.place], table[choice.place + choice.shift]])
    tables = {
        "sinusoidal": table,
        "learned, new": np.random.default_rng(0).standard_normal(table.shape),
        "binary": binary(len(table), d),
    }
    shifts = range(MOST_SHIFT + 1)
    errors = {name: np.array([fit_error(one, delta) for delta in shifts]) for name, one in tables.items()}
    return Shifted(
        choice=choice, matrix=matrix, rows=rows, errors=errors, words=_words(choice, matrix, rows, errors)
    )


def sinusoidal(n: int, d: int, base: float) -> Numbers:
    """PE(t) for t = 0 … n − 1, [n, d]."""
    angles = np.arange(n)[:, None] * base ** (-np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(n, d)


def binary(n: int, d: int) -> Numbers:
    """The bits of each position, −1 or 1, the quickest first, [n, d]."""
    return np.asarray(2.0 * (np.arange(n)[:, None] >> np.arange(d) & 1) - 1.0)


def shift_matrix(delta: float, d: int, base: float) -> Numbers:
    theta = base ** (-np.arange(0, d, 2) / d)
    matrix = np.zeros((d, d))
    for i, angle in enumerate(delta * theta):
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [
            [np.cos(angle), np.sin(angle)],
            [-np.sin(angle), np.cos(angle)],
        ]
    return matrix


def fit_error(table: Numbers, delta: int) -> float:
    """The error of the best matrix on positions outside the fit."""
    before, after = table[:N_POSITIONS], table[delta : N_POSITIONS + delta]
    some, others = np.split(np.random.default_rng(1).permutation(N_POSITIONS), 2)
    fitted = np.linalg.lstsq(before[some], after[some], rcond=None)[0]  # rows: PE(t) Âᵀ
    rest = after[others] - before[others] @ fitted
    return float(np.linalg.norm(rest) / np.linalg.norm(after[others]))


def _words(choice: ShiftChoice, matrix: Numbers, rows: Numbers, errors: dict[str, Numbers]) -> LabWords:
    angles = choice.shift * choice.base ** (-2 * np.arange(choice.d_model // 2) / choice.d_model)
    numbers = (
        ("largest |PE(t+Δ) − A·PE(t)|", format_number(float(np.abs(rows[2] - rows[1]).max()), 2)),
        ("first pair turns by", turn_text(float(angles[0]))),
        ("last pair turns by", turn_text(float(angles[-1]))),
        (
            "‖AᵀA − 1‖, a rotation: 0",
            format_number(float(np.abs(matrix.T @ matrix - np.eye(len(matrix))).max()), 2),
        ),
        *(
            (f"error of a fitted A, {name}", format_number(float(one[choice.shift]), 2))
            for name, one in errors.items()
        ),
    )
    return LabWords(
        formula=("PE(t+Δ) = A_Δ PE(t)", "A = diag(R(Δθ₀), R(Δθ₁), …)", "θᵢ = base^(−2i/d)"),
        numbers=numbers,
        sentence=_sentence(choice.shift),
    )


def turn_text(angle: float) -> str:
    """An angle in radians, in degrees within one turn."""
    degrees = float(np.degrees(angle)) % 360
    return f"{degrees:.2g}°" if degrees < 9.95 else f"{round(degrees) % 360}°"


def _sentence(shift: int) -> str:
    if not shift:
        return (
            "No shift: A leaves every position where it is, and so does one for any table. Choose a larger Δ."
        )
    return (
        f"One matrix takes every position to the one {shift} further: move t, and the last two rows stay "
        "equal while A stays. So a linear layer can look a fixed distance away. For a random table there is "
        "none: what fits some positions fails on the others."
    )


class ShiftMatrix(Lab[ShiftChoice, Shifted]):
    name = "A shift is one matrix"
    group = "Positions"
    order = 5
    shows = (
        "PE(t + Δ) = A PE(t): the matrix of a shift, the same for every position, and encodings without one"
    )
    source = "Vaswani et al. 2017, section 3.5"
    search = ("PE(t+Δ)", "linear transformation of PE", "linear function of PE", "rotation matrix")
    help = """For every shift Δ there is one matrix A that takes the sinusoidal encoding of any position t to
    that of t + Δ: each pair of dimensions is turned by a fixed angle. The left map is A, the right one shows
    PE(t), A·PE(t) and PE(t + Δ). The chart asks of three encodings for the best such matrix, fitted to half
    of the positions, and shows its error on the other half: zero for sinusoidal ones, about as large
    as the encodings themselves for a random table. For every position scheme of the program the same is
    measured in the *Checklist* of the page [Positions](help:positions).
    """

    example = ShiftChoice()
    dragged = (0,)
    stretches = (5, 4)
    names_px = 84
    figure_mm = (200.0, 100.0)
    other_page = ("Matrices and similarities →", "positions")

    resolve = staticmethod(shift)

    def cells(self, shown: Shifted) -> tuple[CellMap, ...]:
        names = tuple(str(k) for k in range(shown.choice.d_model))
        t, after = shown.choice.place, shown.choice.place + shown.choice.shift
        return (
            CellMap(
                title="A",
                note=f"Δ = {shown.choice.shift}",
                values=shown.matrix,
                kind="signed",
                rows=names,
                columns=names,
                row_title="dimension",
                column_title="dimension",
            ),
            CellMap(
                title="Encodings",
                note="A PE(t) = PE(t+Δ)",
                values=shown.rows,
                kind="signed",
                rows=(f"PE({t})", f"A PE({t})", f"PE({after})"),
                columns=names,
                row_title="",
                column_title="dimension",
                has_numbers=True,
            ),
        )

    def charts(self, shown: Shifted) -> tuple[Chart, ...]:
        xs = np.arange(MOST_SHIFT + 1.0)
        return (
            Chart(
                title="Error of a fitted A",
                x_label="shift Δ",
                y_label="relative",
                series=tuple(
                    Series(name=name, xs=xs, ys=np.maximum(one, _FLOOR), colour=colour)
                    for (name, one), colour in zip(shown.errors.items(), (BLUE, GREEN, PURPLE), strict=True)
                ),
                is_log_y=True,
                marks=((float(shown.choice.shift), ""),),
            ),
        )

    def drag(self, choice: ShiftChoice, x: float, y: float, *, is_start: bool) -> ShiftChoice:
        return replace(choice, shift=min(max(round(x), 0), MOST_SHIFT))

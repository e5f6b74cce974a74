"""How far a gradient reaches back: recurrent networks against attention (Pascanu et al. 2013).

    symbol   meaning                                                           shape
    h_t      state of a tanh network, tanh(W h_(t−1) + x_t)                    [n_draws, d]
    c_t      cell of an LSTM (Hochreiter and Schmidhuber 1997, Gers 2000)      [n_draws, d]
    G_k      ∂(last state) / ∂(state k steps before), product of Jacobians     [n_draws, d, d]
             of the LSTM ∂c_T/∂c_t while h_t is held fixed: (h, c) is its state
    size     ‖G_k‖ / √d (Frobenius): the mean gain of a random direction       [n_tokens]
    kept     size at a distance / size at distance 1: what is compared          [n_tokens]

Everything is exact: each step's Jacobian is written out and multiplied, no difference quotients. Inputs are
from N(0, INPUT²); every number is the geometric mean over N_DRAWS random networks, or N_HEADS heads. A head
has random projections and reads random tokens: ∂o_T/∂x_t goes through the value and through the key.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, plural
from attnscope.fields import number, redraw
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import Chart, Series

Numbers = NDArray[np.float64]
N_DRAWS, N_HEADS = 8, 64
D_MODEL = 24
INPUT = 0.1
LENGTHS: tuple[int, ...] = (16, 32, 64, 128, 256)
RADII: tuple[float, ...] = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0)
BIASES: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
FLOOR = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachChoice:
    """The text's length, the spectral radius of W, the bias of the forget gate, the selected distance."""

    radius: float = number(
        0.9,
        RADII,
        title="radius ρ",
        tip="Spectral radius of the tanh network's matrix: its largest eigenvalue by size",
    )
    forget_bias: float = number(
        1.5,
        BIASES,
        title="forget",
        tip="Bias of the LSTM's forget gate: at 0 it keeps half of its cell, at 5 all but 0.7 %",
        text=lambda v: f"{v:+g}".replace("-", "−"),
    )
    n_tokens: int = number(64, LENGTHS, title="tokens T", tip="Length of the text")
    distance: int = number(
        48,
        range(1, LENGTHS[-1]),
        title="distance",
        tip="How far back is looked at; click or drag in the pictures",
        shown=lambda c: min(c.distance, c.n_tokens - 1),
    )
    seed: int = redraw(
        title="Other networks",
        tip="Draw other random networks and texts; the curves are means over eight",
    )

    def __post_init__(self) -> None:
        if self.n_tokens < 2 or self.radius <= 0 or self.distance < 1:
            raise ValueError(f"no gradient over {self.n_tokens} tokens with radius {self.radius}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientReach:
    """Gradients at each of `distances` 1, 2, …, relative to distance 1, [n_tokens − 1] each.

    `linear` is radius^(distance − 1), NaN where less than FLOOR is left.
    """

    choice: ReachChoice
    distances: Numbers
    plain: Numbers
    gated: Numbers
    attention: Numbers
    linear: Numbers
    distance: int
    words: LabWords


def reach(choice: ReachChoice) -> GradientReach:
    n_tokens = choice.n_tokens
    distances = np.arange(1.0, n_tokens)
    plain = plain_sizes(n_tokens, choice.radius, choice.seed)
    gated = gated_sizes(n_tokens, choice.forget_bias, choice.seed)
    attention = attention_sizes(n_tokens, choice.seed)
    distance = min(choice.distance, n_tokens - 1)
    return GradientReach(
        choice=choice,
        distances=distances,
        plain=_shown(kept(plain)),
        gated=_shown(kept(gated)),
        attention=_shown(kept(attention)),
        linear=_shown(choice.radius ** (distances - 1)),
        distance=distance,
        words=_words(choice, distance, plain, gated, attention),
    )


def kept(sizes: Numbers) -> Numbers:
    """Size relative to distance 1, from there on: [n_tokens] to [n_tokens − 1]."""
    return np.asarray(sizes[1:] / sizes[1])


@lru_cache(maxsize=32)
def plain_sizes(n_tokens: int, radius: float, seed: int) -> Numbers:
    """‖∂h_T/∂h_t‖ / √d of tanh networks, by the distance T − t."""
    matrices, inputs = draw_plain(n_tokens, radius, seed)
    states = np.zeros((N_DRAWS, D_MODEL))
    steps = []
    for t in range(n_tokens):
        states = np.tanh((matrices @ states[..., None])[..., 0] + inputs[:, t])
        steps.append((1.0 - states**2)[..., None] * matrices)  # ∂h_t/∂h_(t−1) = diag(1 − h²) W
    return _mean_sizes(steps, np.broadcast_to(np.eye(D_MODEL), (N_DRAWS, D_MODEL, D_MODEL)))


@lru_cache(maxsize=32)
def gated_sizes(n_tokens: int, forget_bias: float, seed: int) -> Numbers:
    """‖∂c_T/∂c_t‖ / √d of LSTMs, h_t held fixed, by the distance: through the cell and later gates."""
    matrices, inputs = draw_gated(n_tokens, seed)
    hidden, cell = np.zeros((N_DRAWS, D_MODEL)), np.zeros((N_DRAWS, D_MODEL))
    steps = []
    for t in range(n_tokens):
        summed = np.einsum("ngij,nj->ngi", matrices, hidden) + inputs[:, t]
        summed[:, 1] += forget_bias
        hidden, cell, step = lstm_step(summed, cell, matrices)
        steps.append(step)
    first = np.zeros((N_DRAWS, D_MODEL, 2 * D_MODEL))
    first[:, :, D_MODEL:] = np.eye(D_MODEL)  # of the last state (h, c) the cell
    return _mean_sizes(steps, first, kept=D_MODEL)


def lstm_step(summed: Numbers, cell: Numbers, matrices: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The next h and c, and ∂(h, c)/∂(h, c) before [n_draws, 2d, 2d]; gates are in, forget, out, new.

    `summed` [n_draws, 4, d] are the gates before their functions, `matrices` [n_draws, 4, d, d].
    """
    gate_in, forget, gate_out = (1.0 / (1.0 + np.exp(-summed[:, k])) for k in range(3))
    new = np.tanh(summed[:, 3])
    after = forget * cell + gate_in * new
    squashed = np.tanh(after)
    # ∂c/∂h sums over the gates that c reads; ∂h comes through the out gate and through c.
    by_in = (new * gate_in * (1 - gate_in))[..., None] * matrices[:, 0]
    by_forget = (cell * forget * (1 - forget))[..., None] * matrices[:, 1]
    by_new = (gate_in * (1 - new**2))[..., None] * matrices[:, 3]
    cell_by_hidden = by_in + by_forget + by_new
    cell_by_cell = forget[..., None] * np.eye(cell.shape[-1])
    slope = (gate_out * (1 - squashed**2))[..., None]
    by_out = (squashed * gate_out * (1 - gate_out))[..., None] * matrices[:, 2]
    upper = np.concatenate([slope * cell_by_hidden + by_out, slope * cell_by_cell], axis=-1)
    lower = np.concatenate([cell_by_hidden, cell_by_cell], axis=-1)
    return gate_out * squashed, after, np.concatenate([upper, lower], axis=-2)


@lru_cache(maxsize=8)
def attention_sizes(n_tokens: int, seed: int) -> Numbers:
    """‖∂o_T/∂x_t‖ / √d of one head's last query, by the distance T − t.

    For t < T: a_t·(V + (v_t − o) (q K)ᵀ/√d); the query's own token has the path through the query besides.
    """
    tokens, maps = draw_attention(n_tokens, seed)
    sizes = np.empty((N_HEADS, n_tokens))
    for n in range(N_HEADS):
        sizes[n] = [np.linalg.norm(part) for part in attention_gradient(tokens[n], maps[n])]
    return np.asarray(np.exp(np.log(sizes / np.sqrt(D_MODEL)).mean(axis=0))[::-1])


def attention_gradient(tokens: Numbers, maps: Numbers) -> Numbers:
    """∂o_T/∂x_t for each t, [n_tokens, d, d], of q = Q x_T, k = K x, v = V x; `maps` [3, d, d]."""
    to_query, to_key, to_value = maps
    root = np.sqrt(tokens.shape[1])
    query, keys, values = to_query @ tokens[-1], tokens @ to_key.T, tokens @ to_value.T
    scores = keys @ query / root
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    out = weights @ values
    away = values - out  # ∂o/∂s_t = a_t (v_t − o)
    through_key = away[:, :, None] * (query @ to_key)[None, None, :] / root
    found = weights[:, None, None] * (to_value[None] + through_key)
    found[-1] += ((weights[:, None] * away).T @ keys) @ to_query / root
    return np.asarray(found)


def draw_plain(n_tokens: int, radius: float, seed: int) -> tuple[Numbers, Numbers]:
    """Matrices [n_draws, d, d] of exactly this spectral radius, and inputs [n_draws, n_tokens, d]."""
    random = np.random.default_rng((seed, 1))
    matrices = random.standard_normal((N_DRAWS, D_MODEL, D_MODEL)) / np.sqrt(D_MODEL)
    largest = np.abs(np.linalg.eigvals(matrices)).max(axis=-1)
    inputs = INPUT * random.standard_normal((N_DRAWS, LENGTHS[-1], D_MODEL))
    return matrices * (radius / largest)[:, None, None], inputs[:, :n_tokens]


def draw_gated(n_tokens: int, seed: int) -> tuple[Numbers, Numbers]:
    """Matrices [n_draws, 4, d, d] from N(0, 1/3d) and inputs [n_draws, n_tokens, 4, d] of the four gates."""
    random = np.random.default_rng((seed, 2))
    matrices = random.standard_normal((N_DRAWS, 4, D_MODEL, D_MODEL)) / np.sqrt(3 * D_MODEL)
    inputs = INPUT * random.standard_normal((N_DRAWS, LENGTHS[-1], 4, D_MODEL))
    return matrices, inputs[:, :n_tokens]


def draw_attention(n_tokens: int, seed: int) -> tuple[Numbers, Numbers]:
    """Tokens [n_heads, n_tokens, d] from N(0, 1) and projections [n_heads, 3, d, d] from N(0, 1/d)."""
    random = np.random.default_rng((seed, 3))
    maps = random.standard_normal((N_HEADS, 3, D_MODEL, D_MODEL)) / np.sqrt(D_MODEL)
    return random.standard_normal((N_HEADS, n_tokens, D_MODEL)), maps


def _mean_sizes(steps: list[Numbers], first: Numbers, *, kept: int = 0) -> Numbers:
    """Geometric means of ‖G‖/√d, walking back from the last step, for columns from `kept` on."""
    gradient, found = first, []
    for step in reversed(steps):
        sizes = np.linalg.norm(gradient[:, :, kept:], axis=(1, 2)) / np.sqrt(D_MODEL)
        found.append(float(np.exp(np.log(np.maximum(sizes, 1e-300)).mean())))
        gradient = gradient @ step
    return np.array(found)


def _shown(sizes: Numbers) -> Numbers:
    return np.asarray(np.where(sizes > FLOOR, sizes, np.nan))


def _words(
    choice: ReachChoice, distance: int, plain: Numbers, gated: Numbers, attention: Numbers
) -> LabWords:
    far = {name: float(kept(sizes)[distance - 1]) for name, sizes in _named(plain, gated, attention)}
    numbers = (
        ("distance T − t", str(distance)),
        *((f"left of distance 1, {name}", format_number(value)) for name, value in far.items()),
        ("‖∂h_T/∂h_t‖, tanh network", format_number(float(plain[distance]))),
        (f"ρ^{distance}", format_number(choice.radius**distance)),
        ("‖∂c_T/∂c_t‖, LSTM, h_t fixed", format_number(float(gated[distance]))),
        (f"forget gate σ({format_number(choice.forget_bias)})", format_number(_forget(choice), 4)),
        ("‖∂o_T/∂x_t‖, attention", format_number(float(attention[distance]))),
        ("1 / T", format_number(1 / choice.n_tokens)),
        ("steps between, recurrent", str(distance)),
        ("steps between, attention", "1"),
    )
    return LabWords(
        formula=(
            "∂h_T/∂h_t = Π diag(1 − h²) W",
            "∂c_T/∂c_t = Π f + via h",
            "∂o_T/∂x_t ≈ aₜ V",
        ),
        numbers=numbers,
        sentence=_sentence(choice, distance, far),
    )


def _named(plain: Numbers, gated: Numbers, attention: Numbers) -> tuple[tuple[str, Numbers], ...]:
    return (("tanh", plain), ("LSTM", gated), ("attention", attention))


def _forget(choice: ReachChoice) -> float:
    """The share of the cell kept by the forget gate at each step, while its inputs are small."""
    return float(1 / (1 + np.exp(-choice.forget_bias)))


def _sentence(choice: ReachChoice, distance: int, far: dict[str, float]) -> str:
    """The conclusion for a student: attention alone loses nothing with distance."""
    near = f"Attention's gradient is about 1/T = {format_number(1 / choice.n_tokens, 2)} near and far."
    if distance == 1:
        return f"{near} Every curve is a share of that at distance 1: choose a larger one."
    cell = "" if far["LSTM"] <= 1 else ": above 1, as its gates read h and add paths"
    tanh = f"× {format_number(far['tanh'], 2)}" + (" and grows" if far["tanh"] > 1 else "")
    return (
        f"{near} From 1 to {distance} tokens back, a product of {plural(distance - 1, 'factor')}, a tanh "
        f"network's becomes {tanh}, an LSTM's × {format_number(far['LSTM'], 2)} with forget gates near "
        f"{format_number(_forget(choice), 2)}{cell}."
    )


def reach_charts(shown: GradientReach) -> tuple[Chart, ...]:
    """The gradient by distance, and the number of steps of its path."""
    at = float(shown.distance)
    gradient = Chart(
        title="Gradient",
        x_label="distance T − t in tokens",
        y_label="‖∂ last state / ∂ state at t‖, share of that at distance 1; mean of random networks",
        series=(
            Series(name="ρ at each step", xs=shown.distances, ys=shown.linear, colour=ORANGE, is_quiet=True),
            Series(name="tanh network", xs=shown.distances, ys=shown.plain, colour=ORANGE),
            Series(name="LSTM", xs=shown.distances, ys=shown.gated, colour=GREEN),
            Series(name="attention", xs=shown.distances, ys=shown.attention, colour=BLUE),
        ),
        is_log_y=True,
        marks=((at, f"{shown.distance} back"),),
    )
    path = Chart(
        title="Path length",
        x_label="distance T − t in tokens",
        y_label="steps between two tokens (Vaswani et al. 2017, table 1)",
        series=(
            Series(name="recurrent O(T)", xs=shown.distances, ys=shown.distances, colour=ORANGE),
            Series(name="attention O(1)", xs=shown.distances, ys=np.ones(len(shown.distances)), colour=BLUE),
        ),
        marks=((at, ""),),
    )
    return (gradient, path)


class GradientByDistance(Lab[ReachChoice, GradientReach]):
    name = "Gradient by distance"
    group = "Attention or recurrence"
    order = 1
    shows = "How much gradient is left many tokens back: tanh network, LSTM and attention"
    source = "Hochreiter and Schmidhuber 1997, Pascanu et al. 2013"
    search = ("vanishing gradients", "exploding gradients", "long-range dependencies", "BPTT")
    help = """How much of the gradient at distance 1 is left many tokens back, in a tanh network, an LSTM
    and attention. A recurrent network multiplies $‖∂h_T / ∂h_t‖$ by a factor at each of T steps; in an LSTM
    the factor depends on the forget gates. Of the LSTM $‖∂c_T / ∂c_t‖$ is shown, by the cell while $h_t$ is
    held fixed; through $h_t$ as well, shares are larger: by 15 % at most in the example, by 40 % with a
    forget bias of −2. Attention is one step away from every token, and its gradient is about 1/T, near and
    far.
    """

    example = ReachChoice()
    dragged = (0, 1)
    stretches = (5, 3)
    names_px = 112
    figure_mm = (180.0, 150.0)

    resolve = staticmethod(reach)
    charts = staticmethod(reach_charts)

    def drag(self, choice: ReachChoice, x: float, y: float, *, is_start: bool) -> ReachChoice:
        return replace(choice, distance=min(max(round(x), 1), choice.n_tokens - 1))

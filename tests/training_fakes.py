"""A clock that is set by hand, and replies as the worker would give them."""

import numpy as np

from attnscope.records import (
    NO_GATES,
    Comparison,
    HeadMap,
    Output,
    Plan,
    SelfCheck,
    Site,
    SiteGrid,
    Started,
    Step,
    Token,
    Tokens,
    Traced,
    TraceText,
)

SITES = (
    Site(stack="encoder", layer=0, n_heads=2, n_kv_heads=2),
    Site(stack="cross", layer=0, n_heads=2, n_kv_heads=2),
    Site(stack="cross", layer=1, n_heads=2, n_kv_heads=2),
)


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(step: int = 0, n_steps: int = 1000) -> Started:
    return Started(folder="run", step=step, n_steps=n_steps, n_parameters=10, device="cpu")


def steps(first: int, last: int) -> tuple[Step, ...]:
    return tuple(
        Step(step=i, loss=3.0 / i, learning_rate=1e-3, gradient_norm=1.0, tokens_per_s=100.0)
        for i in range(first, last + 1)
    )


def traced(request: TraceText, step: int | None = None) -> Traced:
    """A reply with weights of a ramp, of the size of the text."""
    tokens = tuple(Token(id=i, piece=word) for i, word in enumerate(request.text.split()))
    n = len(tokens)
    weights = np.tile(np.arange(1, n + 1, dtype=np.float32), (n, 1))
    weights /= weights.sum(axis=1, keepdims=True)
    levels = np.full((2, n, n), 100, dtype=np.uint8)
    output = Output(kind="translation", predictions=())
    return Traced(
        number=request.number,
        model=request.model,
        text=request.text,
        source=Tokens(text=request.text, tokens=tokens),
        target=None,
        gates=NO_GATES,
        grids=tuple(
            SiteGrid(site=site, n_queries=n, n_keys=n, levels=levels, peaks=np.ones(2)) for site in SITES
        ),
        maps=tuple(
            HeadMap(head=head, queries=tokens, keys=tokens, weights=weights) for head in request.heads
        ),
        measures=(),
        comparison=Comparison(before=output, after=output, kl_nats=()),
        check=SelfCheck(row_sum_error=0.0, forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True),
        duration_ms=1.0,
        step=step,
    )


def plan(**changes: object) -> Plan:
    values: dict[str, object] = {
        "name": "x", "n_parameters": 10, "parameters": (), "n_sequences": 1, "n_tokens": 1,
        "mean_tokens": 1.0, "tokens_a_step": 1.0, "n_steps": 1, "flops_a_step": 1.0,
        "memory": (("weights", 40),), "available_bytes": 100, "device": "cpu", "precision": "float32",
        "pace": None, "n_checkpoints": 1, "checkpoint_bytes": 40, "disk_bytes": 40,
        "free_disk_bytes": None,
    }  # fmt: skip
    return Plan(**{**values, **changes})

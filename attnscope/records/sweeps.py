"""A sweep: one recipe with every combination of some values, each a run in a folder of its own.

Start many, stop early, continue some (Dodge et al. 2020, section 5): all runs make their first steps, then
only the best by held-out loss go on. Nothing is lost, for a stopped run can be continued later.
"""

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnscope.errors import RecipeError
from attnscope.records.runs import RunSummary

SEED = "training.seed"
MAX_RUNS = 200
"""Of one sweep."""
_KEY = re.compile(r"[a-z_]{1,40}\.[a-z0-9_]{1,40}")
_MAX_VALUE, _MAX_NAME_BYTES = 500, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One run of a sweep: its folder's name, and the values that make it different, as overrides."""

    name: str
    overrides: tuple[tuple[str, str], ...]


def parse_axes(texts: Iterable[str], seeds: str = "") -> dict[str, tuple[str, ...]]:
    """`key=v1,v2` texts as the values of each key; raises RecipeError for what is no list of values."""
    axes: dict[str, tuple[str, ...]] = {}
    for text in [*texts, *([f"{SEED}={seeds}"] if seeds else [])]:
        key, equals, values = text.partition("=")
        key = key.strip()
        found = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
        if not equals or not _KEY.fullmatch(key) or not found:
            raise RecipeError(
                f"{text[:80]!r} names no values to sweep over.",
                expected="section.key=value,value, for instance model.d_model=64,128",
                action="Give one key with its values; list several keys one by one.",
            )
        _check_values(key, found)
        if key in axes:
            raise RecipeError(
                f"{key} is swept twice.", expected="each key once", action="Put all of its values together."
            )
        axes[key] = found
    return axes


def sweep_runs(axes: Mapping[str, Sequence[str]]) -> tuple[SweepRun, ...]:
    """Every combination, the last key changing fastest; raises RecipeError when there are too many."""
    n_runs = math.prod(len(values) for values in axes.values())
    if n_runs > MAX_RUNS:
        raise RecipeError(
            f"The sweep would make {n_runs:,} runs.",
            expected=f"at most {MAX_RUNS}",
            action="Sweep over fewer values, or split it up.",
        )
    short = _short_keys(tuple(axes))
    runs: dict[str, SweepRun] = {}
    for values in itertools.product(*axes.values()):
        overrides = tuple(zip(axes, values, strict=True))
        name = ",".join(f"{short[key]}={_as_file_name(value)}" for key, value in overrides)
        if name in runs or len(name.encode()) > _MAX_NAME_BYTES:  # each run has a folder of its own
            mark = hashlib.sha256(repr(overrides).encode()).hexdigest()[:8]
            name = f"{name.encode()[:_MAX_NAME_BYTES].decode(errors='ignore')}-{mark}"
        runs[name] = SweepRun(name=name, overrides=overrides)
    return tuple(runs.values())


def _check_values(key: str, values: Sequence[str]) -> None:
    """Raise RecipeError for a value that no recipe can hold."""
    for value in values:
        fault = f"{len(value):,} characters" if len(value) > _MAX_VALUE else ""
        if not value.isprintable():
            fault = "a character that cannot be printed"
        if fault:
            raise RecipeError(
                f"A value of {key} has {fault}: {value[:40]!r}…",
                expected=f"at most {_MAX_VALUE} characters that can be printed",
                action="Correct it.",
            )


def best_at(runs: Sequence[RunSummary], step: int, n_kept: int) -> tuple[RunSummary, ...]:
    """The `n_kept` runs with the lowest held-out loss at `step`, best first; a run that has none is worst."""
    return tuple(sorted(runs, key=lambda run: (loss_at(run, step), run.name))[:n_kept])


def loss_at(run: RunSummary, step: int) -> float:
    """The last held-out loss up to `step`; infinite when there is none, or the run diverged by then."""
    if run.end == "diverged" and run.step < step:
        return math.inf
    losses = run.validation.values[run.validation.steps <= step]
    return float(losses[-1]) if len(losses) and math.isfinite(losses[-1]) else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSpread:
    """Runs that differ in nothing but the seed: mean and sample standard deviation of their best losses."""

    settings: tuple[tuple[str, str], ...]
    n: int
    mean: float
    deviation: float


def seed_groups(runs: Iterable[RunSummary]) -> dict[tuple[tuple[str, str], ...], tuple[RunSummary, ...]]:
    """The runs of each setting, whatever their seeds, in the order in which they come."""
    groups: dict[tuple[tuple[str, str], ...], tuple[RunSummary, ...]] = {}
    for run in runs:
        settings = tuple((key, value) for key, value in run.settings if key != SEED)
        groups[settings] = (*groups.get(settings, ()), run)
    return groups


def seed_spreads(runs: Sequence[RunSummary]) -> tuple[SeedSpread, ...]:
    """The spread over seeds of each setting that has several converged runs, best mean first."""
    converged = [run for run in runs if run.is_converged and any(key == SEED for key, _ in run.settings)]
    spreads = []
    for settings, seeds in seed_groups(converged).items():
        losses = [run.best_loss for run in seeds]
        if len(losses) > 1:
            mean = sum(losses) / len(losses)
            deviation = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1))
            spreads.append(SeedSpread(settings=settings, n=len(losses), mean=mean, deviation=deviation))
    return tuple(sorted(spreads, key=lambda spread: spread.mean))


def _short_keys(keys: Sequence[str]) -> dict[str, str]:
    """`d_model` for `model.d_model`, unless two keys end alike."""
    lasts = [key.rpartition(".")[2] for key in keys]
    return {key: last if lasts.count(last) == 1 else key for key, last in zip(keys, lasts, strict=True)}


def _as_file_name(value: str) -> str:
    return re.sub(r"[^\w.+-]", "_", value)[:60]

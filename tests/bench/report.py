"""What a benchmark says: named numbers with units, what they should be, and the machine behind them."""

import math
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np

from attnscope import __version__
from attnscope.boot import n_cores
from attnscope.counting import plural

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number; a promise is kept where it is at most `target`. None: nothing is promised.

    `low` and `high` hold eight of ten samples between them; NaN where `value` is not a median.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    n_samples: int = 1
    note: str = ""
    low: float = math.nan
    high: float = math.nan

    @property
    def is_met(self) -> bool | None:
        """Whether the value is within the target; None without one."""
        return None if self.target is None else bool(self.value <= self.target)

    @property
    def sentence(self) -> str:
        """The measurement in one line."""
        judged = {None: "", True: "  ok", False: "  TOO HIGH"}[self.is_met]
        spread = "" if math.isnan(self.low) else f" ({self.low:.4g} to {self.high:.4g})"
        aim = "" if self.target is None else f"  (at most {self.target:g} {self.unit})"
        note = f"  {self.note}" if self.note else ""
        return f"{self.name:<52}{self.value:>9.4g} {self.unit}{spread}{aim}{judged}{note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """A row that could not be measured, and why; `is_fault` where it should have been."""

    name: str
    reason: str
    is_fault: bool = False

    @property
    def sentence(self) -> str:
        """What was not measured in one line."""
        return f"{self.name:<52}  NOT RUN  {self.reason}"


@dataclass(frozen=True, slots=True)
class Doing:
    """What is measured from now on, for those who wait."""

    what: str


Row = Measurement | NotRun
Rows = Iterator[Row | Doing]


def percentile(samples: Sequence[float], q: float) -> float:
    """The q-th percentile (0…100), NaN of nothing."""
    return float(np.percentile(np.asarray(samples, dtype=np.float64), q)) if samples else math.nan


def is_clear(samples: Sequence[float], target: float, n_least: int = 2) -> bool:
    """Whether more samples would judge a limit as these do: all lie on one side, further off than apart."""
    if len(samples) < n_least:
        return False
    low, high = min(samples), max(samples)
    return max(low - target, target - high) > high - low


def median_of(
    name: str, samples: Sequence[float], unit: str, *, target: float | None = None, note: str = ""
) -> Measurement:
    """The median of samples with their spread."""
    return Measurement(
        name=name,
        value=percentile(samples, 50),
        unit=unit,
        target=target,
        n_samples=len(samples),
        note=note,
        low=percentile(samples, 10),
        high=percentile(samples, 90),
    )


def worst_of(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    q: int = 95,
    target: float | None = None,
    note: str = "",
) -> Measurement:
    """A high percentile of samples, named `NAME pQ`; the note tells their median and the largest."""
    middle = f"median {percentile(samples, 50):.3g}, most {percentile(samples, 100):.3g} {unit}"
    return Measurement(
        name=f"{name} p{q}",
        value=percentile(samples, q),
        unit=unit,
        target=target,
        n_samples=len(samples),
        note=f"{note}; {middle}" if note else middle,
    )


def summary(rows: Sequence[Row]) -> str:
    """How many rows kept their promise, which did not, and which could not be measured."""
    missed = [row.name for row in rows if isinstance(row, Measurement) and row.is_met is False]
    absent = [row.name for row in rows if isinstance(row, NotRun)]
    n_met = sum(isinstance(row, Measurement) and row.is_met is True for row in rows)
    parts = [f"{plural(len(rows), 'row')}: {n_met} ok"]
    parts += [
        f"{len(names)} {words}: {'; '.join(names)}"
        for names, words in ((missed, "too high"), (absent, "not run"))
        if names
    ]
    return ". ".join(parts)


def busy_words() -> str:
    """What must be known of a machine that has other work just now; empty where none is known."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= n_cores() / 2:
        return ""
    return f"The machine had other work (load {load:.1f} on {plural(n_cores(), 'core')}): times are too long."


def has_failed(rows: Sequence[Row]) -> bool:
    """Whether a promise was missed, or something could not be measured that should have been."""
    return any(row.is_fault if isinstance(row, NotRun) else row.is_met is False for row in rows)


def machine() -> dict[str, object]:
    """Where it was measured: processor, cores, system, versions."""
    import PySide6

    facts: dict[str, object] = {
        "date": datetime.now().isoformat(timespec="seconds"),
        "attnscope": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "n_cores": n_cores(),
        "pyside6": PySide6.__version__,
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        facts |= {"torch": str(torch.__version__), "n_torch_threads": torch.get_num_threads()}
    return facts


def row_facts(row: Row) -> dict[str, object]:
    """One row for JSON; one that was not run has no value but a reason."""
    if isinstance(row, NotRun):
        return {"name": row.name, "value": None, "not_run": row.reason, "is_fault": row.is_fault}
    return {**asdict(row), "is_met": row.is_met}


def report(groups: Mapping[str, Sequence[Row]]) -> dict[str, object]:
    """Everything as one table for JSON."""
    rows = {name: [row_facts(row) for row in found] for name, found in groups.items()}
    return {"format": FORMAT, "machine": machine(), "groups": rows}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

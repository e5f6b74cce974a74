"""What a benchmark says: named numbers with units, what they should be, and the machine behind them."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from attnscope import __version__
from attnscope.boot import n_cores

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number. `target` is the largest value that is good enough, None where nothing is promised."""

    name: str
    value: float
    unit: str
    target: float | None = None
    n_samples: int = 1
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the value is within the target; None without one."""
        return None if self.target is None else bool(self.value <= self.target)

    @property
    def sentence(self) -> str:
        """The measurement in one line."""
        judged = {None: "", True: "  ok", False: "  TOO HIGH"}[self.is_met]
        aim = "" if self.target is None else f"  (at most {self.target:g} {self.unit})"
        note = f"  {self.note}" if self.note else ""
        return f"{self.name:<44}{self.value:>10.4g} {self.unit}{aim}{judged}{note}"


def percentile(samples: Sequence[float], q: float) -> float:
    """The q-th percentile (0…100), NaN of nothing."""
    return float(np.percentile(np.asarray(samples, dtype=np.float64), q)) if samples else float("nan")


def spread(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    targets: dict[int, float] | None = None,
    percentiles: tuple[int, ...] = (50, 95),
    note: str = "",
) -> tuple[Measurement, ...]:
    """Some percentiles of samples, each a measurement named `NAME pQ`."""
    return tuple(
        Measurement(
            name=f"{name} p{q}",
            value=percentile(samples, q),
            unit=unit,
            target=(targets or {}).get(q),
            n_samples=len(samples),
            note=note,
        )
        for q in percentiles
    )


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


def report(groups: dict[str, tuple[Measurement, ...]]) -> dict[str, object]:
    """Everything as one table for JSON."""
    return {
        "format": FORMAT,
        "machine": machine(),
        "groups": {
            name: [
                {
                    "name": one.name,
                    "value": one.value,
                    "unit": one.unit,
                    "target": one.target,
                    "is_met": one.is_met,
                    "n_samples": one.n_samples,
                    "note": one.note,
                }
                for one in measurements
            ]
            for name, measurements in groups.items()
        },
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

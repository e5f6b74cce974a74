"""Names beside the points of a chart, ticks of narrow logarithmic axes, and the figure of a sweep."""

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from attnscope.cli.main import main
from attnscope.figures import LIGHT, log_ticks, paint_chart
from attnscope.records import Chart, Evaluated, Finished, Series, Started, Step
from attnscope.training import line_from_event

pytestmark = pytest.mark.qt
_SIZE = (400, 300)


def _ink(xs: list[float], labels: tuple[str, ...]) -> np.ndarray:
    """Where something other than the background is painted, [height, width]."""
    series = Series(name="", xs=np.array(xs), ys=np.array([1.0, 2.0, 1.5]), style="points", labels=labels)
    chart = Chart(title="", x_label="", y_label="", series=(series,))
    image = QImage(*_SIZE, QImage.Format.Format_Grayscale8)
    image.fill(QColor("white"))
    painter = QPainter(image)
    paint_chart(painter, QRectF(0, 0, *_SIZE), chart, palette=LIGHT)
    painter.end()
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(_SIZE[1], image.bytesPerLine())
    return pixels[:, : _SIZE[0]] < 128


def test_that_each_point_has_its_name_beside_it(qapp: object) -> None:
    xs = [0.0, 1.0, 2.0]
    added = _ink(xs, ("first", "second", "third")) & ~_ink(xs, ())
    columns = np.flatnonzero(added.any(axis=0))
    groups = 1 + int((np.diff(columns) > 60).sum())
    assert groups == 3
    assert added.sum() > 100


def test_that_names_never_cover_each_other(qapp: object) -> None:
    name = "a name of some length"
    crowded = _ink([1.0, 1.0001, 1.0002], (name,) * 3) & ~_ink([1.0, 1.0001, 1.0002], ())
    alone = _ink([1.0, 1.0001, 1.0002], (name, "", "")) & ~_ink([1.0, 1.0001, 1.0002], ())
    assert alone.sum() > 50
    assert crowded.sum() == pytest.approx(alone.sum() * round(crowded.sum() / alone.sum()), rel=0.2)


def test_that_a_wrong_number_of_names_is_refused() -> None:
    with pytest.raises(ValueError, match="2 labels for 3 points"):
        Series(name="", xs=np.arange(3.0), ys=np.arange(3.0), labels=("a", "b"))


@pytest.mark.parametrize(("low", "high"), [(3.21, 3.37), (1.0, 1.9), (0.11, 0.19)])
def test_that_a_narrow_logarithmic_axis_has_ticks(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert len(ticks) >= 2
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in ticks)


_RECIPE = """
[model]
d_model = {width}
n_layers = 1
n_heads = 1

[data]
kind = "task"
task = "copy"

[objective]
kind = "translation"

[training]
n_steps = 2
"""


def _write_runs(folder: Path, widths: tuple[int, ...]) -> None:
    for width in widths:
        run = folder / f"d_model={width}"
        run.mkdir(parents=True)
        (run / "recipe.toml").write_text(_RECIPE.format(width=width))
        rest = {"learning_rate": 0.1, "gradient_norm": 1.0, "tokens_per_s": 8.0}
        events = [
            Started(folder="", step=0, n_steps=2, n_parameters=width**3, device="cpu"),
            *(Step(step=i, loss=2.0, n_tokens=100 * width, **rest) for i in (1, 2)),
            Evaluated(step=2, loss=8 * width**-0.3, accuracy=0.0),
            Finished(step=2, reason="done"),
        ]
        lines = [line_from_event(1, event) for event in events]
        (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_that_a_sweep_becomes_a_figure_with_the_names_of_its_runs(qapp: object, tmp_path: Path) -> None:
    _write_runs(tmp_path / "sweep", (8, 32, 128))
    assert main(["figure", str(tmp_path / "sweep"), "--view", "scaling", "-o", str(tmp_path / "s.csv")]) == 0
    rows = (tmp_path / "s.csv").read_text().splitlines()
    points = [row for row in rows if row.startswith('"Data","d_model=')]
    assert [row.split(",")[1] for row in points] == ['"d_model=8"', '"d_model=32"', '"d_model=128"']
    assert points[0].startswith('"Data","d_model=8","1600",')
    assert main(["figure", str(tmp_path / "sweep"), "--view", "curves", "-o", str(tmp_path / "c.svg")]) == 0
    assert "d_model=128" in (tmp_path / "c.svg").read_text()


def test_that_too_few_runs_are_told_in_one_line(
    qapp: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_runs(tmp_path / "sweep", (8, 32))
    assert main(["figure", str(tmp_path / "sweep"), "--view", "scaling", "-o", str(tmp_path / "s.svg")]) == 2
    message = capsys.readouterr().err
    assert "2 runs, of which 2 have made every step" in message
    assert "3 different sizes" in message
    assert "--sweep model.d_model=32,64,128" in message
    assert message.count("\n") == 1

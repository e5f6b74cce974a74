"""A lab is one file: it is then in the list, the window, palette, help, commands, files and Python."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from added_files import look_also_in
from pytestqt.qtbot import QtBot
from session_samples import lab_states

import attnscope as at
from attnscope import labs
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.labs import LABS, find_labs
from attnscope.viewmodels import ViewState, read_help
from attnscope.widgets.labs import LabsPage, LabView, lab_offers

pytestmark = pytest.mark.qt
HELP = Path(__file__).parents[2] / "resources" / "help"
ADDED = '''
"""Powers of a number."""

from dataclasses import dataclass

import numpy as np

from attnscope.fields import number, switch
from attnscope.labs.lab import Lab, LabWords
from attnscope.records.charts import Chart, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class PowersChoice:
    base: float = number(2.0, (1.5, 2.0, 3.0), title="base", tip="What is raised")
    n_powers: int = number(4, range(2, 7), title="powers", tip="How many powers")
    is_log: bool = switch(False, title="logarithms", tip="Their logarithms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Powers:
    values: np.ndarray
    words: LabWords


class PowersLab(Lab[PowersChoice, Powers]):
    name = "Powers"
    group = "Masks"
    order = 5
    shows = "What becomes of a number that is raised"
    source = "this test"
    help = """Raise a number
    and see."""
    example = PowersChoice()
    dragged = (0,)

    def resolve(self, choice):
        values = choice.base ** np.arange(1.0, choice.n_powers + 1)
        values = np.log(values) if choice.is_log else values
        words = LabWords(formula=("y = b^n",), numbers=(("last", f"{values[-1]:g}"),), sentence="It grows.")
        return Powers(values=values, words=words)

    def charts(self, shown):
        xs = np.arange(1.0, len(shown.values) + 1)
        series = (Series(name="y", xs=xs, ys=shown.values),)
        return (Chart(title="Powers", x_label="n", y_label="y", series=series),)
'''


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "labs"
    folder.mkdir()
    (folder / "powers.py").write_text(ADDED, encoding="utf-8")
    look_also_in(folder, labs, monkeypatch)
    try:
        found = find_labs()
    finally:
        sys.modules.pop("attnscope.labs.powers", None)
    names = list(LABS)
    k = names.index("Masks as structure") + 1
    assert list(found) == [*names[:k], "Powers", *names[k:]]
    kept = dict(LABS)
    LABS.clear()
    LABS.update(found)
    yield
    LABS.clear()
    LABS.update(kept)


def test_that_the_window_lists_it_draws_it_and_sets_it(qtbot: QtBot) -> None:
    page = LabsPage(lab_states())
    qtbot.addWidget(page)
    page.show()
    view = ViewState()
    {offer.item.title: offer for offer in lab_offers(page, view)}["Lab: Powers"].run()
    lab = page.labs["Powers"]
    assert isinstance(lab, LabView)
    assert list(lab.rows) == ["base", "powers", "logarithms"]
    lab.rows["powers"].field.setValue(0)
    lab.rows["logarithms"].field.click()
    assert (lab.lab.choice.n_powers, lab.lab.choice.is_log) == (2, True)
    assert page.values() == (("base", 2.0), ("n_powers", 2), ("is_log", True))
    page.take_values((("base", 3.0), ("n_powers", 9)))
    assert lab.lab.choice.n_powers == 2  # no slider could make nine
    assert page.figure_spec() is not None


def test_that_the_help_has_its_part_with_its_settings() -> None:
    (page,) = (page for page in read_help(HELP) if page.name == "labs")
    assert "Powers" in page.headings
    assert "\nRaise a number and see.\n\n- `base`: What is raised: a number from 1.5 to 3\n" in page.text


def test_that_commands_list_it_tell_it_and_write_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab"]) == 0
    assert "What becomes of a number that is raised" in capsys.readouterr().out
    assert main(["lab", "powers", "--set", "base=3", "--set", "is_log=on", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["settings"] == {"base": 3.0, "n_powers": 4, "is_log": True}
    np.testing.assert_allclose(told["charts"][0]["series"][0]["ys"], np.log(3) * np.arange(1, 5))
    for ending in ("svg", "csv", "npz"):
        path = tmp_path / f"powers.{ending}"
        assert main(["lab", "Powers", "-o", str(path)]) == 0
        assert path.stat().st_size > 100
    assert '"Powers","y","4","16"' in (tmp_path / "powers.csv").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["lab", "Powers", "--set", "n_powers=9"]) == 2
    assert "n_powers is 9. Expected: a whole number from 2 to 6." in capsys.readouterr().err


def test_that_python_draws_it() -> None:
    figure = at.lab("powers", n_powers=3, width_mm=100.0)
    assert figure.spec.width_mm == 100.0
    np.testing.assert_array_equal(figure.spec.charts[0].series[0].ys, [2.0, 4.0, 8.0])
    with pytest.raises(UserError, match=r"There is no lab 'power'.*Did you mean Powers"):
        at.lab("power")

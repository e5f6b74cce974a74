"""Whoever adds a view adds one file: every door of the program finds it there."""

import importlib
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from session_samples import Desk, ref

import attnscope as at
from attnscope.cli import main as cli
from attnscope.errors import UserError
from attnscope.figures import views
from attnscope.paths import resources_folder
from attnscope.viewmodels import ViewState, read_help
from attnscope.widgets.export import ExportChoices, offered_figures

VIEW = '''
    """How much weight each key gets from all queries together."""

    from dataclasses import dataclass

    import numpy as np
    from PySide6.QtCore import QRectF

    from attnscope.figures.spec import FigureSpec
    from attnscope.records.maps import HeadMap


    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReceivedFigure(FigureSpec):
        view, words, order = "received", "weight that each key gets", 50
        follows_width, least_px, reads_trace, shows = True, 40.0, True, "one head"

        head_map: HeadMap

        @classmethod
        def of_trace(cls, wanted, **page):
            return cls(head_map=wanted.maps()[0], **page)

        @property
        def is_empty(self):
            return not self.head_map.weights.size

        def sums(self):
            return np.nansum(self.head_map.weights, axis=0)

        def paint(self, painter, rect, palette):
            for j, received in enumerate(self.sums().tolist()):
                painter.fillRect(QRectF(rect.left() + 12 * j, rect.top(), 10, 20 * received), palette.accent)

        def natural_height(self, width):
            return 200.0

        def shown_words(self):
            return ["received by each key"]

        def rows(self):
            yield ("key", "received")
            for token, received in zip(self.head_map.keys, self.sums().tolist()):
                yield (token.piece, f"{received:.6f}")

        def arrays(self):
            return {"received": self.sums()}
'''


@pytest.fixture
def added_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A view in a file of another folder, which stands beside the program's own for one test."""
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "received.py").write_text(textwrap.dedent(VIEW))
    views.__path__.append(str(folder))
    importlib.invalidate_caches()
    for name, kind in views.found_views().items():
        monkeypatch.setitem(views.VIEWS, name, kind)
    yield "received"
    views.__path__.remove(str(folder))
    sys.modules.pop("attnscope.figures.views.received")


def test_that_a_view_of_one_file_is_drawn_from_python(
    added_view: str, tiny_model: str, tmp_path: Path
) -> None:
    trace = at.load(tiny_model).trace("the cat", "le chat")
    made = at.figure(trace, added_view, head="cross:L0H1", caption=at.Caption(model="tiny"))
    received = trace.head_map(made.spec.head_map.head).weights.sum(axis=0)
    arrays = np.load(made.save(tmp_path / "received.npz"))
    np.testing.assert_allclose(arrays["received"], received, rtol=1e-6)
    lines = made.save(tmp_path / "received.csv").read_text().splitlines()
    assert lines[0] == '"key","received"'
    assert len(lines) == 1 + len(received)
    drawn = made.save(tmp_path / "received.svg").read_text()
    assert "received by each key" in drawn
    again = at.load_figure(made.save(tmp_path / "received.figure.json"))
    assert type(again.spec) is type(made.spec)
    assert again.save(tmp_path / "again.svg").read_text() == drawn


def test_that_the_command_line_draws_it(added_view: str, tiny_model: str, tmp_path: Path, capsys) -> None:
    with pytest.raises(UserError, match="no view 'film'"):
        at.figure(at.load(tiny_model).trace("the cat", "le chat"), "film")
    wish = ("figure", tiny_model, "--text", "the cat", "--target", "le chat", "--head", "cross:L0H1")
    out = tmp_path / "received.csv"
    assert cli.main([*wish, "--view", added_view, "-o", str(out)]) == 0
    assert out.read_text().startswith('"key","received"\n')
    assert cli.main([*wish, "--view", "film", "-o", str(out)]) == 2
    assert "received" in capsys.readouterr().err


def test_that_a_view_of_one_head_refuses_several_and_is_drawn_of_each_head_and_line(
    added_view: str, tiny_model: str, tmp_path: Path, capsys
) -> None:
    wish = ("figure", tiny_model, "--target", "le chat", "--stack", "cross", "--view", added_view)
    one = ("--text", "the cat", "-o", str(tmp_path / "x.csv"))
    assert cli.main([*wish, *one, "--layer", "0", "--head", "0,1"]) == 2
    assert f"The view '{added_view}' shows one head, not 2." in capsys.readouterr().err
    (tmp_path / "lines.txt").write_text("the cat\nthe dog sat\n")
    each = ("-f", str(tmp_path / "lines.txt"), "--each", "-o", str(tmp_path / "of{n}-{head}.csv"))
    assert cli.main([*wish, *each, "--layer", "0"]) == 0, capsys.readouterr().err
    assert [file.name for file in sorted(tmp_path.glob("of*"))] == [
        f"of{line}-L0H{head}.csv" for line in (1, 2) for head in (0, 1)
    ]


@pytest.mark.qt
def test_that_the_export_dialog_offers_it(added_view: str, tiny_model: str, qtbot) -> None:
    made = at.figure(at.load(tiny_model).trace("the cat", "le chat"), added_view)
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    offered = offered_figures(desk.session, ViewState(), {})
    assert list(offered)[:4] == ["grid", "head", "lines", "panels"]
    assert offered[added_view].head_map.head == ref(0, 1)
    choices = ExportChoices({made.spec.view: made.spec}, made.spec.view)
    qtbot.addWidget(choices)
    assert choices.views.currentText() == "weight that each key gets"
    assert type(choices.apply(made.spec)) is type(made.spec)
    assert not choices.values.isEnabled()


def test_that_the_help_names_it(added_view: str) -> None:
    (page,) = (page for page in read_help(resources_folder() / "help") if page.name == "export")
    assert "`received`" in page.text

"""A drawn mask in words: the same numbers everywhere, nothing counted as drawn that is the model's own."""

import re
from dataclasses import replace

import numpy as np
import pytest
from session_samples import Desk, info

from attnscope.paths import resources_folder
from attnscope.records import UseMask
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.session import MaskState, in_words
from attnscope.widgets.explore import ChangeList, OutputPanel

pytestmark = pytest.mark.qt


def counts(text):
    return re.search(r"([\d,]+ of [\d,]+) cells", text)[1]


def test_that_dialog_chip_and_tooltip_count_the_same_cells(qtbot):
    desk = Desk().open(info("decoder"))
    state = MaskState(desk.session)
    state.set_window(1)
    state.use_preset("window")
    changes = ChangeList(desk.session)
    qtbot.addWidget(changes)
    (mask,) = desk.session.interventions
    # of 4 tokens: 1 + 2 + 2 + 2 cells at most one place back, of 1 + 2 + 3 + 4 that causality leaves
    assert counts(state.drawn.count_sentence) == "7 of 10"
    assert counts(mask.sentence) == "7 of 10"
    assert counts(in_words(mask, None)) == "7 of 10"


def test_that_cells_of_later_tokens_count_for_an_encoder_alone():
    full = np.ones((3, 3), bool)
    assert counts(UseMask.of_cells("decoder", full).sentence) == "6 of 6"
    assert counts(UseMask.of_cells("encoder", full).sentence) == "9 of 9"


def test_that_the_number_of_a_mask_stands_before_anything_that_may_be_cut_off():
    mask = UseMask.of_cells("encoder", np.eye(300, dtype=bool), "of a very long file name.txt")
    assert in_words(mask, None).startswith("mask: 300 of 90,000 cells")


def test_that_a_preset_that_is_the_models_own_mask_draws_none():
    desk = Desk().open(info("decoder"))
    state = MaskState(desk.session)
    state.use_preset("itself")
    assert isinstance(state.mask, UseMask)
    desk.answer()
    state.use_preset("full")
    assert desk.session.interventions == ()
    assert state.drawn.count_sentence == "10 of 10 cells allowed · the model's own mask"


def test_that_heads_which_allow_different_cells_leave_every_preset_a_drawn_one():
    desk = Desk().open(info("decoder"))
    traced = desk.session.traced
    grid = traced.grids[0]
    levels = grid.levels.copy()
    levels[0, 3, 0] = 0
    desk.session.tracing.show(replace(traced, grids=(replace(grid, levels=levels), *traced.grids[1:])))
    state = MaskState(desk.session)
    state.use_preset("full")
    assert isinstance(state.mask, UseMask)


def test_that_text_the_mask_keeps_from_being_written_is_explained(qtbot):
    desk = Desk().open(info("decoder"))
    session = desk.session
    panel = OutputPanel(session, ViewState())
    qtbot.addWidget(panel)
    assert panel.unwritten.isHidden()
    MaskState(session).use_preset("itself")
    comparison = session.traced.comparison
    after = replace(comparison.after, generated="")
    session.tracing.show(replace(session.traced, comparison=replace(comparison, after=after)))
    assert not panel.unwritten.isHidden()
    assert "the mask covers only this text" in panel.unwritten.text()
    assert panel.texts[1].isHidden()
    nothing = replace(after, predictions=())
    no_number = replace(comparison, before=nothing, after=nothing, kl_nats=(), refused="It is no number.")
    session.tracing.show(replace(session.traced, comparison=no_number))
    assert not panel.unwritten.isHidden()
    assert panel.unwritten.text() == "It is no number."
    assert panel.table.isHidden()


def test_that_nothing_on_screen_calls_a_cell_masked_forbidden_or_hidden():
    package = resources_folder().parent / "attnscope"
    pictures = [*package.glob("figures/*.py"), package / "widgets/explore/head_view.py"]
    others = [*package.glob("widgets/**/*.py"), *package.glob("viewmodels/**/*.py")]
    others += [*resources_folder().glob("help/*.md"), *resources_folder().glob("tours/*.toml")]
    assert len(pictures) > 20
    assert len(others) > 100
    of_cells = re.compile(r"\bforbidden\b(?!_weight)|hidden by the mask|cells hidden|is masked\b")
    found = [f"{path.name}: {line}" for path in (*pictures, *others) for line in told(path, of_cells)]
    found += [f"{path.name}: {line}" for path in pictures for line in told(path, re.compile('"masked"'))]
    assert found == []


def told(path, wrong):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if wrong.search(line)]

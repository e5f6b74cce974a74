"""What is exported while a pass goes on is marked as a part."""

from dataclasses import replace

from session_samples import Desk, info, ref

from attnscope.viewmodels import ViewState
from attnscope.widgets.export import offered_figures


def test_that_a_figure_of_a_part_holds_the_known_layers_and_says_so():
    desk = Desk().open(info("encoder-decoder"))
    session = desk.session
    session.select_heads((ref(0, 1),))
    whole = offered_figures(session, ViewState(), {})["grid"]
    session.tracing.show(replace(session.traced, known=frozenset({("encoder", 0)}), measures=()))
    part = offered_figures(session, ViewState(), {})["grid"]
    assert [grid.site.layer for grid in whole.grids] == [0, 1]
    assert [grid.site.layer for grid in part.grids] == [0]
    assert "only 1 of 6 layers are known" in part.caption.note
    assert "known" not in whole.caption.note

"""The lab of order: which controls it has."""

from dataclasses import replace

from attnscope.figures.lab_charts import order_cells
from attnscope.viewmodels.labs.order import Order, OrderChoice, compare_orders
from attnscope.widgets.labs.controls import Write
from attnscope.widgets.labs.field_controls import redraw, slide, switch
from attnscope.widgets.labs.lab_view import LabPlan


def order_plan() -> LabPlan[OrderChoice, Order]:
    """Attention without positions is blind to order."""
    return LabPlan(
        title="Order blindness",
        example=OrderChoice(),
        resolve=compare_orders,
        controls=(
            Write(
                name="A",
                tip="A sentence of at most 8 words",
                get=lambda c: c.first,
                change=lambda c, v: replace(c, first=v),
            ),
            Write(
                name="B",
                tip="The same words in another order",
                get=lambda c: c.second,
                change=lambda c, v: replace(c, second=v),
            ),
            slide(
                "positions",
                "How strongly sinusoidal positions are added to the words; 0 leaves them out",
                "position_scale",
                tuple(k / 10 for k in range(21)),
                text=lambda v: f"× {v:.1f}" if v else "none",
            ),
            switch("causal mask", "Each word sees only itself and what came before", "is_causal"),
            redraw("Other weights", "Draw other random words and projections"),
        ),
        cells=order_cells,
        stretches=(4, 3),
        figure_mm=(220.0, 175.0),
    )

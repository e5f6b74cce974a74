"""Made-up gold links and alignment numbers, for the tests of the state and of the bar."""

import numpy as np
from session_samples import ref

from attnscope.records import AlignmentTable, GoldCell

HEADS = tuple(ref(layer, head, "cross") for layer in (0, 1) for head in (0, 1))
CELLS = (GoldCell(rows=(0, 1), cols=(1, 2), is_sure=True, words=("le", "the")),)


def table(*rates: float) -> AlignmentTable:
    """Error rates of the four heads and the two layer means."""
    numbers = np.array(rates, np.float32)
    return AlignmentTable(
        model="m", corpus="c", heads=HEADS, layers=(0, 1), error_rate=numbers, low=numbers, high=numbers,
        precision=1 - numbers, recall=1 - numbers, precision_low=numbers, precision_high=numbers,
        recall_low=numbers, recall_high=numbers, n_texts=1,
    )  # fmt: skip

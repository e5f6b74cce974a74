"""A HeadsState with a made-up table, for the tests of the state and of the page."""

import numpy as np
from session_samples import info, state_of
from told import names_told

from attnscope.records import (
    MEASURE_NAMES,
    N_TELLING,
    OFFSET_REACH,
    Estimate,
    Findings,
    HeadCard,
    HeadsMeasured,
    HeadTable,
    MeasureHeads,
    ModelLoaded,
    Role,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.session import Session


def make_table(heads: tuple) -> HeadTable:  # type: ignore[type-arg]
    n, m = len(heads), len(MEASURE_NAMES)
    values = (np.arange(n * m, dtype=np.float32).reshape(n, m) * 7 % 11) / 11
    values[:, MEASURE_NAMES.index("norm")] = np.nan
    counts = np.where(np.isnan(values), 0, 4).astype(np.int32)
    return HeadTable(
        model="m",
        corpus="c",
        heads=heads,
        names=MEASURE_NAMES,
        values=values,
        low=values - 0.01,
        high=values + 0.01,
        counts=counts,
        offsets=np.zeros((n, 2 * OFFSET_REACH + 3), np.int32),
        best_offsets=np.full(n, -1, np.float32),
        offset_shares=np.tile(np.eye(2 * OFFSET_REACH + 1, dtype=np.float32)[OFFSET_REACH - 1], (n, 1)),
        telling=np.full((n, m, N_TELLING), -1, np.int32),
        n_texts=4,
        n_tokens=20,
    )


def make_cards(heads: tuple) -> tuple[HeadCard, ...]:  # type: ignore[type-arg]
    estimate = Estimate(value=0.95, low=0.9, high=1.0, n=4)
    role = Role(
        name="positional",
        sentence="attends to the previous token",
        strength=1.1,
        estimate=estimate,
        measure="previous",
    )
    return tuple(
        HeadCard(head=head, sentence="attends to the previous token", roles=(role,))
        if index == 0
        else HeadCard(head=head, sentence="has no single role", roles=(), leaning="first")
        for index, head in enumerate(heads)
    )


class HeadsDesk:
    def __init__(self) -> None:
        self.posted: list[object] = []
        self.session = Session(Requests(self.posted.append))
        self.state = state_of("heads", self.posted.append, session=self.session)
        self.told = names_told(self.state.changed)

    def open(self, form: str = "encoder-decoder") -> None:
        self.info = info(form)
        self.session.opening.load("m")
        loaded = ModelLoaded(number=self.posted[-1].number, info=self.info)  # type: ignore[attr-defined]
        self.session.handle(loaded)
        self.state.handle(loaded)

    def newest(self, kind: type) -> object:
        return next(one for one in reversed(self.posted) if isinstance(one, kind))

    def measure(self) -> None:
        self.state.run()
        heads = tuple(head for site in self.info.sites for head in site.heads)
        number = self.newest(MeasureHeads).number  # type: ignore[attr-defined]
        self.state.handle(
            HeadsMeasured(number=number, found=Findings(table=make_table(heads), cards=make_cards(heads)))
        )

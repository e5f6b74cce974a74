"""The lab on reversible layers: what it counts, against what autograd says it saves."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.labs import LABS
from attnscope.records import ExperimentAnswer, StoreQuestion
from attnscope.workers.experiments.storing import Ledger, measure_stores

LAB = LABS["Reversible layers"]

SMALL = StoreQuestion(n_layers=4, d_model=32, n_tokens=16)


def test_that_kept_bytes_grow_with_plain_layers_alone_and_errors_are_rounding() -> None:
    *_, last = measure_stores(SMALL)
    rows = {(row.keeping, row.n_layers): row for row in last.finding.rows}
    assert last.is_done
    assert [n for keeping, n in rows if keeping == "plain"] == [1, 2, 4]
    plain, again = ([rows[keeping, n] for n in (1, 2, 4)] for keeping in ("plain", "reversible"))
    grown = np.diff([row.kept_bytes for row in plain])
    assert grown[1] == 2 * grown[0] > 0
    assert len({row.kept_bytes for row in again}) == 1
    assert len({row.most_bytes for row in again[1:]}) == 1  # a single layer has no other stream before it
    assert again[-1].kept_bytes < again[-1].most_bytes < plain[-1].most_bytes
    assert len(last.finding.errors) == len(last.finding.wide_errors) == 4
    assert max(last.finding.errors) < 2e-6
    assert max(last.finding.wide_errors) < 1e-14
    answer = ExperimentAnswer(finding=last.finding, is_exact=True)
    shown = LAB.resolve(replace(LAB.example, n_layers=4, d_model=32, n_tokens=16, answer=answer))
    assert "times the time" in shown.words.sentence
    lab = LABS["Reversible layers"]
    kept, _, found = lab.charts(shown)
    np.testing.assert_array_equal(kept.series[0].ys * 1e6, [row.kept_bytes for row in plain])
    np.testing.assert_array_equal(found.series[0].ys, last.finding.errors)


@pytest.mark.parametrize("n", [1, 3])
def test_that_a_storage_counts_once_until_its_last_holder_lets_go(n: int) -> None:
    ledger, weight = Ledger(set()), torch.ones(5, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(ledger.pack, ledger.unpack):
        y = weight
        for _ in range(n):
            y = y.exp()  # keeps what it gave
        assert ledger.now == n * 5 * 4
        z = y * y  # keeps it twice more
        assert ledger.now == n * 5 * 4
    z.sum().backward()
    del y, z
    assert ledger.now == 0
    assert ledger.most == n * 5 * 4

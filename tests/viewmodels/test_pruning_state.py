"""What the dialog that removes heads knows: one attempt at a time, late replies change nothing."""

import dataclasses
from typing import Any

from pruning_samples import GATES, REPORT
from session_samples import state_of
from told import names_told

from attnscope.records import (
    Failed,
    ForgetPruned,
    Gates,
    ModelSize,
    Progress,
    PrunedSaved,
    PruningTried,
    SavePruned,
    SpeedChange,
    TryPruning,
)
from attnscope.viewmodels.heads import (
    folded_sentence,
    outcome_words,
    removed_by_site,
    removed_title,
    report_rows,
    speed_words,
)


def begun() -> tuple[Any, list]:
    posted: list = []
    state = state_of("pruning", posted.append)
    state.begin(GATES, "the cat", None)
    return state, posted


def tried() -> tuple[Any, list]:
    state, posted = begun()
    state.handle(PruningTried(number=posted[-1].number, report=REPORT, shapes=("small", "same")))
    return state, posted


def test_that_an_attempt_goes_from_trying_to_saved():
    state, posted = begun()
    assert posted == [TryPruning(number=posted[0].number, gates=GATES, text="the cat")]
    assert (state.step, state.can_save, state.is_working) == ("trying", False, True)
    state.save("/m")
    assert len(posted) == 1
    state.handle(Progress(number=posted[0].number, what="Comparing", fraction=0.5))
    assert (state.what, state.fraction) == ("Comparing…", 0.5)
    state.handle(PruningTried(number=posted[0].number, report=REPORT, shapes=("small",)))
    assert (state.step, state.can_save) == ("tried", True)
    state.save("/m")
    assert posted[-1] == SavePruned(number=posted[-1].number, tried=posted[0].number, folder="/m")
    assert state.is_working
    state.handle(PrunedSaved(number=posted[-1].number, report=dataclasses.replace(REPORT, folder="/m")))
    assert outcome_words(state).title == "Saved in /m."


def test_that_another_shape_is_another_attempt():
    state, posted = tried()
    state.set_shape("small")
    assert len(posted) == 1
    state.set_shape("same")
    assert posted[-1].shape == "same"
    assert state.report is None
    state.handle(PruningTried(number=posted[0].number, report=REPORT, shapes=("small",)))
    assert state.report is None  # the answer to the attempt before


def test_that_a_failed_attempt_and_a_failed_save_are_told():
    state, posted = begun()
    state.handle(Failed(number=posted[0].number, request="TryPruning", message="No head is off."))
    assert (state.step, state.can_save, outcome_words(state).title) == ("failed", False, "No head is off.")
    assert outcome_words(state).is_error
    state, posted = tried()
    state.save("/full")
    state.handle(Failed(number=posted[-1].number, request="SavePruned", message="The disk is full."))
    assert (state.step, state.can_save, outcome_words(state).title) == ("tried", True, "The disk is full.")
    state.handle(Failed(number=0, request="LoadModel", message="other"))
    assert state.message == "The disk is full."


def test_that_closing_lets_the_copy_go():
    state, posted = tried()
    told = names_told(state.changed)
    state.forget()
    assert isinstance(posted[-1], ForgetPruned)
    assert (state.step, state.report, told) == ("idle", None, ["pruning"])
    state.handle(PruningTried(number=posted[0].number, report=REPORT, shapes=("small",)))
    assert state.step == "idle"


def test_that_a_copy_that_differs_cannot_be_saved():
    state, posted = begun()
    bad = dataclasses.replace(REPORT, proof=dataclasses.replace(REPORT.proof, max_difference=1.0))
    state.handle(PruningTried(number=posted[0].number, report=bad, shapes=("small",)))
    assert not state.can_save
    assert outcome_words(state).is_error
    assert "differs" in outcome_words(state).title


def test_that_heads_are_listed_by_site_in_the_model_s_order():
    assert removed_by_site(GATES) == (("encoder L0", "H0, H1"), ("decoder L1", "H3"), ("cross L0", "H1"))
    assert removed_title(GATES, "tiny") == "Remove 4 heads from tiny"
    assert folded_sentence(GATES).startswith("1 head is partly on")
    assert folded_sentence(Gates()) == ""


def test_that_before_and_after_are_told_with_what_is_known():
    rows = {row.name: row for row in report_rows(REPORT)}
    assert (rows["Parameters"].before, rows["Parameters"].after) == ("1,000", "800")
    assert rows["Parameters"].change == "−20.0 %"
    assert rows["Weights"].before == "4 kB"
    on_disk = dataclasses.replace(
        REPORT,
        before=ModelSize(n_parameters=10, n_bytes=40, file_bytes=999_999),
        after=ModelSize(n_parameters=10, n_bytes=40, file_bytes=999_999),
        speed=None,
    )
    found = [(row.name, row.before, row.change) for row in report_rows(on_disk)]
    assert found == [("Parameters", "10", "unchanged"), ("Weights on disk", "1 MB", "unchanged")]


def test_that_no_speed_is_claimed_where_the_spread_holds_one():
    def words(low: float, ratio: float, high: float) -> str:
        return speed_words(
            SpeedChange(
                before_ms=2, after_ms=1, ratio=ratio, ratio_low=low, ratio_high=high, n_turns=9, n_tokens=4
            )
        )

    assert words(0.9, 1.1, 1.3) == "0.90 to 1.30 × as fast: not certain"
    assert words(1.1, 1.2, 1.3) == "1.20 × as fast (1.10 to 1.30)"
    assert words(0.7, 0.8, 0.9) == "0.80 × as fast (0.70 to 0.90)"

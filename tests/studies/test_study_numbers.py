"""What the studies compute, on numbers whose answer is known."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_models import SENTENCE, tiny_model

from attnscope.errors import UserError
from attnscope.paths import resources_folder
from attnscope.records import CollapseCurve, HeadRef
from attnscope.studies.making import agreement_text, csv_of, ours_text, report_of, study_table
from attnscope.studies.study import (
    Choices,
    PaperComparison,
    Study,
    find_card,
    find_study,
    studies,
    study_module,
)
from attnscope.text import Example

collapse = study_module("collapse")
cubic_line = collapse.cubic_line
growth = collapse.growth
flow = study_module("flow")
METHODS = flow.METHODS
PUBLISHED = flow.PUBLISHED
Decision = flow.Decision
blank_out = flow.blank_out
decision_of = flow.decision_of
ranks_of = flow.ranks_of
spearman = flow.spearman
word_weights = flow.word_weights
induction = study_module("induction")
correlation = induction.correlation
middle_of = induction.middle_of
window_of = induction.window_of
pruning = study_module("pruning-curve")
orders = pruning.orders
removable_share = pruning.removable_share
roles = study_module("roles")
Closing = roles.Closing
StackSubject = roles.StackSubject
fewest_kept = roles.fewest_kept
telling_row = roles.telling_row


def cubes(n: int, start: float = 0.4, c: float = 2.0) -> list[float]:
    ratios = [1.0, start]
    while len(ratios) < n:
        ratios.append(c * ratios[-1] ** 3)
    return ratios


def test_that_cubing_grows_by_3_and_an_exponential_fall_by_1() -> None:
    assert growth(cubes(5)) == pytest.approx(3.0)
    assert growth([0.5**layer for layer in range(8)]) == pytest.approx(1.0)
    assert growth([*cubes(5), 1e-16, 1e-16]) == pytest.approx(3.0)  # rounding at the bottom is left out
    assert math.isnan(growth([1.0, 0.5, 0.1]))
    assert math.isnan(growth([0.5, 0.6, 0.7, 0.8]))


def test_that_the_theorys_line_follows_what_cubes_exactly() -> None:
    ratios = cubes(6)
    line = cubic_line(ratios, floor=1e-30)
    assert math.isnan(line[0])
    np.testing.assert_allclose(line[1:], ratios[1:], rtol=1e-9)
    assert all(math.isnan(value) for value in cubic_line([1.0, 0.9, 0.8]))


def test_that_a_change_has_its_middle_and_window_where_a_hand_finds_them() -> None:
    steps, ramp = (0, 10, 20, 30), (0.0, 0.0, 1.0, 1.0)
    assert middle_of(steps, ramp) == pytest.approx(15.0)
    assert window_of(steps, ramp) == pytest.approx(8.0)
    assert middle_of(steps, [1 - value for value in ramp]) == pytest.approx(15.0)
    assert math.isnan(middle_of(steps, (1.0, 1.0, 1.0, 1.0)))
    assert correlation((1, 2, 3), (3, 2, 1)) == pytest.approx(-1.0)
    assert math.isnan(correlation((1, 2, 3), (1, 1, 1)))


def test_that_equal_numbers_share_their_rank_and_ranks_correlate() -> None:
    assert ranks_of([3.0, 1.0, 3.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]
    assert spearman([1, 2, 3, 4], [1, 4, 9, 16]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


def test_that_heads_are_removable_until_the_accuracy_first_falls() -> None:
    assert removable_share((0, 2, 4, 6, 8), (0.9, 0.9, 0.895, 0.5, 0.9), 8) == 0.5
    assert removable_share((0, 8), (0.9, 0.1), 8) == 0.0
    seeds = [order.seed for order in orders(3, 7) if order.ranking == "random"]
    assert seeds == [7, 8, 9]


def test_that_the_fewest_heads_that_do_it_are_chosen() -> None:
    heads = tuple(HeadRef(stack="encoder", layer=0, head=h) for h in range(4))

    def closing(n_kept: int, accuracy: float) -> Closing:
        return Closing(
            stack="encoder", penalty=0.1, kept=heads[:n_kept], n_heads=4, accuracy=accuracy, loss=1.0
        )

    found = [closing(4, 0.9), closing(2, 0.89), closing(1, 0.5)]
    assert fewest_kept(found, "encoder", 0.88) is found[1]
    assert fewest_kept(found, "cross", 0.0) is None


def test_that_gates_of_one_stack_see_no_other() -> None:
    from attnscope.analysis import heads_of, subject_of

    subject = StackSubject(subject_of(tiny_model("encoder-decoder")), "cross")
    assert {head.stack for head in heads_of(subject)} == {"cross"}


def test_that_blanking_out_is_the_same_as_writing_an_unknown_word() -> None:
    model = tiny_model("decoder")
    words, (right, wrong) = SENTENCE.split(), (7, 9)
    positions = tuple(range(1, len(words) + 1))
    decision = Decision(
        text=SENTENCE, right_id=right, wrong_id=wrong, positions=positions, subject=positions[1]
    )
    p, importance = blank_out(model, decision)

    def probability(text: str) -> float:
        logits = model.trace(text).logits
        assert logits is not None
        return 1 / (1 + math.exp(logits[-1, wrong] - logits[-1, right]))

    assert p == pytest.approx(probability(SENTENCE), abs=1e-6)
    for place in range(len(words)):
        blanked = " ".join([*words[:place], "zebra", *words[place + 1 :]])
        assert importance[place] == pytest.approx(abs(p - probability(blanked)), abs=1e-6)


def test_that_the_first_layer_of_flow_and_rollout_is_half_raw_attention() -> None:
    model = tiny_model("decoder")
    positions = tuple(range(1, len(SENTENCE.split()) + 1))
    decision = Decision(text=SENTENCE, right_id=7, wrong_id=9, positions=positions, subject=positions[1])
    found = word_weights(model, decision)
    own = np.zeros(len(positions))
    own[-1] = 0.5
    np.testing.assert_allclose(found["rollout"][0], 0.5 * found["raw"][0] + own, atol=1e-6)
    np.testing.assert_allclose(found["flow"][0], found["rollout"][0], atol=1e-6)
    assert {len(found[method]) for method in METHODS} == {2}
    assert {len(rows) for rows in PUBLISHED.values()} == {6}


def test_that_a_model_of_other_words_is_refused_for_agreement() -> None:
    example = Example(source="the key is", links=((1, 1),), n_given=2)
    with pytest.raises(UserError, match="word by word"):
        decision_of(tiny_model("decoder"), example, ("is", "unheard of"))


def test_that_every_study_is_found_by_name_and_others_are_refused() -> None:
    names = ("collapse", "induction", "pruning-curve", "flow", "roles", "syntax", "length")
    assert tuple(card.name for card in studies()) == names
    for card in studies():
        assert callable(find_study(card.name))
        assert study_module(card.name).CARD == card == find_card(card.name)
    with pytest.raises(UserError, match=names[0]):
        find_card("alchemy")


A_STUDY = """
from attnscope.studies.study import Choices, PaperComparison, Study, StudyCard

CARD = StudyCard(name="made-up", place=0, paper="Nobody 2020, Nothing", question="Is one one?")


def reproduce(choices: Choices):
    yield choices.model
"""


def test_that_a_file_beside_the_studies_is_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "made_up.py").write_text(A_STUDY, encoding="utf-8")
    monkeypatch.setattr("attnscope.studies.study.resources_folder", lambda: tmp_path)
    assert [card.question for card in studies()] == ["Is one one?"]
    try:
        assert next(find_study("made-up")(Choices(folder=tmp_path, model="stories"))) == "stories"
    finally:
        sys.modules.pop("study_made_up", None)


def test_that_a_study_needs_neither_window_nor_worker_nor_command_line() -> None:
    outside = {"app", "boot", "cli", "drawing", "hooks", "hub", "lifetime", "smoke", "widgets", "workers"}
    for path in (resources_folder() / "studies").glob("*.py"):
        names = re.findall(r"^\s*(?:from|import) ([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        ours = {name.split(".")[1] for name in names if name.startswith("attnscope.")}
        assert ours
        assert not ours & outside, path.name


def a_study() -> Study:
    curve = CollapseCurve(stack="encoder", has_skips=True, has_feed_forward=True, ratios=(1.0, 0.5))
    rows = (
        PaperComparison(
            what="a | b", published="3", where="table 1", ours=2.5, low=2.0, high=3.0, unit="times"
        ),
        PaperComparison(
            what="none", published="—", where="—", ours=math.nan, is_as_published=False, remark="too short"
        ),
    )
    return Study(
        name="sample",
        paper="Somebody 2020, Why?",
        question="Is it so?",
        setting=(("seed", "1"),),
        comparisons=rows,
        differences=("Ours is small.",),
        charts=(collapse.collapse_chart((curve,)),),
        columns=("layer", "ratio"),
        data=((0, 1.0), (1, math.nan)),
    )


def test_that_a_report_has_published_beside_ours_and_no_number_that_is_none() -> None:
    report = report_of(a_study())
    assert "| a \\| b | 3 | table 1 | 2.5 (2 to 3) times | — |" in report
    assert "| none | — | — | — | no |" in report
    assert "After Somebody 2020, Why?\n" in report
    assert "- none: too short" in report
    assert "- Ours is small." in report
    assert ours_text(a_study().comparisons[0]) == "2.5 (2 to 3) times"
    assert csv_of(("layer", "ratio"), a_study().data) == "layer,ratio\n0,1.0\n1,\n"
    assert study_table(a_study())["columns"] == ["layer", "ratio"]


def test_that_a_row_of_the_wrong_length_is_no_table() -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="3 cells"):
        replace(a_study(), data=((1, 2, 3),))


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((3, 7, 2, 9), "too few heads to tell"),
        ((9, 10, 1, 10), "yes"),
        ((0, 10, 9, 10), "no"),
        ((1, 1, 0, 1), "too few heads to tell"),
    ],
)
def test_that_shares_of_few_heads_claim_nothing(counts: tuple[int, int, int, int], said: str) -> None:
    row = telling_row("encoder", *counts)
    assert agreement_text(row) == said
    assert f"{counts[0]} of {counts[1]}, against {counts[2]} of {counts[3]}" in ours_text(row)
    assert row.ours == counts[0] / counts[1]

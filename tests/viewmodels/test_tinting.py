"""What frames the heads: off at first, measures of the text, columns of the table."""

import math

from curve_samples import HEADS, CurvesDesk, importance
from told import names_told


def test_that_frames_follow_the_choice_and_the_numbers() -> None:
    desk = CurvesDesk().loaded()
    tints = desk.tints
    told = names_told(tints.changed)
    assert (tints.key, tints.choice, told) == ("", None, [])
    assert {choice.group for choice in tints.choices} == {"on this text"}
    tints.choose("text:confidence")
    assert told == ["tint"]
    assert tints.share(HEADS[3]) == 1.0
    assert math.isclose(tints.values[HEADS[0]], 0.5)
    tints.choose("text:diagonal")
    assert tints.share(HEADS[-1]) is None
    desk.heads.rank((importance(),))
    tints.choose_column("importance_gradient")
    assert tints.choice is not None
    assert tints.choice.group == "importance"
    assert (tints.share(HEADS[0]), tints.share(HEADS[-1])) == (0.0, 1.0)
    assert tints.words(HEADS[-1]) == "0.0110"
    desk.heads.rank(())
    assert (tints.choice, tints.values) == (None, {})
    desk.heads.rank((importance(),))
    assert tints.choice is not None
    tints.choose("")
    assert tints.values == {}

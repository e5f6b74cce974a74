"""The speed of a run: that of the last half minute, not of the whole run."""

from attnscope.viewmodels.training import StepPace


def test_that_the_speed_is_that_of_the_last_half_minute() -> None:
    clock = [0.0]
    pace = StepPace(lambda: clock[0])

    def reached(second: float, step: int) -> float | None:
        clock[0] = second
        pace.note(step)
        return pace.steps_per_s

    assert reached(0.0, 0) is None
    assert reached(0.9, 4) is None, "the first steps, which are slow, tell nothing yet"
    assert reached(10.0, 100) == 10.0
    assert reached(30.0, 160) == 160 / 30
    assert reached(31.0, 161) == 61 / 21
    assert reached(80.0, 308) == 3.0
    assert pace.remaining(60) == "about 20 s left"
    assert pace.remaining(0) == ""
    pace.restart()
    assert pace.remaining(60) == ""

"""Tours as files: read strictly, and scenes that build on each other."""

import pytest

from attnscope.errors import LoadError
from attnscope.records import Gates, HeadRef
from attnscope.viewmodels.tours import Claim, read_tours, tour_from_toml

_HEAD = 'title = "A"\ntheme = "b"\norder = 1\n'
_STEP = '[[step]]\ntitle = "One"\ntext = "See {weight}."\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title = ", "Invalid value"),
        (_HEAD, "no list of 1 to 24 steps"),
        (_HEAD + "colour = 1\n" + _STEP, "'colour' is not known"),
        (_HEAD.replace("1", "true") + _STEP, "the key 'order': True is not a whole number"),
        (_HEAD + '[[step]]\ntitle = "One"\n', "the key 'step 1.text': it is missing"),
        (_HEAD + _STEP + 'point = "moon"\n', "the key 'step 1.point': 'moon' is not one of page, text,"),
        (_HEAD + _STEP + '[step.do]\nrun = "rm"\n', "the key 'step 1.do': 'run' is not known"),
        (_HEAD + _STEP + '[step.do]\nhead = "L1H2"\n', "'L1H2' is not a head like"),
        (_HEAD + _STEP + '[step.do]\ngates = ["cross L1H2 2"]\n', "The gate of L1H2 .cross. is 2.0"),
        (_HEAD + _STEP + '[step.do]\ngates = ["cross L1H2 off"]\n', "is not a gate like"),
        (_HEAD + _STEP.replace("One", " "), "the key 'step 1.title': it is not a text of 1 to 80"),
        (_HEAD.replace("b", "b" * 161) + _STEP, "the key 'theme': it is not a text of 1 to 160"),
        (_HEAD + _STEP + f'formula = "{"x" * 161}"\n', "it has 161 characters, at most 160 are read"),
        (
            _HEAD + _STEP + "[step.do]\ntrains = false\n",
            "do.trains': False is not one of True",
        ),
        (_HEAD + _STEP + '[step.do]\ntarget = "la"\n', "'target' is given without 'text'"),
        (_HEAD + _STEP + 'task = "Do it."\n', "'task' and 'ask' go together"),
        (_HEAD + _STEP + 'expect = ["weight about 1"]\n', "is not a claim like"),
    ],
)
def test_that_a_fault_of_a_tour_is_refused_by_name(text, reason):
    with pytest.raises(LoadError, match=f"The tour 'mine' cannot be read: .*{reason}"):
        tour_from_toml(text, name="mine")


def test_that_a_folder_without_tours_has_none_and_a_huge_file_is_refused(tmp_path):
    assert read_tours(tmp_path) == ()
    (tmp_path / "a.toml").write_text("# " + "x" * 200_000)
    with pytest.raises(LoadError, match="larger than"):
        read_tours(tmp_path)


def test_that_a_scene_is_all_that_was_said_before_it():
    steps = [
        'do = { model = "m", text = "t", page = "explore", tab = "Write", head = "cross L0H1",'
        ' query = "a" }\n',
        'do = { gates = ["cross L0H1 0"] }\ntask = "Look."\nask = { view = "lines" }\n',
        'do = { page = "heads" }\n',
        'do = { model = "n", text = "u" }\n',
    ]
    tour = tour_from_toml(_HEAD + "".join(_STEP + step for step in steps), name="mine")
    head = HeadRef(stack="cross", layer=0, head=1)
    second = tour.scene(1)
    assert (second.head, second.query, second.tab) == (head, "a", "Write")
    assert second.gates == Gates.of({head: 0.0})
    assert second.view is None, "what is asked at a step is not yet so when it begins"
    third = tour.scene(2)
    assert (third.page, third.tab, third.view) == ("heads", None, "lines")
    last = tour.scene(3)
    assert (last.text, last.head, last.gates, last.query) == ("u", None, None, None)
    assert tour.scene(0) == tour.scene(0)
    assert tour.steps[0].placeholders == ("weight",)


@pytest.mark.parametrize(
    ("sign", "value", "words", "is_met"),
    [
        ("=", "area", "area", True),
        (">", "0.5", "0.611", True),
        (">", "0.5", "0.5", False),
        ("<", "0", "−3", True),
        ("<", "0.1", "<0.001", True),
        (">", "1000", "1,500", True),
        ("=", "area", None, False),
    ],
)
def test_that_a_claim_is_met_or_not(sign, value, words, is_met):
    assert Claim(name="weight", sign=sign, value=value).is_met(words) is is_met

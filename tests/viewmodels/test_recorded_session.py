"""What stays as it is while recorded attention is open, and when the person is told so."""

import dataclasses

import pytest
from session_samples import info, ref

from attnscope.records import Gates, RemoveEdge
from attnscope.viewmodels.session import Setting, possible

CHANGES = {
    "text": "another",
    "target": "un autre",
    "gates": Gates.of({ref(0, 1): 0.0}),
    "interventions": (RemoveEdge(head=ref(0, 1), query=1, key=0),),
}


class Open:
    """A session in which something is open."""

    def __init__(self, *, is_recorded: bool) -> None:
        self.setting = Setting(text="the text")
        self.model = dataclasses.replace(info(), reads="attention" if is_recorded else "text")
        self.told: list[str] = []

    @property
    def notices(self) -> "Open":
        return self

    def say(self, message: str, **_: object) -> None:
        self.told.append(message)


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_that_nothing_that_needs_a_model_changes(name: str) -> None:
    wish = dataclasses.replace(Setting(text="the text"), **{name: CHANGES[name]})
    recorded, model = Open(is_recorded=True), Open(is_recorded=False)
    assert possible(recorded, wish) == recorded.setting
    assert len(recorded.told) == 1
    assert possible(model, wish) == wish
    assert model.told == []


def test_that_heads_are_chosen_without_a_word() -> None:
    recorded = Open(is_recorded=True)
    wish = dataclasses.replace(recorded.setting, selection=(ref(0, 1),))
    assert possible(recorded, wish) == wish
    assert recorded.told == []


@pytest.mark.parametrize("name", sorted({"gates", "interventions"}))
def test_that_heads_out_of_reach_stay_while_texts_change(name: str) -> None:
    far = Open(is_recorded=False)
    far.model = dataclasses.replace(far.model, has_gates=False)
    wish = dataclasses.replace(Setting(text="another"), **{name: CHANGES[name]})
    assert possible(far, wish) == Setting(text="another")
    assert far.told == [
        f"{far.model.name} computes attention in code of its own: its heads cannot be changed."
    ]

"""What tells the panels of a page apart, and what one caption says of all of them."""

import dataclasses

import pytest
from figure_samples import head_map, spec

from attnscope import Caption
from attnscope.figures import joint_caption, telling_titles
from attnscope.records import Gates, HeadRef

A = Caption(model="A", sha256="a" * 64, text="the cat", target="le chat", note="one")
B = dataclasses.replace(A, model="B", sha256="b" * 64, note="two")


def part(caption: Caption, gates: Gates | None = None):
    return spec("head", caption=caption, maps=(head_map(),), gates=gates or Gates.of({}))


@pytest.mark.parametrize(
    ("captions", "titles"),
    [
        ((A, A), ("", "")),
        ((A, B), ("A", "B")),
        ((A, dataclasses.replace(A, text="a dog")), ("“the cat”", "“a dog”")),
        ((A, dataclasses.replace(A, target="un chien")), ("→ “le chat”", "→ “un chien”")),
        # What the other model writes goes with the model, and tells nothing more.
        ((A, dataclasses.replace(B, target="un chien")), ("A", "B")),
        ((A, B, dataclasses.replace(B, target="un chien")),
         ("A · → “le chat”", "B · → “le chat”", "B · → “un chien”")),
    ],
)  # fmt: skip
def test_that_titles_name_what_is_not_the_same_in_all(captions, titles) -> None:
    assert telling_titles([part(caption) for caption in captions]) == titles


def test_that_gates_tell_panels_apart_but_for_the_own_gate_of_a_head() -> None:
    own, other = head_map().head, HeadRef(stack="decoder", layer=0, head=1)
    assert telling_titles([part(A), part(A, Gates.of({own: 0.0}))]) == ("", "")
    plain, gated = telling_titles([part(A), part(A, Gates.of({other: 0.0}))])
    assert plain == ""
    assert gated != ""


def test_that_one_caption_tells_what_is_shared_once_and_every_model() -> None:
    assert joint_caption([A, A]) == A
    both = joint_caption([A, dataclasses.replace(B, text="a dog", target=None), A])
    assert both.model == f"A (sha256 {'a' * 12}); B (sha256 {'b' * 12})"
    assert (both.sha256, both.text, both.target, both.note) == ("", "", None, "one; two")

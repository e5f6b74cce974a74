import numpy as np
import pytest
import torch
from eager_attention import use_eager_attention
from tiny_models import FORMS, FRENCH, tiny_model

from attnscope.analysis import Patching, patch_map
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records import PartsDone, PatchMap

CLEAN, CORRUPT = "the cat sat on the mat", "a dog sat on the bird"


def texts_of(form: str) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
    target = FRENCH if form == "encoder-decoder" else None
    return (CLEAN, target), (CORRUPT, target)


def map_of(model: Model, kind: str = "stream", **choices: object) -> PatchMap:
    clean, corrupt = texts_of(model.info.form)
    found = list(patch_map(model, clean, corrupt, Patching(kind=kind, answer=7, other=5, **choices)))[-1]  # type: ignore[arg-type]
    assert isinstance(found, PatchMap)
    return found


def difference(model: Model, text: str, position: int = -1) -> float:
    target = FRENCH if model.info.form == "encoder-decoder" else None
    logits = model.network.run(model.encode(text, target)).logits()[position]
    return float(logits[7] - logits[5])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["stream", "head"])
@pytest.mark.parametrize(("run", "value"), [("clean", 1.0), ("corrupt", 0.0)])
def test_that_a_run_patched_with_itself_stays_as_it_is(form: str, kind: str, run: str, value: float) -> None:
    found = map_of(tiny_model(form), kind, donor=run, receiver=run)
    np.testing.assert_allclose(found.patched, value, atol=1e-4)


@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_a_patch_below_the_first_layer_is_another_word(form: str) -> None:
    model = tiny_model(form)
    found = map_of(model)
    clean, corrupt = difference(model, CLEAN), difference(model, CORRUPT)
    assert found.clean_difference == pytest.approx(clean, abs=1e-5)
    assert found.corrupt_difference == pytest.approx(corrupt, abs=1e-5)
    start = 1  # <s>
    for word in range(6):
        words = CORRUPT.split()
        words[word] = CLEAN.split()[word]
        expected = (difference(model, " ".join(words)) - corrupt) / (clean - corrupt)
        assert found.patched[0, start + word] == pytest.approx(expected, abs=1e-4)
    assert found.rows == (f"{form} 0", f"{form} 1")
    assert found.columns[1:3] == ("a", "dog")


def test_that_causal_patches_act_on_later_tokens_only() -> None:
    found = map_of(tiny_model("decoder"), position=3)
    np.testing.assert_allclose(found.patched[:, 4:], 0.0, atol=1e-5)
    assert np.abs(found.patched[:, 1]).max() > 1e-3


def test_that_the_source_stream_of_a_translation_can_be_patched() -> None:
    found = map_of(tiny_model("encoder-decoder"), stack="encoder")
    np.testing.assert_array_equal(map_of(tiny_model("encoder-decoder")).patched, found.patched)
    assert found.columns[0] == "a"
    # The target is the same in both runs, so what enters the decoder is too.
    own = map_of(tiny_model("encoder-decoder"), stack="decoder")
    np.testing.assert_allclose(own.patched[0], 0.0, atol=1e-5)
    assert np.abs(found.patched).max() > 1e-2


@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
def test_that_a_head_patch_is_its_output_exchanged(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(form)
    found = map_of(model, "head")
    clean, corrupt = difference(model, CLEAN), difference(model, CORRUPT)
    kept: dict = {}
    with monkeypatch.context() as patch:
        use_eager_attention(patch, {}, lambda site, out: kept.setdefault(site, out))
        difference(model, CLEAN)
    for row, site in enumerate(model.sites):
        for head in (0, 3):

            def exchange(key, out: torch.Tensor, site=site, head=head) -> torch.Tensor:
                if key != site.key:
                    return out
                out = out.clone()
                out[:, head] = kept[key][:, head]
                return out

            with monkeypatch.context() as patch:
                use_eager_attention(patch, {}, exchange)
                expected = (difference(model, CORRUPT) - corrupt) / (clean - corrupt)
            assert found.patched[row, head] == pytest.approx(expected, abs=1e-4)


def test_that_corrupt_pieces_in_the_clean_run_break_it() -> None:
    model = tiny_model("decoder")
    found = map_of(model, donor="corrupt", receiver="clean")
    words = CLEAN.split()
    words[1] = "dog"
    clean, corrupt = difference(model, CLEAN), difference(model, CORRUPT)
    expected = (difference(model, " ".join(words)) - corrupt) / (clean - corrupt)
    assert found.patched[0, 2] == pytest.approx(expected, abs=1e-4)
    assert (found.donor, found.receiver) == ("corrupt", "clean")


def test_that_impossible_pairs_are_refused_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("decoder")
    with pytest.raises(UserError, match="tokens, the corrupt one"):
        list(patch_map(model, (CLEAN, None), ("the cat", None), Patching()))
    with pytest.raises(UserError, match="prefer the answer"):
        list(patch_map(model, (CLEAN, None), (CLEAN, None), Patching()))
    monkeypatch.setattr("attnscope.analysis.causes._COPIES", 3)
    *progress, _ = patch_map(model, (CLEAN, None), (CORRUPT, None), Patching(answer=7, other=5))
    assert [p.n_done for p in progress if isinstance(p, PartsDone)] == [3, 6, 7, 10, 13, 14]

"""Models of Hugging Face's library behind `Model`: the library's own numbers, its tasks, what they write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_folders import make, save_folder, save_picture, save_recording

from attnscope.errors import LoadError, UserError
from attnscope.models import Inputs, Model, load
from attnscope.models.huggingface import DetachedPass, PooledPass, joined_threads
from attnscope.models.writing import RecomputingWriter, write_text
from attnscope.records import NO_GATES, Gates, WriteSettings

library = pytest.importorskip("transformers")

TEXT, MASKED = "the animal said it", "the [MASK] said it"
LOGITS_ATOL = 1e-5  # float32, sums in another order
WRITING = ("gpt2", "llama", "mistral", "t5", "bart", "whisper")
TEXTUAL = ("bert", "gpt2", "llama", "mistral", "t5", "bart", "bert-classes", "gpt2-classes", "bart-classes")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def opened(folders: Path) -> Any:
    """Models by kind, each saved and opened once."""
    made: dict[str, Model] = {}

    def get(kind: str) -> Model:
        if kind not in made:
            files = (
                {"preprocessor_config": {"feature_size": 16, "chunk_length": 1}} if kind == "whisper" else {}
            )
            made[kind] = load(save_folder(folders / kind, *make(kind), **files), "cpu")
        return made[kind]

    return get


@pytest.fixture
def picture(tmp_path: Path) -> str:
    return save_picture(tmp_path / "picture.png", height=10, width=12)


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return save_recording(tmp_path / "speech.wav")


def own_logits(folders: Path, model: Model, inputs: Any) -> torch.Tensor:
    """What the library itself says about the same tokens, attention included."""
    model_class = getattr(library, model.info.architecture.split()[0])
    with joined_threads():
        theirs = model_class.from_pretrained(folders / model.info.name)
    theirs.eval()
    arguments = {"input_ids": torch.tensor([inputs.source.ids])}
    if inputs.target is not None:
        arguments["decoder_input_ids"] = torch.tensor([inputs.target.ids])
    with torch.no_grad():
        found: torch.Tensor = theirs(**arguments).logits[0]
    return found


def gate_all(model: Model, site: int, value: float = 0.0) -> Gates:
    return Gates.of(dict.fromkeys(model.sites[site].heads, value))


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTUAL)
def test_that_the_logits_are_those_of_the_library(opened: Any, folders: Path, kind: str) -> None:
    model = opened(kind)
    inputs = model.encode(MASKED if kind == "bert" else TEXT)
    expected = own_logits(folders, model, inputs)
    done = model.network.run(inputs)
    positions = model.network.shown_positions(inputs)
    shown = expected[None] if expected.ndim == 1 else expected[positions]
    torch.testing.assert_close(done.logits(positions), shown, rtol=0, atol=LOGITS_ATOL)
    if expected.ndim == 2:
        torch.testing.assert_close(done.logits(), expected, rtol=0, atol=LOGITS_ATOL)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "bart", "whisper"])
def test_that_a_head_is_applied_only_where_it_is_asked_for(
    opened: Any, kind: str, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(kind)
    rows: list[int] = []
    head = model.network.module.get_output_embeddings()
    inputs = model.encode(recording if kind == "whisper" else TEXT)
    hook = head.register_forward_hook(lambda _, arguments, __: rows.append(arguments[0].shape[-2]))
    done = model.network.run(inputs)
    assert isinstance(done, DetachedPass)
    done.logits([0, 0, 0])
    hook.remove()
    assert rows == [1, 3]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5", "bart-classes", "vit", "whisper"])
def test_that_gates_change_the_second_copy_and_never_the_first(
    opened: Any, kind: str, picture: str, recording: str
) -> None:
    model = opened(kind)
    text = {"vit": picture, "whisper": recording}.get(kind, TEXT)
    target = "the" if kind in ("t5", "whisper") else None
    plain = model.predict(text, target, n_continue=0)
    look = model.look(text, target, gate_all(model, 0), n_continue=0)
    for before, alone in zip(look.comparison.before.predictions, plain.predictions, strict=True):
        ours, theirs = ([c.probability for c in side.candidates] for side in (before, alone))
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert max(look.comparison.kl_nats) > 0
    assert look.trace.check().is_good
    assert not model.trace(text, target).check().output_error > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITING)
def test_that_what_is_written_is_what_reading_again_would_write(
    opened: Any, kind: str, recording: str
) -> None:
    network = opened(kind).network
    inputs = network.encode(recording if kind == "whisper" else TEXT)
    written = network.write(inputs, n_tokens=6)
    n_forced = len(network.abilities.forced)
    for n in range(n_forced, len(written)):
        if network.form == "encoder-decoder":
            read = network.own_target(inputs, written[:n])
            last = len(read.target) - 1
        else:
            more = tuple(network.vocabulary.token(id) for id in written[:n])
            read = Inputs(source=replace(inputs.source, tokens=inputs.source.tokens + more))
            last = len(read.source) - 1
        assert int(network.run(read).logits([last]).argmax()) == written[n]
    heard: list[tuple[int, ...]] = []
    for guess in (written, [*written[:2], 9, 9], [7]):
        found = network.write(inputs, n_tokens=6, guess=guess, hear=lambda ids: heard.append(tuple(ids)))
        assert found == written
    assert all(0 < len(ids) < len(written) and list(ids) == written[: len(ids)] for ids in heard)
    assert not heard or network.form == "encoder-decoder"


@pytest.mark.parametrize("kind", ["gpt2", "mistral", "bart", "whisper"])
def test_that_writing_on_gives_the_logits_of_reading_again(opened: Any, kind: str, recording: str) -> None:
    network = opened(kind).network
    inputs = network.encode(recording if kind == "whisper" else TEXT)
    prefix = list(inputs.source.ids)
    source: list[int] = []
    if network.form == "encoder-decoder":
        source, prefix = prefix, list(network.own_target(inputs, ()).target.ids)
    cached, again = network.writer(), RecomputingWriter(network)
    assert cached.is_incremental
    for writer in (cached, again):
        writer.begin(source, prefix)
    for ids, parents in (([5, 6, 7], [0, 0, 0]), ([8, 9], [2, 0])):
        torch.testing.assert_close(
            cached.step(ids, parents), again.step(ids, parents), rtol=0, atol=LOGITS_ATOL
        )


def test_that_a_text_that_is_written_step_by_step_has_a_whole_trace(opened: Any) -> None:
    network = opened("bart").network
    steps = write_text(network, TEXT, WriteSettings(max_tokens=4), NO_GATES)
    written = None
    while written is None:
        try:
            next(steps)
        except StopIteration as stop:
            written = stop.value
    n_rows = len(written.trace.target)
    assert written.trace.records["decoder", 0].q.shape[1] == n_rows
    assert written.trace.check().is_good


def test_that_labels_are_named_and_two_sentences_are_read_together(opened: Any) -> None:
    model = opened("bert-classes")
    assert model.info.takes_target
    output = model.predict(TEXT)
    assert output.kind == "class"
    assert {c.token.piece for c in output.predictions[0].candidates} == {"bad", "good", "unclear"}
    pair = model.look("the animal", "go home").inputs
    assert pair.source.pieces == ("[CLS]", "the", "animal", "[SEP]", "go", "home", "[SEP]")
    one = model.predict("the animal go home").predictions[0].candidates[0].probability
    two = model.predict("the animal", "go home").predictions[0].candidates[0].probability
    assert one != two


def test_that_every_token_gets_a_label_of_its_own(opened: Any) -> None:
    output = opened("bert-tags").predict(TEXT)
    assert [p.context for p in output.predictions] == [f'at "{word}"' for word in TEXT.split()]


def test_that_a_model_without_a_head_shows_attention_and_no_predictions(opened: Any) -> None:
    model = opened("bert-base")
    look = model.look(TEXT, gates=gate_all(model, 1))
    assert look.comparison.after.predictions == ()
    assert look.comparison.after.kind == "nothing"
    assert look.trace.check().is_good
    assert "no output head" in model.info.note


def test_that_a_picture_is_read_as_patches(opened: Any, picture: str, tmp_path: Path) -> None:
    model = opened("vit")
    look = model.look(picture)
    assert look.inputs.source.pieces == ("[CLS]", "0,0", "0,1", "1,0", "1,1")
    assert {c.token.piece for c in look.comparison.after.predictions[0].candidates} == {"cat", "dog"}
    for wrong in (str(tmp_path / "none.png"), "a picture of a cat", str(tmp_path)):
        with pytest.raises(UserError):
            model.trace(wrong)


def test_that_speech_is_read_as_moments_and_written_as_text(
    opened: Any, recording: str, picture: str
) -> None:
    model = opened("whisper")
    look = model.look(recording)
    assert look.inputs.source.pieces[:3] == ("0.00s", "0.02s", "0.04s")
    assert look.inputs.target is not None
    assert look.comparison.after.kind == "translation"
    with pytest.raises(UserError, match="cannot be read as a recording"):
        model.trace(picture)


def test_that_a_recording_with_a_part_longer_than_the_file_is_refused(
    opened: Any, recording: str, tmp_path: Path
) -> None:
    whole = Path(recording).read_bytes()
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(
        whole[:36] + b"LIST" + b"\xff\xff\xff\x00" + whole[44:]
    )  # the samples' own name is gone
    with pytest.raises(UserError, match="cannot be read as a recording: it ends too early"):
        opened("whisper").trace(str(damaged))


def test_that_empty_texts_and_texts_that_are_too_long_are_read(opened: Any) -> None:
    for kind in ("bert", "gpt2", "bart"):
        model = opened(kind)
        assert model.trace("").check().is_good
        long = model.look("the " * 500, n_continue=2)
        assert len(long.inputs.source) == model.info.max_tokens
        assert long.inputs.source.n_dropped > 0
    with pytest.raises(UserError, match="one text only"):
        opened("gpt2").trace(TEXT, "and more")


def test_that_large_outputs_are_not_all_kept() -> None:
    done = PooledPass(torch.arange(6.0).reshape(1, 6), n_tokens=3, pooled_at=2)
    assert done.logits([2]).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert done.logits()[:2].isnan().all()


def test_that_a_model_that_hears_opens_without_its_processor_and_is_refused_with_that_of_another(
    tmp_path: Path, recording: str
) -> None:
    folder = save_folder(tmp_path / "alone", *make("whisper"))
    assert not (folder / "preprocessor_config.json").exists()
    assert load(folder, "cpu").trace(recording, "the").sites
    other = {"feature_size": 80, "chunk_length": 1}
    folder = save_folder(tmp_path / "other", *make("whisper"), preprocessor_config=other)
    with pytest.raises(LoadError, match=r"gives 80 mel bins in 100 frames; .* reads 16 in 100\."):
        load(folder, "cpu")

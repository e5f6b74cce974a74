"""Two texts in models of the BERT kind: segments, logits, maps, losses and measures are the library's.

The library's own model reads its own tokenizer's ids and token types. Tolerance 1e-6 in float32: the same
products in the same order but for the attention itself.
"""

from pathlib import Path
from typing import Any

import hf_folders
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers as library
from tokenizers import Tokenizer, processors

from attnscope.analysis import (
    attribute_logits,
    build_batches,
    encode_corpus,
    run_batch,
    sample_texts,
    subject_of,
    text_losses,
)
from attnscope.cli.main import main
from attnscope.models import load
from attnscope.records import NO_GATES
from attnscope.trace import TraceProbe, load_trace

FIRST, SECOND = "the animal did cross", "it was [MASK]"
SIZES: dict[str, Any] = {"vocab_size": 93, "max_position_embeddings": 24, **hf_folders.SIZES}
MAKERS = {
    "bert": lambda: library.BertForMaskedLM(library.BertConfig(**SIZES)),
    "electra": lambda: library.ElectraForMaskedLM(library.ElectraConfig(**SIZES, embedding_size=16)),
    "albert": lambda: library.AlbertForMaskedLM(library.AlbertConfig(**SIZES, embedding_size=16)),
    "roberta": lambda: library.RobertaForMaskedLM(library.RobertaConfig(**SIZES, type_vocab_size=1)),
}


def tokenizer_of(kind: str) -> Tokenizer:
    made = hf_folders.bert_tokenizer()
    if kind == "roberta":
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] [SEP] $B [SEP]",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    return made


@pytest.fixture(scope="module", params=sorted(MAKERS))
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """A model as AttnScope opened it, and as the library has it, with the library's own reading of texts."""
    torch.manual_seed(1)
    kind, tokenizer = request.param, tokenizer_of(request.param)
    SIZES["vocab_size"] = tokenizer.get_vocab_size()
    theirs = MAKERS[kind]().eval()
    with torch.no_grad():  # segments that matter
        for name, parameter in theirs.named_parameters():
            if "token_type" in name:
                parameter.mul_(40.0)
    folder = hf_folders.save_folder(tmp_path_factory.mktemp(kind), theirs, tokenizer)
    theirs.set_attn_implementation("eager")
    return kind, load(str(folder)), theirs, library.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def said(theirs: Any, read: Any, *texts: str) -> Any:
    fields = read(*texts, return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        return fields, theirs(**fields, output_attentions=True)


@pytest.mark.slow
def test_that_two_texts_give_the_logits_and_the_maps_of_the_library(opened: tuple) -> None:
    kind, model, theirs, read = opened
    fields, expected = said(theirs, read, FIRST, SECOND)
    inputs = model.encode(FIRST, SECOND)
    assert list(inputs.source.ids) == fields["input_ids"][0].tolist()
    assert list(inputs.segments) == fields["token_type_ids"][0].tolist()
    trace = model.trace(FIRST, SECOND)
    assert trace.logits is not None
    assert np.abs(trace.logits - expected.logits[0].numpy()).max() <= 1e-6
    for layer, maps in enumerate(expected.attentions):
        for head in range(4):
            assert np.abs(trace.weights(layer, head) - maps[0, head].numpy()).max() <= 1e-6
    alone = theirs(input_ids=fields["input_ids"]).logits[0]
    assert (float((alone - expected.logits[0]).detach().abs().max()) > 1e-3) == (kind != "roberta")


def test_that_pairs_too_long_are_cut_as_the_library_cuts_them(opened: tuple) -> None:
    _, model, _, read = opened
    words = hf_folders.WORDS
    for n_first, n_second in ((11, 11), (14, 20), (20, 14), (3, 21), (21, 3), (1, 1)):
        texts = " ".join(words[:n_first]), " ".join(words[-n_second:])
        cut = {"truncation": "longest_first", "max_length": model.info.max_tokens}
        fields = read(*texts, return_token_type_ids=True, **cut)
        inputs = model.encode(*texts)
        assert list(inputs.source.ids) == fields["input_ids"], (n_first, n_second)
        assert list(inputs.segments) == fields["token_type_ids"]


def test_that_a_typed_separator_is_read_as_the_pair(opened: tuple) -> None:
    kind, model, _, _ = opened
    middle = "[SEP] [SEP]" if kind == "roberta" else "[SEP]"
    typed, pair = model.trace(f"{FIRST} {middle} {SECOND}"), model.trace(FIRST, SECOND)
    assert [t.segment for t in typed.source.tokens] == [t.segment for t in pair.source.tokens]
    assert typed.logits is not None
    assert pair.logits is not None
    assert np.array_equal(typed.logits, pair.logits)
    three = model.encode(f"{FIRST} [SEP] {SECOND} [SEP] go home")
    assert not any(three.segments)


def test_that_one_text_stays_in_one_segment(opened: tuple) -> None:
    _, model, theirs, read = opened
    _, expected = said(theirs, read, SECOND)
    trace = model.trace(SECOND)
    assert trace.logits is not None
    assert np.abs(trace.logits - expected.logits[0].numpy()).max() <= 1e-6
    assert all(isinstance(text, str) for text in sample_texts(model, 2))


def test_that_the_loss_of_masked_pairs_is_the_librarys(opened: tuple) -> None:
    _, model, theirs, _ = opened
    subject = subject_of(model)
    pairs = [(FIRST, "he was too tired"), ("go home", "she said it")]
    (batch,) = build_batches(model, pairs)
    with torch.no_grad():
        found = text_losses(subject, batch)
        for i, pair in enumerate(pairs[::-1]):  # the shorter one first
            inputs = model.encode(*pair)
            n = len(inputs.source)
            fields = {
                "input_ids": batch.ids[i : i + 1, :n],
                "token_type_ids": torch.tensor([inputs.segments]),
            }
            logits = theirs(**fields).logits[0].double()
            expected = F.cross_entropy(logits, batch.labels[i, :n], ignore_index=-1)
            assert abs(float(found[i]) - float(expected)) <= 1e-6


def test_that_equally_long_pairs_run_together_are_those_run_alone(opened: tuple) -> None:
    _, model, _, _ = opened
    texts = list(encode_corpus(model, [(FIRST, SECOND), ("the animal", "it was too tired he")]))
    assert len({one.n_tokens for one in texts}) == 1
    probe = TraceProbe(model.sites, NO_GATES)
    run_batch(model, texts, probe)
    alone = model.trace("the animal", "it was too tired he")
    together = probe.records["encoder", 1]
    assert (together.q[-1] - alone.records["encoder", 1].q[-1]).abs().max() <= 1e-5


def test_that_causes_of_a_pair_add_up_to_what_the_library_says(opened: tuple) -> None:
    _, model, theirs, read = opened
    fields, expected = said(theirs, read, FIRST, SECOND)
    at = fields["input_ids"][0].tolist().index(4)
    found = attribute_logits(model, FIRST, SECOND, position=at, answer=7, other=9)
    row = expected.logits[0, at].double()
    assert abs(sum(c.value for c in found.contributions) - float(row[7] - row[9])) <= 1e-5


@pytest.mark.slow
def test_that_the_command_line_takes_the_second_text_of_a_masked_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(hf_folders.save_folder(tmp_path / "bert", *hf_folders.make("bert")))
    out = str(tmp_path / "pair.safetensors")
    assert main(["trace", folder, "--text", "the animal", "--target", "it was tired", "-o", out]) == 0
    assert [token.segment for token in load_trace(out).source.tokens] == [0] * 4 + [1] * 4
    capsys.readouterr()
    assert main(["info", folder]) == 0
    assert "one text, or two sentences" in capsys.readouterr().out

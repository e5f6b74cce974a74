"""Pairs in models that know no segments, and texts that only look like pairs: the library on the ids."""

from pathlib import Path

import hf_folders
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers as library

from attnscope.analysis import build_batches, subject_of, text_losses
from attnscope.models import load

PAIR = ("the animal did cross", "it was tired")
N_PIECES = hf_folders.bert_tokenizer().get_vocab_size()
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
ROBERTA = {**hf_folders.SIZES, "type_vocab_size": 1, "max_position_embeddings": 40, "pad_token_id": 0}
MAKERS = {
    "distilbert": lambda: library.DistilBertForMaskedLM(
        library.DistilBertConfig(vocab_size=N_PIECES, **DISTIL)
    ),
    "roberta": lambda: library.RobertaForMaskedLM(library.RobertaConfig(vocab_size=N_PIECES, **ROBERTA)),
    "gpt2": lambda: library.GPT2LMHeadModel(library.GPT2Config(vocab_size=N_PIECES, **GPT2)),
}


def opened(folder: Path, kind: str) -> tuple:
    """A model with a tokenizer that numbers two segments: as AttnScope opened it, as the library has it."""
    torch.manual_seed(2)
    theirs = MAKERS[kind]().eval()
    return load(str(hf_folders.save_folder(folder / kind, theirs, hf_folders.bert_tokenizer()))), theirs


@torch.no_grad()
@pytest.mark.parametrize("kind", ["distilbert", "roberta"])
def test_that_a_model_without_segments_is_not_told_of_any(tmp_path: Path, kind: str) -> None:
    model, theirs = opened(tmp_path, kind)
    inputs = model.encode(*PAIR)
    expected = theirs(input_ids=torch.tensor([inputs.source.ids])).logits[0]
    assert np.abs(model.trace(*PAIR).logits - expected.numpy()).max() <= 1e-6
    (batch,) = build_batches(model, [PAIR])
    by_hand = F.cross_entropy(theirs(input_ids=batch.ids).logits[0], batch.labels[0], ignore_index=-1)
    assert abs(float(text_losses(subject_of(model), batch)) - float(by_hand)) <= 1e-6


@torch.no_grad()
def test_that_a_decoder_reads_a_typed_separator_as_a_piece_like_any_other(tmp_path: Path) -> None:
    model, theirs = opened(tmp_path, "gpt2")  # it takes token types: it would add the embedding of piece 1
    inputs = model.encode("the animal [SEP] it was")
    assert not any(inputs.segments)
    assert not model.info.reads_pairs
    expected = theirs(input_ids=torch.tensor([inputs.source.ids])).logits[0]
    assert np.abs(model.trace("the animal [SEP] it was").logits - expected.numpy()).max() <= 1e-6


def test_that_a_pair_and_a_single_text_in_one_batch_keep_their_segments(tmp_path: Path) -> None:
    folder = hf_folders.save_folder(tmp_path / "bert", *hf_folders.make("bert"))
    model = load(str(folder))
    (batch,) = build_batches(model, ["go home", PAIR])
    n_first, n = len(PAIR[0].split()) + 2, batch.ids.shape[1]
    assert batch.segments.tolist() == [[0] * n, [0] * n_first + [1] * (n - n_first)]

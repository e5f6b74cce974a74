"""Tiny models of Hugging Face's library with random weights, saved as people find them."""

import json
import struct
import wave
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = "the animal did n't cross street because it was too tired he she said go home good book not a".split()
PARTS = ("##s", "##ing", "##t", "##ed")


def bert_tokenizer() -> Tokenizer:
    """WordPiece with [CLS] and [SEP] around, two sentences in two segments."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(97, 123)]
    entries = [*specials, *WORDS, *PARTS, *letters, *(f"##{letter}" for letter in letters), ".", ",", "'"]
    vocabulary = {entry: id for id, entry in enumerate(dict.fromkeys(entries))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(specials)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return made


def byte_tokenizer(*, template: str = "", specials: tuple[str, ...] = ("<|endoftext|>",)) -> Tokenizer:
    """Byte-level BPE of single bytes and a few merges, as GPT-2 writes its vocabulary."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("Ġ", "a")]
    entries = [*specials, *letters, *(left + right for left, right in merges)]
    made = Tokenizer(models.BPE({entry: id for id, entry in enumerate(entries)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(text, special=True) for text in specials])
    if template:
        named = [(text, id) for id, text in enumerate(specials) if text in template]
        made.post_processor = processors.TemplateProcessing(single=template, special_tokens=named)
    return made


SEQ2SEQ_SPECIALS = ("<pad>", "</s>", "<unk>", "<s>", "<mask>")


def seq2seq_tokenizer() -> Tokenizer:
    """The same with </s> after a text."""
    return byte_tokenizer(template="$A </s>", specials=SEQ2SEQ_SPECIALS)


def save_folder(folder: Path, model: Any, tokenizer: Tokenizer | None, **files: Any) -> Path:
    """Save a model with its tokenizer; `files` are JSON files to add (name with _ for .)."""
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def change_config(folder: Path, **values: Any) -> None:
    """Write other values into a folder's config.json; None takes a key out."""
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8")) | values
    kept = {key: value for key, value in content.items() if value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")


def save_picture(path: Path, *, height: int, width: int) -> str:
    """An RGB picture of colour ramps, as PNG; returns its path."""
    rows = np.arange(height)[:, None, None] * 20 + np.arange(width)[None, :, None] * 7 + np.arange(3) * 40
    raw = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in rows % 256)
    path.write_bytes(png_bytes((width, height, 8, 2, 0, 0, 0), raw))
    return str(path)


def png_bytes(header: tuple[int, ...], raw: bytes, palette: bytes = b"") -> bytes:
    """A PNG file of one header and lines that are already filtered."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", *header)), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    if palette:
        chunks.insert(1, (b"PLTE", palette))
    packed = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def save_recording(path: Path, *, rate: int = 22_050) -> str:
    """Half a second of a tone, as WAV; returns its path."""
    tone = np.sin(np.arange(rate // 2) * 0.05) * 8000
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(tone.astype("<i2").tobytes())
    return str(path)


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}


def make(kind: str) -> tuple[Any, Tokenizer | None]:
    """One tiny model by name, with its tokenizer."""
    import transformers as library

    torch.manual_seed(0)
    bert, gpt, seq = bert_tokenizer(), byte_tokenizer(), seq2seq_tokenizer()
    n_bert, n_gpt, n_seq = (t.get_vocab_size() for t in (bert, gpt, seq))
    small_bert = {"vocab_size": n_bert, "max_position_embeddings": 24, **SIZES}
    small_seq: dict[str, Any] = {"vocab_size": n_seq, "pad_token_id": 0, "eos_token_id": 1}
    vit = {"image_size": 8, "patch_size": 4, **SIZES}
    match kind:
        case "bert":
            return library.BertForMaskedLM(library.BertConfig(**small_bert)), bert
        case "bert-base":
            return library.BertModel(library.BertConfig(**small_bert), add_pooling_layer=False), bert
        case "bert-classes":
            labels = {0: "bad", 1: "good", 2: "unclear"}
            config = library.BertConfig(
                **small_bert, id2label=labels, label2id={v: k for k, v in labels.items()}
            )
            return library.BertForSequenceClassification(config), bert
        case "distilbert":
            config = library.DistilBertConfig(
                vocab_size=n_bert, max_position_embeddings=24, dim=32, hidden_dim=48, n_layers=2, n_heads=4
            )
            return library.DistilBertForMaskedLM(config), bert
        case "bert-tags":
            return library.BertForTokenClassification(library.BertConfig(**small_bert, num_labels=5)), bert
        case "gpt2-classes":
            config = library.GPT2Config(
                vocab_size=n_gpt, n_embd=32, n_layer=2, n_head=4, n_positions=40, bos_token_id=0,
                eos_token_id=0, num_labels=3,
            )  # fmt: skip
            return library.GPT2ForSequenceClassification(config), gpt
        case "mistral":
            config = library.MistralConfig(
                vocab_size=n_gpt, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0,
                eos_token_id=0, sliding_window=4, **SIZES,
            )  # fmt: skip
            return library.MistralForCausalLM(config), gpt
        case "whisper":
            config = library.WhisperConfig(
                **small_seq, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=50,
                max_target_positions=20, bos_token_id=1, decoder_start_token_id=3, num_mel_bins=16,
                suppress_tokens=None, begin_suppress_tokens=None,
            )  # fmt: skip
            return library.WhisperForConditionalGeneration(config), seq
        case "gpt2":
            config = library.GPT2Config(
                vocab_size=n_gpt,
                n_embd=32,
                n_layer=2,
                n_head=4,
                n_positions=40,
                bos_token_id=0,
                eos_token_id=0,
            )
            return library.GPT2LMHeadModel(config), gpt
        case "llama":
            config = library.LlamaConfig(
                vocab_size=n_gpt, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0,
                eos_token_id=0, **SIZES,
            )  # fmt: skip
            return library.LlamaForCausalLM(config), gpt
        case "t5":
            config = library.T5Config(
                **small_seq, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
            )
            return library.T5ForConditionalGeneration(config), seq
        case "bart" | "bart-classes":
            config = library.BartConfig(
                **small_seq, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40,
                bos_token_id=3, decoder_start_token_id=1, num_labels=3,
            )  # fmt: skip
            if kind == "bart":
                return library.BartForConditionalGeneration(config), seq
            return library.BartForSequenceClassification(config), seq
        case "vit":
            config = library.ViTConfig(**vit, id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1})
            return library.ViTForImageClassification(config), None
        case _:
            raise ValueError(kind)

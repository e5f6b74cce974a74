"""Tokenizers compared: a lab with a widget of its own."""

from attnscope.labs.lab import LabEntry


class Tokenizers(LabEntry):
    name = "Tokenizers compared"
    group = "Tokens"
    order = 2
    shows = "Words, characters, BPE, WordPiece, Unigram and bytes trained on your text, at several sizes"
    source = "Shannon 1948, Rust et al. 2021"
    search = ("SentencePiece", "subwords", "vocabulary size")
    help = """Words, characters, BPE, WordPiece, Unigram and byte-level BPE, trained on your text at several
    sizes: a larger vocabulary gives shorter sequences. The sample text is measured when you first open the
    lab.
    """

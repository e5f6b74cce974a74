"""The labs on tokens: merges, tokenizers compared, the vocabulary; each has a widget of its own."""

from attnscope.labs.lab import LabEntry


class Merges(LabEntry):
    name = "Merges replayed"
    group = "Tokens"
    order = 1
    shows = "How a typed text becomes tokens: BPE merge by merge, WordPiece, Unigram"
    source = "Sennrich et al. 2016, Schuster and Nakajima 2012, Kudo 2018"
    help = """How a text becomes tokens: byte-pair encoding merge by merge, from single bytes or characters
    to the pieces of the vocabulary, with WordPiece and Unigram beside it. Start at the first merge and step
    on, or press play.
    """


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


class VocabularyLab(LabEntry):
    name = "Vocabulary"
    group = "Tokens"
    order = 3
    shows = "Every piece of the open model's tokenizer: searched, sorted, in bytes and characters"
    help = """Every piece of the open model's tokenizer, to search and sort, in bytes and in readable
    characters.
    """

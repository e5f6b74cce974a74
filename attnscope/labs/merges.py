"""Merges replayed: a lab with a widget of its own."""

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

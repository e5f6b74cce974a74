"""Vocabulary: a lab with a widget of its own."""

from attnscope.labs.lab import LabEntry


class VocabularyLab(LabEntry):
    name = "Vocabulary"
    group = "Tokens"
    order = 3
    shows = "Every piece of the open model's tokenizer: searched, sorted, in bytes and characters"
    help = """Every piece of the open model's tokenizer, to search and sort, in bytes and in readable
    characters.
    """

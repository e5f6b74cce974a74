"""Text and tokens: tokenizers, corpora, tasks with known right attention, sample sentences.

Nothing here imports torch or Qt.
"""

"""Text that a model writes: greedily, by drawing, or with beams, each token with its attention.

Must not import anything of analysis, training or the window.
"""

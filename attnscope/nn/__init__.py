"""The Transformer, its recurrent ancestors, and the one attention function that everything looks through.

Imports torch; must not import anything of trace, models, training or the window.
"""

"""Numbers about heads: measures, detectors, alignment, scores over many texts, positions.

Must not import anything of training or the window.
"""

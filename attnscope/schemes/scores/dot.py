"""The product as it is (Luong et al. 2015, section 3.1)."""

from attnscope.schemes.scores.score import Score


class Dot(Score):
    name, title, order = "dot", "dot", 1
    formula, source = "q·k", "Luong et al. 2015"
    samples_formula = "s = q·k / σ²"
    on_a_line = (
        "The dot product is the Gaussian score without −‖k‖²/2σ²: the longest keys win, not the nearest. "
        "Choose sines and cosines as features, which are all equally long."
    )

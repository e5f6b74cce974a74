"""Formulas typed in one line: what becomes a fraction, a root, a script, a variable; nothing gets lost."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator

import pytest

from attnscope.figures import Fence, Fraction, Node, Root, Row, Scripted, Space, Symbol, parse_formula
from attnscope.paths import resources_folder
from attnscope.questions import QUESTIONS, Question


def written(node: Node | None) -> str:
    """The tree in one line, with brackets that say what it is."""
    match node:
        case None:
            return ""
        case Symbol():
            return f"<{node.text}>" if node.kind == "variable" else node.text
        case Space():
            return " "
        case Scripted():
            below = f"_{{{written(node.sub)}}}" if node.sub else ""
            above = f"^{{{written(node.sup)}}}" if node.sup else ""
            return written(node.base) + below + above
        case Fraction():
            return f"[{written(node.top)} over {written(node.bottom)}]"
        case Root():
            return f"root{{{written(node.inside)}}}"
        case Fence():
            return f"{node.left}{written(node.inside)}{node.right}"
        case Row():
            return "".join(map(written, node.parts))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("softmax(q·k / √d)", "softmax([<q>·<k> over root{<d>}])"),
        ("Δθ = −η·m / (√v + ε)", "Δ<θ> = −[<η>·<m> over root{<v>} + <ε>]"),
        ("s = −‖q − k‖² / 2σ²", "<s> = −[‖<q> − <k>‖^{2} over 2<σ>^{2}]"),
        ("∂h_T/∂h_t = a", "[∂<h>_{<T>} over ∂<h>_{<t>}] = <a>"),
        ("θᵢ = 10000^(−2i/d)", "<θ>_{<i>} = 10000^{−2<i>/<d>}"),
        ("rₗ₊₁ ≈ c·rₗ³", "<r>_{<l>+1} ≈ <c>·<r>_{<l>}^{3}"),
        ("Q Kᵀ / √d_head", "[<Q> <K>^{T} over root{<d>_{head}}]"),
        ("mean |∂ loss / ∂ gate|", "mean |[∂ loss over ∂ gate]|"),
        ("exp(s) / Σ exp(s) = w", "[exp(<s>) over Σ exp(<s>)] = <w>"),
        ("e^x / Σ = 1", "[<e>^{<x>} over Σ] = 1"),
        ("KL(before ‖ after)", "KL(before ‖ after)"),
        ("1 − (|A| + |B|) / (|A| + 1)", "1 − [|<A>| + |<B>| over |<A>| + 1]"),
        ("T5: s, a multiple", "T5: <s>, a multiple"),
        ("e^−2.5, R_(t−s) k", "<e>^{−2.5}, <R>_{<t>−<s>} <k>"),
        ("p(\u2068a b_c / d\u2069)", "<p>(\u2068a b_c / d\u2069)"),
        ("attnscope train --set a.b_c=1", "attnscope train --set a.b_c=1"),
        ("a) / (b", "[<a>) over (<b>]"),
        ("( √ ^ _ / ", "( root{} ^ _ / "),
    ],
)
def test_that_a_typed_formula_is_taken_apart(typed: str, found: str) -> None:
    assert written(parse_formula(typed)) == found


def every_formula() -> Iterator[str]:
    for path in sorted((resources_folder() / "tours").glob("*.toml")):
        for step in tomllib.loads(path.read_text(encoding="utf-8"))["step"]:
            yield re.sub(r"\{\w+\}", "\u20680.125\u2069", step.get("formula", ""))
    for path in sorted((resources_folder() / "help").glob("*.md")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.count("$") % 2 == 0, f"{path.name}: {line}"
            yield from re.findall(r"\$([^$]+)\$", line)


def test_that_no_letter_of_a_shown_formula_is_lost() -> None:
    formulas = [formula for formula in every_formula() if formula]
    assert len(formulas) > 60
    for formula in formulas:
        plain = written(parse_formula(formula)).replace("root", "").replace(" over ", "")
        assert letters(plain) == letters(formula), formula


def letters(text: str) -> list[str]:
    """Letters and digits in order, scripts as the letters they stand for."""
    return sorted(c for c in unicodedata.normalize("NFKC", text) if c.isalnum())


def test_that_a_sum_filled_in_is_read_in_its_terms_and_a_piece_of_text_is_not_read_at_all() -> None:
    parts = parse_formula("\u20680.269 + <0.001 + (−2) + …\u2069 = 1").parts
    assert [part.text for part in parts if isinstance(part, Symbol)] == [
        *("0.269", "+", "<0.001", "+", "(−2)", "+", "…"),
        *("=", "1"),
    ]
    assert parse_formula("\u2068a + b\u2069").parts == (Symbol("\u2068a + b\u2069", "upright"),)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=lambda question: question.name)
def test_that_no_factor_of_a_question_s_formula_slips_out_of_a_fraction(question: Question) -> None:
    for formula in question.formula.split(",   "):
        assert not re.search(r"over [^\]]*\] [<Σ]", written(parse_formula(formula))), formula

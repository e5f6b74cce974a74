"""`--mask FILE` and `--mask-rows ROWS`: a mask for the text, from an edge list or row by row."""

import argparse
from typing import TYPE_CHECKING

from attnscope.cli.arguments import path_of
from attnscope.cli.terminal import say_error
from attnscope.counting import plural
from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.records.interventions import Interventions
    from attnscope.records.masks import Cells, UseMask
    from attnscope.records.tokens import Token

_NAMED = 6


def add_mask_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "mask",
        "which tokens see which, in every head of the self-attention over the text, instead of the "
        "model's own mask; causality and padding stay",
    )
    group.add_argument(
        "--mask",
        type=path_of,
        metavar="FILE",
        help="an edge list: `query key` in each line, tokens by number (from 0) or by text",
    )
    group.add_argument("--mask-symmetric", action="store_true", help="each edge holds in both directions")
    group.add_argument("--mask-no-loops", action="store_true", help="a token sees itself only where listed")
    group.add_argument(
        "--mask-rows",
        metavar="ROWS",
        help="instead of a file: the keys of each query, rows separated by ';', such as '0-1;0 2;2'",
    )


def mask_changes(
    arguments: argparse.Namespace, model: "Model", text: str, target: str | None, *, past_trained: bool
) -> "Interventions":
    """The mask that the arguments ask for, as a change of the pass; empty when they ask for none.

    Says on standard error which tokens see nothing. Raises UserError.
    """
    path, rows = getattr(arguments, "mask", None), getattr(arguments, "mask_rows", None)
    if path is None and rows is None:
        return ()
    if path is not None and rows is not None:
        raise UserError("There are two masks.", expected="one", action="Give --mask or --mask-rows.")
    from attnscope.records.masks import mask_of, maskable_stack

    stack = maskable_stack(model.sites)
    if stack is None:
        raise UserError(
            f"The model {model.info.name} has no self-attention over its text.",
            expected="an encoder or a decoder with one",
            action="Leave out the mask.",
        )
    source = model.encode(text, target, past_trained=past_trained).source
    cells = _cells_of_file(arguments, source.tokens) if path is not None else _cells_of_rows(str(rows))
    mask = mask_of(cells, stack, f"of {path.name}" if path is not None else "by rows")
    _tell_blind(mask, [token.piece for token in source.tokens])
    if path is not None and not arguments.mask_symmetric:
        _tell_ahead(mask)
    return (mask,)


def _cells_of_file(arguments: argparse.Namespace, tokens: "tuple[Token, ...]") -> "Cells":
    from attnscope.records.masks import cells_from_edges, edges_from_text, read_edge_list

    return cells_from_edges(
        edges_from_text(read_edge_list(arguments.mask), tokens),
        len(tokens),
        is_symmetric=arguments.mask_symmetric,
        has_loops=not arguments.mask_no_loops,
    )


def _cells_of_rows(rows: str) -> "Cells":
    from attnscope.records.masks import cells_from_rows

    try:
        return cells_from_rows([row.strip() for row in rows.split(";")])
    except ValueError as error:
        raise UserError(
            f"The mask is not understood: {error}.",
            expected="the keys of each query, such as '0-1;0 2;2'",
            action="Give as many rows as the text has tokens.",
        ) from error


def _tell_blind(mask: "UseMask", pieces: list[str]) -> None:
    from attnscope.records.masks import blind_rows

    blind = blind_rows(mask.cells, is_causal=mask.stack == "decoder")
    if blind:
        named = ", ".join(f"{row} “{pieces[row]}”" for row in blind[:_NAMED] if row < len(pieces))
        more = " …" if len(blind) > _NAMED else ""
        say_error(
            f"attnscope: {plural(len(blind), 'token sees', 'tokens see')} nothing under the "
            f"mask: {named}{more}."
        )


def _tell_ahead(mask: "UseMask") -> None:
    """Edges to later tokens do nothing where causality stays."""
    from attnscope.records.masks import n_ahead

    n = n_ahead(mask.cells) if mask.stack == "decoder" else 0
    if n:
        edges = f"{plural(n, 'edge leads', 'edges lead')} to a later token"
        say_error(f"attnscope: {edges}, which a causal model never allows; query comes before key in a line.")

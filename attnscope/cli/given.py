"""Which options a person gave, so that those left out are told from those given with their default."""

import argparse
from collections.abc import Sequence


class _Noted:
    """Notes the name of an option in `arguments.given`, besides what the option does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)  # type: ignore[misc]
        if option_string is not None:
            namespace.given = {*getattr(namespace, "given", ()), self.dest}  # type: ignore[attr-defined]


class _NotedStore(_Noted, argparse._StoreAction):
    """`store`, noted."""


class _NotedTrue(_Noted, argparse._StoreTrueAction):
    """`store_true`, noted."""


class _NotedAppend(_Noted, argparse._AppendAction):
    """`append`, noted."""


def note_given(parser: argparse.ArgumentParser) -> None:
    """Let options that are added to this parser from here on be noted in `arguments.given`."""
    for name, kind in ((None, _NotedStore), ("store", _NotedStore), ("store_true", _NotedTrue)):
        parser.register("action", name, kind)
    parser.register("action", "append", _NotedAppend)


def given_options(arguments: argparse.Namespace) -> frozenset[str]:
    """The names (`width_mm`) of the options that were given; positional arguments are not among them."""
    return frozenset(getattr(arguments, "given", ()))


def flag_of(name: str) -> str:
    """The option as people write it: `--width-mm`."""
    return "--" + name.replace("_", "-")

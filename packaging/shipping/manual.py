"""The manual page attnscope(1), made from what the command line itself says with --help."""

import argparse
import re
from collections.abc import Iterable, Mapping


def command_parsers(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command, by name."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return groups[0].choices if groups else {}


def manual_page(parser: argparse.ArgumentParser, version: str, *, date: str) -> str:
    """The page as troff: `parser` must know the options of every command. `date` as 2026-11-23."""
    title = parser.prog.upper()
    lines = [
        f'.TH {title} 1 "{date}" "AttnScope {version}" "User commands"',
        ".SH NAME",
        f"{parser.prog} \\- see attention in Transformers, live",
        ".SH SYNOPSIS",
        f".B {parser.prog}",
        "[\\fIoptions\\fR] [\\fIFILE\\fR]",
        ".br",
        f".B {parser.prog}",
        "\\fICOMMAND\\fR [\\fIoptions\\fR]",
        ".SH DESCRIPTION",
        *_text(parser.description or ""),
        ".SH OPTIONS",
        *_options(parser),
        ".SH COMMANDS",
    ]
    meanings = _meanings(parser)
    for name, command in command_parsers(parser).items():
        lines += [f".SS {name}", *_text(command.description or meanings.get(name, "")), *_options(command)]
        lines += _examples(command.epilog or "")
    lines += [
        ".SH EXIT STATUS",
        *_item("0", "done"),
        *_item("2", "something that you can correct, said in one line"),
        *_item("1", "a fault of the program; the line names its crash log"),
        *_item("130", "stopped with Ctrl+C"),
    ]
    return "\n".join(lines) + "\n"


def _examples(text: str) -> list[str]:
    """Examples at the end of help, line by line."""
    shown = [_escaped(line.rstrip()) or "\\&" for line in text.strip("\n").splitlines()]
    return [".PP", ".nf", *shown, ".fi"] if shown else []


def _meanings(parser: argparse.ArgumentParser) -> dict[str, str]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {choice.dest: choice.help or "" for group in groups for choice in group._choices_actions}


def _options(parser: argparse.ArgumentParser) -> Iterable[str]:
    """A paragraph for each argument that help shows, in its own order."""
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        meaning = formatter._expand_help(action) if action.help else ""
        yield from _item(formatter._format_action_invocation(action), meaning)


def _item(term: str, meaning: str) -> list[str]:
    return [".TP", f"\\fB{_escaped(term)}\\fR", *_text(meaning)]


def _text(text: str) -> list[str]:
    """Paragraphs of troff: runs of blanks become single ones, empty lines begin a paragraph."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    return [
        line
        for i, part in enumerate(paragraphs)
        for line in ([".PP"] if i else []) + [_escaped(part)]
        if line
    ]


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped

"""Untrusted text made literal: labels, model names and reasons come from configs, servers and file names."""

import re
import unicodedata

from draftmeter.render.numbers import MINUS

# Characters with a meaning anywhere in a line of pandoc's or GitHub's Markdown.
_MARKDOWN_ANYWHERE = re.compile(r"([\\`*_{}\[\]<>|~^@$&#])")
# What only matters where a line begins: bullets, definitions, fenced divs, rules and setext underlines, numbered lists.
_MARKDOWN_AT_START = re.compile(r"^([-+:=%])(?=[-+:=%\s]|$)")
_MARKDOWN_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # an opening bracket or a star right after \\ would be read as its argument
    "*": "{*}",
    MINUS: "$-$",
}
# BibTeX counts every brace, escaped or not.
_BIBTEX = _LATEX | {"{": r"\textbraceleft{}", "}": r"\textbraceright{}"}


def plain_line(text: str) -> str:
    """One line of printable text: line breaks, control and direction-changing characters become single spaces."""
    kept = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(kept).split())


def escape_markdown(text: str) -> str:
    """`text` so that Markdown shows it literally: no markup, HTML, table cell, citation or list can come of it."""
    text = _MARKDOWN_ANYWHERE.sub(r"\\\1", plain_line(text))
    return _MARKDOWN_NUMBERED.sub(r"\1\\\2", _MARKDOWN_AT_START.sub(r"\\\1", text))


def escape_latex(text: str) -> str:
    """`text` so that LaTeX typesets it literally."""
    return "".join(_LATEX.get(char, char) for char in plain_line(text))


def escape_bibtex(text: str) -> str:
    """`text` for a field of a BibTeX entry between braces."""
    return "".join(_BIBTEX.get(char, char) for char in plain_line(text))

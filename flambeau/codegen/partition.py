"""A module's text as two of about the same size, to be translated at the same time and linked again.

Functions are dealt out; each text declares those of the other. Works on text alone; used by jit.py.
"""

from __future__ import annotations

import re

ENOUGH_LINES = 1000  # from which two threads are done sooner than one; what is shorter is translated beside others
INLINED = "alwaysinline"

_FUNCTION = re.compile(r"^define [^\n]*\n.*?^}\n?", re.DOTALL | re.MULTILINE)
_HEAD = re.compile(r"define (?:internal )?(?P<name>.*?@[\w.]+)\((?P<parameters>.*?)\)(?P<attributes>.*?) ?{")


def halves(text: str) -> list[str]:
    """The texts to translate instead of `text`: itself, if it is short or of one function.

    Internal functions become visible; those that are always inlined are in both texts.
    """
    if text.count("\n") < ENOUGH_LINES:
        return [text]
    functions = _FUNCTION.findall(text)
    dealt = [function for function in functions if not _is_inlined(function)]
    if len(dealt) < 2:
        return [text]
    shares: tuple[list[str], list[str]] = ([], [])
    for function in sorted(dealt, key=len, reverse=True):
        min(shares, key=lambda share: sum(map(len, share))).append(function)
    return [_FUNCTION.sub(lambda found, own=own: _written(found[0], found[0] in own), text) for own in map(set, shares)]


def _is_inlined(function: str) -> bool:
    return INLINED in function[: function.index("\n")]


def _written(function: str, own: bool) -> str:
    """A function in a text that it belongs to or doesn't."""
    if _is_inlined(function):
        return function
    if own:
        return function.replace("define internal ", "define ", 1)
    head = _HEAD.match(function)
    assert head is not None, function
    types = re.sub(r" %\w+", "", head["parameters"])
    return f"declare dso_local {head['name']}({types}){head['attributes']}\n"

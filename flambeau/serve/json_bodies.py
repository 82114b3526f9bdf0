"""JSON of requests, read within limits: how deep it goes, numbers that JSON has.

Stands on the standard library; used by app and the handlers.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from flambeau.serve.answers import Refused

# a string that doesn't end goes to the end of the text; nothing is looked at twice
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[\[{]+|[\]}]+', re.DOTALL)


def depth_within(body: bytes, most: int) -> bool:
    """Whether lists and objects of a JSON text stand in each other at most so deep."""
    if body.count(b"[") + body.count(b"{") <= most:
        return True
    deep = 0
    for match in _BRACKETS.finditer(body):
        first = body[match.start()]
        if first in b"[{":
            deep += match.end() - match.start()
            if deep > most:
                return False
        elif first != 0x22:
            deep -= match.end() - match.start()
    return True


def _constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


_decoder = json.JSONDecoder(parse_constant=_constant)


def read(body: bytes, depth: int) -> Any:
    """The value of a JSON text. Refused (400) for what is none, or goes deeper than `depth`."""
    if not depth_within(body, depth):
        raise Refused(400, f"lists and objects stand in each other more than {depth} deep")
    try:
        return _decoder.decode(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {str(error).splitlines()[0][:200]}") from None

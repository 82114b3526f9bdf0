"""What the text of a module says, read without parsing all of it."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize

BLANK = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING)


def docstring(source: str) -> str | None:
    """The docstring of a module, as ast.get_docstring gives it."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING:
            value = ast.literal_eval(token.string)
            return inspect.cleandoc(value) if isinstance(value, str) else None
        if token.type not in BLANK:
            return None
    return None

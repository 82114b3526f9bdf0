"""What a call of a declared operator is known by: the text of its signature, and of the key that its plan is kept under.

The key is made of the layouts of the tensors and of the other arguments. Stands on core.operator.opdef and
core.operator.variants, which compiles generated source; used by core.operator.define.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.base.layout import Layout
from flambeau.core.operator import arguments
from flambeau.core.operator.opdef import TENSOR, TENSORS, Operator
from flambeau.core.operator.pointwise import signature_of
from flambeau.core.operator.publishing import compile_source
from flambeau.core.operator.variants import source_of
from flambeau.core.tensor.tensor import Tensor

_KEY_OF = """
def key_of({signature}):
    return ({key},)
"""


def signature_text(function: Callable, out: bool, aliases: dict[str, str]) -> tuple[str, str, list[str], list[str]]:
    """(parameters text, call text, positional names, keyword-only names) of a function."""
    parts, call, positional, keywords, star = [], [], [], [], False
    for name, p in signature_of(function).parameters.items():
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{name}")
            call.append(f"*{name}")
            star = True
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*surplus")
            star = True
        parts.append(f"{name}=MISSING" if p.default is p.empty else f"{name}={_default(p.default)}")
        call.append(f"{name}={name}" if p.kind is p.KEYWORD_ONLY else name)
        (keywords if p.kind is p.KEYWORD_ONLY else positional).append(name)
    if not star:
        parts.append("*surplus")
    parts += [*(f"{name}=None" for name in aliases), *(["out=None"] if out else [])]
    return ", ".join(parts), ", ".join(call), positional, keywords


def _default(value: Any) -> str:
    text = source_of(value)
    if text.startswith(("<", "torch.")):
        raise TypeError(f"the default {text} can't be written in generated source; use None")
    return text


def kept_key(declared: Operator) -> tuple[str, str]:
    """The texts of what a kept plan is found under, and of the tensors that it takes."""
    parts, tensors = [], []
    for name, parameter in declared.signature.parameters.items():
        kind = declared.kinds[name]
        if kind == TENSORS:
            parts.append(f"*[x._layout for x in {name}]")
            tensors.append(f"*{name}")
        elif "Operand" in str(parameter.annotation):
            parts.append(f"getattr({name}, '_layout', {name}.__class__)")
            tensors.append(name)
        elif kind == TENSOR:
            optional = parameter.default is None or "None" in str(parameter.annotation)
            parts.append(f"{name} if {name} is None else {name}._layout" if optional else f"{name}._layout")
            tensors.append(f"*(() if {name} is None else ({name},))" if optional else name)
        else:
            parts.append(name)
    return ", ".join(parts), ", ".join(tensors)


@functools.cache
def key_function(declared: Operator) -> Callable:
    """What a call's plan is kept under, as a function of the call's arguments."""
    scope: dict[str, Any] = {"MISSING": arguments.MISSING}
    compile_source(
        f"<flambeau key of {declared.name}>",
        _KEY_OF.format(signature=signature_text(declared.implementation, False, {})[0], key=kept_key(declared)[0]),
        scope,
    )
    return scope["key_of"]


def keepable(key: tuple) -> bool:
    """Whether a plan may be found again under a key: layouts with a flavor belong to classes that answer calls themselves."""
    for part in key:
        if (part.__class__ is Layout and part.flavor is not None) or isinstance(part, Tensor):  # a tensor as an int may change
            return False
        try:
            hash(part)
        except TypeError:
            return False
    return True

"""Where a program stands when it calls a public function: what names, stack traces and stacks of modules in graphs come from.

Stands on segment; used by tracer.
"""

from __future__ import annotations

from types import CodeType, FrameType

from flambeau._dynamo.segments.segment import Place
from flambeau.core.operator.arguments import LOOKING
from flambeau.core.tensor.tensor import Tensor

__all__ = ["ROOTS", "places_of", "variables_of"]

#: The codes of functions that call what is traced.
ROOTS: set[CodeType] = set()


def places_of(frame: FrameType | None) -> tuple[Place, ...]:
    """The frames from the innermost one of the program to that of the function that is traced."""
    found = []
    while frame is not None and frame.f_code.co_filename == LOOKING:
        frame = frame.f_back
    while frame is not None and frame.f_code not in ROOTS:
        code = frame.f_code
        module = frame.f_locals.get("self") if code.co_name == "forward" else None
        found.append(Place(code, frame.f_lasti, frame.f_globals, module))
        frame = frame.f_back
    return tuple(found)


def variables_of(frame: FrameType | None, root: CodeType | None) -> dict[int, str]:
    """The tensors in the variables of the frame that runs `root`, by identity, and the expressions for them."""
    while frame is not None and frame.f_code is not root:
        if frame.f_code in ROOTS:
            return {}
        frame = frame.f_back
    if frame is None:
        return {}
    return {id(value): f"L['{name}']" for name, value in frame.f_locals.items() if isinstance(value, Tensor)}

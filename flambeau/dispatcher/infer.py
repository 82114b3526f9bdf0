"""The schema of a Python function, from its annotations: `infer_schema`. Stands on core.operator.schemas, which has the words;
used by torch.library.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.operator.schemas import default_text, type_text

__all__ = ["infer_schema"]

_RESULTS = ("Tensor", "SymInt", "float", "bool", "Scalar")


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The schema of a function whose parameters and result are annotated, such as "(Tensor x, SymInt n=3) -> Tensor".

    mutates_args: names of the tensor arguments that it writes to, or "unknown" for all of them; op_name: put in front.
    ValueError for annotations and defaults that no schema can express.
    """
    signature = inspect.signature(prototype_function)

    def fail(what: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    def evaluated(annotation: Any) -> Any:
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, getattr(prototype_function, "__globals__", {}))
        except Exception:
            fail(f"Unsupported type annotation {annotation}. It is not a type.")

    written: list[str] = []
    seen_mutated: set[str] = set()
    starred = False
    everything = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not everything:
        raise ValueError(
            "infer_schema(func): mutates_args must either be a sequence of the names of the arguments that are "
            "mutated or the string 'unknown'. "
        )
    for index, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            written.append("*")
        if parameter.annotation is parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        annotation = evaluated(parameter.annotation)
        kind = type_text(annotation)
        if kind is None:
            if typing.get_origin(annotation) is tuple:
                fail(
                    f"Parameter {name} has unsupported type {annotation}. We do not support Tuple inputs in schema. "
                    "As a workaround, please try to use List instead."
                )
            fail(
                f"Parameter {name} has unsupported type {annotation}. The valid types are: Tensor, int, float, "
                "bool, str, torch.dtype, torch.device, Union[int, float, bool], Optional and List of them."
            )
        if kind.startswith("Tensor") if everything else name in mutates_args:
            if not kind.startswith("Tensor"):
                fail(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
            seen_mutated.add(name)
            kind = kind.replace("Tensor", f"Tensor(a{index}!)", 1)
        default = parameter.default
        if default is parameter.empty:
            written.append(f"{kind} {name}")
            continue
        text = None if isinstance(default, (tuple, list)) else default_text(default)
        if text is None:
            fail(
                f"Parameter {name} has an unsupported default value type {type(default)}. Please file an issue on "
                "GitHub so we can prioritize this."
            )
        written.append(f"{kind} {name}={text}")
    if not everything and set(mutates_args) - seen_mutated:
        fail(
            f"{set(mutates_args) - seen_mutated} in mutates_args were not found in the custom op's signature. "
            "mutates_args should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    result = _result(evaluated(signature.return_annotation), fail)
    return f"{op_name or ''}({', '.join(written)}) -> {result}"


def _result(annotation: Any, fail: Callable[[str], typing.NoReturn]) -> str:
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        made = [type_text(part) for part in typing.get_args(annotation)]
    else:
        made = [type_text(annotation)]
    for kind in made:
        if kind is None or kind.removesuffix("[]") not in _RESULTS:
            fail(
                f"Return has unsupported type {annotation}. The valid types are: Tensor, List[Tensor], int, float, "
                "bool, Union[int, float, bool]."
            )
    words = [kind or "" for kind in made]
    return words[0] if len(words) == 1 and typing.get_origin(annotation) is not tuple else f"({', '.join(words)})"

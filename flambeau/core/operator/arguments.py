"""Arguments of the wrong type: PyTorch's words for them, found from the declaration after a call has failed.

No call checks its arguments beforehand. When one raises, the generated function hands the error to `explain`, which looks
for an argument that doesn't fit its annotation, and how the call was written. Stands on core.tensor.tensor; used by the
functions that core.operator.variants and core.operator.define generate, and by operators that check by hand.
"""

from __future__ import annotations

import dis
import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import copysign
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from flambeau.base import geometry
from flambeau.base.aten_schemas import arities
from flambeau.base.device import device as Device
from flambeau.base.dtype import bool_
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Size, layout, memory_format
from flambeau.base.naming import PACKAGE
from flambeau.base.rng import Generator
from flambeau.base.tracebacks import api_boundary, filter_traceback
from flambeau.core.operator.facets import record_of
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.tensor import Tensor

CAUGHT = (TypeError, AttributeError, ValueError, OverflowError, MemoryError, SystemError, KeyError, RuntimeError, IndexError)
"""What a call with a wrong argument may run into."""


class Missing:
    """Stands for a required argument that a call left out: any use of it fails, which `explain` then explains."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a required argument is missing")

    def __repr__(self) -> str:
        return "<required>"


MISSING = Missing()


def undecided(name: str, count: int, method: bool = False) -> bool:
    """Whether PyTorch, which tells the forms of an operator apart by what it is given, can't say which form a call with so many
    arguments is meant to be: several take as many, or none of several. Its refusal then names no argument.
    """
    record = record_of(name)
    if record.overloaded is not None:
        return record.overloaded
    forms = arities(_shown(name), method, record.hidden)
    if len(forms) + bool(record.factors) < 2 or record.written_in_python:
        return False
    return sum(least <= count <= most for least, most in forms) != 1


def _shown(name: str) -> str:
    """The name of a function in messages."""
    return record_of(name).underneath or name


def typename(value: Any) -> str:
    """The name of a value's type in an error message."""
    kind = type(value)
    if kind in (DType, Device, Size, layout, memory_format):
        return f"torch.{kind.__name__}"
    if kind is Generator:
        return "torch._C.Generator"
    if kind is Storage:
        return "torch.storage.UntypedStorage"
    if issubclass(kind, (np.generic, np.ndarray, np.dtype)):
        return f"{kind.__module__}.{kind.__name__}"
    return kind.__name__


def refused(function: str, argument: str, wanted: str, value: Any, position: int | None = None) -> TypeError:
    """The exception for one argument of the wrong type; position counts from 1, None for one given by name."""
    place = f" (position {position})" if position is not None else ""
    return TypeError(f"{function}(): argument '{argument}'{place} must be {wanted}, not {typename(value)}")


def no_combination(
    function: str, given: Sequence[Any], named: dict[str, Any] | None = None, only: str | None = None
) -> TypeError:
    """The exception where several signatures exist and none fits; only: the one that is not deprecated."""
    parts = [typename(x) for x in given] + [f"{k}={typename(v)}" for k, v in (named or {}).items()]
    text = ", ".join(parts) + (", " if named and not given else "")
    expected = f"one of:\n * see the documentation of torch.{function}" if only is None else f"({only})"
    return TypeError(f"{function}() received an invalid combination of arguments - got ({text}), but expected {expected}")


def without_sizes(function: str, argument: str) -> TypeError:
    """The exception for a call that says nothing of sizes, which may come as several numbers or as one sequence."""
    if undecided(function, 0):
        return no_combination(function, ())
    return TypeError(f'{function}() missing 1 required positional arguments: "{argument}"')


def refused_out(function: str, given: Sequence[Any], out: Any, wanted: str = "Tensor") -> TypeError:
    """The exception for an `out` that is not what is wanted, beside these operands."""
    title = _shown(function)
    several = undecided(function, len(given) + 1)
    return no_combination(title, given, {"out": out}) if several else refused(title, "out", wanted, out)


def tensor_out(out: Any) -> Any:
    """A factory function's `out`; TypeError in the words of the function that was called unless it is a tensor."""
    if not isinstance(out, Tensor):
        error = refused("factory", "out", "Tensor", out)
        blame(error)
        raise error
    return out


def within_range(function: str, names: Sequence[str], given: Sequence[Any]) -> None:
    """Refuse ints that 64 bits don't hold: TypeError in a tuple of sizes, ValueError elsewhere."""
    for name, value in zip(names, given, strict=False):
        if isinstance(value, tuple):
            if any(item.__class__ is int and not -1 << 63 <= item < 1 << 63 for item in value):
                ints(function, name, value)
        elif value.__class__ is int and not -1 << 63 <= value < 1 << 63:
            raise ValueError("Overflow when unpacking long long\nException raised from unpack")


def ints(function: str, argument: str, given: Sequence[Any], apart: bool = False, place: int = 1) -> tuple[int, ...]:
    """What was given as a tuple of ints, as ints. TypeError names the element that is none, or that is too large.

    apart: they were given one by one, which a first argument that is no int leaves one too many of; place: the argument's
    position. As in PyTorch, a bool is refused only where it comes first.
    """
    made = []
    for position, item in enumerate(given, 1):
        try:
            if position == 1 and item.__class__ is bool:
                raise TypeError
            number = item.__index__()
            if not -1 << 63 <= number < 1 << 63:
                raise OverflowError
        except (AttributeError, TypeError):
            if position == 1 and apart and len(given) > 1:
                if undecided(function, len(given)):
                    raise no_combination(function, given) from None
                raise TypeError(f"{function}() takes 1 positional argument but {len(given)} were given") from None
            if position == 1:
                raise TypeError(
                    f"{function}(): argument '{argument}' (position {place}) must be tuple of ints, but found "
                    f"element of type {typename(item)} at pos 0"
                ) from None
            raise TypeError(
                f"{function}(): argument '{argument}' failed to unpack the object at pos {position} with error "
                f'"type must be tuple of ints,but got {typename(item)}"'
            ) from None
        except OverflowError:
            raise TypeError(
                f"{function}(): argument '{argument}' failed to unpack the object at pos {position} with error "
                '"Overflow when unpacking long long\nException raised from unpack"'
            ) from None
        made.append(number)
    return tuple(made)


# ---------------------------------------------------------------- what fits


class Kind(NamedTuple):
    """A type of argument: its name in messages, and whether a value is of it."""

    wanted: str
    fits: Callable[[Any], bool]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, np.generic, Tensor))


def _is_number(value: Any) -> bool:
    return _is_operand(value) and not (isinstance(value, Tensor) and value._layout.ndim)


def _is_real(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic, Tensor)) and not (isinstance(value, Tensor) and value._layout.ndim)


def is_int(value: Any) -> bool:
    """Whether PyTorch takes a value for an int: no bool, and of the tensors only integers without dimensions."""
    if isinstance(value, Tensor):
        layout = value._layout
        return not layout.ndim and not (layout.dtype.is_floating_point or layout.dtype.is_complex or layout.dtype is bool_)
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _are_ints(value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return is_int(value)
    return all(map(is_int, value)) or (is_int(value[0]) and all(is_int(n) or n.__class__ is bool for n in value))


def _are_sizes(value: Any) -> bool:
    return is_int(value) or (isinstance(value, (list, tuple)) and all(n is None or is_int(n) for n in value))


def _are_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple))


TENSOR, INT, INTS = Kind("Tensor", _is_tensor), Kind("int", is_int), Kind("tuple of ints", _are_ints)
_KINDS = {
    "Tensor": TENSOR,
    "Operand": Kind("Tensor", _is_operand),
    "Tensors": Kind("tuple of Tensors", _are_tensors),
    "Sequence[Tensor]": Kind("tuple of Tensors", _are_tensors),
    "Number": Kind("Number", _is_number),
    "DType": Kind("torch.dtype", lambda value: isinstance(value, DType)),
    "int": INT,
    "int|Tensor": Kind("int", lambda value: is_int(value) or _is_tensor(value)),
    "float": Kind("float", _is_real),
    "bool": Kind("bool", lambda value: isinstance(value, (bool, np.bool_))),
    "str": Kind("str", lambda value: isinstance(value, str)),
    "tuple[int,...]": INTS,
    "Sequence[int]": INTS,
    "int|Sequence[int]": INTS,
    "Numbers": Kind("tuple of ints", _are_ints),
    "Padding": Kind("tuple of ints", lambda value: _are_ints(value) or isinstance(value, str)),
}
_NAMED = {
    "input": TENSOR,
    "dtype": Kind("torch.dtype", lambda value: value is None or isinstance(value, DType)),
    **dict.fromkeys(("target", "input1", "input2", "anchor", "positive", "negative", "log_probs", "targets"), TENSOR),
    "equation": Kind("str", lambda value: isinstance(value, (str, Tensor, list, tuple))),
    "size": Kind("tuple of ints", lambda value: value is None or _are_ints(value)),
    "dim": Kind("tuple of ints", lambda value: value is None or _are_ints(value)),
    "keepdim": _KINDS["bool"],
    "device": Kind("torch.device", lambda value: value is None or isinstance(value, (Device, str)) or is_int(value)),
    "stride": INTS,
    "dilation": INTS,
    "padding": _KINDS["Padding"],
    "output_size": Kind("tuple of ints", lambda value: value is None or _are_sizes(value)),
    "weight": Kind("Tensor", lambda value: value is None or _is_tensor(value)),
    "values": TENSOR,
    "indices": Kind("tuple of Tensors", _are_tensors),
}


def kind_of(parameter: inspect.Parameter) -> Kind | None:
    """What a parameter takes, from its annotation, or from its name where it has none; None where that says nothing."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    text = text.replace(" ", "").replace("builtins.", "")
    found = _KINDS.get(text.removesuffix("|None"))
    if found is None:
        return _NAMED.get(parameter.name)
    if text.endswith("|None") or parameter.default is None:
        return Kind(found.wanted, lambda value: value is None or found.fits(value))
    return found


_INT_TEXTS, _BOOL_TEXTS = ("int", "int|None"), ("bool", "bool|None")
_SIZES_TEXTS = (
    "tuple[int,...]",
    "Sequence[int]",
    "int|Sequence[int]",
    "tuple[int,...]|None",
    "Sequence[int]|None",
    "int|Sequence[int]|None",
)


def suiting(name: str, parameters: Mapping[str, inspect.Parameter]) -> tuple[dict[str, Any], list[str], str]:
    """Of the ints and bools among an operator's parameters: texts that ask whether they are such, statements that refuse what
    is none and make Python's ints of others, and the names used in both.

    A kept plan is found by equality, and 1.0 and True equal 1.
    """
    scope: dict[str, Any] = {}
    tests, statements = [], []
    for parameter in parameters.values() if not name.startswith("_") else ():
        n, text = parameter.name, str(parameter.annotation).replace(" ", "").replace("builtins.", "")
        kind = kind_of(parameter)
        if kind is None or text not in (*_INT_TEXTS, *_SIZES_TEXTS, *_BOOL_TEXTS):
            continue
        scope[f"suits_{n}"] = kind.fits
        if text in _BOOL_TEXTS:
            first = parameter.default is True
            tests.append(f"({n} is {first} or {n} is {not first} or suits_{n}({n}))")
            statements.append(f"        if not {tests[-1]}:\n            raise TypeError\n")
        else:
            optional = f"{n} is None or " * (parameter.default is None)
            tests.append(f"({optional}{n}.__class__ is int or suits_{n}({n}))")
            statements.append(f"        if not ({optional}{n}.__class__ is int):\n            {n} = plain_{n}({n})\n")
            scope[f"plain_{n}"] = _made_plain(kind)
    return scope, tests, "".join(statements)


def _made_plain(kind: Kind) -> Callable[[Any], Any]:
    """A function that gives an argument of this kind as Python's ints, and raises TypeError for any other."""

    def plain(value: Any) -> Any:
        if not kind.fits(value):
            raise TypeError
        if isinstance(value, (tuple, list)):
            return tuple([operator.index(item) for item in value])
        return value if value is None else operator.index(value)

    return plain


# ---------------------------------------------------------------- how the call was written

_LOOK = f"{PACKAGE}.core.modes.looking"
_MAKERS = (
    _LOOK,
    *(
        f"{PACKAGE}.{name}"
        for name in (
            "base.tracebacks",
            "core.operator.arguments",
            "core.operator.define",
            "core.operator.publishing",
            "core.operator.variants",
            "core.modes.overrides",
            "core.modes.interception",
        )
    ),
)


#: The file of the code that core.modes.interception puts in the place of a function's own.
LOOKING = "<flambeau attention>"


class Call(NamedTuple):
    """A call as its caller wrote it: how many arguments by position (None: unknown), the names of the others, the operation."""

    positional: int | None
    names: tuple[str, ...] = ()
    operation: str = "CALL"


def written(frame: FrameType | None) -> Call:
    """The call that `frame` is making."""
    if frame is None:
        return Call(None)
    before = [x for x in dis.get_instructions(frame.f_code) if x.offset <= frame.f_lasti and x.opname not in ("PRECALL", "CACHE")]
    if not before or before[-1].opname not in ("CALL", "CALL_KW"):
        return Call(None, (), before[-1].opname if before else "")
    names: tuple[str, ...] = ()
    # until Python 3.12 an instruction of its own names the keywords; from 3.13 on they are a constant on the stack
    if len(before) > 1 and (before[-2].opname == "KW_NAMES" or before[-1].opname == "CALL_KW"):
        names = frame.f_code.co_consts[before[-2].arg or 0]
    return Call((before[-1].arg or 0) - len(names), names)


def _caller() -> FrameType | None:
    """The frame that called the generated function which failed."""
    return _caller_of(sys._getframe(2))  # the generated function


def _caller_of(frame: FrameType | None) -> FrameType | None:
    """The frame behind what is in between: generated code, and what looks at calls for modes and observers."""
    looked: FrameType | None = frame
    while looked is not None and (
        looked.f_code.co_filename.startswith("<flambeau") or str(looked.f_globals.get("__name__")).partition(".")[0] == PACKAGE
    ):
        if looked.f_code.co_filename == LOOKING:
            return looked.f_back
        looked = looked.f_back
    while frame is not None and (frame.f_code.co_filename.startswith("<flambeau") or frame.f_globals.get("__name__") in _MAKERS):
        frame = frame.f_back
    return frame


def caller_of_public(frame: FrameType | None) -> FrameType | None:
    """The frame that called the public function which looked who answers it; frame: one inside of that."""
    while frame is not None and frame.f_code.co_filename != LOOKING and frame.f_globals.get("__name__") != _LOOK:
        frame = frame.f_back
    while frame is not None and (frame.f_code.co_filename.startswith("<flambeau") or frame.f_globals.get("__name__") in _MAKERS):
        frame = frame.f_back
    return frame


def explain(
    error: BaseException,
    name: str,
    signature: inspect.Signature,
    values: Sequence[Any],
    method: bool = False,
    function: bool = True,
) -> Any:
    """Called where a generated function failed with `error`: raises what PyTorch raises if an argument has the wrong type.

    values: the arguments in the order of the signature; method, function: whether it exists as a method and as a function.
    Returns NotImplemented for an operator (`a @ b`), None if the arguments are not to blame; then the caller raises the error
    again, whose traceback holds no frame of ours any more.
    """
    try:
        answer = _explained(error, name, signature, values, method, function)
    except Exception as told:
        filter_traceback(told)
        raise
    if answer is None:
        filter_traceback(error)
    return answer


def _explained(
    error: BaseException, name: str, signature: inspect.Signature, values: Sequence[Any], method: bool, function: bool
) -> Any:
    if isinstance(error, MemoryError):
        raise out_of_memory(error) from None
    if getattr(error, "decided", False):
        return None  # the arguments were counted
    if any(value is MISSING for value in values):
        raise _lacking(name, list(signature.parameters.values()), values, method, function, written(_caller())) from None
    if record_of(name).asks and isinstance(error, RuntimeError):
        return None  # a function written in Python looks at its arguments one after the other
    return None if name.startswith("_") else _judge(error, name, signature, values, method, function, _caller())


@api_boundary
def explain_call(error: BaseException, function: Callable, args: Sequence[Any], named: dict[str, Any]) -> None:
    """The same for a call of a plain function in the namespace with these arguments."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError:
        if undecided(function.__name__, len(args) + len(named)):
            raise no_combination(function.__name__, args, named) from None
        return
    bound.apply_defaults()
    explain(error, function.__name__, signature, list(bound.arguments.values()))


@api_boundary
def blame(error: BaseException) -> None:
    """Called where an argument turns out to be of the wrong type, far below the public function that was given it.

    Raises what `explain` would, for the outermost public function in progress; returns if its arguments are not to blame.
    """
    frame: FrameType | None = sys._getframe(1)
    found = []
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE:
        public = PUBLIC.get(frame.f_code)
        if public is not None:
            found.append((public, frame))
        frame = frame.f_back
    for (name, signature, method, function), frame in reversed(found):
        values = [frame.f_locals.get(n) for n in signature().parameters]
        _judge(error, name, signature(), values, method, function, _caller_of(frame.f_back))


@api_boundary
def only_ints(*values: Any) -> None:
    """TypeError in the words of the public function in progress where one of its arguments is no int, but a float or bool."""
    if not all(map(is_int, values)):
        error = TypeError("an argument must be an int")
        blame(error)
        raise error


geometry.explanations.append(blame)

PUBLIC: dict[Any, tuple[str, Callable[[], inspect.Signature], bool, bool]] = {}
"""Public functions that are no declared operators, by their code: name, signature, whether a method, whether in the namespace."""


def _judge(
    error: BaseException,
    name: str,
    signature: inspect.Signature,
    values: Sequence[Any],
    method: bool,
    function: bool,
    frame: FrameType | None,
) -> Any:
    parameters = list(signature.parameters.values())
    unfit = next(
        (
            (i, kind)
            for i, (parameter, value) in enumerate(zip(parameters, values, strict=False))
            if (kind := kind_of(parameter)) is not None
            and parameter.kind is not parameter.VAR_POSITIONAL
            and not kind.fits(value)
            and not left_out(parameter, value)
            and (isinstance(value, Tensor) or not hasattr(type(value), "__torch_function__"))
        ),
        None,
    )
    said = re.match(r"(\w+)\(\): argument '(\w+)' must be ([\w. ]+?),? (?:not|but)", str(error))
    if unfit is None and said and said.group(1) == name:
        unfit = next(((i, TENSOR) for i, parameter in enumerate(parameters) if parameter.name == said.group(2)), None)
    if unfit is None:
        for place, (parameter, given_here) in enumerate(zip(parameters, values, strict=False)):
            if parameter.kind is parameter.VAR_POSITIONAL and parameter.name in ("tensors", "operands"):
                if name == "einsum" and not isinstance(values[0], str):
                    continue  # operands and lists of integers
                alone = len(given_here) == 1 and isinstance(given_here[0], (list, tuple))
                _refuse_element(given_here[0] if alone else given_here, place)
            elif parameter.name == "indices" and method:
                _refuse_element(given_here, place - 1, (Tensor, type(None)))
        return None
    at, kind = unfit
    call = written(frame)
    if call.operation in ("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE"):
        return NotImplemented
    asks, shown = record_of(name).asks, _shown(name)
    if asks and kind is TENSOR:
        raise AttributeError(f"'{type(values[at]).__name__}' object has no attribute '{asks}'") from None
    bound = method and (not function or _missing(parameters, values, call))
    if at == 0 and bound:
        return None
    given, named = _arguments(parameters, values, call, bound)
    if undecided(name, len(given) + len(named) + ("out" in call.names), bound):
        raise no_combination(shown, given, named) from None
    by_name = parameters[at].name in named or parameters[at].kind is inspect.Parameter.KEYWORD_ONLY
    title = parameters[at].name.rstrip("_")
    wanted = said.group(3) if said and said.group(2) == parameters[at].name else kind.wanted
    if kind is INTS and wanted == kind.wanted and isinstance(values[at], (list, tuple)):
        ints(shown, title, values[at], place=1 if method else at + 1)
    raise refused(shown, title, wanted, values[at], None if by_name else at + 1 - bound) from None


def _refuse_element(given: Any, place: int, wanted: tuple[type, ...] = (Tensor,)) -> None:
    """TypeError for the first element of a sequence that is no tensor."""
    if isinstance(given, (list, tuple)):
        for position, item in enumerate(given):
            if not isinstance(item, wanted):
                raise TypeError(f"expected Tensor as element {position} in argument {place}, but got {typename(item)}") from None


def _lacking(
    name: str, parameters: list[inspect.Parameter], values: Sequence[Any], method: bool, function: bool, call: Call
) -> TypeError:
    """The exception for a call that lacks required arguments."""
    names = [parameter.name.rstrip("_") for parameter, value in zip(parameters, values, strict=False) if value is MISSING]
    record = record_of(name)
    in_python = not (method or function or record.underneath) if record.written_in_python is None else record.written_in_python
    if in_python:
        quoted = [f"'{n}'" for n in names]
        several = "s" if len(names) > 1 else ""
        text = " and ".join(quoted) if len(names) < 3 else ", ".join(quoted[:-1]) + ", and " + quoted[-1]
        return TypeError(f"{name}() missing {len(names)} required positional argument{several}: {text}")
    arrived = [(parameter, value) for parameter, value in zip(parameters, values, strict=False) if value is not MISSING]
    bound = method and (not function or _missing([p for p, _ in arrived], [v for _, v in arrived], call))
    named = {p.name: v for p, v in arrived if p.name in call.names}
    given = [v for p, v in arrived if p.name not in named and not left_out(p, v)][bound:]
    if undecided(name, len(given) + len(named), bound):
        return no_combination(_shown(name), given, named, _only(name, parameters, bound))
    text = ", ".join(f'"{n}"' for n in names)
    return TypeError(
        f"{_shown(name)}() missing {len(names)} required positional argument{'s' if len(names) == 1 else ''}: {text}"
    )


def _only(name: str, parameters: list[inspect.Parameter], bound: bool) -> str | None:
    """The form of a sum of products in a message, if but one is not deprecated: tensors, numbers by name, a function's `out`."""
    record = record_of(name)
    if not record.factors or len(arities(_shown(name), bound, record.hidden)) > 1:
        return None
    tensors = [f"Tensor {p.name}" for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    numbers = [f"Number {p.name} = {p.default}" for p in parameters if p.kind is p.KEYWORD_ONLY]
    return ", ".join([*tensors[bound:], "*", *numbers, *([] if bound or name.endswith("_") else ["Tensor out = None"])])


def raise_surplus(
    name: str, signature: inspect.Signature, values: Sequence[Any], surplus: Sequence[Any], method: bool, function: bool
) -> None:
    """The exception for a call that gives more arguments than there are."""
    parameters = list(signature.parameters.values())
    by_position = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    most, least = len(by_position), sum(1 for p in by_position if p.default is p.empty)
    given = [*[v for p, v in zip(parameters, values, strict=False) if p.kind is p.POSITIONAL_OR_KEYWORD], *surplus]
    call = written(_caller())
    bound = method and (not function or (call.positional is not None and len(given) > call.positional))
    most, least, given = most - bound, least - bound, given[bound:]
    takes = (
        f"{most} positional argument{'s' if most != 1 else ''}"
        if least == most
        else (f"from {least} to {most} positional arguments")
    )
    error: Any = TypeError(f"{_shown(name)}() takes {takes} but {len(given)} were given")
    if undecided(name, len(given), bound):
        error = no_combination(_shown(name), given, None, _only(name, parameters, bound))
    elif bound and len(parameters) == 1:
        error = TypeError(f"TensorBase.{name}() takes no arguments ({len(given)} given)")
    error.decided = True
    raise error


def left_out(parameter: inspect.Parameter, value: Any) -> bool:
    """Whether a value is the parameter's default."""
    return alike(value, parameter.default)


def alike(value: Any, default: Any) -> bool:
    """Whether a plain value is another one; 1 isn't 1.0, and -0.0 isn't 0.0."""
    if value is default:
        return True
    if value.__class__ is not default.__class__ or value.__class__ not in _PLAIN_VALUES or value != default:
        return False
    return value.__class__ is not float or copysign(1, value) == copysign(1, default)


_PLAIN_VALUES = frozenset((bool, int, float, str, tuple))


def as_given(parameters: Iterable[inspect.Parameter], values: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call whose parameters have these values: by position as far as none is left at its default, then by
    name. None if one that has no default is missing.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    positional = True
    for parameter, value in zip(parameters, values, strict=False):
        if value is MISSING:
            return None
        if left_out(parameter, value):
            positional = False
        elif positional and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(value)
        else:
            kwargs[parameter.name] = value
    return tuple(args), kwargs


def _missing(parameters: list[inspect.Parameter], values: Sequence[Any], call: Call) -> bool:
    """Whether more arguments arrived than the call shows, so that it was a method's."""
    if call.positional is None:
        return False
    arrived = sum(
        1
        for parameter, value in zip(parameters, values, strict=False)
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and parameter.name not in call.names
        and not left_out(parameter, value)
    )
    return arrived > call.positional


def _arguments(
    parameters: list[inspect.Parameter], values: Sequence[Any], call: Call, bound: bool
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that were written down: by position, and by name."""
    by_name = {parameter.name: value for parameter, value in zip(parameters, values, strict=False)}
    named = {name: by_name[name] for name in call.names if name in by_name}
    if call.positional is not None:
        return list(values[bound : call.positional + bound]), named
    given = []
    for parameter, value in zip(parameters, values, strict=False):
        if parameter.kind is parameter.KEYWORD_ONLY:
            if not left_out(parameter, value):
                named[parameter.name] = value
        elif not left_out(parameter, value):
            given.append(value)
    return given[bound:], named


def out_of_memory(error: MemoryError) -> RuntimeError:
    """The exception of a failed allocation, for one that failed in Python or NumPy."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return RuntimeError("DefaultCPUAllocator: can't allocate memory")
    count = dtype.itemsize
    for size in shape:
        count *= int(size)
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        f"allocate {count} bytes. Error code 12 (Cannot allocate memory)"
    )

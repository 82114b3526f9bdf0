"""Generated variants: from a declaration to plain Python functions, methods, operators and in-place forms.

The source of each variant is straight-line Python, registered with linecache so that a debugger steps through it. The fast path
looks the plan up by layouts and launches it; anything unusual (other numbers, `out=`, special modes, subclasses, NumPy scalars)
goes to `general`. Stands on core.operator.pointwise; the decorators here are what flambeau.ops declares with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bfloat16, float16
from flambeau.base.layout import register_cache
from flambeau.base.naming import PACKAGE
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.autograd import inplace as rewiring
from flambeau.core.autograd.pointwise_nodes import recorder_of
from flambeau.core.modes import modes, overrides
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.modes.looking import LOOK_THEMSELVES, Call, looking
from flambeau.core.operator import arguments, deprecated_overloads
from flambeau.core.operator.annotations import Declare
from flambeau.core.operator.facets import Facets, Out
from flambeau.core.operator.out_argument import convertible, copy_into, of_kernel, record_write, resize_out
from flambeau.core.operator.out_rules import check_device, check_dtype, refuse_graph
from flambeau.core.operator.pointwise import (
    BOOL,
    NUMBERS,
    REAL,
    Folded,
    Pointwise,
    as_operand,
    needs_graph,
    record,
    refuse_integers,
    signature_of,
    within_64_bits,
)
from flambeau.core.operator.publishing import NAMESPACE, compile_source, enter, operator_seen, publish, tuple_text
from flambeau.core.tensor.create import from_array, make_tensor
from flambeau.core.tensor.tensor import Tensor


def general(
    operator: Pointwise, public: Callable, operands: list[Any], numbers: tuple, statics: tuple, out: Tensor | None = None
) -> Any:
    """A pointwise call in full: subclasses, autocast, NumPy scalars, `out=`, the graph."""
    if overrides.any_override([*operands, out]):
        keywords = unusual_keywords(operator, numbers, statics)
        if out is not None:
            keywords["out"] = out
        return overrides.dispatch(operator.public or public, operands, keywords, [*operands, out])
    if modes.active.count and out is None and autocasting(operator):
        with cast_arguments(operator, operands, {}) as (cast, _):
            return general(operator, public, cast, numbers, statics)
    operands = within_64_bits(operator, [as_operand(operator, x, i) for i, x in enumerate(operands)], statics)
    numbers = tuple([x.item() if isinstance(x, (np.generic, Tensor)) else x for x in numbers])
    if not any(isinstance(x, Tensor) for x in operands):
        raise TypeError(
            f"{operator.name}(): argument '{operator.operands[0]}' (position 1) must be Tensor, not {type(operands[0]).__name__}"
        )
    recording = operator.differentiable and needs_graph(operands)
    if out is not None:
        if not isinstance(out, Tensor):
            if not operator.of_numbers or out.__class__ not in NUMBERS:
                raise arguments.refused_out(operator.name, operands, out)
            out = make_tensor(out)
        check_device(operator, out, next(x for x in operands if isinstance(x, Tensor))._layout.device)
        if operator.kind != BOOL and (operator.differentiable or not operator.name.startswith("special_")):
            refuse_graph(operator, operands if operator.differentiable else (), (out,))
        shape = geometry.broadcast(*[x._layout.shape for x in operands if isinstance(x, Tensor)])
        computation, result_dtype = operator.dtypes(operands, statics)
        given = out._layout
        if not (operator.idempotent or given.is_contiguous) and memory_order.overlaps_itself(given.shape, given.strides):
            raise RuntimeError(memory_order.OVERLAPS_ITSELF)
        overlapping(out, operands)  # as it is before it is resized
        other = given.dtype is not result_dtype
        as_computed = operator.out.as_computed
        if other and out._layout.dtype is not computation and (as_computed(operands) if callable(as_computed) else as_computed):
            if operator.check is not None:
                operator.check(computation, operands, numbers, statics)
            if not computation.is_complex or out._layout.dtype.is_complex or result_dtype.is_complex:
                raise RuntimeError(f"Found dtype {out._layout.dtype.scalar_name} but expected {computation.scalar_name}")
        check_dtype(operator, out, result_dtype)
        if not operator.converts:
            convertible(result_dtype, out._layout.dtype)
        if out._layout.shape != shape:
            if any(x is out for x in operands):
                raise RuntimeError(f"output with shape {list(out._layout.shape)} doesn't match the broadcast shape {list(shape)}")
            refuse_early(operator, computation, operands, numbers, statics)
            resize_out(out, shape, operator.result_layout(operands, result_dtype).strides)
        if overlapping(out, operands) or (other and result_dtype in (bfloat16, float16)):  # rounded before it is converted
            with modes.no_grad():
                copy_into(out, operator.compute(operands, numbers, statics))
        else:
            operator.compute(operands, numbers, statics, out)
        record_write(operator, (out,), operands)
        return out
    result = operator.compute(operands, numbers, statics)
    if recording:
        refuse_integers(result._layout.dtype)
        result._node = record(operator, result, operands, numbers, statics)
    return result


def refuse_early(operator: Pointwise, computation: Any, operands: list[Any], numbers: tuple, statics: tuple) -> None:
    """Raise what PyTorch finds wrong about a call before it resizes `out`; kernels refuse a dtype after that."""
    if operator.check is None:
        return
    try:
        operator.check(computation, operands, numbers, statics)
    except NotImplementedError as error:
        if not of_kernel(error):
            raise


def unusual_keywords(operator: Pointwise, numbers: tuple, statics: tuple) -> dict[str, Any]:
    """Numbers and statics of a call by name, those that differ from their defaults."""
    given = dict(zip([*operator.numbers, *operator.statics], [*numbers, *statics]))
    defaults = {**operator.numbers, **operator.statics}
    return {k: v for k, v in given.items() if not arguments.alike(v, defaults[k])}


def flavored(operands: Any) -> bool:
    """Whether an operand is of a class that overrides calls, whose layouts no plan may be kept under."""
    return any(isinstance(x, Tensor) and x._layout.answering is not None for x in operands)


def overlapping(out: Tensor, operands: list[Any]) -> bool:
    """Whether writing `out` while reading an operand would read what was written. RuntimeError where PyTorch sees that too."""
    found = False
    mine = out._layout
    for x in operands:
        if x.__class__ not in NUMBERS and x._storage is out._storage:
            own = x._layout
            if own.strides == mine.strides and x._offset == out._offset and own.shape == mine.shape and own.dtype is mine.dtype:
                continue
            if own.dtype is mine.dtype and memory_order.has_overlap(
                (mine.shape, mine.strides, out._offset), (own.shape, own.strides, x._offset)
            ):
                raise RuntimeError(memory_order.OVERLAPS_INPUT)
            found = True
    return found


def inplace(operator: Pointwise, public: Callable, operands: list[Any], numbers: tuple, statics: tuple) -> Tensor:
    """A pointwise call that writes its result into its first operand."""
    target = operands[0]
    if overrides.any_override(operands):
        return overrides.dispatch(public, operands, unusual_keywords(operator, numbers, statics))
    if operator.kind == REAL and isinstance(target, Tensor) and target._layout.dtype.is_complex:
        raise RuntimeError(f"In-place {operator.name} is not supported for complex tensors.")
    operands = within_64_bits(
        operator, [target, *[as_operand(operator, x, i, "_") for i, x in enumerate(operands) if i]], statics
    )
    numbers = tuple([x.item() if isinstance(x, (np.generic, Tensor)) else x for x in numbers])
    recording = operator.tracked and needs_graph(operands)
    if recording or not operator.idempotent:
        rewiring.check(target, recording)
    originals = None
    if recording:
        originals = operands
        needed = tuple([x.__class__ not in NUMBERS and x._node is not None for x in operands])
        try:
            saves = operator.recipe(operands, numbers, statics, needed).saves
        except TypeError:
            operator.checked(operands, numbers, statics, target)  # PyTorch's refusal of such a call, if it is one
            raise
        if 0 in saves:
            originals = [target.clone(), *operands[1:]]
    if overlapping(target, operands[1:]):
        fresh = [x if x.__class__ in NUMBERS or x._storage is not target._storage else x.detach().clone() for x in operands[1:]]
        operator.compute([target, *fresh], numbers, statics, target)
    else:
        operator.compute(operands, numbers, statics, target)
    if recording:
        rewiring.rebase(target, record(operator, target, operands, numbers, statics, originals))
    elif target._node is not None and modes.local.grad:
        rewiring.refresh_view(target)
    return target


# A call that finds its plan, or has one made. A launcher raises OverflowError for an int beyond 63 bits; the slow path knows
# what such a number means. (A `try` costs nothing where nothing is raised.)
_FUNCTION = '''
def {name}({signature}):
    """{doc}"""
    try:
        launch = plans[{key}]
    except (KeyError, AttributeError, TypeError):
        launch = None
    if launch is None or active.count and special(None){unusual}:
{to_out}        try:
            return {otherwise}
        except Exception as error:
            filter_traceback(error)
            raise
    try:
        if {plain}:
            return launch(None, {operands}{trailing})
        return {tracer}(launch, {operands}{trailing}{static_arguments})
    except OverflowError:
        pass
    return {otherwise}
'''

# Where a result goes that was found to fit, without a graph.
_TO_OUT = """        if out is not None and not (active.count and special(None)){usual}:
            try:
                launch = out_plans[{key} out._layout]
            except (KeyError, AttributeError, TypeError):
                pass
            else:
                if {plain} and out._node is None and not ({shared}):
                    return launch(out, {operands}{trailing})
"""

_INPLACE = '''
def {name}({signature}):
    """In-place version of {public}()."""
    try:
        launch = inplace_plans[{key}]
    except (KeyError, AttributeError, TypeError):
        launch = None
    if launch is None or active.count and special(None){unusual} or not ({plain}) and local.grad or {shared}:
        try:
            return {otherwise}
        except Exception as error:
            filter_traceback(error)
            raise
    try:
        return launch({first}, {operands}{trailing})
    except OverflowError:
        pass
    return {otherwise}
'''

# Which operands need gradients, as the bits of a number, and what records a call with that launcher and those bits.
_TRACE = """
def {tracer}(launch, {arguments}):
    out = launch(None, {operands}{trailing})
    if not local.grad:
        return out
    which = {which}
    recorder = recorders.get((launch, which))
    if recorder is None:
        recorder = specialize_recorder(launch, which, out, ({operands},), ({numbers}), ({statics}), {every})
    out._node = recorder(out, {operands}{trailing})
    return out
"""


def _key_part(name: str, first: bool) -> str:
    return f"{name}._layout" if first else f"{name}.__class__ if {name}.__class__ in NUMBERS else {name}._layout"


def generate(
    operator: Pointwise,
    doc: str,
    public: str,
    method: bool,
    function: bool,
    inplace_too: bool | str,
    dunder: str | None,
    reflected: str | None,
    out: bool = True,
) -> Callable:
    """Make and register the variants of a pointwise operator; returns the function."""
    operands, numbers, statics = operator.operands, list(operator.numbers), list(operator.statics)
    defaults = {**operator.numbers, **operator.statics}
    folded = [n for n, folds in zip(numbers, operator.folds) if folds]  # keyword-only: the fast path has their defaults
    given = [n for n in numbers if n not in folded]
    signature = signature_of(operator.body)
    parts, star = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*surplus")  # what has no place, or belongs to a deprecated overload
            star = True
        default = "MISSING" if parameter.default is parameter.empty else source_of(parameter.default)
        parts.append(f"{name}={default}")
    if not star:
        parts.append("*surplus")
    layouts = [_key_part(n, i == 0) for i, n in enumerate(operands)]
    key = ", ".join([*layouts, *[f"{n}.__class__" for n in given], *statics]) + ","
    usual_key = (
        ", ".join([*layouts, *[defaults[n].__class__.__name__ for n in given], *[source_of(defaults[n]) for n in statics]]) + ","
    )
    plain = " and ".join(
        f"{n}._node is None" if i == 0 else f"({n}.__class__ in NUMBERS or {n}._node is None)" for i, n in enumerate(operands)
    )
    usual = "".join(f" and {n}.__class__ is {defaults[n].__class__.__name__} and {n} == {source_of(defaults[n])}" for n in folded)
    unusual = "".join(
        f" or {n}.__class__ is not {defaults[n].__class__.__name__} or {n} != {source_of(defaults[n])}" for n in folded
    )

    def shared(target: str, others: Sequence[str]) -> str:
        return " or ".join([f"({n}.__class__ not in NUMBERS and {n}._storage is {target}._storage)" for n in others]) or "False"

    fields = {
        "operands": ", ".join(operands),
        "numbers": tuple_text(numbers),
        "statics": tuple_text(statics),
        "plain": plain,
        "public": public,
        "doc": doc.replace("\\", "\\\\").replace('"""', "'''"),
        "first": operands[0],
        "shared": shared(operands[0], operands[1:]),
    }
    scope: dict[str, Any] = {
        "MISSING": arguments.MISSING,
        "NUMBERS": NUMBERS,
        "filter_traceback": filter_traceback,
        "plans": operator.plans,
        "active": modes.active,
        "special": modes.special,
        "local": modes.local,
        "inplace_plans": {},
        "out_plans": {},
        "recorders": operator.recorders,
    }
    trailing, static_arguments = "".join(f", {n}" for n in given), "".join(f", {n}" for n in statics)
    every = [*numbers, *statics]

    def to_out(key: str, trailing: str, usual: str) -> str:
        return _TO_OUT.format(**{**fields, "shared": shared("out", operands)}, key=key, trailing=trailing, usual=usual)

    given_out = "out" if out else "None"
    otherwise = f"specialize({{operands}}, ({{numbers}}), ({{statics}}), {given_out})".format(**fields)
    otherwise_in_place = "specialize_inplace({operands}, ({numbers}), ({statics}))".format(**fields)
    which = " | ".join(
        [
            f"({n}._node is not None)"
            if i == 0 and n == operands[0]
            else f"({1 << i} if {n}.__class__ not in NUMBERS and {n}._node is not None else 0)"
            for i, n in enumerate(operands)
        ]
    )
    if len(operands) == 1:
        which = "1"
    source = ""
    if folded:  # forms with all numbers, for calls in which keyword-only ones are not at their defaults
        every_key = ", ".join([*layouts, *[f"{n}.__class__" for n in numbers], *statics]) + ","
        every_number = "".join(f", {n}" for n in numbers)
        positional = ", ".join([*operands, *every])
        forms = {"unusual": "", "key": every_key, "trailing": every_number, "static_arguments": static_arguments}
        source = _FUNCTION.format(
            **fields | forms | {"doc": "All numbers given.", "unusual": " or out is not None"},
            name=f"{public}_with_numbers",
            signature=positional + ", out=None",
            tracer="trace_with_numbers",
            otherwise=otherwise,
            to_out=to_out(every_key, every_number, ""),
        )
        if inplace_too:
            source += _INPLACE.format(
                **fields | forms, name=f"{public}_with_numbers_in_place", signature=positional, otherwise=otherwise_in_place
            )
        source += _TRACE.format(
            tracer="trace_with_numbers", which=which, arguments=positional, trailing=every_number, every=True, **fields
        )
        otherwise = f"{public}_with_numbers({positional}, {given_out})"
        otherwise_in_place = f"{public}_with_numbers_in_place({positional})"
    unusual += " or surplus"
    otherwise = f"with_surplus({fields['operands']}, surplus, ({tuple_text(every)}), {given_out}) if surplus else {otherwise}"
    if not out:
        otherwise = f"refuse_out({operands[0]}) if out is not None else {otherwise}"
    otherwise_in_place = (
        f"with_surplus_in_place({fields['operands']}, surplus, ({tuple_text(every)})) if surplus else {otherwise_in_place}"
    )
    usual_form = {"key": key, "trailing": trailing, "static_arguments": static_arguments, "tracer": "trace"}
    source += _FUNCTION.format(
        **fields | usual_form,
        name=public,
        signature=", ".join([*parts, "out=None"]),
        unusual=" or out is not None" + unusual,
        otherwise=otherwise,
        to_out=to_out(key, trailing, usual) if out else "",
    )
    if dunder:
        usual_trailing = "".join(f", {source_of(defaults[n])}" for n in given)
        usual_statics = "".join(f", {source_of(defaults[n])}" for n in statics)
        source += _FUNCTION.format(
            **fields,
            name=dunder,
            signature=", ".join(operands),
            key=usual_key,
            unusual="",
            to_out="",
            trailing=usual_trailing,
            static_arguments=usual_statics,
            tracer="trace",
            otherwise=f"specialize_operator({fields['operands']})",
        )
    if inplace_too:
        source += _INPLACE.format(
            **fields | usual_form, name=public + "_", signature=", ".join(parts), unusual=unusual, otherwise=otherwise_in_place
        )
    source += _TRACE.format(
        tracer="trace",
        which=which,
        arguments=", ".join([*operands, *given, *statics]),
        trailing=trailing,
        every=False,
        **{**fields, "numbers": "".join(f"{n if n in given else source_of(defaults[n])}, " for n in numbers)},
    )
    register_cache(scope["inplace_plans"])
    register_cache(scope["out_plans"])
    scope.update(_specialization(operator, public, scope, signature, method, function, dunder))
    compile_source(f"<flambeau {public}>", source, scope)
    return _published(operator, public, scope, method, function, inplace_too, dunder, reflected)


def _calls(
    operator: Pointwise, public: str, scope: dict[str, Any], signature: inspect.Signature, dunder: str | None
) -> tuple[Callable[..., Call | None], Callable[..., Call | None], Callable[..., Call | None]]:
    """What says of arguments on the slow way which call they are: of the function, of the form in place, of Python's operator."""
    names = [*operator.operands, *operator.numbers, *operator.statics]
    in_order = tuple(signature.parameters.values())

    def call_of(name: str, given_operands: Sequence[Any], numbers_given: tuple, statics_given: tuple) -> Call | None:
        """The call of a function in `scope` as the program could have written it."""
        values = dict(zip(names, [*given_operands, *numbers_given, *statics_given]))
        given = arguments.as_given(in_order, [values[p.name] for p in in_order])
        return given and (scope[name], *given)

    def call_with_out(*given: Any) -> Call | None:
        *given_operands, numbers_given, statics_given, out = given
        call = call_of(public, given_operands, numbers_given, statics_given)
        if call is not None and out is not None:
            call[2]["out"] = out
        return call

    def call_in_place(*given: Any) -> Call | None:
        *given_operands, numbers_given, statics_given = given
        return call_of(public + "_", given_operands, numbers_given, statics_given)

    def call_of_operator(*given: Any) -> Call | None:
        return None if scope.get(dunder) is None else (scope[dunder], given, {})

    return call_with_out, call_in_place, call_of_operator


def _specialization(
    operator: Pointwise,
    public: str,
    scope: dict[str, Any],
    signature: inspect.Signature,
    method: bool,
    function: bool,
    dunder: str | None,
) -> dict[str, Callable]:
    """What the generated functions in `scope` call when they don't know a plan or a recorder yet, by name."""
    default_numbers, default_statics = tuple(operator.numbers.values()), tuple(operator.statics.values())
    default_of = {**operator.numbers, **operator.statics}

    def specialized(given_operands: tuple, numbers_given: tuple, statics_given: tuple, out: Any) -> tuple[tuple, Any]:
        """The key by which generated functions look a plan up, and the plan, or None if they can't use it."""
        kinds = operator.number_kinds(numbers_given)
        if any(operator.folds) and len({kind is Folded for kind, folds in zip(kinds, operator.folds) if folds}) > 1:
            return (), None  # some keywords at their defaults and some not: no generated function has that form
        parts = tuple([x.__class__ if x.__class__ in NUMBERS else getattr(x, "_layout", None) for x in given_operands])
        order = [x.__class__ in NUMBERS for x in given_operands]
        if order[0] or order != sorted(order) or None in parts or flavored(given_operands):
            return (), None
        launch = operator.other_plans.get((*parts, *kinds, *statics_given, out))
        return (*parts, *[kind for kind in kinds if kind is not Folded], *statics_given), launch

    names = [*operator.operands, *operator.numbers, *operator.statics]

    def explain(error: BaseException, name: str, given_operands: list, numbers_given: tuple, statics_given: tuple) -> Any:
        values = dict(zip(names, [*given_operands, *numbers_given, *statics_given]))
        in_place = name != public
        return arguments.explain(
            error,
            name,
            signature,
            [values[n] for n in signature.parameters],
            method or in_place,
            name in NAMESPACE if in_place else function,
        )

    def specialize(*given: Any) -> Any:
        *given_operands, numbers_given, statics_given, out = given
        if operator.of_numbers and all(x.__class__ in NUMBERS for x in given_operands):
            given_operands[0] = make_tensor(given_operands[0])
        try:
            result = general(operator, scope[public], given_operands, numbers_given, statics_given, out)
        except arguments.CAUGHT as error:
            if explain(error, public, given_operands, numbers_given, statics_given) is None:
                raise
            return NotImplemented
        if out is None or (out.__class__ is Tensor and out._layout.answering is None):
            layout = None if out is None else out._layout
            place, launch = specialized(tuple(given_operands), numbers_given, statics_given, layout)
            if launch is not None and out is None:
                operator.plans[place] = launch
            elif launch is not None:
                scope["out_plans"][*place, layout] = launch
        return result

    def with_surplus(*given: Any) -> Any:
        *given_operands, surplus, keywords, out = given
        return answered(public, given_operands, surplus, keywords, {} if out is None else {"out": out}, method, function)

    def with_surplus_in_place(*given: Any) -> Any:
        *given_operands, surplus, keywords = given
        return answered(public + "_", given_operands, surplus, keywords, {}, True, False)

    def answered(
        name: str, given_operands: list, surplus: tuple, keywords: tuple, named: dict, method: bool, function: bool
    ) -> Any:
        """The answer to a call with too many arguments, if it is one of a deprecated overload; else TypeError."""
        values = dict(zip([*operator.operands, *operator.numbers, *operator.statics], [*given_operands, *keywords]))
        changed = {n: values[n] for n, default in default_of.items() if values[n] != default}
        answer = deprecated_overloads.call(scope[name], name, signature.parameters, (*given_operands, *surplus), changed | named)
        if answer is None:
            arguments.raise_surplus(name, signature, [values[n] for n in signature.parameters], surplus, method, function)
        return answer

    def refuse_out(first: Any) -> Any:
        """TypeError for a call with `out=` of an operator that takes none."""
        error = TypeError(f"{public}() got an unexpected keyword argument 'out'")
        if first is arguments.MISSING:
            missing = [first] * len(operator.operands)
            explain(error, public, missing, default_numbers, default_statics)
        raise error

    def specialize_operator(*given_operands: Any) -> Any:
        for i, x in enumerate(given_operands[1:], 1):
            if isinstance(x, np.ndarray) and operator.of_arrays and x.dtype.kind in "biufc":
                return specialize_operator(*given_operands[:i], make_tensor(x), *given_operands[i + 1 :])
            if x.__class__ not in NUMBERS and not isinstance(x, (Tensor, np.generic, int, float, complex)):
                if not (operator.of_arrays and isinstance(x, np.ndarray)):
                    return NotImplemented
                try:  # the one operator that takes arrays, from either side
                    given_operands = (given_operands[0], from_array(np.asarray(x)))
                except TypeError:
                    return NotImplemented
        return specialize(*given_operands, default_numbers, default_statics, None)

    def specialize_inplace(*given: Any) -> Tensor:
        *given_operands, numbers_given, statics_given = given
        try:
            result = inplace(operator, scope[public + "_"], given_operands, numbers_given, statics_given)
        except arguments.CAUGHT as error:
            explain(error, public + "_", given_operands, numbers_given, statics_given)
            rewiring.refuse_leaf(given_operands[0])
            raise
        place, launch = specialized(tuple(given_operands), numbers_given, statics_given, given_operands[0]._layout)
        if launch is not None and not memory_order.overlaps_itself(result._layout.shape, result._layout.strides):
            scope["inplace_plans"][place] = launch
        return result

    def specialize_recorder(
        launch: Callable, which: int, out: Tensor, given_operands: tuple, numbers_given: tuple, statics_given: tuple, every: bool
    ) -> Callable:
        if every and Folded in operator.number_kinds(numbers_given):  # a call at its defaults by a launcher for any numbers
            return lambda result, *_: record(operator, result, given_operands, numbers_given, statics_given)
        made = recorder_of(operator, which, out, given_operands, numbers_given, statics_given)
        operator.recorders[launch, which] = made
        return made

    call_with_out, call_in_place, call_of_operator = _calls(operator, public, scope, signature, dunder)
    made = {
        "specialize": (specialize, call_with_out),
        "specialize_inplace": (specialize_inplace, call_in_place),
        "specialize_operator": (specialize_operator, call_of_operator),
    }
    looked = {name: slow if operator.as_written else looking(slow, call) for name, (slow, call) in made.items()}
    if dunder and not operator.as_written:
        looked["specialize_operator"] = overrides.asked_first(
            looked["specialize_operator"], call_of_operator, lambda: operator_seen(dunder, scope[public])()
        )
    return {
        **looked,
        "specialize_recorder": specialize_recorder,
        "refuse_out": refuse_out,
        "with_surplus": with_surplus,
        "with_surplus_in_place": with_surplus_in_place,
    }


def _published(
    operator: Pointwise,
    public: str,
    scope: dict[str, Any],
    method: bool,
    function: bool,
    inplace_too: bool | str,
    dunder: str | None,
    reflected: str | None,
) -> Callable:
    """Put the generated functions of `scope` into the namespace and on Tensor; returns the function."""
    made = scope[public]
    made.__module__ = PACKAGE
    made.operator = operator
    operator.public, operator.published = made, method or function
    enter(public, operator)
    if not operator.as_written:
        LOOK_THEMSELVES.update(scope[name] for name in (public, public + "_", dunder) if name in scope)
    publish(public, made, method=method, function=function)
    if inplace_too:
        changed = scope[public + "_"]
        changed.__module__ = PACKAGE
        changed.operator = operator
        made.inplace = operator.in_place = changed
        publish(public + "_", changed, method=method, function=inplace_too == "function")
    if dunder:
        scope[dunder].operator = operator
        setattr(Tensor, dunder, scope[dunder])
        if reflected:
            setattr(Tensor, reflected, scope[dunder])
        if inplace_too and len(operator.operands) == 2 and operator.kind != "bool":
            setattr(Tensor, "__i" + dunder[2:], scope[public + "_"])
    return made


def source_of(default: Any) -> str:
    """A default value as Python source."""
    return f"float('{default}')" if isinstance(default, float) and default - default != 0 else repr(default)


def pointwise(
    kind: Any = "promote",
    operator: str | None = None,
    method: bool = True,
    function: bool = True,
    inplace: bool | str = True,
    reflected: str | None = None,
    undecided: tuple[str, ...] = (),
    check: Callable | None = None,
    node: Any = None,
    name: str | None = None,
    differentiable: bool = True,
    types: str = "bifc",
    kernel: str | None = None,
    guarded: bool = False,
    undefined: str | None = None,
    out: bool | Out = True,
    real_gradients: str | None = None,
    **facets: Unpack[Facets],
) -> Declare:
    """Declare a pointwise operator by its scalar body.

    The body's parameters annotated `Tensor` or `Operand` are tensors (the latter also numbers), `Number` are run-time
    numbers with a default, all others are static. operator: the Python operator's method, and `reflected` its mirror image
    where that is the same; method, function, inplace: where it appears (inplace="function": the in-place form is in the
    namespace too); out: whether it takes `out=`. The others are those of core.operator.pointwise.Pointwise; guarded: the
    kernel reports integer divisions by zero.
    """

    def declare(body: Callable) -> Callable:
        public = name or body.__name__
        operands, numbers, statics = [], {}, {}
        for parameter in signature_of(body).parameters.values():
            annotation = str(parameter.annotation)
            if annotation in ("Tensor", "Operand"):
                operands.append(parameter.name)
            elif annotation == "Number":
                numbers[parameter.name] = parameter.default
            else:
                statics[parameter.name] = parameter.default
        declared = Pointwise(
            public,
            body,
            operands,
            numbers,
            statics,
            kind,
            undecided,
            check,
            node,
            differentiable,
            types,
            kernel,
            guarded,
            undefined,
            real_gradients,
            out,
            **facets,
        )
        only = [p.name for p in signature_of(body).parameters.values() if str(p.annotation) == "Tensor"]
        declared.tensors_only = frozenset(only)
        made = generate(declared, inspect.getdoc(body) or "", public, method, function, inplace, operator, reflected, bool(out))

        def vjp(rule: Callable) -> Callable:
            declared.rule = rule
            return rule

        made.vjp = vjp
        return made

    return declare

"""`@mutating`: declare `name` and `name_` by a function that writes into its first argument.

`name` clones first; `name_` writes in place and rewires the graph. Stands on core.operator.define; used by the families that
scatter.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Unpack

from flambeau.base import memory_order
from flambeau.base.layout import Layout, contiguous_format, register_cache
from flambeau.base.naming import PACKAGE
from flambeau.base.warn import warn
from flambeau.core.autograd import inplace as rewiring
from flambeau.core.autograd.node_codegen import WRITTEN
from flambeau.core.modes import modes, overrides
from flambeau.core.operator import arguments as wrong
from flambeau.core.operator.define import KERNEL_ERROR, operator
from flambeau.core.operator.facets import Facets, Out
from flambeau.core.operator.opdef import TENSOR
from flambeau.core.operator.publishing import compile_source, publish
from flambeau.core.operator.specialization import kept_key
from flambeau.core.tensor import lazy_conjugate
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import clone, clone_raw
from flambeau.ops.indexing.gather_plans import KernelCheck, copy_and_move, filling, make_plan

_SOURCE = '''
def {name}({signature}):
    """In-place version of {public}()."""
    try:
{kept}        if active.count and special(None) or {unlike}:
            return general(({arguments},))
{unsuited}        if not {first}._layout.is_contiguous:
            refuse_overlap({first})
{apart}        if ({wanted}) and local.grad:
            return recorded(({arguments},))
        write({call})
        return {first}
{kernel_error}    except caught as error:
        explain(error, values=({arguments},))
        raise
'''

_KEPT = """        try:
            launch = kept.get(({key},))
        except (AttributeError, TypeError):
            launch = None
        usual = launch is not None and not (active.count and special(None))
        if usual and not ({shared}) and not (({wanted}) and local.grad){suited}:
            launch({tensors})
            return {first}
"""


def refuse_overlap(tensor: Tensor) -> None:
    """RuntimeError if two indices of a tensor that is to be written name one element."""
    layout = tensor._layout
    if memory_order.overlaps_itself(layout.shape, layout.strides):
        raise RuntimeError(memory_order.OVERLAPS_ITSELF)


def mutating(
    node: str | None = None,
    out: bool | Out = True,
    function: bool = True,
    method: bool = True,
    name: str | None = None,
    fresh: Callable | None = None,
    keep_order: bool = False,
    apart: tuple[str, ...] = (),
    expanded: str | None = None,
    moved: Callable | None = None,
    overlaps: bool = False,
    real_gradients: str | None = None,
    **facets: Unpack[Facets],
) -> Callable:
    """Declare an operator by `write(input, ...)`, which overwrites (part of) `input` and returns nothing.

    fresh: makes the result of the out-of-place form, where cloning and writing is not it; keep_order: the clone keeps
    the order of dimensions in memory, otherwise it is contiguous; apart: tensors that may have no element in common with the
    written one; overlaps: whether elements of the written one may share memory; expanded: the form of assignment that makes
    writing to an expanded tensor deprecated, not an error.
    moved(layout of the written tensor, *arguments of the call): the writes as moves between it (slot 0) and the other tensors,
    or None; the copy and the writes are then one kept plan. `kernel_error` says what is wrong with an index in that case.
    real_gradients: as of `operator`.
    """

    def declare(write: Callable) -> Callable:
        public = name or write.__name__
        parameters = list(inspect.signature(write).parameters.values())

        @functools.wraps(write)
        def implementation(*args: Any, **kwargs: Any) -> Tensor:
            if fresh is not None:
                return fresh(*args, **kwargs)
            input = args[0]
            result = (
                clone_raw(input)
                if keep_order
                else clone(tensor_from(input._storage, input._offset, input._layout), memory_format=contiguous_format)
            )
            write(result, *args[1:], **kwargs)
            result._storage.writes = 0
            return result

        @functools.wraps(write)
        def planned(*args: Any, **kwargs: Any) -> Any:
            layout = args[0]._layout
            fresh_layout = layout.dense()
            if keep_order and fresh_layout is not layout:
                strides = memory_order.preserved_strides(layout.shape, layout.strides)
                fresh_layout = Layout.of(layout.shape, strides, layout.dtype, layout.device)
            moves = moved(fresh_layout, *args, **kwargs)  # type: ignore[misc]
            if moves is None:
                return implementation(*args, **kwargs)
            others, number = _others(args, made.operator)
            launch = copy_and_move(layout, fresh_layout, others, moves)
            return _filling_last(launch, layout) if number else launch

        made = operator(
            node=node,
            out=out,
            function=function,
            method=method,
            name=public,
            planned=moved is not None,
            real_gradients=real_gradients,
            **facets,
        )(implementation if moved is None else planned)
        made.write, made.operator.returns = write, Tensor
        if moved is not None:
            made.operator.kept_in_place = register_cache({})
        made.in_place = _in_place(
            made, write if moved is None else _planned_writes(made, write, moved), parameters, public, apart, expanded, overlaps
        )
        made.operator.in_place = made.in_place
        publish(public + "_", made.in_place, method, function=False)
        return made

    return declare


def _others(args: tuple, declared: Any) -> tuple[list[Layout], bool]:
    """The layouts of a call's tensors but the first, with that of a zero-dim tensor for a number that may be one; and whether
    there is such a number.
    """
    own, found, number = args[0]._layout, [], False
    for name, x in zip(declared.parameters[1:], args[1:]):
        if declared.kinds[name] != TENSOR:
            continue
        if isinstance(x, Tensor):
            found.append(x._layout)
        else:
            found.append(Layout.of((), (), own.dtype, own.device))
            number = True
    return found, number


def _filling_last(launch: Callable, layout: Layout) -> Callable:
    """A launcher whose last operand is a number."""
    return lambda out, *given: launch(out, *given[:-1], filling(given[-1], layout.dtype, layout.device))


def _planned_writes(made: Any, write: Callable, moved: Callable) -> Callable:
    """`write` by moves, whose plans are kept for the calls that come again."""
    declared = made.operator
    kept_in_place = declared.kept_in_place
    kinds = [declared.kinds[n] for n in declared.parameters]
    tensors = [i for i, kind in enumerate(kinds) if kind == TENSOR]

    @functools.wraps(write)
    def planned(*args: Any, **kwargs: Any) -> None:
        layout, storage = args[0]._layout, args[0]._storage
        given = [args[i] for i in tensors]
        plain = layout.flavor is None and not any(
            isinstance(x, Tensor) and (x._storage is storage or x._layout.flavor is not None) for x in given[1:]
        )
        if not plain or memory_order.overlaps_itself(layout.shape, layout.strides):
            return write(*args, **kwargs)
        key = tuple(
            [getattr(x, "_layout", x.__class__) if kind == TENSOR else x for kind, x in zip(kinds, [*args, *kwargs.values()])]
        )
        launch = kept_in_place.get(key)
        if launch is None:
            moves = moved(layout, *args, **kwargs)
            if moves is None:
                return write(*args, **kwargs)
            others, number = _others(args, declared)
            launch = make_plan(moves, [layout], others)
            if number:
                launch = _filling_last(launch, layout)
            if not any(isinstance(part, Tensor) for part in key):  # given for an int, it may change
                kept_in_place[key] = launch
        launch(*given)
        return None

    return planned


def _in_place(
    made: Callable,
    write: Callable,
    parameters: list[inspect.Parameter],
    public: str,
    apart: tuple[str, ...],
    expanded: str | None,
    overlaps: bool,
) -> Callable:
    declared = made.operator
    parts, star = [], False
    by_moves = declared.kept_in_place is not None
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
    tensors = [n for n in declared.tensors if declared.kinds[n] == TENSOR]
    position = {n: i for i, n in enumerate(declared.parameters)}
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

    def check_repeats(tensor: Tensor) -> None:
        if overlaps:
            return
        if expanded is None:
            refuse_overlap(tensor)
        elif memory_order.overlaps_itself(tensor._layout.shape, tensor._layout.strides):
            warn(
                f"Use of {public}_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
                f"operation. This also applies to advanced indexing e.g. {expanded}"
            )

    def once(*args: Any, **kwargs: Any) -> None:
        storage = args[0]._storage
        before = storage.writes
        write(*args, **kwargs)
        storage.writes = before + 1  # however many steps the write took

    def through(*args: Any, **kwargs: Any) -> None:
        storage = args[0]._storage
        before = storage.writes
        lazy_conjugate.written_through(write, *args, **kwargs)
        storage.writes = before + 1

    def call(values: tuple) -> None:
        run = through if lazy_conjugate.any_pending(values) else once
        run(
            *[v for n, v in zip(declared.parameters, values) if n not in keywords],
            **{n: v for n, v in zip(declared.parameters, values) if n in keywords},
        )

    def general(values: tuple) -> Any:
        given = [values[position[n]] for n in tensors]
        if overrides.any_override(given):
            positional = [v for n, v in zip(declared.parameters, values) if n not in keywords]
            return overrides.dispatch(
                scope[public + "_"], positional, {n: v for n, v in zip(declared.parameters, values) if n in keywords}, given
            )
        if not isinstance(given[0], Tensor):
            raise TypeError(f"{public}_(): argument 'input' (position 1) must be Tensor, not {type(given[0]).__name__}")
        check_repeats(given[0])
        for n in apart:
            rewiring.refuse_shared(given[0], values[position[n]])
        if modes.local.grad and any(getattr(x, "_node", None) is not None for x in given):
            return recorded(values)
        call(values)
        return given[0]

    def recorded(values: tuple) -> Tensor:
        self = values[0]
        rewiring.check(self)
        edge = (self._node, self._index)
        modes.local.grad = False
        try:
            # the rule may want the values from before the write
            before = (
                clone_raw(self)
                if declared.parameters[0] in declared.rule_names
                else tensor_from(self._storage, self._offset, self._layout)
            )
            call(values)
        finally:
            modes.local.grad = True
        before._node, before._index = edge
        alias = tensor_from(self._storage, self._offset, self._layout)
        alias._index = WRITTEN
        node = declared.record([before, *values[1:]], alias)
        del before, alias  # a live alias has `rebase` look for views
        rewiring.rebase(self, node)
        return self

    scope: dict[str, Any] = {
        "active": modes.active,
        "special": modes.special,
        "local": modes.local,
        "plain": overrides.PLAIN,
        "general": general,
        "Tensor": Tensor,
        "recorded": recorded,
        "write": once,
        "refuse_overlap": check_repeats,
        "refuse_shared": rewiring.refuse_shared,
        "caught": wrong.CAUGHT,
        "explain": functools.partial(wrong.explain, name=public + "_", signature=declared.signature, method=True, function=False),
    }
    suits, tests, unsuited = wrong.suiting(public, declared.signature.parameters)
    scope |= suits
    wanted = " or ".join(f"getattr({n}, '_node', None) is not None" for n in tensors)
    kept = kernel_error = ""
    if by_moves:
        key, given = kept_key(declared)
        first = parameters[0].name
        shared = " or ".join(f"getattr({n}, '_storage', None) is {first}._storage" for n in tensors[1:])
        kept = _KEPT.format(
            key=key, wanted=wanted, tensors=given, first=first, shared=shared, suited="".join(f" and {test}" for test in tests)
        )
        kernel_error = KERNEL_ERROR.format(in_order=", ".join(p.name for p in parameters))
        scope |= {"kept": declared.kept_in_place, "declared": declared, "KernelCheck": KernelCheck}
    source = _SOURCE.format(
        kept=kept,
        kernel_error=kernel_error,
        wanted=wanted,
        unsuited=unsuited,
        name=public + "_",
        public=public,
        signature=", ".join(parts),
        first=parameters[0].name,
        arguments=", ".join(p.name for p in parameters),
        call=", ".join(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in parameters),
        apart="".join(
            f"        if getattr({n}, '_storage', None) is {parameters[0].name}._storage:\n"
            f"            refuse_shared({parameters[0].name}, {n})\n"
            for n in apart
        ),
        unlike=" or ".join(f"{n}.__class__ not in plain or ({n}.__class__ is Tensor and {n}._layout.pending)" for n in tensors),
    )
    compile_source(f"<flambeau {public}_>", source, scope)
    function = scope[public + "_"]
    function.__module__ = PACKAGE
    return function

"""Calling an operator whose arguments have symbols: the results of the example, with the expressions of their sizes.

Stands on state, evidence and the rules; used by fake_tensor and by the tracers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau._subclasses.symbolic import rules_images, rules_views
from flambeau._subclasses.symbolic.evidence import Evidence
from flambeau._subclasses.symbolic.fitting import Disagreement
from flambeau._subclasses.symbolic.real_tensors import propagated
from flambeau._subclasses.symbolic.rules import RULES, Call
from flambeau._subclasses.symbolic.state import describe, env_of, kept, leaves, plain_sizes
from flambeau._subclasses.symbolic.unbacked import UNBACKED
from flambeau.base.symbolic.numbers import is_symbolic_number, plain_value
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.fakes import dynamic_sizes

__all__ = ["run"]

_ = rules_images, rules_views  # which enter their rules


def run(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any], env: Any = None) -> Any:
    """The results of an overload; those of fake tensors with symbols have symbols.

    env: the environment for what only a run tells, where no argument has one. NotImplementedError for an operator whose results'
    sizes aren't known.
    """
    own = env_of([args, list(kwargs.values())])
    env = own or env
    if env is not None and env.fake_mode is not None:
        return propagated(env.fake_mode, overload, args, kwargs, lambda: _fake(overload, args, kwargs, own, env))
    return _fake(overload, args, kwargs, own, env)


def _fake(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any], own: Any, env: Any) -> Any:
    try:
        return _run(overload, args, kwargs, own, env)
    except fakes.DynamicOutputShapeException:
        if env is None or overload.namespace == "aten":
            raise
        with dynamic_sizes(env):  # the fake of a program's operator, which says which sizes depend on data
            return overload(*args, **kwargs)


def _run(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any], own: Any, env: Any) -> Any:
    unbacked = UNBACKED.get(overload.overloadpacket.__name__)
    if own is None and (env is None or unbacked is None):
        with plain_sizes() if env is not None and env.fake_mode is not None else contextlib.nullcontext():
            return overload(*args, **kwargs)
    call = Call(env, overload, args, kwargs)
    if unbacked is not None:
        made = unbacked(call)
        if made is not NotImplemented:
            return made
    rule = RULES.get(f"{call.name}.{overload._overloadname}") or RULES.get(call.name)
    if rule is None and call.is_pointwise:
        rule = RULES["pointwise"]
    said = rule(call) if rule is not None else None
    with plain_sizes():
        made = overload(*plain(args), **{k: plain(v) for k, v in kwargs.items()})
    if not overload._schema.is_mutable or overload._schema.returns:
        _describe(call, made, said)
    return made


def plain(value: Any) -> Any:
    """An argument with the numbers of the example."""
    if isinstance(value, (list, tuple)) and any(is_symbolic_number(x) or isinstance(x, (list, tuple)) for x in value):
        return [plain(x) for x in value]
    return plain_value(value)


def _describe(call: Call, made: Any, said: Any) -> None:
    results = list(leaves([made]))
    given = [x for x in leaves([call.args, list(call.kwargs.values())]) if isinstance(x, Tensor)]
    fresh = [x for x in results if isinstance(x, Tensor) and fakes.is_fake(x._layout)
             and not (any(x is g for g in given) and kept(x) is not None)]  # fmt: skip
    if not fresh:
        return
    stand_ins: Any = fresh[0]._layout.device.stand_ins
    evidence = Evidence(call.env, stand_ins.mode, call.overload, call.args, call.kwargs)
    try:
        if said is None or len(said) != len(results):
            evidence.require(results)
            said = [evidence.sizes(x, i) if isinstance(x, Tensor) else None for i, x in enumerate(results)]
        else:
            try:
                evidence.confirm(results, said)
            except Disagreement:
                evidence.require(results)
                said = [evidence.sizes(x, i) if isinstance(x, Tensor) else None for i, x in enumerate(results)]
    except Disagreement:
        raise NotImplementedError(
            f"{call.overload} with symbolic sizes is not implemented in flambeau: what its results' sizes are wasn't found; make "
            "the dimensions that it depends on static"
        ) from None
    for i, (x, sizes) in enumerate(zip(results, said)):
        if isinstance(x, Tensor) and sizes is not None and any(x is f for f in fresh):
            describe(x, call.env, sizes, evidence.strides(x, i, sizes), evidence.offset(x, i))

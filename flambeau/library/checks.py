"""opcheck: whether an operator keeps what its schema, its gradient and its fake promise. Stands on dispatcher and
autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import calling
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """A check of an operator failed."""


def _copies(values: Any) -> Any:
    """The same arguments with tensors of their own."""
    if isinstance(values, Tensor):
        made = values.detach().clone(memory_format=torch.preserve_format)
        return made.requires_grad_() if values.requires_grad else made
    if isinstance(values, (list, tuple)):
        return type(values)([_copies(x) for x in values])
    if isinstance(values, dict):
        return {key: _copies(x) for key, x in values.items()}
    return values


def test_schema(op: OpOverload, args: Any, kwargs: Any, rtol: Any, atol: Any) -> None:
    """It writes to the arguments that its schema marks and no others, and results share no memory that the schema
    doesn't show.
    """
    args, kwargs = _copies((args, kwargs))
    values = calling.bind(op._schema, args, kwargs)
    before = [[x.detach().clone() for x in calling.flat_tensors([value])] for value in values]
    with torch.no_grad():
        result = op(*args, **kwargs)
    for argument, value, old in zip(op._schema.arguments, values, before):
        changed = any(not torch.equal(x.detach(), y) for x, y in zip(calling.flat_tensors([value]), old))
        if changed and not argument.is_write:
            raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was mutated")
    shown = any(made.alias_info is not None for made in op._schema.returns)
    memory = {x._storage for x in calling.flat_tensors(values)}
    if not shown and any(y._storage in memory for y in calling.flat_tensors([result])):
        raise RuntimeError(f"Argument {op._schema.arguments[0].name} is not defined to alias output but was aliasing")


def test_autograd_registration(op: OpOverload, args: Any, kwargs: Any, rtol: Any, atol: Any) -> None:
    """If it takes tensors that require grad, it has a gradient of its own, or a body that has."""
    tensors = [x for x in calling.flat_tensors([*args, *kwargs.values()]) if x.requires_grad]
    record = op._record
    if not tensors or record is None:
        return
    keys = {"Autograd", "AutogradCPU", "CompositeImplicitAutograd"}
    if record.gradient is not None or keys & set(record.kernels):
        return
    result = op(*_copies(args), **_copies(kwargs))
    if any(y.requires_grad for y in calling.flat_tensors([result])):
        raise AssertionError(
            "Operator does not have an autograd kernel registered: its outputs require grad by what its CPU kernel "
            "calls. Register one with torch.library.register_autograd, or the kernel for CompositeImplicitAutograd."
        )


def test_faketensor(op: OpOverload, args: Any, kwargs: Any, rtol: Any, atol: Any) -> None:
    """The fake's results have the shapes, dtypes, devices and strides of the real ones; what it can't know is not compared."""
    from flambeau._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
    from flambeau._subclasses.fake_utils import compare_results
    from flambeau.utils._pytree import tree_map

    real = op(*_copies(args), **_copies(kwargs))
    mode = FakeTensorMode()
    given, named = tree_map(lambda x: mode.from_tensor(x) if isinstance(x, Tensor) else x, (args, kwargs))
    try:
        with mode:
            made = op(*given, **named)
    except DynamicOutputShapeException:
        return
    compare_results(op, made, real)


def test_aot_dispatch_dynamic(op: OpOverload, args: Any, kwargs: Any, rtol: Any, atol: Any) -> None:
    """Called again, it gives the same results and gradients."""

    def run() -> tuple[list[Any], list[Any]]:
        given, named = _copies((args, kwargs))
        outputs = [y for y in calling.flat_tensors([op(*given, **named)]) if y.requires_grad]
        wanted = [x for x in calling.flat_tensors([*given, *named.values()]) if x.requires_grad]
        if not outputs or not wanted:
            return [y.detach() for y in outputs], []
        gradients = torch.autograd.grad([y.sum() for y in outputs], wanted, allow_unused=True)
        return [y.detach() for y in outputs], [g for g in gradients if g is not None]

    for first, second in zip(run(), run(), strict=True):
        torch.testing.assert_close(first, second, rtol=rtol, atol=atol, equal_nan=True)


_TESTS: dict[str, Callable[..., None]] = {
    test.__name__: test for test in (test_schema, test_autograd_registration, test_faketensor, test_aot_dispatch_dynamic)
}


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: Any = tuple(_TESTS),
    raise_exception: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[str, Any]:
    """Test an operator (OpOverload, packet or CustomOpDef) on a call; "SUCCESS" or the exception, by test.

    test_schema: writes and aliases are those of the schema; test_autograd_registration; test_faketensor: the fake
    agrees with the kernel; test_aot_dispatch_dynamic: results and gradients repeat (flambeau has no compiled form to
    compare with). Raises OpCheckError unless raise_exception is False.
    """
    op = getattr(op, "_opoverload", op)
    if isinstance(op, OpOverloadPacket):
        op = op.default
    if not isinstance(op, OpOverload):
        raise ValueError(
            f"opcheck(op, ...): op must be instance of torch._ops.OpOverload or torch.library.CustomOpDef, got {type(op)}"
        )
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    if not set(names) <= set(_TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be subset of {tuple(_TESTS)} but it was not"
        )
    results: dict[str, Any] = {}
    for name in names:
        try:
            _TESTS[name](op, tuple(args), dict(kwargs or {}), rtol, atol)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)") from error
            results[name] = error
    return results

"""The oldest form of custom operators, which programs know as torch._custom_op.impl.

Every operator of this form is a Library of its own, found in `global_registry`; what is registered for an operator that was
defined elsewhere gets one too. Its gradient is a pair of functions: save_for_backward(inputs, output), whose inputs are a named
tuple, and backward(ctx, saved, *gradients), which returns a dict of gradients by the names of the tensors among the inputs.
Stands on libraries and dispatcher; used by custom_ops_by_name.
"""

from __future__ import annotations

import collections
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.naming import called
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.fakes import get_ctx
from flambeau.dispatcher.infer import infer_schema
from flambeau.dispatcher.record import Gradient, OperatorRecord, record_of
from flambeau.dispatcher.schema import parse_schema
from flambeau.library.libraries import Library
from flambeau.library.registrations import lookup, register_fake

__all__ = ["CustomOp", "custom_op", "get_ctx", "get_op", "infer_schema"]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"at", "aten", "prim", "prims", "pytorch", "torch"}
global_registry: dict[str, CustomOp] = {}
"""The operators of this form by "ns::name"."""

_EXISTING = ("CompositeImplicitAutograd", "Autograd", "AutogradCPU", "AutogradCUDA")


def parse_qualname(qualname: str) -> tuple[str, str]:
    """("ns", "name") of "ns::name". ValueError without a namespace or with an overload."""
    namespace, found, name = qualname.partition("::")
    if not found:
        raise ValueError(
            f"Expected there to be a namespace in {qualname}, i.e. The operator name should look something like ns::foo"
        )
    if "." in name:
        raise ValueError(
            "The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in them. Please name your "
            f"operator something like ns::foo. Got: {qualname}"
        )
    return namespace, name


def validate_namespace(ns: str) -> None:
    """ValueError for the namespaces that are PyTorch's."""
    if "." in ns:
        raise ValueError(f'custom_op(..., ns="{ns}"): expected ns to not contain any . (and be a valid variable name)')
    if ns in RESERVED_NS:
        raise ValueError(f"custom_op(..., ns='{ns}'): '{ns}' is a reserved namespace, please choose something else. ")


def get_op(qualname: str) -> Any:
    """The overload "default" of an operator. ValueError if there is none."""
    parse_qualname(qualname)
    try:
        return lookup(qualname)
    except AttributeError:
        raise ValueError(
            f"Could not find the operator {qualname}. Please make sure you have already registered the operator and (if "
            "registered from C++) loaded it via torch.ops.load_library."
        ) from None


def _find_custom_op(qualname: str, also_check_torch_library: bool = False) -> CustomOp:
    """The operator of this form of that name; one defined elsewhere may become one."""
    found = global_registry.get(qualname)
    if found is not None:
        return found
    if not also_check_torch_library:
        raise RuntimeError(f'Could not find custom op "{qualname}". Did you register it via the torch._custom_ops API?')
    get_op(qualname)
    namespace, name = parse_qualname(qualname)
    return CustomOp(Library(namespace, "FRAGMENT"), namespace, name, qualname, _private=True)


def _functional(schema: Any) -> bool:
    return bool(schema.returns) and not schema.is_mutable and all(result.alias_info is None for result in schema.returns)


@called("_custom_op.impl", "CustomOp")
class CustomOp:
    """An operator by its name; call it, and register its kernels with the methods."""

    def __init__(
        self, lib: Any, cpp_ns: Any, schema: Any, operator_name: Any, ophandle: Any = None, *, _private: bool = False
    ) -> None:
        if not _private:
            raise RuntimeError(
                "The CustomOp constructor is private and we do not guarantee BC for it. Please use custom_op(...) to create a "
                "CustomOp object"
            )
        self._lib, self._qualname = lib, operator_name
        self._save: Callable | None = None
        self._backward: Callable | None = None
        self._differentiable: Sequence[bool] | None = None
        global_registry[operator_name] = self

    @property
    def _record(self) -> OperatorRecord:
        found = record_of(self._qualname)
        assert found is not None
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return lookup(self._qualname)(*args, **kwargs)

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def _destroy(self) -> None:
        """Take back what was registered here."""
        self._lib._destroy()
        global_registry.pop(self._qualname, None)

    def impl(self, device_types: Any, _stacklevel: int = 2) -> Callable[[Callable], Callable]:
        """Decorator: what computes it on types of devices. RuntimeError where it has that already."""
        wanted = (device_types,) if isinstance(device_types, str) else tuple(device_types)
        for kind in wanted:
            if kind not in SUPPORTED_DEVICE_TYPE_TO_KEY:
                raise ValueError(
                    f"CustomOp.impl(device_types=[{kind!r}, ...]): we only support device_type in "
                    f"{SUPPORTED_DEVICE_TYPE_TO_KEY.keys()}."
                )

        def register(function: Callable) -> Callable:
            record = self._record
            for kind in wanted:
                key = SUPPORTED_DEVICE_TYPE_TO_KEY[kind]
                if key in record.kernels:
                    raise RuntimeError(
                        f"Attempting to register a {kind} impl for operator {self._qualname} that already has an "
                        f"implementation for this device type from {record.sources.get(key)}."
                    )
                for whole in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
                    if whole in record.kernels:
                        raise RuntimeError(
                            f"Attempting to register a {kind} impl for operator {self._qualname} that already has an "
                            f"implementation for this device type from a pre-existing registration to DispatchKey::{whole}."
                        )
            for kind in wanted:
                key = SUPPORTED_DEVICE_TYPE_TO_KEY[kind]
                self._lib.impl(self._qualname, function, key)
                code = getattr(function, "__code__", None)
                if code is not None:
                    record.sources[key] = f"{code.co_filename}:{code.co_firstlineno}"
            return function

        return register

    def impl_abstract(self, _stacklevel: int = 2) -> Callable[[Callable], Callable]:
        """Decorator: its fake."""
        made: Callable[[Callable], Callable] = register_fake(self._qualname, lib=self._lib)
        return made

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Callable[[Callable], Callable]:
        """Decorator: what the gradient keeps, by save_for_backward(inputs as a named tuple, output)."""

        def register(function: Callable) -> Callable:
            self._check_without_gradient()
            self._save = function
            self._set_gradient()
            return function

        return register

    def impl_backward(self, output_differentiability: Any = None, _stacklevel: int = 2) -> Callable[[Callable], Callable]:
        """Decorator: backward(ctx, saved, *gradients) -> {name of a tensor among the inputs: gradient}.

        output_differentiability: per output whether it has a gradient.
        """
        if output_differentiability is not None:
            if not isinstance(output_differentiability, list) or not all(x.__class__ is bool for x in output_differentiability):
                raise RuntimeError(
                    "impl_backward(output_differentiability): expected output_differentiability to be a list of bools, got: "
                    f"{output_differentiability}"
                )
            count = len(self._record.schema.returns)  # type: ignore[union-attr]
            if len(output_differentiability) != count:
                raise RuntimeError(
                    f"impl_backward(output_differentiability): for {self._qualname}, expected {count} bools in "
                    f"output_differentiability, got: {len(output_differentiability)}"
                )

        def register(function: Callable) -> Callable:
            self._check_without_gradient()
            self._backward, self._differentiable = function, output_differentiability
            self._set_gradient()
            return function

        return register

    def _check_without_gradient(self) -> None:
        """RuntimeError for an operator that can't have a gradient, or has one otherwise."""
        record, schema = self._record, self._record.schema
        assert schema is not None
        for key in _EXISTING:
            if key in record.kernels:
                raise RuntimeError(
                    f"impl_backward/impl_save_for_backward: the operator {self._qualname} already has an implementation for "
                    f"its autograd via a pre-existing registration to DispatchKey::{key}."
                )
        if not schema.returns:
            words = "has no returns"
        elif schema.is_mutable:
            words = "is non-functional: it writes to its inputs"
        elif not _functional(schema):
            words = "is an operator that returns views"
        else:
            return
        raise RuntimeError(f"Cannot register a backward formula for {self._qualname} with schema {schema}: it {words}")

    def _set_gradient(self) -> None:
        record = self._record
        self._lib._set(record, "gradient", Gradient(self._gradients, self._keep))
        self._lib._set(record, "function", None)

    def _names(self) -> list[str]:
        return [argument.name for argument in self._record.schema.arguments]  # type: ignore[union-attr]

    def _keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        for what, function in (("save_for_backward", self._save), ("backward", self._backward)):
            if function is None:
                raise RuntimeError(
                    f"While trying to call the autograd of {self._qualname}: unable to find a '{what}' function. Please "
                    f"register one with impl_{what}."
                )
        assert self._save is not None
        several = output if isinstance(output, tuple) else (output,)
        wanted = self._differentiable or [True] * len(several)
        for position, (y, moves) in enumerate(zip(several, wanted, strict=True)):
            lists = isinstance(y, (list, tuple)) and all(isinstance(x, Tensor) for x in y)
            if moves and self._differentiable is not None and not (isinstance(y, Tensor) or lists):
                raise RuntimeError(
                    f"With output_differentiability={self._differentiable}. At idx {position}, we received an object of type "
                    f"{type(y)} that is not a Tensor, so it cannot have be marked as differentiable in "
                    "output_differentiability."
                )
            if not moves:
                ctx.mark_non_differentiable(*[x for x in ((y,) if isinstance(y, Tensor) else y) if isinstance(x, Tensor)])
        ctx.kinds = inputs
        ctx.saved = self._save(collections.namedtuple("inputs", self._names())(*inputs), output)  # type: ignore[misc]

    def _gradients(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        assert self._backward is not None
        made = self._backward(ctx, ctx.saved, *gradients)
        where = f"In the backward function defined for {self._qualname}: "
        names = self._names()
        tensors = [
            name
            for name, argument in zip(names, self._record.schema.arguments, strict=True)  # type: ignore[union-attr]
            if "Tensor" in argument.type.written
        ]
        if not isinstance(made, dict):
            raise RuntimeError(f"{where}expected the output of the backward function to be a dict but got {type(made)}")
        if set(made) != set(tensors):
            surplus = set(made) & (set(names) - set(tensors))
            words = (
                f"{where}expected the returned grad_input dict to have keys {set(tensors)} but got {set(made)}. The "
                "backward function must return a gradient (can be None) for each arg to the CustomOp that may be a "
                "Tensor or Sequence[Tensor]."
            )
            if surplus or not set(tensors) >= set(made):
                words += " Args declared to be non-Tensor-like types should not appear in the grad_input dict"
            raise RuntimeError(words)
        return tuple(self._checked(where, name, made.get(name), given) for name, given in zip(names, ctx.kinds, strict=True))

    def _checked(self, where: str, name: str, gradient: Any, given: Any) -> Any:
        if isinstance(given, (list, tuple)) and given and all(isinstance(x, Tensor) for x in given):
            if not isinstance(gradient, (list, tuple)):
                raise RuntimeError(
                    f"{where}for input '{name}' expected the grad_input dict to hold a list of gradients but got object of "
                    f"type {type(gradient)}."
                )
            if len(gradient) != len(given):
                raise RuntimeError(
                    f"{where}for input '{name}' expected the grad_input dict to hold a list of {len(given)} gradients but got "
                    f"{len(gradient)}"
                )
            for x in gradient:
                if not (x is None or isinstance(x, Tensor)):
                    raise RuntimeError(
                        f"{where}for input '{name}' expected the grad_input dict to hold a list of None or Tensor gradients "
                        f"but got object of {type(x)}"
                    )
            return gradient
        if isinstance(given, Tensor) and not (gradient is None or isinstance(gradient, Tensor)):
            raise RuntimeError(
                f"{where}for input '{name}' expected the gradient to be either None or a Tensor but got {type(gradient)}"
            )
        return gradient


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[[Callable], CustomOp]:
    """Decorator: the operator "ns::name" with a schema, or with that of the function's annotations.

    ValueError for names that aren't one's own, and for operators that write to their inputs, return views or nothing.
    """

    def register(function: Callable) -> CustomOp:
        namespace, name = parse_qualname(qualname)
        validate_namespace(namespace)
        if not inspect.isfunction(function):
            raise ValueError(f"custom_op(...)(func): Expected `func` to be a Python function, got: {type(function)}")
        if function.__name__ != name:
            raise ValueError(
                f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name '{name}' but got "
                f"'{function.__name__}'. Please either change the name of `func` or the qualname that is passed to `custom_op`"
            )
        schema = infer_schema(function, mutates_args=()) if manual_schema is None else manual_schema
        if manual_schema is not None:
            _check_signature(parse_schema(f"{name}{schema}"), function)
        return _defined(qualname, namespace, name, schema)

    return register


def _check_signature(schema: Any, function: Callable) -> None:
    """ValueError unless a function has the arguments of a schema, by the same names, without defaults."""
    parameters = inspect.signature(function).parameters.values()
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in plain for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): positional-only args, varargs, and kwargs are not supported. Please rewrite "
            f"`func` to not have them. Got `func` with signature: {inspect.signature(function)}"
        )
    if any(p.default is not p.empty for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): neither func nor manual_schema should have default arguments. Got func's "
            f"signature: {inspect.signature(function)}, manual_schema: {schema}"
        )
    given = [(p.name, p.kind is p.KEYWORD_ONLY) for p in parameters]
    if given != [(argument.name, argument.kwarg_only) for argument in schema.arguments]:
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in a manual schema, we expect `func`'s signature to match "
            f"`manual_schema` (aside from type annotations). func's signature: {inspect.signature(function)}, "
            f"manual_schema: {schema}"
        )


def _custom_op_with_schema(qualname: str, schema: str) -> CustomOp:
    """The operator "ns::name" with a schema."""
    namespace, name = parse_qualname(qualname)
    validate_namespace(namespace)
    return _defined(qualname, namespace, name, schema)


def _defined(qualname: str, namespace: str, name: str, schema: str) -> CustomOp:
    made = parse_schema(f"{name}{schema}")
    if not _functional(made):
        raise ValueError(
            "custom_op only supports functional operators (ops that do not mutate any inputs, do not return views of the "
            f"inputs, and has at least one return). Got the following non-functional schema: {made}"
        )
    library = Library(namespace, "FRAGMENT")
    library.define(f"{name}{schema}")
    return CustomOp(library, namespace, made, qualname, _private=True)

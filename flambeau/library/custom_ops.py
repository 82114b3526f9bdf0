"""Operators made of Python functions: `custom_op` and what it gives, `CustomOpDef`. Stands on libraries and
registrations.

    @torch.library.custom_op("mylib::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return torch.from_numpy(numpy.sin(x.numpy()))

The function is a black box to autograd, vmap and the meta device; register_autograd, register_vmap and register_fake
say what it is there.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flambeau.base.device import device as Device
from flambeau.base.naming import public_module
from flambeau.dispatcher import calling
from flambeau.dispatcher.fakes import NoFake
from flambeau.dispatcher.infer import infer_schema
from flambeau.dispatcher.record import Gradient
from flambeau.dispatcher.schema import parse_schema
from flambeau.dispatcher.tags import Tag
from flambeau.library.libraries import Library, key_of_device
from flambeau.library.registrations import DEFINED, check_differentiable, lookup, register_autocast

__all__ = ["CustomOpDef", "custom_op"]

_ALIASED = (
    "{} (with implementation in {}): The output of this custom operator (1) must not also be an input to this "
    "custom operator and (2) may not alias any inputs to this custom operator or other returns. The most common "
    "way to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead "
    "return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to "
    "not return y."
)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Make an operator "ns::name" of a function; a decorator without `fn`.

    mutates_args: the tensor arguments that it writes to, or "unknown"; device_types: where it works (None: anywhere);
    schema: instead of the one that the annotations say. ValueError if they say none.
    """

    def define(function: Callable[..., Any]) -> CustomOpDef:
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        namespace, short = name.split("::")
        made = CustomOpDef(namespace, short, text, function, tags)
        if schema is not None:
            _check_mutated(made, mutates_args)
        made.register_kernel("default" if device_types is None else device_types)(function)
        return made

    return define if fn is None else define(fn)


def _check_mutated(made: CustomOpDef, mutates_args: str | Iterable[str]) -> None:
    """ValueError unless a schema marks as written to what mutates_args says."""
    if mutates_args == "unknown":
        return
    marked = {argument.name for argument in made._opoverload._schema.arguments if argument.is_write}
    expected = set(mutates_args)
    if marked != expected:
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={made._schema}. The "
            f"schema suggests that the op mutates {marked} which is different from what was provided to us in "
            "`mutates_args`. Please make these consistent."
        )


class CustomOpDef:
    """An operator made of a Python function; call it as the function. What it is elsewhere is registered with its
    methods.
    """

    __module__ = public_module("_library.custom_ops")

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any], tags: Sequence[Any] | None = None) -> None:
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, fn
        self._tags = tags
        self._backend_fns: dict[str | None, Callable[..., Any]] = {}
        self._abstract_fn: Callable[..., Any] | None = None
        self._disabled: set[str] = set()
        if any(argument.kwarg_only and "Tensor" in argument.type.written for argument in parse_schema(name + schema).arguments):
            raise NotImplementedError(
                "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: " + name + schema
            )
        before = DEFINED.pop(self._qualname, None)
        if before is not None:
            before._lib._destroy()
        self._lib = Library(namespace, "FRAGMENT")
        self._lib.define(name + schema, tags=[Tag["pt2_compliant_tag"], *(tags or ())])
        self._opoverload = lookup(self._qualname)
        DEFINED[self._qualname] = self
        record = self._record
        record.gradient = Gradient(None, None)
        record.written = tuple(i for i, argument in enumerate(self._full_schema.arguments) if argument.is_write)
        self._lib.impl(name, self._fake, "Meta")

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _record(self) -> Any:
        return self._opoverload._record

    @property
    def _full_schema(self) -> Any:
        return self._opoverload._schema

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    # ---- kernels
    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register what computes it on types of devices ("cpu", a sequence of them, None or "default" for all); a
        decorator without fn.
        """
        one = device_types is None or isinstance(device_types, str)
        kinds: Sequence[Any] = [device_types] if one else list(device_types)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in kinds:
                kind = None if kind == "default" else kind
                if kind not in self._backend_fns:
                    key = "CompositeExplicitAutograd" if kind is None else key_of_device(kind)
                    self._lib.impl(self._name, self._kernel(kind), key)
                    if kind is not None and not self._takes_tensors():
                        self._choose_by_device()
                self._backend_fns[kind] = function
            return function

        if any(kind not in (None, "default") for kind in kinds) and not self._takes_tensors():
            if not any(a.name == "device" and "Device" in a.type.written for a in self._full_schema.arguments):
                raise ValueError("Functions without tensor inputs are required to have a `device: torch.device` argument")
        return register if fn is None else register(fn)

    def _takes_tensors(self) -> bool:
        return any("Tensor" in argument.type.written for argument in self._full_schema.arguments)

    def _kernel(self, kind: str | None) -> Callable[..., Any]:
        """What runs on a type of device: the function registered for it, its results checked."""

        def kernel(*args: Any, **kwargs: Any) -> Any:
            chosen = self._init_fn if kind in self._disabled else self._backend_fns[kind]
            result = chosen(*args, **kwargs)
            memory = {x._storage for x in calling.flat_tensors([*args, *kwargs.values()])}
            for y in calling.flat_tensors([result]):
                if y._storage in memory:
                    raise RuntimeError(_ALIASED.format(self._name, inspect.getmodule(chosen)))
                memory.add(y._storage)
            return result

        return kernel

    def _choose_by_device(self) -> None:
        """Have calls without tensors go to the kernel of the device that is among the arguments."""
        if "BackendSelect" in self._record.kernels:
            return
        names = [argument.name for argument in self._full_schema.arguments]

        def choose(*args: Any, **kwargs: Any) -> Any:
            given = Device(dict(zip(names, args), **kwargs)["device"]).type
            if given in self._backend_fns:
                return self._kernel(given)(*args, **kwargs)
            if given == "meta":
                return self._fake(*args, **kwargs)
            raise NotImplementedError(
                f"{self._qualname} does not have a kernel registered for {given}. Please use register_kernel to do so."
            )

        self._lib.impl(self._name, choose, "BackendSelect")

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Context: the kernel registered for a type of device is used, or not and the function itself is."""
        before = set(self._disabled)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            self._disabled = before

    # ---- what it is elsewhere
    def _fake(self, *args: Any, **kwargs: Any) -> Any:
        if self._abstract_fn is None:
            if not any(result for result in self._full_schema.returns):
                return None
            raise NoFake(
                f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx "
                f"tracing to work. Please use `{self._init_fn.__name__}.register_fake` to add an fake impl."
            )
        from flambeau.dispatcher.fakes import without_values

        return without_values(self._record, self._abstract_fn)(*args, **kwargs)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register its fake: results of the right shape, dtype and device without values."""
        self._abstract_fn = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Register its gradient; torch.library.register_autograd says how."""
        check_differentiable(self._record)
        self._record.gradient = Gradient(backward, setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register what it does under vmap; torch.library.register_vmap says how."""

        def register(function: Callable[..., Any]) -> None:
            self._record.vmap = function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Have autocast convert its floating point arguments to a dtype."""
        register_autocast(self._opoverload, device_type, cast_inputs, lib=self._lib)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Have a function answer the operator for a class of tensors or modes; see torch.library.register_torch_dispatch."""
        from flambeau.library.registrations import register_torch_dispatch

        return register_torch_dispatch(self._opoverload, torch_dispatch_class, fn, lib=self._lib)

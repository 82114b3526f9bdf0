"""Libraries of operators: `Library`, and `define` and `impl` for single ones. Stands on dispatcher."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.base.device import device as Device
from flambeau.base.naming import public_module
from flambeau.core.operator.schema_index import unlisted
from flambeau.dispatcher import keys, namespaces, replaced
from flambeau.dispatcher.overloads import OpOverload
from flambeau.dispatcher.record import OperatorRecord, record_of, undefine
from flambeau.dispatcher.record import define as define_record
from flambeau.dispatcher.schema import parse_schema, qualified

__all__ = ["Library", "define", "impl"]

_RESERVED = ("prim",)
_BUILT_IN = ("aten", "prims")
_whole: dict[str, str] = {}  # namespaces that a Library of kind DEF has, and where
_kept: list[Library] = []  # libraries of `define` and `impl`, which nobody else holds


def _caller() -> str:
    """Where a program called torch.library, for messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(public_module("library")):
        frame = frame.f_back
    return f"registered at {frame.f_code.co_filename}:{frame.f_lineno}"


def _undefine(record: OperatorRecord) -> None:
    undefine(record)
    namespaces.forget(record.packet_name, record.overload)


class Library:
    """Operators of the namespace `ns`: `define` them by schema, implement them with `impl`.

    kind: "DEF" (the one place where the namespace is defined), "FRAGMENT" (one of several) or "IMPL" (only
    implementations); dispatch_key: the key of kernels for which `impl` names none. What was registered goes when the
    object does.
    """

    __module__ = public_module("library")

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if dispatch_key:
            keys.key_of(dispatch_key)
        self.origin = _caller()
        if kind == "DEF":
            if ns in _whole:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of "
                    "your definitions in a single TORCH_LIBRARY block.  If you were trying to specify "
                    "implementations, consider using TORCH_LIBRARY_IMPL (which can be duplicated).  If you really "
                    "intended to define operators for a single namespace in a distributed way, you can use "
                    "TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous registration of TORCH_LIBRARY "
                    f"was {_whole[ns]}; latest registration was {self.origin}"
                )
            _whole[ns] = self.origin
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self.m: Any = object()  # None once the library is destroyed
        self._op_defs: set[str] = set()
        self._op_impls: set[str] = set()
        self._undo: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def _alive(self) -> None:
        if self.m is None:
            raise AssertionError("Library object has been destroyed")

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, such as "name(Tensor x, int n=3) -> Tensor"; returns its name.

        RuntimeError for a schema that can't be read, and for an operator that is defined already.
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        self._alive()
        made = parse_schema(schema)
        namespace, short, _ = qualified(made.name)
        if namespace and namespace != self.ns:
            block = "TORCH_LIBRARY" if self.kind == "DEF" else f"TORCH_LIBRARY_{self.kind}"
            raise RuntimeError(
                f"Explicitly provided namespace ({namespace}) in schema string does not match namespace of "
                f"enclosing {block} block ({self.ns}).  Move this definition to the (unique) TORCH_LIBRARY block "
                "corresponding to this namespace (and consider deleting the namespace from your schema string.)  "
                f"(Error occurred while processing {block} block at {self.origin.removeprefix('registered at ')})"
            )
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{short}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  All def()s should be placed '
                "in the (unique) TORCH_LIBRARY block for their namespace.  (Error occurred while processing TORCH_LIBRARY_IMPL "
                f"block at {self.origin.removeprefix('registered at ')})"
            )
        made = made.renamed(f"{self.ns}::{short}")
        tags = tags if isinstance(tags, (list, tuple, set)) else (tags,)
        record = define_record(made, tags, self.origin)
        record.defined_in_python = True
        namespaces.forget(record.packet_name, record.overload)
        self._op_defs.add(record.name)
        self._undo.append(lambda: _undefine(record))
        return short + (f".{made.overload_name}" if made.overload_name else "")

    def _record(self, name: Any) -> OperatorRecord:
        """The record of an operator by its name or its overload, made where there is none yet."""
        if isinstance(name, OpOverload):
            if name._record is None:
                raise NotImplementedError(f"{name} is an operator of PyTorch itself, whose record can't be changed")
            return name._record
        if not isinstance(name, str):
            raise RuntimeError("impl should be passed either a name or an OpOverload object as the first argument")
        namespace, short, overload = qualified(name)
        if namespace and namespace != self.ns:
            block = "TORCH_LIBRARY" if self.kind == "DEF" else f"TORCH_LIBRARY_{self.kind}"
            raise RuntimeError(
                f'impl("{name}", ...): Explicitly provided namespace ({namespace}) in operator name does not match '
                f"namespace of enclosing {block} block ({self.ns}).  Move this definition to the TORCH_LIBRARY "
                "block corresponding to this namespace (and consider deleting the namespace from your schema "
                f"string.)  (Error occurred while processing {block} block at "
                f"{self.origin.removeprefix('registered at ')})"
            )
        full = f"{self.ns}::{short}" + (f".{overload}" if overload else "")
        record = record_of(full, make=True)
        assert record is not None
        return record

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a kernel of an operator (its name, or an OpOverload) for a dispatch key.

        with_keyset: the kernel takes a DispatchKeySet in front; allow_override: no warning where there was one.
        Of an operator of PyTorch itself: every call of it asks for the kernel then, also by public functions that are made of it.
        NotImplementedError for such a kernel under a key that isn't asked for.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        self._alive()
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        keys.key_of(key)
        built_in = self._built_in(op_name)
        if built_in is not None:
            self._replace(built_in, key, fn, with_keyset)
            return
        record = self._record(op_name)
        kernel: Any = fn
        if with_keyset:

            @functools.wraps(fn)
            def kernel(*args: Any, **kwargs: Any) -> Any:
                return fn(*args, **kwargs)

            kernel.takes_keyset = True
        record.set_kernel(key, kernel, self.origin, allow_override)
        self._op_impls.add(record.name.replace("::", "/") + "/" + key)
        self._undo.append(lambda: record.remove_kernel(key, kernel))

    def _built_in(self, name: Any) -> str | None:
        """The whole name of an operator of PyTorch itself, or of a declared one; None for another."""
        if isinstance(name, OpOverload):
            return name._name if name._record is None else None
        if not isinstance(name, str) or qualified(name)[0] not in ("", self.ns):
            return None
        _, short, overload = qualified(name)
        if self.ns not in _BUILT_IN and unlisted(f"{self.ns}::{short}") is None:
            return None
        full = f"{self.ns}::{short}" + (f".{overload}" if overload and overload != "default" else "")
        return full if record_of(full) is None else None

    def _replace(self, name: str, key: str, kernel: Callable[..., Any], with_keyset: bool) -> None:
        """Put a kernel in the place of one of PyTorch's. Keys of devices that there are none of are never asked for."""
        if with_keyset:
            raise NotImplementedError(
                f"{name}: with_keyset=True is not implemented in flambeau for operators of PyTorch itself; "
                "register the kernel without it"
            )
        if key not in replaced.KEYS and key.startswith(("Autocast", "Functorch", "Python", "ADInplaceOrView", "Functionalize")):
            raise NotImplementedError(
                f"{name}: kernels for {key} are not implemented in flambeau for operators of PyTorch "
                "itself; use a torch.overrides.TorchFunctionMode"
            )
        self._op_impls.add(name.replace("::", "/") + "/" + key)
        self._undo.append(replaced.replace(name, key, kernel))

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """NotImplementedError: a kernel for all operators at once would have to stand in front of the built-in ones."""
        raise NotImplementedError(
            "Library.fallback is not implemented in flambeau: built-in operators ask no dispatcher; override calls "
            "with a torch.overrides.TorchFunctionMode"
        )

    def _set(self, record: OperatorRecord, attribute: str, value: Any) -> None:
        """Set what a record says, until the library goes."""
        setattr(record, attribute, value)

        def undo() -> None:
            if getattr(record, attribute) is value:
                setattr(record, attribute, None)

        self._undo.append(undo)

    def _destroy(self) -> None:
        """Take everything back that was registered."""
        self.m = None
        while self._undo:
            self._undo.pop()()
        if self.kind == "DEF" and _whole.get(self.ns) == self.origin:
            del _whole[self.ns]

    def __del__(self) -> None:
        if hasattr(self, "_undo") and sys is not None and not sys.is_finalizing():  # also after `del library.m`
            self._destroy()


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A Library(*args, **kwargs) for a block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def library_for(ns: str, lib: Library | None = None) -> Library:
    """`lib`, or a new library of the namespace, which is kept for good."""
    if lib is None:
        lib = Library(ns, "FRAGMENT")
        _kept.append(lib)
    return lib


def define(qualname: Any, schema: Any = None, *, lib: Any = None, tags: Any = (), alias_analysis: str = "") -> Any:
    """Define the operator "ns::name" with a schema such as "(Tensor x) -> Tensor".

    define(lib, schema, alias_analysis="") is the older form, a decorator that implements the operator too.
    """
    if isinstance(qualname, Library):
        library, text, analysis = qualname, schema, lib or alias_analysis

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            name = library.define(text, analysis, tags=tags)
            library.impl(name, function)
            return function

        return wrap
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    namespace, short, overload = qualified(qualname)
    if not namespace:
        raise ValueError(f"Expected `qualname` to be of the form `namespace::name`, got {qualname}")
    if not schema or not schema.lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"'
        )
    library_for(namespace, lib).define(short + (f".{overload}" if overload else "") + schema, alias_analysis, tags=tags)
    return None


def _key_of(kind: str) -> str:
    """The dispatch key that a type of device has, or that is named itself."""
    return kind if kind in keys.DispatchKey.__members__ else key_of_device(kind)


def key_of_device(kind: str) -> str:
    """The dispatch key of kernels for a type of device: "cpu" is CPU."""
    name = Device(kind).type
    known = {
        "cpu": "CPU",
        "cuda": "CUDA",
        "hip": "HIP",
        "xla": "XLA",
        "mps": "MPS",
        "xpu": "XPU",
        "hpu": "HPU",
        "ipu": "IPU",
        "ve": "VE",
        "mtia": "MTIA",
        "maia": "MAIA",
        "lazy": "Lazy",
        "meta": "Meta",
        "privateuseone": "PrivateUse1",
    }

    return known[name]


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Register an implementation of "ns::name" for types of devices ("cpu", "cuda", a sequence of them, or "default"
    for all).

    Without `func` a decorator. impl(lib, name, dispatch_key="") is the older form, a decorator.
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, key)
            return function

        return wrap
    kinds: Sequence[str] = (types,) if isinstance(types, str) else tuple(types)
    found = {"CompositeExplicitAutograd" if kind == "default" else _key_of(kind) for kind in kinds}
    namespace = qualified(qualname)[0]

    def register(function: Callable[..., Any]) -> None:
        library = library_for(namespace, lib)
        for key in sorted(found):
            library.impl(qualname, function, key)

    if func is not None:
        register(func)
        return None

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        register(function)
        return function

    return decorate

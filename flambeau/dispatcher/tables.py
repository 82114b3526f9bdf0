"""Which kernel answers an operator for each dispatch key: the computed table, as text, and what is registered, as text.

PyTorch's dispatcher computes such a table for every operator; here calls are answered by rules that come to the same (calling),
and the table is worked out when somebody asks. Stands on record and keys; used by torch._C.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from flambeau.dispatcher.keys import BACKENDS, DispatchKey
from flambeau.dispatcher.record import RECORDS, OperatorRecord, fallthrough_kernel, record_of
from flambeau.dispatcher.schema import FunctionSchema, parse_schema

__all__ = ["FALLBACKS", "NativeLibrary", "computed", "dangling", "dump", "dump_table"]

_ALIASES = ("Autograd", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
#: Kinds of tensors that have no autograd key of their own.
_OF_AUTOGRAD_OTHER = (
    "FPGA",
    "Vulkan",
    "Metal",
    "MkldnnCPU",
    *(f"{kind}{device}" for kind in ("Quantized", "Sparse", "SparseCsr") for device in BACKENDS),
)
_BACKEND_KEYS = frozenset((*BACKENDS, *_OF_AUTOGRAD_OTHER, *(f"NestedTensor{device}" for device in BACKENDS)))
#: Keys for which PyTorch has a kernel that serves all operators.
_IN_FRAMEWORK = "registered in pytorch framework"
FALLBACKS: dict[str, str] = dict.fromkeys(
    """Meta BackendSelect Python FuncTorchDynamicLayerBackMode Functionalize Conjugate Negative ZeroTensor ADInplaceOrView
    AutogradOther AutogradCPU AutogradCUDA AutogradXLA AutogradMPS AutogradXPU AutogradHPU AutogradLazy AutogradMTIA AutogradMAIA
    AutogradPrivateUse1 AutogradMeta Tracer AutocastCPU AutocastMTIA AutocastMAIA AutocastXPU AutocastMPS AutocastCUDA
    FuncTorchBatched BatchedNestedTensor FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper PythonTLSSnapshot
    FuncTorchDynamicLayerFrontMode PreDispatch PythonDispatcher""".split(),
    _IN_FRAMEWORK,
)


def _described(record: OperatorRecord, key: str) -> str:
    kernel = record.kernels[key]
    if kernel is fallthrough_kernel:
        return "fallthrough"
    return getattr(kernel, "debug", None) or record.sources.get(key, "")


def _backends_of(key: str) -> tuple[str, ...]:
    """The keys of the tensors whose autograd key this is."""
    if key == "AutogradOther":
        return _OF_AUTOGRAD_OTHER
    device = key.removeprefix("Autograd")
    if key.startswith("Autograd") and device in BACKENDS:
        return (device,)
    return tuple(f"NestedTensor{each}" for each in BACKENDS) if key == "AutogradNestedTensor" else ()


class _Kind(NamedTuple):
    """What the rules ask of a key: whether it is of a kind of tensors, or of autograd, and the kinds that this one serves."""

    backend: bool
    autograd: bool
    backends: tuple[str, ...]


def _kind_of(key: str) -> _Kind:
    autograd = key.startswith("Autograd") and key != "AutogradFunctionality"
    return _Kind(key == "Undefined" or key in _BACKEND_KEYS, autograd, _backends_of(key))


_NO_KEYS = frozenset(
    (
        "Dense",
        "Quantized",
        "Sparse",
        "SparseCsr",
        "NestedTensor",
        "AutogradFunctionality",
        "FuncTorchBatchedDecomposition",
        "CompositeImplicitAutogradNestedTensor",
        *_ALIASES,
    )
)
_KINDS = {key.name: _kind_of(key.name) for key in DispatchKey if key.name not in _NO_KEYS}
_ORDER = {name: place for place, name in enumerate((*_KINDS, *_ALIASES))}


def computed(kernels: Collection[str], key: str) -> tuple[str, str] | None:
    """(the key whose kernel answers, by which rule) for a key of an operator that has kernels for these; None if nothing does.

    "" stands for a kernel that serves all operators, and for several that might.
    """
    kind = _KINDS.get(key) or _kind_of(key)
    if key in kernels:
        return key, "kernel"
    if kind.backend:
        for name in ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"):
            if name in kernels:
                return name, "default backend kernel"
    if "CompositeImplicitAutograd" in kernels and (kind.backend or kind.autograd):
        own = any(name in kernels for name in kind.backends)
        if key == "AutogradOther" and own:
            return "", "ambiguous autogradother"
        if not own and not (kind.autograd and "CompositeExplicitAutograd" in kernels):
            return "CompositeImplicitAutograd", "math kernel"
    if kind.autograd and "Autograd" in kernels:
        return "Autograd", "autograd kernel"
    return ("", "backend fallback") if key in FALLBACKS else None


@functools.lru_cache(maxsize=512)
def _answers(kernels: tuple[str, ...], fallbacks: frozenset[str]) -> list[tuple[str, str, str]]:
    """(key, the key whose kernel answers, by which rule), in the order of keys."""
    found = ((key, computed(kernels, key)) for key in _KINDS)
    return [(key, *answer) for key, answer in found if answer is not None]


def dump_table(record: OperatorRecord | None) -> str:
    """A line a key: what answers an operator for it; "" for none."""
    if record is None:
        return ""
    described = {key: _described(record, key) for key in record.kernels}
    lines = []
    for key, of, rule in _answers(tuple(record.kernels), frozenset(FALLBACKS)):
        words = described[of] if of else FALLBACKS[key] if rule == "backend fallback" else "ambiguous_autogradother"
        lines.append(f"{key}: {words} [{rule}]\n")
    return "".join(lines)


def dump(record: OperatorRecord | None) -> str:
    """The name, the schema and the registered kernels of an operator, a line each; "" for none."""
    if record is None:
        return ""
    lines = [f"name: {record.name}", f"schema: {record.schema or '(none)'}"]
    if record.schema is not None:
        lines += [f"debug: {record.origin}", f"alias analysis kind: {record.alias_analysis}"]
    for key in sorted(record.kernels, key=lambda name: _ORDER.get(name, len(_ORDER))):
        label = key + "[alias]" * (key in _ALIASES)
        own = (record.kernels[key], record.sources.get(key, ""))
        for place, (kernel, source) in enumerate([own, *reversed(record.replaced.get(key, []))]):
            described = getattr(kernel, "debug", None) or source
            lines.append(
                f"{label}{' (inactive)' * (place > 0)}: {described} :: {getattr(kernel, 'signature', '(none)')} [ boxed unboxed ]"
            )
    return "\n".join(lines) + "\n"


def dangling() -> list[str]:
    """What is registered of the operators that have kernels and no schema."""
    return [
        dump(record)
        for overloads in RECORDS.values()
        for record in overloads.values()
        if record.schema is None and record.kernels
    ]


# ---------------------------------------------------------------- registering as native code does

_PLACE = "registered at /dev/null:0"
_T_T = "(Tensor _0) -> Tensor _0"


def _identity(debug: str) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        return x

    kernel.debug, kernel.signature = debug, _T_T  # type: ignore[attr-defined]
    return kernel


class NativeLibrary:
    """A library to which operators and kernels of one tensor are added as C++ adds them, to see what becomes of the tables.

    kind: "DEF", "FRAGMENT" or "IMPL"; what was added goes when the object does.
    """

    def __init__(self, library: Any, dispatch_key: str) -> None:
        self._library, self._key = library, dispatch_key
        self._undo: list[Callable[[], None]] = []

    def _define(self, schema: str, alias: str) -> str:
        name = parse_schema(schema).name
        _suits(f"{self._library.ns}::{name}", parse_schema(schema))
        self._library.origin = _PLACE
        self._library.define(schema)
        record = record_of(f"{self._library.ns}::{name}")
        assert record is not None
        record.alias_analysis = alias or "FROM_SCHEMA"
        return name

    def def_(self, schema: str, alias: str = "") -> NativeLibrary:
        """Define an operator by its schema. RuntimeError where it is defined, or has a kernel of other arguments."""
        self._define(schema, alias)
        return self

    def def_legacy(self, schema: str) -> NativeLibrary:
        """def_."""
        return self.def_(schema)

    def def_name_t_t(self, name: str, dispatch: str = "", debug: str = "default_def_name_t_t") -> NativeLibrary:
        """Define an operator by its name and a kernel, whose schema is inferred."""
        self._define(f"{name}{_T_T}", "CONSERVATIVE")
        return self._implement(name, dispatch, debug)

    def def_schema_t_t(
        self, schema: str, dispatch: str = "", alias: str = "", debug: str = "default_def_schema_t_t"
    ) -> NativeLibrary:
        """Define an operator by its schema, with a kernel."""
        return self._implement(self._define(schema, alias), dispatch, debug)

    def impl_t_t(self, name: str, dispatch: str = "", debug: str = "impl_t_t") -> NativeLibrary:
        """Register a kernel that gives its one argument."""
        return self._implement(name, dispatch, debug)

    def _implement(self, name: str, dispatch: str, debug: str) -> NativeLibrary:
        full = f"{self._library.ns}::{name}"
        record = record_of(full)
        kernel = _identity(debug)
        if record is not None and record.schema is not None:
            _check(full, record.schema, debug, record.origin)
        self._library.impl(name, kernel, dispatch or self._key or "CompositeImplicitAutograd", allow_override=True)
        return self

    def define(self, schema: str, alias: str = "") -> str:
        """Define an operator; gives its name."""
        return self._define(schema, alias)

    def impl(self, name: str, dispatch: str, func: Callable[..., Any]) -> None:
        """Register a kernel."""
        self._library.impl(name, func, dispatch or self._key)

    def fallback_fallthrough(self, dispatch: str = "") -> NativeLibrary:
        """Have a key fall through for operators without a kernel for it. RuntimeError where it has a fallback."""
        key = dispatch or self._key
        if key in FALLBACKS and FALLBACKS[key] != _IN_FRAMEWORK:
            raise RuntimeError(
                f"Tried to register multiple backend fallbacks for the same dispatch key {key}; previous "
                f"registration {_PLACE}, new registration {_PLACE}"
            )
        before = FALLBACKS.get(key)
        FALLBACKS[key] = f"fallthrough {_PLACE}"
        self._undo.append(lambda: FALLBACKS.pop(key) and None if before is None else FALLBACKS.__setitem__(key, before))
        return self

    def reset(self) -> None:
        """Take everything back."""
        while self._undo:
            self._undo.pop()()
        if self._library.m is not None:
            self._library._destroy()

    def __del__(self) -> None:
        if hasattr(self, "_undo"):
            self.reset()


def _suits(full: str, schema: FunctionSchema) -> None:
    """RuntimeError where an operator of that name has a kernel of other arguments than a schema says."""
    record = record_of(full)
    for kernel in () if record is None else record.kernels.values():
        if getattr(kernel, "signature", None) is not None:
            _check(full, schema.renamed(full), kernel.debug, _PLACE)  # type: ignore[attr-defined]


def _check(full: str, schema: FunctionSchema, debug: str, origin: str) -> None:
    if len(schema.arguments) != 1:
        raise RuntimeError(
            "Inferred operator schema for a C++ kernel function doesn't match the expected function schema.\n"
            f"  operator: {full}\n  expected schema: {schema}\n    {origin}\n  inferred schema: {_T_T}\n    {debug}\n"
            f"  reason: The number of arguments is different. {len(schema.arguments)} vs 1."
        )

"""torch._C's names that concern the dispatcher: which kernels an operator has, and the keys of this thread. A face over
dispatcher.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import device as devices
from flambeau.core.modes.modes import local
from flambeau.core.operator.schema_index import unlisted
from flambeau.dispatcher import builtin_schemas, keys, registered, tables
from flambeau.dispatcher.gradients import get_fallback_mode as _get_autograd_fallback_mode
from flambeau.dispatcher.gradients import set_fallback_mode as _set_autograd_fallback_mode
from flambeau.dispatcher.handlers import answers
from flambeau.dispatcher.keys import AFTER_AUTOGRAD as _after_autograd_keyset
from flambeau.dispatcher.keys import AutoDispatchBelowAutograd as _AutoDispatchBelowAutograd
from flambeau.dispatcher.keys import DispatchKey, DispatchKeySet
from flambeau.dispatcher.keys import ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard
from flambeau.dispatcher.keys import IncludeDispatchKeyGuard as _IncludeDispatchKeyGuard
from flambeau.dispatcher.keys import TorchDispatchModeKey as _TorchDispatchModeKey
from flambeau.dispatcher.keys import key_of as _dispatch_key_parse
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.record import RECORDS, record_of
from flambeau.dispatcher.schema import AliasInfo as _AliasInfo
from flambeau.dispatcher.schema import FunctionSchema, qualified

__all__ = [
    "_AliasInfo", "_AutoDispatchBelowAutograd", "_ExcludeDispatchKeyGuard", "_IncludeDispatchKeyGuard",
    "_TorchDispatchModeKey",
    "_after_autograd_keyset", "_dispatch_key_parse", "_get_autograd_fallback_mode", "_set_autograd_fallback_mode",
]  # fmt: skip


def _get_dispatch_mode(mode: _TorchDispatchModeKey) -> Any:
    """The mode of that key that this thread is in; None if it is in none."""
    stand_ins = devices.stand_ins_in_use()
    return stand_ins.mode if mode is _TorchDispatchModeKey.FAKE and stand_ins is not None else None


def _unset_dispatch_mode(mode: _TorchDispatchModeKey) -> Any:
    """Leave the mode of that key, which is returned; `_set_dispatch_mode` enters it again."""
    found = _get_dispatch_mode(mode)
    if found is not None:
        devices.use_stand_ins(None)
    return found


def _set_dispatch_mode(mode: Any) -> None:
    """Enter a fake tensor mode again that `_unset_dispatch_mode` left."""
    devices.use_stand_ins(mode.stand_ins)


def _len_torch_dispatch_stack() -> int:
    """How many modes below autograd this thread is in."""
    return len(local.dispatch_modes) + (devices.stand_ins_in_use() is not None)


def _overload(name: str) -> Any:
    """The overload of "ns::name.overload"; None if there is none."""
    namespace, short, overload = qualified(name)
    packet = getattr(getattr(ops, namespace), short, None) if namespace else None
    return getattr(packet, overload or "default", None)


def _dispatch_has_kernel(name: str) -> bool:
    """Whether an operator of that name exists."""
    return _overload(name) is not None


def _dispatch_has_kernel_for_dispatch_key(name: str, dispatch: str | DispatchKey) -> bool:
    """Whether an operator has a kernel registered under this very key. RuntimeError if there is no such operator."""
    found = _overload(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return bool(found.has_kernel_for_dispatch_key(_dispatch_key_parse(dispatch)))


def _dispatch_has_kernel_for_any_dispatch_key(name: str, keyset: DispatchKeySet) -> bool:
    """Whether an operator has a kernel under one of these keys."""
    return any(_dispatch_has_kernel_for_dispatch_key(name, key) for key in keyset)


def _dispatch_has_computed_kernel_for_dispatch_key(name: str, dispatch: str | DispatchKey) -> bool:
    """Whether something answers an operator for a key, be it a kernel for several. RuntimeError if there is no such operator."""
    found = _overload(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    key = _dispatch_key_parse(dispatch).name
    if found._record is None:
        return bool(found.has_kernel_for_dispatch_key(key)) or key in ("CPU", "Meta", "AutogradCPU")
    return tables.computed(found._record.kernels, key) is not None


def _dispatch_library(kind: str, name: str, dispatch: str, file: str = "/dev/null", linenum: int = 0) -> tables.NativeLibrary:
    """A library that is filled as C++ fills it, to see what becomes of the tables."""
    from flambeau.library.libraries import Library

    return tables.NativeLibrary(Library(name, kind, dispatch), dispatch)


def _dispatch_dump(name: str) -> str:
    """What is registered for an operator, a line each; "" for none."""
    return tables.dump(record_of(name))


def _dispatch_dump_table(name: str) -> str:
    """What answers an operator for each key, a line each; "" for none."""
    return tables.dump_table(record_of(name))


def _dispatch_find_dangling_impls() -> list[str]:
    """What is registered of the operators that have kernels and no schema."""
    return tables.dangling()


def _dispatch_check_invariants(name: str) -> None:
    """Nothing is kept beside the registrations that could differ from them."""


def _dispatch_check_all_invariants() -> None:
    """_dispatch_check_invariants of all operators."""


def _dispatch_get_registrations_for_dispatch_key(dispatch_key: str = "") -> list[str]:
    """The names of the operators that have a kernel for a key, of those with any for "". RuntimeError for a name of no key."""
    key = _dispatch_key_parse(dispatch_key).name if dispatch_key else ""
    built_in = [name for name in _dispatch_get_all_op_names() if record_of(name) is None and registered.under(name, key)]
    return built_in + [
        record.name
        for overloads in RECORDS.values()
        for record in overloads.values()
        if (key in record.kernels if key else record.kernels)
    ]


def _dispatch_print_registrations_for_dispatch_key(dispatch_key: str = "") -> None:
    """Print these names, a line each."""
    for name in _dispatch_get_registrations_for_dispatch_key(dispatch_key):
        print(name)


def _dispatch_call_boxed(handle: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the operator that _dispatch_find_schema_or_throw gave."""
    return handle(*args, **kwargs)


def _dispatch_key_name(key: DispatchKey) -> str:
    """The name of a key."""
    return key.name


def _dispatch_key_for_device(device_type: str) -> str:
    """The key of kernels for a type of device."""
    from flambeau.library.libraries import key_of_device

    return key_of_device(device_type)


def _dispatch_keys(tensor: Any) -> DispatchKeySet:
    """The keys of a tensor."""
    device = "Meta" if tensor.device.type == "meta" else "CPU"
    names = [device, "ADInplaceOrView", f"Autograd{device}"] + ["AutocastCPU"] * (device == "CPU")
    return DispatchKeySet(DispatchKey[name] for name in (names[:1] if tensor.is_inference() else names))


def _dispatch_keyset_full() -> DispatchKeySet:
    """All keys."""
    return DispatchKeySet(DispatchKey)


def _dispatch_keyset_full_after(key: DispatchKey) -> DispatchKeySet:
    """The keys that are asked after this one."""
    return DispatchKeySet(other for other in DispatchKey if DispatchKey["Undefined"] < other < key)


def _dispatch_keyset_to_string(keyset: DispatchKeySet) -> str:
    """The set as it prints."""
    return str(keyset)


def _dispatch_tls_is_dispatch_key_excluded(key: DispatchKey) -> bool:
    """Whether kernels of this key are switched off in this thread."""
    return keys.local.excluded.has(key)


def _dispatch_tls_is_dispatch_key_included(key: DispatchKey) -> bool:
    """Whether the key counts as one of every tensor in this thread."""
    return keys.local.included.has(key)


def _dispatch_tls_set_dispatch_key_excluded(key: DispatchKey, excluded: bool) -> None:
    """Switch the kernels of this key off, or on again, in this thread."""
    keys.local.excluded = keys.local.excluded.add(key) if excluded else keys.local.excluded.remove(key)


def _dispatch_tls_local_exclude_set() -> DispatchKeySet:
    """The keys that are switched off in this thread."""
    return keys.local.excluded


def _dispatch_tls_local_include_set() -> DispatchKeySet:
    """The keys that count as those of every tensor in this thread."""
    return keys.local.included


def _dispatch_get_all_op_names() -> list[str]:
    """The names of all operators with their overloads, PyTorch's own and those of programs."""
    from flambeau.dispatcher import builtin_schemas

    found = [
        f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        for namespace in ("aten", "prims")
        for name in builtin_schemas.names(namespace)
        for overload in builtin_schemas.overloads_of(f"{namespace}::{name}")
    ]
    return found + [record.name for overloads in RECORDS.values() for record in overloads.values() if record.schema]


def _dispatch_find_schema_or_throw(name: str, overload_name: str) -> Any:
    """The overload of an operator. RuntimeError if there is none."""
    found = _overload(f"{name}.{overload_name}" if overload_name else name)
    if found is None:
        raise RuntimeError(f"Could not find schema for {name}.{overload_name}")
    return found


def _get_schema(op_name: str, overload_name: str) -> FunctionSchema:
    """The schema of an operator that a program defined. RuntimeError for others."""
    record = record_of(f"{op_name}.{overload_name}" if overload_name else op_name)
    if record is None or record.schema is None:
        raise RuntimeError(f"Found no matching schema for {op_name}.{overload_name}")
    return record.schema


def _jit_get_schemas_for_operator(op_name: str) -> list[FunctionSchema]:
    """The schemas of the overloads of an operator that a program defined or declared."""
    if unlisted(op_name) is not None:
        return [builtin_schemas.schema_of(op_name, overload) for overload in builtin_schemas.overloads_of(op_name)]
    return [record.schema for record in RECORDS.get(op_name, {}).values() if record.schema is not None]


def _jit_get_all_schemas() -> list[FunctionSchema]:
    """The schemas of all operators that programs defined."""
    return [schema for name in RECORDS for schema in _jit_get_schemas_for_operator(name)]


def _jit_get_operation(op_name: str) -> tuple[Any, list[str]]:
    """An operator and the names of its overloads; (None, []) if there is none."""
    namespace, short, _ = qualified(op_name)
    packet = getattr(getattr(ops, namespace), short, None) if namespace else None
    return (None, []) if packet is None else (packet, packet._overload_names)


def _get_operation_overload(op_name: str, overload_name: str) -> tuple[Any, Any, list[Any]] | None:
    """(overload, overload, tags); None if there is none."""
    found = _overload(f"{op_name}.{overload_name}" if overload_name else op_name)
    return None if found is None else (found, found, found.tags)


def _dispatch_isTensorSubclassLike(tensor: Any) -> bool:
    """Whether operators on a tensor are answered by its class, or by a mode of this thread."""
    return answers((tensor,), {})

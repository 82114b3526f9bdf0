"""torch.jit._recursive: modules as programs, by PyTorch's inner names. A face of recursive and the front end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.operator import unsupported as _unsupported
from flambeau.jit.frontend.module_types import methods_to_compile
from flambeau.jit.recursive import script_module_of
from flambeau.jit.script_module import RecursiveScriptModule
from flambeau.nn.modules.module import Module

__all__: list[str] = []

globals().update(
    _unsupported.all_of(
        "jit._recursive.",
        "compile the module by torch.jit.script, or choose its methods by create_script_module",
        "compile_unbound_method create_hooks_from_stubs create_methods_and_properties_from_stubs create_script_class "
        "create_script_module_impl get_hook_stubs get_module_concrete_type get_property_stubs infer_concrete_type_builder "
        "interface_script lazy_bind make_stub make_stub_from_method make_stubs_for_overloads make_stubs_from_exported_methods "
        "try_compile_fn wrap_cpp_class",
        "PropertyStub ScriptMethodStub",
    )
)


def infer_methods_to_compile(nn_module: Module) -> list[tuple[str, Any]]:
    """(name, function) of each method that torch.jit.script compiles: forward, and those that are exported."""
    return methods_to_compile(nn_module)


def create_script_module(
    nn_module: Module, stubs_fn: Callable[[Module], Sequence[tuple[str, Any]]], share_types: bool = True, is_tracing: bool = False
) -> RecursiveScriptModule:
    """The module as a program, with the methods that `stubs_fn` gives for it, such as `infer_methods_to_compile`."""
    return script_module_of(nn_module, stubs_fn(nn_module))


def wrap_cpp_module(cpp_module: Any) -> RecursiveScriptModule:
    """The compiled module whose `_c` this is."""
    return getattr(cpp_module, "_module", cpp_module)


class ConcreteTypeStore:
    """The types of modules that were compiled: none, as each module's is its own. Suites make a fresh one before each test."""

    def __init__(self) -> None:
        self.type_store: dict[type, list[Any]] = {}
        self.methods_compiled: set[Any] = set()


concrete_type_store = ConcreteTypeStore()

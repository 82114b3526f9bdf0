"""A model of the dispatcher, to see which kernel an operator has for each key; programs know it as torch._python_dispatcher.

    dispatcher = PythonDispatcher()
    dispatcher.register(["CPU", "XLA", "CompositeImplicitAutograd"])
    print(dispatcher.dispatchTable())

A face over torch._C's names of the dispatcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.naming import called
from flambeau.dispatcher.record import record_of
from flambeau.dispatcher.tables import NativeLibrary, dump, dump_table
from flambeau.library.libraries import Library

__all__ = ["PythonDispatcher"]

_RULE = "---------------------------"


@called("_python_dispatcher", "PythonDispatcher")
class PythonDispatcher:
    """An operator `foo(Tensor x) -> Tensor` of a namespace of its own, whose kernels are named after their keys."""

    namespace = "__test__"
    name = "foo"
    runtime_keys = ["CPU", "AutogradCPU", "FPGA", "AutogradOther", "XLA", "AutogradXLA", "Lazy", "AutogradLazy"]
    alias_keys = ["CompositeExplicitAutograd", "Autograd", "CompositeImplicitAutograd"]
    supported_keys = runtime_keys + alias_keys

    def __init__(self) -> None:
        self.ref = NativeLibrary(Library(self.namespace, "FRAGMENT"), "")
        self.ref.def_("foo(Tensor x) -> Tensor")

    def keys(self) -> list[str]:
        """The keys that kernels may be registered for."""
        return self.supported_keys

    def register(self, dispatchKeys: Sequence[str]) -> None:
        """Register a kernel for each of these keys. RuntimeError where one comes twice, or two composite kinds do."""
        if len(set(dispatchKeys)) != len(dispatchKeys):
            raise RuntimeError(f"Overriden is not allowed but found duplicates in {dispatchKeys}.")
        if {"CompositeImplicitAutograd", "CompositeExplicitAutograd"} <= set(dispatchKeys):
            raise RuntimeError("Registration to both CompositeImplicitAutograd and CompositeExplicitAutograd is not allowed.")
        for key in dispatchKeys:
            if key not in self.supported_keys:
                raise RuntimeError(f"{key} is not supported, please select a dispatch key in {self.supported_keys}.")
            self.ref.impl_t_t("foo", dispatch=key, debug="fn_" + key)

    def _record(self) -> Any:
        return record_of(f"{self.namespace}::{self.name}")

    def rawRegistrations(self) -> str:
        """What is registered, a line a kernel."""
        return dump(self._record())

    def rawDispatchTable(self) -> str:
        """What answers for every key, a line each."""
        return dump_table(self._record())

    def registrations(self) -> str:
        """The registered kernels of the supported keys, as a table."""
        rows = [line.split(" :: ")[0].split(": ") for line in self.rawRegistrations().splitlines() if " :: " in line]
        kept = {key: kernel for key, kernel in rows if key.removesuffix("[alias]") in self.supported_keys}
        order = ["FPGA", *(key for key in self.supported_keys if key != "FPGA")]
        lines = [
            f"{key:<15} {kernel}\n"
            for key, kernel in sorted(kept.items(), key=lambda row: (row[0].endswith("[alias]"), self._place(row[0], order)))
        ]
        return f"\nRegistered Kernels\n{'key':<15} kernel\n{_RULE}\n" + "".join(lines)

    @staticmethod
    def _place(key: str, order: list[str]) -> int:
        plain = key.removesuffix("[alias]")
        if key.endswith("[alias]"):
            return ["Autograd", "CompositeImplicitAutograd", "CompositeExplicitAutograd"].index(plain)
        return ["FPGA", "CPU", "XLA", "Lazy", *(k for k in order if k.startswith("Autograd"))].index(plain)

    def dispatchTable(self) -> str:
        """What answers for the supported keys, as a table."""
        found = dict(line.split(": ", 1) for line in self.rawDispatchTable().splitlines())
        order = ["CPU", "XLA", "Lazy", "FPGA", "AutogradOther", "AutogradCPU", "AutogradXLA", "AutogradLazy"]
        lines = []
        for key in order:
            if key in found:
                described = found[key]
                shown = described[described.index("[") :] if "[backend fallback]" in described else described
                lines.append(f"{key:<15} {shown}\n")
        return f"\nComputed Dispatch Table\n{'key':<15} kernel\n{_RULE}\n" + "".join(lines)

"""Writes flambeau/base/operators.txt: the operators of PyTorch by their schemas, as PyTorch itself lists them.

Run it with a Python that has PyTorch: python tools/list_operators.py. A line is `schema | where its kernels are, tags`, where a
kernel for all devices made of other operators is "composite", one for all devices "explicit", one of the CPU "cpu"; what only
TorchScript has (operators on Python's own values) is "script", and an operator without kernel for the CPU has no such word.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel

HERE = Path(__file__).resolve().parent.parent / "flambeau" / "base" / "operators.txt"


def kernels(name: str) -> str:
    """Where the kernels of an operator are, in one word."""
    try:
        if has_kernel(name, "CPU"):
            return "cpu"
        if has_kernel(name, "CompositeImplicitAutograd"):
            return "composite"
        return "explicit" * any(
            has_kernel(name, key) for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
        )
    except RuntimeError:
        return "script"


def main() -> None:
    """Write the table."""
    schemas: dict[str, dict[str, object]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.partition("::")[0] in ("aten", "prim", "prims"):
            schemas.setdefault(schema.name, {})[schema.overload_name] = schema
    lines = []
    for name in sorted(schemas):
        namespace, _, short = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), short, None)
        if not hasattr(packet, "overloads"):  # a few names are attributes of every namespace
            continue
        for overload in packet.overloads():
            operator = getattr(packet, overload)
            tags = sorted({tag.name for tag in operator.tags} - {"pt2_compliant_tag"})
            lines.append(f"{operator._schema} | {' '.join([kernels(operator._name), *tags]).strip()}")
    HERE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

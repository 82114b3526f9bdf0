"""Graph modules as text: what GraphModule.print_readable shows. Stands on fx.graph."""

from __future__ import annotations

from typing import Any

from flambeau.nn import Module


def _indented(text: str, spaces: int) -> str:
    return "\n".join(" " * spaces + line if line.strip() else "" for line in text.split("\n"))


def _print_readable(
    module: Module,
    module_name: str,
    print_output: bool = True,
    include_stride: bool = False,
    include_device: bool = False,
    colored: bool = False,
    expanded_def: bool = False,
    additional_meta: list[str] | None = None,
) -> str:
    """The code of a graph module as a class, and below it that of its submodules that are graph modules."""
    graph: Any = getattr(module, "graph", None)
    if graph is None:
        raise AssertionError("print_readable must be used on a module with a graph")
    written = graph.python_code(
        root_module="self",
        verbose=True,
        include_stride=include_stride,
        include_device=include_device,
        colored=colored,
        expanded_def=expanded_def,
        additional_meta=additional_meta,
    )
    code = _indented(written.src.lstrip("\n"), 4)
    inner = [
        _print_readable(child, name, False, include_stride, include_device, colored, expanded_def, additional_meta)
        for name, child in module.named_children()
        if hasattr(child, "graph")
    ]
    text = f"class {module_name}(torch.nn.Module):\n{code}"
    if inner:
        text = f"{text}\n{_indented(chr(10).join(inner), 4)}"
    if print_output:
        print(text)
    return text

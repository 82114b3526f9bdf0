"""What symbolic functions write with: `g.op("Relu", x)`. Stands on `_builder`; used by `_legacy`."""

from __future__ import annotations

import re
from typing import Any

import flambeau as torch
from flambeau.onnx._builder import Builder, Size
from flambeau.onnx._graph import Value
from flambeau.onnx._types import as_array
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["GraphContext"]

_NAME = re.compile(r"^(.+)_(([ifstgz])|(ty))$")


class GraphContext:
    """The graph that a symbolic function writes into.

    opset: the version of the operator set; builder: what translations write with; custom_opsets: the versions of other domains.
    """

    def __init__(self, builder: Builder, opset: int, custom_opsets: dict[str, int]) -> None:
        self.builder, self.opset, self.custom_opsets = builder, opset, custom_opsets

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """A node: "Relu", or "domain::Name" of a domain of its own; its value, or a tuple of `outputs`.

        raw_args: values, tensors and numbers, None for one that is left out. kwargs: attributes, with their kind: `alpha_f` a
        float or list of them, `axis_i` an int, `mode_s` a text, `value_t` a tensor. OnnxExporterError for a name without a kind.
        """
        domain, _, name = opname.rpartition("::")
        domain = "" if domain == "onnx" else domain
        attributes = {}
        for key, value in kwargs.items():
            if value is None:
                continue
            match = _NAME.match(key)
            if match is None:
                raise OnnxExporterError(
                    f"Invalid attribute specifier '{key}' names must be suffixed with type, e.g. 'dim_i' or 'dims_i'"
                )
            attributes[match[1]] = _attribute(value, match[2])
        if domain:
            self.builder.domains[domain] = self.custom_opsets.get(domain, 1)
        if name == "Constant" and not domain:
            return self.builder.const(attributes["value"], torch.as_tensor(kwargs["value_t"]).dtype)
        given = [x if x is None or isinstance(x, Value) else self.value(x) for x in raw_args]
        return self.builder.op(name, *given, outputs=outputs, domain=domain, attributes=attributes)

    def value(self, x: Any) -> Value:
        """A tensor, a number, a size or a list of numbers as a value."""
        if isinstance(x, Value):
            return x
        if isinstance(x, torch.Tensor):
            return self.builder.const(as_array(x), x.dtype)
        if isinstance(x, (list, tuple)):
            return self.builder.ints(x) if all(isinstance(n, (int, Size)) for n in x) else self.builder.const(x, torch.float32)
        return self.builder.number(x, None)


def _attribute(value: Any, kind: str) -> Any:
    if kind == "t":
        return as_array(torch.as_tensor(value))
    to = {"i": int, "f": float, "s": str}.get(kind)
    if to is None:
        raise NotImplementedError(f"torch.onnx: attributes of kind {kind!r} are not implemented in flambeau; use f, i, s or t")
    return [to(x) for x in value] if isinstance(value, (list, tuple)) else to(value)

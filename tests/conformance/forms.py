"""The forms in which a sample is tried, and what each gave: plain data, as `fuzz.outcomes` describes it.

As a function and a method, in place, with `out=`, for other dtypes and layouts of its operands, on the meta device; its first
and second derivatives, its tangent, mapped over a batch; and called wrongly. Stands on `inputs` and `fuzz.outcomes`; used by
`generate` and `replay`, under either implementation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from conformance.inputs import Inputs, weights
from fuzz.outcomes import Run

DTYPES = ("float64", "bfloat16", "int64", "bool", "complex64")
WRONG = ("no arguments", "unknown keyword", "text as operand")
OUT = ("out", "out of float64", "out of int32")
SEED = 5


class Sample:
    """One line of the catalogue, under an implementation."""

    def __init__(self, torch: Any, line: str) -> None:
        self.torch, self.line = torch, line
        call, _, self.post = line.partition(" -> ")
        path, _, arguments = call.partition("(")
        self.room, _, self.name = path.rpartition(".")
        self.arguments = arguments.rstrip()[:-1]
        self.writes = writes(self.name)

    # ---- which forms there are
    def forms(self, first: bool) -> list[str]:
        """The names of the forms to try. first: whether the name's first sample."""
        if not first:
            return ["call", "gradient", "meta"]
        found = ["call", "gradient", "tangent", "batched", "scattered", "meta", *DTYPES, *WRONG]
        if self.room != "Tensor":
            if not self.writes:
                found += OUT
            found += [form for form, room, name in self.variants() if hasattr(self.place(room), name)]
        return found

    def variants(self) -> list[tuple[str, str, str]]:
        """The other public names that a function's sample can be tried under: (form, room, name)."""
        found = [("method", "Tensor", self.name)] if self.room == "torch" else []
        if not self.writes:
            found.append(("in place", self.room, self.name + "_"))
            if self.room == "torch":
                found.append(("method in place", "Tensor", self.name + "_"))
        return found

    def place(self, room: str) -> Any:
        """What a room's name stands for."""
        found = self.torch
        for part in room.split(".") if room != "torch" else ():
            found = getattr(found, part)
        return found

    # ---- what a form gives
    def outcome(self, form: str) -> Any:
        """["gave", description] or ["raised", type, words]."""
        self.torch.manual_seed(SEED)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                watched, value = self._tried(form)
                run = Run(self.torch, SEED)
                run.space.update({f"v{i}": t for i, t in enumerate(watched)})
                return ["gave", on_meta(self.torch, value) if form == "meta" else run.describe(value)]
        except Exception as error:  # whatever a call raises is its outcome
            return ["raised", type(error).__name__, str(error).split("\nException raised from")[0].split("\n")[0][:160]]

    def _tried(self, form: str) -> tuple[list[Any], Any]:
        """The tensors that a result may be or share memory with, and the result."""
        if form in ("gradient", "tangent", "batched"):
            return [], getattr(self, "_" + form)()
        if form in WRONG:
            return [], self._wrong(form)
        if form in OUT:
            return self._out(form)
        dtype = form if form in DTYPES else "float32"
        inputs = Inputs(self.torch, self.line, dtype, grad=form in ("call", "method"), scattered=form == "scattered")
        if form == "meta":
            args, named = inputs.arguments(self.arguments)
            args, named = moved(self.torch, args), moved(self.torch, named)
            return [], self._called(self.room, self.name, args, named)
        room, name = next(((r, n) for f, r, n in self.variants() if f == form), (self.room, self.name))
        args, named = inputs.arguments(self.arguments)
        if writes(name) and args and isinstance(args[0], self.torch.Tensor):
            args = (args[0].clone(), *args[1:])
            inputs.made.insert(0, args[0])
        return inputs.made, self._called(room, name, args, named)

    def _called(self, room: str, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if room == "Tensor":
            attribute = getattr(args[0], name)
            result = attribute(*args[1:], **named) if callable(getattr(self.torch.Tensor, name)) else attribute
        else:
            result = getattr(self.place(room), name)(*args, **named)
        return eval(self.post, {"r": result, "torch": self.torch}) if self.post else result

    def _function(self, numbers: list[int], dtype: str = "float64") -> Callable[..., Any]:
        """The sample as a function of the tensors with these numbers."""

        def function(*tensors: Any) -> Any:
            args, named = Inputs(self.torch, self.line, dtype, given=dict(zip(numbers, tensors, strict=True))).arguments(
                self.arguments
            )
            if self.writes and args and isinstance(args[0], self.torch.Tensor):
                args = (args[0].clone(), *args[1:])
            return self._called(self.room, self.name, args, named)

        return function

    def _operands(self) -> tuple[list[int], list[Any]]:
        """The numbers of the sample's differentiable operands, and these, in float64."""
        inputs = Inputs(self.torch, self.line, "float64")
        inputs.arguments(self.arguments)
        return inputs.numbers, [inputs.made[number] for number in inputs.numbers]

    def _gradient(self) -> Any:
        """The gradients of all operands, and the sums of their own gradients; None without any."""
        numbers, operands = self._operands()
        operands = [operand.requires_grad_() for operand in operands]
        made = flattened(self.torch, self._function(numbers)(*operands))
        made = [t for t in made if t.requires_grad]
        if not made or not operands:
            return None
        grad = self.torch.autograd.grad
        first = grad(self._weighed(made), operands, create_graph=True, allow_unused=True)
        again = [g for g in first if g is not None and g.requires_grad]
        if not again:
            return [detached(first)]
        second = grad(self._weighed(again), operands, allow_unused=True)
        return [detached(first), [None if g is None else self._weighed([g], 9).detach() for g in second]]

    def _weighed(self, tensors: list[Any], number: int = 1) -> Any:
        """The weighed sum of all elements; of complex ones the real part."""
        total = 0.0
        for t in tensors:
            one = (t * self.torch.from_numpy(weights(tuple(t.shape), number)).to(t.dtype)).sum()
            total = total + (self.torch.real(one) if t.is_complex() else one).double()
        return total

    def _tangent(self) -> Any:
        """The forward derivative along fixed directions; None without operands."""
        numbers, operands = self._operands()
        if not operands:
            return None
        along = tuple(self.torch.from_numpy(weights(tuple(t.shape), 3)).to(t.dtype) for t in operands)
        return self.torch.func.jvp(self._function(numbers), tuple(operands), along)[1]

    def _batched(self) -> Any:
        """The sample mapped over two examples of each operand; None without operands."""
        numbers, operands = self._operands()
        if not operands:
            return None
        pairs = [self.torch.from_numpy(np.stack([x, 0.75 * x])) for x in (t.numpy() for t in operands)]
        return self.torch.func.vmap(self._function(numbers), randomness="different")(*pairs)

    def _out(self, form: str) -> tuple[list[Any], Any]:
        args, named = Inputs(self.torch, self.line).arguments(self.arguments)
        made = getattr(self.place(self.room), self.name)(*args, **named)
        several = isinstance(made, (tuple, list))
        dtype = {"out of float64": self.torch.float64, "out of int32": self.torch.int32}.get(form)
        if not all(isinstance(x, self.torch.Tensor) for x in (made if several else [made])):
            return [], None
        out = [self.torch.zeros(x.shape if dtype is None else 0, dtype=dtype or x.dtype) for x in (made if several else [made])]
        args, named = Inputs(self.torch, self.line).arguments(self.arguments)
        self.torch.manual_seed(SEED)
        result = getattr(self.place(self.room), self.name)(*args, **named, out=tuple(out) if several else out[0])
        if self.post:
            eval(self.post, {"r": result, "torch": self.torch})
            return out, [x is y for x, y in zip(result if several else [result], out, strict=True)]
        return out, result

    def _wrong(self, form: str) -> Any:
        args, named = Inputs(self.torch, self.line).arguments(self.arguments)
        if self.room == "Tensor":
            method = getattr(args[0], self.name)
            if not callable(getattr(self.torch.Tensor, self.name)):
                return None
            args = args[1:]
        else:
            method = getattr(self.place(self.room), self.name)
        if form == "no arguments":
            method()
        elif form == "unknown keyword":
            method(*args, **named, nonsense=1)
        else:
            method("text", *args[1:], **named)


def writes(name: str) -> bool:
    """Whether a name says that its call writes to its first operand."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__int__", "__index__"))
    return name.endswith("_") and name != "requires_grad_"


def flattened(torch: Any, value: Any) -> list[Any]:
    """The tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for x in value for t in flattened(torch, x)] if isinstance(value, (tuple, list)) else []


def moved(torch: Any, value: Any) -> Any:
    """Arguments with all their tensors on the meta device."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if type(value) in (tuple, list):
        return type(value)(moved(torch, x) for x in value)
    return {name: moved(torch, x) for name, x in value.items()} if isinstance(value, dict) else value


def detached(gradients: Any) -> list[Any]:
    """Gradients without their graphs."""
    return [None if g is None else g.detach() for g in gradients]


def on_meta(torch: Any, value: Any) -> Any:
    """What a result on the meta device is: shapes, strides, dtypes and devices."""
    if isinstance(value, torch.Tensor):
        return ["meta", list(value.shape), list(value.stride()), str(value.dtype).split(".")[-1], value.device.type]
    if isinstance(value, (tuple, list)):
        return ["items", "tuple", [on_meta(torch, x) for x in value]]
    return ["plain", type(value).__name__, repr(value) if isinstance(value, (bool, int, float, str)) else ""]

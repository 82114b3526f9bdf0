"""Writes random programs while an implementation executes them: `Writer(torch, seed).program()`.

A program makes a few tensors of random shapes, dtypes and layouts and then takes calls from the catalogue in `calls`, whose
slots are filled with what fits (and, now and then, with what doesn't: refusals are compared too). Some calls are wrapped: in
vmap, in a gradient, in a forward derivative. Stands on `outcomes` and `calls`.
"""

from __future__ import annotations

import random
import re
from typing import Any

from fuzz.calls import FAMILIES
from fuzz.outcomes import Run

DTYPES = (
    ["float32"] * 8
    + ["float64"] * 3
    + ["int64"] * 3
    + ["bool", "int8", "uint8", "int32", "int16", "float16", "bfloat16", "complex64", "complex64"]
)
USUAL = ["1", "2", "0.5", "-1", "3", "1.5", "0", "2.0", "-0.5"]
UNUSUAL = ["True", "False", "-0.0", "1e-3", "7", "-3", "255", "inf", "nan", "1e30", "100", "1j", "(1+2j)", "-128", "2**31"]
SLOT = re.compile(r"\{([^{}]*)\}")
STATEMENT = re.compile(r"^(v\w+(\[.*\])?|setattr\(.*) ?(=|[-+*/%&|^]=|\*\*=|//=|<<=) |^setattr")


class Writer:
    """One program in the making, under the implementation that is given."""

    def __init__(self, torch: Any, seed: int) -> None:
        self.torch, self.random, self.run, self.count = torch, random.Random(seed), Run(torch, seed), 0
        self.names, self.weights = list(FAMILIES), [weight for weight, _ in FAMILIES.values()]

    def program(self, calls: int = 14) -> tuple[list[str], list[Any]]:
        """(lines, outcomes): the outcome of each line, then what the variables are in the end."""
        lines = []
        for number in range(calls + 3):
            line = self._fresh() if number < 3 else self._line()
            if not STATEMENT.match(line):
                self.count += 1
                line = f"v{self.count} = {line}"
            lines.append(line)
            self.run.step(line)
        self.run.finish()
        return lines, self.run.outcomes

    # ---- tensors
    def _pick(self, test: Any) -> tuple[str, Any]:
        """A live tensor that passes the test, of the latest rather; any if there is none, and seldom in spite of it."""
        live = self.run.tensors()
        found = [x for x in live if test(x[1])]
        if not found or self.random.random() < 0.03:
            found = live
        return self.random.choice(found[-3:] if self.random.random() < 0.5 else found)

    def _shape(self, most: int = 4) -> tuple[int, ...]:
        sizes = [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5]
        return tuple(self.random.choice(sizes) for _ in range(self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, most])))

    def _fresh(self) -> str:
        """The text of a new tensor: its elements, its layout, and whether it requires grad."""
        r, dtype, shape = self.random, self.random.choice(DTYPES), self._shape()
        if r.random() < 0.1:
            shape = r.choice([(17, 3), (33,), (2, 1, 5, 5), (1, 2, 4, 4), (3, 3)])
        count = 1
        for n in shape:
            count *= n
        line = f"torch.tensor({self._elements(dtype, count)}, dtype=torch.{dtype}).reshape({shape})"
        x = r.random()
        if x < 0.15 and len(shape) > 1:
            line += f".transpose(0, {r.randrange(len(shape))}).contiguous().transpose(0, -1)"
        elif x < 0.25 and shape and shape[-1] > 1:
            line += "[..., ::2]"
        elif x < 0.3 and shape and shape[0] > 1:
            line += "[1:]"
        elif x < 0.34:
            line += f".unsqueeze(-1).expand({(*shape, 3)})"
        elif x < 0.4 and len(shape) == 4:
            line += ".contiguous(memory_format=torch.channels_last)"
        if r.random() < 0.4 and dtype.startswith(("float", "bfloat", "complex")):
            line += ".detach().requires_grad_()"
        return line

    def _elements(self, dtype: str, count: int) -> str:
        r = self.random
        values: list[Any] = [round(r.gauss(0, 1.5), 3) for _ in range(count)]
        if dtype == "bool":
            values = [r.random() < 0.5 for _ in range(count)]
        elif dtype.startswith("complex"):
            values = [complex(round(r.gauss(0, 1.5), 3), round(r.gauss(0, 1.5), 3)) for _ in range(count)]
        elif dtype.startswith(("int", "uint")):
            values = [r.randint(0 if dtype == "uint8" else -5, 5) for _ in range(count)]
        elif r.random() < 0.1 and count:
            values[r.randrange(count)] = r.choice(["nan", "inf", "-inf", "-0.0", "1e30"])
        return "[" + ", ".join(map(str, values)) + "]"

    # ---- lines
    def _line(self) -> str:
        family = self.random.choices(self.names, self.weights)[0]
        if self.random.random() < 0.06:
            return self._fresh()
        line = Filled(self, self.random.choice(FAMILIES[family][1])).text
        return self._wrapped(line) if family not in ("gradient", "query", "random") and self.random.random() < 0.06 else line

    def _wrapped(self, line: str) -> str:
        """The call as a function under a transform, of the tensor that it is about."""
        used = re.findall(r"\bv\w+", line)
        if not used or STATEMENT.match(line) or "out=" in line:
            return line
        subject = used[0]
        body = re.sub(rf"\b{subject}\b", "q", line)
        return self.random.choice([
            f"torch.func.vmap(lambda q: {body})({subject})", f"torch.func.grad(lambda q: ({body}).sum())({subject})",
            f"torch.func.jvp(lambda q: {body}, ({subject},), ({subject} * 0.5,))",
            f"torch.func.grad(lambda q: torch.func.grad(lambda q: ({body}).sum())(q).sum())({subject})",
        ])  # fmt: skip


class Filled:
    """A template with its slots filled; `text` is the line."""

    def __init__(self, writer: Writer, template: str) -> None:
        self.writer, self.random, self.torch = writer, writer.random, writer.torch
        self.subject: str | None = None
        self.tensor: Any = None
        self.dim: int | None = None
        self.text = SLOT.sub(lambda found: self._slot(found.group(1)), template)

    def _slot(self, slot: str) -> str:
        if "|" in slot or not slot:
            return self.random.choice(slot.split("|"))
        if slot in SUBJECTS:
            if self.subject is None:
                self.subject, self.tensor = self.writer._pick(SUBJECTS[slot])
            elif slot == "v":
                return self.writer._pick(SUBJECTS[slot])[0]
            return self.subject
        if self.tensor is None:
            self.subject, self.tensor = self.writer._pick(SUBJECTS["x"])
        return str(getattr(self, "_" + slot)())

    def _any(self, test: Any) -> str:
        return self.writer._pick(test)[0]

    # ---- other operands
    def _other(self) -> str:
        return self._any(lambda t: True)

    def _leaf(self) -> str:
        return self._any(lambda t: t.requires_grad and t.is_leaf)

    def _same(self) -> str:
        shape, dtype = self.tensor.shape, self.tensor.dtype
        strict = self.random.random() < 0.7
        return self._any(lambda t: t.shape == shape and (t.dtype == dtype or not strict))

    def _ty(self) -> str:
        own = tuple(self.tensor.shape) if self.tensor is not None else ()

        def fits(t: Any) -> bool:
            return all(a == b or 1 in (a, b) for a, b in zip(own[::-1], tuple(t.shape)[::-1], strict=False))

        return self._any(fits)

    def _y(self) -> str:
        return self._n() if self.random.random() < 0.2 else self._ty()

    def _right(self) -> str:
        inner = self.tensor.shape[-1] if self.tensor.dim() else 1
        return self._any(lambda t: t.dtype == self.tensor.dtype and t.dim() and t.shape[-2 if t.dim() > 1 else 0] == inner)

    # ---- numbers, dimensions, shapes
    def _n(self) -> str:
        return self.random.choice(UNUSUAL if self.random.random() < 0.15 else USUAL)

    def _k(self) -> int:
        return self.random.choice([0, 1, 1, 2, 2, 3, -1, -2])

    def _any_dim(self) -> int:
        n = self.tensor.dim() if self.tensor is not None else 0
        if self.random.random() < 0.04:
            return self.random.choice([n, -n - 1, 7])
        return self.random.randrange(-n, n) if n else self.random.choice([0, -1])

    def _d(self) -> int:
        if self.dim is None:
            self.dim = self._any_dim()
        return self.dim

    def _e(self) -> int:
        return self._any_dim()

    def _ds(self) -> tuple[int, ...]:
        n = self.tensor.dim()
        return tuple(self.random.sample(range(n), self.random.randint(1, n))) if n else self.random.choice([(), (0,), (-1,)])

    def _order(self) -> tuple[int, ...]:
        return tuple(self.random.sample(range(self.tensor.dim()), self.tensor.dim()))

    def _size(self) -> tuple[int, ...]:
        return self.writer._shape(3)

    def _strides(self) -> tuple[int, ...]:
        return tuple(self.random.choice([0, 1, 1, 2, 3]) for _ in range(self.random.choice([0, 1, 2, 2, 3])))

    def _shape(self) -> tuple[int, ...]:
        sizes = list(self.tensor.shape)
        x = self.random.random()
        if x < 0.4:
            return (-1,)
        if x < 0.7 and len(sizes) > 1:
            return (sizes[0] * sizes[1], *sizes[2:])
        if x < 0.85:
            sizes.insert(self.random.randint(0, len(sizes)), 1)
        return tuple(self.random.sample(sizes, len(sizes))) if x >= 0.85 else tuple(sizes)

    def _expanded(self) -> tuple[int, ...]:
        lead = [self.random.choice([1, 2, 3])] * self.random.choice([0, 0, 1])
        return (*lead, *[n if n != 1 else self.random.choice([1, 2, -1]) for n in self.tensor.shape])

    def _repeats(self) -> tuple[int, ...]:
        return tuple(self.random.choice([0, 1, 2]) for _ in range(self.tensor.dim() + self.random.choice([0, 0, 1])))

    def _pads(self) -> tuple[int, ...]:
        return tuple(self.random.choice([0, 1, 2, -1]) for _ in range(2 * self.random.randint(1, max(self.tensor.dim(), 1))))

    def _dims(self) -> int:
        return self.random.randint(0, max(self.tensor.dim(), 1))

    def _dtype(self) -> str:
        return "torch." + self.random.choice(DTYPES)

    def _channels(self) -> int:
        return self.tensor.shape[1] if self.tensor.dim() > 1 else 1

    def _ichannels(self) -> int:
        return self.tensor.shape[-3] if self.tensor.dim() >= 3 else 1

    # ---- indices
    def _extent(self) -> int:
        d = self._d()
        return self.tensor.shape[d] if -self.tensor.dim() <= d < self.tensor.dim() else 1

    def _places(self, size: int, count: int) -> list[int]:
        return [self.random.randrange(size) if self.random.random() < 0.98 else size for _ in range(count)] if size else []

    def _rows(self) -> str:
        if not hasattr(self, "kept_rows"):  # the same places wherever a template names them
            self.kept_rows = f"torch.tensor({self._places(self._extent(), self.random.randint(0, 4))}, dtype=torch.int64)"
        return self.kept_rows

    def _rows0(self) -> str:
        return f"torch.tensor({self._places(self.tensor.shape[0] if self.tensor.dim() else 1, 2)}, dtype=torch.int64)"

    def _flat(self) -> str:
        return f"torch.tensor({self._places(self.tensor.numel(), 2)}, dtype=torch.int64)"

    def _where(self) -> str:
        shape = list(self.tensor.shape)
        if shape and -len(shape) <= self._d() < len(shape):
            shape[self._d()] = self.random.choice([0, 1, 2, shape[self._d()]])
        count = 1
        for n in shape:
            count *= n
        places = [self.random.randrange(max(self._extent(), 1)) for _ in range(count)]
        return f"torch.tensor({places}, dtype=torch.int64).reshape({tuple(shape)})"

    def _classes(self) -> str:
        shape = (self.tensor.shape[0], *self.tensor.shape[2:]) if self.tensor.dim() > 1 else ()
        return f"torch.zeros({tuple(shape)}, dtype=torch.int64)"

    def _index(self) -> str:
        """What may stand between the brackets behind the subject."""
        r, parts = self.random, []
        length = r.choice([1, 2, 3])
        for n in self.tensor.shape:
            first, last = r.randint(-n - 1, n + 1), r.randint(-n - 1, n + 1)
            parts.append(r.choice([
                ":", str(r.randrange(-n, n)) if n else "0", f"{first}:", f":{last}:{r.randint(1, 3)}",
                "None, :", repr([r.randrange(-n, n) for _ in range(length)]) if n else ":",
                f"torch.tensor({[r.random() < 0.5 for _ in range(n)]})", "...",
            ]))  # fmt: skip
            if r.random() < 0.15:
                break
        if parts.count("...") > 1 or not parts or r.random() < 0.08:
            return r.choice(["...", "None", "torch.tensor(0)", "torch.tensor([0, 0])", "True", "0", "1:", f"{self.subject} > 0"])
        return ", ".join(parts)


SUBJECTS = {
    "x": lambda t: True, "f": lambda t: t.is_floating_point(), "c": lambda t: t.is_floating_point() or t.is_complex(),
    "l": lambda t: not (t.is_floating_point() or t.is_complex()) and "bool" not in str(t.dtype),
    "b": lambda t: "bool" in str(t.dtype), "v": lambda t: t.dim() == 1, "q": lambda t: t.requires_grad,
    "m": lambda t: t.dim() >= 2, "s": lambda t: t.dim() >= 2 and t.shape[-1] == t.shape[-2] and t.is_floating_point(),
    "img": lambda t: t.dim() in (3, 4) and t.is_floating_point(),
}  # fmt: skip
"""What the subject of a template is, by the name of the slot."""

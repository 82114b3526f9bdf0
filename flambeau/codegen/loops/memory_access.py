"""What a loop nest's kernel reads and writes: addresses, vectors side by side or gathered, results past the caches.

Stands on prologue.py; nest.py builds on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flambeau.codegen.builder import Value
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.loops.prologue import Frame, Span
from flambeau.codegen.scalar import LINE, Lowering, joined, llvm_type, memory_type, parts_of
from flambeau.ir.functions import expand
from flambeau.ir.loops import Fold, Loop
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaves_of, outlined, part_dtype, topological

VECTOR = 64  # bytes of a machine vector; LLVM splits them where the machine's are shorter
LONG = 200  # instructions of a body that is not worth writing twice
TOGETHER = 120  # instructions of a body that is worth writing for several vectors at once, none of which waits for the others
AHEAD = 16384  # bytes between what a block reads and what it asks for
PICK_ERROR = 1  # error word: a picked index is out of range
#: A few instructions each; a loop body with any other op counts as long.
SHORT_OPS = frozenset(
    "leaf constant add sub mul cast where neg abs minimum maximum lt gt le ge eq ne and or not xor bitcast fma pick "
    "through".split()
)


def is_short(expressions) -> bool:
    """Whether an element takes but a few instructions."""
    return all(node.op in SHORT_OPS for node in topological(*expressions))


def length_of(expressions) -> int:
    """How many instructions an element takes, those of the functions that stand outside the loop among them."""
    nodes = set(topological(*(expand(e) for e in expressions)))
    return len(nodes) + sum(length_of(outlined(node)) for node in nodes)


@dataclass
class Prepared:
    """What is known of a loop's expressions before its innermost loop: their nodes, where the operands that they read lie, and
    the values that don't change along it.
    """

    nodes: list[Expr]
    bases: dict[Expr, Value] = field(default_factory=dict)
    fixed: dict[Expr, Any] = field(default_factory=dict)


class Operands(Frame):
    """A frame whose operands can be loaded and stored by expression leaf."""

    arrays: dict[str, list[Value]]  # lane mode: the results of folds, by name and part

    def steps(self, expressions, outputs, blocks: int = 1, together: bool = False) -> tuple[int, int]:
        """How many elements a loop takes at a time, and at its end: vectors as long as the widest operand allows; where memory
        is read or written one by one, a vector and then single elements; 0 and a vector for a long body, which is written once:
        masks cost little beside it. A body that takes but a few instructions takes `blocks` vectors at a time; a longer one, too,
        if it is to be `together`.
        """
        nodes = list(topological(*expressions))
        used = {j for node in nodes if (j := self._operand_of(node)) is not None}.union(outputs)
        width = VECTOR // max((part_dtype(compute_dtype(self.dtypes[j])).itemsize for j in used), default=8)
        if (
            any(self.form.classes[j] == "x" for j in used)
            or any(self.form.classes[j] != "1" for j in outputs)
            or any(node.op == "pick" and not self._known(node) for node in nodes)
        ):
            return width, 0
        if is_short(expressions):
            return blocks * width, width
        length = length_of(expressions)
        if together and length < TOGETHER:
            return blocks * width, width
        # where the processor has no masks for so short elements, each is loaded and stored behind a branch of its own
        branches = vector_bytes() < 64 and any(self.dtypes[j].itemsize < 4 for j in used)
        return (width if length < (LONG if outputs else 0) or self.form.large or branches else 0), width

    def _known(self, pick: Expr) -> bool:
        """Whether a pick's index is the same along the innermost loop."""
        return all(
            x in self.env or ((j := self._operand_of(x)) is not None and self.form.classes[j] == "0")
            for x in leaves_of(*pick.args)
        )

    def _shifted(self, j: int, indices: list[Value]) -> Value:
        """Operand j's row moved by the indices of the outer inner-axes."""
        f = self.f
        if not indices:
            return self.rows[j]
        offset = None
        for index, stride in zip(indices, self.strides[j].inner):
            part = index * stride
            offset = part if offset is None else offset + part
        return f.at(memory_type(self.dtypes[j]), self.rows[j], offset)

    def _innermost_stride(self, j: int) -> Value:
        return self.strides[j].lane if self.form.lanes else self.strides[j].inner[-1]

    def address(self, j: int, base: Value, index: Value) -> Value:
        kind = self.form.classes[j]
        type = memory_type(self.dtypes[j])
        if kind == "0":
            return base
        return self.f.at(type, base, index if kind == "1" else index * self._innermost_stride(j))

    def _position(self, indices: list[Value], innermost: Value | None) -> Value:
        """The index along the inner axes in row-major order."""
        all_indices = indices if self.form.lanes else [*indices, innermost]
        result = all_indices[0]
        for extent, index in zip(self.inner_extents[1:], all_indices[1:]):
            result = result * extent + index
        return result

    def _operand_of(self, node: Expr) -> int | None:
        """The operand that a node reads: an input, or an output that an earlier stage stored."""
        if node.op == "pick":
            return len(self.nest.outputs) + node.value
        name = str(node.value) if node.op == "leaf" else ""
        if name.startswith("in"):
            return len(self.nest.outputs) + int(name[2:])
        return int(name[3:]) if name.startswith("out") else None

    def prepare(self, expressions, indices: list[Value]) -> Prepared:
        """Load what does not change along the innermost loop that `indices` lead to."""
        low = self.lowering()
        ready = Prepared(list(topological(*expressions)))
        for node in ready.nodes:
            if node.op == "leaf" and (j := self._operand_of(node)) is not None:
                ready.bases[node] = self._shifted(j, indices)
                if self.form.classes[j] == "0":
                    ready.fixed[node] = low.load(self.dtypes[j], ready.bases[node].name)
        for node in ready.nodes:
            if node.op == "pick":
                j = self._operand_of(node)
                base = self._shifted(j, indices)
                if self._known(node):
                    offset = self._pick_offset(low, j, low.value(node.args[0], {**self.env, **ready.fixed}))
                    base = self.f.at(memory_type(self.dtypes[j]), base, offset)
                    if self.form.classes[j] == "0":
                        ready.fixed[node] = low.load(self.dtypes[j], base.name)
                ready.bases[node] = base
        for node in self._steady(ready, expressions):
            ready.fixed[node] = low.value(node, {**self.env, **ready.fixed})
        return ready

    def _steady(self, ready: Prepared, expressions) -> list[Expr]:
        """The largest subexpressions that are the same along the innermost loop, other than single operands and numbers."""
        steady = {*self.env, *ready.fixed}
        for node in ready.nodes:
            if node.op == "constant" or (node.args and node.op not in ("pick", "guard") and steady.issuperset(node.args)):
                steady.add(node)
        used = [*expressions, *(arg for node in ready.nodes if node not in steady for arg in node.args)]
        return [node for node in dict.fromkeys(used) if node.args and node in steady and node not in ready.fixed]

    def _pick_offset(self, low: Lowering, j: int, index: str) -> Value:
        """How far a pick moves, in elements; an index out of range is reported and moves nothing."""
        f, own, type = self.f, self.strides[j], low.type("i64")
        position = Value(f, type, index)
        fits = position.unsigned_below(Value(f, type, low.splat("i64", own.extent.name)))
        self.fail(low.any((fits ^ f.value(1, fits.type)).name), PICK_ERROR)
        return f.select(fits, position, 0) * Value(f, type, low.splat("i64", own.pick.name))

    def _places(self, low: Lowering, j: int, base: Value, i: Value) -> list[str]:
        """The addresses of operand `j`'s elements from index `i` of the innermost loop on."""
        places, type = [self.address(j, base, i)], memory_type(self.dtypes[j])
        step = self.f.i64(int(self.form.classes[j])) if self.form.classes[j] != "x" else self._innermost_stride(j)
        while len(places) < low.width:
            places.append(self.f.at(type, places[-1], step))
        return [place.name for place in places]

    def _load(self, low: Lowering, j: int, base: Value, i: Value):
        """Elements of operand `j` from index `i` of the innermost loop on."""
        if low.width and self.form.classes[j] == "x":
            return low.gather(self.dtypes[j], self._places(low, j, base, i))
        return low.load(self.dtypes[j], self.address(j, base, i).name)

    def _load_picked(self, low: Lowering, j: int, base: Value, index: str, i: Value):
        """The same, each moved by its own index along the pick axis."""
        f, type = self.f, memory_type(self.dtypes[j])
        offsets = self._pick_offset(low, j, index)
        if not low.width:
            return low.load(self.dtypes[j], f.at(type, self.address(j, base, i), offsets).name)
        moved = []
        for k, place in enumerate(self._places(low, j, base, i)):
            offset = f.emit("i64", f"extractelement {offsets.type} {offsets.name}, i64 {k}")
            moved.append(f.emit("ptr", f"getelementptr {type}, ptr {place}, i64 {offset.name}").name)
        return low.gather(self.dtypes[j], moved)

    def environment(self, low: Lowering, ready: Prepared, indices: list[Value], i: Value) -> dict:
        """Values of all leaves from innermost index `i` on."""
        known = {**self.env, **ready.fixed}
        env: dict = {}
        for node in ready.nodes:
            if node in known:
                with self.f.before_loop():
                    env[node] = low.spread(node.dtype, known[node])
            elif node.op == "leaf":
                name = str(node.value)
                if (j := self._operand_of(node)) is not None:
                    env[node] = self._load(low, j, ready.bases[node], i)
                elif name == "r":
                    place = self._position(indices, i).name
                    env[node] = low.splat("i64", place) if self.form.lanes else low.counting(place)
                elif name.startswith("acc:") and name[4:] in self.arrays:
                    env[node] = self.read(low, self.arrays[name[4:]], i, node)
            elif node.op == "pick":
                j, base = self._operand_of(node), ready.bases[node]
                if self._known(node):
                    env[node] = self._load(low, j, base, i)
                else:
                    env[node] = self._load_picked(low, j, base, low.value(node.args[0], env), i)
        return env

    def read(self, low: Lowering, array: list[Value], index: Value, node: Expr):
        """Elements of a fold's array(s) from `index` on."""
        type = llvm_type(node.dtype)
        parts = []
        for a in array:
            part = self.f.load(low.type(_slot(type)), a, index, align=_bytes(node))
            parts.append(self.f.convert(part, low.type("i1"), "trunc").name if type == "i1" else part.name)
        return joined(parts)

    def write(self, low: Lowering, array: list[Value], index: Value, value, node: Expr) -> None:
        type = llvm_type(node.dtype)
        for a, part in zip(array, parts_of(value)):
            register = Value(self.f, low.type(type), part)
            if type == "i1":
                register = self.f.convert(register, low.type("i8"), "zext")
            self.f.store(register, a, index, align=_bytes(node))

    # ---- lane mode keeps the partial results of its rows in memory
    def new_arrays(self, fold: Fold, size: int) -> list[list[Value]]:
        return [self.new_array(s, size) for s in fold.start]

    def new_array(self, like: Expr, size: int) -> list[Value]:
        """Memory for numbers of an expression's dtype, an array for each part of them."""
        return [self.f.stack(_slot(llvm_type(like.dtype)), size, 64) for _ in range(2 if like.dtype.is_complex else 1)]

    def streamed(self, stage: Loop) -> set[int]:
        """The outputs of a stage that are stored past the caches: those that no stage reads, and no other writes."""
        if not self.form.large:
            return set()
        read = {self._operand_of(node) for e in self.all_expressions() for node in topological(e)}
        written = [j for s in self.nest.stages for j, _ in s.stores]
        return {j for j, _ in stage.stores if self.form.classes[j] == "1" and j not in read and written.count(j) == 1}

    def may_stream(self, streamed: set[int], indices: list[Value], first: Value) -> Value | None:
        """Whether all streamed outputs begin a cache line at index `first` of the innermost loop, and lie elsewhere than the
        inputs: what was just read is in the caches already.
        """
        f, classes = self.f, self.form.classes
        addresses = {
            j: f.address(self.address(j, self._shifted(j, indices), first))
            for j in range(len(classes))
            if j in streamed or (streamed and j >= len(self.nest.outputs) and classes[j] == "1")
        }
        result = None
        for j in sorted(streamed):
            for k, other in addresses.items():
                good = (addresses[j] & (LINE - 1)).equals(0) if k == j else addresses[j].differs(other)
                result = good if result is None else result & good
        return result

    def fetched(self, stage: Loop) -> dict[int, bool]:
        """The operands whose cache lines the stage asks for ahead of time: the ones that no stage with a longer body reads, nor a
        later one as long. Whether another stage has read this row of it: then it is the next row that is to come.
        """

        def reads(s: Loop) -> set[int | None]:
            return {self._operand_of(node) for e in s.expressions for node in topological(e)}

        loops = [s for s in self.nest.stages if isinstance(s, Loop)]
        lengths = [length_of(s.expressions) for s in loops]
        own, found = loops.index(stage), {}
        for j in reads(stage) - {None}:
            others = [i for i, s in enumerate(loops) if i != own and j in reads(s)]
            if all((lengths[i], i) < (lengths[own], own) for i in others):
                found[j] = bool(others)
        return found

    def fetch_ahead(self, ready: Prepared, span: Span, fetched: dict[int, bool]) -> None:
        """Ask for the cache lines that a later block reads: the processor's own prefetching ends at every page, and it has
        nothing to do while a long body computes.
        """
        f = self.f
        for node, base in ready.bases.items():
            j = self._operand_of(node)
            if j in fetched and self.form.classes[j] == "1":
                first, size = self.address(j, base, span.index), self.dtypes[j].itemsize
                with f.before_loop():
                    ahead = f.maximum(self.inner_extents[-1] * size, AHEAD) if fetched[j] else f.i64(AHEAD)
                for line in range(0, span.width * size, LINE):
                    f.fetch(f.at("i8", first, ahead + line))

    def store_elements(self, low: Lowering, stores, env: dict, indices: list[Value], i: Value, streamed=frozenset()) -> None:
        for j, expression in stores:
            value = low.value(cast(expression, compute_dtype(self.dtypes[j])), env)
            base = self._shifted(j, indices)
            if low.width and self.form.classes[j] != "1":
                low.scatter(self.dtypes[j], value, self._places(low, j, base, i))
            else:
                low.store(self.dtypes[j], value, self.address(j, base, i).name, j in streamed)


def _slot(type: str) -> str:
    """How a register type is kept in an array."""
    return "i8" if type == "i1" else type


def _bytes(node: Expr) -> int:
    return part_dtype(node.dtype).itemsize

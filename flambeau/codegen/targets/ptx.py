"""The seed of a GPU target: loops as PTX, an element to a thread, a row to a block. Nothing here runs on a GPU yet.

It is kept to hold the seam between plans and targets open: what a `Loops` says is enough for a second target, and the scalar
language is lowered by the same code (codegen.scalar, width 0). Left to do: the driver, memory, packed loads, folds by shuffles,
long rows in several blocks, scans, picks, half types in shared memory; products by a library. tests/codegen/test_ptx.py runs the
kernels, each thread a coroutine. Stands on plan.py, builder and scalar; nothing else uses it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.base.dtype import bool_, float64, int64
from flambeau.codegen import llvm
from flambeau.codegen.builder import Function, Value, Variable
from flambeau.codegen.plan import SCRATCH, Loops, Plan
from flambeau.codegen.scalar import Lowering, llvm_type, memory_type
from flambeau.ir.loops import Fold, Loop, Nest, Row, combined, position
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaf, leaves_of, topological

THREADS = 128  # of a block
BLOCKS = 1 << 16  # most of a grid; its threads then take several elements each, its blocks several rows
PROCESSOR = "sm_80"
SHARED = "@shared"  # where the threads of a block fold together: a word for each of them, for every component
_REGISTERS = "llvm.nvvm.read.ptx.sreg."
_BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"
_NUMBERS = {"f": ("double", float64), "i": ("i64", int64)}
#: Intrinsics that LLVM has instructions for; at another, or a function of the C library, it would end the process.
_KNOWN = frozenset(
    "fma floor ceil trunc roundeven sqrt fabs copysign ctpop ctlz cttz minnum maxnum smin smax umin umax "
    "abs fshl fshr bswap bitreverse nvvm".split()
)


class Grid(NamedTuple):
    """A kernel to be launched: its name and LLVM text, how many blocks of how many threads, and its constants.

    Its arguments are the addresses of the operands in the order of `slots`, the plan's numbers ("f" a double, "i" an i64), and
    the address of the constants: extents, then for each operand its strides in elements, and where it begins, in bytes.
    """

    name: str
    text: str
    slots: tuple[int, ...]
    blocks: int
    threads: int
    constants: tuple[int, ...]


class _PTX:
    """The only instance is `PTX`."""

    name = "ptx"
    vector_bytes = 16  # the most that a thread loads at once
    threads = THREADS

    def lower(self, step: Any) -> Grid:
        if step.__class__ is not Loops:
            raise NotImplementedError(f"the GPU has no kernels for {step}")
        nest, kept, kept_strides, inner, inner_strides, picks, ordered, slots, offsets, _ = step
        if picks:
            raise NotImplementedError(f"the GPU has no kernels for picks, which {nest.name} makes")
        if nest.pointwise() and not ordered:
            kept, inner = (), (*kept, *inner)
            kept_strides, inner_strides = [()] * len(inner_strides), [(*a, *b) for a, b in zip(kept_strides, inner_strides)]
        operands = len(nest.outputs) + len(nest.inputs)
        slots, offsets = slots or tuple(range(operands)), offsets or {}
        if SCRATCH in slots:
            raise NotImplementedError(f"the GPU has no working memory, which {nest.name} uses")
        writer = _Writer(nest, len(kept), len(inner), slots)
        units = math.prod(kept) if kept else -(-math.prod(inner) // THREADS) if nest.pointwise() else 1
        constants = (
            *kept,
            *inner,
            *(word for j in range(operands) for word in (*kept_strides[j], *inner_strides[j], offsets.get(j, 0))),
        )
        return Grid(writer.name, writer.text(), tuple(dict.fromkeys(slots)), min(units, BLOCKS), THREADS, constants)

    def launcher(self, plan: Plan) -> Callable:
        raise NotImplementedError("nothing runs on a GPU yet; move the tensors to the CPU with .cpu()")

    def allocate(self, nbytes: int) -> Any:
        raise NotImplementedError("there is no memory of a GPU yet; move the tensors to the CPU with .cpu()")


PTX = _PTX()


class _Writer:
    """Writes a nest over so many kept and inner axes: a thread takes elements, or a block rows."""

    def __init__(self, nest: Nest, kept: int, inner: int, slots: Sequence[int]) -> None:
        self.nest, self.kept, self.inner, self.slots = nest, kept, inner, slots
        self.dtypes = nest.outputs + nest.inputs
        pointwise = nest.pointwise()
        self.name = re.sub(r"\W", "_", f"{nest.name}_{self.dtypes[-1].name}{'' if pointwise else '_row'}")  # PTX has no dots
        parameters = [(f"s{slot}", "ptr") for slot in dict.fromkeys(slots)]
        for i, (kind, _) in enumerate(nest.scalars):
            if kind not in _NUMBERS:
                raise NotImplementedError(f"the GPU has no kernels for complex numbers, which {nest.name} takes")
            parameters.append((f"number{i}", _NUMBERS[kind][0]))
        f = self.f = Function(self.name, [*parameters, ("c", "ptr")], linkage="ptx_kernel")
        self.declarations: set[str] = set()
        self.components = 0  # of folds, that share words at the same time
        self.thread, self.block, self.threads, self.blocks = (
            f.convert(f.call("i32", _REGISTERS + name), "i64", "zext") for name in ("tid.x", "ctaid.x", "ntid.x", "nctaid.x")
        )
        self.extents = [self._constant(i) for i in range(kept + inner)]
        self.env: dict[Expr, Any] = {}  # what is the same along the row
        for i, (kind, dtype) in enumerate(nest.scalars):
            given = leaf("given", _NUMBERS[kind][1])
            self.env[leaf(f"s{i}", dtype)] = self._lowering().value(cast(given, dtype), {given: f[f"number{i}"].name})
        if pointwise:
            self._elements()
        else:
            self._rows()

    def text(self) -> str:
        """The module."""
        declarations = self.declarations | self.f.declarations
        for name in re.findall(r"declare [^@]*@([\w.]+)", "\n".join(sorted(declarations))):
            if not name.startswith("llvm.") or name.split(".")[1] not in _KNOWN:
                raise NotImplementedError(f"the GPU has no {name}, which {self.nest.name} calls")
        shared = f"{SHARED} = internal addrspace(3) global [{self.components * THREADS} x i64] undef, align 16\n"
        return (shared if self.components else "") + "\n".join([*sorted(declarations), self.f.text()])

    # ---- places
    def _constant(self, i: int) -> Value:
        return self.f.load("i64", self.f["c"], i, align=8)

    def _base(self, j: int) -> Value:
        offset = self._operand_constants(j) + self.kept + self.inner
        return self.f.at("i8", self.f[f"s{self.slots[j]}"], self._constant(offset))

    def _operand_constants(self, j: int) -> int:
        return (self.kept + self.inner) * (j + 1) + j

    def _coordinates(self, index: Value, extents: Sequence[Value]) -> list[Value]:
        found = []
        for extent in reversed(extents[1:]):
            found.append(index.unsigned_rem(extent))
            index = index.unsigned_div(extent)
        return [index, *reversed(found)]

    def _moved(self, j: int, base: Value, coordinates: Sequence[Value], first: int) -> Value:
        """Operand j's place, moved along axes from `first` on."""
        for axis, coordinate in enumerate(coordinates, first):
            stride = self._constant(self._operand_constants(j) + axis)
            base = self.f.at(memory_type(self.dtypes[j]), base, coordinate * stride)
        return base

    def _lowering(self) -> Lowering:
        low = Lowering(self.f.line, self.f.fresh)
        low.declarations = self.declarations
        return low

    def _loaded(self, low: Lowering, expressions: Sequence[Expr], places: Sequence[Value]) -> dict[Expr, Any]:
        """What expressions read of operands at these places."""
        env = dict(self.env)
        for node in topological(*expressions):
            if node.op in ("pick", "guard") or node.dtype.is_complex:
                raise NotImplementedError(f"the GPU has no kernels for {node.op} of {node.dtype}, which {self.nest.name} uses")
            name = str(node.value) if node.op == "leaf" else ""
            if name.startswith(("in", "out")):
                j = len(self.nest.outputs) + int(name[2:]) if name.startswith("in") else int(name[3:])
                env[node] = low.load(self.dtypes[j], places[j].name)
        return env

    def _store(self, low: Lowering, stores: Sequence[tuple[int, Expr]], env: dict[Expr, Any], places: Sequence[Value]) -> None:
        values = [low.value(cast(e, compute_dtype(self.dtypes[j])), env) for j, e in stores]
        for (j, _), value in zip(stores, values, strict=True):
            low.store(self.dtypes[j], value, places[j].name)

    # ---- an element to a thread
    def _elements(self) -> None:
        f = self.f
        total = math.prod(self.extents[1:], start=self.extents[0]) if self.extents else f.i64(1)
        bases = [self._base(j) for j in range(len(self.dtypes))]
        with f.loop(self.block * self.threads + self.thread, total, self.blocks * self.threads) as i:
            coordinates = self._coordinates(i, self.extents) if self.extents else []
            places = [self._moved(j, base, coordinates, 0) for j, base in enumerate(bases)]
            self.env[position()] = i.name
            for stage in self.nest.stages:
                low = self._lowering()
                self._store(low, stage.stores, self._loaded(low, [e for _, e in stage.stores], places), places)

    # ---- a row to a block
    def _rows(self) -> None:
        f, kept, inner = self.f, self.extents[: self.kept], self.extents[self.kept :]
        rows = math.prod(kept[1:], start=kept[0]) if kept else f.i64(1)
        length = math.prod(inner[1:], start=inner[0]) if inner else f.i64(1)
        with f.loop(self.block, rows, self.blocks) as row:
            coordinates = self._coordinates(row, kept) if kept else []
            bases = [self._moved(j, self._base(j), coordinates, 0) for j in range(len(self.dtypes))]
            for stage in self.nest.stages:
                if isinstance(stage, Row):
                    with f.when(self.thread.equals(0)):
                        low = self._lowering()
                        self._store(low, stage.stores, self._loaded(low, [e for _, e in stage.stores], bases), bases)
                else:
                    self._along(stage, bases, inner, length)

    def _along(self, stage: Loop, bases: Sequence[Value], inner: Sequence[Value], length: Value) -> None:
        """Every thread takes the elements of a row that are as many apart as there are threads."""
        f = self.f
        if stage.scan:
            raise NotImplementedError(f"the GPU has no kernels for scans, which {self.nest.name} is")
        registers = [self._registers(fold) for fold in stage.folds]
        with f.loop(self.thread, length, self.threads) as i:
            coordinates = self._coordinates(i, inner) if inner else []
            places = [self._moved(j, base, coordinates, self.kept) for j, base in enumerate(bases)]
            low = self._lowering()
            env = {**self._loaded(low, stage.expressions, places), position(): i.name}
            for fold, partial in zip(stage.folds, registers, strict=True):
                lifted = [low.value(e, env) for e in fold.lift]
                for variable, value in zip(partial, self._combined(fold, [x.get().name for x in partial], lifted), strict=True):
                    variable.set(value)
            self._store(low, stage.stores, env, places)
        for fold, partial in zip(stage.folds, registers, strict=True):
            self._fold_block(fold, partial)

    def _registers(self, fold: Fold) -> list[Variable]:
        for start in fold.start:
            if start.dtype.is_complex or start.dtype is bool_:
                raise NotImplementedError(f"the GPU has no kernels for folds of {start.dtype}, which {self.nest.name} makes")
        low = self._lowering()
        return [
            self.f.variable(kind := llvm_type(start.dtype), Value(self.f, kind, str(low.value(start, self.env))))
            for start in fold.start
        ]

    def _combined(self, fold: Fold, a: Sequence[Any], b: Sequence[Any]) -> list[Value]:
        low, results = self._lowering(), combined(fold)
        env = {
            leaf(f"{side}{i}", start.dtype): value
            for side, values in (("a", a), ("b", b))
            for i, (start, value) in enumerate(zip(fold.start, values, strict=True))
        }
        env.update({x: self.env[x] for x in leaves_of(*results) if x not in env})
        return [
            Value(self.f, llvm_type(start.dtype), str(low.value(e, env))) for start, e in zip(fold.start, results, strict=True)
        ]

    def _fold_block(self, fold: Fold, partial: Sequence[Variable]) -> None:
        """The threads' partial results, halved until one is left, which all of them read."""
        f = self.f
        self.components = max(self.components, len(partial))
        shared = f.emit("ptr", f"addrspacecast ptr addrspace(3) {SHARED} to ptr")
        words = [f.at("i64", shared, i * THREADS) for i in range(len(partial))]

        def place(i: int, thread: Value) -> Value:
            return f.at("i64", words[i], thread)

        for i, variable in enumerate(partial):
            f.store(variable.get(), place(i, self.thread))
        half = THREADS // 2
        while half:
            self._barrier()
            with f.when(self.thread < half):
                other = [f.load(x.type, place(i, self.thread + half)).name for i, x in enumerate(partial)]
                for i, value in enumerate(self._combined(fold, [x.get().name for x in partial], other)):
                    partial[i].set(value)
                    f.store(value, place(i, self.thread))
            half //= 2
        self._barrier()
        for i, (name, start) in enumerate(zip(fold.names, fold.start, strict=True)):
            self.env[leaf(f"acc:{name}", start.dtype)] = f.load(llvm_type(start.dtype), words[i]).name
        self._barrier()  # before the next fold writes there

    def _barrier(self) -> None:
        self.f.call("void", _BARRIER, self.f.value(0, "i32"))


def assembled(text: str, processor: str = PROCESSOR) -> str:
    """PTX of a kernel's LLVM text."""
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    with llvm.working.inside(), llvm.options.chosen(llvm.VECTORISED):
        machine = binding.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=processor, opt=2)
        module = binding.parse_assembly(text)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        tuning = binding.create_pipeline_tuning_options(speed_level=2)
        tuning.loop_vectorization = False
        passes = binding.create_pass_builder(machine, tuning)
        passes.getModulePassManager().run(module, passes)
        return machine.emit_assembly(module)

"""Compiles scalar bodies into loops over vectors and measures their error, for the tests of ir and codegen.scalar."""

from __future__ import annotations

import ctypes
import itertools

import llvmlite.binding as llvm
import numpy as np

from flambeau.base import dtype as dtypes
from flambeau.codegen.scalar import Lowering, memory_type
from flambeau.ir.scalar import compute_dtype, leaf, trace

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

BY_NUMPY = {getattr(dtypes, name).numpy: getattr(dtypes, name) for name in
            ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
             "complex64", "complex128", "bool_")}  # fmt: skip
_ENGINES = []


WIDTH = 16


def loop_ir(body, inputs, output=None):
    """IR of `for i: out[i] = body(in0[i], ...)`, by vectors and then, for the rest, element by element; returns (text, output
    dtype). `inputs` are dtypes.
    """
    counter = itertools.count()
    leaves = [leaf(f"x{k}", compute_dtype(dtype)) for k, dtype in enumerate(inputs)]
    expr = trace(body, *leaves)
    output = output or expr.dtype
    declarations = set()

    def loop(name, width, begin, end, after):
        lines: list[str] = []
        lowering = Lowering(lines.append, lambda: f"%v{next(counter)}", width)
        env = {}
        for k, dtype in enumerate(inputs):
            lines.append(f"%{name}.a{k} = getelementptr {memory_type(dtype)}, ptr %in{k}, i64 %{name}.i")
            env[leaves[k]] = lowering.load(dtype, f"%{name}.a{k}")
        result = lowering.value(expr, env)
        lines.append(f"%{name}.o = getelementptr {memory_type(output)}, ptr %out, i64 %{name}.i")
        lowering.store(output, result, f"%{name}.o")
        declarations.update(lowering.declarations)
        return [
            f"{name}:", f"  %{name}.some = icmp slt i64 {begin}, {end}",
            f"  br i1 %{name}.some, label %{name}.body, label %{after}",
            f"{name}.body:", f"  %{name}.i = phi i64 [{begin}, %{name}], [%{name}.next, %{name}.body]",
            *("  " + line for line in lines), f"  %{name}.next = add i64 %{name}.i, {width or 1}",
            f"  %{name}.more = icmp slt i64 %{name}.next, {end}", f"  br i1 %{name}.more, label %{name}.body, label %{after}",
        ]  # fmt: skip

    loops = [*loop("several", WIDTH, "0", "%whole", "single"), *loop("single", 0, "%whole", "%n", "exit")]
    parameters = ", ".join(["ptr noalias %out", *(f"ptr noalias %in{k}" for k in range(len(inputs))), "i64 %n"])
    text = "\n".join([
        *sorted(declarations), f"define void @kernel({parameters}) {{", "entry:", f"  %whole = and i64 %n, -{WIDTH}",
        "  br label %several", *loops, "exit:", "  ret void", "}",
    ])  # fmt: skip
    return text, output


def compile_text(text):
    """(address of @kernel, assembly)."""
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(text)
    module.verify()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    assembly = machine.emit_assembly(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    return engine.get_function_address("kernel"), assembly


class Kernel:
    """A compiled elementwise loop over NumPy arrays."""

    def __init__(self, body, *inputs, output=None):
        text, self.output = loop_ir(body, inputs, output)
        self.inputs = inputs
        self.text = text
        self.address, self.assembly = compile_text(text)
        self.function = ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * (len(inputs) + 1)), ctypes.c_int64)(self.address)

    def __call__(self, *arrays):
        arrays = [np.ascontiguousarray(array, dtype.numpy) for array, dtype in zip(arrays, self.inputs, strict=True)]
        out = np.empty(arrays[0].shape, self.output.numpy)
        if out.size:
            self.function(out.ctypes.data, *(array.ctypes.data for array in arrays), out.size)
        return out


def run(body, *arrays, output=None):
    """`body` over NumPy arrays, whose dtypes are the inputs' dtypes."""
    arrays = [np.asarray(array) for array in arrays]
    return Kernel(body, *(BY_NUMPY[array.dtype] for array in arrays), output=output)(*arrays)


def ulps(got, want):
    """The largest error in units of the last place of got's dtype; `want` has more precision. Infinite on a wrong
    NaN, infinity or sign of infinity."""
    dtype = got.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(dtype)
        special = ~np.isfinite(rounded) | ~np.isfinite(got)
        same = (rounded == got) | (np.isnan(rounded) & np.isnan(got))
        # one rounding away from overflow is no error
        edge = np.isfinite(rounded) != np.isfinite(got)
        edge &= np.abs(want) >= np.finfo(dtype).max * (1 - 2 * np.finfo(dtype).eps)
        wrong = special & ~same & ~edge
        spacing = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1)).astype(dtype)).astype(want.dtype)
        error = np.abs(got.astype(want.dtype) - want) / spacing
    error = np.where(special, np.where(wrong, np.inf, 0), error)
    return float(error.max()) if error.size else 0.0

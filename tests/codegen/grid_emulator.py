"""Kernels for a GPU run on the CPU, to test them without one: each thread of a block is an LLVM coroutine.

A barrier is a suspension point; a scheduler resumes the threads of a block one after the other, and says what hardware would
leave undefined: a barrier that some threads of a block reach and others don't. Blocks run one after the other.
"""

import ctypes
import re

import llvmlite.binding as llvm
import numpy as np

RUNNING, AT_BARRIER, DONE = range(3)
_FIELDS = {"tid.x": 0, "ctaid.x": 1, "ntid.x": 2, "nctaid.x": 3}
_WHY = 4  # the field in which a thread says why it was suspended
_COROUTINES = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
define void @resume(ptr %h) {
  call void @llvm.coro.resume(ptr %h)
  ret void
}
define void @destroy(ptr %h) {
  call void @llvm.coro.destroy(ptr %h)
  ret void
}
"""
_BEGIN = """
  %emu.id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %emu.size = call i64 @llvm.coro.size.i64()
  %emu.memory = call ptr @malloc(i64 %emu.size)
  %emu.h = call ptr @llvm.coro.begin(token %emu.id, ptr %emu.memory)
  %emu.s0 = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %emu.s0, label %emu.suspended [ i8 0, label %emu.go i8 1, label %emu.clean ]
emu.go:"""
_END = """
  store i32 DONE, ptr %emu.why
  %emu.last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %emu.last, label %emu.suspended [ i8 0, label %emu.trap i8 1, label %emu.clean ]
emu.trap:
  unreachable
emu.clean:
  %emu.freed = call ptr @llvm.coro.free(token %emu.id, ptr %emu.h)
  call void @free(ptr %emu.freed)
  br label %emu.suspended
emu.suspended:
  call void @llvm.coro.end(ptr %emu.h, i1 false, token none)
  ret ptr %emu.h""".replace("DONE", str(DONE))
_BARRIER = """
  store i32 AT_BARRIER, ptr %emu.why
  %emu.s{0} = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %emu.s{0}, label %emu.suspended [ i8 0, label %emu.r{0} i8 1, label %emu.clean ]
emu.r{0}:""".replace("AT_BARRIER", str(AT_BARRIER))


def as_coroutine(text: str) -> str:
    """A kernel's text as that of a coroutine, which gets its thread's fields in front of the kernel's own arguments.

    A block that a barrier splits must not be one that a phi names: codegen.builder writes phis of loops' first and last blocks.
    """
    text = re.sub(r"(?m)^declare .*@llvm\.nvvm\..*\n", "", text)
    head, rest = re.split(r"(?=define ptx_kernel )", text)
    kernel, behind = rest.split("\n}\n", 1)
    why = f"  %emu.why = getelementptr i32, ptr %emu, i32 {_WHY}"
    kernel = re.sub(
        r"define ptx_kernel void (@\w+)\((.*?)\)\s*\{\nentry:",
        rf"define ptr \1(ptr %emu, \2) presplitcoroutine {{\nentry:\n{why}{_BEGIN}",
        kernel,
    )
    kernel = re.sub(
        r"(%\w+) = call +i32 @llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(\)",
        lambda m: (
            f"%emu.p{m[1][1:]} = getelementptr i32, ptr %emu, i32 {_FIELDS[m[2]]}\n {m[1]} = load i32, ptr %emu.p{m[1][1:]}"
        ),
        kernel,
    )
    parts = re.split(r" call void @llvm\.nvvm\.barrier\.[\w.]+\(i32 0\)", kernel)
    kernel = parts[0] + "".join(_BARRIER.format(i) + part for i, part in enumerate(parts[1:], 1))
    return _COROUTINES + head + kernel.removesuffix(" ret void") + _END + "\n}\n" + behind


class Emulated:
    """A kernel that can be launched."""

    def __init__(self, name: str, text: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(as_coroutine(text))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
        passes.getModulePassManager().run(module, passes)  # which turns coroutines into functions
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self._begin = self._engine.get_function_address(name)
        self._resume, self._destroy = (
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._engine.get_function_address(which)) for which in ("resume", "destroy")
        )

    def launch(self, blocks: int, threads: int, arguments: list) -> None:
        """Run all blocks; arguments: ctypes values. RuntimeError for a barrier that not all threads of a block reach."""
        begin = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, *map(type, arguments))(self._begin)
        fields = np.zeros((threads, 8), np.int32)
        for block in range(blocks):
            fields[:, :5] = np.stack([np.arange(threads), *(np.full(threads, x) for x in (block, threads, blocks, RUNNING))], 1)
            handles = [begin(own.ctypes.data, *arguments) for own in fields]
            while True:
                for handle in handles:
                    self._resume(handle)
                why = fields[:, _WHY]
                if (why == DONE).all():
                    break
                if not (why == AT_BARRIER).all():
                    done = np.flatnonzero(why == DONE).tolist()
                    raise RuntimeError(f"a barrier of block {block} is not reached by threads {done}")
            for handle in handles:
                self._destroy(handle)

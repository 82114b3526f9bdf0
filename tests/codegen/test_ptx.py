"""The seed of a GPU target: plans of the CPU's operators, lowered to PTX, and their kernels run by an emulator of a grid."""

import ctypes
import re

import numpy as np
import pytest
from grid_emulator import Emulated

import flambeau as torch
from flambeau.base.layout import clear_caches
from flambeau.codegen.plan import Loops, Plan
from flambeau.codegen.targets.cpu import plans_made
from flambeau.codegen.targets.ptx import PTX, THREADS, assembled
from flambeau.codegen.targets.target import Target

F = torch.nn.functional


def plan_of(call) -> Plan:
    clear_caches()
    with plans_made() as plans:
        call()
    return plans[-1]


def run(plan: Plan, inputs: list[torch.Tensor], numbers: tuple = ()) -> torch.Tensor:
    """The result of a plan of one step, by the emulator."""
    grid = PTX.lower(plan.steps[0])
    (layout,) = plan.outputs
    out = np.full(layout.numel, -7, layout.dtype.numpy)
    places = [out.ctypes.data, *[x.data_ptr() for x in inputs]]
    constants = np.array(grid.constants, np.int64)
    given = [ctypes.c_double(x) if isinstance(x, float) else ctypes.c_int64(x) for x in numbers]
    arguments = [*(ctypes.c_void_p(places[slot]) for slot in grid.slots), *given, ctypes.c_void_p(constants.ctypes.data)]
    Emulated(grid.name, grid.text).launch(grid.blocks, grid.threads, arguments)
    return torch.from_numpy(out).as_strided(layout.shape, layout.strides)


def test_elements_are_threads():
    x, y = torch.randn(9, 41), torch.randn(41, 9).t()[:, :1]
    plan = plan_of(lambda: x + y)
    assert PTX.lower(plan.steps[0]).blocks == -(-9 * 41 // THREADS)
    assert torch.equal(run(plan, [x, y]), x + y)
    plan = plan_of(lambda: torch.add(x, y, alpha=0.5))
    assert torch.allclose(run(plan, [x, y], (0.5,)), x + 0.5 * y, rtol=1e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_the_processors(approximate):
    x = torch.randn(3, 211) * 4
    expected = F.gelu(x, approximate=approximate)
    plan = plan_of(lambda: F.gelu(x, approximate=approximate))
    assert torch.allclose(run(plan, [x]), expected, rtol=1e-6, atol=1e-7)


def test_values_of_other_dtypes():
    x, y = torch.arange(300, dtype=torch.int64) - 150, torch.randn(300).bfloat16()
    assert torch.equal(run(plan_of(lambda: x * 7), [x], (7,)), x * 7)
    assert torch.equal(run(plan_of(lambda: x < 3), [x], (3,)), x < 3)
    assert torch.equal(run(plan_of(lambda: y.float()), [y]), y.float())


@pytest.mark.parametrize("shape", [(5, 7), (3, 128), (2, 1000), (4, 1)])
def test_rows_are_blocks(shape):
    x = torch.randn(*shape)
    plan = plan_of(lambda: x.sum(-1))
    assert PTX.lower(plan.steps[0]).blocks == shape[0]
    assert torch.allclose(run(plan, [x]), x.sum(-1), rtol=1e-6, atol=1e-6)
    assert torch.equal(run(plan_of(lambda: x.amax(-1)), [x]), x.amax(-1))
    assert torch.allclose(run(plan_of(lambda: x.softmax(-1)), [x]), x.softmax(-1), rtol=1e-5, atol=1e-7)


def test_rows_along_another_axis_and_of_two_axes():
    x = torch.randn(6, 5, 37)
    assert torch.allclose(run(plan_of(lambda: x.sum(1)), [x]), x.sum(1), rtol=1e-5, atol=1e-6)
    assert torch.allclose(run(plan_of(lambda: x.sum((0, 2))), [x]), x.sum((0, 2)), rtol=1e-5, atol=1e-5)
    assert torch.allclose(run(plan_of(lambda: x.softmax(0)), [x]), x.softmax(0), rtol=1e-5, atol=1e-7)


def test_kernels_are_ptx():
    x = torch.randn(9, 41)
    for call, wanted in (
        (lambda: x + x, "ld.global"),
        (lambda: F.gelu(x), "fma.rn"),
        (lambda: x.sum(-1), "bar.sync"),
        (lambda: x.softmax(-1), ".shared"),
    ):
        grid = PTX.lower(plan_of(call).steps[0])
        text = assembled(grid.text)
        assert f".entry {grid.name}(" in text and wanted in text and ".target sm_80" in text
        assert re.search(r"call\.uni|\.extern", text) is None  # nothing is left to a library


def test_a_barrier_that_some_threads_miss_is_seen():
    x = torch.randn(2, 300)
    grid = PTX.lower(plan_of(lambda: x.sum(-1)).steps[0])
    barrier = " call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
    assert barrier in grid.text
    last = grid.text.rindex(barrier)
    lame = (
        grid.text[:last]
        + " %odd = trunc i64 %v2 to i1\n br i1 %odd, label %meet, label %on\nmeet:\n"
        + barrier
        + " br label %on\non:\n"
        + grid.text[last + len(barrier) :]
    )
    # the last barrier now stands in a branch that half of the threads take
    out, constants = np.zeros(2, np.float32), np.array(grid.constants, np.int64)
    with pytest.raises(RuntimeError, match="a barrier of block 0 is not reached"):
        Emulated(grid.name, lame).launch(
            1, THREADS, [ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(constants.ctypes.data)]
        )


def test_what_the_seed_has_not_is_refused():
    target: Target = PTX
    assert target.name == "ptx"
    x, plan = torch.randn(4, 5), plan_of(lambda: torch.randn(4, 5).cumsum(0))
    assert isinstance(plan.steps[0], Loops)
    for wanted in (plan, plan_of(lambda: x @ x.T), plan_of(lambda: torch.view_as_complex(torch.ones(3, 2)).exp())):
        with pytest.raises(NotImplementedError, match="the GPU has no"):
            PTX.lower(wanted.steps[0])
    with pytest.raises(NotImplementedError, match="nothing runs on a GPU yet"):
        PTX.launcher(plan)

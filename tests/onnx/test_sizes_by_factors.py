"""Numbers that are worked out of sizes as floats: in exported programs, traces, scripts and ONNX models."""

from __future__ import annotations

import math

import pytest
from onnx_running import Function, agree, exported

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.export import Dim, export

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::flambeau.jit.TracerWarning")
OPEN = {2: Dim.AUTO, 3: Dim.AUTO}
IMAGE, OTHER = torch.rand(1, 3, 10, 14), torch.rand(1, 3, 13, 9)


def nearest(x):
    return F.interpolate(x, scale_factor=[1.7, 0.6], recompute_scale_factor=True)


def bilinear(x):
    return F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=False, recompute_scale_factor=True)


def area(x):
    return F.interpolate(x, scale_factor=1.3, mode="area")


def exact(x):
    return F.interpolate(x, scale_factor=0.7, mode="nearest-exact")


@pytest.mark.parametrize("function", [nearest, bilinear, area, exact])
def test_factors_that_are_worked_out_anew(function):
    wanted = function(OTHER)
    program = export(Function(function), (IMAGE,), dynamic_shapes=((OPEN,),))
    for run in (program.module(), torch.jit.trace(function, IMAGE), torch.jit.script(function)):
        assert torch.equal(run(OTHER), wanted)


@pytest.mark.parametrize("function", [
    nearest, bilinear,
    lambda x: x * (x.shape[2] * 0.3),
    lambda x: x * (x.shape[2] / x.shape[3]) + x.shape[3] ** 2,
    lambda x: x.new_ones(math.ceil(x.shape[2] / 4)) * x.sum(),
    lambda x: x.new_ones(math.floor(x.shape[2] * 0.75)) * x.sum(),
    lambda x: x[:, :, : torch.sym_max(x.shape[2] - 5, 2)],
    lambda x: torch._shape_as_tensor(x) * 2,
])  # fmt: skip
def test_models_for_other_sizes(function):
    program = exported(Function(function), (IMAGE,), dynamic_shapes=((OPEN,),))
    agree(program, Function(function), (OTHER,))


def test_sizes_as_a_tensor():
    def sizes(x):
        return torch._shape_as_tensor(x) * 2

    assert torch.jit.trace(sizes, IMAGE)(OTHER).tolist() == [2, 6, 26, 18]
    assert "aten::_shape_as_tensor" in str(torch.jit.script(sizes).graph)
    assert torch.jit.script(sizes)(OTHER).tolist() == [2, 6, 26, 18]

"""torch.ops.torchvision: what loading torchvision's compiled library registers."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch


@pytest.fixture(autouse=True)
def loaded(tmp_path: Path) -> None:
    """A file where torchvision's wheel has one; it isn't read."""
    for name in ("_C.so", "_C_stable.so"):
        path = tmp_path / "torchvision" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        torch.ops.load_library(path)


def test_operators_have_the_schemas_of_torchvision() -> None:
    ops = torch.ops.torchvision
    assert ops._cuda_version() == -1
    assert str(ops.nms.default._schema) == "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert str(ops.ps_roi_pool.default._schema) == (
        "torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
        "(Tensor, Tensor)"
    )
    names = "qnms qroi_align roi_align roi_pool ps_roi_align deform_conv2d box_iou_rotated _roi_align_backward _roi_pool_backward"
    assert all(hasattr(ops, name) for name in f"{names} _ps_roi_align_backward _ps_roi_pool_backward".split())


def test_they_compute_and_have_gradients() -> None:
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.9], [9.0, 9.0, 12.0, 12.0]])
    assert torch.ops.torchvision.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]
    x = torch.ones(1, 1, 5, 5, requires_grad=True)
    out = torch.ops.torchvision.roi_align(x, torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0]]), 1.0, 2, 2, 2, False)
    with pytest.warns(UserWarning, match="an autograd kernel was not registered"):  # torchvision's own files do that
        out.sum().backward()
    assert out.flatten().tolist() == [1, 1, 1, 1]
    torch.testing.assert_close(x.grad.sum(), torch.tensor(4.0))


def test_quantised_tensors_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="\"qnms_kernel\" not implemented for 'Float'"):
        torch.ops.torchvision.qnms(torch.zeros(2, 4), torch.zeros(2), 0.5)

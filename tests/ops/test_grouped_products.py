"""grouped_mm: every form against its products one by one, with gradients; PyTorch's errors."""

from __future__ import annotations

import pytest

import flambeau as torch

F = torch.nn.functional
ENDS = torch.tensor([4, 4, 12], dtype=torch.int32)
PARTS = (slice(0, 4), slice(4, 4), slice(4, 12))


def some(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize(
    ("shapes", "one_by_one"),
    [
        (((12, 16), (3, 16, 8)), lambda a, b: torch.cat([a[part] @ b[i] for i, part in enumerate(PARTS)])),
        (((3, 8, 16), (16, 12)), lambda a, b: torch.cat([a[i] @ b[:, part] for i, part in enumerate(PARTS)], 1)),
        (((4, 12), (12, 8)), lambda a, b: torch.stack([a[:, part] @ b[part] for part in PARTS])),
    ],
)
def test_groups(shapes, one_by_one) -> None:
    inputs = some(*shapes)
    made, expected = F.grouped_mm(*inputs, offs=ENDS), one_by_one(*inputs)
    torch.testing.assert_close(made, expected)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), inputs) for y in (made, expected)))
    torch.testing.assert_close(torch._grouped_mm(*inputs, ENDS), expected)


def test_rows_behind_the_last_group_and_no_groups() -> None:
    a, b, c = some((16, 16), (3, 16, 8), (3, 4, 16))
    assert not F.grouped_mm(a, b, offs=ENDS)[12:].any()
    torch.testing.assert_close(F.grouped_mm(c, b), torch.bmm(c, b))
    assert F.grouped_mm(a.bfloat16(), b.bfloat16(), offs=ENDS).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("a", "b", "more", "words"),
    [
        ((12, 16), (3, 16, 8), {}, "Have to provide offsets if there is a 2d matrix"),
        ((3, 4, 16), (3, 16, 8), {"offs": ENDS}, "Have to provide offsets if there is a 2d matrix"),
        ((12, 16), (3, 16, 8), {"offs": ENDS.long()}, "Offsets have to be int32"),
        ((12, 16), (3, 16, 8), {"offs": ENDS[:2]}, "matrix batch sizes have to match"),
        ((12, 16), (3, 16, 8), {"offs": ENDS + 1}, "offsets have to ascend and be at most 12"),
        ((12, 16), (3, 16, 8), {"offs": ENDS, "bias": torch.ones(3, 8)}, "Bias not supported yet"),
        ((12, 8), (3, 16, 8), {"offs": ENDS}, "contraction dimension of mat_a and mat_b must match"),
        ((12, 15), (3, 15, 8), {"offs": ENDS}, "strides should be multiple of 16 bytes"),
        ((16,), (3, 16, 8), {"offs": ENDS}, "mat_a has to be 2 or 3d"),
    ],
)
def test_errors(a, b, more, words) -> None:
    with pytest.raises(RuntimeError, match=words):
        F.grouped_mm(torch.ones(a), torch.ones(b), **more)

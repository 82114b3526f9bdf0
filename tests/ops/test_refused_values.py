"""Values and shapes that operators refuse, in PyTorch's words."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

POINT, MATRIX, FIRST = torch.tensor(1.0), torch.ones(4, 4), torch.tensor([0])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: torch.fft.fft(POINT), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        (lambda: torch.fft.irfft(POINT, dim=0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
        (lambda: torch.fft.fft2(POINT), IndexError, "Dimension specified as -2 but tensor has no dimensions"),
        (
            lambda: torch.multinomial(torch.tensor([1.0, -1.0]), 2, True),
            RuntimeError,
            "invalid multinomial distribution (encountering probability entry < 0)",
        ),
        (
            lambda: torch.multinomial(torch.tensor([1.0, torch.inf]), 2, True),
            RuntimeError,
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
        ),
        (
            lambda: torch.multinomial(torch.tensor([1.0, -1.0]), 1),
            RuntimeError,
            "probability tensor contains either `inf`, `nan` or element < 0",
        ),
        (lambda: F.rrelu(MATRIX, 0.4, 0.3), RuntimeError, "Lower bound should be less than or equal to the upper bound"),
        (lambda: F.rrelu_(MATRIX, 0.4, 0.3), RuntimeError, "Lower bound should be less than or equal to the upper bound"),
        (lambda: F.adaptive_avg_pool2d(MATRIX, (2, 2)), ValueError, "Input dimension should be at least 3"),
        (lambda: F.adaptive_max_pool3d(MATRIX, (2, 2, 2)), ValueError, "Input dimension should be at least 4"),
        (
            lambda: MATRIX.masked_scatter(MATRIX, MATRIX),
            RuntimeError,
            "masked_scatter_ only supports boolean masks, but got mask with dtype Float",
        ),
        (lambda: torch.arange(0, 4, 0.5, dtype=torch.int64), ValueError, "step must be nonzero"),
        (
            lambda: torch.norm(torch.ones(2, 2, 2), dim=(0, 1, 2)),
            RuntimeError,
            "linalg.matrix_norm: dim must be a 2-tuple. Got 0 1 2",
        ),
        (lambda: torch.dist(3, MATRIX), TypeError, "dist(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: torch.trapezoid(torch.tensor(True)), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        (lambda: torch.cummax(POINT, 2), IndexError, "cummax(): Expected reduction dim -1 or 0 for scalar but got 2"),
        (lambda: F.unfold(MATRIX, 2), IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (
            lambda: F.unfold(MATRIX[:, :0], 2),
            RuntimeError,
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and "
            "other non-zero dimensions for input, but got: [4, 0]",
        ),
        (
            lambda: torch.addmm(MATRIX.int(), MATRIX[0], MATRIX),
            RuntimeError,
            "self and mat2 must have the same dtype, but got Int and Float",
        ),
        (
            lambda: torch.addmm(MATRIX, MATRIX[:, :2].int(), MATRIX),
            RuntimeError,
            "mat1 and mat2 must have the same dtype, but got Int and Float",
        ),
        (lambda: torch.baddbmm(POINT, POINT, POINT), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
        (
            lambda: torch.baddbmm(POINT, MATRIX[0], MATRIX),
            IndexError,
            "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
        ),
        (
            lambda: torch.baddbmm(POINT, MATRIX[None], MATRIX),
            IndexError,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
        ),
        (
            lambda: torch.meshgrid(MATRIX, POINT.int(), indexing="ij"),
            RuntimeError,
            "meshgrid expects all tensors to have the same dtype",
        ),
        (
            lambda: MATRIX[:0].put(torch.tensor([0]), torch.ones(1)),
            IndexError,
            "put_(): Tried to put elements into an empty tensor",
        ),
        (lambda: F.glu(POINT), RuntimeError, "glu does not support scalars because halving size must be even"),
        (lambda: torch.tensordot(MATRIX, MATRIX.int(), 1), RuntimeError, "both inputs should have same dtype"),
        (
            lambda: torch.take_along_dim(POINT, torch.tensor(0), -1),
            IndexError,
            "Dimension specified as 0 but tensor has no dimensions",
        ),
        (lambda: torch.unique(POINT, dim=-1), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        (lambda: torch.unique_consecutive(POINT, dim=3), IndexError, "Dimension specified as 3 but tensor has no dimensions"),
        (lambda: torch.roll(POINT, 3, -1), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        (
            lambda: torch.linalg.multi_dot([MATRIX, MATRIX.long()]),
            RuntimeError,
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is float and tensor 1 long int",
        ),
        (
            lambda: F.interpolate(MATRIX[None], scale_factor=0.5, mode="bicubic"),
            NotImplementedError,
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got 3D) for the modes: nearest | linear | bilinear | "
            "bicubic | trilinear | lanczos | area | nearest-exact (got bicubic)",
        ),
        (lambda: POINT[torch.tensor([[0]])], IndexError, "too many indices for tensor of dimension 0"),
        (lambda: MATRIX[FIRST, FIRST, FIRST], IndexError, "too many indices for tensor of dimension 2"),
        (lambda: POINT[torch.tensor(0)], IndexError, "too many indices for tensor of dimension 0"),
        (
            lambda: MATRIX.bfloat16().expand(2),
            RuntimeError,
            "expand(CPUBFloat16Type{[4, 4]}, size=[2]): the number of sizes provided "
            "(1) must be greater or equal to the number of dimensions in the tensor (2)",
        ),
        (lambda: MATRIX.clamp(1, 2j), RuntimeError, "value cannot be converted to type double without overflow"),
    ],
)
def test_words(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words

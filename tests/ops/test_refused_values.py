"""Values and shapes that operators refuse, in PyTorch's words."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

POINT, MATRIX = torch.tensor(1.), torch.ones(4, 4)


@pytest.mark.parametrize(("call", "kind", "words"), [
    (lambda: torch.fft.fft(POINT), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
    (lambda: torch.fft.irfft(POINT, dim=0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda: torch.fft.fft2(POINT), IndexError, "Dimension specified as -2 but tensor has no dimensions"),
    (lambda: torch.multinomial(torch.tensor([1., -1.]), 2, True), RuntimeError,
     "invalid multinomial distribution (encountering probability entry < 0)"),
    (lambda: torch.multinomial(torch.tensor([1., torch.inf]), 2, True), RuntimeError,
     "invalid multinomial distribution (encountering probability entry = infinity or NaN)"),
    (lambda: torch.multinomial(torch.tensor([1., -1.]), 1), RuntimeError,
     "probability tensor contains either `inf`, `nan` or element < 0"),
    (lambda: F.rrelu(MATRIX, 0.4, 0.3), RuntimeError, "Lower bound should be less than or equal to the upper bound"),
    (lambda: F.rrelu_(MATRIX, 0.4, 0.3), RuntimeError, "Lower bound should be less than or equal to the upper bound"),
    (lambda: F.adaptive_avg_pool2d(MATRIX, (2, 2)), ValueError, "Input dimension should be at least 3"),
    (lambda: F.adaptive_max_pool3d(MATRIX, (2, 2, 2)), ValueError, "Input dimension should be at least 4"),
    (lambda: MATRIX.masked_scatter(MATRIX, MATRIX), RuntimeError,
     "masked_scatter_ only supports boolean masks, but got mask with dtype Float"),
    (lambda: torch.arange(0, 4, 0.5, dtype=torch.int64), ValueError, "step must be nonzero"),
    (lambda: torch.norm(torch.ones(2, 2, 2), dim=(0, 1, 2)), RuntimeError,
     "linalg.matrix_norm: dim must be a 2-tuple. Got 0 1 2"),
    (lambda: torch.dist(3, MATRIX), TypeError, "dist(): argument 'input' (position 1) must be Tensor, not int"),
    (lambda: torch.trapezoid(torch.tensor(True)), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
    (lambda: torch.cummax(POINT, 2), IndexError, "cummax(): Expected reduction dim -1 or 0 for scalar but got 2"),
    (lambda: F.unfold(MATRIX, 2), RuntimeError, "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
     "non-zero dimensions for input, but got: [4, 4]"),
    (lambda: MATRIX.clamp(1, 2j), RuntimeError, "value cannot be converted to type double without overflow"),
])
def test_words(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words

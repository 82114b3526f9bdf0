"""torch.nn.init: values from seed 0 recorded from PyTorch 2.13, structure, errors and warnings."""

from __future__ import annotations

import math
import warnings

import pytest
from implementation import torch

init = torch.nn.init

# Initialiser, shape, arguments, keyword arguments, first, second and last value, and the next torch.rand(1).
RECORDED = [
    ("uniform_", (3, 5), (-1, 2), {}, [0.48877, 1.304665, -0.118335], 0.518522),
    ("normal_", (3, 5), (1, 0.5), {}, [1.770498, 0.853286, 0.464406], 0.17591),
    ("normal_", (5, 5), (), {}, [-1.12584, -1.15236, -0.10231], 0.243658),
    ("trunc_normal_", (4, 5), (), {}, [-1.12584, -1.15236, 0.053737], 0.696505),
    ("trunc_normal_", (4, 5), (0.0, 0.02), {}, [-0.022517, -0.023047, 0.001075], 0.20813),
    ("xavier_uniform_", (4, 6), (), {}, [-0.005799, 0.415527, 0.57964], 0.419408),
    ("xavier_normal_", (4, 6), (2.0,), {}, [-1.006982, -1.030702, -2.071531], 0.526296),
    ("kaiming_uniform_", (4, 6), (math.sqrt(5),), {}, [-0.003056, 0.219002, 0.305497], 0.419408),
    ("kaiming_normal_", (4, 2, 3, 3), (), {"mode": "fan_out", "nonlinearity": "relu"},
     [-0.265363, -0.271614, 0.150421], 0.692278),
    ("orthogonal_", (3, 5), (1.5,), {}, [0.783346, -0.149161, -0.129537], 0.17591),
    ("orthogonal_", (5, 3), (), {}, [0.79502, 0.17031, -0.752815], 0.17591),
    ("sparse_", (5, 3), (0.5,), {}, [0.0, -0.002934, 0.0], 0.138717),
]  # fmt: skip


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case[0]}{case[2]}")
def test_recorded_values(case: tuple) -> None:
    name, shape, arguments, keywords, expected, following = case
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.empty(shape))
    assert getattr(init, name)(weight, *arguments, **keywords) is weight
    assert weight.grad_fn is None and weight.requires_grad
    values = weight.detach().flatten().tolist()
    assert [values[0], values[1], values[-1]] == pytest.approx(expected, abs=2e-6)
    assert torch.rand(1).item() == pytest.approx(following, abs=2e-6)


def test_truncated_normal_far_from_its_mean_warns_and_stays_inside() -> None:
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        values = init.trunc_normal_(torch.empty(4, 5), 5.0, 1.0, -2.0, 2.0).flatten().tolist()
    assert [values[0], values[1], values[-1]] == pytest.approx([1.753267, 1.900639, 1.849659], abs=2e-6)
    assert all(-2 <= value <= 2 for value in values)


def test_a_generator_of_its_own() -> None:
    torch.manual_seed(0)
    one = init.kaiming_normal_(torch.empty(20, 20), generator=torch.Generator().manual_seed(3))
    other = init.kaiming_normal_(torch.empty(20, 20), generator=torch.Generator().manual_seed(3))
    assert torch.equal(one, other)
    assert torch.rand(1).item() == pytest.approx(0.4962566)  # the default generator was not touched


def test_structure() -> None:
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.ones_(torch.empty(2)).tolist() == [1, 1] and init.zeros_(torch.empty(2)).tolist() == [0, 0]
    assert init.constant_(torch.empty(2), 0.5).tolist() == [0.5, 0.5]
    assert init.dirac_(torch.empty(4, 2, 3), 2).nonzero().tolist() == [[0, 0, 1], [1, 1, 1], [2, 0, 1], [3, 1, 1]]
    assert init.dirac_(torch.empty(4, 2, 2, 2)).nonzero().tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    rows = init.orthogonal_(torch.empty(3, 2, 4)).reshape(3, 8)
    assert torch.allclose(rows @ rows.t(), torch.eye(3), atol=1e-6)


def test_gains() -> None:
    assert init.calculate_gain("conv_transpose3d") == init.calculate_gain("sigmoid") == 1
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))
    assert init.calculate_gain("leaky_relu", 1) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.calculate_gain("gelu"), "Unsupported nonlinearity gelu"),
        (lambda: init.calculate_gain("leaky_relu", True), "negative_slope True not a valid number"),
        (lambda: init.xavier_uniform_(torch.empty(3)), "Fan in and fan out can not be computed for tensor with fewer"),
        (lambda: init.kaiming_uniform_(torch.empty(3, 3), mode="q"), "Mode q not supported, please use one of"),
        (lambda: init.eye_(torch.empty(3)), "Only tensors with 2 dimensions are supported"),
        (lambda: init.sparse_(torch.empty(3), 0.1), "Only tensors with 2 dimensions are supported"),
        (lambda: init.dirac_(torch.empty(3, 3)), "Only tensors with 3, 4, or 5 dimensions are supported"),
        (lambda: init.dirac_(torch.empty(3, 3, 3), 2), "dim 0 must be divisible by groups"),
        (lambda: init.orthogonal_(torch.empty(3)), "Only tensors with 2 or more dimensions are supported"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_warnings() -> None:
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(torch.empty(0, 3))
    with pytest.warns(FutureWarning, match=r"`nn.init.constant` is now deprecated in favor of `nn.init.constant_`\."):
        assert init.constant(torch.empty(1), 3).item() == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        init.orthogonal_(torch.empty(0, 3))

"""Random programs: chains of operators on tensors of random layouts, against NumPy in float64."""

import numpy as np
import pytest

import flambeau as torch

UNARY = [
    ("exp", np.exp),
    ("tanh", np.tanh),
    ("abs", np.abs),
    ("neg", np.negative),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ("square", np.square),
    ("sin", np.sin),
    ("relu", lambda x: np.maximum(x, 0)),
]
BINARY = [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("maximum", np.maximum), ("minimum", np.minimum)]
REDUCTIONS = [("sum", np.sum), ("mean", np.mean), ("amax", np.max), ("amin", np.min)]


def random_layout(rng, tensor, array):
    """The same values, seen through a random chain of views."""
    for _ in range(rng.integers(0, 4)):
        kind = rng.integers(0, 5)
        if kind == 0 and array.ndim > 1:
            order = rng.permutation(array.ndim)
            tensor, array = tensor.permute(*order.tolist()), array.transpose(order)
        elif kind == 1 and array.ndim:
            dim = int(rng.integers(array.ndim))
            if array.shape[dim] > 2:
                start, step = int(rng.integers(0, 2)), int(rng.integers(1, 3))
                index = (slice(None),) * dim + (slice(start, None, step),)
                tensor, array = tensor[index], array[index]
        elif kind == 2:
            dim = int(rng.integers(array.ndim + 1))
            tensor, array = tensor.unsqueeze(dim), np.expand_dims(array, dim)
        elif kind == 3 and 1 in array.shape:
            dim = array.shape.index(1)
            shape = tuple(3 if d == dim else n for d, n in enumerate(array.shape))
            tensor, array = tensor.expand(shape), np.broadcast_to(array, shape)
        elif kind == 4 and array.ndim < 5:
            tensor, array = tensor.reshape(-1, 1), array.reshape(-1, 1)
    return tensor, array


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(0, 5)))
    array = rng.standard_normal(shape)
    tensor = torch.tensor(array, dtype=torch.float32)
    for _ in range(rng.integers(1, 6)):
        tensor, array = random_layout(rng, tensor, array)
        kind = rng.integers(0, 3)
        if kind == 0:
            name, reference = UNARY[rng.integers(len(UNARY))]
            tensor, array = getattr(torch, name)(tensor), reference(array)
        elif kind == 1:
            name, reference = BINARY[rng.integers(len(BINARY))]
            other_shape = tuple(n if rng.random() < 0.6 else 1 for n in array.shape)[rng.integers(0, array.ndim + 1) :]
            other = rng.standard_normal(other_shape)
            tensor = getattr(torch, name)(tensor, torch.tensor(other, dtype=torch.float32))
            array = reference(array, other)
        elif array.ndim:
            name, reference = REDUCTIONS[rng.integers(len(REDUCTIONS))]
            dims = tuple(sorted(rng.choice(array.ndim, rng.integers(1, array.ndim + 1), replace=False).tolist()))
            keep = bool(rng.random() < 0.5)
            tensor = getattr(torch, name)(tensor, dims, keepdim=keep)
            array = reference(array, axis=dims, keepdims=keep)
        array = np.clip(array, -50, 50)
        tensor = tensor.clamp(-50, 50)
    assert tuple(tensor.shape) == array.shape
    scale = max(1.0, float(np.abs(array).max(initial=0)))
    assert np.allclose(tensor.numpy(), array, rtol=2e-4, atol=2e-4 * scale), seed

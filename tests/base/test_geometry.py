"""Shapes and strides: PyTorch's recorded answers, NumPy's views, and the messages of errors."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from flambeau.base import geometry, memory_order

RECORDED = json.loads((Path(__file__).parent / "geometry_recorded.json").read_text())


@pytest.mark.parametrize("case", RECORDED["single"], ids=str)
def test_properties_of_one_layout(case):
    shape, strides = tuple(case[0]), tuple(case[1])
    assert memory_order.is_contiguous(shape, strides) == case[2]
    assert memory_order.is_dense(shape, strides) == case[3]
    assert memory_order.is_channels_last(shape, strides) == case[4]
    assert memory_order.elementwise_strides(shape, [(shape, strides)]) == tuple(case[5])
    assert memory_order.preserved_strides(shape, strides) == tuple(case[6])


@pytest.mark.parametrize("case", RECORDED["pair"], ids=str)
def test_strides_of_elementwise_results(case):
    shape_a, strides_a, shape_b, strides_b, shape, strides = map(tuple, case)
    assert geometry.broadcast(shape_a, shape_b) == shape
    assert memory_order.elementwise_strides(shape, [(shape_a, strides_a), (shape_b, strides_b)]) == strides


@pytest.mark.parametrize("case", RECORDED["view"], ids=str)
def test_strides_of_reshaped_views(case):
    shape, strides, new, expected = case
    found = geometry.reshape_strides(tuple(shape), tuple(strides), tuple(new))
    assert found == (None if expected is None else tuple(expected))


def test_collapse_visits_the_same_elements():
    generator = np.random.default_rng(0)
    for _ in range(200):
        shape = tuple(int(s) for s in generator.integers(1, 4, generator.integers(0, 5)))
        operands = []
        for _ in range(2):
            order = generator.permutation(len(shape))
            dense = memory_order.contiguous_strides([shape[d] for d in order])
            operands.append(tuple(dense[list(order).index(d)] for d in range(len(shape))))
        sizes, strides = memory_order.collapse(shape, operands)

        def places(extents, steps):
            return sorted(
                tuple(sum(i * s for i, s in zip(index, step, strict=True)) for step in steps)
                for index in itertools.product(*map(range, extents))
            )

        assert places(shape, operands) == places(sizes, strides)
        assert len(sizes) <= len(shape)


def test_collapse_merges_contiguous_dimensions():
    assert memory_order.collapse((2, 3, 4), [(12, 4, 1), (12, 4, 1)]) == ((24,), [(1,), (1,)])
    assert memory_order.collapse((2, 3, 4), [(12, 4, 1), (0, 4, 1)]) == ((2, 12), [(12, 1), (0, 1)])
    assert memory_order.collapse((3, 1, 4), [(1, 7, 3)]) == ((12,), [(1,)])
    assert memory_order.collapse((), [()]) == ((), [()])
    assert memory_order.collapse((2, 0), [(1, 1)]) == ((0,), [(1,)])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: geometry.broadcast((2, 3), (4,)),
            RuntimeError,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ),
        (lambda: geometry.infer_size((5, 5), 24), RuntimeError, "shape '[5, 5]' is invalid for input of size 24"),
        (lambda: geometry.infer_size((-1, -1), 24), RuntimeError, "only one dimension can be inferred"),
        (
            lambda: geometry.infer_size((0, -1), 0),
            RuntimeError,
            "cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension size -1 can be any value "
            "and is ambiguous",
        ),
        (lambda: geometry.wrap_dim(2, 2), IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (
            lambda: geometry.expand_geometry((3,), (1,), (4,)),
            RuntimeError,
            "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 0.  Target sizes: "
            "[4].  Tensor sizes: [3]",
        ),
        (lambda: geometry.permute_geometry((2, 3), (3, 1), (0, 0)), RuntimeError, "permute(): duplicate dims are not allowed."),
        (
            lambda: geometry.select_geometry((2, 3), (3, 1), 0, 2),
            IndexError,
            "select(): index 2 out of range for tensor of size [2, 3] at dimension 0",
        ),
        (
            lambda: geometry.as_strided_geometry((100,), (1,), 0, 4, 96),
            RuntimeError,
            "setStorage: sizes [100], strides [1], storage offset 0, and itemsize 4 requiring a storage size of 400 are out of "
            "bounds for storage of size 96",
        ),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words


def test_overlap():
    assert memory_order.overlaps_itself((2, 3), (0, 1))
    assert not memory_order.overlaps_itself((1, 3), (0, 1))
    assert memory_order.has_overlap(((3,), (1,), 0), ((3,), (1,), 1))
    assert not memory_order.has_overlap(((3,), (1,), 0), ((3,), (1,), 3))
    assert not memory_order.has_overlap(((3,), (1,), 0), ((3,), (1,), 0))

"""References of pointwise operators: their declarations by primitive operators give what their kernels give."""

import pytest

import flambeau as torch
from flambeau import _refs
from flambeau._prims.context import TorchRefsMode
from flambeau._refs import pointwise
from flambeau._refs.names import FUNCTIONAL, ROOT, SPECIAL
from flambeau.fx.experimental.proxy_tensor import make_fx

ROOMS = ((torch, ROOT), (torch.nn.functional, FUNCTIONAL), (torch.special, SPECIAL))
OWN = {
    name: getattr(room, name)
    for room, names in ROOMS
    for name in names
    if not name.endswith("_") and pointwise.declared_by(getattr(room, name, None)) is not None
}


def test_all_pointwise_operators_have_one():
    assert len(OWN) > 100
    assert [name for name, own in OWN.items() if pointwise.reference(own) is None] == []


def _operands(count, dtype):
    torch.manual_seed(1)
    if dtype is torch.bool:
        return [torch.rand(2, 4) > 0.5 for _ in range(count)]
    if not dtype.is_floating_point:
        return [
            torch.randn(2, 4, dtype=dtype) if dtype.is_complex else torch.randint(-4, 5, (2, 4), dtype=dtype)
            for _ in range(count)
        ]
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 3.0], dtype=dtype)
    return [torch.cat([torch.randn(2, dtype=dtype), special.roll(i)]).reshape(2, 4) for i in range(count)]


OTHERS = [
    (name, dtype)
    for dtype in (torch.float16, torch.int64, torch.bool, torch.complex64)
    for name in "add sigmoid floor_divide remainder sgn eq copysign true_divide hardtanh pow".split()
    if name in OWN
]


@pytest.mark.parametrize("name, dtype", [*((name, torch.float32) for name in OWN), *OTHERS])
def test_same_as_the_kernel(name, dtype):
    own = OWN[name]
    refer = pointwise.reference(own)
    given = _operands(len(pointwise.declared_by(own).operands), dtype)
    try:
        expected = own(*given)
    except (RuntimeError, NotImplementedError, TypeError, ZeroDivisionError) as refusal:
        with pytest.raises((type(refusal), RuntimeError)):
            refer(*given)
        return
    made = refer(*given)
    tolerance = {"rtol": 2e-2, "atol": 1e-2} if dtype is torch.float16 else {}
    torch.testing.assert_close(made, expected, equal_nan=True, **tolerance)


def _targets(graph):
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


def test_traced_they_are_primitive_operators():
    graph = make_fx(_refs.add)(torch.ones(2, 1), torch.ones(3, dtype=torch.int64))
    assert _targets(graph) == [
        "prims.broadcast_in_dim.default",
        "prims.convert_element_type.default",
        "prims.broadcast_in_dim.default",
        "prims.add.default",
    ]
    half = make_fx(_refs.exp)(torch.ones(2, dtype=torch.float16))
    assert _targets(half) == ["prims.convert_element_type.default", "prims.exp.default", "prims.convert_element_type.default"]


def test_refs_mode_answers_functions_and_overloads():
    def function(a):
        return torch.ops.aten.sigmoid.default(torch.digamma(a)) + torch.arange(2)

    with TorchRefsMode():
        graph = make_fx(function)(torch.ones(2))
    assert _targets(graph) and all(target.startswith("prims.") for target in _targets(graph))
    torch.testing.assert_close(graph(torch.ones(2)), function(torch.ones(2)))


def test_strict_refs_mode_refuses_what_has_no_reference():
    with TorchRefsMode(strict=True), pytest.raises(RuntimeError, match=r"no _refs support for torch\.linalg\.eigh"):
        torch.linalg.eigh(torch.eye(2))


def test_in_place_and_out():
    x = torch.tensor([1.0, 4.0])
    assert _refs.sqrt_(x) is x and x.tolist() == [1.0, 2.0]
    out = torch.empty(0)
    assert _refs.neg(x, out=out) is out and out.tolist() == [-1.0, -2.0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        _refs.sqrt_(torch.tensor([4]))


STRUCTURED = [
    (lambda r: r.where(torch.tensor([True, False]), torch.tensor([1, 2]), 2.5)),
    (lambda r: r.masked_fill(torch.ones(2, 2), torch.tensor([True, False]), 3)),
    (lambda r: r.clamp(torch.tensor([1, 5]), 2.5, torch.tensor(4))),
    (lambda r: r.arange(0, 1, 0.25)),
    (lambda r: r.arange(5)),
    (lambda r: r.arange(5, 1, -2, dtype=torch.float64)),
    (lambda r: r.sum(torch.tensor([[True, True], [False, True]]), 1, keepdim=True)),
    (lambda r: r.prod(torch.tensor([[1, 2], [3, 4]]), 0)),
    (lambda r: r.amax(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), 1)),
    (lambda r: r.any(torch.tensor([[0, 2], [0, 0]]), 1)),
    (lambda r: r.all(torch.tensor([1, 2], dtype=torch.uint8))),
    (lambda r: r.mean(torch.tensor([[1.0, 2.0], [3.0, 0.0]], dtype=torch.float16), (0, 1))),
    (lambda r: r.var(torch.tensor([1.0, 2.0, 4.0]), unbiased=False)),
    (lambda r: r.std(torch.tensor([[1 + 1j, 2.0]]), 1)),
    (lambda r: r.cat([torch.tensor([1]), torch.tensor([2.5])])),
    (lambda r: r.flip(torch.tensor([[1, 2]]), (0, 1))),
    (lambda r: r.zeros(2, 3, dtype=torch.int8)),
    (lambda r: r.full((2,), True)),
]


@pytest.mark.parametrize("call", STRUCTURED)
def test_structured_references(call):
    made, expected = call(_refs), call(torch)
    assert made.dtype is expected.dtype
    torch.testing.assert_close(made, expected)

"""einsum and its relatives: values against NumPy, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import linalg
from flambeau.autograd import gradcheck, gradgradcheck

generator = np.random.default_rng(0)


def random(*shape):
    return torch.tensor(generator.standard_normal(shape).tolist(), dtype=torch.float64).requires_grad_()


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("i,j->ij", (2,), (3,)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("b h i d , b h j d -> b h i j", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)),
    ("...a,...a->...", (2, 3), (3,)),
    ("ij,kj->ik", (2, 1), (3, 4)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ba", (2, 3)),
    ("i...->...", (2, 3)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("ij,k->i", (2, 3), (4,)),
]


@pytest.mark.parametrize("equation, shapes", [(e, s) for e, *s in EQUATIONS])
def test_einsum(equation, shapes):
    operands = [random(*shape) for shape in shapes]
    made = torch.einsum(equation, *operands)
    if equation != "ij,kj->ik":  # NumPy doesn't broadcast named dimensions
        expected = np.einsum(equation, *[x.detach().numpy() for x in operands])
        np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    assert gradcheck(lambda *x: torch.einsum(equation, *x), operands)


def test_sublists_are_letters():
    a, b = random(2, 3), random(3, 4)
    assert torch.equal(torch.einsum(a, [0, 1], b, [1, 2], [2, 0]), torch.einsum("ab,bc->ca", a, b))
    assert torch.equal(torch.einsum(a, [Ellipsis, 1], [1, Ellipsis]), a.T)
    assert torch.equal(torch.einsum("ij,jk", [a, b]), a @ b)


@pytest.mark.parametrize(
    "equation, shapes, words",
    [
        (
            "ij,jk",
            [(2, 3), (2, 3)],
            "einsum(): subscript j has size 2 for operand 1 which does not broadcast with previously seen size 3",
        ),
        (
            "i",
            [(2, 3)],
            "einsum(): the number of subscripts in the equation (1) does not match the number of dimensions "
            "(2) for operand 0 "
            "and no ellipsis was given",
        ),
        ("ij->k", [(2, 3)], "einsum(): output subscript k does not appear in the equation for any input operand"),
        ("ii", [(2, 3)], "einsum(): subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
    ],
)
def test_errors(equation, shapes, words):
    with pytest.raises(RuntimeError) as caught:
        torch.einsum(equation, *[torch.ones(shape) for shape in shapes])
    assert str(caught.value) == words


CASES = {
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([0, 2], [1, 0])), ((2, 3, 4), (4, 2, 5))),
    "multi_dot": (lambda *x: linalg.multi_dot(x), ((2,), (2, 5), (5, 3), (3, 4), (4,))),
    "bilinear": (torch.bilinear, ((2, 3), (2, 4), (5, 3, 4), (5,))),
    "cdist": (torch.cdist, ((2, 3), (4, 3))),
    "cdist 1": (lambda a, b: torch.cdist(a, b, 1.5), ((2, 3), (2, 4, 3))),
    "cdist product": (lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), ((2, 3), (4, 3))),
    "cross": (lambda a, b: linalg.cross(a, b, dim=0), ((3, 2), (3, 1))),
    "vecdot": (linalg.vecdot, ((2, 3), (3,))),
    "trapezoid": (torch.trapezoid, ((2, 4), (4,))),
    "cumulative_trapezoid": (lambda y: torch.cumulative_trapezoid(y, dx=0.5, dim=0), ((3, 2),)),
    "vander": (lambda x: torch.vander(x, 3), ((4,),)),
}


@pytest.mark.parametrize("name", CASES)
def test_relatives(name):
    function, shapes = CASES[name]
    given = [random(*shape) for shape in shapes]
    assert gradcheck(function, given)
    assert gradgradcheck(function, given)


def test_cdist_of_equal_points_has_a_gradient():
    x = torch.zeros(2, 3, requires_grad=True)
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        torch.cdist(x, x, compute_mode=mode).sum().backward()
        assert not x.grad.isnan().any()


def test_booleans_where_nothing_is_summed():
    """Booleans have no products of matrices, but one of a single term, or of none, needs no sum."""
    x = torch.tensor([[True], [False]])
    assert torch.einsum("ij,kj->ik", x, x).tolist() == [[True, False], [False, False]]
    none = torch.ones(2, 0, dtype=torch.bool)
    assert torch.einsum("ij,kj->ik", none, none).tolist() == [[False, False], [False, False]]
    assert torch.bmm(none[None], none.T[None]).tolist() == [[[False, False], [False, False]]]
    assert torch.mv(none, none[0]).tolist() == [False, False]
    with pytest.raises(NotImplementedError, match="\"bmm\" not implemented for 'Bool'"):
        torch.einsum("ij,jk->ik", torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool))

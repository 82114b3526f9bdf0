"""vmap over searches, samples of images and systems of equations equals the loop over the examples, without a warning."""

import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.func import grad, vmap

V = torch.linspace(-1, 1, 8).reshape(2, 4)
A = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
S = torch.linspace(0.1, 1.7, 18).reshape(2, 3, 3) ** 2 + 3 * torch.eye(3)
I = torch.tensor([[0, 2, 1], [1, 1, 0]])
IMAGES = torch.linspace(-1, 1, 2 * 3 * 36).reshape(2, 1, 3, 6, 6)
PLACES = torch.linspace(-1, 1, 36).reshape(2, 1, 3, 3, 2)
CASES = {
    "searchsorted": (torch.searchsorted, V, V.flip(1)),
    "searchsorted in one row": (lambda v: torch.searchsorted(V[0], v, right=True), A),
    "searchsorted of a matrix in a row": (torch.searchsorted, V, A),
    "searchsorted with a sorter": (lambda w, v: torch.searchsorted(w.flip(0), v, sorter=torch.arange(3, -1, -1)), V, V),
    "bucketize": (torch.bucketize, A, V),
    "bucketize a number": (lambda w: torch.bucketize(0.1, w, out_int32=True), V),
    "isin": (torch.isin, I, I.flip(1) + 1),
    "isin of the same tests": (lambda i: torch.isin(i, torch.tensor([1]), invert=True), I),
    "pinv": (torch.linalg.pinv, A),
    "matrix_rank": (torch.linalg.matrix_rank, S),
    "lu": (torch.linalg.lu, S),
    "lu_factor": (torch.linalg.lu_factor, S),
    "lu_solve": (lambda s, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(s), b), S, A),
    "lu_solve with one matrix": (lambda b: torch.linalg.lu_solve(*torch.linalg.lu_factor(S[0]), b), A),
    "lstsq": (lambda a, b: torch.linalg.lstsq(a.mT, b.mT), A[:, :2], A),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), IMAGES, PLACES),
    "grid_sample of one image": (lambda g: F.grid_sample(IMAGES[0], g, mode="bicubic", align_corners=True), PLACES),
    "affine_grid": (lambda t: F.affine_grid(t, (1, 1, 3, 3), align_corners=False), A[:, None, :2, :3]),
    "bincount": (lambda i: torch.bincount(i, minlength=4), I),
}


def tensors(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("case", CASES)
def test_equals_the_loop(case):
    function, *arguments = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error" if case != "bincount" else "ignore")
        found = tensors(vmap(function)(*arguments))
        nested = tensors(vmap(vmap(function))(*[torch.stack([x, x.flip(0)]) for x in arguments]))
    expected = [tensors(function(*[x[n] for x in arguments])) for n in range(2)]
    for position, one in enumerate(found):
        for n in range(2):
            torch.testing.assert_close(one[n], expected[n][position], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(nested[position][1, n], expected[1 - n][position], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [name for name, (_, first, *_) in CASES.items() if first.is_floating_point()])
def test_gradients_equal_the_loop(case):
    function, *arguments = CASES[case]

    def loss(*given):
        return sum((x.double() ** 2).sum() for x in tensors(function(*given)) if x.is_floating_point()) + given[0].sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(grad(loss))(*arguments)
    for n in range(2):
        torch.testing.assert_close(found[n], grad(loss)(*[x[n] for x in arguments]), rtol=1e-3, atol=1e-4)

"""Extreme eigenpairs by the locally optimal block preconditioned conjugate gradient method."""

import pytest

import flambeau as torch


def matrix(size: int, seed: int = 0, shift: float = 1.0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(size, size, dtype=torch.float64, generator=g)
    return A @ A.mT / size + shift * torch.eye(size, dtype=torch.float64)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("general", [False, True])
def test_the_eigenpairs_of_a_pencil(method: str, largest: bool, general: bool) -> None:
    A, B = matrix(40), matrix(40, 1, 3.0) if general else None
    E, X = torch.lobpcg(A, 3, B, largest=largest, method=method, niter=-1)
    whole = torch.linalg.eigvals(A if B is None else torch.linalg.solve(B, A)).real.sort(descending=largest)[0]
    assert torch.allclose(E, whole[:3], rtol=1e-10)
    BX = X if B is None else B @ X
    assert torch.allclose(A @ X, BX * E, atol=1e-5) and torch.allclose(X.mT @ BX, torch.eye(3).double(), atol=1e-8)


def test_a_batch_a_sparse_matrix_and_a_start_of_more_vectors() -> None:
    A = torch.stack([matrix(20, i) for i in range(6)]).view(2, 3, 20, 20)
    E, X = torch.lobpcg(A, 2)
    assert E.shape == (2, 3, 2) and X.shape == (2, 3, 20, 2)
    assert torch.allclose(E, torch.linalg.eigvalsh(A)[..., -2:].flip(-1))
    values = torch.arange(1.0, 101, dtype=torch.float64)
    found = torch.lobpcg(torch.diag(values).to_sparse(), 2, largest=False, niter=-1)[0]
    assert torch.allclose(found, values[:2])
    steps = []
    E, X = torch.lobpcg(A[0, 0], 1, X=torch.randn(20, 4, dtype=torch.float64), tracker=steps.append)
    assert E.shape == (1,) and X.shape == (20, 1) and torch.allclose(E, torch.linalg.eigvalsh(A[0, 0])[-1:])
    assert steps[0].X.shape == (20, 4)


def test_a_preconditioner_saves_steps() -> None:
    A = torch.diag(torch.logspace(0, 2, 60, dtype=torch.float64))

    def steps(iK: torch.Tensor | None) -> int:
        count: list[int] = []
        E = torch.lobpcg(A, 2, iK=iK, largest=False, tracker=lambda state: count.append(state.ivars["istep"]))[0]
        assert torch.allclose(E, A.diagonal()[:2], rtol=1e-6)
        assert count == list(range(1, len(count) + 1))
        return len(count)

    assert steps(torch.diag(1 / A.diagonal())) < 60 < 120 < steps(None)


def test_what_trackers_see_and_how_they_stop_it() -> None:
    seen = []

    def tracker(state: object) -> None:
        seen.append((state.ivars["istep"], state.ivars["iterations_left"], state.tvars["rerr"].shape, state.S.shape))
        state.bvars["force_stop"] = state.ivars["istep"] == 2

    torch.lobpcg(matrix(12), 2, niter=9, tracker=tracker)
    assert seen == [(1, 8, (2,), (12, 6)), (2, 7, (2,), (12, 6))]


def test_the_first_steps_are_those_of_pytorch() -> None:
    """With the same first vectors; recorded from PyTorch."""
    A, values = torch.diag(torch.arange(1.0, 13).double()), []
    X = torch.cos(torch.arange(24).double()).view(12, 2)
    torch.lobpcg(A, 2, X=X, niter=4, tracker=lambda state: values.append(state.E.tolist()))
    assert torch.allclose(torch.tensor(values), torch.tensor(RECORDED), atol=1e-6)


RECORDED = [[0.0, 0.0], [10.250886544, 9.56272157], [11.415511205, 10.523538579], [11.847753902, 10.831834385]]


def test_gradients() -> None:
    A = matrix(9).requires_grad_()
    start = torch.randn(9, 2, dtype=torch.float64)

    def of(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        E, X = torch.lobpcg(A, 2, X=start, niter=-1, tol=1e-12)
        return E, X * X[0].sign()

    assert torch.autograd.gradcheck(of, (A,))
    assert torch.autograd.gradgradcheck(lambda A: of(A)[0], (A,))
    for B, B_too in ((matrix(9, 1), False), (matrix(9, 1).requires_grad_(), True)):
        with pytest.raises(ValueError, match="does not support backward with B != I yet"):
            torch.lobpcg(A.detach() if B_too else A, 2, B)[0].sum().backward()


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"the number of A rows \(=12\) is smaller than 3 x the number .*\(=5\)"):
        torch.lobpcg(matrix(12), 5)
    with pytest.raises(AssertionError, match="A must be square"):
        torch.lobpcg(matrix(12)[:5], 1)
    with pytest.raises(AssertionError, match="A and B must have same shape"):
        torch.lobpcg(matrix(12), 1, matrix(11))
    assert torch.lobpcg(matrix(12), 2, tol=0.5)[0].shape == (2,)
    assert torch.lobpcg(matrix(12), 2, tol=-1.0)[0].shape == (2,)

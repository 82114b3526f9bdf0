"""torch._lobpcg: a few extreme eigenpairs of large symmetric matrices by the locally optimal block preconditioned conjugate
gradient method.

A. Knyazev, "Toward the Optimal Preconditioned Eigensolver: Locally Optimal Block Preconditioned Conjugate Gradient Method"
(2001). The method "ortho" keeps the basis of each step orthonormal by SVQB (A. Stathopoulos, K. Wu, "A Block Orthogonalization
Procedure with Constant Synchronization Requirements", 2002) and takes the conjugate directions of J. Duersch, M. Shao, C. Yang,
M. Gu, "A Robust and Efficient Implementation of LOBPCG" (2018). Written in the public operators; `torch.lobpcg` is found here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import _linalg_utils as _utils
from flambeau.core.operator.facets import described

__all__ = ["lobpcg"]

_STEPS = 1000
_PRECISION = {torch.float32: 1.2e-07, torch.float64: 2.23e-16}


@described(written_in_python=True)
def lobpcg(
    A: torch.Tensor,
    k: int | None = None,
    B: torch.Tensor | None = None,
    X: torch.Tensor | None = None,
    n: int | None = None,
    iK: torch.Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[LOBPCG], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(E, X): k eigenvalues (*, k) and eigenvectors (*, m, k) of A x = e B x, the largest (or smallest) first.

    A: (*, m, m) float, symmetric positive definite, dense, or COO without a batch; B likewise, or None for the identity; X: a
    first approximation (*, m, n), n >= k; n: how many vectors are iterated where there is none; iK: a preconditioner (*, m, m);
    niter: at most so many steps (-1: as many as it takes); tol: of the residuals; method: "ortho" or "basic", which is quicker
    but fails where its basis becomes singular; tracker: called with the `LOBPCG` after every step. The gradient with respect to
    A is that of its symmetric part; it needs a dense, real A and no B. ValueError where m < 3 n.
    """
    given = [x for x in (A, B, X, iK) if x is not None and x.layout is torch.strided]
    if torch.overrides.has_torch_function(given):
        return torch.overrides.handle_torch_function(
            lobpcg,
            given,
            A,
            k=k,
            B=B,
            X=X,
            n=n,
            iK=iK,
            niter=niter,
            tol=tol,
            largest=largest,
            method=method,
            tracker=tracker,
            ortho_iparams=ortho_iparams,
            ortho_fparams=ortho_fparams,
            ortho_bparams=ortho_bparams,
        )
    options = (k, B, X, n, iK, niter, tol, largest, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams)
    if torch.is_grad_enabled() and (A.requires_grad or (B is not None and B.requires_grad)):
        symmetric = A if A.layout is torch.sparse_coo else (A + A.mT) / 2
        return LOBPCGAutogradFunction.apply(symmetric, B, options)
    return _lobpcg(A, *options)


def _lobpcg(
    A: torch.Tensor,
    k: Any,
    B: Any,
    X: Any,
    n: Any,
    iK: Any,
    niter: Any,
    tol: Any,
    largest: Any,
    method: Any,
    tracker: Any,
    ortho_iparams: Any,
    ortho_fparams: Any,
    ortho_bparams: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`lobpcg` without gradients."""
    assert A.shape[-2] == A.shape[-1], f"A must be square, got shape {A.shape}"
    if B is not None:
        assert A.shape == B.shape, f"A and B must have same shape, got {A.shape} vs {B.shape}"
    dtype = _utils.get_floating_dtype(A)
    precision = _PRECISION[dtype]
    tol = precision**0.5 if tol is None else tol
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m})"
            f" is smaller than 3 x the number of requested eigenpairs (={n})"
        )
    method = "ortho" if method is None else method
    iparams = {"m": m, "n": n, "k": k, "niter": _STEPS if niter is None else niter}
    fparams = {"tol": tol}
    bparams = {"largest": True if largest is None else largest}
    if method == "ortho":
        iparams.update({"ortho_i_max": 3, "ortho_j_max": 3, **(ortho_iparams or {})})
        fparams.update({"ortho_tol": tol, "ortho_tol_drop": tol, "ortho_tol_replace": tol, **(ortho_fparams or {})})
        bparams.update({"ortho_use_drop": False, **(ortho_bparams or {})})
    batch = A.shape[:-2]
    X = torch.randn((*batch, m, n), dtype=dtype, device=A.device) if X is None else X

    def solve(A: Any, B: Any, X: Any, iK: Any) -> tuple[torch.Tensor, torch.Tensor]:
        worker = LOBPCG(A, B, X, iK, dict(iparams), dict(fparams), dict(bparams), method, tracker)
        worker.run()
        return worker.E[:k], worker.X[:, :k]

    with torch.no_grad():
        if not batch:
            return solve(A, B, X, iK)
        each: list[Any] = [None if x is None else x.reshape(-1, *x.shape[-2:]) for x in (A, B, iK)]
        starts = X.reshape(each[0].shape[0], m, n)
        found = [
            solve(each[0][i], each[1] if each[1] is None else each[1][i], starts[i], each[2] if each[2] is None else each[2][i])
            for i in range(starts.shape[0])
        ]
        return (torch.stack([E for E, _ in found]).reshape(*batch, k), torch.stack([V for _, V in found]).reshape(*batch, m, k))


class LOBPCG:
    """The state of an iteration, as trackers see it.

    A, B, iK: the matrices; X (m, n), E (n,): the eigenpairs found so far; R (m, n): their residuals, of those that go on; S: the
    basis that the next ones are taken from; iparams, fparams, bparams: numbers and truths that were given; ivars, fvars, bvars,
    tvars: those of the iteration, by name. A tracker that sets bvars["force_stop"] ends it.
    """

    def __init__(
        self,
        A: torch.Tensor,
        B: torch.Tensor | None,
        X: torch.Tensor,
        iK: torch.Tensor | None,
        iparams: dict[str, int],
        fparams: dict[str, float],
        bparams: dict[str, bool],
        method: str,
        tracker: Callable[[LOBPCG], None] | None,
    ) -> None:
        self.A, self.B, self.iK = A, B, iK
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method, self.tracker = method, tracker
        m, n = iparams["m"], iparams["n"]
        self.X = X
        self.E = torch.zeros((n,), dtype=X.dtype, device=X.device)
        self.R = torch.zeros((m, n), dtype=X.dtype, device=X.device)
        self.S = torch.zeros((m, 3 * n), dtype=X.dtype, device=X.device)
        self.ivars = {"istep": 0}
        self.fvars: dict[str, float] = {"_": 0.0}
        self.bvars: dict[str, bool] = {"_": False}
        self.tvars: dict[str, torch.Tensor] = {}
        self._basis = X  # the columns of S that are in use
        self._exhausted = False  # whether the last residuals lie in the basis that they came from

    def __str__(self) -> str:
        lines = ["LOBPCG:"]
        for name in ("iparams", "fparams", "bparams", "ivars", "fvars", "bvars", "tvars", "A", "B", "iK", "X", "E"):
            lines.append(f"  {name}={getattr(self, name)}")
        return "\n".join(lines) + "\n"

    def run(self) -> None:
        """Iterate until the first k eigenpairs have converged, or the steps are used up."""
        self.update()
        while not self.stop_iteration():
            self.update()

    def stop_iteration(self) -> bool:
        """Whether nothing is left to do."""
        done = self.bvars.get("force_stop", False) or self._exhausted or self.ivars["iterations_left"] == 0
        return done or self.ivars["converged_count"] >= self.iparams["k"]

    def call_tracker(self) -> None:
        """Show the state to who asked for it."""
        if self.tracker is not None:
            self.tracker(self)

    def update(self) -> None:
        """One step."""
        if self.ivars["istep"] == 0:
            size = float(torch.norm(self.X))
            self.fvars["X_norm"] = size
            self.fvars["A_norm"] = float(torch.norm(_utils.matmul(self.A, self.X))) / size
            self.fvars["B_norm"] = float(torch.norm(_utils.matmul(self.B, self.X))) / size
            self.ivars.update(iterations_left=self.iparams["niter"], converged_count=0, converged_end=0)
            if self.method == "ortho":
                self._basis = self.X = self._orthonormal(self.X)
        if self.method == "ortho":
            self._ortho_step()
        else:
            self._basic_step()
        self.ivars["istep"] += 1
        self.ivars["iterations_left"] -= 1
        self.call_tracker()

    def _ortho_step(self) -> None:
        """X and the conjugate directions from the basis, if that is more than the first X; then the residuals join them."""
        n = self.iparams["n"]
        directions = self.X[:, :0]
        if self.ivars["istep"]:
            S = self._basis
            values, vectors = _utils.symeig(_utils.qform(self.A, S), self.bparams["largest"])
            self.X, self.E = S @ vectors[:, :n], values[:n]
            self._look()
            # what moved X: its part outside of the X before, made orthogonal to the new one within the basis
            moved = vectors[:, self.ivars["converged_count"] : n].clone()
            moved[:n] = 0
            moved = self._orthonormal(moved, vectors[:, :n], plain=True)
            directions = S @ moved
        else:
            self._look()
        kept = torch.cat([self.X, directions], 1)
        fresh = self._orthonormal(_utils.matmul(self.iK, self.R), kept)
        self._exhausted = bool(self.ivars["istep"]) and not fresh.shape[1]
        self._stand(torch.cat([kept, fresh], 1))

    def _basic_step(self) -> None:
        """The same with a basis whose vectors are only scaled: it takes a Cholesky factorization of their products."""
        n, S = self.iparams["n"], self._basis
        products = _utils.qform(self.B, S)
        scale = products.diagonal().rsqrt()
        upper = torch.linalg.cholesky(products * scale[:, None] * scale).mT
        A = _utils.qform(self.A, S) * scale[:, None] * scale
        inner = torch.linalg.solve_triangular(upper.mT, A, upper=False)
        inner = torch.linalg.solve_triangular(upper, inner, upper=True, left=False)
        values, vectors = _utils.symeig((inner + inner.mT) / 2, self.bparams["largest"])
        vectors = torch.linalg.solve_triangular(upper, vectors, upper=True) * scale[:, None]
        self.X, self.E = S @ vectors[:, :n], values[:n]
        self._look()
        directions = S[:, n:] @ vectors[n:, self.ivars["converged_count"] : n]
        if not self.ivars["istep"]:
            directions = directions[:, :0]
        self._stand(torch.cat([self.X, directions, _utils.matmul(self.iK, self.R)], 1))

    def _look(self) -> None:
        """The residuals of X, and how many of its first columns are good."""
        R = _utils.matmul(self.A, self.X) - _utils.matmul(self.B, self.X) * self.E
        bound = torch.norm(self.X, 2, (0,)) * (self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"])
        self.tvars["rerr"] = torch.norm(R, 2, (0,)) / bound
        good = (self.tvars["rerr"] < self.fparams["tol"]).tolist()
        count = good.index(False) if False in good else len(good)
        self.ivars["converged_count"] = count
        self.R = R[:, count:]

    def _stand(self, basis: torch.Tensor) -> None:
        self._basis = basis
        self.ivars["converged_end"] = basis.shape[1]
        self.S = torch.zeros_like(self.S)
        self.S[:, : basis.shape[1]] = basis

    def _orthonormal(self, U: torch.Tensor, V: torch.Tensor | None = None, plain: bool = False) -> torch.Tensor:
        """An orthonormal basis of the columns of U and orthogonal to those of V, which are orthonormal; in the product of B
        unless `plain`. Columns that depend on others go, or with their size restored make room for what rounding left of them.
        """
        B = None if plain else self.B
        limit = self.fparams["ortho_tol"]
        drops = self.bparams["ortho_use_drop"]
        least = self.fparams["ortho_tol_drop" if drops else "ortho_tol_replace"]
        BV: Any = None if V is None else _utils.matmul(B, V)
        least = min(max(least * least, _PRECISION[U.dtype]), 1e-2)
        for i in range(self.iparams["ortho_i_max"]):
            self.ivars["ortho_i"] = i
            if V is not None:
                U = U - V @ (BV.mT @ U)
            for j in range(self.iparams["ortho_j_max"]):
                self.ivars["ortho_j"] = j
                U = self._svqb(U, B, least)
                if not U.shape[1]:
                    return U
                off = _utils.qform(B, U) - torch.eye(U.shape[1], dtype=U.dtype, device=U.device)
                error = float(torch.norm(off)) / (float(torch.norm(U)) * float(torch.norm(_utils.matmul(B, U))))
                self.fvars[f"ortho_UBUmI_rerr[{i}, {j}]"] = error
                if error < limit * limit + _PRECISION[U.dtype]:
                    break
            if V is None:
                break
            error = float(torch.norm(BV.mT @ U)) / (float(torch.norm(BV)) * float(torch.norm(U)))
            self.fvars[f"ortho_VBU_rerr[{i}]"] = error
            if error < limit * limit + _PRECISION[U.dtype]:
                break
        return U

    def _svqb(self, U: torch.Tensor, B: torch.Tensor | None, least: float) -> torch.Tensor:
        """U with orthonormal columns, by the eigenvectors of their products; those of almost no length are left out."""
        if not U.shape[1]:
            return U
        products = _utils.qform(B, U)
        lengths = products.diagonal()
        there = lengths > lengths.max().clamp_min(0) * _PRECISION[U.dtype] ** 2
        if not bool(there.all()):
            U, products, lengths = U[:, there], products[there][:, there], lengths[there]
            if not U.shape[1]:
                return U
        scale = lengths.rsqrt()
        values, vectors = torch.linalg.eigh((products + products.mT) / 2 * scale[:, None] * scale)
        wide = values > least * values[-1]
        return (U * scale) @ (vectors[:, wide] * values[wide].rsqrt())


class LOBPCGAutogradFunction(torch.autograd.Function):
    """Eigenpairs whose gradients are those of the symmetric matrix."""

    @staticmethod
    def forward(ctx: Any, A: torch.Tensor, B: torch.Tensor | None, options: tuple) -> Any:  # type: ignore[override]
        k, _, *rest = options
        E, X = _lobpcg(A.detach(), k, None if B is None else B.detach(), *rest)
        ctx.save_for_backward(A, E, X)
        ctx.with_B = B is not None
        return E, X

    @staticmethod
    def backward(ctx: Any, gE: torch.Tensor, gX: torch.Tensor) -> Any:  # type: ignore[override]
        A, E, X = ctx.saved_tensors
        if A.layout is torch.sparse_coo or A.is_complex():
            raise ValueError("lobpcg.backward does not support sparse or complex inputs yet.")
        if ctx.with_B:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        return _gradient(A, E, X, gE, gX), None, None


def _gradient(A: torch.Tensor, E: torch.Tensor, X: torch.Tensor, gE: torch.Tensor, gX: torch.Tensor) -> torch.Tensor:
    """The gradient of A from those of k of its eigenpairs.

    An eigenvector moves by those known, each over the difference of the eigenvalues, and in the rest of the space by the inverse
    of e - A there: for each, a system whose matrix is made regular by the identity on the known ones.
    """
    k, m = E.shape[-1], A.shape[-1]
    eye = torch.eye(k, dtype=E.dtype, device=E.device)
    # 0 on the diagonal
    between = (1 - eye) / (E.unsqueeze(-2) - E.unsqueeze(-1) + eye)
    known = X.mT @ gX
    parts = X * gE.unsqueeze(-2) + X @ (known * between)
    outside = (gX - X @ known).mT.unsqueeze(-1)  # (*, k, m, 1)
    project = torch.eye(m, dtype=A.dtype, device=A.device) - X @ X.mT
    rest = (project @ A @ project).unsqueeze(-3)
    systems = E[..., None, None] * project.unsqueeze(-3) - rest + (X @ X.mT).unsqueeze(-3)
    parts = parts + torch.linalg.solve(systems, outside).squeeze(-1).mT
    return parts @ X.mT

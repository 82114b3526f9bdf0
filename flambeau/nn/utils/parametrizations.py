"""Ready-made parametrizations: orthogonal, weight_norm, spectral_norm."""

from __future__ import annotations

from enum import Enum, auto

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize


def _is_orthogonal(matrix: Tensor, eps: float | None = None) -> bool:
    """Whether the columns of (*, n, k) are orthonormal up to eps."""
    n, k = matrix.size(-2), matrix.size(-1)
    if eps is None:
        eps = 10.0 * n * flambeau.finfo(matrix.dtype).eps
    identity = flambeau.eye(k, dtype=matrix.dtype, device=matrix.device)
    return bool(flambeau.allclose(matrix.mH @ matrix, identity, atol=eps))


def _make_orthogonal(matrix: Tensor) -> Tensor:
    """The nearest convenient matrix with orthonormal columns, from the QR factors of (*, n, k)."""
    reflectors, tau = flambeau.geqrf(matrix)
    orthogonal = flambeau.linalg.householder_product(reflectors, tau)
    # The sign of R's diagonal makes the factorisation unique.
    return orthogonal * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """An orthogonal (or semi-orthogonal) matrix from an unconstrained one of the same shape (*, n, k)."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        n, k = X.size(-2), X.size(-1)
        transposed = n < k
        if transposed:
            X = X.mT
            n, k = k, n
        if self.orthogonal_map is _OrthMaps.householder:
            X = X.tril()
            diagonal = X.diagonal(dim1=-2, dim2=-1)
            reflectors = X.tril(-1)
            tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
            result = flambeau.linalg.householder_product(X, tau)
            # The diagonal of X holds the signs.
            result = result * diagonal.int().unsqueeze(-2)
        else:
            lower = X.tril()
            if n != k:
                padding = X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)
                lower = flambeau.cat([lower, padding], dim=-1)
            skew = lower - lower.mH
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                result = flambeau.matrix_exp(skew)
            else:
                identity = flambeau.eye(n, dtype=skew.dtype, device=skew.device)
                result = flambeau.linalg.solve(flambeau.add(identity, skew, alpha=-0.5), flambeau.add(identity, skew, alpha=0.5))
            if n != k:
                result = result[..., :k]
        base = getattr(self, "base", None)
        if base is not None:
            result = base @ result
        return result.mT if transposed else result

    def right_inverse(self, Q: Tensor) -> Tensor:
        """An unconstrained matrix that maps to Q (made orthogonal if it is not)."""
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        transposed = Q.size(-2) < Q.size(-1)
        start = Q.mT if transposed else Q
        n, k = start.size(-2), start.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential "
                    "or the Cayley parametrizations when use_trivialization=False."
                )
            reflectors, tau = flambeau.geqrf(start)
            # |tau| = 2 / |v|^2: rescale the reflectors' signs into the diagonal.
            reflectors.diagonal(dim1=-2, dim2=-1).sign_()
            reflectors.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return reflectors.mT if transposed else reflectors
        if n == k:
            Q = start.clone() if _is_orthogonal(start) else _make_orthogonal(start)
        else:
            # Completed to a square orthogonal matrix by random columns.
            extra = flambeau.randn(*start.shape[:-2], n, n - k, dtype=start.dtype, device=start.device)
            Q = _make_orthogonal(flambeau.cat([start, extra], dim=-1))
        self.base = Q
        negated_identity = flambeau.zeros_like(start)
        negated_identity.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return negated_identity.mT if transposed else negated_identity


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep module.<name> (*, n, k) orthogonal. orthogonal_map: "matrix_exp", "cayley" or "householder"."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    choice = getattr(_OrthMaps, orthogonal_map, None)
    if choice is None:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    parametrization = _Orthogonal(weight, choice, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)
    return module


class _WeightNorm(Module):
    """g * v / |v|, the norm over all dimensions but dim."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return flambeau._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(g, v) of a weight."""
        return flambeau.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Train the norm (original0) and the direction (original1) of module.<name> separately."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def compatibility_hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) -> None:
        # Files of the older weight_norm name the parts weight_g and weight_v.
        old = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if all(key in state_dict for key in old):
            for position, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{position}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(compatibility_hook)
    return module


class _SpectralNorm(Module):
    """weight / sigma, sigma its largest singular value by power iteration (one or more steps per training call)."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=self.eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(axis for axis in range(weight.dim()) if axis != self.dim))
        return weight.flatten(1)

    def _power_method(self, matrix: Tensor, iterations: int) -> None:
        """Refine the singular vectors in place, so that copies of the buffers stay in step."""
        with flambeau.no_grad():
            for _ in range(iterations):
                self._u.copy_(F.normalize(flambeau.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(flambeau.mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: a later step must not change what this graph saved.
        u, v = self._u.clone(), self._v.clone()
        sigma = flambeau.vdot(u, flambeau.mv(matrix, v))
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: assignment stores it, reading normalises it."""
        return value


def default_spectral_dim(module: Module) -> int:
    """Transposed convolutions have their output channels second."""
    from_modules = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
    return 1 if any(cls.__name__ in from_modules for cls in type(module).__mro__) else 0


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide module.<name> by its largest singular value, seen as a matrix with dimension dim first."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = default_spectral_dim(module)
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module

"""The older spectral_norm, a forward pre-hook that writes module.<name>. Prefer `parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter, UninitializedParameter
from flambeau.nn.utils.parametrizations import default_spectral_dim


class SpectralNorm:
    """The hook: divides `<name>_orig` by its largest singular value before each forward."""

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """(size of dim, everything else)."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *(axis for axis in range(weight.dim()) if axis != self.dim))
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """weight / sigma; the power iteration updates the buffers <name>_u and <name>_v in place."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with flambeau.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(flambeau.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(flambeau.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / flambeau.dot(u, flambeau.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the present weight a parameter again."""
        with flambeau.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, self.name + "_u", self.name + "_v", self.name + "_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Register the hook, the buffers and the state_dict metadata."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        with flambeau.no_grad():
            height, width = hook.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute: the computed weight is no parameter.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_StateHook(hook))
        module._register_load_state_dict_pre_hook(_LoadHook(hook))
        return hook

    def solve_v(self, matrix: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """The right vector v of which u is the power iteration's next left one: least squares of matrix^T u, scaled so that
        u . matrix v is sigma."""
        v = flambeau.linalg.multi_dot([matrix.t().mm(matrix).pinverse(), matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(sigma / flambeau.dot(u, flambeau.mv(matrix, v)))


class _StateHook:
    """Notes the version of each spectral norm in the state_dict's metadata."""

    def __init__(self, norm: SpectralNorm) -> None:
        self.norm = norm

    def __call__(self, module: Module, state_dict: dict, prefix: str, local_metadata: dict) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.norm.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.norm._version


class _LoadHook:
    """Completes a state_dict from before v was part of it: there the weight in use is, which gives the largest singular value."""

    def __init__(self, norm: SpectralNorm) -> None:
        self.norm = norm

    def __call__(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        norm, key = self.norm, prefix + self.norm.name
        version = local_metadata.get("spectral_norm", {}).get(norm.name + ".version")
        if version is not None and version >= 1:
            return
        complete = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and complete and key not in state_dict:
            return  # of a newer version, without metadata
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if strict:
            missing_keys += missing
        if missing:
            return
        with flambeau.no_grad():
            original, weight = state_dict[key + "_orig"], state_dict.pop(key)
            matrix = norm.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = norm.solve_v(matrix, state_dict[key + "_u"], (original / weight).mean())


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide module.<name> by its largest singular value, found by power iteration; returns module."""
    if dim is None:
        dim = default_spectral_dim(module)
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`; returns module."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, state_hook in table.items():
            own = getattr(state_hook, "hook", state_hook)
            if isinstance(own, (_StateHook, _LoadHook)) and own.norm.name == name:
                del table[key]
                break
    return module

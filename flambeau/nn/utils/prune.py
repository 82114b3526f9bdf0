"""Pruning: parameters whose elements, or whole slices of them, are masked to zero.

A pruned parameter `name` becomes `name_orig`, beside it lies the buffer `name_mask`, and a forward pre-hook puts their product
in the place of `name`. A second pruning acts on what the first one left (`PruningContainer`). Stands on Module's hooks.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    """The pruning of a parameter: its place among the forward pre-hooks, and the method."""
    for place, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return place, hook
    return None


class BasePruningMethod(ABC):
    """Base class of methods; a subclass sets PRUNING_TYPE and computes a mask.

    PRUNING_TYPE: "unstructured" (single elements), "structured" (slices along `self.dim`) or "global" (everything at once): what
    of an already pruned tensor the method is shown.
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The forward pre-hook: put the masked parameter in its place."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of ones and zeros for importance scores `t`, on top of `default_mask` of the same shape."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original parameter times its mask."""
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Any:
        """Prune the parameter `name` of a module by cls(*args, **kwargs), on top of what pruned it before. Returns the method.

        importance_scores: what the mask is computed from in place of the parameter, of its shape.
        """
        before = _hook_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if before is not None:
            del module._forward_pre_hooks[before[0]]
            container = before[1] if isinstance(before[1], PruningContainer) else PruningContainer(before[1])
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        if before is None:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default_mask = torch.ones_like(original)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone(memory_format=torch.contiguous_format)
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
        except Exception:
            if before is None:
                del module._parameters[name + "_orig"]
                module.register_parameter(name, original)
            else:  # as it was
                if isinstance(before[1], PruningContainer):
                    before[1]._pruning_methods = before[1]._pruning_methods[:-1]
                module._forward_pre_hooks[before[0]] = before[1]
            raise
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """The tensor times the mask that this method computes for it, or for `importance_scores` of its shape."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        if default_mask is None:
            default_mask = torch.ones_like(t)
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruning final: the parameter has its name again, with zeros in it. The hook is the caller's to remove."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = weight.data  # type: ignore[union-attr]
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods that prune one parameter, one after the other."""

    def __init__(self, *args: Any):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
            return
        for method in args[0] if len(args) == 1 else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """One more method for the same parameter. Raises TypeError for anything else, ValueError for another parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method on what `default_mask` has left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        kind = method.PRUNING_TYPE
        left: Any
        if kind == "unstructured":
            left = default_mask == 1
        elif kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
            kept = default_mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            left = _slices(t, dim, kept)
        elif kind == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes the elements of extreme scores: `amount` of them, or this share."""

    PRUNING_TYPE = "unstructured"
    largest: bool

    def __init__(self, amount: float):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def scores(self, t: Tensor) -> Tensor:
        """What is compared, one number per element."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_pruning_amount(self.amount, t.nelement())
        count = _compute_nparams_toprune(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=torch.contiguous_format)
        if count != 0:
            pruned = torch.topk(self.scores(t).view(-1), k=count, largest=self.largest).indices
            mask.view(-1)[pruned] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements at random: `amount` of them, or this share."""

    largest = True

    def scores(self, t: Tensor) -> Tensor:
        return torch.rand_like(t)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the elements of smallest magnitude: `amount` of them, or this share."""

    largest = False

    def scores(self, t: Tensor) -> Tensor:
        return torch.abs(t)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> Any:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    """Prunes slices along `dim`: `amount` of them, or this share."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1):
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def kept(self, t: Tensor, count: int) -> Tensor:
        """Which slices stay when `count` go: an index along `dim`."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        if count == 0:
            return default_mask
        mask = torch.zeros_like(t)
        mask[_slices(t, self.dim, self.kept(t, count))] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes slices along `dim` at random: `amount` of them, or this share."""

    def kept(self, t: Tensor, count: int) -> Tensor:
        chances = torch.rand(t.shape[self.dim])
        return chances > torch.kthvalue(chances, k=count).values

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the slices along `dim` of smallest n-norm (a number, inf, -inf, "fro", "nuc"): `amount` of them, or this share."""

    def __init__(self, amount: float, n: Any, dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def kept(self, t: Tensor, count: int) -> Tensor:
        return torch.topk(_compute_norm(t, self.n, self.dim), k=t.shape[self.dim] - count, largest=True).indices

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> Any:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask of one's own, of the parameter's shape."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


# ---------------------------------------------------------------- functions


def identity(module: Module, name: str) -> Module:
    """Give the parameter `name` a mask of ones, to be replaced or trained around. Returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements of the parameter `name` at random: a share (float, 0 to 1) or a number of them. Returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of smallest magnitude, or smallest `importance_scores`: a share or a number. Returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices along `dim` at random: a share or a number of them. Returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None) -> Module:
    """Prune the slices along `dim` whose n-norm is smallest: a share or a number of them. Returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the parameter `name` by a mask of its shape. Returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Tensor] | None = None, **kwargs: Any
) -> None:
    """Prune single elements of several parameters, (module, name) each, as if they were one tensor.

    pruning_method: a class of PRUNING_TYPE "unstructured", made with **kwargs. importance_scores: by (module, name).
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    tensors = [getattr(module, name) for module, name in parameters]
    relevant = torch.cat([scores.get(which, t).reshape(-1) for which, t in zip(parameters, tensors)])
    masks = [getattr(module, name + "_mask", None) for module, name in parameters]
    before = torch.cat([(torch.ones_like(t) if m is None else m).reshape(-1) for m, t in zip(masks, tensors)])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    mask = PruningContainer(method).compute_mask(relevant, before)
    for (module, name), piece, tensor in zip(parameters, mask.split([t.numel() for t in tensors]), tensors):
        custom_from_mask(module, name, mask=piece.view_as(tensor))


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a parameter final: the zeros stay, mask and hook go. Returns the module.

    Raises ValueError if the parameter is not pruned.
    """
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    return module


def is_pruned(module: Module) -> bool:
    """Whether any parameter of the module, or of one below it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for each in module.modules() for hook in each._forward_pre_hooks.values())


# ---------------------------------------------------------------- amounts, dimensions, norms


def _slices(t: Tensor, dim: int, index: Any) -> tuple[Any, ...]:
    """The index that takes `index` along `dim` and everything along the others."""
    places: list[Any] = [slice(None)] * t.dim()
    places[dim] = index
    return tuple(places)


def _validate_pruning_amount_init(amount: Any) -> None:
    """TypeError for what is no number, ValueError for a share outside [0, 1] or a negative number."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """ValueError for a number of more than there are."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t: Tensor) -> None:
    """ValueError for a tensor without slices."""
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {len(t.shape)} dims"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many of `tensor_size` an amount is."""
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)  # type: ignore[return-value]


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """IndexError for a dimension that isn't there."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The n-norm of each slice along `dim`."""
    dims = list(range(t.dim()))
    del dims[dim]
    return torch.norm(t, p=n, dim=dims)

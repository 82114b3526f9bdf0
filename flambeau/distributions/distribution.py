"""The base of all distributions: shapes, validation, expansion.

A family states its parameters once, in `arg_constraints` and in `_parameters` (the names that broadcast together),
and is then its mathematics: `_log_density(x)`, `_cumulative(x)`, `_quantile(p)` at values that are already checked,
`_draw(shape)` and `_pick(shape)` for samples of a whole shape with and without a gradient, `_outcomes()` for a
discrete support; moments are properties (`utils.formula`). The public methods check, shape and expand once for all of
them. Stands on constraints and utils.
"""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import broadcast_all, formula, lazy_property, unknown

__all__ = ["Distribution"]


class Distribution:
    """A distribution over events of shape `event_shape`, as many of them, independent, as `batch_shape` says.

    Args: batch_shape, event_shape (torch.Size); validate_args (bool or None: the default set by
    `set_default_validate_args`). Raises ValueError, if arguments are validated, for a parameter outside its
    constraint."""

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _parameters: tuple[str, ...] = ()
    _inner: tuple[str, ...] = ()  # attributes that are distributions of the same batch
    _copied: tuple[str, ...] = ()  # attributes that expansion leaves as they are
    # a family's formulas
    _log_density: Any = None
    _cumulative: Any = None
    _quantile: Any = None
    _draw: Any = None
    _pick: Any = None
    _outcomes: Any = None
    _batch_shape: Size
    _event_shape: Size

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are validated where `validate_args` isn't given. Raises ValueError for no
        bool."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _broadcast(self, validate_args: bool | None, **parameters: Any) -> None:
        """Set parameters, numbers or tensors, broadcast together; their shape is the batch shape."""
        Distribution.__init__(self, self._set(**parameters), validate_args=validate_args)

    def _set(self, **parameters: Any) -> Size:
        """Set parameters, broadcast together, before the rest; returns their shape."""
        values = broadcast_all(*parameters.values())
        vars(self).update(zip(parameters, values))
        return values[0].shape

    def _spread(self, shape: Size, *parameters: str) -> list[Tensor]:
        """Parameters of these names, expanded to the shape of samples."""
        return [getattr(self, name).expand(shape) for name in parameters]

    def _is_given(self, name: str) -> bool:
        """Whether a parameter isn't just another form, yet to be computed, of one that was given."""
        return name in vars(self) or not isinstance(getattr(type(self), name, None), lazy_property)

    def _validate_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint) or not self._is_given(name):
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if not torch._is_all_true(valid):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError unless `value` broadcasts with batch and event and lies in the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        kept = value.dim() - len(self._event_shape)
        if value.size()[kept:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}.")
        shape = self._batch_shape + self._event_shape
        for have, want in zip(reversed(value.size()), reversed(shape)):
            if have != 1 and want != 1 and have != want:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {shape}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    # ---- shapes ----------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """How many distributions, with parameters of their own."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a single event."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """sample_shape + batch_shape + event_shape."""
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its parameters expanded, without a copy, to `batch_shape`.

        `_instance` is for subclasses with an __init__ of their own: a fresh instance to fill in. Raises
        NotImplementedError for such a class without an `expand` of its own."""
        owner = next((c for c in type(self).__mro__ if "_parameters" in c.__dict__), Distribution)
        if owner is Distribution:
            raise NotImplementedError
        new = self._get_checked_instance(owner, _instance)
        new._fill_expanded(self, Size(batch_shape))
        Distribution.__init__(new, Size(batch_shape), self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _fill_expanded(self, source: Any, batch_shape: Size) -> None:
        """Set this instance's attributes to those of `source`, expanded. Families with other attributes extend it."""
        arg_constraints = source.arg_constraints
        for name in source._parameters:
            if name in source.__dict__:
                value = source.__dict__[name]
                event_dim = arg_constraints[name].event_dim if name in arg_constraints else 0
                setattr(self, name, value.expand(batch_shape + value.shape[value.dim() - event_dim :]))
        for name in source._inner:
            setattr(self, name, getattr(source, name).expand(batch_shape))
        for name in source._copied:
            setattr(self, name, getattr(source, name))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A fresh instance of this class to fill in, or `_instance`."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    # ---- what a family declares ------------------------------------------------------------------------------------

    arg_constraints: Any = unknown("The constraints of the parameters, by name.")
    support: Any = unknown("The constraint that samples satisfy.")
    mean: Any = unknown("The mean: batch_shape + event_shape.")
    variance: Any = unknown("The variance: batch_shape + event_shape.")
    mode: Any = unknown("The value of the greatest probability: batch_shape + event_shape.", "{} does not implement mode")
    stddev: Any = formula(lambda d: d.variance.sqrt(), "The standard deviation: batch_shape + event_shape.")

    # ---- its formulas, at checked values ---------------------------------------------------------------------------

    def _evaluate(self, density: Any, value: Any) -> Tensor:
        """A formula at a value, which is validated first if validation is on. Raises NotImplementedError for None."""
        if density is None:
            raise NotImplementedError
        if self._validate_args:
            self._validate_sample(value)
        return density(value)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at `value`: its shape, broadcast, without the event's
        dimensions."""
        return self._evaluate(self._log_density, value)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of samples up to `value`."""
        return self._evaluate(self._cumulative, value)

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: the quantile of the probability `value`."""
        if self._quantile is None:
            raise NotImplementedError
        return self._quantile(value)

    def entropy(self) -> Tensor:
        """The entropy in nats: batch_shape."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy): batch_shape."""
        return self.entropy().exp()

    # ---- samples ---------------------------------------------------------------------------------------------------

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples as differentiable functions of the parameters: sample_shape + batch_shape + event_shape."""
        if self._draw is None:
            raise NotImplementedError
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples without a gradient: sample_shape + batch_shape + event_shape."""
        with torch.no_grad():
            if self._pick is None:
                return self.rsample(sample_shape)
            return self._pick(self._extended_shape(sample_shape))

    def sample_n(self, n: int) -> Tensor:
        """n samples. Deprecated: `sample((n,))`."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension: (n,) + batch_shape + event_shape, or
        with the batch's dimensions of size 1 if not `expand`."""
        if self._outcomes is None:
            raise NotImplementedError
        outcomes = self._outcomes()
        count, event = outcomes.shape[:1], outcomes.shape[1:]
        outcomes = outcomes.reshape(count + (1,) * len(self._batch_shape) + event)
        return outcomes.expand(count + self._batch_shape + event) if expand else outcomes

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = ", ".join(f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in given.items())
        return f"{type(self).__name__}({shown})"

"""The Kullback-Leibler divergence of two distributions, by rules for pairs of families.

The rules are in `kl_same` (two of one family) and `kl_cross` (of two families). Stands on the base of distributions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Tensor]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable[..., Tensor] | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """A decorator: the function(p, q) is the rule for distributions of these classes and their subclasses.

    The rule of the nearest classes is taken; where two are equally near, register one for the pair. The classes need not
    derive from Distribution: libraries have bases of their own. Raises TypeError for what is no class."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError("issubclass() arg 1 must be a class")

    def decorator(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _steps(kind: type, base: type) -> int:
    """How far a base is above a class; one that only counts as a base by its metaclass is above all."""
    return kind.__mro__.index(base) if base in kind.__mro__ else len(kind.__mro__)


def _rule(type_p: type, type_q: type) -> Callable[..., Tensor] | None:
    """The rule for the nearest classes: first those nearest to p, of them that nearest to q. A warning says if that
    isn't the one that is nearest to q first."""
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return None

    def distance(pair: tuple[type, type]) -> tuple[int, int]:
        return _steps(type_p, pair[0]), _steps(type_q, pair[1])

    of_p = min(pairs, key=distance)
    of_q = min(pairs, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[of_p] is not _KL_REGISTRY[of_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({of_p[0].__name__}, {of_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[of_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log p(x) - log q(x) over x of p: batch_shape, broadcast. Raises NotImplementedError for a pair
    without a rule."""
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _rule(*key)
    function = _KL_MEMOIZE[key]
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return function(p, q)

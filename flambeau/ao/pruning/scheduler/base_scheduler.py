"""What schedulers of sparsity have in common. Stands on sparsifier.base_sparsifier."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any

from flambeau.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


def _counting(step: Any) -> Any:
    """A sparsifier's step that counts its calls; it holds the sparsifier weakly, which holds it."""
    if getattr(step, "_with_counter", False):
        return step
    owner, function = weakref.ref(step.__self__), step.__func__

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        sparsifier: Any = owner()
        sparsifier._step_count += 1
        return function(sparsifier, *args, **kwargs)

    counted._with_counter = True  # type: ignore[attr-defined]
    return counted


class BaseScheduler:
    """Sets the `sparsity_level` of a sparsifier's groups at each step; classes say in `get_sl` to what.

    last_epoch: the epoch before the first; verbose: print each change. TypeError for what is no sparsifier.
    """

    def __init__(self, sparsifier: Any, last_epoch: int = -1, verbose: bool = False) -> None:
        self.sparsifier: Any = sparsifier
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"{type(sparsifier).__name__} is not an instance of torch.ao.pruning.BaseSparsifier")
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        self.sparsifier.step, self.sparsifier._step_count = _counting(self.sparsifier.step), 0
        self._step_count, self.verbose = 0, verbose
        self._get_sl_called_within_step = False
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the sparsifier."""
        return {key: value for key, value in vars(self).items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict gave."""
        vars(self).update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels that the last step has set."""
        return self._last_sl

    def _warn_outside_of_step(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn("To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.", stacklevel=3)

    def get_sl(self) -> list[float]:
        """The levels of the groups at `last_epoch`."""
        self._warn_outside_of_step()
        raise NotImplementedError

    def print_sl(self, is_verbose: bool, group: Any, sl: float, epoch: int | None = None) -> None:
        """Print a change, if is_verbose."""
        if is_verbose:
            text = f"djusting sparsity level of group {group} to {sl:.4e}."
            print(f"A{text}" if epoch is None else f"Epoch {epoch:5d}: a{text}")

    def __repr__(self) -> str:
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def step(self, epoch: int | None = None) -> None:
        """Set the levels of the next epoch. Warns if the sparsifier hasn't made a step since the first."""
        if self._step_count == 1:
            if not hasattr(self.sparsifier.step, "_with_counter"):
                warnings.warn(
                    "Seems like `sparsifier.step()` has been overridden after sparsity scheduler initialization. Please, make "
                    "sure to call `sparsifier.step()` before `scheduler.step()`.",
                    UserWarning,
                    stacklevel=2,
                )
            elif self.sparsifier._step_count < 1:
                warnings.warn(
                    "Detected call of `scheduler.step()` before `sparsifier.step()`. You have to make sure you run the "
                    "sparsifier.step() BEFORE any calls to the scheduler.step().",
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        self.last_epoch += 1
        self._get_sl_called_within_step = True
        try:
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for number, (group, level) in enumerate(zip(self.sparsifier.groups, levels)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """One value for each group. ValueError for a list of another length."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, list | tuple):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)

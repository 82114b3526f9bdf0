"""The base of learning-rate schedulers: counting, writing rates into an optimizer, warnings about the order of calls.

Stands on optimizer.py; every scheduler derives from `LRScheduler`.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError for something that is not an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(value: Any) -> Any:
    """A value that later in-place changes of an option, which may be a tensor, leave alone."""
    return value.clone() if isinstance(value, Tensor) else value


def option_of_groups(optimizer: Optimizer, key: str) -> list[Any]:
    """Copies of an option of every parameter group."""
    return [value if (value := group[key]).__class__ is float else copied(value) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor stays the same object, because others may hold it."""
    if group[key].__class__ is not float and isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def per_group(optimizer: Optimizer, name: str, value: Any) -> list[Any]:
    """`value` for every group: copies of its elements if it is a list or tuple, else of itself.

    Raises:
        ValueError: a list of another length than there are groups.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return [copied(each) for each in value]


def cycles_beta1(optimizer: Optimizer) -> bool:
    """Whether the optimizer's momentum is its first beta.

    Raises:
        ValueError: it has neither betas nor momentum.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def set_momentum(group: dict[str, Any], value: Any, use_beta1: bool) -> None:
    """Set the momentum, or the first beta, of a group."""
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _track_steps(optimizer: Optimizer) -> None:
    """Wrap `optimizer.step` so that a scheduler can tell whether it has been called."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return

    # held weakly, or an optimizer that had a scheduler would keep its memory until the garbage collector finds it
    optimizer.step = _tracked(getattr(step, "__func__", None) or step, weakref.ref(optimizer))  # type: ignore[method-assign]


def _tracked(step: Callable, reference: weakref.ref) -> Callable:
    """`step`, a function of the optimizer's class or of nothing, that says that it was called."""
    bound = isinstance(reference(), Optimizer) and hasattr(type(reference()), step.__name__)

    @functools.wraps(step)
    def tracked(*args: Any, **kwargs: Any) -> Any:
        owner: Any = reference()
        owner._opt_called = True
        return step(owner, *args, **kwargs) if bound else step(*args, **kwargs)

    tracked._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    return tracked


class LRScheduler:
    """Base class of schedulers, which set the learning rates of an optimizer after each epoch or step.

    Subclasses give `get_lr`, the rates at `last_epoch`, usually from the present ones, and perhaps
    `_get_closed_form_lr`, the same from `base_lrs` alone.

    Args:
        optimizer: its groups' "lr" is set, and "initial_lr" remembered.
        last_epoch: the last epoch run, to resume; -1 to start.

    Raises:
        TypeError: not an optimizer.
        KeyError: resumed with an optimizer whose groups have no "initial_lr".
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    # attributes that state_dict leaves out
    _not_saved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", copied(group["lr"]))
        else:
            for number, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                        "last_epoch >= 0.\nThis typically happens when:\n"
                        "1. You're trying to resume training from a checkpoint but haven't properly loaded the "
                        "optimizer state\n"
                        "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                    )
        self.base_lrs: list[Any] = option_of_groups(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, as a dict."""
        return {key: value for key, value in self.__dict__.items() if key not in self._not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates last set, one per parameter group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates at `last_epoch`, one per parameter group; for `step` alone to call."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch and set its rates. `epoch`, to jump to, is deprecated."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn if the optimizer's step does not come before the scheduler's."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. " + _SEE,
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure "
                "to do this will result in PyTorch skipping the first value of the learning rate schedule. " + _SEE,
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form: Callable[[], list[Any]] = getattr(self, "_get_closed_form_lr", self.get_lr)
                rates = closed_form()
        finally:
            self._get_lr_called_within_step = False
        self._write(rates)

    def _write(self, rates: list[Any]) -> None:
        """Set the groups' rates and remember them."""
        for group, rate in zip(self.optimizer.param_groups, rates):
            set_option(group, "lr", rate)
        self._last_lr: list[Any] = option_of_groups(self.optimizer, "lr")

    def _warn_unless_stepping(self) -> None:
        """For `get_lr` to call: outside `step` it advances a rate that is already the present one."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning, stacklevel=3
            )

    def _lrs(self) -> list[Any]:
        """The present rates."""
        return option_of_groups(self.optimizer, "lr")


class _LRScheduler(LRScheduler):
    """The former name of LRScheduler, for subclasses that still use it."""

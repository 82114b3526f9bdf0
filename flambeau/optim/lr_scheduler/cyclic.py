"""Schedulers that change rate and momentum after every batch, in cycles or in one. Stands on base.py."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

from flambeau.optim.lr_scheduler.base import LRScheduler, check_optimizer, cycles_beta1, per_group, set_momentum, set_option
from flambeau.optim.optimizer import Optimizer


class CyclicLR(LRScheduler):
    """Between base_lr and max_lr in triangles, while the momentum goes the other way.

    Args:
        base_lr, max_lr: the lowest rate and the highest of an unscaled cycle; a number or one per group.
        step_size_up, step_size_down: steps of the rising and of the falling half (as many as up, unless given).
        mode: "triangular"; "triangular2", whose height is halved after each cycle; "exp_range", whose height is
            gamma ** step.
        scale_fn, scale_mode: instead of a mode, a function of the "cycle" or of the number of "iterations".
        cycle_momentum: whether momentum (or beta1) goes between max_momentum and base_momentum.

    Raises:
        ValueError: an unknown mode, lists of the wrong length, an optimizer without momentum.
    """

    _not_saved = ("optimizer", "_scale_fn_ref")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                set_option(group, "lr", lr)
        self.max_lrs = per_group(optimizer, "max_lr", max_lr)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = cycles_beta1(optimizer)
            self.base_momentums = per_group(optimizer, "base_momentum", base_momentum)
            self.max_momentums = per_group(optimizer, "max_momentum", max_momentum)
            if last_epoch == -1:
                for highest, lowest, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups):
                    set_momentum(group, highest, self.use_beta1)
                    group["max_momentum"] = highest
                    group["base_momentum"] = lowest
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self._scale_fn_ref: Callable[[float], float]
        if self.mode == "exp_range":
            self._scale_fn_ref = functools.partial(self._exp_range_scale_fn, self.gamma)
            self.scale_mode = "iterations"
        else:
            is_halved = self.mode == "triangular2"
            self._scale_fn_ref = self._triangular2_scale_fn if is_halved else self._triangular_scale_fn
            self.scale_mode = "cycle"

    def scale_fn(self, x: float) -> float:
        """The height of a cycle: of cycle number or step `x`, by scale_mode."""
        return self._scale_fn_custom(x) if self._scale_fn_custom is not None else self._scale_fn_ref(x)

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        position = 1.0 + self.last_epoch / self.total_size - cycle
        if position <= self.step_ratio:
            height = position / self.step_ratio
        else:
            height = (position - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [base + (highest - base) * height * scale for base, highest in zip(self.base_lrs, self.max_lrs)]
        if self.cycle_momentum:
            for lowest, highest, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups):
                set_momentum(group, highest - (highest - lowest) * height * scale, self.use_beta1)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a scale_fn, the attributes if it is an object that has some."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None
        if function is not None and not isinstance(function, types.FunctionType):
            state["_scale_fn_custom"] = function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        attributes = state_dict["_scale_fn_custom"]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        self._init_scale_fn()


class OneCycleLR(LRScheduler):
    """Up to max_lr and then far down in one cycle of total_steps steps, while the momentum goes the other way.

    Args:
        max_lr: the highest rate; a number or one per group.
        total_steps: steps of the cycle; or else
        epochs, steps_per_epoch: their product is.
        pct_start: the share of steps that rise.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether momentum (or beta1) goes between max_momentum and base_momentum.
        base_momentum, max_momentum: a number or one per group.
        div_factor: max_lr over the first rate.
        final_div_factor: the first rate over the last.
        three_phase: fall back to the first rate as fast as the rise, and then to the last.

    Raises:
        ValueError: no number of steps, or one out of range; stepping further than total_steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = self._phases(float(pct_start * self.total_steps), three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group(optimizer, "max_lr", max_lr)
        if last_epoch == -1:
            for highest, group in zip(max_lrs, optimizer.param_groups):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = cycles_beta1(optimizer)
            max_momentums = per_group(optimizer, "max_momentum", max_momentum)
            base_momentums = per_group(optimizer, "base_momentum", base_momentum)
            if last_epoch == -1:
                for highest, lowest, group in zip(max_momentums, base_momentums, optimizer.param_groups):
                    set_momentum(group, highest, self.use_beta1)
                    group["max_momentum"] = highest
                    group["base_momentum"] = lowest
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        def check(name: str, value: int) -> None:
            if value <= 0 or not isinstance(value, int):
                raise ValueError(f"Expected positive integer {name}, but got {value}")

        if total_steps is not None:
            check("total_steps", total_steps)
            return total_steps
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        check("epochs", epochs)
        check("steps_per_epoch", steps_per_epoch)
        return epochs * steps_per_epoch

    def _phases(self, rising: float, three_phase: bool) -> list[dict[str, Any]]:
        """Each phase's last step and the groups' options it goes between."""

        def phase(end: float, lrs: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
            return {
                "end_step": end,
                "start_lr": lrs[0],
                "end_lr": lrs[1],
                "start_momentum": momenta[0],
                "end_momentum": momenta[1],
            }

        lower, raise_ = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
        first = phase(rising - 1, ("initial_lr", "max_lr"), lower)
        end = self.total_steps - 1
        if not three_phase:
            return [first, phase(end, ("max_lr", "min_lr"), raise_)]
        return [
            first,
            phase(2 * rising - 2, ("max_lr", "initial_lr"), raise_),
            phase(end, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
        ]

    def _anneal_func(self, start: float, end: float, share: float) -> float:
        kind = getattr(self, "_anneal_func_type", None)
        if kind is None:  # a state of PyTorch before 2.1 has the function itself
            return self.anneal_func(start, end, share)  # type: ignore[attr-defined]
        return (self._annealing_cos if kind == "cos" else self._annealing_linear)(start, end, share)

    @staticmethod
    def _annealing_cos(start: float, end: float, share: float) -> float:
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    @staticmethod
    def _annealing_linear(start: float, end: float, share: float) -> float:
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"]:
                break
            if phase is not self._schedule_phases[-1]:
                start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal_func(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                set_momentum(group, momentum, self.use_beta1)
        return rates

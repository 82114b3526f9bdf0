"""GradScaler: multiplies a loss so that half-precision gradients do not vanish, and skips steps whose gradients overflow.

Stands on the tensor API and on optimizers' `param_groups` and `step`.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer is within an iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, unscales gradients before a step, and adapts the scale.

    Args:
        device: "cuda" or "cpu".
        init_scale: the first scale.
        growth_factor: what the scale is multiplied by after growth_interval steps without overflow.
        backoff_factor: what it is multiplied by after an overflow.
        growth_interval: steps.
        enabled: if False, every method passes its arguments on.

    Warns:
        UserWarning: device is "cuda", which there is none of; the scaler is disabled.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not flambeau.cuda.is_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        assert growth_factor > 1.0, "The growth factor must be > 1.0."
        assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale = init_scale
        # made by the first `scale`, on the device of what it scales
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        for name in ("_scale", "_growth_tracker"):
            assert getattr(self, name) is not None, (
                f"Attempted {funcname} but {name} is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker  # type: ignore[return-value]

    def _lazy_init_scale_growth_tracker(self, device: Any) -> None:
        assert self._growth_tracker is None, "_growth_tracker initialized before _scale"
        self._scale = flambeau.full((), self._init_scale, dtype=flambeau.float32, device=device)
        self._growth_tracker = flambeau.full((), self._init_growth_tracker, dtype=flambeau.int32, device=device)

    def scale(self, outputs: Any) -> Any:
        """`outputs`, a tensor or (nested) iterables of tensors, times the scale.

        Raises:
            ValueError: something that is neither.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(device=outputs.device)  # type: ignore[union-attr]
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool) -> dict[Any, Tensor]:
        """Multiply all gradients by `inv_scale`; by device, `found_inf` or 1.0 if one of them was not finite."""
        found: dict[Any, Tensor] = {}
        with flambeau.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is None:
                        continue
                    if not allow_fp16 and gradient.dtype == flambeau.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if gradient.is_sparse:
                        # several entries of one element may overflow only together
                        if gradient.dtype is flambeau.float16:
                            parameter.grad = gradient = gradient.coalesce()
                        gradient = gradient._values()
                    flag = found.setdefault(gradient.device, found_inf.to(gradient.device, copy=True))
                    if not flambeau.isfinite(gradient).all():
                        flag.fill_(1.0)
                    gradient.mul_(inv_scale.to(gradient.device))
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, e.g. to clip them before `step`.

        Raises:
            RuntimeError: a second time since the last `update`, or after `step`.
            ValueError: the gradients are float16.
        """
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        assert self._scale is not None
        # the quotient in double precision is exact for scales that are no powers of two, too
        inverse = self._scale.double().reciprocal().float()
        found_inf = flambeau.full((), 0.0, dtype=flambeau.float32, device=self._scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if sum(flag.item() for flag in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients unless `unscale_` has, and step unless one of them is infinite or NaN.

        Returns:
            What optimizer.step(*args, **kwargs) returned; None if the step was skipped.

        Raises:
            RuntimeError: a second time since the last `update`; with a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, state, *args, **kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            assert state["found_inf_per_device"], "No inf checks were recorded for this optimizer."
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_that_unscales(self, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Step an optimizer of the user's that unscales and skips by itself."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the "
                "near future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed "
                "optimizer and let the optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        assert self._scale is not None
        flags = list(state["found_inf_per_device"].values())
        optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else self._scale
        optimizer.found_inf = sum(flags[1:], flags[0]) if flags else flambeau.zeros(())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale, once per iteration after all steps, or set it to `new_scale`.

        Raises:
            AssertionError: nothing was scaled or unscaled since the last call; new_scale is no single float.
        """
        if not self._enabled:
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if isinstance(new_scale, float):
                scale.fill_(new_scale)
            else:
                reason = (
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                    "requires_grad=False."
                )
                assert new_scale.device.type == self._device, reason
                assert new_scale.numel() == 1, reason
                assert new_scale.requires_grad is False, reason
                scale.copy_(new_scale.reshape(()))
        else:
            flags = [flag for state in self._per_optimizer_states.values() for flag in state["found_inf_per_device"].values()]
            assert flags, "No inf checks were recorded prior to update."
            self._adapt(scale, growth_tracker, any(flag.item() for flag in flags))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _adapt(self, scale: Tensor, growth_tracker: Tensor, overflowed: bool) -> None:
        if overflowed:
            scale.mul_(self._backoff_factor)
            growth_tracker.zero_()
            return
        successes = int(growth_tracker.item()) + 1
        if successes == self._growth_interval:
            grown = scale * self._growth_factor
            # a scale that overflows itself would never come back
            if flambeau.isfinite(grown):
                scale.copy_(grown)
            successes = 0
        growth_tracker.fill_(successes)

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The present scale; 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps without overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps without overflow the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, its factors and the count of steps since it last changed; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            RuntimeError: it is empty, because the scaler that saved it was disabled.
        """
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            assert len(self._per_optimizer_states) == 0, (
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
            )
            # as numbers, which the next `scale` makes tensors of wherever it runs
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = None
            state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Look for infinities without unscaling."""
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one = flambeau.full((), 1.0, dtype=flambeau.float32, device=scale.device)
        found_inf = flambeau.full((), 0.0, dtype=flambeau.float32, device=scale.device)
        found = self._unscale_grads_(optimizer, one, found_inf, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

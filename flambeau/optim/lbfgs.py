"""Limited-memory BFGS with an optional strong-Wolfe line search. Stands on optimizer.py and wolfe.py."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import Closure, Optimizer, ParamsT
from flambeau.optim.pointwise import check
from flambeau.optim.wolfe import strong_wolfe

__all__ = ["LBFGS"]

# a pair of differences enters the history only if the curvature along it is above this
LEAST_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """Limited-memory BFGS: a quasi-Newton method over all parameters as one vector.

    Args:
        params: tensors, in a single group.
        lr: step length (with a line search, the length it starts from).
        max_iter: iterations per step.
        max_eval: evaluations of the closure per step; 1.25 max_iter unless given.
        tolerance_grad: stop when no gradient is larger.
        tolerance_change: stop when neither the loss nor a parameter changes by more.
        history_size: how many pairs of differences are remembered.
        line_search_fn: "strong_wolfe" or None.

    Raises:
        ValueError: a negative rate; more than one parameter group.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check(lr=lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    # ------------------------------------------------------------ the parameters as one vector
    def _flat_gradient(self) -> Tensor:
        parts = []
        for parameter in self._params:
            gradient = parameter.grad
            if gradient is None:
                part = parameter.new_zeros(parameter.numel())
            else:
                part = (gradient.to_dense() if gradient.is_sparse else gradient).reshape(-1)
            parts.append(flambeau.view_as_real(part).reshape(-1) if part.is_complex() else part)
        return flambeau.cat(parts, 0)

    def _move(self, length: Any, direction: Tensor) -> None:
        """Add length * direction to the parameters."""
        offset = 0
        for parameter in self._params:
            target = flambeau.view_as_real(parameter) if parameter.is_complex() else parameter
            count = target.numel()
            target.add_(direction[offset : offset + count].view_as(target), alpha=length)
            offset += count

    def step(self, closure: Closure) -> Any:  # type: ignore[override]
        """Run up to max_iter iterations. `closure` clears the gradients, computes the loss and its gradients.

        Returns:
            The loss at the start, as `closure` returned it.
        """
        with flambeau.no_grad():
            return self._step(closure)

    def _step(self, closure: Closure) -> Any:
        group = self.param_groups[0]
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        tolerance_change = group["tolerance_change"]
        # one state for all parameters, under the first one, so that state_dict finds it
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate() -> Any:
            with flambeau.enable_grad():
                return closure()

        first_loss = evaluate()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        gradient = self._flat_gradient()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = gradient.clone()
            else:
                state["prev_flat_grad"].copy_(gradient)
            state["prev_loss"] = previous_loss = loss
            # the first direction is the gradient itself, whose length says nothing of the step
            length = min(1.0, 1.0 / gradient.abs().sum()) * lr if state["n_iter"] == 1 else lr
            state["d"], state["t"] = direction, length
            slope = gradient.dot(direction)
            if slope > -tolerance_change:
                break
            calls = 0
            is_flat = False
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                loss, gradient, length, calls = self._search(evaluate, length, direction, loss, gradient, slope)
                state["t"] = length
                self._move(length, direction)
                is_flat = bool(gradient.abs().max() <= group["tolerance_grad"])
            else:
                self._move(length, direction)
                # the next step's first evaluation would repeat the one after the last iteration
                if iteration != group["max_iter"]:
                    loss = float(evaluate())
                    gradient = self._flat_gradient()
                    is_flat = bool(gradient.abs().max() <= group["tolerance_grad"])
                    calls = 1
            evaluations += calls
            state["func_evals"] += calls
            if (
                evaluations >= group["max_eval"]
                or is_flat
                or direction.mul(length).abs().max() <= tolerance_change
                or abs(loss - previous_loss) < tolerance_change
            ):
                break
        return first_loss

    def _search(
        self, evaluate: Closure, length: Any, direction: Tensor, loss: float, gradient: Tensor, slope: Tensor
    ) -> tuple[float, Tensor, Any, int]:
        start = [parameter.clone(memory_format=flambeau.contiguous_format) for parameter in self._params]

        def at(distance: Any) -> tuple[float, Tensor]:
            self._move(distance, direction)
            value = float(evaluate())
            flat = self._flat_gradient()
            for parameter, saved in zip(self._params, start):
                parameter.copy_(saved)
            return value, flat

        return strong_wolfe(at, length, direction, loss, gradient, slope)

    @staticmethod
    def _direction(state: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
        """The direction of descent at `gradient`, after taking the last step into the history."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return gradient.neg()
        differences, moves, inverse_curvatures = state["old_dirs"], state["old_stps"], state["ro"]
        difference = gradient.sub(state["prev_flat_grad"])
        move = state["d"].mul(state["t"])
        curvature = difference.dot(move)
        if curvature > LEAST_CURVATURE:
            if len(differences) == history_size:
                for memory in (differences, moves, inverse_curvatures):
                    memory.pop(0)
            differences.append(difference)
            moves.append(move)
            inverse_curvatures.append(1.0 / curvature)
            state["H_diag"] = curvature / difference.dot(difference)
        # the two-loop recursion: the inverse Hessian's product with the gradient, from the history alone
        weights = state.setdefault("al", [None] * history_size)
        direction = gradient.neg()
        for i in range(len(differences) - 1, -1, -1):
            weights[i] = moves[i].dot(direction) * inverse_curvatures[i]
            direction.add_(differences[i], alpha=-weights[i])
        direction.mul_(state["H_diag"])
        for i in range(len(differences)):
            weight = differences[i].dot(direction) * inverse_curvatures[i]
            direction.add_(moves[i], alpha=weights[i] - weight)
        return direction

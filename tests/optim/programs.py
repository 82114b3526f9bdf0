"""Small training runs that take the implementation as an argument, so that flambeau and PyTorch can run the same.

Used by test_trajectories.py and by record.py, which keeps PyTorch's results in recorded.json.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"weight_decay": 0.1, "maximize": True},
    ],
    "Adam": [
        {},
        {"weight_decay": 0.1},
        {"amsgrad": True},
        {"decoupled_weight_decay": True, "weight_decay": 0.1, "maximize": True},
        {"betas": (0.3, 0.6)},
    ],
    "AdamW": [{}, {"amsgrad": True}],
    "Adamax": [{}, {"weight_decay": 0.1, "maximize": True}],
    "NAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1}, {"betas": (0.9, 0.9), "decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RMSprop": [{}, {"centered": True}, {"momentum": 0.9}, {"momentum": 0.9, "centered": True, "weight_decay": 0.1}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 1.0)}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5, "maximize": True}],
    "Adadelta": [{}, {"weight_decay": 0.1, "rho": 0.5}],
    "ASGD": [{}, {"t0": 10, "lambd": 0.01, "weight_decay": 0.1}],
    "Adafactor": [{}, {"weight_decay": 0.1, "maximize": True}, {"eps": (1e-3, 1e-2), "d": 2.0}],
}

SCHEDULERS: dict[str, tuple[str, dict[str, Any]]] = {
    "step": ("StepLR", {"step_size": 4}),
    "multistep": ("MultiStepLR", {"milestones": [3, 3, 9]}),
    "constant": ("ConstantLR", {}),
    "linear": ("LinearLR", {"end_factor": 0.5}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "polynomial": ("PolynomialLR", {"total_iters": 12, "power": 2.0}),
    "cosine": ("CosineAnnealingLR", {"T_max": 6, "eta_min": 0.01}),
    "restarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    "cyclic": ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5}),
    "cyclic2": ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "triangular2"}),
    "cyclic_range": ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    "one_cycle": ("OneCycleLR", {"max_lr": 0.2, "total_steps": 25}),
    "one_cycle3": (
        "OneCycleLR",
        {"max_lr": 0.2, "epochs": 5, "steps_per_epoch": 5, "three_phase": True, "anneal_strategy": "linear"},
    ),
}


def train(torch: Any, name: str, options: dict[str, Any], steps: int = 30) -> list[float]:
    """All parameter values after some steps; a parameter has no gradient now and then."""
    shapes = [(3, 4), (5,), ()]
    total = 0
    parameters, targets = [], []
    for shape in shapes:
        count = math.prod(shape)
        values = torch.tensor([math.sin(1.7 * (total + i)) for i in range(count)], dtype=torch.float32)
        parameters.append(values.reshape(shape).clone().requires_grad_())
        targets.append(torch.tensor([math.cos(0.9 * (total + i)) for i in range(count)]).reshape(shape))
        total += count
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.02}]
    optimizer = getattr(torch.optim, name)(groups, **copy.deepcopy(options))
    for step in range(steps):
        optimizer.zero_grad()
        loss = sum((((j + 1) * p - t) ** 2).sum() for j, (p, t) in enumerate(zip(parameters, targets)))
        (loss / 10).backward()
        if step % 7 == 3:
            parameters[1].grad = None
        optimizer.step()
    return [value for p in parameters for value in p.detach().reshape(-1).tolist()]


def train_lbfgs(torch: Any, line_search: str | None) -> list[float]:
    """Two parameters of Rosenbrock's function after steps of LBFGS, and the losses on the way."""
    point = torch.tensor([-1.2, 1.0], dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS([point], lr=1 if line_search else 0.002, max_iter=6, line_search_fn=line_search)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(4)]
    return losses + point.tolist()


def schedule(torch: Any, key: str, momentum: bool = True, start: int | None = None, jump: bool = False) -> list[float]:
    """Rates and momenta of 24 epochs; resumed at `start`, or with one jump to an epoch."""
    name, options = SCHEDULERS[key]
    parameters = [torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)]
    groups = [{"params": [p], "lr": 0.1 * (i + 1)} for i, p in enumerate(parameters)]
    optimizer = torch.optim.SGD(groups, momentum=0.9) if momentum else torch.optim.Adam(groups)
    if start is not None:
        getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
        options = {**options, "last_epoch": start}
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
        for epoch in range(25 - (start or 0) - 2):
            rows += [float(group["lr"]) for group in optimizer.param_groups] + scheduler.get_last_lr()
            rows += [g["momentum"] if momentum else g["betas"][0] for g in optimizer.param_groups]
            optimizer.step()
            if jump and epoch == 8:
                scheduler.step(11)
            else:
                scheduler.step()
    return [float(value) for value in rows]


def results(torch: Any) -> dict[str, list[float]]:
    """Every run by name."""
    runs = {f"{name} {options}": train(torch, name, options) for name, all_ in OPTIMIZERS.items() for options in all_}
    for line_search in (None, "strong_wolfe"):
        runs[f"LBFGS {line_search}"] = train_lbfgs(torch, line_search)
    for key in SCHEDULERS:
        runs[f"{key}"] = schedule(torch, key)
        runs[f"{key} beta"] = schedule(torch, key, momentum=False)
        runs[f"{key} resumed"] = schedule(torch, key, start=4)
        if not key.startswith("one"):
            runs[f"{key} jump"] = schedule(torch, key, jump=True)
    return runs

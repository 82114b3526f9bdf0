"""Steps of training with what may change around them between two calls. Made twice, one of which is captured: both must agree."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(4, 6), nn.Linear(6, 3), nn.BatchNorm1d(6)
        self.drop, self.scale = nn.Dropout(0.3), nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        return self.second(self.drop(F.relu(self.norm(self.first(x))))) * self.scale


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(x.unsqueeze(1))[0][:, -1])


class Block(nn.Module):
    """A block of a small transformer, its tokens made of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attend, self.out = nn.Embedding(5, 8), nn.Linear(8, 24), nn.Linear(8, 3)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        h = self.embed((x.abs() * 2).long().clamp(max=4))
        q, k, v = self.attend(self.norm(h)).split(8, dim=2)
        heads = [t.view(*t.shape[:2], 2, 4).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).contiguous().view(h.shape)
        return self.out((h + y).mean(1))


class Training:
    """A net, an optimizer and a step; `function` is called, or captured, with a batch."""

    def __init__(self, net: type[nn.Module], optimizer: Callable[[Any], Any], kind: str) -> None:
        self.net = net()
        self.parameters = list(self.net.parameters())  # the first ones, for changes that come back to them
        self.optimizer = optimizer(self.net.parameters())
        self.clip, self.to_none, self.weight, self.hooks = 0.5, True, 1.0, []
        self.function = getattr(self, kind)
        self.kind = kind

    def _loss(self, x: Any, y: Any) -> Any:
        return F.mse_loss(self.net(x), y) * self.weight

    def forward(self, x: Any, y: Any) -> Any:
        """The loss alone: its gradients are computed outside."""
        return self._loss(x, y)

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad(set_to_none=self.to_none)
        loss = self._loss(x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.step()
        return loss.detach(), norm

    def accumulating(self, x: Any, y: Any) -> Any:
        """Gradients are added to those that are there, and forgotten at the end."""
        loss = self._loss(x, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.to_none)
        return loss

    def update(self, *batch: Any) -> Any:
        """The optimizer's step alone."""
        return self.optimizer.step()

    def gradients(self, x: Any, y: Any) -> Any:
        wanted = [p for p in self.net.parameters() if p.requires_grad]
        return torch.autograd.grad(self._loss(x, y), wanted, allow_unused=True)

    def call(self, function: Any, x: Any, y: Any) -> Any:
        """A call of the function and, for a part of a step, of what belongs to it."""
        if self.kind == "update":
            self._loss(x, y).backward()
        result = function(x, y)
        if self.kind == "forward":
            result.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return result

    def seen(self) -> list[Any]:
        """All that a call may have changed."""
        names = list(self.net.state_dict().items())
        kept: list[Any] = [(name, x, x._version) for name, x in names]
        for p in [*self.net.parameters(), *self.parameters]:
            kept += [p.requires_grad, p._version, p.grad, None if p.grad is None else (p.grad._version, p.grad.grad_fn is None)]
            kept.append(sorted(self.optimizer.state.get(p, {}).items(), key=lambda each: each[0]))
        return [*kept, torch.is_grad_enabled()]


def _any_parameter(t: Training, r: Any) -> Any:
    return r.choice(t.parameters)


def _written_option(t: Training, r: Any) -> None:
    lr = t.optimizer.param_groups[0]["lr"]
    if isinstance(lr, torch.Tensor):
        lr.mul_(0.9)


def _option(name: str, make: Callable[[Any], Any]) -> Callable[[Training, Any], None]:
    def change(t: Training, r: Any) -> None:
        value = make(r)
        if name in t.optimizer.param_groups[0]:
            t.optimizer.param_groups[0][name] = value

    return change


def _hook(t: Training, r: Any) -> None:
    if t.hooks:
        t.hooks.pop().remove()
        return
    p = _any_parameter(t, r)
    if p.requires_grad:
        register = r.choice([p.register_hook, p.register_post_accumulate_grad_hook])
        t.hooks.append(register(lambda g: g * 2 if g is not p else p.grad.mul_(0.5) and None))


def _forward_hook(t: Training, r: Any) -> None:
    t.hooks.append(next(t.net.children()).register_forward_hook(lambda module, args, result: result))


def _step_hook(t: Training, r: Any) -> None:
    t.hooks.append(t.optimizer.register_step_post_hook(lambda o, args, kwargs: None))


def _gradient(t: Training, r: Any) -> None:
    p = _any_parameter(t, r)
    other_strides = torch.randn(*p.shape[::-1]).permute(*reversed(range(p.ndim)))
    p.grad = r.choice([None, torch.randn(p.shape), torch.zeros(p.shape), other_strides])


def _shared_gradient(t: Training, r: Any) -> None:
    p, q = _any_parameter(t, r), _any_parameter(t, r)
    if p.shape == q.shape:
        p.grad = q.grad


def _written_gradient(t: Training, r: Any) -> None:
    p = _any_parameter(t, r)
    if p.grad is not None:
        p.grad.mul_(0.5)


def _wanting_gradient(t: Training, r: Any) -> None:
    p = _any_parameter(t, r)
    if p.grad is not None:
        p.grad.requires_grad_()


def _counter(t: Training, r: Any) -> None:
    state = t.optimizer.state.get(_any_parameter(t, r), {})
    if "step" in state:
        r.choice([lambda: state["step"].add_(2), lambda: state.update(step=torch.tensor(3.0))])()


def _all_counters(t: Training, r: Any) -> None:
    for state in t.optimizer.state.values():
        if "step" in state:
            state["step"].fill_(7.0)


def _forgotten(t: Training, r: Any) -> None:
    r.choice([t.optimizer.state.clear, lambda: t.optimizer.state.pop(_any_parameter(t, r), None)])()


def _loaded(t: Training, r: Any) -> None:
    if set(t.optimizer.state) <= set(t.optimizer.param_groups[0]["params"]):
        t.optimizer.load_state_dict(t.optimizer.state_dict())


def _swapped(t: Training, r: Any) -> None:
    name, child = r.choice([(n, c) for n, c in t.net.named_children() if isinstance(c, nn.Linear)])
    setattr(t.net, name, nn.Linear(child.in_features, child.out_features))
    if r.random() < 0.5:
        t.optimizer.param_groups[0]["params"] = list(t.net.parameters())


def _data(t: Training, r: Any) -> None:
    p = _any_parameter(t, r)
    if r.random() < 0.5:
        p.data = torch.randn(p.shape)
    else:
        p.data.mul_(0.9)


def _in_a_thread(t: Training, r: Any) -> None:
    thread = threading.Thread(target=lambda: t.call(t.function, torch.ones(5, 4), torch.ones(5, 3)))
    thread.start()
    thread.join()


def _patched(t: Training, r: Any) -> None:
    if "_loss" in t.__dict__:
        del t._loss
    else:
        t._loss = lambda x, y: F.l1_loss(t.net(x), y)  # type: ignore[method-assign]


CHANGES: list[Callable[[Training, Any], Any]] = [
    _option("lr", lambda r: r.choice([0.1, 0.01, 0.003, 1, torch.tensor(0.05)])),
    _option("lr", lambda r: r.random() * 0.1),
    _written_option,
    _option("momentum", lambda r: r.choice([0.9, 0.5, 0, 0.0])),
    _option("weight_decay", lambda r: r.choice([0, 0.1, 0.01])),
    _option("betas", lambda r: (r.choice([0.9, 0.8]), 0.99)),
    _option("eps", lambda r: r.choice([1e-8, 1e-3])),
    _option("maximize", lambda r: r.random() < 0.3),
    lambda t, r: _any_parameter(t, r).requires_grad_(r.random() < 0.6),
    lambda t, r: t.net.requires_grad_(True),
    lambda t, r: setattr(t, "clip", r.choice([0.5, 0.1, 2])),
    lambda t, r: setattr(t, "to_none", r.random() < 0.6),
    lambda t, r: setattr(t, "weight", r.choice([1.0, 2.0, 0.5])),
    lambda t, r: t.net.train(not t.net.training),
    lambda t, r: t.optimizer.zero_grad(set_to_none=r.random() < 0.5),
    lambda t, r: t.optimizer.param_groups[0]["params"].reverse(),
    lambda t, r: torch.set_num_threads(r.choice([1, 2])),
    _hook,
    _forward_hook,
    _step_hook,
    _gradient,
    _shared_gradient,
    _written_gradient,
    _wanting_gradient,
    _counter,
    _all_counters,
    _forgotten,
    _loaded,
    _swapped,
    _data,
    _in_a_thread,
    _patched,
]


def _of_two_groups(parameters: Any) -> Any:
    """Weights decay, biases don't, as in most programs that train transformers."""
    each = list(parameters)
    groups = [{"params": [p for p in each if p.ndim > 1], "weight_decay": 0.1}, {"params": [p for p in each if p.ndim < 2]}]
    return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.0)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "groups": _of_two_groups,
    "tensors": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), betas=(torch.tensor(0.9), torch.tensor(0.99))),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01, betas=(0.9, 0.9)),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, lr_decay=0.1),
}
KINDS = ("forward", "step", "accumulating", "update", "gradients")
NETS = (Net, Recurrent, Block)

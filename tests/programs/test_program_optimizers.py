"""Programs about optimizers and learning rate schedulers; the figures are PyTorch's."""

from copy import deepcopy

import pytest
from implementation import torch

nn, optim = torch.nn, torch.optim
schedulers = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: optim.SGD(p, lr=0.05), [0.795245, -0.3192, 2.877475]),
        (lambda p: optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4), [0.874646, -0.805542, 2.93455]),
        (lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True), [0.844953, -0.573218, 2.916534]),
        (lambda p: optim.Adam(p, lr=0.1, betas=(0.9, 0.999), eps=1e-8), [0.527815, -1.502225, 2.502225]),
        (lambda p: optim.AdamW(p, lr=0.1, betas=(0.9, 0.95), weight_decay=0.1), [0.488991, -1.413569, 2.364767]),
        (lambda p: optim.RMSprop(p, lr=0.05), [0.5, -0.607855, 1.607855]),
        (lambda p: optim.Adagrad(p, lr=0.5), [0.5, -0.613459, 1.613459]),
    ],
    ids=["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad"],
)
def test_five_steps_on_a_parabola(make, expected):
    w = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = make([w])
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((w - 0.5) ** 2 * torch.tensor([1.0, 2.0, 0.1])).sum()
        loss.backward()
        optimizer.step()
    assert w.tolist() == pytest.approx(expected, abs=2e-6)


def test_groups_have_their_own_rates():
    backbone, head = nn.Linear(2, 2), nn.Linear(2, 1)
    groups = [{"params": backbone.parameters(), "lr": 1e-5}, {"params": head.parameters(), "lr": 1e-3}]
    optimizer = optim.AdamW(groups, weight_decay=0.01)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-5, 1e-3]
    assert all(group["weight_decay"] == 0.01 and group["betas"] == (0.9, 0.999) for group in optimizer.param_groups)


def test_state_survives_a_round_trip():
    def steps(w, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            (w**2).sum().backward()
            optimizer.step()

    w = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = optim.Adam([w], lr=0.1)
    steps(w, optimizer, 3)
    copy = nn.Parameter(w.detach().clone())
    restored = optim.Adam([copy], lr=0.5)
    restored.load_state_dict(deepcopy(optimizer.state_dict()))  # a state dict holds the tensors themselves
    steps(w, optimizer, 3)
    steps(copy, restored, 3)
    assert torch.equal(w, copy) and restored.param_groups[0]["lr"] == 0.1
    assert set(optimizer.state_dict()["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}


def test_a_closure_returns_the_loss():
    w = nn.Parameter(torch.tensor([3.0]))
    optimizer = optim.LBFGS([w], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = ((w - 1) ** 2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4 and w.item() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: schedulers.StepLR(o, step_size=3, gamma=0.1), [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001]),
        (
            lambda o: schedulers.CosineAnnealingLR(o, T_max=8),
            [0.1, 0.09619398, 0.08535534, 0.06913417, 0.05, 0.03086583, 0.01464466, 0.00380602, 0.0],
        ),
        (
            lambda o: schedulers.OneCycleLR(o, max_lr=0.3, total_steps=10),
            [0.012, 0.156, 0.3, 0.28514539, 0.2435237, 0.18337861, 0.11662259, 0.0564775, 0.01485581, 1.2e-06],
        ),
        (lambda o: schedulers.LinearLR(o, start_factor=0.1, total_iters=4), [0.01, 0.0325, 0.055, 0.0775, 0.1, 0.1]),
        (
            lambda o: schedulers.SequentialLR(
                o,
                [schedulers.LinearLR(o, start_factor=0.1, total_iters=3), schedulers.CosineAnnealingLR(o, T_max=5)],
                milestones=[3],
            ),
            [0.01, 0.04, 0.07, 0.1, 0.09045085, 0.06545085, 0.03454915, 0.00954915],
        ),
        (lambda o: schedulers.LambdaLR(o, lambda epoch: 0.5**epoch), [0.1, 0.05, 0.025, 0.0125]),
        (lambda o: schedulers.ExponentialLR(o, 0.9), [0.1, 0.09, 0.081, 0.0729]),
        (lambda o: schedulers.MultiStepLR(o, [2, 4], 0.1), [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]),
    ],
    ids=["step", "cosine", "one_cycle", "linear", "sequential", "lambda", "exponential", "multi_step"],
)
# Chaining schedulers makes PyTorch warn of its own calls.
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step:UserWarning")
@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")
def test_scheduled_rates(make, expected):
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = make(optimizer)
    rates = []
    for _ in expected:
        rates.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == [rates[-1]]
        optimizer.step()
        if len(rates) < len(expected):
            scheduler.step()
    assert rates == pytest.approx(expected, abs=1e-8)


def test_plateau():
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = schedulers.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    rates = []
    for loss in [1, 0.9, 0.95, 0.93, 0.92, 0.91, 0.91, 0.5, 0.6]:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(loss)
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.025])


def test_scheduler_state_survives_a_round_trip():
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = schedulers.CosineAnnealingLR(optimizer, T_max=8)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    other = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    restored = schedulers.CosineAnnealingLR(other, T_max=8)
    other.load_state_dict(optimizer.state_dict())
    restored.load_state_dict(scheduler.state_dict())
    for each, its_optimizer in ((scheduler, optimizer), (restored, other)):
        its_optimizer.step()
        each.step()
    assert restored.get_last_lr() == scheduler.get_last_lr() == pytest.approx([0.05])

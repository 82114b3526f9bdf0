"""Optimizer's own behaviour: groups, hooks, state dicts, pickles, closures, refusals, in PyTorch's words."""

import copy
import pickle

import pytest

import flambeau as torch
from flambeau.optim import LBFGS, SGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Muon, Optimizer, Rprop, SparseAdam
from flambeau.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook, required


def parameter(*shape):
    return torch.nn.Parameter(torch.ones(*(shape or (2, 2))))


def stepped(kind=Adam, **options):
    p = parameter()
    optimizer = kind([p], **options)
    p.grad = torch.ones(2, 2)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SGD([]), ValueError, "optimizer got an empty parameter list"),
        (
            lambda: SGD(parameter()),
            TypeError,
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor",
        ),
        (lambda: SGD([parameter() * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda: SGD(["a"]), TypeError, "optimizer can only optimize Tensors, but one of the params is str"),
        (lambda: SGD([parameter()], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda: SGD([parameter()], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
        (lambda: Adam([parameter()], betas=(0.9, 1.0)), ValueError, "Invalid beta parameter at index 1: 1.0"),
        (lambda: Adam([parameter()], lr=torch.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (
            lambda: Adam([parameter()], lr=torch.tensor(0.1), foreach=True),
            ValueError,
            "lr as a Tensor is not supported for capturable=False and foreach=True",
        ),
        (
            lambda: Adam([parameter()], betas=(torch.tensor(0.1), 0.9)),
            ValueError,
            "betas must be either both floats or both Tensors",
        ),
        (lambda: Adam([parameter()], fused=True, foreach=True), RuntimeError, "`fused` and `foreach` cannot be `True` together."),
        (
            lambda: stepped(capturable=True),
            AssertionError,
            "If capturable=True, params and state_steps must be on supported devices: "
            "['cuda', 'xpu', 'hpu', 'privateuseone', 'xla'].",
        ),
        (lambda: Adadelta([parameter()], rho=2.0), ValueError, "Invalid rho value: 2.0"),
        (lambda: Rprop([parameter()], etas=(1.5, 2.0)), ValueError, "Invalid eta values: 1.5, 2.0"),
        (lambda: Adafactor([parameter()], d=0.5), ValueError, "Clipping threshold d should be >= 1 but is: 0.5"),
        (
            lambda: Muon([parameter(3)]),
            ValueError,
            "Muon only supports 2D parameters whereas we found a parameter with size: torch.Size([3])",
        ),
        (
            lambda: LBFGS([{"params": [parameter()]}, {"params": [parameter()]}]),
            ValueError,
            "LBFGS doesn't support per-parameter options (parameter groups)",
        ),
        (lambda: stepped(SparseAdam), RuntimeError, "SparseAdam does not support dense gradients, please consider Adam instead"),
        (
            lambda: Optimizer([parameter()], {"lr": required}),
            ValueError,
            "parameter group didn't specify a value of required optimization parameter lr",
        ),
        (
            lambda: SGD([("a", parameter()), parameter()]),
            ValueError,
            "all optimizer params should be with/without names. Some param names are missing",
        ),
        (lambda: SGD([parameter()]).add_param_group([1]), TypeError, "param_group must be a dict, but got <class 'list'>"),
        (
            lambda: SGD([parameter()]).load_state_dict(SGD([parameter(), parameter()]).state_dict()),
            ValueError,
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        ),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


def test_duplicates():
    p = parameter()
    with pytest.warns(UserWarning, match="duplicate parameters; in future, this will cause an error"):
        SGD([p, p])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        SGD([{"params": [p]}, {"params": [p]}])


def test_repr():
    assert repr(Optimizer([parameter()], {"b": 2, "a": 1})) == "Optimizer (\nParameter Group 0\n    a: 1\n    b: 2\n)"


def test_default_options():
    assert list(AdamW([parameter()]).param_groups[0].items())[1:] == [
        ("lr", 1e-3),
        ("betas", (0.9, 0.999)),
        ("eps", 1e-8),
        ("weight_decay", 1e-2),
        ("amsgrad", False),
        ("maximize", False),
        ("foreach", None),
        ("capturable", False),
        ("differentiable", False),
        ("fused", None),
        ("decoupled_weight_decay", True),
    ]


def test_hooks_and_their_order():
    calls = []
    handles = [
        register_optimizer_step_pre_hook(lambda *_: calls.append("all before")),
        register_optimizer_step_post_hook(lambda *_: calls.append("all after")),
    ]
    optimizer = SGD([parameter()])
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert calls == ["all before", "before", "after", "all after", "before", "after"]


def test_pre_hook_replaces_arguments():
    optimizer = SGD([parameter()])
    optimizer.register_step_pre_hook(lambda self, args, kwargs: ((self, lambda: 7.0), {}))
    assert optimizer.step() == 7.0
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3\."):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = SGD([parameter()])
    order = []
    optimizer.register_state_dict_post_hook(lambda *_: order.append("a"))
    optimizer.register_state_dict_post_hook(lambda *_: order.append("b"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda self, state: {"x": 1})
    assert optimizer.state_dict() == {"x": 1} and order == ["b", "a"]


def test_state_dict_round_trip_casts():
    source, target = stepped(), stepped()
    state = copy.deepcopy(source.state_dict())
    state["state"][0]["exp_avg"] = torch.full((2, 2), 5.0, dtype=torch.float64)
    state["state"][0]["step"] = torch.tensor(3.0, dtype=torch.float64)
    target.load_state_dict(state)
    loaded = target.state_dict()["state"][0]
    assert loaded["exp_avg"].dtype == torch.float32 and loaded["exp_avg"].tolist() == [[5.0] * 2] * 2
    assert loaded["step"].dtype == torch.float64  # a counter keeps its dtype
    assert list(loaded) == ["step", "exp_avg", "exp_avg_sq"]


def test_old_state_dicts():
    optimizer = Adam([parameter()])
    optimizer.load_state_dict({"state": {0: {"step": 3}}, "param_groups": [{"params": [0]}]})
    assert optimizer.param_groups[0]["amsgrad"] is False
    assert [state["step"].item() for state in optimizer.state.values()] == [3.0]


def test_names():
    named = SGD([("a", parameter()), ("b", parameter(3))])
    assert named.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]


def test_sgd_without_momentum_keeps_no_state():
    assert len(stepped(SGD).state) == 0
    assert list(next(iter(stepped(SGD, momentum=0.9).state.values()))) == ["momentum_buffer"]


def test_adagrad_has_state_from_the_start():
    state = next(iter(Adagrad([parameter()], initial_accumulator_value=2.0).state.values()))
    assert state["sum"].tolist() == [[2.0, 2.0], [2.0, 2.0]] and state["step"].item() == 0


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_go_on(copier):
    optimizer = stepped()
    twin = copier(optimizer)
    (p,) = twin.param_groups[0]["params"]
    assert p is not optimizer.param_groups[0]["params"][0]
    p.grad = torch.ones(2, 2)
    twin.step()
    assert twin.state[p]["step"].item() == 2


def test_zero_grad():
    optimizer = stepped()
    (p,) = optimizer.param_groups[0]["params"]
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    optimizer.zero_grad()
    assert p.grad is None


def test_closure_runs_with_gradients():
    p = parameter()
    optimizer = SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_tensor_lr_is_read_at_every_step():
    p = parameter()
    lr = torch.tensor(0.5)
    optimizer = SGD([p], lr=lr)
    p.grad = torch.ones(2, 2)
    optimizer.step()
    lr.fill_(0.25)
    optimizer.step()
    assert p.tolist() == [[0.25, 0.25], [0.25, 0.25]]


@pytest.mark.parametrize("kind", [SGD, Adam, Adagrad, Adadelta])
def test_differentiable(kind):
    start = torch.ones(3, dtype=torch.float64, requires_grad=True)
    p = start.clone()
    optimizer = kind([p], lr=0.1, differentiable=True)
    gradient = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    p.grad = gradient
    optimizer.step()
    (sensitivity,) = torch.autograd.grad(p.sum(), start)
    assert sensitivity.tolist() == [1.0, 1.0, 1.0]


def test_complex_is_two_reals():
    z = torch.tensor([1.0 + 2.0j, -1.0j]).requires_grad_()
    pairs = torch.tensor([[1.0, 2.0], [0.0, -1.0]]).requires_grad_()
    for p, gradient in ((z, torch.tensor([0.5 - 1.0j, 2.0 + 0.0j])), (pairs, torch.tensor([[0.5, -1.0], [2.0, 0.0]]))):
        p.grad = gradient
        Adam([p], lr=0.1).step()
    assert torch.view_as_real(z.detach()).tolist() == pairs.tolist()


def test_swap_in():
    p, q = parameter(), parameter()
    optimizer = Adam([p])
    p.grad = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="requires initialized optimizer state"):
        with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, optimizer.state_dict()):
            pass
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    before = p.tolist()
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, state):
        q.grad = torch.ones(2, 2)
        optimizer.step()
    assert p.tolist() == before and q.tolist() != [[1.0, 1.0], [1.0, 1.0]]
    assert state["state"][0]["step"].item() == 2 and optimizer.state[p]["step"].item() == 1


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_fused_steps_are_for_real_numbers(kind):
    parameter = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    parameter.grad = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=r"floating point Tensors of supported devices: .* but torch\.complex64 and cpu"):
        getattr(torch.optim, kind)([parameter], lr=0.1, fused=True).step()


@pytest.mark.parametrize(("kind", "devices"), [("Adam", "'privateuseone', 'xla'"), ("Adadelta", "'hpu', 'privateuseone'")])
def test_the_devices_that_capture(kind, devices):
    parameter = torch.ones(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    with pytest.raises(AssertionError, match=rf"{devices}\]\.$"):
        getattr(torch.optim, kind)([parameter], capturable=True).step()


def test_the_helpers_that_other_optimizers_import() -> None:
    from flambeau.optim.optimizer import _default_to_fused_or_foreach, _get_capturable_supported_devices

    assert _get_capturable_supported_devices() == ["cuda", "xpu", "hpu", "privateuseone", "xla"]
    assert _get_capturable_supported_devices(supports_xla=False) == ["cuda", "xpu", "hpu", "privateuseone"]
    params = [torch.nn.Parameter(torch.ones(2))]
    assert _default_to_fused_or_foreach(params, False, True) == (True, False)
    assert _default_to_fused_or_foreach(params, True, True) == _default_to_fused_or_foreach(params, False) == (False, False)
    a, b, c = torch.ones(1), torch.ones(2, dtype=torch.float64), torch.zeros(1)
    group = torch.optim.Optimizer._group_tensors_by_device_and_dtype
    cpu = torch.device("cpu")
    assert group([[a, b, c]], True) == {(cpu, torch.float32): ([[a, c]], [0, 2]), (cpu, torch.float64): ([[b]], [1])}
    assert group([[a, b], [c, None]]) == {
        (cpu, torch.float32): ([[a], [c]], []), (cpu, torch.float64): ([[b], [None]], []),
    }  # fmt: skip
    with pytest.raises(RuntimeError, match=r"Expected !nested_tensorlist\.empty"):
        group([])


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.Adam(p, lr=0.9, differentiable=True, amsgrad=True),
    lambda p: torch.optim.AdamW(p, lr=0.9, differentiable=True, amsgrad=True),
    lambda p: torch.optim.NAdam(p, lr=0.9, differentiable=True),
])  # fmt: skip
def test_the_states_take_part_in_a_differentiable_step(make):
    torch.manual_seed(0)
    names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "mu_product")
    values = {name: torch.rand(() if name == "mu_product" else 4, dtype=torch.float64) for name in names}

    def stepped(*given):
        parameter = torch.ones(4, dtype=torch.float64, requires_grad=True).clone()
        parameter.grad = torch.full((4,), 0.3, dtype=torch.float64)
        optimizer = make([parameter])
        state = {"step": torch.tensor(10.0, dtype=torch.float64), **{name: x.clone() for name, x in zip(names, given)}}
        optimizer.state[parameter].update(state)
        optimizer.step()
        return parameter

    inputs = [x.requires_grad_() for x in values.values()]
    if make([torch.ones(1)]).__class__ is not torch.optim.NAdam:
        inputs[3].requires_grad_(False)
    else:
        inputs[2].requires_grad_(False)
    assert torch.autograd.gradcheck(stepped, inputs)

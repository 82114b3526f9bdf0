"""Module: registration, hooks, state_dict, conversion, copying, printing."""

import copy
import gc
import pickle
import sys
import types
import warnings
from collections import OrderedDict

import pytest

import flambeau as torch
from flambeau import nn


class Pair(nn.Module):
    """Two layers and a buffer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1)
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.second(self.first(x))


def test_assignment_registers():
    pair = Pair()
    assert [name for name, _ in pair.named_parameters()] == [
        "first.weight", "first.bias", "second.weight", "second.bias",
    ]  # fmt: skip
    assert [name for name, _ in pair.named_buffers()] == ["steps", "scratch"]
    assert list(pair.state_dict()) == ["steps", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [name for name, _ in pair.named_modules()] == ["", "first", "second"]


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda m: setattr(m, "weight", 3), TypeError,
         "cannot assign 'int' as parameter 'weight' (torch.nn.Parameter or None expected)"),
        (lambda m: m.add_module("a.b", nn.ReLU()), KeyError, 'module name can\'t contain ".", got: a.b'),
        (lambda m: m.register_buffer("weight", None), KeyError, "attribute 'weight' already exists"),
        (lambda m: m.register_buffer("", None), KeyError, 'buffer name can\'t be empty string ""'),
        (lambda m: m.missing, AttributeError, "'Linear' object has no attribute 'missing'"),
        (lambda m: m.get_submodule("a"), AttributeError, "Linear has no attribute `a`"),
        (lambda m: m.to(torch.int32), TypeError,
         "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32"),
        (lambda m: m.load_state_dict(3), TypeError, "Expected state_dict to be dict-like, got <class 'int'>."),
    ],
)  # fmt: skip
def test_errors(action, error, message):
    with pytest.raises(error) as caught:
        action(nn.Linear(4, 2))
    assert caught.value.args[0] == message


def test_assignment_before_init():
    class Late(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Late()


def test_shared_parameters_are_listed_once():
    layer = nn.Linear(2, 2)
    layer.again = layer.weight
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert len(list(layer.named_parameters(remove_duplicate=False))) == 3


def test_forward_hooks_order_and_removal():
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_pre_hook(lambda module, args: seen.append("pre"))
    handle = layer.register_forward_hook(lambda module, args, output: seen.append("post"))
    layer.register_forward_hook(lambda module, args, output: seen.append("first"), prepend=True)
    layer(torch.ones(2))
    handle.remove()
    layer(torch.ones(2))
    assert seen == ["pre", "first", "post", "pre", "first"]


def test_forward_hook_replaces_output_and_sees_kwargs():
    class Scale(nn.Module):
        def forward(self, x, *, by=1):
            return x * by

    scale = Scale()
    scale.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    scale.register_forward_hook(lambda m, args, kwargs, output: output + kwargs["by"], with_kwargs=True)
    assert scale(torch.ones(1), by=2).item() == 6


def test_always_call_hook_runs_after_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    fails, seen = Fails(), []
    fails.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    with pytest.raises(ValueError, match="no"):
        fails(1)
    assert seen == [None]


def test_full_backward_hooks_see_and_change_gradients():
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 0,))
    x = torch.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    (grad_input,), (grad_output,) = seen[0]
    assert grad_output.tolist() == [[2.0, 2.0, 2.0]]
    assert torch.allclose(grad_input, 2 * layer.weight.detach().sum(0, keepdim=True))
    assert x.grad.tolist() == [[0.0, 0.0]]


def test_full_backward_hook_without_input_gradient():
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer(torch.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_load_state_dict_reports_everything():
    pair = Pair()
    state = pair.state_dict()
    state["first.weight"] = torch.zeros(5, 5)
    del state["steps"]
    state["other"] = torch.zeros(1)
    with pytest.raises(RuntimeError) as caught:
        pair.load_state_dict(state)
    assert str(caught.value) == (
        'Error(s) in loading state_dict for Pair:\n\tMissing key(s) in state_dict: "steps". \n\t'
        'Unexpected key(s) in state_dict: "other". \n\tsize mismatch for first.weight: copying a param with shape '
        "torch.Size([5, 5]) from checkpoint, the shape in current model is torch.Size([3, 2])."
    )


def test_load_state_dict_round_trip_and_assign():
    source, target = Pair(), Pair()
    assert repr(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert torch.equal(source.first.weight, target.first.weight)
    state = source.state_dict()
    target.load_state_dict(state, assign=True)
    assert isinstance(target.first.weight, nn.Parameter)
    assert target.first.weight.data_ptr() == source.first.weight.data_ptr()


def test_state_dict_hooks_and_metadata():
    layer = nn.BatchNorm1d(2)
    layer.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.pop(prefix + "bias"))
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()
    assert nn.BatchNorm1d(2).state_dict()._metadata == OrderedDict({"": {"version": 2}})


def test_extra_state():
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self):
            return self.count

        def set_extra_state(self, state):
            self.count = state

    counter = Counter()
    counter.load_state_dict({"_extra_state": 7})
    assert counter.state_dict() == {"_extra_state": 7}


def test_conversion_keeps_parameter_objects_and_integers():
    layer = nn.BatchNorm1d(2)
    weight = layer.weight
    layer.double()
    assert layer.weight is weight
    assert weight.dtype == torch.float64
    assert layer.num_batches_tracked.dtype == torch.int64


def test_copy_and_pickle():
    pair = Pair()
    for other in (copy.deepcopy(pair), pickle.loads(pickle.dumps(nn.Linear(2, 2)))):
        assert all(isinstance(parameter, nn.Parameter) for parameter in other.parameters())
    other = copy.deepcopy(pair)
    assert other.first.weight is not pair.first.weight
    assert torch.equal(other.first.weight, pair.first.weight)


def test_parameter_repr_and_type():
    parameter = nn.Parameter(torch.ones(2))
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert type(parameter * 2) is torch.Tensor
    assert not isinstance(torch.ones(1), nn.Parameter)
    assert isinstance(nn.Buffer(torch.ones(1)), nn.Buffer)


def test_zero_grad_train_and_requires_grad():
    pair = Pair()
    pair(torch.ones(1, 2)).sum().backward()
    pair.zero_grad(set_to_none=False)
    assert pair.first.weight.grad.abs().sum().item() == 0
    pair.zero_grad()
    assert pair.first.weight.grad is None
    assert not pair.eval().first.training
    assert not any(parameter.requires_grad for parameter in pair.requires_grad_(False).parameters())


def test_repr():
    model = nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.ReLU(), nn.ReLU()]))
    assert repr(model) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ModuleList(\n    (0-1): 2 x ReLU()\n  )\n)"
    )


def test_containers():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    model.insert(1, nn.Tanh())
    del model[0]
    assert [name for name, _ in model.named_children()] == ["0", "1"]
    assert len(model + model) == 4
    modules = nn.ModuleDict({"a": nn.ReLU()})
    modules.update({"b": nn.Tanh()})
    assert list(modules) == ["a", "b"]
    parameters = nn.ParameterList([torch.ones(2), 3])
    assert isinstance(parameters[0], nn.Parameter)
    assert list(parameters.state_dict()) == ["0"]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        model[5]


def test_apply_of_a_module_that_overrides_it_with_one_argument():
    class Keeps(nn.Module):
        def _apply(self, fn):
            return super()._apply(fn)

    outer, inner = nn.Module(), Keeps()
    outer.inner, inner.linear = inner, nn.Linear(2, 2)
    assert outer.double().inner.linear.weight.dtype is torch.float64


def test_register_buffer_without_persistent_in_a_subclass():
    class Plain(torch.nn.Module):
        def __init__(self, persistent):
            super().__init__()
            self.kept = torch.nn.Buffer(torch.zeros(2), persistent=persistent)

        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    assert list(Plain(True).state_dict()) == ["kept"]
    with pytest.raises(RuntimeError, match="non-persistent buffer on a Module subclass that implements register_buffer"):
        Plain(False)


def test_functional_call_leaves_out_a_parameter_that_is_none():
    layer = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    assert torch.func.functional_call(layer, {"bias": None}, x).equal(x @ layer.weight.mT)
    assert torch.func.functional_call(layer, {"other": None}, x).equal(layer(x))


def test_tables_of_global_hooks_can_be_replaced(monkeypatch):
    module = torch.nn.modules.module
    seen = []
    monkeypatch.setattr(module, "_global_forward_hooks", OrderedDict())
    handle = module.register_module_forward_hook(lambda *given: seen.append(type(given[0])), always_call=True)
    assert list(module._global_forward_hooks) == list(module._global_forward_hooks_always_called) == [handle.id]
    torch.nn.Sigmoid()(torch.ones(1))
    monkeypatch.setattr(module, "_global_forward_hooks", OrderedDict())
    torch.nn.Tanh()(torch.ones(1))
    assert seen == [torch.nn.Sigmoid]
    handle.remove()
    assert not module._global_forward_hooks_always_called


def test_a_buffer_does_not_replace_an_attribute():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.taken = 5
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.child = torch.nn.Linear(1, 1)

    module = Named()
    with pytest.raises(KeyError, match="attribute 'taken' already exists"):
        module.taken = torch.nn.Buffer(torch.ones(1))
    for name, kind in (("weight", "parameter"), ("child", "child module")):
        with pytest.raises(TypeError, match=f"cannot assign 'torch.FloatTensor' as {kind} '{name}'"):
            setattr(module, name, torch.nn.Buffer(torch.ones(1)))


@pytest.mark.parametrize("arguments", [("cpu", True), ("cpu", "double"), ("cpu", True, True), ("cpu", 1)])
def test_forms_of_to_that_there_are_not(arguments):
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \(str, "):
        torch.nn.Linear(1, 1).to(*arguments)


def test_functional_call_with_a_parameter_that_the_module_lacks():
    class Listing(torch.nn.Linear):
        def forward(self, x):
            return [name for name, _ in self.named_parameters()], "extra" in vars(self)

    layer = Listing(1, 1)
    extra = torch.nn.Parameter(torch.ones(1))
    assert torch.func.functional_call(layer, {"extra": extra}, (None,)) == (["weight", "bias", "extra"], False)
    assert torch.func.functional_call(layer, {"extra": extra.detach()}, (None,)) == (["weight", "bias"], True)
    assert not hasattr(layer, "extra")
    layer.scale = 2.0
    with pytest.raises(TypeError, match=r"attribute `scale`: 2.0 is not an instance of torch.Tensor"):
        torch.func.functional_call(layer, {"scale": torch.ones(1)}, (None,))


def test_load_state_dict_leaves_no_cycle():
    gc.collect()
    layer = torch.nn.Linear(2, 2)
    layer.load_state_dict(layer.state_dict())
    assert gc.collect() == 0


def test_pickles_name_a_function_by_its_place_where_its_name_is_taken(monkeypatch):
    rebuild = torch.nn.Parameter(torch.ones(2)).__reduce_ex__(2)[0]
    for name in ("__module__", "__qualname__"):
        monkeypatch.setattr(rebuild, name, getattr(rebuild, name))
    other = types.ModuleType(rebuild.__module__)
    other._rebuild_parameter = other._rebuild_tensor_v2 = print
    with monkeypatch.context() as within:
        inner = torch.ones(2).__reduce_ex__(2)[0]
        for name in ("__module__", "__qualname__"):
            within.setattr(inner, name, getattr(inner, name))
        within.setitem(sys.modules, rebuild.__module__, other)
        content = pickle.dumps(torch.nn.Parameter(torch.ones(2)))
        assert b"parameter" in content and pickle.loads(content).tolist() == [1, 1]


def test_module_tracker_tells_a_backward_pass():
    from flambeau.utils.module_tracker import ModuleTracker

    seen = []
    with ModuleTracker() as tracker:
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda gradient: seen.append(tracker.is_bw))
        torch.nn.Linear(2, 2)(x).sum().backward()
        assert tracker.is_bw and seen == [True]  # until another module is called


@pytest.mark.parametrize("arguments", [([],), ({},), (None, True)])
def test_to_takes_no_containers(arguments):
    with pytest.raises(TypeError):
        torch.nn.Linear(1, 1).to(*arguments)
    with pytest.raises(TypeError):
        torch.nn.Linear(1, 1).to(*arguments[:1], non_blocking=3)

"""Fake tensors: shapes, strides, dtypes, devices and gradients without data, and what needs data raises PyTorch's exceptions."""

from __future__ import annotations

import copy
import threading

import pytest
from implementation import torch

from flambeau._guards import active_fake_mode, detect_fake_mode
from flambeau._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    unset_fake_temporarily,
)

MIXING = "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'."


@pytest.fixture
def mode() -> FakeTensorMode:
    return FakeTensorMode()


def test_a_fake_tensor_says_everything_but_values(mode):
    real = torch.randn(4, 6, dtype=torch.float64)[:, 1:3].t()
    fake = mode.from_tensor(real)
    assert type(fake) is FakeTensor and isinstance(fake, torch.Tensor)
    assert (fake.shape, fake.stride(), fake.dtype, fake.storage_offset()) == ((2, 4), (1, 6), torch.float64, 1)
    assert fake.device == torch.device("cpu") == fake.fake_device and fake.is_cpu and not fake.is_meta
    assert fake.fake_mode is mode and fake.untyped_storage().nbytes() == 4 * 6 * 8
    assert repr(fake) == "FakeTensor(..., size=(2, 4), dtype=torch.float64)"
    parameter = mode.from_tensor(torch.nn.Parameter(torch.ones(3)))
    assert repr(parameter) == "Parameter(FakeTensor(..., size=(3,), requires_grad=True))"


def test_operators_on_fake_tensors_give_fake_tensors_also_outside_of_the_mode(mode):
    x = mode.from_tensor(torch.randn(2, 3))
    y = torch.softmax((x @ x.t()).exp().half(), -1)
    assert type(y) is FakeTensor and y.shape == (2, 2) and y.dtype is torch.float16 and y.device.type == "cpu"
    assert type(torch.zeros_like(x)) is type(x.new_ones(5)) is FakeTensor
    assert x.cpu() is x and x.to("cpu") is x
    on_meta = x.to("meta")
    assert repr(on_meta) == "FakeTensor(..., device='meta', size=(2, 3))" and on_meta.to("cpu").device.type == "cpu"
    assert type(torch.ones(2)) is torch.Tensor


def test_factories_in_the_mode(mode):
    with mode:
        made = [
            torch.empty(2),
            torch.zeros(2, device="cpu"),
            torch.rand(2),
            torch.arange(3),
            torch.tensor([1.0]),
            torch.eye(2),
            torch.Tensor(2, 3),
            torch.full((2,), 3),
            torch.nn.Linear(2, 3).weight,
            torch.randint(3, (2,)),
        ]
        assert torch.get_default_device() == torch.device("cpu")
        meta = torch.ones(2, device="meta")
    assert {type(x) for x in made} == {FakeTensor} and {x.device.type for x in made} == {"cpu"}
    assert type(meta) is FakeTensor and meta.is_meta


def test_the_mode_is_of_one_thread(mode):
    found = []
    with mode:
        thread = threading.Thread(target=lambda: found.append(type(torch.ones(2) + 1)))
        thread.start()
        thread.join()
    assert found == [torch.Tensor]


def test_a_tensor_has_one_fake_and_views_share_theirs(mode):
    base = torch.randn(6)
    view, alias = base.view(2, 3), base.detach()
    fake = mode.from_tensor(base)
    assert mode.from_tensor(base) is fake
    seen = mode.from_tensor(view)
    assert seen._base is fake and seen.untyped_storage()._cdata == fake.untyped_storage()._cdata
    assert mode.from_tensor(alias).untyped_storage()._cdata == fake.untyped_storage()._cdata
    version = fake._version
    seen.add_(1)
    assert fake._version == version + 1


def test_gradients(mode):
    layer = torch.nn.Linear(3, 4)
    weight, x = mode.from_tensor(layer.weight), mode.from_tensor(torch.randn(2, 3, requires_grad=True))
    assert isinstance(weight, torch.nn.Parameter) and weight.requires_grad and weight.is_leaf
    torch.nn.functional.linear(x, weight).relu().sum().backward()
    assert type(weight.grad) is FakeTensor and weight.grad.shape == (4, 3) and x.grad.shape == (2, 3)
    result = mode.from_tensor((layer.weight * 2).t())
    assert result.requires_grad and not result.is_leaf and result.stride() == (1, 3)


def test_a_model_trains_without_data(mode):
    with mode:
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 5)
        )
        optimizer = torch.optim.AdamW(model.parameters())
        loss = torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 8, 8)), torch.randint(5, (2,)))
        loss.backward()
        optimizer.step()
    assert all(type(p) is FakeTensor and type(p.grad) is FakeTensor and p.grad.shape == p.shape for p in model.parameters())


@pytest.mark.parametrize(
    "call", [lambda x: x.item(), bool, float, int, lambda x: [1, 2][x.long()], lambda x: x.tolist(), lambda x: 1 if x > 0 else 2]
)
def test_values_are_not_to_be_had(mode, call):
    with pytest.raises(DataDependentOutputException) as raised:
        call(mode.from_tensor(torch.tensor(1.0)))
    assert str(raised.value) == "aten._local_scalar_dense.default"
    assert raised.value.func is torch.ops.aten._local_scalar_dense.default


@pytest.mark.parametrize("call", [lambda x: x.numpy(), lambda x: __import__("numpy").asarray(x)])
def test_there_is_no_array(mode, call):
    with pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported for tensor subclasses\."):
        call(mode.from_tensor(torch.ones(2)))


def test_values_that_the_program_wrote_are_known(mode):
    with mode:
        number = torch.tensor(5.0)
        assert number.item() == 5.0 and number.constant.item() == 5.0
        assert (torch.tensor(3) + 1).item() == 4
        number.add_(1)
        assert number.item() == 6.0
        number.add_(torch.rand(()))
        assert number.constant is None
        with pytest.raises(DataDependentOutputException):
            number.item()


def test_real_tensors_are_refused_in_the_mode(mode):
    real, fake = torch.ones(2, 3), mode.from_tensor(torch.ones(2, 3))
    with mode, pytest.raises(AssertionError) as raised:
        real + fake
    assert str(raised.value) == (f"{MIXING} Found in aten.add.Tensor(tensor([...], size=(2, 3)), FakeTensor(..., size=(2, 3)))")
    with mode, pytest.raises(AssertionError, match=r"Found in aten.view.default\(tensor\(\[...\], size=\(2, 3\)\), \[6\]\)"):
        real.view(6)
    for call in (lambda: fake + real, lambda: real @ fake.t(), lambda: fake.copy_(real)):
        with pytest.raises(AssertionError) as raised:
            call()
        assert str(raised.value).startswith(MIXING)
    with mode:
        assert real.shape == (2, 3) and real.size(0) == 2 and "1." in repr(real)


def test_two_modes_dont_mix(mode):
    with pytest.raises(AssertionError, match="Mixing fake modes NYI"):
        mode.from_tensor(torch.ones(2)) + FakeTensorMode().from_tensor(torch.ones(2))


def test_real_tensors_may_be_allowed():
    real = torch.ones(2, 3)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert type(real + real) is type(real @ torch.ones(3, 2)) is FakeTensor


def test_which_mode_is_on(mode):
    fake = mode.from_tensor(torch.ones(2))
    assert detect_fake_mode([1, {"x": fake}]) is mode and detect_fake_mode([torch.ones(2)]) is None is active_fake_mode()
    with mode:
        assert active_fake_mode() is mode is detect_fake_mode()
        with unset_fake_temporarily() as off:
            assert off is mode and type(torch.ones(2)) is torch.Tensor
        with pytest.raises(AssertionError, match="doesn't match mode"):
            detect_fake_mode([FakeTensorMode().from_tensor(torch.ones(2))])


def test_copies(mode):
    model = torch.nn.Linear(2, 3)
    with FakeCopyMode(mode):
        fake = copy.deepcopy(model)
    assert type(fake.weight) is FakeTensor and fake.weight.requires_grad and isinstance(fake.weight, torch.nn.Parameter)
    again = copy.deepcopy(fake)
    assert type(again.weight) is FakeTensor and again.weight is not fake.weight and isinstance(again.weight, torch.nn.Parameter)


def test_nothing_is_allocated_or_compiled(mode):
    from flambeau.codegen import jit
    from flambeau.core.tensor.storage import memory_statistics

    before, compiled = memory_statistics()["allocations"], jit.statistics["compiled"] + jit.statistics["loaded"]
    with mode:
        x = torch.empty(1 << 20, 1 << 20)
        y = (x[:64] @ x[:, :64]).mul(3).cos().sum(0).cumsum(0)
    assert y.shape == (64,) and memory_statistics()["allocations"] == before
    assert jit.statistics["compiled"] + jit.statistics["loaded"] == compiled


def test_sizes_that_depend_on_values(mode):
    fake = mode.from_tensor(torch.ones(3))
    for call in (lambda: fake.nonzero(), lambda: fake[fake > 0]):
        with pytest.raises(DynamicOutputShapeException, match=r"aten\.nonzero\.default"):
            call()


def test_graphs_run_on_fake_tensors(mode):
    from flambeau import fx
    from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
    from flambeau.fx.passes.shape_prop import ShapeProp

    model = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()))
    made = FakeTensorProp(model, mode).propagate(torch.ones(2, 3))
    assert type(made) is FakeTensor and made.fake_mode is mode
    assert [tuple(n.meta["val"].shape) for n in model.graph.nodes] == [(2, 3), (2, 4), (2, 4), (2, 4)]
    assert type(ShapeProp(model, mode).propagate(torch.ones(5, 3))) is FakeTensor
    assert [tuple(n.meta["tensor_meta"].shape) for n in model.graph.nodes] == [(5, 3), (5, 4), (5, 4), (5, 4)]
    assert type(model.get_parameter("0.weight").detach()) is torch.Tensor


def test_fake_tensors_may_be_on_any_device(mode):
    with mode:
        x = torch.ones(2, 2, device="cuda")
        assert repr(x @ x) == "FakeTensor(..., device='cuda:0', size=(2, 2))"
        assert x.is_cuda and not x.is_cpu and x.get_device() == 0
        assert x.type() == "torch.cuda.FloatTensor" and x.to("cuda") is x and x.cpu().device.type == "cpu"
        assert (torch.tensor(1.0) + x).device == torch.device("cuda:0") == torch.where(x > 0, torch.tensor(1.0), x).device
        for call in (lambda: x + torch.ones(2, 2), lambda: torch.ones(2, 2) @ x):
            with pytest.raises(FakeTensorDeviceMismatchError, match="Expected all tensors to be on the same device"):
                call()
        assert torch.nn.Linear(2, 3).cuda().weight.device.type == "cuda"
    assert x.cpu().cuda(1).device.index == 1
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.ones(2, device="cuda")


def test_zero_dim_cpu_tensors_go_with_the_meta_device():
    x, one = torch.ones(2, device="meta"), torch.tensor(1.0)
    assert (x + one).is_meta and (one + x).is_meta and torch.lerp(x, x, one).is_meta
    for call in (lambda: x + torch.ones(2), lambda: torch.tensor(1.0, device="meta") + torch.ones(2)):
        with pytest.raises(RuntimeError, match="Tensor on device cpu is not on the expected device meta!"):
            call()


def test_files_are_loaded_as_fake_tensors(mode, tmp_path):
    base = torch.arange(6.0)
    torch.save(
        {
            "base": base,
            "part": base[2:4],
            "layer": torch.nn.Linear(2, 3).state_dict(),
            "parameter": torch.nn.Parameter(torch.ones(2)),
        },
        tmp_path / "saved.pt",
    )
    with mode:
        loaded = torch.load(tmp_path / "saved.pt")
    assert {type(loaded[name]) for name in ("base", "part", "parameter")} == {FakeTensor} == {type(loaded["layer"]["weight"])}
    assert loaded["part"].storage_offset() == 2 and isinstance(loaded["parameter"], torch.nn.Parameter)
    assert loaded["part"].untyped_storage()._cdata == loaded["base"].untyped_storage()._cdata


def test_function_transforms_and_other_modes(mode):
    from flambeau.utils._python_dispatch import TorchDispatchMode

    fake = mode.from_tensor(torch.ones(2, 3))
    assert torch.func.vmap(torch.sum)(fake).shape == (2,) and torch.func.jacrev(torch.sin)(fake).shape == (2, 3, 2, 3)
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), type(made := func(*args, **(kwargs or {})))))
            return made

    for first, second in ((mode, Log()), (Log(), mode)):
        seen.clear()
        with first, second:
            torch.ones(2, 3).sum()
        assert seen == [("aten.ones.default", FakeTensor), ("aten.sum.default", FakeTensor)]
    with mode:
        torch._assert_async(fake.sum() > 0)
        with torch.autocast("cpu"):
            assert (fake @ fake.t()).dtype is torch.bfloat16


def test_the_mode_by_its_key(mode):
    native = torch._C
    key = native._TorchDispatchModeKey.FAKE
    assert native._get_dispatch_mode(key) is None and native._len_torch_dispatch_stack() == 0
    with mode:
        assert native._get_dispatch_mode(key) is mode and native._len_torch_dispatch_stack() == 1
        assert native._unset_dispatch_mode(key) is mode and type(torch.ones(1)) is torch.Tensor
        native._set_dispatch_mode(mode)
        assert type(torch.ones(1)) is FakeTensor and native._get_dispatch_mode(native._TorchDispatchModeKey.PROXY) is None


def test_sizes_of_another_mode_and_of_another_run_keep_their_names():
    """Symbols belong to the environment, which two modes may share; a graph that runs again makes none."""
    from flambeau.fx.experimental.proxy_tensor import make_fx
    from flambeau.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true
    from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp

    env = ShapeEnv()
    one = FakeTensorMode(shape_env=env).from_tensor(torch.rand(10))
    other_mode = FakeTensorMode(shape_env=env)
    other = other_mode.from_tensor(one)
    assert other is not one and other.fake_mode is other_mode and str(other.shape[0]) == str(one.shape[0])
    with FakeTensorMode(shape_env=ShapeEnv()) as own:
        value = torch.rand(5)
        graph = make_fx(lambda x: x.nonzero())(value)
    node = next(n for n in graph.graph.nodes if n.op == "call_function")
    before = node.meta["val"].shape[0]
    FakeTensorProp(graph, own).propagate(value)
    assert statically_known_true(before == node.meta["val"].shape[0])


def test_what_is_remembered_goes_with_what_it_was_made_of():
    """Two tensors on one memory are so as fakes, too."""
    mode, x = FakeTensorMode(), torch.rand(2, 2)
    y = torch.rand(4)
    y.set_(x.untyped_storage())
    converter = mode.fake_tensor_converter
    fakes = [converter.from_real_tensor(mode, t) for t in (x, y)]
    assert torch._C._storage_id(fakes[0]) == torch._C._storage_id(fakes[1])
    assert torch._C._storage_id(x) != torch._C._storage_id(fakes[0])
    assert len(converter.tensor_memo) == 2 and len(converter.meta_converter.storage_memo) == 1
    del x, y, fakes
    assert len(converter.tensor_memo) == len(converter.meta_converter.storage_memo) == 0

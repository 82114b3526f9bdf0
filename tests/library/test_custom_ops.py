"""torch.library.custom_op: operators made of Python functions, with gradients, fakes, vmap rules and autocast."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor


def _sine(x: Tensor) -> Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


@pytest.fixture
def sine() -> Iterator:
    made = torch.library.custom_op("testops::sine", _sine, mutates_args=())
    yield made
    made._lib._destroy()


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _cosine(ctx, g):
    return g * ctx.saved_tensors[0].cos()


def test_what_it_is(sine) -> None:
    assert repr(sine) == "<CustomOpDef(testops::sine)>" and str(sine._opoverload) == "testops.sine.default"
    assert str(sine._opoverload._schema) == "testops::sine(Tensor x) -> Tensor"
    assert sine._opoverload.tags == [torch.Tag.pt2_compliant_tag]
    assert torch.allclose(sine(torch.ones(2)), torch.ones(2).sin()) and torch.ops.testops.sine(torch.ones(1)).item() > 0.8


def test_without_a_gradient(sine) -> None:
    y = sine(torch.ones(2, requires_grad=True))
    assert y.grad_fn.name() == "GeneratedBackwardFor_testops_sine_defaultBackward"
    with pytest.raises(
        RuntimeError, match=r"Trying to backward through testops\.sine\.default but no autograd formula was registered"
    ):
        y.sum().backward()


def test_gradients_of_every_order(sine) -> None:
    sine.register_autograd(_cosine, setup_context=_keep)
    x = torch.tensor([0.3, -1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sine, (x,)) and torch.autograd.gradgradcheck(sine, (x,))
    with torch.no_grad():
        assert not sine(x).requires_grad
    assert torch.allclose(torch.func.grad(lambda x: sine(x).sum())(x.detach()), x.detach().cos())


def test_what_is_registered_by_name_is_registered_for_the_function(sine) -> None:
    torch.library.register_fake("testops::sine", lambda x: torch.empty_like(x))
    torch.library.register_autograd("testops::sine", _cosine, setup_context=_keep)
    x = torch.ones(2, requires_grad=True)
    sine(x).sum().backward()
    assert sine(torch.ones(2, device="meta")).device.type == "meta" and torch.equal(x.grad, torch.ones(2).cos())


def test_fakes(sine) -> None:
    words = r"There was no fake impl registered for <CustomOpDef\(testops::sine\)>.*Please use `_sine.register_fake`"
    with pytest.raises(RuntimeError, match=words):
        sine(torch.ones(2, device="meta"))
    sine.register_fake(lambda x: torch.empty_like(x))
    assert sine(torch.ones(2, 3, device="meta")).shape == (2, 3)
    assert set(torch.library.opcheck(sine, (torch.ones(2),)).values()) == {"SUCCESS"}
    sine.register_fake(lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
    with pytest.raises(RuntimeError, match="You're trying to run this operator with meta Tensors"):
        sine(torch.ones(2, device="meta"))
    assert torch.library.get_ctx() is None
    sine.register_fake(lambda x: x.new_empty(5))
    words = r"test_faketensor failed with .*Shapes torch.Size\(\[2\]\) and torch.Size\(\[5\]\) are not equal"
    with pytest.raises(Exception, match=words):
        torch.library.opcheck(sine, (torch.ones(2),))


def test_under_vmap(sine) -> None:
    x = torch.arange(6.0).reshape(3, 2)
    with pytest.warns(UserWarning, match="performance drop"):
        assert torch.allclose(torch.vmap(sine)(x), x.sin())
    seen = []

    @sine.register_vmap
    def _(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return sine(x), in_dims[0]

    assert torch.allclose(torch.vmap(sine, in_dims=1, out_dims=1)(x), x.sin()) and seen == [(2, (0,))]
    sine.register_autograd(_cosine, setup_context=_keep)
    assert torch.allclose(torch.vmap(torch.func.grad(lambda x: sine(x).sum()))(x), x.cos())


def test_under_autocast() -> None:
    seen = []

    @torch.library.custom_op("testops::cast", mutates_args=())
    def cast(x: Tensor, ys: list[Tensor]) -> Tensor:
        seen.append((x.dtype, ys[0].dtype, torch.is_autocast_enabled("cpu")))
        return x + ys[0]

    cast.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert cast(torch.ones(2), [torch.ones(2)]).dtype is torch.bfloat16
    assert seen == [(torch.bfloat16, torch.bfloat16, False)]
    assert cast(torch.ones(2), [torch.ones(2)]).dtype is torch.float32
    cast._lib._destroy()


def test_lists_numbers_and_keywords_under_autograd() -> None:
    @torch.library.custom_op("testops::several", mutates_args=())
    def several(x: Tensor, ys: list[Tensor], k: float, *, shift: float = 1.0) -> tuple[Tensor, list[Tensor]]:
        return x * k + shift, [y * k for y in ys]

    seen = []

    def keep(ctx, inputs, keyword_only_inputs, output):
        ctx.k = inputs[2]
        seen.append((len(inputs), keyword_only_inputs, len(output[1])))

    def backward(ctx, g, gs):
        seen.append(ctx.needs_input_grad)
        return g * ctx.k, [h * ctx.k for h in gs], None

    several.register_autograd(backward, setup_context=keep)
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    a, (b, _) = several(x, [x * 2, y], 3.0)
    assert a.tolist() == [4, 4] and not y.requires_grad
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [9, 9] and seen == [(3, {"shift": 1.0}, 2), (True, [True, False], False)]
    several._lib._destroy()


def test_what_it_writes_to() -> None:
    @torch.library.custom_op("testops::bump", mutates_args={"x"})
    def bump(x: Tensor) -> None:
        x.numpy()[:] += 1

    assert str(bump._opoverload._schema) == "testops::bump(Tensor(a0!) x) -> ()"
    x = torch.ones(2)
    version = x._version
    assert bump(x) is None and x.tolist() == [2, 2] and x._version > version
    with pytest.raises(RuntimeError, match=r"Cannot register autograd formula for non-functional operator testops.bump.default"):
        bump.register_autograd(lambda ctx, g: g)
    bump._lib._destroy()


def test_results_that_are_arguments() -> None:
    for function in (lambda x: x, lambda x: x.view(-1)):
        function.__annotations__ = {"x": Tensor, "return": Tensor}
        made = torch.library.custom_op("testops::same", function, mutates_args=())
        with pytest.raises(RuntimeError, match=r"The output of this custom operator \(1\) must not also be an input"):
            made(torch.ones(1))
        made._lib._destroy()


def test_kernels_by_device() -> None:
    def make(n: int, device: torch.device) -> Tensor:
        return torch.zeros(n)

    def plain(n: int) -> Tensor:
        return torch.zeros(n)

    made = torch.library.custom_op("testops::make", make, mutates_args=(), device_types="cpu")
    assert made(2, torch.device("cpu")).shape == (2,)
    with pytest.raises(NotImplementedError, match="does not have a kernel registered for cuda"):
        made(2, torch.device("cuda"))
    with pytest.raises(ValueError, match=r"are required to have a `device: torch.device` argument"):
        torch.library.custom_op("testops::plain", plain, mutates_args=(), device_types="cpu")
    only = torch.library.custom_op("testops::sine", _sine, mutates_args=(), device_types="cuda")
    with pytest.raises(NotImplementedError, match="Could not run 'testops::sine' with arguments from the 'CPU' backend"):
        only(torch.ones(1))
    only.register_kernel("cpu", lambda x: x * 0)
    assert only(torch.ones(1)).item() == 0
    with only.set_kernel_enabled("cpu", False):
        assert only(torch.ones(1)).item() > 0.8
    for each in (made, only):
        each._lib._destroy()


def test_mutates_args_must_be_said() -> None:
    with pytest.raises(TypeError, match="mutates_args"):
        torch.library.custom_op("testops::x", _sine)
    with pytest.raises(ValueError, match="The schema suggests that the op mutates"):
        torch.library.custom_op("testops::y", _sine, mutates_args=(), schema="(Tensor(a!) x) -> Tensor")


def test_tensors_given_by_name_only_are_refused_when_the_operator_is_made() -> None:
    def scaled(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
        return x * y

    words = r"custom_op with kwarg-only Tensor args.*Got: scaled_by_name\(Tensor x, \*, Tensor y\)"
    with pytest.raises(NotImplementedError, match=words):
        torch.library.custom_op("texts::scaled_by_name", scaled, mutates_args=())

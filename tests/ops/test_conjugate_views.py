"""Conjugate and negative views: they share memory, every operator takes them for what they are, writes go through them."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.plan import Plan
from flambeau.codegen.targets import lowered

C = torch.complex128


def numbers(*shape: int) -> torch.Tensor:
    count = int(np.prod(shape))
    return torch.complex(
        torch.arange(1.0, count + 1, dtype=torch.float64), torch.linspace(-2.0, 3.0, count, dtype=torch.float64)
    ).reshape(shape)


def values(x: torch.Tensor) -> np.ndarray:
    return x.detach().resolve_conj().resolve_neg().numpy()


def check(got: torch.Tensor, wanted: torch.Tensor | np.ndarray) -> None:
    wanted = values(wanted) if isinstance(wanted, torch.Tensor) else wanted
    assert values(got).dtype == wanted.dtype
    np.testing.assert_allclose(values(got), wanted, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- what it is


def test_a_conjugate_is_a_view_of_the_same_memory() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    y = x.conj()
    assert type(y) is torch.Tensor and y.is_conj() and not y.is_neg() and not x.is_conj()
    assert y._base is x and y._is_view() and y.data_ptr() == x.data_ptr()
    assert y.tolist() == [1 - 2j, 3 + 4j] and repr(y) == "tensor([1.-2.j, 3.+4.j])"
    y[0] = 1j
    assert x.tolist() == [-1j, 3 - 4j] and x._version == y._version == 1
    assert not y.conj().is_conj() and y.conj()._base is x
    for made in (x.unsqueeze(0).mH, x.unsqueeze(0).H, x.unsqueeze(0).adjoint(), torch.conj(x), x._conj()):
        assert made.is_conj() and made.data_ptr() == x.data_ptr()
    real = torch.ones(2)
    assert real.conj() is real and real.resolve_conj() is real and real.resolve_neg() is real


def test_parts_of_a_conjugate_are_views_too() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    imaginary = x.conj().imag
    assert imaginary.is_neg() and not imaginary.is_conj() and imaginary._base is x
    assert imaginary.tolist() == [-2, 4] and imaginary[1].item() == 4 and float(imaginary[0]) == -2
    assert not x.conj().real.is_neg() and x.conj().real.data_ptr() == x.data_ptr()
    imaginary.mul_(10)
    assert x.tolist() == [1 + 20j, 3 - 40j]
    y = x.conj()
    y.imag = torch.tensor([7.0, 8.0])
    y.real[0] = 5
    assert x.tolist() == [5 - 7j, 3 - 8j]
    negative = torch._neg_view(y)
    assert negative.is_neg() and negative.is_conj() and negative.tolist() == [-5 - 7j, -3 - 8j]
    assert torch.view_as_real(torch._neg_view(x)).is_neg()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x.view(-1),
        lambda x: x.reshape(3, 2),
        lambda x: x.flatten(),
        lambda x: x.unsqueeze(1),
        lambda x: x.expand(2, 2, 3),
        lambda x: x.diagonal(),
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.split(1)[1],
        lambda x: x.chunk(2, 1)[1],
        lambda x: x.unbind(1)[2],
        lambda x: x.tensor_split(2, 1)[0],
        lambda x: x.as_strided((2,), (2,)),
        lambda x: x.detach(),
        lambda x: x.movedim(0, 1),
        lambda x: x.narrow(1, 0, 2),
        lambda x: x.squeeze(),
        lambda x: x.swapaxes(0, 1),
        lambda x: x[..., None],
        lambda x: x.data,
        lambda x: x.permute(1, 0),
    ],
)
def test_views_hand_on_what_is_pending(view) -> None:
    x = numbers(2, 3)
    for _ in range(2):  # the second call finds the plan
        for pending in (torch.conj, torch._neg_view):
            seen = view(pending(x))
            assert seen.is_conj() == (pending is torch.conj) and seen.is_neg() != seen.is_conj()
            assert seen.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            check(seen, pending(view(x)))


def test_what_has_the_elements_in_memory_is_no_view() -> None:
    x = numbers(2, 3)
    y = x.conj()
    for made in (
        y.clone(),
        y.resolve_conj(),
        y.conj_physical(),
        y.to(torch.complex64),
        torch.empty_like(y),
        y * 1,
        torch.conj_physical(x),
        y.new_zeros(2),
        copy.deepcopy(y),
        torch._conj_copy(x),
    ):
        assert not made.is_conj() and made.data_ptr() != x.data_ptr()
    assert y.contiguous() is y and y.to(C) is y and y.resolve_neg() is y
    assert not y.imag.resolve_neg().is_neg()
    check(copy.deepcopy(y), values(x).conj())
    check(y.imag.to(torch.float32), (-values(x).imag).astype(np.float32))
    check(x.to(torch.complex32).conj().imag.clone(), (-values(x).imag).astype(np.float16))
    assert torch.equal(y, y.clone()) and not torch.equal(y, x)


def test_what_reads_memory_as_it_is_refuses() -> None:
    y = numbers(2).conj()
    with pytest.raises(RuntimeError, match=r"view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(y)
    with pytest.raises(RuntimeError, match=r"that has conjugate bit set. Use tensor.resolve_conj\(\).numpy\(\) instead"):
        y.numpy()
    with pytest.raises(RuntimeError, match=r"that has negative bit set. Use tensor.resolve_neg\(\).numpy\(\) instead"):
        np.asarray(y.imag)
    with pytest.raises(RuntimeError, match="view is not supported for conjugate view tensors when converting"):
        y.view(torch.float64)
    with pytest.raises(RuntimeError, match="view is not supported for tensors with negative bit set when converting"):
        y.imag.view(torch.int64)
    with pytest.raises(BufferError, match="Can't export tensors with the conjugate bit set"):
        y.__dlpack__()
    with pytest.raises(BufferError, match="negative bit"):
        y.imag.__dlpack__()
    check(torch.tensor(y.numpy(force=True)), y)


def test_pickles_and_files_keep_what_is_pending() -> None:
    y = numbers(3).conj()
    for given in (y, y.imag, torch._neg_view(y)):
        file, old = io.BytesIO(), io.BytesIO()
        torch.save(given, file)
        torch.save(given, old, _use_new_zipfile_serialization=False)
        for back in (
            torch.load(io.BytesIO(file.getvalue())),
            torch.load(io.BytesIO(old.getvalue())),
            pickle.loads(pickle.dumps(given)),
        ):
            assert back.is_conj() == given.is_conj() and back.is_neg() == given.is_neg()
            check(back, given)
    file = io.BytesIO()
    torch.save([y, y._base], file)
    conjugate, base = torch.load(io.BytesIO(file.getvalue()))
    base[0] = 5j
    assert conjugate[0].item() == -5j
    assert copy.copy(y).is_conj()


def test_on_meta() -> None:
    x = torch.empty(3, dtype=C, device="meta")
    assert x.conj().is_conj() and x.conj().imag.is_neg() and not x.conj().clone().is_conj() and not (x.conj() + x).is_conj()


# ---------------------------------------------------------------- what takes it


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x * x,
        lambda x: 2j - x,
        lambda x: x.exp(),
        lambda x: x.abs(),
        lambda x: x.angle(),
        lambda x: x.sum(),
        lambda x: x.mean(0),
        lambda x: x.prod(1),
        lambda x: x.cumsum(1),
        lambda x: x @ x.t(),
        lambda x: x.mH @ x,
        lambda x: x.flip(0),
        lambda x: torch.cat([x, x]),
        lambda x: torch.stack([x, x], 1),
        lambda x: x.index_select(1, torch.tensor([2, 0])),
        lambda x: x[torch.tensor([1, 0])],
        lambda x: x[torch.tensor([True, False])],
        lambda x: torch.fft.fft(x),
        lambda x: x.tril(),
        lambda x: torch.linalg.qr(x.mH)[1].abs(),
        lambda x: torch.linalg.svdvals(x),
        lambda x: torch.linalg.norm(x),
        lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: torch.where(torch.tensor([True, False, True]), x, 1j),
        lambda x: x.roll(1),
        lambda x: torch.linalg.solve(x[:, :2], x),
        lambda x: x.gather(1, torch.tensor([[0], [1]])),
        lambda x: x.var(),
        lambda x: torch.nn.functional.pad(x, (1, 1)),
        lambda x: x.repeat(2, 1),
        lambda x: torch.vdot(x[0], x[1]),
        lambda x: x == x.clone(),
        lambda x: torch.addmm(x[:, :2], x, x.mH),
        lambda x: torch._foreach_mul([x, x], 2j)[1],
        lambda x: x.imag.max(),
        lambda x: x.imag.sort(descending=True)[0],
        lambda x: x.imag.softmax(1),
        lambda x: torch.lerp(x, x * 2, 0.5),
        lambda x: torch.nn.functional.linear(x, x),
        lambda x: x.masked_fill(torch.tensor([True, False, True]), 0),
        lambda x: -x,
        lambda x: x.scatter(1, torch.tensor([[0], [1]]), 5),
        lambda x: x.index_put((torch.tensor([0]),), x[1]),
        lambda x: torch.var_mean(x)[1],
        lambda x: torch.nn.functional.conv1d(x.real[None], x.imag[:, None].expand(2, 2, 3)),
        lambda x: x.imag.unique(),
        lambda x: x**2,
    ],
)
def test_operators_take_the_elements_as_they_are_meant(function) -> None:
    x = numbers(2, 3)
    for _ in range(2):
        check(function(x.conj_physical().conj()), function(x))
        check(function(torch._neg_view(-x)), function(x))


def test_writes_go_through() -> None:
    kinds = [
        lambda y: y.mul_(2j),
        lambda y: y.copy_(numbers(3)),
        lambda y: y.fill_(2j),
        lambda y: y.zero_(),
        lambda y: y.exp_(),
        lambda y: y.cumsum_(0),
        lambda y: y.index_fill_(0, torch.tensor([1]), 3j),
        lambda y: y[1:].add_(1j),
        lambda y: y.conj_physical_(),
        lambda y: y.masked_fill_(torch.tensor([True, False, True]), 4j),
        lambda y: y.__setitem__(0, 5j),
        lambda y: y.add_(y),
        lambda y: y.index_put_((torch.tensor([0, 2]),), torch.tensor([1j, 2], dtype=C)),
        lambda y: y.imag.neg_(),
        lambda y: y.sqrt_(),
        lambda y: y.scatter_(0, torch.tensor([1]), 3j),
        lambda y: y.index_add_(0, torch.tensor([1]), y[:1] * 1),
        lambda y: y.neg_(),
        lambda y: y.__setitem__(torch.tensor([True, False, True]), 1j),
        lambda y: torch.add(y, 1j, out=y),
        lambda y: torch.cumsum(numbers(3), 0, out=y),
        lambda y: torch.cat([numbers(1), numbers(2)], out=y),
        lambda y: y.pow_(2),
        lambda y: torch.mv(torch.eye(3, dtype=C) * 2j, numbers(3), out=y),
        lambda y: y.addcmul_(y, y),
        lambda y: y.set_(numbers(3)),
        lambda y: torch._foreach_mul_([y], 2j),
        lambda y: y.unsqueeze_(0),
    ]
    for at, write in enumerate(kinds):
        for pending, physical in ((torch.conj, torch.conj_physical), (torch._neg_view, torch.neg)):
            wanted, base = numbers(3), physical(numbers(3))
            y = pending(base)
            for _ in range(2):
                write(wanted)
                write(y)
                if "set_" in write.__code__.co_names:
                    check(y, physical(wanted))
                    break
                check(y, wanted)
                check(base, physical(wanted).reshape(base.shape))
                if "unsqueeze_" in write.__code__.co_names:
                    break
            assert y.is_conj() != y.is_neg(), at


def test_a_tensor_becomes_its_own_conjugate() -> None:
    x = numbers(3)
    wanted = values(x).conj()
    x.copy_(x.conj())
    check(x, wanted)
    x.mul_(x.conj())
    check(x, (wanted * wanted.conj()))


def test_a_kernel_without_a_door_refuses() -> None:
    with pytest.raises(NotImplementedError, match="resolve_conj"):
        lowered(Plan([], [], [numbers(2).conj()._layout]))


# ---------------------------------------------------------------- gradients


WEIGHTS = [1 - 1j, 2 + 3j, 1j]


def gradient(function, pending) -> tuple[np.ndarray, np.ndarray]:
    x = torch.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=C, requires_grad=True)
    out = function(x * 2, pending)
    (out * torch.tensor(WEIGHTS[: out.numel()], dtype=C)).sum().real.backward()
    return values(out), values(x.grad)


def _computed(x: torch.Tensor) -> torch.Tensor:
    return x.conj_physical()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, conj: conj(x),
        lambda x, conj: conj(x) * x,
        lambda x, conj: conj(x).exp(),
        lambda x, conj: conj(x)[1:],
        lambda x, conj: conj(x).imag,
        lambda x, conj: conj(x).real + 0j,
        lambda x, conj: conj(x).view(3, 1).t()[0],
        lambda x, conj: torch.stack([conj(x), x]).sum(0),
        lambda x, conj: conj(x) @ torch.ones(3, 3, dtype=C),
        lambda x, conj: torch.fft.fft(conj(x)),
        lambda x, conj: conj(x)[torch.tensor([2, 0])],
        lambda x, conj: conj(x).cumsum(0),
        lambda x, conj: torch.dot(conj(x), conj(x)).reshape(1),
        lambda x, conj: (conj(x).unsqueeze(0).mH * x).sum(0),
    ],
)
def test_gradients_through_conjugates(function) -> None:
    for got, wanted in zip(gradient(function, torch.conj), gradient(function, _computed), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.mul_(2j),
        lambda y: y[1:].mul_(3j),
        lambda y: y.exp_(),
        lambda y: y.copy_(y + 1j),
        lambda y: y.cumsum_(0),
        lambda y: y.zero_(),
        lambda y: y.__setitem__(0, 1j),
        lambda y: y.imag.mul_(3),
        lambda y: y.index_fill_(0, torch.tensor([0]), 2j),
        lambda y: y.imag[1:].exp_(),
        lambda y: y.view(3, 1).mul_(1j),
        lambda y: y.addcmul_(y * 2, torch.ones_like(y)),
        lambda y: y.index_put_((torch.tensor([0]),), y[1] * 2),
        lambda y: y.sqrt_(),
    ],
)
def test_gradients_of_writes_through_conjugates(write) -> None:
    """Of the base and of the view, against the same write to a conjugate that was computed."""

    def through_base(x: torch.Tensor, _: object) -> torch.Tensor:
        write(x.conj())
        return x

    def through_view(x: torch.Tensor, _: object) -> torch.Tensor:
        view = x.conj()
        write(view)
        return view

    def computed(x: torch.Tensor, _: object) -> torch.Tensor:
        made = x.conj_physical() + 0
        write(made)
        return made

    for ours, wanted in ((through_view, computed), (through_base, lambda x, _: computed(x, None).conj_physical())):
        for got, expected in zip(gradient(ours, None), gradient(wanted, None), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "view",
    [
        torch.view_as_complex,
        lambda b: torch.view_as_complex(b).conj(),
        lambda b: torch.view_as_complex(b)[1:],
        lambda b: torch.view_as_complex(b).conj().imag,
    ],
)
def test_gradients_of_writes_through_pairs_seen_as_complex_numbers(view) -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        base = x * 2
        view(base).mul_(3)
        return base * torch.arange(6.0, dtype=torch.float64).reshape(3, 2)

    x = torch.arange(6.0, dtype=torch.float64).reshape(3, 2).requires_grad_()
    assert torch.autograd.gradcheck(written, (x,))


def test_a_view_follows_its_base() -> None:
    for view, name in (
        (torch.conj, "ConjBackward0"),
        (lambda y: y.conj().imag, "AsStridedBackward0"),
        (torch._neg_view, "NegViewBackward0"),
    ):
        x = torch.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=C, requires_grad=True)
        y = x * 2
        seen = view(y)
        y.mul_(2j)
        assert seen.grad_fn.name() == name
        plain = torch.tensor(x.tolist(), dtype=C, requires_grad=True)
        wanted = view(plain * 4j)
        check(seen, wanted)
        for out, leaf in ((seen, x), (wanted, plain)):
            (out * torch.tensor([1.0, 2, 3])).sum().real.backward()
            assert leaf.grad is not None
        check(x.grad, plain.grad)


def test_gradients_numerically_and_to_second_order() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=C, requires_grad=True)
    for function in (
        lambda x: x.conj() * x * x,
        lambda x: x.conj().imag * x.real,
        lambda x: torch._neg_view(x) * x.conj(),
        lambda x: (x * 1).conj().mul_(2j) * x,
        lambda x: torch.outer(x, x).mH @ x,
    ):
        assert torch.autograd.gradcheck(function, (x,))
        assert torch.autograd.gradgradcheck(function, (x,))


def test_a_leaf_refuses_writes_through_its_conjugate() -> None:
    x = torch.ones(2, dtype=C, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
        x.conj().mul_(2)
    saved = torch.ones(2, dtype=C, requires_grad=True) * 1
    out = saved.conj().exp() * saved.conj()
    saved.conj().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().real.backward()


# ---------------------------------------------------------------- transforms


def test_under_transforms() -> None:
    x = numbers(4, 3)
    check(torch.vmap(lambda row: row.conj() * row)(x), x.conj_physical() * x)
    check(torch.vmap(lambda row: row.conj().imag)(x), -x.imag)
    check(torch.vmap(lambda row: row * 2)(x.conj()), x.conj_physical() * 2)
    check(torch.vmap(lambda row: row.mH @ row)(numbers(2, 3, 2)), torch.matmul(numbers(2, 3, 2).mH, numbers(2, 3, 2)))
    assert torch.vmap(torch.conj)(x).is_conj()
    answer, tangent = torch.func.jvp(lambda z: z.conj() * z, (x,), (x * 2,))
    check(answer, x.conj_physical() * x)
    check(tangent, 4 * x.conj_physical() * x)
    _, tangent = torch.func.jvp(lambda z: z.conj().imag, (x,), (x * 2j,))
    check(tangent, -(x * 2j).imag)
    made = torch.func.grad(lambda z: (z.conj() * z).real.sum())(x)
    check(made, 2 * x)
    check(torch.func.vjp(torch.conj, x)[1](x * 2j)[0], (x * 2j).conj_physical())


def test_a_tangent_lies_as_its_value_does() -> None:
    kinds = (lambda x: x, torch.conj, torch._neg_view)
    with torch.autograd.forward_ad.dual_level():
        for of_value in kinds:
            for of_tangent in kinds:
                value, tangent = of_value(numbers(2)), of_tangent(numbers(2) * 2j)
                dual = torch.autograd.forward_ad.make_dual(value, tangent)
                kept = torch.autograd.forward_ad.unpack_dual(dual).tangent
                assert (kept is tangent) == (of_value is of_tangent) and kept.is_conj() == value.is_conj()
                check(kept, tangent)
                check(torch.autograd.forward_ad.unpack_dual(torch.imag(dual)).tangent, torch.imag(tangent))


def test_random_numbers_are_drawn_for_the_view() -> None:
    for pending, physical in ((torch.conj, torch.conj_physical), (torch._neg_view, torch.neg)):
        for draw in (lambda x: x.normal_(), lambda x: x.real.uniform_()):
            wanted, view = torch.zeros(3, 2, dtype=C), pending(torch.zeros(3, 2, dtype=C))
            torch.manual_seed(1)
            draw(wanted)
            torch.manual_seed(1)
            draw(view)
            check(view, wanted)
            check(view._base, physical(wanted))


def test_of_a_subclass() -> None:
    class Marked(torch.Tensor):
        pass

    x = numbers(3).as_subclass(Marked)
    y = x.conj()
    assert type(y) is Marked and y.is_conj()
    check(torch.Tensor.as_subclass(y * 1, torch.Tensor), values(numbers(3)).conj())
    assert torch.nn.Parameter(numbers(2).conj()).is_conj()


def test_norms_take_negative_views_and_save_them_as_what_they_mean():
    plain = torch.linspace(-1.0, 2.0, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    view = torch.complex(torch.zeros(3, 4, dtype=torch.float64), -plain.detach()).conj().imag.requires_grad_()
    assert view.is_neg()
    for x in (plain, view):
        (torch.nn.functional.layer_norm(x, (4,)) ** 3).sum().backward()
    assert torch.allclose(view.grad, plain.grad)

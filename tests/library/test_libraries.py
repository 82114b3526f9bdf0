"""torch.library.Library and torch.ops: operators defined by schema, their kernels by key, calls and their errors."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import flambeau as torch


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("testlib", "FRAGMENT")
    yield made
    made._destroy()


def test_a_call_is_fitted_to_the_schema(library) -> None:
    library.define("foo(Tensor x, int n=3, *, float? s=None, int[2] k=1) -> Tensor")
    seen = []

    def foo(x, n=3, *, s=None, k=(7, 7)):
        seen.append((n, s, k))
        return x * n

    library.impl("foo", foo, "CPU")
    foo_op = torch.ops.testlib.foo
    x = torch.ones(2)
    assert foo_op(x).tolist() == [3, 3] and foo_op.default(x, 2, s=1).tolist() == [2, 2]
    assert foo_op(x=x, n=True, k=5).tolist() == [1, 1]
    # what equals its default isn't passed on
    assert seen == [(3, None, (7, 7)), (2, 1.0, (7, 7)), (1, None, [5, 5])]
    for args, named, words in (
        ((x, 2.5), {}, "testlib::foo() Expected a value of type 'int' for argument 'n' but instead found type 'float'.\n"
                       "Position: 1\nValue: 2.5\nDeclaration: testlib::foo(Tensor x, int n=3, *, float? s=None, int[2] k=1) -> "),
        (([x],), {}, "testlib::foo() Expected a value of type 'Tensor' for argument 'x' but instead found type 'list'."),
        ((x,), {"s": "a"}, "testlib::foo() Expected a value of type 'Optional[float]' for argument 's' but instead found "
                           "type 'str'."),
        ((x,), {"q": 1}, "Unknown keyword argument 'q' for operator 'testlib::foo'. Schema: "),
        ((), {}, "testlib::foo() is missing value for argument 'x'. Declaration: "),
        ((x, 1, 2.0), {}, "testlib::foo() takes 2 positional argument(s) but 3 was/were given.  Declaration: "),
    ):  # fmt: skip
        with pytest.raises(RuntimeError) as caught:
            foo_op(*args, **named)
        assert str(caught.value).startswith(words)


def test_definitions_that_are_refused(library) -> None:
    library.define("foo(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"Tried to register an operator \(testlib::foo\(Tensor x\) -> Tensor\) with the same"):
        library.define("foo(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"Explicitly provided namespace \(other\) in schema string does not match"):
        library.define("other::bad(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="Unsupported kind: XX"):
        torch.library.Library("testlib", "XX")
    with pytest.raises(ValueError, match="prim is a reserved namespace"):
        torch.library.Library("prim", "DEF")
    with pytest.raises(RuntimeError, match="could not parse dispatch key: XYZ"):
        library.impl("foo", lambda x: x, "XYZ")
    with pytest.raises(TypeError, match="Input function is required to be a callable but found type <class 'int'>"):
        library.impl("foo", 3, "CPU")
    whole = torch.library.Library("testwhole", "DEF")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY can be used to register the namespace testwhole"):
        torch.library.Library("testwhole", "DEF")
    whole._destroy()
    torch.library.Library("testwhole", "DEF")._destroy()
    with pytest.raises(AssertionError, match="Library object has been destroyed"):
        whole.define("late(Tensor x) -> Tensor")


def test_operators_go_with_their_library() -> None:
    library = torch.library.Library("testgone", "FRAGMENT")
    library.impl(library.define("foo(Tensor x) -> Tensor"), lambda x: x + 1, "CPU")
    kept = torch.ops.testgone.foo
    del library
    with pytest.raises(AttributeError):
        _ = torch.ops.testgone.foo
    assert kept.overloads() == []


def test_what_is_there_and_what_is_not(library) -> None:
    library.define("foo(Tensor x) -> Tensor")
    library.define("of_numbers(int n) -> int")
    with pytest.raises(NotImplementedError, match="Could not run 'testlib::foo' with arguments from the 'CPU' backend"):
        torch.ops.testlib.foo(torch.ones(1))
    with pytest.raises(
        NotImplementedError, match="testlib::foo: attempted to run this operator with Meta tensors, but there was no"
    ):
        torch.ops.testlib.foo(torch.ones(1, device="meta"))
    library.impl("of_numbers", lambda n: n + 1, "CPU")
    with pytest.raises(NotImplementedError, match="There were no tensor arguments to this function"):
        torch.ops.testlib.of_numbers(1)
    library.impl("of_numbers", lambda n: n + 1, "CompositeExplicitAutograd")
    assert torch.ops.testlib.of_numbers(1) == 2
    library.impl("later", lambda x: x + 1, "CPU")
    with pytest.raises(AttributeError, match="'_OpNamespace' 'testlib' object has no attribute 'later'"):
        _ = torch.ops.testlib.later
    library.define("later(Tensor x) -> Tensor")
    assert torch.ops.testlib.later(torch.ones(1)).item() == 2
    library._destroy()
    with pytest.raises(AttributeError):
        _ = torch.ops.testlib.later


def test_results_are_what_the_schema_says(library) -> None:
    for schema, kernel in (
        ("two(Tensor x) -> (Tensor, Tensor)", lambda x: [x, x]),
        ("many(Tensor x) -> Tensor[]", lambda x: (x, x)),
        ("one(Tensor x) -> Tensor", lambda x: 3),
        ("none(Tensor x) -> ()", lambda x: 3),
    ):
        library.impl(library.define(schema), kernel, "CPU")
    x = torch.ones(1)
    assert isinstance(torch.ops.testlib.two(x), tuple) and isinstance(torch.ops.testlib.many(x), list)
    with pytest.raises(RuntimeError, match="Unable to cast 3 to Tensor"):
        torch.ops.testlib.one(x)
    with pytest.raises(RuntimeError, match="Expected PythonKernelHolder for testlib::none to return None but it returned"):
        torch.ops.testlib.none(x)


def test_overloads(library) -> None:
    library.impl(library.define("ov.a(Tensor x) -> Tensor"), lambda x: x + 1, "CPU")
    library.impl(library.define("ov.b(Tensor x, Tensor y) -> Tensor"), lambda x, y: x * 5, "CPU")
    packet, x = torch.ops.testlib.ov, torch.ones(1)
    assert packet.overloads() == ["a", "b"] and packet(x).item() == 2 and packet(x, x).item() == 5
    assert packet.b is packet.b and str(packet.b) == "testlib.ov.b" and packet.b.name() == "testlib::ov.b"
    with pytest.raises(RuntimeError, match=r"Overloaded torch operator invoked from Python failed to match any schema:"):
        packet(3)
    with pytest.raises(AttributeError, match=r"The underlying op of 'testlib.ov' has no overload name 'default'"):
        _ = packet.default
    assert pickle.loads(pickle.dumps(packet.b)) is packet.b and copy.deepcopy(packet) is packet


def test_gradients_by_kernel(library) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for name, kernel, key in (
        ("composed", lambda x: x.sin(), "CompositeImplicitAutograd"),
        ("inner", lambda x: x.sin(), "CPU"),
        ("opaque", lambda x: torch.from_numpy(np.sin(x.detach().numpy())), "CPU"),
    ):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, kernel, key)
    assert type(torch.ops.testlib.composed(x).grad_fn).__name__ == "SinBackward0"
    (g,) = torch.autograd.grad(torch.ops.testlib.composed(x).sum(), x)
    assert torch.equal(g, x.detach().cos())
    words = "testlib::inner: an autograd kernel was not registered to the Autograd key"
    with pytest.warns(UserWarning, match=words):
        (g,) = torch.autograd.grad(torch.ops.testlib.inner(x).sum(), x)
    assert torch.equal(g, x.detach().cos())
    y = torch.ops.testlib.opaque(x)
    assert y.requires_grad and type(y.grad_fn).__name__ == "WarnNotImplemented"
    with pytest.warns(UserWarning, match="testlib::opaque: an autograd kernel was not registered"):
        assert torch.autograd.grad(y.sum(), x, allow_unused=True) == (None,)

    class Seven(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.testlib.opaque(x)

        @staticmethod
        def backward(ctx, g):
            return g * 7

    library.impl("opaque", Seven.apply, "Autograd")
    torch.ops.testlib.opaque(x).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_without_an_autograd_kernel_the_backward_pass_may_be_silent(library) -> None:
    def write(x):
        with torch.no_grad():
            return x.sin_()

    library.define("handed_back(Tensor x) -> Tensor")
    library.impl("handed_back", lambda x: x, "CPU")
    library.define("written(Tensor(a!) x) -> Tensor(a!)")
    library.impl("written", write, "CPU")
    ops, words = torch.ops.testlib, "an autograd kernel was not registered"
    assert torch._C._get_autograd_fallback_mode() == "warn"
    x = torch.ones(3, requires_grad=True)
    assert ops.handed_back(x) is x
    with pytest.warns(UserWarning, match=f"handed_back: {words}"):
        x.sum().backward()
    whole = x.detach().requires_grad_().clone()
    ops.written(whole[0])
    with pytest.warns(UserWarning, match=f"written: {words}"):  # through the tensor that a view of was written to
        whole.sum().backward()
    torch._C._set_autograd_fallback_mode("nothing")
    try:
        y = torch.ones(3, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ops.handed_back(y).sum().backward()
        assert y.grad.tolist() == [1, 1, 1]
    finally:
        torch._C._set_autograd_fallback_mode("warn")
    with pytest.raises(ValueError, match="nothing or warn"):
        torch._C._set_autograd_fallback_mode("raise")


def test_none_is_a_tensor_left_undefined(library) -> None:
    library.define("pair(Tensor a, Tensor b) -> (Tensor, Tensor)")
    library.impl("pair", lambda a, b: (None, b), "CPU")
    x = torch.ones(2, requires_grad=True)
    assert torch.ops.testlib.pair(None, x)[0] is None
    with pytest.raises(NotImplementedError, match="There were no tensor arguments"):
        torch.ops.testlib.pair(None, None)


def test_operators_go_when_the_registration_does() -> None:
    for _ in range(2):
        made = torch.library.Library("testlib_gone", "FRAGMENT")
        made.define("f(Tensor x) -> Tensor")
        del made.m
        del made


def test_autocast_kernels(library) -> None:
    library.define("cast(Tensor x) -> Tensor")
    library.impl("cast", lambda x: x @ x, "CPU")

    def lower(x):
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            return torch.ops.testlib.cast(x.half()).to(x.dtype)

    library.impl("cast", lower, "AutocastCPU")
    x = torch.full((2, 2), 1.0001)
    with torch.autocast("cpu"):
        assert torch.ops.testlib.cast(x)[0, 0].item() == 2 and torch.ops.testlib.cast(x).dtype is torch.float32
    assert torch.ops.testlib.cast(x)[0, 0].item() > 2


def test_a_kernel_may_ask_for_its_keys_and_pass_on(library) -> None:
    library.define("keyed(Tensor x) -> Tensor")
    library.impl("keyed", lambda x: x * 3, "CPU")

    def first(keyset, x):
        assert keyset.has(torch._C.DispatchKey.CPU) and keyset.has(torch._C.DispatchKey.AutogradCPU)
        return torch.ops.testlib.keyed.default.redispatch(keyset & torch._C._after_autograd_keyset, x) + 1

    library.impl("keyed", first, "Autograd", with_keyset=True)
    assert torch.ops.testlib.keyed(torch.ones(1)).item() == 4
    library.impl("keyed", torch.library.fallthrough_kernel, "Autograd", allow_override=True)
    assert torch.ops.testlib.keyed(torch.ones(1)).item() == 3


def test_functions_for_single_operators() -> None:
    lib = torch.library.Library("testone", "FRAGMENT")
    torch.library.define("testone::sine", "(Tensor x) -> Tensor", lib=lib, tags=torch.Tag.pointwise)
    with pytest.raises(ValueError, match="Expected `qualname` to be of the form `namespace::name`"):
        torch.library.define("sine", "(Tensor x) -> Tensor")

    @torch.library.impl("testone::sine", ("cpu", "cuda"), lib=lib)
    def sine(x):
        return torch.from_numpy(np.sin(x.numpy()))

    @torch.library.register_fake("testone::sine", lib=lib)
    def _(x):
        return torch.empty_like(x)

    torch.library.register_autograd(
        "testone::sine",
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=lib,
    )
    op = torch.ops.testone.sine
    assert op.default.tags == [torch.Tag.pointwise] and op(torch.ones(2, device="meta")).shape == (2,)
    with pytest.raises(RuntimeError, match="Can't call numpy"):  # a kernel gets the tensor as it is
        sine(torch.ones(1, requires_grad=True))
    torch.library.impl("testone::detached", "cpu", lambda x: x, lib=lib)
    with pytest.raises(RuntimeError, match="operator testone::nothing does not exist"):
        torch.library.register_fake("testone::nothing", sine)
    with pytest.raises(AttributeError, match="'_OpNamespace' 'testone' object has no attribute 'nothing'"):
        torch.library.register_autograd("testone::nothing", sine)
    lib._destroy()


def test_overriding_classes_and_modes_see_the_operator(library) -> None:
    library.impl(library.define("seen(Tensor x) -> Tensor"), lambda x: x + 1, "CPU")
    log = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2).as_subclass(Logged)
    assert type(torch.ops.testlib.seen(x)) is Logged and log == [torch.ops.testlib.seen]
    with Watching():
        torch.ops.testlib.seen.default(torch.ones(2))
    assert log[-1] is torch.ops.testlib.seen.default
    assert torch.overrides.resolve_name(log[-1]) == "testlib.seen.default"


def test_built_in_operators_by_name() -> None:
    add = torch.ops.aten.add
    assert (
        repr(add) == "<OpOverloadPacket(op='aten.add')>" and repr(add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    )
    assert add.overloads()[:4] == ["Tensor", "Scalar", "out", "Scalar_out"] and add.Tensor.name() == "aten::add.Tensor"
    assert torch.ops.aten.sin.default.name() == "aten::sin" and torch.ops.aten.sin.default(torch.zeros(1)).item() == 0
    assert isinstance(add.Tensor, torch._ops.OpOverload) and {add.Tensor: 1}[torch.ops.aten.add.Tensor] == 1
    # one that flambeau doesn't have can be looked up and compared with, not called
    absent = torch.ops.aten._scaled_dot_product_flash_attention.default
    assert absent != add.Tensor and str(absent) == "aten._scaled_dot_product_flash_attention.default"
    with pytest.raises(NotImplementedError, match="aten::_scaled_dot_product_flash_attention is not implemented in flambeau"):
        absent(1)
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nope'"):
        _ = torch.ops.aten.nope
    with pytest.raises(AttributeError, match=r"The underlying op of 'aten.add' has no overload name 'nope'"):
        _ = add.nope
    assert torch.ops.prim.device(torch.ones(1)).type == "cpu"


def test_operators_of_functions() -> None:
    ops, x = torch.ops.higher_order, torch.ones(2, 3, requires_grad=True)
    assert ops.cond(True, lambda x: x + 1, lambda x: x, (torch.ones(1),)).item() == 2
    start, count = torch.tensor(0), torch.tensor(3)
    step, doubled = ops.while_loop(lambda i, a, n: i < n, lambda i, a, n: (i + 1, a * 2), (start, x), (count,))
    assert step.item() == 3 and torch.equal(doubled, x * 8)
    assert [y.tolist() for y in ops.map_impl(lambda a, b: (a + b,), [x], [torch.arange(3)])] == [[[1, 2, 3]] * 2]
    last, rows = ops.scan(lambda c, a, b: [c + a, c * b], [torch.zeros(3)], [x], (torch.tensor(2.0),))
    assert last.tolist() == [2.0] * 3 and rows.tolist() == [[0.0] * 3, [2.0] * 3]
    assert not ops.wrap_with_set_grad_enabled(False, lambda a: a * 2, x).requires_grad and torch.is_grad_enabled()
    assert ops.wrap_with_autocast("cpu", torch.bfloat16, True, None, lambda a: torch.ops.aten.mm.default(a, a.t()), x).dtype is (
        torch.bfloat16)  # fmt: skip
    assert ops.wrap(torch.add, x, 1).sum() == 12 and ops.strict_mode(torch.add, (x, x)).sum() == 12
    assert ops.cond.answered and not ops.flat_apply.answered
    with pytest.raises(NotImplementedError, match="flat_apply is not implemented in flambeau"):
        ops.flat_apply()


def test_shared_libraries(tmp_path) -> None:
    before = set(torch.ops.loaded_libraries)
    with pytest.raises(OSError, match=r"Could not load this library: .*missing\.so"):
        torch.ops.load_library(str(tmp_path / "missing.so"))
    other = tmp_path / "other.so"
    other.write_bytes(b"")
    with pytest.raises(OSError, match=r"flambeau has no C\+\+ ABI"):
        torch.ops.load_library(other)
    assert torch.ops.loaded_libraries == before


def test_questions_about_operators(library) -> None:
    library.impl(library.define("asked(Tensor x) -> Tensor"), lambda x: x, "CPU")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    assert torch._C._dispatch_has_kernel("testlib::asked") and not torch._C._dispatch_has_kernel("testlib::nothing")
    assert has("testlib::asked", "CPU") and not has("testlib::asked", "Meta") and has("aten::sin", "CPU")
    assert (
        "testlib::asked" in torch._C._dispatch_get_all_op_names() and "aten::add.Tensor" in torch._C._dispatch_get_all_op_names()
    )
    assert str(torch._C._dispatch_keys(torch.ones(1, device="meta"))) == "DispatchKeySet(Meta, ADInplaceOrView, AutogradMeta)"
    key, keys = torch._C.DispatchKey, torch._C.DispatchKeySet
    both = keys(key.CPU) | keys(key.AutogradCPU)
    assert both.has(key.CPU) and not (both - keys(key.CPU)).has(key.CPU) and both.highestPriorityTypeId() is key.AutogradCPU
    assert repr(key.CPU).startswith("<DispatchKey.CPU:") and str(torch.Tag.core) == "Tag.core"

"""`__torch_function__`: subclasses, duck types and modes."""

from __future__ import annotations

import contextlib
import copy
import io

import pytest

import flambeau as torch
from flambeau import overrides


class Plain(torch.Tensor):
    pass


class Deeper(Plain):
    pass


class Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs)


def of(cls: type, *shape: int) -> torch.Tensor:
    return torch.ones(*shape or (2, 3)).as_subclass(cls)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: 1 + x,
        lambda x: torch.ones(3) + x,
        lambda x: x.sum(0),
        lambda x: x.T,
        lambda x: x.t(),
        lambda x: x[0],
        lambda x: x.view(6),
        lambda x: x.reshape(3, 2),
        lambda x: x.split(1)[0],
        lambda x: torch.split(x, 1)[0],
        lambda x: torch.unbind(x)[1],
        lambda x: torch.cat([x, torch.ones(2, 3)]),
        lambda x: x.max(0).values,
        lambda x: x.data,
        lambda x: x.detach(),
        lambda x: x.clone(),
        lambda x: x.double(),
        lambda x: x.add_(1),
        lambda x: x @ x.t(),
        lambda x: torch.zeros_like(x),
        lambda x: x == 1,
        lambda x: -x,
        lambda x: x.requires_grad_(),
        lambda x: torch.nn.functional.relu(x),
        lambda x: x.contiguous(),
        lambda x: x.new_zeros(2),
    ],
)
def test_a_plain_subclass_survives(call) -> None:
    for _ in range(2):  # the second call would meet what the first cached
        torch.ones(2, 3) + 1
        assert type(call(of(Plain))) is Plain
    assert type(call(torch.ones(2, 3))) is torch.Tensor


def test_what_is_no_tensor_stays_what_it_is() -> None:
    x = of(Plain)
    assert type(x.shape) is torch.Size and x.dim() == 2 and type(x.sum().item()) is float and type(x.tolist()) is list
    assert x.grad is None and repr(x) == "Plain([[1., 1., 1.],\n       [1., 1., 1.]])"


def test_in_place_keeps_the_object() -> None:
    x = of(Plain)
    assert x.add_(1) is x
    x += 1
    x[0] = 5
    assert type(x) is Plain and x.tolist() == [[5.0] * 3, [3.0] * 3]
    x.data = torch.zeros(2)
    assert type(x + 1) is Plain and x.shape == (2,)


def test_classes_are_asked_from_the_deepest() -> None:
    assert type(of(Deeper) + of(Plain)) is Deeper and type(of(Plain) + of(Deeper)) is Deeper


def test_gradients_flow_through_subclasses() -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x.as_subclass(Plain) * 2).sum()
    assert type(y) is Plain and type(y.grad_fn).__name__ == "AliasBackward0"
    y.backward()
    assert x.grad.tolist() == [2.0] * 3


def test_parameters_have_no_overrides() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    assert type(parameter + 1) is torch.Tensor and parameter._layout.flavor is None

    class Own(torch.nn.Parameter):
        pass

    assert type(Own(torch.ones(2)) + 1) is torch.Tensor
    assert type(torch.nn.Parameter(of(Plain))) is Plain and isinstance(torch.nn.Parameter(of(Plain)), torch.nn.Parameter)


def test_functions_methods_and_properties_come_to_the_class() -> None:
    x = of(Logged)
    Logged.calls.clear()
    torch.add(x, 1, alpha=2)
    x.shape
    x.size()
    x.sum(0)
    torch.split(x, 1)
    assert Logged.calls == [torch.add, torch.Tensor.shape.__get__, torch.Tensor.size, torch.Tensor.sum, torch.split]


def test_switching_overrides_off() -> None:
    x = of(Plain)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor and type(x.t()) is torch.Tensor and type(x[0]) is torch.Tensor
    assert type(x + 1) is Plain and type(x.t()) is Plain and type(x[0]) is Plain


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types


def test_duck_types() -> None:
    assert torch.add(Duck(), 1) == ("add", (Duck,)) and torch.matmul(torch.ones(2), Duck()) == ("matmul", (Duck,))
    assert overrides.is_tensor_like(Duck()) and not overrides.is_tensor_like(1) and overrides.has_torch_function((1, Duck()))


def test_nobody_answers() -> None:
    class Silent(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented"):
        of(Silent) + 1


def test_modes_see_calls_and_nest() -> None:
    seen = []

    class Watch(overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Watch("outer"), Watch("inner"):
        assert (x + 1).tolist() == [2.0, 2.0]
        torch.add(x, x, alpha=3)
    x + 1
    assert seen == [(who, what) for what in ("add", "tolist", "add") for who in ("inner", "outer")]


def test_modes_see_every_function_and_method() -> None:
    """Names that PyTorch's mode sees; `__get__` of properties is seen there only."""
    seen = []

    class Watch(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Watch():
        x = torch.zeros(3, 3)
        y = x.clone().detach().to(torch.float64).contiguous().cpu()
        x.copy_(torch.randn(3, 3)).fill_(1).normal_()
        x.index_add_(0, torch.tensor([0]), torch.full((1, 3), 1.0)).zero_()
        y.split(1), y > 0, y / 2, -y, len(y), y.size(), y.numpy()
        torch.nn.functional.batch_norm(x, None, None, training=True)
        torch.nn.functional.dropout(torch.arange(3.0))
        w = torch.ones(2, requires_grad=True)
        w.sum().backward()
        assert not bool(y.sum())
    assert seen == [
        "zeros",
        "clone",
        "detach",
        "to",
        "contiguous",
        "cpu",
        "randn",
        "copy_",
        "fill_",
        "normal_",
        "tensor",
        "full",
        "index_add_",
        "zero_",
        "split",
        "gt",
        "div",
        "neg",
        "__len__",
        "size",
        "numpy",
        "batch_norm",
        "arange",
        "dropout",
        "ones",
        "sum",
        "backward",
        "sum",
        "__bool__",
    ]
    seen.clear()
    torch.zeros(1)
    assert not seen


def test_functions_that_a_mode_is_handed_are_the_public_ones() -> None:
    class Count(overrides.TorchFunctionMode):
        found = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Count.found += func in (torch.Tensor.clone, torch.zeros, torch.Tensor.add, torch.Tensor.copy_)
            return func(*args, **(kwargs or {}))

    with Count():
        x = torch.zeros(2)
        x.copy_(x.clone() + 1)
    assert Count.found == 4


def test_own_functions_can_be_overridden() -> None:
    @overrides.wrap_torch_function(lambda x: (x,))
    def own(x):
        return "own"

    assert own(torch.ones(1)) == "own" and own(Duck()) == ("own", (Duck,))


def test_names() -> None:
    assert overrides.resolve_name(torch.add) == "torch.add" and torch.add in overrides.get_testing_overrides()
    assert torch.tensor in overrides.get_ignored_functions() and overrides.is_tensor_method_or_property(torch.Tensor.add)


class Slotted(torch.Tensor):
    """A subclass with a slot, whose calls go on to what they call."""

    __slots__ = ("calls",)

    @classmethod
    def __torch_function__(cls, func, types, args, kwargs=None):
        seen = next((x.calls for x in args if isinstance(x, Slotted) and hasattr(x, "calls")), None)
        if seen is not None:
            seen.append(func.__name__)
        return torch.overrides.redispatch_function(func, types, args, kwargs)


def slotted(*values):
    made = torch.tensor(values).as_subclass(Slotted)
    made.calls = []
    return made


def test_a_class_with_slots_is_copied_and_saved_with_them():
    x = slotted(1.0, 2.0)
    x.calls.append("kept")
    twin = copy.deepcopy(x)
    assert type(twin) is Slotted and "kept" in twin.calls and twin.calls is not x.calls
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    with torch.serialization.safe_globals([Slotted]):
        loaded = torch.load(file)
    assert type(loaded) is Slotted and loaded.calls[0] == "kept"
    assert loaded.as_subclass(torch.Tensor).tolist() == [1.0, 2.0]


def test_a_call_goes_on_without_being_asked_again():
    def scaled(a, b):
        if torch.overrides.has_torch_function((a, b)):
            return torch.overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    x, y = slotted(3.0), slotted(4.0)
    made = scaled(x, y)
    assert type(made) is torch.Tensor and made.item() == 13
    assert x.calls == ["scaled", "mul"]  # the product is of a plain class, and adding to it asks nobody

    class Log(torch.overrides.TorchFunctionMode):
        seen = []

        def __torch_function__(self, func, types, args, kwargs=None):
            self.seen.append(func.__name__)
            with self:
                return torch.overrides.redispatch_function(func, types, args, kwargs)

    with Log():
        scaled(torch.tensor(3.0), torch.tensor(4.0))
    assert Log.seen == ["tensor", "tensor", "scaled", "mul", "add"]
    assert torch.overrides.has_torch_function((x,))


def test_a_parameter_of_a_subclass_prints_as_one():
    class Named(torch.Tensor):
        pass

    assert repr(torch.nn.Parameter(torch.zeros(2).as_subclass(Named))) == "Parameter(Named([0., 0.], requires_grad=True))"


def test_functions_bear_pytorchs_names():
    F = torch.nn.functional
    same = [torch.softmax, F.softmax, F.group_norm, torch.ctc_loss, torch.range, torch.absolute, torch.clip_, torch.concat,
            torch.Tensor.reshape, torch.Tensor.permute, torch.Tensor.unique, torch.Tensor.pow_, torch.Tensor.__getitem__,
            torch.Tensor.__setitem__, torch.Tensor.__float__, torch.Tensor.__invert__, torch.is_tensor]  # fmt: skip
    names = """softmax softmax group_norm ctc_loss range absolute clip_ concat reshape permute unique pow_ __getitem__ __setitem__
        __float__ __invert__ is_tensor""".split()
    assert [f.__name__ for f in same] == [f.__qualname__ for f in same] == names


def test_modes_see_operators_of_the_dispatcher_rooms_and_what_python_calls():
    seen = []

    class Watch(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.eye(2)
    with Watch():
        torch.ops.aten.add.Tensor(x, x)
        torch.ops.aten.add(x, x)
        torch.linalg.inv(x), torch.linalg.pinv(x), torch.special.expit(x), torch.fft.fft(x)
        copy.deepcopy(x), repr(x), f"{x.sum()}"
        copy.deepcopy(torch.nn.Parameter(x))
    assert seen == ["add.Tensor", "add", "linalg_inv", "linalg_pinv", "expit", "fft_fft", "__deepcopy__", "__repr__", "sum",
                    "__format__", "clone"]  # fmt: skip


class Told:
    """No tensor: keeps what it was told was called."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, args[1:]


def test_views_are_called_by_their_public_functions() -> None:
    told = Told()
    assert torch.transpose(told, 0, 1) == (torch.transpose, (0, 1))
    assert torch.permute(told, (1, 0)) == (torch.permute, ((1, 0),))
    assert torch.swapaxes(told, 0, 1)[0] is torch.swapaxes


def test_transforms_inside_each_other_permute() -> None:
    rows = torch.arange(1.0, 7.0).reshape(2, 3)
    made = torch.vmap(torch.func.jacfwd(lambda x: x.reshape(3, 1).permute(1, 0) * x))(rows)
    assert made.shape == (2, 1, 3, 3)
    assert made[0, 0].tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]


def test_functions_that_look_for_tensors_ask_what_is_none() -> None:
    told = Told()
    assert torch.cat([told, told], 1)[0] is torch.cat and torch.stack([torch.ones(2), told])[0] is torch.stack
    assert torch.reshape(told, (2,)) == (torch.reshape, ((2,),))
    for function in (torch.numel, torch.is_floating_point, torch.is_complex):
        assert function(told) == (function, ())
        with pytest.raises(AttributeError):
            function(object())
    with pytest.raises(TypeError, match="expected Tensor as element 1 in argument 0, but got int"):
        torch.cat([told, 3])


class Listening(torch.Tensor):
    """Keeps the functions that were called."""

    heard: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.heard.append(func)
        return super().__torch_function__(func, types, args, kwargs)


def test_subclasses_hear_of_the_public_views() -> None:
    x = torch.ones(2, 3).as_subclass(Listening)
    Listening.heard.clear()
    assert torch.transpose(x, 0, 1).shape == (3, 2) and torch.permute(x, (1, 0)).shape == (3, 2)
    assert Listening.heard[0] is torch.transpose and torch.permute in Listening.heard


def test_an_index_that_overrides_is_asked():
    class Index:
        @classmethod
        def __torch_function__(cls, function, types, args, kwargs=None):
            return seen.append((function, types))

    seen, x = [], torch.zeros(3)
    x[Index()] = 1
    x[0, Index()] = 1
    x[Index()]
    assert seen == [(torch.Tensor.__setitem__, (Index,))] * 2 + [(torch.Tensor.__getitem__, (Index,))]


def test_a_class_that_answers_operators_overrides_no_functions() -> None:
    """As in PyTorch: what its operators give is given, as it is; one that says __torch_function__ itself is asked."""

    class Answers(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Plain(torch.Tensor):
        pass

    class Both(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

        __torch_dispatch__ = Answers.__torch_dispatch__

    class Below(Answers):
        pass

    disabled = torch._C._disabled_torch_function_impl
    assert [cls.__torch_function__ is disabled for cls in (Answers, Below, Plain, Both)] == [True, True, False, False]


def test_attributes_in_slots_of_a_wrapper_are_kept_in_the_graph() -> None:
    from flambeau.utils._pytree import tree_map

    class Wrapper(torch.Tensor):
        __slots__ = ["elem"]

        @staticmethod
        def __new__(cls, elem):
            made = torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype, requires_grad=elem.requires_grad)
            made.elem = elem.detach()
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = tree_map(lambda x: x.elem if isinstance(x, Wrapper) else x, (args, kwargs or {}))
            return tree_map(lambda x: Wrapper(x) if isinstance(x, torch.Tensor) else x, func(*inner[0], **inner[1]))

    x = Wrapper(torch.ones(3, requires_grad=True))
    (gradient,) = torch.autograd.grad((x.view_as(x).exp() * 3).sum(), x)
    assert isinstance(gradient, Wrapper) and gradient.elem.tolist() == (torch.ones(3).exp() * 3).tolist()
    assert float(Wrapper(torch.tensor(2.5))) == 2.5 and int(Wrapper(torch.tensor(3))) == 3
    made = torch.autograd.functional.hvp(lambda x: (x.narrow(0, 0, 2) ** 3).sum(), Wrapper(torch.ones(3)), Wrapper(torch.ones(3)))
    assert made[1].elem.tolist() == [6, 6, 0]
    columns, units = torch.autograd.functional._construct_standard_basis_for((Wrapper(torch.zeros(2)), torch.zeros(1)), (2, 1))
    assert columns.elem.tolist() == [[1, 0], [0, 1], [0, 0]] and units.tolist() == [[0], [0], [1]]


def test_the_cpu_and_meta_have_no_index() -> None:
    for name in ("cpu:0", "cpu:1", "meta:1"):
        device = torch.device(name)
        made = [torch.empty(0, device=name), torch.zeros_like(torch.ones(2), device=device), torch.rand(2, device=name)]
        with device:
            made.append(torch.ones(2))
        assert {x.device for x in made} == {torch.device(device.type)} and device.index is not None


def test_a_list_that_contains_itself_is_refused_also_while_calls_are_looked_at():
    endless: list = []
    endless.append(endless)
    with torch.overrides.BaseTorchFunctionMode(), pytest.raises(ValueError, match="too many dimensions 'list'"):
        torch.tensor(endless)


def test_tensors_without_memory_of_their_own_are_not_seen_as_a_subclass() -> None:
    class Named(torch.Tensor):
        pass

    for tensor in (torch.eye(2).to_sparse(), torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)):
        for see in (lambda: tensor.as_subclass(Named), lambda: torch.Tensor._make_subclass(Named, tensor)):
            with pytest.raises(NotImplementedError, match="Named over a nested, sparse or masked tensor"):
                see()
        assert torch.nn.Parameter(tensor).layout == tensor.layout
    assert torch.ones(2, device="meta").as_subclass(Named).is_meta


def test_layouts_are_no_classes_of_programs():
    rows = [torch.ones(2), torch.ones(1)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    asked = torch.overrides.has_torch_function
    assert [asked((x,)) for x in (torch.eye(2).to_sparse(), torch.nested.nested_tensor(rows), jagged)] == [False, False, True]
    assert (jagged._max_seqlen_tensor.shape, jagged._min_seqlen_tensor.shape) == ((2, 0), (1, 0))


def test_methods_and_functions_are_told_apart():
    """As in PyTorch: a mode, and a class, see `Tensor.add` of x.add(1) and x + 1, `torch.add` of torch.add(x, 1)."""
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    calls = {
        torch.add: lambda x: torch.add(x, 1), torch.Tensor.add: lambda x: x.add(1), torch.Tensor.add_: lambda x: x.add_(1),
        torch.arctan2: lambda x: torch.arctan2(x, x), torch.Tensor.arctan2: lambda x: x.arctan2(x),
        torch.Tensor.sum: lambda x: x.sum(0, keepdim=True), torch.sum: lambda x: torch.sum(x), torch.clone: torch.clone,
        torch.Tensor.clone: lambda x: x.clone(), torch.Tensor.sin: torch.Tensor.sin,
    }  # fmt: skip
    operators = {
        torch.Tensor.add: [lambda x: x + 1, lambda x: 1 + x, lambda x: torch.ones(2) + x], torch.Tensor.abs: [abs],
        torch.Tensor.matmul: [lambda x: x @ x], torch.Tensor.div: [lambda x: x / 2], torch.Tensor.gt: [lambda x: x > 0],
    }  # fmt: skip
    for made in (torch.ones(2), torch.ones(2).as_subclass(Sub)):
        for wanted, call in [*calls.items(), *((f, call) for f, some in operators.items() for call in some)]:
            with Mode() if type(made) is torch.Tensor else contextlib.nullcontext():
                seen.clear()
                call(made)
            assert [f for f in seen if f is not torch.ones] == [wanted]
    made = torch.eye(2).as_subclass(Sub)
    for method, arguments in ((torch.Tensor.nonzero, ()), (torch.Tensor.swapaxes_, (0, 1)), (torch.Tensor.cosh_, ())):
        seen.clear()
        method(made, *arguments)  # not found on the class, which would ask by itself
        assert seen == [method]
    assert torch.overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not torch.overrides.is_tensor_method_or_property(torch.add)

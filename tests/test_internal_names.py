"""Names with an underscore that other people's libraries import: what they do is PyTorch's, too."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import _tensor_str, _utils


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), (None, None, False, None)),
        (("cpu", torch.float16), (torch.device("cpu"), torch.float16, False, None)),
        ((torch.float16, True), (None, torch.float16, True, None)),
        ((torch.zeros(1, dtype=torch.float64),), (torch.device("cpu"), torch.float64, False, None)),
    ],
)
def test_how_to_is_read(arguments: tuple[object, ...], expected: tuple[object, ...]) -> None:
    assert torch._C._nn._parse_to(*arguments) == expected


def test_to_refuses_a_copy() -> None:
    with pytest.raises(RuntimeError, match=r"\.to\(\) does not accept copy argument"):
        torch.nn.Linear(2, 2).to("cpu", copy=False)


def test_the_type_of_tensors() -> None:
    assert torch._C._TensorMeta is type(torch.Tensor)
    x = torch.zeros(2, dtype=torch.float64)
    assert x.type(torch.Tensor).dtype is torch.float32 and x.type("torch.Tensor").dtype is torch.float32
    with pytest.raises(ValueError, match="invalid type: 'Parameter'"):
        x.type(torch.nn.Parameter)
    with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
        x.type(5)


def test_the_numbers_of_devices() -> None:
    assert _utils._get_device_index("cuda:1") == 1 and _utils._get_device_index("cpu", allow_cpu=True) == -1
    assert _utils._get_device_index(None, optional=True) is None and _utils._get_device_index(3) == 3
    with pytest.raises(ValueError, match="Expected a non cpu device, but got: cpu"):
        _utils._get_device_index("cpu")
    with pytest.raises(ValueError, match="a specified index or an integer, but got:cuda"):
        _utils._get_device_index("cuda")


def test_tensors_in_one_buffer() -> None:
    tensors = [torch.arange(6.0).reshape(2, 3), torch.ones(2)]
    flat = _utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 1, 1]
    views = _utils._unflatten_dense_tensors(flat, tensors)
    assert views[0].shape == (2, 3) and views[1].data_ptr() == flat.data_ptr() + 24
    a, b = tensors
    chunks = list(_utils._take_tensors([a, b, a.half(), b], 16))
    assert [[t.numel() for t in chunk] for chunk in chunks] == [[6], [2, 2], [6]]
    assert chunks[2][0].dtype is torch.float16
    ordered = _utils._reorder_tensors_as([a.half(), a, b], [a, b, a.half()])
    assert [t.dtype for t in ordered] == [torch.float32, torch.float32, torch.float16]


def test_an_exception_travels() -> None:
    try:
        {}["a"]
    except KeyError:
        wrapped = _utils.ExceptionWrapper(where="in a thread")
    with pytest.raises(KeyError) as caught:
        wrapped.reraise()
    assert str(caught.value).startswith("Caught KeyError in a thread.\nOriginal Traceback (most recent call last):\n")
    assert wrapped.exc_type is KeyError and "KeyError: 'a'" in wrapped.exc_msg


def test_parts_of_printed_tensors() -> None:
    assert _tensor_str._str(torch.ones(2, requires_grad=True), tensor_contents="x") == "tensor(x, requires_grad=True)"
    assert _tensor_str._tensor_str(torch.ones(2, 2), 4) == "[[1., 1.],\n     [1., 1.]]"
    assert _tensor_str._add_suffixes("tensor(" + "a" * 70, ["dtype=torch.float64", "x=3"], 4, False) == (
        "tensor(" + "a" * 70 + ",\n    dtype=torch.float64, x=3)"
    )
    assert _tensor_str._add_suffixes("t(1", ["x=3"], 2, True) == "t(1,\n  x=3)"
    assert _tensor_str.get_summarized_data(torch.arange(10)).tolist() == [0, 1, 2, 7, 8, 9]
    with _tensor_str.printoptions(precision=2):
        assert _tensor_str.PRINT_OPTS.precision == 2 and repr(torch.tensor(1.234)) == "tensor(1.23)"


def test_what_the_build_says() -> None:
    assert torch.__config__.show().startswith("PyTorch built with:\n  - ") and "USE_CUDA=0" in torch.__config__.show()
    assert f"at::get_num_threads() : {torch.get_num_threads()}\n" in torch.__config__.parallel_info()


def test_names_of_the_native_module() -> None:
    assert torch._C.Generator is torch.Generator and torch._C._LinAlgError is torch.linalg.LinAlgError
    with pytest.raises(AttributeError, match="no native module"):
        _ = torch._C._something_else
    with pytest.raises(AttributeError):
        _ = torch._C.nn


def test_conditions_of_library_code() -> None:
    torch._check(True)
    for check, error in ((torch._check, RuntimeError), (torch._check_value, ValueError), (torch._check_index, IndexError),
                         (torch._check_type, TypeError), (torch._check_not_implemented, NotImplementedError)):
        with pytest.raises(error, match=r"^why$"):
            check(False, lambda: "why")
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        torch._check(False)
    with pytest.raises(KeyError, match="2"):
        torch._check_with(KeyError, False, lambda: 2)
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        torch._check(1)
    with pytest.raises(TypeError, match="cond must be a bool, but got a Tensor"):
        torch._check(torch.tensor(True))
    with pytest.raises(TypeError, match="message must be a callable"):
        torch._check(False, "why")
    torch._check_tensor_all(torch.tensor([True, True]))
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(torch.tensor([True, False]))
    with pytest.raises(TypeError, match=r"cond tensor must have dtype torch.bool, but got torch.float32"):
        torch._check_tensor_all(torch.ones(2))
    with pytest.warns(FutureWarning, match="_check_is_size will be removed"), pytest.raises(RuntimeError):
        torch._check_is_size(5, max=3)


def test_results_of_a_subclass_are_converted() -> None:
    from flambeau._tensor import _convert

    class Kind(torch.Tensor):
        pass

    x = torch.ones(2)
    made = _convert([x, (x, 3)], Kind)
    assert type(made[0]) is Kind and type(made[1][0]) is Kind and made[1][1] == 3
    assert _convert(x, torch.Tensor) is x


def test_other_names_of_what_exists() -> None:
    assert torch.torch is torch and torch.legacy_contiguous_format is torch.contiguous_format
    sizes = torch._shape_as_tensor(torch.zeros(2, 0, 3))
    assert sizes.tolist() == [2, 0, 3] and sizes.dtype is torch.int64

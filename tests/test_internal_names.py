"""Names with an underscore that other people's libraries import: what they do is PyTorch's, too."""

from __future__ import annotations

from collections.abc import Iterator

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
    for check, error in (
        (torch._check, RuntimeError),
        (torch._check_value, ValueError),
        (torch._check_index, IndexError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
    ):
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


def test_functions_inside_a_context() -> None:
    from flambeau.utils._contextlib import _DecoratorContextManager, context_decorator

    seen: list[object] = []

    class Noting(_DecoratorContextManager):
        def __init__(self, name: str) -> None:
            self.name = name

        def clone(self) -> Noting:
            return Noting(self.name)

        def __enter__(self) -> None:
            seen.append(self.name)

        def __exit__(self, *exception: object) -> None:
            seen.append(None)

    @Noting("a")
    def decorated() -> int:
        return len(seen)

    assert decorated() == 1 and seen == ["a", None] and decorated.__name__ == "decorated"
    assert context_decorator(lambda: Noting("b"), lambda x: (x, len(seen)))(1) == (1, 3)

    def counting() -> Iterator[int]:
        yield len(seen)
        yield len(seen)

    assert list(context_decorator(lambda: Noting("c"), counting)()) == [5, 7]
    with pytest.raises(AssertionError, match="is both callable and also a valid context manager"):
        context_decorator(Noting("d"), decorated)
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        context_decorator(lambda: Noting("e"), int)


def test_a_tensor_made_of_tensors() -> None:
    from flambeau.utils import _python_dispatch as dispatch

    class Pair(torch.Tensor):
        def __tensor_flatten__(self) -> tuple[list[str], str]:
            return ["part"], "context"

        @staticmethod
        def __tensor_unflatten__(inner: dict, context: str, size: object, stride: object) -> Pair:
            assert context == "context" and stride == (1,)
            made = torch.zeros_like(inner["part"]).as_subclass(Pair)
            made.part = inner["part"]
            return made

    pair = torch.zeros(2).as_subclass(Pair)
    pair.part = torch.ones(2)
    assert dispatch.is_traceable_wrapper_subclass(pair) and dispatch.is_traceable_wrapper_subclass_type(Pair)
    assert not any(dispatch.is_traceable_wrapper_subclass(x) for x in (torch.zeros(1), torch.nn.Parameter(), 3))
    made = dispatch.transform_subclass(pair, lambda name, x: x + len(name))
    assert type(made) is Pair and made.part.tolist() == [5.0, 5.0]
    with pytest.raises(AssertionError, match="to have shape equal to"):
        dispatch.transform_subclass(pair, lambda name, x: x[:1])


def test_small_helpers() -> None:
    from flambeau.multiprocessing.spawn import ProcessRaisedException
    from flambeau.numa.binding import AffinityMode, NumaOptions
    from flambeau.utils._import_utils import _check_module_exists
    from flambeau.utils._mode_utils import all_same_mode
    from flambeau.utils._typing_utils import not_none

    assert _check_module_exists("os.path") and not _check_module_exists("no_such_module")
    assert all_same_mode([]) and all_same_mode([1, 1]) and not all_same_mode([1, 2])
    assert not_none(0) == 0
    with pytest.raises(TypeError, match="value was None when it should not be"):
        not_none(None)
    options = NumaOptions(AffinityMode("core-complex"))
    assert str(AffinityMode.NODE) == "AffinityMode.NODE" == str(NumaOptions(AffinityMode.NODE).affinity_mode)
    assert options.affinity_mode is AffinityMode.CORE_COMPLEX and not options.should_fall_back_if_binding_fails
    assert torch.multiprocessing.ProcessRaisedException is ProcessRaisedException and callable(torch.multiprocessing.spawn)


def test_questions_about_dtypes() -> None:
    from flambeau import _prims_common as utils

    rows = [  # dtype, is boolean, integer, low precision, float, complex, may require grad; as Python's; computed in
        (torch.float16, 0, 0, 1, 1, 0, 1, float, torch.float32),
        (torch.bfloat16, 0, 0, 1, 1, 0, 1, float, torch.float32),
        (torch.float64, 0, 0, 0, 1, 0, 1, float, torch.float64),
        (torch.complex32, 0, 0, 1, 0, 1, 1, complex, torch.complex64),
        (torch.complex64, 0, 0, 0, 0, 1, 1, complex, torch.complex64),
        (torch.bool, 1, 0, 0, 0, 0, 0, bool, torch.bool),
        (torch.uint8, 0, 1, 0, 0, 0, 0, int, torch.uint8),
        (torch.uint16, 0, 1, 0, 0, 0, 0, int, torch.uint16),
        (torch.float8_e5m2, 0, 0, 0, 1, 0, 1, float, torch.float8_e5m2),
    ]
    asked = [utils.is_boolean_dtype, utils.is_integer_dtype, utils.is_low_precision_dtype, utils.is_float_dtype,
             utils.is_complex_dtype, utils.is_grad_dtype, utils.dtype_to_type, utils.get_computation_dtype]  # fmt: skip
    for dtype, *answers in rows:
        assert [ask(dtype) for ask in asked] == answers, dtype
    assert utils.corresponding_real_dtype(torch.complex32) is torch.float16
    assert utils.corresponding_complex_dtype(torch.bfloat16) is torch.complex64
    assert utils.type_to_dtype(complex) is torch.complex64 and utils.get_dtype(2) is torch.int64
    assert utils.get_higher_type(int, float) is float and utils.is_weakly_lesser_type(bool, int)
    assert not utils.can_safe_cast_to(cast_to=torch.int32, cast_from=torch.float32)
    with pytest.raises(ValueError, match="Invalid type <class 'str'>!"):
        utils.type_to_dtype(str)


def test_questions_about_shapes() -> None:
    from flambeau import _prims_common as utils

    assert utils.make_contiguous_strides_for((2, 0, 3)) == (3, 3, 1) and utils.make_contiguous_strides_for(()) == ()
    assert utils.make_contiguous_strides_for((2, 4, 3), row_major=False) == (12, 1, 4)
    assert utils.make_channels_last_strides_for((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert utils.make_channels_last_strides_for((2, 3, 4, 5, 6)) == (360, 1, 90, 18, 3)
    images = torch.ones(2, 3, 4, 5)
    assert utils.suggest_memory_format(images) is torch.contiguous_format
    last = images.to(memory_format=torch.channels_last)
    assert utils.suggest_memory_format(last) is torch.channels_last and not utils.is_contiguous_or_false(last)
    assert utils.is_contiguous_for_memory_format(last, memory_format=torch.channels_last)
    assert utils.canonicalize_dim(3, -1) == 2 and utils.canonicalize_dims(3, [-1, 0]) == (2, 0)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 3"):
        utils.canonicalize_dim(3, 3)
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        utils.canonicalize_dim(0, 0, wrap_scalar=False)
    assert utils.is_valid_permutation(3, (0, 2, 1)) and not utils.is_valid_permutation(3, (0, 2))
    assert utils.apply_perm("abc", utils.invert_perm([2, 0, 1])) == ["b", "c", "a"]
    assert utils.infer_size((2, -1), 6) == (2, 3) and utils.is_expandable_to((1, 3), (2, 3))
    with pytest.raises(RuntimeError, match=r"shape '\[4, -1\]' is invalid for input of size 6"):
        utils.infer_size((4, -1), 6)
    assert utils.extract_shape_from_varargs((2, 3)) == utils.extract_shape_from_varargs(((2, 3),)) == (2, 3)
    assert utils.compute_reduction_output_shape((2, 3, 4), (1,)) == (2, 4) and utils.reduction_dims((2, 3), None) == (0, 1)
    with pytest.raises(RuntimeError, match="duplicate value in the list of dims"):
        utils.reduction_dims((2, 3), (1, -1))
    assert [utils.set_correction(), utils.set_correction(False), utils.set_correction(None, 2)] == [1.0, 0.0, 2.0]
    assert utils.is_cpu_scalar_tensor(torch.tensor(1.0)) and utils.prod([]) == 1
    with pytest.raises(RuntimeError, match="no"):
        utils.check(False, lambda: "no")


def test_gradients_of_softmax_by_name() -> None:
    for function, backward in (
        (torch.softmax, torch._softmax_backward_data),
        (torch.log_softmax, torch._log_softmax_backward_data),
    ):
        x = torch.tensor([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]], requires_grad=True)
        grad = torch.tensor([[1.0, 0.0, 2.0], [0.5, -1.0, 0.25]])
        made = function(x, 1)
        made.backward(grad)
        torch.testing.assert_close(backward(grad, made.detach(), 1, torch.float32), x.grad)


def test_facts_of_a_tensor_are_asserted():
    x = torch.ones(2, 3)
    torch._assert_tensor_metadata(x, [2, 3], [3, 1], torch.float32, device="cpu", layout=torch.strided)
    for facts, words in [
        ({"size": [1]}, r"Tensor sizes mismatch! Expected: \[1\], Got: \[2, 3\]"),
        ({"stride": [1]}, r"Tensor strides mismatch! Expected: \[1\], Got: \[3, 1\]"),
        ({"dtype": torch.int32}, "Tensor dtype mismatch! Expected: Int, Got: float"),
        ({"device": "meta"}, "Tensor device mismatch! Expected: meta, Got: cpu"),
        ({"layout": torch.sparse_coo}, "Tensor layout mismatch! Expected: Sparse, Got: Strided"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            torch._assert_tensor_metadata(x, **facts)


def test_the_executor_of_scripts_keeps_what_is_set() -> None:
    C = torch._C
    assert C._jit_set_profiling_executor(True) is True and C._jit_set_profiling_mode(False) is True
    assert C._jit_set_profiling_mode(True) is False
    assert not C._jit_can_fuse_on_cpu() and C._jit_override_can_fuse_on_cpu(True) is None and C._jit_can_fuse_on_cpu()
    C._jit_override_can_fuse_on_cpu(False)


class Slotted:
    __slots__ = ("__dict__", "data")


def test_the_state_of_an_object_is_put_back() -> None:
    one, other = Slotted(), Slotted()
    one.data, one.more = 1, 2  # type: ignore[attr-defined]
    state = _utils._get_obj_state(one)
    assert state == ({"more": 2}, {"data": 1})
    assert _utils._set_obj_state(other, state) is other
    assert (other.data, other.more) == (1, 2)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="Invalid serialized state"):
        _utils._set_obj_state(other, (1, 2, 3))
    with pytest.raises(TypeError, match="a file can't set the attribute '_storage'"):
        _utils._set_obj_state(torch.ones(1), (None, {"_storage": 0}))


def test_what_the_processor_has() -> None:
    widest = torch.backends.cpu.get_cpu_capability()
    assert (widest == "AVX512") <= torch.cpu._is_avx512_supported() <= torch.cpu._is_avx2_supported() or widest == "DEFAULT"
    assert torch._C._cpu._is_vnni_supported() is torch.cpu._is_vnni_supported()


def test_triton_has_no_device() -> None:
    from flambeau.sparse import _triton_ops_meta
    from flambeau.utils._triton import has_triton

    assert not has_triton()
    with pytest.raises(NotImplementedError, match="no device for Triton"):
        _triton_ops_meta.get_meta("bsr_dense_addmm", ())


def test_words_are_warned_of_once() -> None:
    from flambeau._dynamo.utils import warn_once

    with pytest.warns(UserWarning, match="only once") as heard:
        for _ in range(2):
            warn_once("only once, for this test")
    assert len(heard) == 1 and heard[0].filename == __file__


def test_limits_of_recompilation_are_lifted_for_a_block() -> None:
    from flambeau._dynamo import config
    from flambeau._dynamo.utils import disable_cache_limit

    before = config.recompile_limit, config.cache_size_limit
    with disable_cache_limit():
        assert min(config.recompile_limit, config.cache_size_limit) > 1_000_000
    assert (config.recompile_limit, config.cache_size_limit) == before


def test_compilers_take_decompositions_of_a_program() -> None:
    from flambeau._inductor.decomposition import decompositions, register_decomposition

    operator = torch.ops.aten.silu.default
    before = decompositions.get(operator)
    try:
        for rule in (lambda x: x * x.sigmoid(), lambda x: x / (1 + (-x).exp())):
            assert register_decomposition([operator])(rule) is rule
            assert decompositions[operator] is rule
    finally:
        decompositions.pop(operator)
        if before is not None:
            decompositions[operator] = before

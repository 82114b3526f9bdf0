"""What is registered for an operator, and which kernel answers it for each dispatch key, as PyTorch's dispatcher shows them."""

import warnings

import pytest

import flambeau as torch
from flambeau import _C as C
from flambeau._python_dispatcher import PythonDispatcher


def _table(name):
    return dict(line.split(": ", 1) for line in C._dispatch_dump_table(name).splitlines())


def test_kernels_come_and_go_in_any_order():
    first, second, third = (C._dispatch_library("FRAGMENT", "tabled", "") for _ in range(3))
    assert C._dispatch_dump("tabled::foo") == C._dispatch_dump_table("tabled::foo") == ""
    first.impl_t_t("foo", debug="fn1")
    second.impl_t_t("foo", debug="fn2")
    third.def_("foo(Tensor x) -> Tensor", alias="PURE_FUNCTION")
    assert C._dispatch_dump("tabled::foo") == (
        "name: tabled::foo\nschema: tabled::foo(Tensor x) -> Tensor\ndebug: registered at /dev/null:0\n"
        "alias analysis kind: PURE_FUNCTION\n"
        "CompositeImplicitAutograd[alias]: fn2 :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]\n"
        "CompositeImplicitAutograd[alias] (inactive): fn1 :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]\n"
    )
    del third, second
    assert C._dispatch_find_dangling_impls() == [
        "name: tabled::foo\nschema: (none)\nCompositeImplicitAutograd[alias]: fn1 :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]\n"
    ]
    del first
    assert C._dispatch_dump("tabled::foo") == "" and C._dispatch_find_dangling_impls() == []


@pytest.mark.parametrize(
    "kernels, expected",
    [
        (
            {"CPU": "c", "CompositeImplicitAutograd": "m"},
            {"Undefined": "m [math kernel]", "CPU": "c [kernel]", "CUDA": "m [math kernel]", "AutogradCUDA": "m [math kernel]"},
        ),
        (
            {"CPU": "c", "Autograd": "a", "CompositeExplicitAutograd": "d", "CompositeImplicitAutograd": "m"},
            {"CUDA": "d [default backend kernel]", "AutogradCUDA": "a [autograd kernel]", "AutogradOther": "a [autograd kernel]"},
        ),
        (
            {"CPU": "c", "Autograd": "a", "CompositeImplicitAutograd": "m"},
            {"AutogradCPU": "a [autograd kernel]", "AutogradXLA": "m [math kernel]", "AutogradOther": "m [math kernel]"},
        ),
        (
            {"FPGA": "f", "CompositeImplicitAutograd": "m"},
            {"FPGA": "f [kernel]", "AutogradOther": "ambiguous_autogradother [ambiguous autogradother]"},
        ),
        ({"Autograd": "a"}, {"AutogradCPU": "a [autograd kernel]", "CPU": None, "Undefined": None}),
    ],
)
def test_computed_tables(kernels, expected):
    library = C._dispatch_library("FRAGMENT", "tabled", "").def_("foo(Tensor x) -> Tensor")
    for key, name in kernels.items():
        library.impl_t_t("foo", key, debug=name)
    table = _table("tabled::foo")
    assert {key: table.get(key) for key in expected} == expected
    for key, answer in expected.items():
        assert C._dispatch_has_computed_kernel_for_dispatch_key("tabled::foo", key) is (answer is not None)


def test_kernels_of_other_arguments_and_second_definitions_are_refused():
    library = C._dispatch_library("FRAGMENT", "tabled", "").def_("foo(Tensor x, Tensor y) -> Tensor")
    with pytest.raises(RuntimeError, match=r"reason: The number of arguments is different. 2 vs 1."):
        library.impl_t_t("foo")
    with pytest.raises(RuntimeError, match="same name and overload name multiple times"):
        library.def_("foo(Tensor x, Tensor y) -> Tensor")
    other = C._dispatch_library("FRAGMENT", "tabled", "").impl_t_t("bar", "CPU")
    with pytest.raises(RuntimeError, match="2 vs 1"):
        other.def_("bar(Tensor x, Tensor y) -> Tensor")


def test_fallbacks_are_registered_once():
    library = C._dispatch_library("IMPL", "_", "XLA")
    library.fallback_fallthrough()
    with pytest.raises(RuntimeError, match="multiple backend fallbacks for the same dispatch key XLA"):
        library.fallback_fallthrough()
    library.reset()
    C._dispatch_library("IMPL", "_", "XLA").fallback_fallthrough()
    with pytest.raises(RuntimeError, match="could not parse dispatch key: no_key"):
        C._dispatch_print_registrations_for_dispatch_key("no_key")
    assert "aten::add.Tensor" in C._dispatch_get_registrations_for_dispatch_key("CPU")
    assert C._dispatch_call_boxed(C._dispatch_find_schema_or_throw("aten::neg", ""), torch.ones(1)).item() == -1


def test_model_of_the_dispatcher():
    dispatcher = PythonDispatcher()
    dispatcher.register(["CPU", "FPGA", "CompositeImplicitAutograd"])
    assert dispatcher.registrations() == (
        "\nRegistered Kernels\nkey             kernel\n---------------------------\nFPGA            fn_FPGA\n"
        "CPU             fn_CPU\nCompositeImplicitAutograd[alias] fn_CompositeImplicitAutograd\n"
    )
    assert "AutogradCPU     [backend fallback]\n" in dispatcher.dispatchTable()
    del dispatcher
    with pytest.raises(RuntimeError, match="Overriden is not allowed"):
        PythonDispatcher().register(["CPU", "CPU"])


def test_registrations_say_how_vmap_computes_operators():
    """Those that are computed by others are apart; an operator that runs once for each example has no rule."""
    composite, rules, bodies, cpu = (
        set(C._dispatch_get_registrations_for_dispatch_key(key))
        for key in ("CompositeImplicitAutograd", "FuncTorchBatched", "FuncTorchBatchedDecomposition", "CPU")
    )
    assert bodies <= composite and not composite & (rules | cpu)
    assert {"aten::sin", "aten::add.Tensor", "aten::sin_", "aten::index_put"} <= rules
    assert {"aten::hsplit.int", "aten::divide.Scalar_mode", "aten::fft_irfft", "aten::arccosh_"} <= bodies
    x = torch.rand(2, 3)
    calls = {"masked_scatter": lambda x: x.masked_scatter(x > 0.5, x), "cumsum": lambda x: x.cumsum(0)}
    for name, call in calls.items():  # what is said is what is done
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            torch.vmap(call)(x)
        assert any("batching rule" in str(w.message) for w in warned) == (f"aten::{name}" not in rules)
    assert C._dispatch_has_kernel_for_dispatch_key("aten::fft_irfft", "CompositeImplicitAutograd")
    assert not C._dispatch_has_kernel_for_dispatch_key("aten::fft_irfft", "CPU")
    assert C._dispatch_has_computed_kernel_for_dispatch_key("aten::fft_irfft", "CPU")

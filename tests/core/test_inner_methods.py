"""Names by which PyTorch's own code calls functions and methods: torch._C's tables of functions, methods with an underscore."""

import pytest

import flambeau as torch


def test_tables_of_functions_have_pytorchs_operators():
    functions = torch._C._VariableFunctions
    assert functions.abs is torch.abs and functions.embedding_bag is torch.embedding_bag
    x = torch.ones(2, 3)
    assert torch.equal(functions.alias_copy(x), x) and torch.equal(torch._C._nn.relu6_(x * 9), x * 6)
    with pytest.raises(NotImplementedError, match="_cudnn_init_dropout_state"):
        functions._cudnn_init_dropout_state(0.5, True, 0)
    with pytest.raises(AttributeError):
        functions.no_such_operator


def test_methods_by_inner_names():
    x = torch.eye(3).to_sparse()
    assert (x._dimI(), x._dimV()) == (2, 0) and torch.equal(x._to_dense(), torch.eye(3))
    assert torch.eye(2)._to_sparse_csr().layout is torch.sparse_csr
    half = torch.ones(2, dtype=torch.bfloat16)
    assert half._autocast_to_full_precision(False, True).dtype is torch.float32
    assert half._autocast_to_full_precision(False, False) is half
    assert torch.ones(2)._autocast_to_reduced_precision(False, True, torch.float16, torch.bfloat16).dtype is torch.bfloat16
    made = torch.ones(2)._addmm_activation(torch.eye(2), -torch.eye(2))
    assert made.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_bits_of_conjugates_and_negatives_are_set():
    x = torch.tensor([1 + 2j])
    torch._C._set_conj(x, True)
    torch._C._set_neg(x, True)
    assert x.is_conj() and x.tolist() == [-1 + 2j]
    torch._C._set_conj(x, False)
    assert not x.is_conj() and x.is_neg()


def test_operators_that_pytorch_tests_calls_with():
    nn = torch._C._nn
    x = torch.tensor([1, 2], dtype=torch.int32)
    assert nn._test_optional_intlist(x, None) is x and nn._test_optional_intlist(x, [5, 4]).tolist() == [6, 6]
    assert nn._test_optional_filled_intlist(x, 10).tolist() == [11, 12]
    with pytest.raises(RuntimeError, match="A"):
        nn._test_string_default(x, a="")
    y = torch.ones(2, requires_grad=True)
    torch.ops.aten._test_autograd_multiple_dispatch.fullcoverage(y).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_a_class_below_one_that_asks_has_tensors_own_methods():
    class Wrapper(torch.Tensor):
        pass

    class Below(Wrapper):
        @staticmethod
        def __new__(cls, x, **named):
            return torch.Tensor._make_wrapper_subclass(cls, x.size(), **named)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return [7, 7] if func is torch.ops.aten.sym_size.default else NotImplemented

    assert Below.size is torch.Tensor.size and Below.device is torch.Tensor.device
    asked = Below(torch.ones(2, 3), dispatch_sizes_strides_policy="sizes")
    assert asked.size() == (7, 7) and Below(torch.ones(2, 3)).size() == (2, 3)
    assert Below.size is torch.Tensor.size and Below.shape is torch.Tensor.shape


def test_hooks_are_told_of_what_is_compiled():
    told = []
    torch._C._jit_set_emit_hooks(lambda m: told.append("module"), lambda f: told.append(f.name))
    try:

        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        class Doubling(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return double(x)

        torch.jit.script(double)
        torch.jit.script(Doubling())
    finally:
        torch._C._jit_set_emit_hooks(None, None)
    assert told == ["double", "module"]

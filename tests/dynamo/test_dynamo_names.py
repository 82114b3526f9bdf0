"""torch._dynamo and torch._inductor: marks, settings, and what says that nothing is captured."""

from __future__ import annotations

import unittest

import pytest

import flambeau as torch
from flambeau._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex


def test_marks_give_functions_back() -> None:
    def f(x: int) -> int:
        return x

    dynamo = torch._dynamo
    for mark in (dynamo.allow_in_graph, dynamo.assume_constant_result, dynamo.forbid_in_graph, dynamo.run):
        assert mark(f) is f
    assert dynamo.disable(f)(3) == 3 and dynamo.disable(recursive=False)(f)(3) == 3
    assert not dynamo.is_compiling() and dynamo.graph_break() is None and not isinstance(f, dynamo.OptimizedModule)
    assert dynamo.explain(f)(3).graph_count == 0


def test_marks_of_tensors_stay_with_them() -> None:
    x = torch.ones(3, 2)
    torch._dynamo.mark_dynamic(x, [0, 1])
    torch._dynamo.mark_static(x)
    torch._dynamo.mark_static_address(x)
    assert x._dynamo_dynamic_indices == x._dynamo_static_indices == {0, 1} and x._dynamo_static_input_type == "unguarded"
    with pytest.raises(AssertionError):
        torch._dynamo.mark_dynamic(x, 5)


def test_settings() -> None:
    config = torch._dynamo.config
    assert config.cache_size_limit == 8
    with config.patch(cache_size_limit=9), config.patch("verbose", True), config.patch({"disable": True}):
        assert config.cache_size_limit == 9 and config.verbose and config.disable
        assert "torch._dynamo.config.recompile_limit = 9" in config.codegen_config().splitlines()
    assert config.cache_size_limit == 8 and config.codegen_config() == ""
    for act in (lambda: setattr(config, "surely_not", 1), lambda: config.surely_not, config.patch(surely_not=1).__enter__):
        with pytest.raises(AttributeError, match=r"torch._dynamo.config.surely_not does not exist"):
            act()

    @torch._inductor.config.patch(max_autotune=True)
    def inside() -> bool:
        return torch._inductor.config.max_autotune

    assert inside() and not torch._inductor.config.max_autotune and not torch._inductor.config.triton.cudagraphs
    saved = config.save_config()
    config.verbose = True
    config.load_config(saved)
    assert not config.verbose and torch._inductor.list_mode_options("default") == {}


def test_exceptions_can_be_caught() -> None:
    exc = torch._dynamo.exc
    assert issubclass(exc.Unsupported, exc.TorchDynamoException) and issubclass(exc.TorchDynamoException, RuntimeError)
    assert "ValueError: no" in str(exc.BackendCompilerFailed(test_settings, ValueError("no")))


def test_indexing_by_tensors_copies_within_the_context() -> None:
    x = torch.arange(12).view(2, 6)
    with TransformGetItemToIndex():
        row = x[torch.tensor(1)]
        picked = torch.vmap(lambda i: torch.vmap(lambda j: x[i, j])(torch.arange(6)))(torch.arange(2))
        view = x[1]
    assert row.tolist() == x[1].tolist() and not row._is_view()
    assert picked.tolist() == x.tolist() and view._is_view()


def test_a_setting_that_is_deleted_may_be_set_again():
    from flambeau._dynamo import config

    before = config.cache_size_limit
    del config.cache_size_limit
    assert not hasattr(config, "cache_size_limit")
    config.cache_size_limit = before


def test_earlier_names_of_settings() -> None:
    config = torch._dynamo.config
    with config.patch(cache_size_limit=3):
        assert config.recompile_limit == 3 and "cache_size_limit" not in config.to_dict()
    assert config.cache_size_limit == config.recompile_limit == 8
    later = config.patch(no_such_setting=1)  # known to be none when it begins
    with pytest.raises(AttributeError, match=r"torch._dynamo.config.no_such_setting does not exist"), later:
        pass


def test_a_test_case_forgets_what_was_compiled() -> None:
    from flambeau._dynamo.test_case import TestCase
    from flambeau._inductor.test_case import TestCase as Same

    assert TestCase is Same
    counts = torch._dynamo.testing.CompileCounter()
    function = torch.compile(lambda x: x + 1, backend=counts)

    class Case(TestCase):
        def test_first(self) -> None:
            self.assertEqual(function(torch.ones(2)), torch.full((2,), 2.0))
            torch.set_grad_enabled(False)

        def test_second(self) -> None:
            assert torch.is_grad_enabled() and config.raise_on_ctx_manager_usage
            self.assertEqual(function(torch.ones(2)), torch.full((2,), 2.0))

    config, result = torch._dynamo.config, unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert result.wasSuccessful() and result.testsRun == 2
    assert counts.frame_count == 2


def test_helpers_for_tests_of_compiled_functions() -> None:
    testing, utils = torch._dynamo.testing, torch._dynamo.utils
    case = unittest.TestCase()
    testing.standard_test(case, lambda x, y: x + y * 2, 2, expected_ops=2)
    with pytest.raises(AssertionError):
        testing.standard_test(case, lambda x, y: x + y * 2, 2, expected_ops=3)

    class Cases(unittest.TestCase):
        def test_setting(self) -> None:
            self.assertEqual(torch._dynamo.config.recompile_limit, 3)

        @testing.expectedFailureDynamic
        def test_that_fails(self) -> None:
            raise AssertionError

    patch = (torch._dynamo.config, "recompile_limit", 3)
    made = testing.make_test_cls_with_patches(Cases, "Few", "_few", patch, xfail_prop="_expected_failure_dynamic")
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(made).run(result)
    assert made.__name__ == "FewCases" and result.testsRun == 2 and result.wasSuccessful() and len(result.expectedFailures) == 1
    assert utils.ifdynstaticdefault(1, 2) == 1 and utils.istype(True, bool) and not utils.istype(True, int)
    assert utils.hashable(()) and not utils.hashable([])
    with utils.preserve_rng_state():
        first = torch.rand(2)
    assert torch.equal(first, torch.rand(2))
    with utils.disable_cache_limit():
        assert torch._dynamo.config.recompile_limit > 1000

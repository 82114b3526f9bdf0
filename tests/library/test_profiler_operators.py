"""torch.ops.profiler: a block that two operators begin and end is measured like record_function's."""

import pytest

import flambeau as torch


def test_a_block_between_two_operators_is_measured() -> None:
    operators = torch.ops.profiler
    with torch.autograd.profiler.profile() as measured:
        handle = operators._record_function_enter("block")
        torch.ones(3).relu()
        assert operators._record_function_exit(handle) is None
    assert "block" in [event.key for event in measured.key_averages()]
    with pytest.raises(RuntimeError, match="has ended"):
        operators._record_function_exit(handle)
    assert isinstance(operators._record_function_enter, torch._ops.OpOverloadPacket)

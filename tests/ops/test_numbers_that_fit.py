"""Numbers beside tensors must be elements of the dtype that is computed in: PyTorch refuses them where they aren't."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

C_NAMES = {torch.int8: "int8_t", torch.uint8: "uint8_t", torch.int16: "int16_t", torch.int32: "int", torch.float16: "c10::Half"}
TOO_LARGE = {torch.int8: 300, torch.uint8: 300, torch.int16: 70000, torch.int32: 2**33, torch.float16: 70000}
TRUE = torch.tensor([True, False])
IN_ALL = [
    lambda x, m, v: x.clamp(max=v),
    lambda x, m, v: x.clamp(v, v),
    lambda x, m, v: x.clone().clamp_(min=v),
    lambda x, m, v: torch.clamp_max(x, v),
    lambda x, m, v: torch.clamp(x, max=v, out=torch.empty_like(x)),
    lambda x, m, v: torch.add(x, x, alpha=v),
    lambda x, m, v: x.clone().add_(x, alpha=v),
    lambda x, m, v: torch.sub(x, 1, alpha=v),
    lambda x, m, v: torch.rsub(x, x, alpha=v),
    lambda x, m, v: torch._foreach_add([x], [x], alpha=v),
    lambda x, m, v: torch.addmv(x, m, x, alpha=v),
    lambda x, m, v: torch.addr(m, x, x, beta=v),
    lambda x, m, v: x**v,
    lambda x, m, v: F.threshold(x, 0, v),
    lambda x, m, v: F.hardtanh(x, *sorted((0, v))),
]
IN_INTEGERS = [  # half precision is computed with in float32 here
    lambda x, m, v: torch.addcmul(x, x, x, value=v),
    lambda x, m, v: x.clone().addcmul_(x, x, value=v),
    lambda x, m, v: torch.addmm(m, m, m, alpha=v),
    lambda x, m, v: torch.addmm(m, m, m, beta=v),
    lambda x, m, v: torch.baddbmm(m[None], m[None], m[None], beta=v),
    lambda x, m, v: torch.addbmm(m, m[None], m[None], alpha=v),
    lambda x, m, v: torch.where(TRUE, x, v),
    lambda x, m, v: x.where(TRUE, v),
]


@pytest.mark.parametrize("dtype", list(C_NAMES))
def test_numbers_that_do_not_fit_are_refused_however_often_others_went_well(dtype):
    x, matrix = torch.ones(2, dtype=dtype), torch.ones(2, 2, dtype=dtype)
    for call in [*IN_ALL, *(IN_INTEGERS if dtype is not torch.float16 else ())]:
        for fits in (2, 3):
            call(x, matrix, fits)
            with pytest.raises(RuntimeError, match=f"value cannot be converted to type {C_NAMES[dtype]} without overflow"):
                call(x, matrix, TOO_LARGE[dtype])


def test_operands_are_taken_modulo_their_range():
    assert torch.add(torch.ones(2, dtype=torch.int32), 2**33).tolist() == [1, 1]
    assert torch.add(torch.ones(2, dtype=torch.int32), 2**63).tolist() == [1, 1]
    assert (torch.ones(2, dtype=torch.uint8) * 300).tolist() == [44, 44]


def test_what_has_no_place_in_a_dtype():
    overflow = pytest.raises(RuntimeError, match="without overflow")
    with overflow:
        torch.add(torch.ones(2, dtype=torch.int8), 1, alpha=-300)
    for infinite in (float("inf"), float("nan")):
        with overflow:
            F.threshold(torch.ones(2, dtype=torch.int16), 2, infinite)
    assert torch.zeros(3).lerp(torch.ones(3), 2 + 0j).tolist() == [2, 2, 2]
    for call in (torch.zeros(3).lerp, torch.zeros(3).lerp_):
        with overflow:
            call(torch.ones(3), 1j)
    with overflow:
        torch._foreach_lerp([torch.zeros(3)], [torch.ones(3)], 1j)
    with pytest.raises(RuntimeError, match="cannot do hardtanh on an unsigned type with negative limits"):
        F.hardtanh(torch.ones(2, dtype=torch.uint8))

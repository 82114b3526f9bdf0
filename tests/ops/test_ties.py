"""Which of equal elements are named where PyTorch's answer isn't stable."""

import flambeau as torch

NAN = float("nan")


def _row(count):
    return [i * 7 % 5 for i in range(count)]


def test_topk_names_the_elements_that_introselect_finds():
    assert torch.tensor([[7, 3, 7, 7, 7]], dtype=torch.int8).topk(1)[1].tolist() == [[2]]
    x = torch.tensor(_row(40))
    assert x.topk(6)[1].tolist() == [22, 12, 27, 32, 7, 37]
    assert x.topk(6, largest=False)[1].tolist() == [15, 35, 30, 10, 25, 20]
    assert torch.tensor(_row(130)).topk(2)[1].tolist() == [7, 2]
    assert torch.stack([x, x.flip(0)], 1).float().topk(30, dim=0)[1][:, 1].tolist() == [
        2,
        27,
        17,
        32,
        37,
        7,
        22,
        12,
        0,
        20,
        15,
        30,
        35,
        10,
        5,
        25,
        23,
        28,
        33,
        18,
        13,
        8,
        38,
        3,
        31,
        1,
        36,
        26,
        16,
        6,
    ]


def test_topk_puts_nan_first():
    assert torch.tensor([NAN, 1.0, NAN, 3.0, NAN]).topk(4)[1].tolist() == [2, 4, 0, 3]


def test_kthvalue_names_the_element_that_quickselect_finds():
    x = torch.tensor(_row(33))
    assert [x.kthvalue(k)[1].item() for k in (1, 5, 17, 33)] == [30, 15, 16, 32]


def test_nanmedian_of_nans():
    assert [torch.full((n,), NAN).nanmedian(0)[1].item() for n in range(1, 12)] == [0, 0, 0, 2, 2, 3, 5, 6, 7, 8, 8]


def test_topk_of_no_elements_of_a_single_one():
    values, indices = torch.tensor(2.5).topk(0)
    assert (values.item(), indices.item()) == (2.5, 0)

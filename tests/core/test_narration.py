"""FLAMBEAU_DEBUG=1: a line per operator call, whatever kind of operator it is."""

import flambeau as torch
from flambeau.core.modes.op_log import narrate


def test_every_kind_of_call_is_printed(capsys):
    x = torch.ones(2, 3, requires_grad=True)
    with narrate():
        y = x.t()  # a view
        row = y[0]  # indexing
        row.view(2).add(1).sum().backward()
        x.detach().add_(1)
        torch.cat((x, x))
    printed = capsys.readouterr().err
    for name in ("t(f32[2, 3]) -> f32[3, 2]", "getitem(", "view(", "add(", "sum(", "add_(", "cat("):
        assert name in printed

"""Helpers around modules: gradient clipping, sequences, reparametrisation, fusion.

`nn.modules.rnn` needs `utils.rnn`, and most of the rest needs the modules: hence the order of imports in `nn`.
"""

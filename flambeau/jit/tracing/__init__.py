"""torch.jit.trace: programs that are recorded while they run.

`recorder` is the mode that sees every call, `state` the graph it writes and which value each tensor is; `rules` and `indexing`
say which operators a call is; `scopes` makes methods of what submodules recorded; `modules` are the traced modules; `entry` has
what users call, `checking` compares a trace with another run.
"""

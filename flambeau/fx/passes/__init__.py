"""torch.fx.passes: what reads graphs and changes them.

`shape_prop` notes shapes; `split_module`, `split_utils` cut a module in pieces; `infra` runs passes and finds what belongs
together; `utils.matcher_utils` finds patterns.
"""

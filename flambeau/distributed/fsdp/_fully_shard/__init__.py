"""fully_shard: parameters cut over the ranks, gathered while their module runs.

`parameter` is one parameter, cut and whole; `group` those of a module, which are sent together; `state` what a module does before
and after its forward and backward; `api` the function and what it makes of a module.
"""

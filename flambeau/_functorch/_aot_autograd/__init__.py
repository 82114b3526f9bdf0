"""torch._functorch._aot_autograd: how a function and its gradients become graphs ahead of time.

`fakes` makes the tensors on which a function is traced, `metadata` runs it once and notes what it does to memory: which inputs it
writes to, which results share memory with inputs or with each other. `synthetic_bases` has inputs that share memory given as one.
`tracing` records the function, or the function with its gradients, as a graph without writes; `compile` divides the graph and
hands its parts to compilers; `runtime` calls what they made, writes to the inputs what the program would have written, and takes
views anew, so that a caller can't tell the difference. `schemas` has the words for all this.

Stands on make_fx (`fx.experimental.proxy_tensor`) and on functionalization (`_subclasses.functional_tensor`); used by
`aot_autograd`.
"""

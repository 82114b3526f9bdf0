"""The dispatcher: operators by their qualified names, `torch.ops.namespace.name.overload`, and their registrations.

An operator defined by a program has one record (`record.OperatorRecord`): its schema (`schema`), its kernels by
dispatch key (`keys`), and what it is under autograd (`gradients`), autocast, vmap (`batching`) and on the meta device
(`fakes`). `calling` answers a call from the record; `overloads` has the objects that programs call and look at,
`namespaces` the tree they hang in, and `builtin` PyTorch's own operators, which are functions of flambeau. Stands on
core and transform; torch.library, torch.ops and some names of torch._C are faces of it.
"""

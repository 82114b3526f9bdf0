"""What stands in packages for a module that was mocked out: its objects can be named, but not used.

The text of this file lies in such packages, and so it stands on nothing.
"""

_METHODS = """
    abs add and bool bytes call ceil complex contains copy deepcopy delattr delitem dir divmod enter eq exit float floor floordiv
    ge getattr getitem getstate gt hash iadd iand idiv ifloordiv ilshift imod imul index instancecheck int invert ior ipow irshift
    isub iter itruediv ixor le len lshift lt mod mul ne neg or pos pow rand rdivmod reduce reversed rmul round rrshift rshift
    setattr setitem sizeof sub subclasscheck truediv trunc xor
""".split()


class MockedObject:
    """An object of a module that was mocked out. NotImplementedError for every use."""

    _name: str

    def __new__(cls, *args, **kwargs):  # type: ignore[no-untyped-def]
        if not kwargs.get("_suppress_err"):  # as unpickling does
            raise NotImplementedError(
                f"Object '{cls._name}' was mocked out during packaging but it is being used in '__new__'. If this error is "
                "happening during 'load_pickle', please ensure that your pickled object doesn't contain any mocked objects."
            )
        return super().__new__(cls)

    def __init__(self, name: str, _suppress_err: bool):
        self.__dict__["_name"] = name

    def __repr__(self):  # type: ignore[no-untyped-def]
        return f"MockedObject({self._name})"


def _refuse(method):  # type: ignore[no-untyped-def]
    def refused(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        raise NotImplementedError(f"Object '{self._name}' was mocked out during packaging but it is being used in {method}")

    return refused


for _method in _METHODS:
    setattr(MockedObject, f"__{_method}__", _refuse(f"__{_method}__"))

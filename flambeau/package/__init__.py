"""torch.package: objects with the source of the modules that they need, in one archive, which PyTorch reads and writes too.

`PackageExporter` writes a package, `PackageImporter` runs one: its modules live beside those of the environment, under names of
their own (`_mangling`), and import one another. A package is a program, so only trusted ones are to be loaded.
"""

from flambeau.package.analyze.is_from_package import is_from_package
from flambeau.package.file_structure_representation import Directory
from flambeau.package.glob_group import GlobGroup
from flambeau.package.importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer
from flambeau.package.package_exporter import EmptyMatchError, PackageExporter, PackagingError
from flambeau.package.package_importer import PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]

"""Empty modules in the place of packages that exist only beside a GPU, so that what imports them at its top can be
read on a processor. They compute nothing: whoever calls into them gets nothing back."""

import importlib.abc
import importlib.machinery
import sys
import types


class _Empty(type):
    """A class with every attribute, each such a class again; made and called with anything."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name, cls.__module__)


def _empty(name: str, module: str):
    return _Empty(name, (), {"__module__": module, "__init__": lambda self, *_, **__: None,
                             "__call__": lambda self, *_, **__: None})


class _Module(types.ModuleType):
    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name, self.__name__)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, versions: dict[str, str]):
        self._versions = versions

    def find_spec(self, name, path=None, target=None):
        known = name.split(".")[0] in self._versions
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        module.__version__ = self._versions[module.__name__.split(".")[0]]


def stand_in_for(**versions: str) -> None:
    """From now on these packages, and whatever one imports of them, are empty and of these versions."""
    sys.meta_path.insert(0, _Finder(versions))

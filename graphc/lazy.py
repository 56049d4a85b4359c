"""Names of modules that are imported on first use (PEP 562).

A higher layer can provide a lower layer with names, which the lower layer does not import itself.
A path is a module without a file that has names of other modules.

Example:
    >>> provide("graphc.example", names={"math": "sqrt tau"})
    >>> import_provided("graphc.example", "sqrt")(16.0)
    4.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from opcode import opmap
from types import FrameType, ModuleType, NoneType
from typing import Any

SOURCES: dict[str, dict[str, tuple[str, str | None]]] = {}
"""For each module and name: the defining module and the name there; None for the module itself."""


PATHS: dict[str, tuple[str, ...]] = {}
"""For each path: the modules whose names it has, in order."""

IMPORT_FROM = opmap["IMPORT_FROM"]
"""The instruction of ``from module import name`` that reads the name."""


def provide(
    module: str, *, modules: Sequence[str] = (), names: Mapping[str, str] | None = None
) -> None:
    """Provide a module with names of other modules, without importing these.

    Args:
        module: The module's full name; the module need not be imported.
        modules: Modules by their full names, provided under the last part.
        names: Names in other modules, separated by spaces, by the full name of the defining module;
            ``new=name`` provides ``name`` under the name ``new``.
    """
    sources = SOURCES.setdefault(module, {})
    sources.update((path.rpartition(".")[2], (path, None)) for path in modules)
    for path, listed in (names or {}).items():
        for item in listed.split():
            name, _, own = item.partition("=")
            sources[name] = (path, own or name)


def import_provided(module: str, name: str) -> Any:
    """Import and return the value that a module is provided with under a name.

    Raises:
        KeyError: If the module is not provided with this name.
    """
    path, attribute = SOURCES[module][name]
    source = import_module(path)
    return source if attribute is None else getattr(source, attribute)


def listing(namespace: Mapping[str, Any], more: str = "") -> Callable[[], list[str]]:
    """Return the ``__dir__`` of a module: the public names, which editors complete.

    Args:
        namespace: The module's ``globals()``.
        more: Public names that are not in ``__all__``, separated by spaces.
    """

    def __dir__() -> list[str]:  # noqa: N807 (it becomes the module's)
        special = (name for name in namespace if name.startswith("__"))
        sources = SOURCES.get(namespace["__name__"], ())
        public = namespace.get("__all__", namespace)
        return sorted({*special, *public, *more.split(), *sources})

    return __dir__


def attributes(
    namespace: dict[str, Any], more: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a module with the names it is provided with.

    Args:
        namespace: The module's ``globals()``, which keeps each name once it is used.
        more: As for ``listing``.
    """
    module = namespace["__name__"]
    sources = SOURCES.setdefault(module, {})

    def __getattr__(name: str) -> Any:  # noqa: N807 (it becomes the module's)
        if name not in sources:
            path = f"{module}.{name}"
            if path in PATHS:
                return sys.modules[path]
            from graphc.absent import remedy_of_name  # noqa: PLC0415 (for errors alone)

            problem = f"module {module!r} has no attribute {name!r}"
            if remedy := remedy_of_name(module, name):
                problem += f". {remedy}"
                if _is_from_import(sys._getframe(1)):
                    raise ImportError(problem, name=module)
            raise AttributeError(problem, name=name, obj=sys.modules[module])
        namespace[name] = value = import_provided(module, name)
        return value

    return __getattr__, listing(namespace, more)


class Path(ModuleType):
    """A module without a file: it has names of other modules and imports these on first use."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return dir(self)
        path = self.__name__
        if f"{path}.{name}" in PATHS:
            return sys.modules[f"{path}.{name}"]
        for value in self._import_public(name):
            self.__dict__[name] = value
            return value
        from graphc.absent import problem_of_name  # noqa: PLC0415 (for errors alone)

        problem = problem_of_name(path, name)
        if _is_from_import(sys._getframe(1)):
            raise ImportError(problem, name=path)
        raise AttributeError(problem, name=name, obj=self)

    def _import_public(self, name: str) -> Iterator[Any]:
        """Yield the values of a public name in the modules whose names the path has."""
        if name.startswith("_"):
            return
        if name in SOURCES.get(self.__name__, ()):
            yield import_provided(self.__name__, name)
        for source in PATHS[self.__name__]:
            module = import_module(source)
            value = getattr(module, name, None)
            # A file of the folder may have the name of a function of another one.
            if name in module.__all__ or not isinstance(value, ModuleType | NoneType):
                yield value

    def __dir__(self) -> list[str]:
        modules = [import_module(source) for source in PATHS[self.__name__]]
        names = (name for module in modules for name in module.__all__)
        return sorted({*SOURCES.get(self.__name__, ()), *names})


def _is_from_import(frame: FrameType) -> bool:
    """Return whether a frame runs ``from module import name``, which hides any AttributeError."""
    return frame.f_code.co_code[frame.f_lasti] == IMPORT_FROM


def add_paths(listed: Mapping[str, str]) -> None:
    """Add paths from which the names of modules can be imported, without importing these.

    A path may end with the name of a function: ``from graphc.scan import until`` imports from the
    path, and ``graphc.scan`` stays the function, as no attribute of a module is set.

    Args:
        listed: Paths, separated by spaces, by the full names of the modules whose names they have,
            separated by spaces. A name is looked up first among the names that ``provide`` gives
            the path, then in the modules in this order.
    """
    for modules, paths in listed.items():
        for path in paths.split():
            PATHS[path] = tuple(modules.split())
            sys.modules[path] = module = Path(path, f"PyTensor's path of names of {modules}.")
            module.__spec__ = ModuleSpec(path, None, is_package=True)
            # As of a package, so that the import of a module in it reaches the last finder.
            module.__path__ = []


class AbsentFinder:
    """The last finder of modules, which is asked only when an import fails."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise an error that names the replacement of a PyTensor module that graphc lacks.

        Raises:
            ModuleNotFoundError: If the module's name begins with ``graphc.``.
        """
        # Tools that search other folders for a file, as pytest does, pass other paths.
        parent = sys.modules.get(name.rpartition(".")[0])
        if name.startswith("graphc.") and path is getattr(parent, "__path__", None):
            from graphc.absent import problem  # noqa: PLC0415 (for errors alone)

            raise ModuleNotFoundError(problem(name), name=name)


def load_all() -> None:
    """Import all provided names, except those that need libraries that are not installed."""
    for module, sources in [*SOURCES.items()]:  # what is imported may add others
        for name in sources:
            with suppress(ModuleNotFoundError):
                import_provided(module, name)


Callback = Callable[[Any], None]

_waiting: dict[str, list[Callback]] = {}


def call_when_imported(name: str, callback: Callback) -> None:
    """Call a function with a module, now or when it is imported; never imports it."""
    module = sys.modules.get(name)
    if module is not None and name not in _waiting:
        callback(module)
        return
    if name not in _waiting:
        _waiting[name] = []
        sys.meta_path.insert(0, _Finder(name))
    _waiting[name].append(callback)


class _Finder:
    """A finder that wraps the loader of one module, and removes itself then."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """A loader that runs the callbacks after another loader."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__loader__"] = self.loader
        self.loader.exec_module(module)
        for callback in _waiting.pop(module.__name__, ()):
            callback(module)

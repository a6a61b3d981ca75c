"""Calls when a script has imported a module. sitecustomize.py has the same for itself: it may load nothing before PyTorch is there."""
import sys


def when_imported(names, call):
    """call(name, module) once each of these modules has been executed, or at once for one that is there. None is imported by this."""
    for name in names:
        if sys.modules.get(name) is not None:
            call(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder(names, call))


class _Loader:
    """A module's own loader, and a call when the module has been executed."""

    def __init__(self, loader, executed):
        self._loader, self._executed = loader, executed

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._executed(module)


class _Finder:
    """Finds nothing by itself: it notices when one of the modules has been imported."""

    def __init__(self, names, call):
        self._names, self._call = frozenset(names), call
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self._names or name in self._busy:
            return None
        self._busy.add(name)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, 'find_spec', None)
                spec = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    if hasattr(spec.loader, 'exec_module'):
                        spec.loader = _Loader(spec.loader, lambda module: self._call(name, module))
                    return spec
            return None
        finally:
            self._busy.discard(name)

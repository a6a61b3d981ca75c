"""Calls when a script has imported a module. Used before anything else is loaded, so it needs sys alone."""
import sys


def when_imported(names, call, begun=None):
    """call(name, module) once each of these modules has been executed, or at once for one that is there; begun(name) before. None is imported by this."""
    for name in names:
        if sys.modules.get(name) is not None:
            call(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder(names, call, begun))


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
    """Finds nothing by itself: it notices when the modules are imported, and is gone after the last of them."""

    def __init__(self, names, call, begun):
        self._waiting, self._call, self._begun = set(names), call, begun
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self._waiting or name in self._busy:
            return None
        self._busy.add(name)
        if self._begun is not None:
            self._begun(name)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, 'find_spec', None)
                spec = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    if hasattr(spec.loader, 'exec_module'):
                        spec.loader = _Loader(spec.loader, lambda module: self._executed(name, module))
                    return spec
            return None
        finally:
            self._busy.discard(name)

    def _executed(self, name, module):
        self._waiting.discard(name)
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        self._call(name, module)

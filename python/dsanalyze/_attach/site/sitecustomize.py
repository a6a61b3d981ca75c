"""First on the path of a command that `dsanalyze profile -- COMMAND` starts: waits for PyTorch's DataLoader, then runs the next sitecustomize.

It imports nothing that the interpreter has not loaded by now, and a process that never imports PyTorch, nor asks for dsanalyze.watch(), is left alone. Where resuming is
proved, dsanalyze.Loader is waited for, too.
"""
import os
import sys


class _Loader:
    """The module's own loader, and a call when the module has been executed."""

    def __init__(self, loader, loaded):
        self._loader = loader
        self._loaded = loaded

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._loaded()


class _Packages:
    """Finds the hook, and where nothing else does the package that scripts import for dsanalyze.watch()."""

    def __init__(self, hook):
        self._folders = {'dsanalyze': os.path.dirname(hook), '_dsanalyze_attach': hook}

    def find_spec(self, name, path=None, target=None):
        if name not in self._folders:
            return None
        from importlib.util import spec_from_file_location
        folder = self._folders[name]
        return spec_from_file_location(name, os.path.join(folder, '__init__.py'), submodule_search_locations=[folder])


class _Watch:
    """Finds nothing by itself: it notices when torch and its DataLoader have been imported."""

    names = ('torch', 'torch.utils.data.dataloader')

    def __init__(self):
        self._busy = set()
        self._waiting = set(self.names)

    def find_spec(self, name, path=None, target=None):
        if name not in self.names or name in self._busy:
            return None
        self._busy.add(name)
        if name == 'torch':
            _leave('torch')  # The import itself may take minutes.
        try:
            for finder in sys.meta_path:
                find = getattr(finder, 'find_spec', None)
                spec = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    if hasattr(spec.loader, 'exec_module'):
                        spec.loader = _Loader(spec.loader, lambda: self._loaded(name))
                    return spec
            return None
        finally:
            self._busy.discard(name)

    def _loaded(self, name):
        self._waiting.discard(name)
        if self._waiting:
            return
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        try:
            _start()
        except Exception as error:  # A guest that cannot work leaves the script alone.
            _leave('fault', error)


def _leave(what, error=None):
    """A file for the launcher, of this process."""
    try:
        text = ''
        if error is not None:
            text = '{}: {} (PyTorch {}, Python {})'.format(type(error).__name__, error, getattr(sys.modules.get('torch'), '__version__', '?'), sys.version.split()[0])
        path = os.path.join(os.path.dirname(os.environ['DSANALYZE_ATTACH']), '%s-%d' % (what, os.getpid()))
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode('utf-8', 'replace')[:500])
        finally:
            os.close(file)
    except Exception:  # The launcher is gone, its disk is full, or the error has no text.
        pass


def _quiet_tracker():
    """A profiled training is ended before its processes remove their semaphores: Python's resource tracker removes them, and need not warn of it."""
    if os.environ.get('DSANALYZE_ATTACH_MODE') not in ('phases', 'resume') or 'multiprocessing.resource_tracker' not in ' '.join(getattr(sys, 'orig_argv', ())):
        return
    if 'warnings' in sys.modules:
        sys.modules['warnings'].filterwarnings('ignore', 'resource_tracker')
    else:
        sys.warnoptions.append('ignore:resource_tracker')


def _start():
    if os.environ.get('DSANALYZE_ATTACH_MODE') == 'resume':
        from _dsanalyze_attach import resume
        resume.install()
        return
    from _dsanalyze_attach import pytorch
    pytorch.install()


def _watch_own_loader():
    """A script may take its batches from dsanalyze.Loader and have no PyTorch, or import it later."""
    def imported(_, module):
        try:
            from _dsanalyze_attach import resume
            resume.install_own(module)
        except Exception as error:
            _leave('fault', error)

    try:
        from _dsanalyze_attach.imports import when_imported
        when_imported(('dsanalyze._loader',), imported)
    except Exception as error:
        _leave('fault', error)


def _run_next(own):
    sys.path[:] = [entry for entry in sys.path if not isinstance(entry, str) or os.path.abspath(entry) != own]
    sys.modules.pop('sitecustomize', None)
    import sitecustomize  # noqa: F401  The next one on the path; where there is none, the interpreter expects just this ImportError.


_own = os.path.dirname(os.path.abspath(__file__))
_quiet_tracker()
if os.environ.get('DSANALYZE_ATTACH'):
    sys.meta_path.append(_Packages(os.path.dirname(_own)))
    if 'torch' not in sys.modules:
        sys.meta_path.insert(0, _Watch())
    if os.environ.get('DSANALYZE_ATTACH_MODE') == 'resume':
        _watch_own_loader()
_run_next(_own)

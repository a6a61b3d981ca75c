"""First on the path of a command that `dsanalyze profile -- COMMAND` starts: waits for PyTorch's DataLoader, then runs the next sitecustomize.

It imports nothing that the interpreter has not loaded by now, and a process that never imports PyTorch, nor asks for dsanalyze.watch(), is left alone. Where resuming is
proved, dsanalyze.Loader is waited for, too.
"""
import os
import sys

from _imports import when_imported

del sys.modules['_imports']


class _WithoutBytecode:
    """Finds the hook's own modules, of which a Python that did not install them leaves nothing in their folder."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith('_dsanalyze_attach.'):
            return None
        from importlib.machinery import PathFinder
        spec = PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader.set_data = lambda *_, **__: None
        return spec


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


def _guarded(call, *arguments):
    """A guest that cannot work leaves the script alone."""
    try:
        call(*arguments)
    except Exception as error:
        _leave('fault', error)


def _start():
    if os.environ.get('DSANALYZE_ATTACH_MODE') == 'resume':
        from _dsanalyze_attach import resume
        resume.install()
        return
    from _dsanalyze_attach import pytorch
    pytorch.install()


def _watch_pytorch():
    waiting = {'torch', 'torch.utils.data.dataloader'}

    def begun(name):
        if name == 'torch':
            _leave('torch')  # The import itself may take minutes.

    def imported(name, _):
        waiting.discard(name)
        if not waiting:
            _guarded(_start)

    when_imported(tuple(waiting), imported, begun)


def _install_own_loader(module):
    """A script may take its batches from dsanalyze.Loader and have no PyTorch, or import it later."""
    from _dsanalyze_attach import resume
    resume.install_own(module)


def _run_next(own):
    sys.path[:] = [entry for entry in sys.path if not isinstance(entry, str) or os.path.abspath(entry) != own]
    sys.modules.pop('sitecustomize', None)
    import sitecustomize  # noqa: F401  The next one on the path; where there is none, the interpreter expects just this ImportError.


_own = os.path.dirname(os.path.abspath(__file__))
_quiet_tracker()
if os.environ.get('DSANALYZE_ATTACH') and sys.version_info >= (3, 6):
    sys.meta_path.insert(0, _WithoutBytecode())
    sys.meta_path.append(_Packages(os.path.dirname(_own)))
    if 'torch' not in sys.modules:
        _watch_pytorch()
    if os.environ.get('DSANALYZE_ATTACH_MODE') == 'resume':
        when_imported(('dsanalyze._loader',), lambda _, module: _guarded(_install_own_loader, module))
_run_next(_own)

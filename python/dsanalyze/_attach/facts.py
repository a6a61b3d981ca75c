"""What the hook reports about the process, the device, and the place where a script makes its loader."""
import os
import sys

from . import framework
from .shared_memory import error_text

rank_variables = (
    ('RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE'),
    ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_SIZE'),
    ('SLURM_PROCID', 'SLURM_NTASKS', ''),  # Of a job that starts no ranks, too.
)
_standard_library = os.path.dirname(os.__file__) + os.sep
_own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def rank():
    """Rank, world and local world (None: not known): what the library that trains has for them, which `distributed` says, or else the
    environment."""
    local_world, found = None, (0, 1)
    for names in rank_variables:
        values = [os.environ.get(name, '') for name in names]
        if values[0].isdigit() and values[1].isdigit():
            found = int(values[0]), int(values[1])
            local_world = int(values[2]) if values[2].isdigit() else None
            break
    of_library = framework.current.rank()
    found = of_library or found
    return {'rank': found[0], 'world': found[1], 'local_world': local_world, 'distributed': of_library is not None}


def device():
    """Sent with the first training loader, when the script has chosen its device."""
    cuda, name = framework.current.device()
    return {'t': 'device', 'cuda': cuda, 'device': name or _processor(), 'cpus': sorted(os.sched_getaffinity(0)),
            'gpus': ','.join(framework.current.gpus())}


def _processor():
    try:
        with open('/proc/cpuinfo', encoding='utf-8', errors='replace') as lines:
            for line in lines:
                if line.startswith('model name'):
                    return line.split(':', 1)[1].strip()
    except OSError:
        pass
    return ''


def _constructors(kind):
    """The code of the constructors of a class and its bases, of those that are wrapped, too."""
    codes = set()
    for base in kind.__mro__:
        function = base.__dict__.get('__init__')
        while function is not None:
            codes.add(getattr(function, '__code__', None))
            function = getattr(function, '__wrapped__', None)
    return codes


def origin(loader):
    """The file and line where a loader is made: the first caller outside of installed packages, or else the first outside of PyTorch, that is no constructor
    of the loader's own class. No frame is asked for its variables: before Python 3.13 that changes a dict that the script had from locals()."""
    return caller(_constructors(type(loader)))


def caller(without=()):
    """The same of a call: the first caller whose code is none of these."""
    inside = (*framework.current.folders, _own_folder)
    library = None, None
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(inside) and code not in without:
            place = code.co_filename, frame.f_lineno
            is_package = '/site-packages/' in place[0] or '/dist-packages/' in place[0]
            if not is_package and not place[0].startswith(_standard_library):
                return place
            library = library if library[0] or not is_package else place
        frame = frame.f_back
    return library


def name_of(value):
    kind = type(value)
    return kind.__module__ + '.' + kind.__qualname__


def length_of(value):
    """None where it has none."""
    try:
        return len(value)
    except Exception:
        return None


def raised_by_handler(error):
    """Whether a signal handler of the script raised it: an alarm, or PyTorch's when a worker died. That may happen within any call, so within the hook's, too."""
    signals = sys.modules.get('signal') or sys.modules.get('_signal')
    if signals is None:
        return False
    codes = {_code_of(signals.getsignal(number)) for number in range(1, signals.NSIG)} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(called):
    """Of a function, a method, a partial or an object with __call__."""
    called = getattr(called, 'func', called)
    return getattr(called, '__code__', None) or getattr(getattr(called, '__call__', None), '__code__', None)


def last_error():
    """The exception that ends the process, and where the script had it; None where there is none."""
    if not hasattr(sys, 'last_type'):
        return None
    last = sys.last_value
    # PyTorch raises that a worker has ended from the error that says by which signal.
    text = error_text(next((each for each in (last, last.__cause__, last.__context__) if 'killed by signal' in str(each)), last))
    trace, place = sys.last_traceback, None
    inside = (*framework.current.folders, _own_folder)
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(inside) and '/site-packages/' not in name and '/dist-packages/' not in name:
            place = name, trace.tb_lineno
        trace = trace.tb_next
    return text + (' ({}:{})'.format(os.path.basename(place[0]), place[1]) if place else '')

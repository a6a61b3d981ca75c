"""Imports torch once; runs each script that it is told about in a forked child, with the hook in it, and reports the exit status."""
import atexit
import importlib.util
import json
import multiprocessing.connection  # noqa: F401
import multiprocessing.queues  # noqa: F401
import multiprocessing.synchronize  # noqa: F401
import os
import runpy
import sys

import torch  # noqa: F401

import virtual_time

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(os.path.dirname(os.path.dirname(here)), 'python', 'dsanalyze', '_attach')


def install():
    """As sitecustomize does when torch has been imported."""
    sys.dont_write_bytecode = True  # As the launcher has it.
    sys.path.append(os.path.dirname(os.path.dirname(folder)))
    spec = importlib.util.spec_from_file_location('_dsanalyze_attach', os.path.join(folder, '__init__.py'), submodule_search_locations=[folder])
    package = sys.modules['_dsanalyze_attach'] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    importlib.import_module('_dsanalyze_attach.pytorch').install()


def child(request):
    os.setsid()
    output = os.open(request['output'], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(empty)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, 'w', closefd=False)
    sys.stderr = open(2, 'w', closefd=False)
    os.environ.clear()
    os.environ.update(request['environment'])
    os.chdir(request['folder'])
    sys.argv = request['command']
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    if request['virtual']:
        virtual_time.install()
    install()
    runpy.run_path(sys.argv[0], run_name='__main__')
    # What an interpreter does at its end, without taking torch apart, which takes longer than the script.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main():
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        pid = os.fork()
        if not pid:
            child(json.loads(line))
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


main()

"""What the kinds of rows have in common: commands that are ended whole, and what a run of one gave."""

import json
import os
import signal
import subprocess


class Failed(Exception):
    """A profile or a run gave nothing; the text says why."""


def stop(process):
    """Ends a command and what it started: by an interrupt, which the program cleans up after, and then by force."""
    try:
        process.send_signal(signal.SIGINT)
        process.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    end_group(process)


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def ran(command, cores=None, folder=None, timeout=170, environment=None, enter=None):
    """The standard output of a command; `cores` are those that it may use, and `enter` is called in its process first."""

    def first():
        if enter:
            enter()
        if cores:
            os.sched_setaffinity(0, cores)

    process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors='replace', start_new_session=True, preexec_fn=first)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failed(f'no end after {timeout} s: {" ".join(map(str, command))}') from None
    except BaseException:
        stop(process)
        raise
    end_group(process)
    if process.returncode != 0:
        said = ' '.join((err.strip() or out.strip()).splitlines()[-2:])
        raise Failed(f'exit code {process.returncode}: {said[:600]}')
    return out


def profiled(program, place, options, command=(), **others):
    """The record of a profile, which is saved at `place`."""
    words = ['--', *command] if command else []
    ran([program, 'profile', '--quiet', '-o', place, *options, *words], **others)
    return json.loads(place.read_text())


def two_figures(value):
    return float(f'{value:.2g}')

"""What workers hand batches over through: where it is full, some fail and others wait without a word."""
import os

place = '/dev/shm'
remedy = 'make it larger (docker run --shm-size 8g), or lower num_workers or prefetch_factor'


def full_text(error=''):
    """In brackets for the end of an error, where hardly anything of it is free, or where the error says that it is short; else nothing."""
    try:
        status = os.statvfs(place)
    except OSError:
        return ''
    free, whole = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    short = 'unable to allocate shared memory' in error or 'insufficient shared memory' in error
    return ' ({} is full: {} of {} KiB are free: {})'.format(place, free >> 10, whole >> 10, remedy) if whole and (short or free < whole // 16) else ''


def error_text(problem):
    """An exception in one line: the traceback of a loader's worker is left out of it."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    text = ': '.join([type(problem).__name__, *lines[:1]]) + (' ... ' + lines[-1] if len(lines) > 1 else '')
    return text[:400] + full_text(text)

"""What workers hand batches over through: where it is full, some fail and others wait without a word."""
import os

place = '/dev/shm'
remedy = 'make it larger (docker run --shm-size 8g), or lower num_workers or prefetch_factor'


def room():
    """Bytes that are free, and all of them. None where there is no such place."""
    try:
        status = os.statvfs(place)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


def _room_text(free, whole):
    return '{} of {} KiB are free: {}'.format(free >> 10, whole >> 10, remedy)


def full_text(error=''):
    """In brackets for the end of an error, where hardly anything of it is free, or where the error says that it is short; else nothing."""
    found = room()
    if not found or not found[1]:
        return ''
    free, whole = found
    short = 'unable to allocate shared memory' in error or 'insufficient shared memory' in error
    return ' ({} is full: {})'.format(place, _room_text(free, whole)) if short or free < whole // 16 else ''


def no_room_text(batches, each):
    """Why so many batches of so many bytes would not fit; nothing where they do."""
    found = room()
    if not found or not found[1] or batches * each <= found[0]:
        return ''
    return '{} has no room for the {} batches that they prepare ahead, of {} KiB each: {}'.format(place, batches, each >> 10, _room_text(*found))


def error_text(problem):
    """An exception in one line: the traceback of a loader's worker is left out of it."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    text = ': '.join([type(problem).__name__, *lines[:1]]) + (' ... ' + lines[-1] if len(lines) > 1 else '')
    return text[:400] + full_text(text)

"""What workers hand batches over through: where it is full, some fail and others wait without a word."""
import os

place = '/dev/shm'


def full_text():
    """In brackets for the end of an error, where hardly anything of it is free; else nothing."""
    try:
        status = os.statvfs(place)
    except OSError:
        return ''
    free, whole = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    return ' ({} is full: {} of {} KiB are free)'.format(place, free >> 10, whole >> 10) if whole and free < whole // 16 else ''

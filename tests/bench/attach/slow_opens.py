"""A file system (FUSE, as root) of many small files, each of which takes so long to open.

usage: slow_opens.py FOLDER FILES BYTES SECONDS    mounts it there, prints "mounted", and serves until it is ended

Its files are FOLDER/0 to FOLDER/FILES-1, of BYTES each. An open is answered after SECONDS, whatever other opens are in flight; what was read stays in the page cache.
"""
import concurrent.futures
import ctypes
import errno
import os
import stat
import struct
import sys
import time

lookup, forget, getattr_, open_, read, release, flush, init, batch_forget = 1, 2, 3, 14, 15, 18, 25, 26, 42
folder_node = 1
keeps_cache = 2
folder, files, file_bytes, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])


def attributes(node):
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == folder_node else (stat.S_IFREG | 0o644, file_bytes)
    return struct.pack('<QQQQQQIIIIIIIIII', node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer_to(operation, node, body):
    """An error's number, and what follows the header; nothing: it is not answered."""
    if operation in (forget, batch_forget):
        return None
    if operation == init:
        return 0, struct.pack('<IIIIHHIIHHIIHH', 7, 31, 1 << 17, 0, 16, 16, 4096, 1, 0, 0, 0, 0, 0, 0) + bytes(16)
    if operation == lookup:
        name = body.rstrip(b'\0')
        if not name.isdigit() or int(name) >= files:
            return -errno.ENOENT, b''
        node = 2 + int(name)
        return 0, struct.pack('<QQQQII', node, 0, 3600, 3600, 0, 0) + attributes(node)
    if operation == getattr_:
        return 0, struct.pack('<QII', 3600, 0, 0) + attributes(node)
    if operation == open_:
        time.sleep(seconds)
        return 0, struct.pack('<QII', 1, keeps_cache, 0)
    if operation == read:
        _, offset, size = struct.unpack_from('<QQI', body)
        return 0, bytes(max(0, min(size, file_bytes - offset)))
    if operation in (release, flush):
        return 0, b''
    return -errno.ENOSYS, b''


def serve():
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open('/dev/fuse', os.O_RDWR)
    if libc.mount(b'opens', folder.encode(), b'fuse', 6, f'fd={device},rootmode=40000,user_id=0,group_id=0'.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    print('mounted', flush=True)
    header = struct.Struct('<IIQQIIII')

    def answer(request):
        _, operation, unique, node = header.unpack_from(request)[:4]
        given = answer_to(operation, node, request[header.size:])
        if given is not None:
            os.write(device, struct.pack('<IiQ', 16 + len(given[1]), given[0], unique) + given[1])

    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        while True:
            try:
                request = os.read(device, 1 << 20)
            except OSError as error:
                if error.errno == errno.ENODEV:  # It was unmounted.
                    return
                raise
            threads.submit(answer, request)


serve()

"""The connection to the launcher: one JSON object a line, over a Unix stream socket."""
import _socket
import json
import os
import time
from _thread import RLock

# No reply within this time, or a closed socket, ends the hook's work.
reply_seconds = 600
# The launcher reads at once unless it is stopped.
send_seconds = 20
flush_seconds = 0.5
# What passive mode holds back for a launcher that does not read; more is dropped.
unsent_bytes = 1 << 20


class Link:
    """Threads: any may send or ask, where a script loads in threads; offer() and flush() are one thread's. Nothing here raises for a lost launcher: `lost` says it."""

    def __init__(self, path):
        self.lost = True
        self.refused = False  # The process may not use the socket.
        self.dropped = 0
        self._received = b''
        self._asking = RLock()  # A reply is that of the thread which has asked.
        self._unsent = b''
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            self._socket.settimeout(10)
            self._socket.connect(path)
            self._identity = self._identify()
            self.lost = False
        except OSError as error:
            self.refused = isinstance(error, PermissionError)
            self._socket.close()

    def _identify(self):
        status = os.fstat(self._socket.fileno())
        return status.st_dev, status.st_ino

    def _ours(self):
        """A script that closes every descriptor may have opened a file under the socket's number; that one is not ours to write to."""
        try:
            if self._identify() == self._identity:
                return True
        except OSError:
            pass
        self.lost = True
        try:
            self._socket.detach()
        except OSError:
            pass
        return False

    def close(self):
        if not self.lost and self._ours():
            self.lost = True
            self._socket.close()
        self.lost = True

    def send(self, message):
        """Sends a message that has no reply, and may wait for the launcher to read."""
        if self.lost or not self._ours():
            return
        line = self._unsent + _line(message)
        self._unsent = b''
        try:
            self._socket.settimeout(send_seconds)
            self._socket.sendall(line, _socket.MSG_NOSIGNAL)
        except OSError:
            self.close()

    def offer(self, message):
        """Sends a message without ever waiting: what a slow launcher does not take is held back up to a bound, then dropped."""
        if self.lost or not self._ours():
            return
        if len(self._unsent) > unsent_bytes:
            self.dropped += 1
        else:
            self._unsent += _line(message)
        try:
            self._socket.setblocking(False)
            self._unsent = self._unsent[self._socket.send(self._unsent, _socket.MSG_NOSIGNAL):]
        except (BlockingIOError, TimeoutError):
            pass
        except OSError:
            self.close()

    def flush(self):
        """Before the process ends, what offer() held back has a moment to go out."""
        if not self.lost and self._unsent and self._ours():
            try:
                self._socket.settimeout(flush_seconds)
                self._socket.sendall(self._unsent, _socket.MSG_NOSIGNAL)
            except OSError:
                pass
            self._unsent = b''

    def ask(self, message):
        """Sends a message and returns the reply, or nothing when the launcher is lost or silent."""
        with self._asking:
            self.send(message)
            return self._reply()

    def _reply(self):
        deadline = time.monotonic() + reply_seconds
        while not self.lost and b'\n' not in self._received:
            remaining = deadline - time.monotonic()
            try:
                if remaining <= 0:
                    raise OSError('no reply')
                self._socket.settimeout(remaining)
                data = self._socket.recv(65536)
                if not data:
                    raise OSError('closed')
                self._received += data
            except OSError:
                self.close()
        if self.lost:
            return None
        line, self._received = self._received.split(b'\n', 1)
        reply = json.loads(line.decode())
        return reply if isinstance(reply, dict) else None


def _line(message):
    # A name that is no text in UTF-8 has halves of characters, which no reader of JSON takes: they become question marks.
    return json.dumps(message, separators=(',', ':'), default=str, ensure_ascii=False).encode('utf-8', 'replace') + b'\n'

"""The slow-path protocol by hand, to say what no client would."""

import array
import os
import socket
import struct

MAGIC, VERSION = 0x5552414D, 1
HELLO, WELCOME, RESUME, CLAIM, CLAIMED, GIVE_BACK, BYE, PING, PONG, ADMIN, ADMIN_ANSWER, FAILURE, DONE, \
    ASK_POOLS, POOL_LIST = range(1, 16)
HEADER = struct.Struct("<IHHII")


def frame(kind, body=b"", request=1, magic=MAGIC, version=VERSION, announced=None):
    return HEADER.pack(magic, version, kind, request, len(body) if announced is None else announced) + body


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<I", len(value)) + value


def hello(instance_id="raw", name_space="", page_bytes=0):
    start_time = int(open("/proc/self/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[19])
    return text(instance_id) + text(name_space) + struct.pack("<QQQQQ", page_bytes, start_time, 7, 11,
                                                              os.stat("/proc/self/ns/pid").st_ino)


def claim(page_bytes, size):
    return struct.pack("<QQ", page_bytes, size)


def admin(command, arguments="{}"):
    return text(command) + text(arguments)


class Peer:
    """A connection that sends what it is told and hears what comes."""

    def __init__(self, path, within_s=5.0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(within_s)
        self.socket.connect(str(path))
        self.rest = b""
        self.descriptors = []

    def send(self, data, descriptors=()):
        """True when the other end took it; False when it has hung up."""
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            sent = self.socket.sendmsg([data], extra)
            if sent < len(data):
                self.socket.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _more(self):
        try:
            data, ancillary, _, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(80 * 4))
        except ConnectionResetError:
            return False
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(payload[:len(payload) - len(payload) % numbers.itemsize])
                self.descriptors += numbers
        self.rest += data
        return bool(data)

    def receive(self):
        """(type, request, body) of the next frame; None when the daemon has hung up. Fails when it says nothing."""
        while len(self.rest) < HEADER.size or len(self.rest) < HEADER.size + HEADER.unpack_from(self.rest)[4]:
            if not self._more():
                return None
        _, _, kind, request, size = HEADER.unpack_from(self.rest)
        body = self.rest[HEADER.size:HEADER.size + size]
        self.rest = self.rest[HEADER.size + size:]
        return kind, request, body

    def until_closed(self):
        """Every frame until the daemon hangs up. Fails when it does not."""
        frames = []
        while (answer := self.receive()) is not None:
            frames.append(answer)
        return frames

    def ask(self, kind, body=b"", request=1):
        assert self.send(frame(kind, body, request))
        return self.receive()

    def close(self):
        self.socket.close()
        for number in self.descriptors:
            os.close(number)
        self.descriptors = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def failure(answer):
    """(code, text) of a failure frame."""
    kind, _, body = answer
    assert kind == FAILURE, answer
    code, size = struct.unpack_from("<iI", body)
    return code, body[8:8 + size].decode(errors="replace")

import ctypes, fcntl, os, pty, select, socket, sys, tempfile, time

store, scratch, greeting, ingest, publish = sys.argv[1:6]
greeting, ingest, publish = bytes.fromhex(greeting), bytes.fromhex(ingest), bytes.fromhex(publish)
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    made = libc.syscall(number, *arguments)
    if made < 0:
        raise OSError(ctypes.get_errno(), "a system call")
    return made


def io_uring():
    return [call(425, 8, ctypes.byref(ctypes.create_string_buffer(120)))]


def secret_memory():
    return [call(447, 0)]


def page_faults():
    return [call(323, 1)]  # of user space alone


def inotify():
    return [call(294, 0)]


def signals():
    return [call(289, -1, ctypes.byref(ctypes.c_uint64(0)), 8, 0)]


def epoll():
    made = select.epoll()
    return [os.dup(made.fileno())]


def memory():
    file = os.memfd_create("model")
    os.truncate(file, 1 << 20)
    return [file]


def sealed(file, seals):
    fcntl.fcntl(file, 1033, seals)  # F_ADD_SEALS
    return [file]


def sealed_memory():
    file = os.memfd_create("model", os.MFD_ALLOW_SEALING)
    os.write(file, os.urandom(4096))
    return sealed(file, 2 | 4 | 8)


def half_sealed_memory():
    file = os.memfd_create("model", os.MFD_ALLOW_SEALING)
    os.write(file, os.urandom(4096))
    return sealed(file, 2 | 4 | 16)  # later writes alone


def sparse_memory():
    file = os.memfd_create("model", os.MFD_ALLOW_SEALING)
    os.truncate(file, 1 << 20)
    return sealed(file, 2 | 4 | 8)


def huge_memory():
    file = os.memfd_create("model", os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
    os.truncate(file, 2 << 20)
    return sealed(file, 2 | 4 | 8)


def endless_memory():
    file = os.memfd_create("model")
    os.truncate(file, 1 << 62)
    return [file]


def path_alone():
    return [os.open(store, os.O_PATH)]


def nameless():
    return [os.open(scratch, os.O_TMPFILE | os.O_RDWR, 0o600)]


def write_only():
    path = os.path.join(scratch, "written")
    return [os.open(path, os.O_WRONLY | os.O_CREAT)]


def fifo():
    path = os.path.join(scratch, "fifo")
    if not os.path.exists(path):
        os.mkfifo(path)
    return [os.open(path, os.O_RDWR)]


def opened(path, flags=os.O_RDONLY):
    return lambda: [os.open(path, flags)]


def in_a_cycle():
    # Each is in the other's queue, so that no close but the kernel's collector ends them.
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [one.fileno()])
    socket.send_fds(other, [b"x"], [other.fileno(), one.fileno()])
    return [one.detach(), other.detach()]


def in_a_chain():
    # A socket in the queue of a socket in the queue of a socket, and so on.
    one, other = socket.socketpair()
    chain = [one.detach(), other.detach()]
    for _ in range(20):
        outer, inner = socket.socketpair()
        socket.send_fds(outer, [b"x"], chain)
        for file in chain:
            os.close(file)
        chain = [outer.detach(), inner.detach()]
    return chain


def own_connection():
    one = socket.socket(socket.AF_UNIX)
    one.connect(os.path.join(store, "daemon"))
    return [one.detach()]


kinds = {
    "memory": memory,
    "sealed-memory": sealed_memory,
    "half-sealed-memory": half_sealed_memory,
    "sparse-memory": sparse_memory,
    "huge-memory": huge_memory,
    "endless-memory": endless_memory,
    "secret-memory": secret_memory,
    "io-uring": io_uring,
    "page-faults": page_faults,
    "inotify": inotify,
    "signals": signals,
    "epoll": epoll,
    "event": lambda: [os.eventfd(0)],
    "process": lambda: [os.pidfd_open(os.getpid())],
    "pipe": lambda: list(os.pipe()),
    "fifo": fifo,
    "terminal": lambda: list(pty.openpty()),
    "path": path_alone,
    "nameless": nameless,
    "write-only": write_only,
    "directory": opened(scratch),
    "store-file": opened(os.path.join(store, "store")),
    "proc-maps": opened("/proc/self/maps"),
    "proc-memory": opened("/proc/self/mem"),
    "proc-locks": opened("/proc/locks"),
    "sysfs": opened("/sys/kernel/mm/transparent_hugepage/enabled"),
    "null": opened("/dev/null"),
    "zero": opened("/dev/zero"),
    "random": opened("/dev/urandom"),
    "full": opened("/dev/full"),
    "fuse-device": opened("/dev/fuse", os.O_RDWR),
    "network": lambda: [socket.socket(socket.AF_INET6).detach()],
    "datagrams": lambda: [file.detach() for file in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)],
    "packet-queue": lambda: [socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).detach()],
    "cycle": in_a_cycle,
    "chain": in_a_chain,
    "own-connection": own_connection,
}


def read_exactly(stream, number):
    read = b""
    while len(read) < number:
        more = stream.recv(number - len(read))
        if not more:
            raise EOFError
        read += more
    return read


def passed(request, files):
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(30)
    stream.connect(os.path.join(store, "daemon"))
    try:
        stream.sendall(greeting)
        stream.sendall(request[:5])
        socket.send_fds(stream, [request[5:]], files)
        read_exactly(stream, 12)
        while True:
            header = read_exactly(stream, 5)
            payload = read_exactly(stream, int.from_bytes(header[:4], "little"))
            # Not the greeting, and not progress.
            if header[4] == 10:
                return "ingested"
            if header[4] == 14:
                return "published"
            if header[4] == 11:
                return "refused-%d" % int.from_bytes(payload[:2], "little")
            if header[4] == 6:
                return "error-%d" % int.from_bytes(payload[:2], "little")
    finally:
        stream.close()


def unasked(files):
    """Descriptors with each of the first messages, as many as one message may have."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(30)
    stream.connect(os.path.join(store, "daemon"))
    many = (files * 253)[:253]
    try:
        socket.send_fds(stream, [greeting[:1]], many)
        socket.send_fds(stream, [greeting[1:13]], many)
        socket.send_fds(stream, [greeting[13:]], files)
    finally:
        stream.close()


while True:
    results = []
    for name, make in kinds.items():
        try:
            files = make()
        except OSError:
            results.append(name + ":not-made")
            continue
        try:
            result = passed(ingest, files[:1])
        except (OSError, EOFError):
            result = "hung-up"
        try:
            as_memory = passed(publish, files[:1])
        except (OSError, EOFError):
            as_memory = "hung-up"
        try:
            unasked(files)
        except OSError:
            pass
        for file in files:
            os.close(file)
        results += [name + ":" + result, name + ":as-memory:" + as_memory]
    print(*results, flush=True)
    time.sleep(0.2)

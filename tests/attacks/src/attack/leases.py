import fcntl, os, signal, sys, time

store = sys.argv[1]
# The kernel asks for a lease by this signal, and takes it away after 45 s.
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = {}


def files():
    for folder, _, names in os.walk(store):
        for name in names:
            yield os.path.join(folder, name)


def lease(file):
    # Root of a container can be any user, the owner of the file too.
    try:
        os.seteuid(os.fstat(file).st_uid)
    except OSError:
        pass
    try:
        for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK):
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, kind)
                return True
            except OSError:
                pass
    finally:
        os.seteuid(os.getuid())
    return False


while True:
    refused = unopened = 0
    for path in files():
        file = held.get(path)
        if file is not None:
            # Taken away, or the file is gone.
            if fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_UNLCK or not os.path.exists(path):
                os.close(held.pop(path))
            else:
                continue
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            unopened += 1
            continue
        if lease(file):
            held[path] = file
        else:
            os.close(file)
            refused += 1
    print(len(held), unopened, refused, flush=True)
    time.sleep(0.3)

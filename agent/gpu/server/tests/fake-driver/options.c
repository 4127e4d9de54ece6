/* The environment, the beginning and end of every call, and the reports. README.md has the meaning of every variable. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

struct options options;
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_progress = PTHREAD_COND_INITIALIZER;

/* While a call stalls the driver, no other call begins. */
static bool stalled;
static pthread_cond_t go_on = PTHREAD_COND_INITIALIZER;

/* The process that called cuInit: a forked child would have to repeat it, and cannot. */
static pid_t initialized;
static bool over;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text == NULL || *text == 0 ? otherwise : strtol(text, NULL, 10);
}

/* First the device, then the unkind options: calls that take time, memory that others use or that comes back late, addresses
 * and sizes that forgive nothing, a driver that starts late or refuses contexts. */
void options_read(void) {
    const bool unkind = number("FAKE_CUDA_UNKIND", 0) != 0;
    options.state = getenv("FAKE_CUDA_STATE");
    options.devices = (int)number("FAKE_CUDA_DEVICES", 1);
    if (options.devices > MAX_DEVICES)
        options.devices = MAX_DEVICES;
    options.memory_bytes = (size_t)number("FAKE_CUDA_MEMORY_MIB", 512) << 20;
    options.granule_bytes = (size_t)number("FAKE_CUDA_GRANULE_KIB", 2048) << 10;
    options.block_bytes = (size_t)number("FAKE_CUDA_BLOCK_MIB", 2) << 20;
    options.virtual_memory = number("FAKE_CUDA_VIRTUAL_MEMORY", 1) != 0;
    options.descriptors = number("FAKE_CUDA_DESCRIPTORS", 1) != 0;
    options.read_only_register = number("FAKE_CUDA_READ_ONLY_REGISTER", 0) != 0;
    options.read_only_access = number("FAKE_CUDA_READ_ONLY_ACCESS", 1) != 0;
    options.peer_access = number("FAKE_CUDA_PEER_ACCESS", 0) != 0;
    options.leaks = number("FAKE_CUDA_LEAKS", 1) != 0;
    options.delay_us = number("FAKE_CUDA_DELAY_US", 200);
    options.fault_at_copy = number("FAKE_CUDA_FAULT_AT_COPY", 0);
    options.init_code = (int)number("FAKE_CUDA_INIT", 0);
    options.register_ms_per_gb = number("FAKE_CUDA_REGISTER_MS_PER_GB", unkind ? 1000 : 0);
    options.map_ms = number("FAKE_CUDA_MAP_MS", 0);
    options.release_ms = number("FAKE_CUDA_RELEASE_MS", 0);
    options.death_ms = number("FAKE_CUDA_DEATH_MS", unkind ? 300 : 0);
    options.context_bytes = (size_t)number("FAKE_CUDA_CONTEXT_MIB", unkind ? 2 : 0) << 20;
    options.others_bytes = (size_t)number("FAKE_CUDA_OTHERS_MIB", unkind ? 30 : 0) << 20;
    options.exact_size = number("FAKE_CUDA_EXACT_SIZE", unkind ? 1 : 0) != 0;
    options.device_addresses = number("FAKE_CUDA_DEVICE_ADDRESSES", unkind ? 1 : 0) != 0;
    options.not_ready_calls = number("FAKE_CUDA_NOT_READY_CALLS", 0);
    options.not_ready_ms = number("FAKE_CUDA_NOT_READY_MS", 0);
    options.compute_mode = (int)number("FAKE_CUDA_COMPUTE_MODE", COMPUTE_DEFAULT);
    options.mps = number("FAKE_CUDA_MPS", 0) != 0;
    options.tell_registrations = number("FAKE_CUDA_TELL_REGISTRATIONS", 0) != 0;
    options.fail = getenv("FAKE_CUDA_FAIL");
}

void remember(const char *file, const char *line) {
    char path[4096];
    fprintf(stderr, "fake driver: %s: %s\n", file, line);
    if (options.state == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s", options.state, file);
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log < 0)
        return;
    dprintf(log, "%d: %s\n", (int)getpid(), line);
    close(log);
}

CUresult misuse(CUresult code, const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    remember("misuse", line);
    return code;
}

/* One of NAME:CODE[:FIRST[:COUNT]], separated by commas: calls of NAME fail with CODE, COUNT of them from the FIRST on. */
static CUresult wanted_failure(const char *name) {
    enum { MAX_RULES = 16 };
    static long calls[MAX_RULES];
    const char *rule = options.fail;
    for (int at = 0; rule != NULL && at < MAX_RULES; at++) {
        char what[64] = "";
        int code = 0;
        long first = 1, count = -1;
        int fields = sscanf(rule, "%63[^:]:%d:%ld:%ld", what, &code, &first, &count);
        if (fields >= 2 && strcmp(what, name) == 0) {
            long call = ++calls[at];
            if (call >= first && (count < 0 || call < first + count))
                return code;
        }
        rule = strchr(rule, ',');
        if (rule != NULL)
            rule++;
    }
    return CUDA_SUCCESS;
}

CUresult call_begin(const char *name) {
    pthread_mutex_lock(&fake_lock);
    while (stalled)
        pthread_cond_wait(&go_on, &fake_lock);
    CUresult code = CUDA_SUCCESS;
    if (over)
        code = CUDA_ERROR_DEINITIALIZED;
    else if (initialized != getpid())
        code = CUDA_ERROR_NOT_INITIALIZED;
    else
        code = wanted_failure(name);
    if (code != CUDA_SUCCESS)
        pthread_mutex_unlock(&fake_lock);
    return code;
}

CUresult call_end(CUresult code) {
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void call_stall(long ms) {
    if (ms <= 0)
        return;
    stalled = true;
    pthread_mutex_unlock(&fake_lock);
    usleep((useconds_t)ms * 1000);
    pthread_mutex_lock(&fake_lock);
    stalled = false;
    pthread_cond_broadcast(&go_on);
}

/* Returns true for the first calls of each process, and for a time after the first call of any process. */
static bool is_starting(void) {
    static long calls;
    struct stat first;
    struct timespec now;
    char path[4096];
    if (++calls <= options.not_ready_calls)
        return true;
    if (options.not_ready_ms <= 0)
        return false;
    snprintf(path, sizeof path, "%s/start", options.state);
    close(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (stat(path, &first) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return true;
    return (now.tv_sec - first.st_mtim.tv_sec) * 1000 + (now.tv_nsec - first.st_mtim.tv_nsec) / 1000000 < options.not_ready_ms;
}

EXPORTED CUresult cuInit(unsigned flags) {
    pthread_mutex_lock(&fake_lock);
    CUresult code = CUDA_SUCCESS;
    options_read();
    if (options.init_code != 0)
        code = options.init_code;
    else if (flags != 0)
        code = misuse(CUDA_ERROR_INVALID_VALUE, "cuInit with flags %u", flags);
    else if (options.state == NULL)
        code = misuse(CUDA_ERROR_NOT_PERMITTED, "FAKE_CUDA_STATE is not set");
    else if (initialized != 0 && initialized != getpid())
        code = CUDA_ERROR_NOT_INITIALIZED;
    else if (initialized == 0 && is_starting())
        code = CUDA_ERROR_SYSTEM_NOT_READY;
    else {
        initialized = getpid();
        account_begin();
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Shutdown of the driver, at the end of the process. */
__attribute__((destructor)) static void report(void) {
    pthread_mutex_lock(&fake_lock);
    over = true;
    int reservations, handles, opened, registrations, events;
    int mappings = virtual_live(&reservations, &handles);
    int allocations = legacy_live(&opened);
    int buffers = host_live(&registrations);
    int streams = streams_live(&events);
    int contexts = contexts_retained(), modules = modules_live();
    int all = reservations + handles + opened + registrations + events + mappings + allocations + buffers + streams + contexts + modules;
    /* After an illegal access a process cannot free anything. */
    if (initialized == getpid() && options.leaks && all > 0 && !context_any_sticky()) {
        char line[512];
        snprintf(line, sizeof line,
                 "left: %d reservations, %d handles, %d mappings, %d allocations, %d opened, %d buffers, "
                 "%d registrations, %d streams, %d events, %d contexts, %d modules",
                 reservations, handles, mappings, allocations, opened, buffers, registrations, streams, events, contexts,
                 modules);
        remember("leaks", line);
    }
    if (initialized == getpid())
        account_end();
    pthread_mutex_unlock(&fake_lock);
}

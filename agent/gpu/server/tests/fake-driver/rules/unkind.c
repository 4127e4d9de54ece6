/* Checks that an option of the fake driver does what README.md says. The first argument is the option's test. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static char *program;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void begin(void) {
    CUcontext context;
    FINE(cuInit(0));
    FINE(cuDevicePrimaryCtxRetain(&context, 0));
    FINE(cuCtxPushCurrent_v2(context));
}

static void end(void) {
    CUcontext context;
    FINE(cuCtxPopCurrent_v2(&context));
    FINE(cuDevicePrimaryCtxRelease_v2(0));
}

static size_t free_mib(void) {
    size_t free, total;
    FINE(cuMemGetInfo_v2(&free, &total));
    return free / MIB;
}

/* This program again, with another test. Its output is a pipe. */
static pid_t start(char *test, int *output) {
    int ends[2];
    HOLDS(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        execl(program, program, test, NULL);
        _exit(99);
    }
    close(ends[1]);
    *output = ends[0];
    return child;
}

/* Waits until the other process writes a byte. */
static void hear(int output) {
    char byte;
    HOLDS(read(output, &byte, 1) == 1);
}

/* Writes a byte, and waits to be killed. */
static void tell_and_wait(void) {
    HOLDS(write(STDOUT_FILENO, "x", 1) == 1);
    for (;;)
        pause();
}

static int status_of(pid_t child) {
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    return status;
}

static void kill_it(pid_t child) {
    kill(child, SIGKILL);
    status_of(child);
}

/* Registration. */

static atomic_bool registered;
static long from_ms, to_ms;

static void *register_pages(void *pages) {
    begin();
    from_ms = now_ms();
    FINE(cuMemHostRegister_v2(pages, 64 * MIB, 0));
    to_ms = now_ms();
    FINE(cuMemHostUnregister(pages));
    end();
    atomic_store(&registered, 1);
    return NULL;
}

/* 67 MB at 6,000 ms per GB are 402 ms, in which no other call begins and ends. */
static void registration(void) {
    enum { CALLS = 1 << 22, COST_MS = 402 };
    static long ended_ms[CALLS];
    int count, calls = 0;
    pthread_t thread;
    begin();
    char *pages = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&thread, NULL, register_pages, pages);
    while (!atomic_load(&registered) && calls < CALLS) {
        FINE(cuDeviceGetCount(&count));
        ended_ms[calls++] = now_ms();
        usleep(100);
    }
    pthread_join(thread, NULL);
    HOLDS(to_ms - from_ms >= COST_MS);
    long longest = 0, last = from_ms;
    for (int at = 0; at < calls; at++) {
        if (ended_ms[at] < from_ms || ended_ms[at] > to_ms)
            continue;
        longest = ended_ms[at] - last > longest ? ended_ms[at] - last : longest;
        last = ended_ms[at];
    }
    longest = to_ms - last > longest ? to_ms - last : longest;
    /* The clock counts whole milliseconds. */
    HOLDS(longest >= COST_MS - 2);
    end();
}

/* Memory that comes back late. */

static CUhandle created(size_t bytes) {
    CUmemAllocationProp right = properties();
    CUhandle handle;
    FINE(cuMemCreate(&handle, bytes, &right, 0));
    return handle;
}

/* It is not back for an hour. */
static void release_late(void) {
    CUdeviceptr address;
    begin();
    size_t before = free_mib();
    FINE(cuMemRelease(created(4 * MIB)));
    HOLDS(free_mib() == before - 4);
    FINE(cuMemAlloc_v2(&address, 2 * MIB));
    FINE(cuMemFree_v2(address));
    HOLDS(free_mib() == before - 6);
    end();
}

static void release_soon(void) {
    begin();
    size_t before = free_mib();
    FINE(cuMemRelease(created(4 * MIB)));
    while (free_mib() != before)
        usleep(1000);
    end();
}

static void holder(void) {
    begin();
    created(8 * MIB);
    tell_and_wait();
}

/* A death's memory is not back for an hour, nor is memory that is released then. */
static void death_late(void) {
    int output;
    begin();
    size_t before = free_mib();
    pid_t child = start("holder", &output);
    hear(output);
    HOLDS(free_mib() == before - 8);
    FINE(cuMemRelease(created(4 * MIB)));
    HOLDS(free_mib() == before - 8);
    kill_it(child);
    HOLDS(free_mib() == before - 8);
    FINE(cuMemRelease(created(4 * MIB)));
    HOLDS(free_mib() == before - 12);
    end();
}

static void death_soon(void) {
    int output;
    begin();
    size_t before = free_mib();
    pid_t child = start("holder", &output);
    hear(output);
    kill_it(child);
    while (free_mib() != before)
        usleep(1000);
    end();
}

/* Contexts of 100 MiB, and 50 MiB of other programs. */

static void context_holder(void) {
    begin();
    tell_and_wait();
}

static void contexts(void) {
    size_t free, total;
    int output;
    begin();
    FINE(cuMemGetInfo_v2(&free, &total));
    HOLDS(total - free == 100 * MIB);
    pid_t child = start("context_holder", &output);
    hear(output);
    HOLDS(free_mib() == total / MIB - 200);
    kill_it(child);
    HOLDS(free_mib() == total / MIB - 100);
    end();
    begin();
    HOLDS(free_mib() == total / MIB - 100);
    end();
}

/* A device with less memory than a context needs. */
static void no_room_for_a_context(void) {
    CUcontext context;
    FINE(cuInit(0));
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuDevicePrimaryCtxRetain(&context, 0));
}

static void others(void) {
    CUmemAllocationProp right = properties();
    CUhandle handle;
    size_t free, total;
    char path[4096];
    begin();
    FINE(cuMemGetInfo_v2(&free, &total));
    HOLDS(total - free == 50 * MIB);
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, total - 48 * MIB, &right, 0));
    snprintf(path, sizeof path, "%s/others.0", getenv("FAKE_CUDA_STATE"));
    FILE *file = fopen(path, "w");
    fprintf(file, "20\n");
    fclose(file);
    HOLDS(free_mib() == total / MIB - 20);
    FINE(cuMemCreate(&handle, total - 48 * MIB, &right, 0));
    FINE(cuMemRelease(handle));
    end();
}

/* Sizes and addresses. */

static void sizes(void) {
    CUdeviceptr address;
    CUhandle own, imported;
    int file;
    begin();
    own = created(4 * MIB);
    FINE(cuMemExportToShareableHandle(&file, own, 1, 0));
    FINE(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file, 1));
    close(file);
    FINE(cuMemAddressReserve(&address, 8 * MIB, 2 * MIB, 0, 0));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 2 * MIB, 0, imported, 0));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 8 * MIB, 0, imported, 0));
    FINE(cuMemMap(address, 4 * MIB, 0, imported, 0));
    FINE(cuMemUnmap(address, 4 * MIB));
    FINE(cuMemAddressFree(address, 8 * MIB));
    FINE(cuMemRelease(own));
    FINE(cuMemRelease(imported));
    end();
}

/* A program that takes a device address for one of its own dies. */
static void touch(CUdeviceptr address) {
    pid_t child = fork();
    if (child == 0) {
        volatile char byte = *(volatile char *)(uintptr_t)address;
        _exit(byte != 0);
    }
    int status = status_of(child);
    HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void round_trip(CUdeviceptr address) {
    CUstream stream;
    char in[8] = "1234567", out[8];
    FINE(cuStreamCreate(&stream, 1));
    FINE(cuMemcpyHtoDAsync_v2(address, in, 8, stream));
    FINE(cuStreamSynchronize(stream));
    FINE(cuMemcpyDtoH_v2(out, address, 8));
    HOLDS(memcmp(in, out, 8) == 0);
    FINE(cuStreamDestroy_v2(stream));
}

static void addresses(void) {
    CUmemAccessDesc access = {.location = {.type = 1, .id = 0}, .flags = 3};
    CUdeviceptr address;
    begin();
    CUhandle handle = created(2 * MIB);
    FINE(cuMemAddressReserve(&address, 2 * MIB, 2 * MIB, 0, 0));
    FINE(cuMemMap(address, 2 * MIB, 0, handle, 0));
    FINE(cuMemSetAccess(address, 2 * MIB, &access, 1));
    touch(address);
    round_trip(address);
    FINE(cuMemUnmap(address, 2 * MIB));
    FINE(cuMemAddressFree(address, 2 * MIB));
    FINE(cuMemRelease(handle));
    FINE(cuMemAlloc_v2(&address, 2 * MIB));
    touch(address);
    round_trip(address);
    FINE(cuMemFree_v2(address));
    end();
}

/* Starting, and compute modes. */

static void not_ready_twice(void) {
    int count;
    ANSWERS(CUDA_ERROR_SYSTEM_NOT_READY, cuInit(0));
    ANSWERS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    ANSWERS(CUDA_ERROR_SYSTEM_NOT_READY, cuInit(0));
    begin();
    FINE(cuInit(0));
    end();
}

/* For 200 ms, less the granularity of a file's time. */
static void not_ready_for_a_time(void) {
    long from = now_ms();
    ANSWERS(CUDA_ERROR_SYSTEM_NOT_READY, cuInit(0));
    while (cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY)
        usleep(1000);
    HOLDS(now_ms() - from >= 180);
    begin();
    end();
}

static int retained(void) {
    CUcontext context;
    FINE(cuInit(0));
    return cuDevicePrimaryCtxRetain(&context, 0);
}

static void retain_refused(void) { ANSWERS(CUDA_ERROR_DEVICE_UNAVAILABLE, retained()); }

static void retain_once(void) {
    FINE(retained());
    FINE(cuDevicePrimaryCtxRelease_v2(0));
}

static void prohibited(void) {
    int mode;
    retain_refused();
    FINE(cuDeviceGetAttribute(&mode, 20, 0));
    HOLDS(mode == 2);
}

static void exclusive(void) {
    int mode, output;
    begin();
    FINE(cuDeviceGetAttribute(&mode, 20, 0));
    HOLDS(mode == 3);
    HOLDS(status_of(start("retain_refused", &output)) == 0);
    end();
    HOLDS(status_of(start("retain_once", &output)) == 0);
    begin();
    end();
}

/* MPS. */

static void faulty(void) {
    CUstream stream;
    CUdeviceptr address;
    char bytes[8] = "";
    setenv("FAKE_CUDA_FAULT_AT_COPY", "1", 1);
    begin();
    FINE(cuMemAlloc_v2(&address, 2 * MIB));
    FINE(cuStreamCreate(&stream, 1));
    FINE(cuMemcpyHtoDAsync_v2(address, bytes, 8, stream));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

static void mps(void) {
    size_t free, total;
    int value, output;
    begin();
    FINE(cuDeviceGetAttribute(&value, 133, 0));
    HOLDS(value == 1);
    FINE(cuMemGetInfo_v2(&free, &total));
    HOLDS(status_of(start("faulty", &output)) == 0);
    ANSWERS(CUDA_ERROR_MPS_CLIENT_TERMINATED, cuMemGetInfo_v2(&free, &total));
}

/* Capture. */

static CUstream captured, other;
static CUevent event;

/* Calls of another thread during the capture. */
static void *beside(void *expected) {
    CUresult code = *(CUresult *)expected;
    CUcontext context;
    CUdeviceptr address;
    FINE(cuDevicePrimaryCtxRetain(&context, 0));
    FINE(cuCtxPushCurrent_v2(context));
    ANSWERS(code, cuStreamSynchronize(other));
    ANSWERS(code, cuEventQuery(event));
    ANSWERS(code, cuMemAlloc_v2(&address, 2 * MIB));
    if (code == CUDA_SUCCESS)
        FINE(cuMemFree_v2(address));
    /* Calls of virtual memory are allowed. */
    FINE(cuMemRelease(created(2 * MIB)));
    end();
    return NULL;
}

static void in_another_thread(CUresult expected) {
    pthread_t thread;
    pthread_create(&thread, NULL, beside, &expected);
    pthread_join(thread, NULL);
}

static void end_capture(CUresult expected) {
    CUgraph graph;
    ANSWERS(expected, cuStreamEndCapture(captured, &graph));
    if (expected == CUDA_SUCCESS)
        FINE(cuGraphDestroy(graph));
    else
        HOLDS(graph == NULL);
}

static void *end_elsewhere(void *unused) {
    CUcontext context;
    CUgraph graph;
    (void)unused;
    FINE(cuDevicePrimaryCtxRetain(&context, 0));
    FINE(cuCtxPushCurrent_v2(context));
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(captured, &graph));
    end();
    return NULL;
}

static void capture(void) {
    enum { GLOBAL, OF_THREAD, RELAXED };
    int status, mode = RELAXED;
    char bytes[8] = "";
    CUdeviceptr address;
    pthread_t thread;
    begin();
    FINE(cuMemAlloc_v2(&address, 2 * MIB));
    FINE(cuStreamCreate(&captured, 1));
    FINE(cuStreamCreate(&other, 1));
    FINE(cuEventCreate(&event, 2));
    FINE(cuEventRecord(event, other));
    /* Work in a capture does not run. */
    FINE(cuStreamBeginCapture_v2(captured, GLOBAL));
    FINE(cuMemcpyHtoDAsync_v2(address, bytes, 8, captured));
    FINE(cuStreamIsCapturing(captured, &status));
    HOLDS(status == 1);
    in_another_thread(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FINE(cuStreamIsCapturing(captured, &status));
    HOLDS(status == 2);
    end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FINE(cuStreamIsCapturing(captured, &status));
    HOLDS(status == 0);
    /* A capture of one thread is no matter of others. */
    FINE(cuStreamBeginCapture_v2(captured, OF_THREAD));
    in_another_thread(CUDA_SUCCESS);
    end_capture(CUDA_SUCCESS);
    FINE(cuStreamBeginCapture_v2(captured, OF_THREAD));
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(event));
    end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* A thread in relaxed mode is not forbidden anything but waits for the capture itself. */
    FINE(cuStreamBeginCapture_v2(captured, GLOBAL));
    FINE(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == GLOBAL);
    FINE(cuStreamSynchronize(other));
    FINE(cuEventRecord(event, captured));
    ANSWERS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
    pthread_create(&thread, NULL, end_elsewhere, NULL);
    pthread_join(thread, NULL);
    FINE(cuStreamIsCapturing(captured, &status));
    HOLDS(status == 1);
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
    end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FINE(cuStreamBeginCapture_v2(captured, RELAXED));
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(captured));
    end_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FINE(cuCtxSynchronize());
    FINE(cuEventDestroy_v2(event));
    FINE(cuStreamDestroy_v2(captured));
    FINE(cuStreamDestroy_v2(other));
    FINE(cuMemFree_v2(address));
    end();
}

static const struct {
    const char *name;
    void (*run)(void);
} TESTS[] = {
    {"addresses", addresses},
    {"capture", capture},
    {"context_holder", context_holder},
    {"contexts", contexts},
    {"death_late", death_late},
    {"death_soon", death_soon},
    {"exclusive", exclusive},
    {"faulty", faulty},
    {"holder", holder},
    {"mps", mps},
    {"no_room_for_a_context", no_room_for_a_context},
    {"not_ready_for_a_time", not_ready_for_a_time},
    {"not_ready_twice", not_ready_twice},
    {"others", others},
    {"prohibited", prohibited},
    {"registration", registration},
    {"release_late", release_late},
    {"release_soon", release_soon},
    {"retain_once", retain_once},
    {"retain_refused", retain_refused},
    {"sizes", sizes},
};

int main(int count, char **arguments) {
    program = arguments[0];
    for (size_t at = 0; count == 2 && at < sizeof TESTS / sizeof *TESTS; at++) {
        if (strcmp(TESTS[at].name, arguments[1]) == 0) {
            TESTS[at].run();
            return 0;
        }
    }
    fprintf(stderr, "expected the name of a test\n");
    return 98;
}

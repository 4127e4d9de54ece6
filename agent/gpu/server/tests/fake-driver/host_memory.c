/* Host memory that is allocated by the driver, or registered with it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

struct region {
    char *start;
    size_t bytes;
    bool registered;
    struct region *next;
};

static struct region *regions;

int host_live(int *registrations) {
    int buffers = 0;
    *registrations = 0;
    for (struct region *one = regions; one != NULL; one = one->next)
        ++*(one->registered ? registrations : &buffers);
    return buffers;
}

static void add(void *start, size_t bytes, bool registered) {
    struct region *one = calloc(1, sizeof *one);
    if (one == NULL)
        abort();
    *one = (struct region){.start = start, .bytes = bytes, .registered = registered, .next = regions};
    regions = one;
}

/* The link to the region that starts there. */
static struct region **find(const void *start, bool registered) {
    struct region **at = &regions;
    while (*at != NULL && ((*at)->start != start || (*at)->registered != registered))
        at = &(*at)->next;
    return at;
}

static void drop(struct region **at, const char *what) {
    struct region *dropped = *at;
    if (work_touches_host(dropped->start, dropped->bytes))
        misuse(0, "%s while copies read the memory", what);
    *at = dropped->next;
    if (!dropped->registered)
        munmap(dropped->start, dropped->bytes);
    free(dropped);
}

EXPORTED CUresult cuMemHostAlloc(void **start, size_t bytes, unsigned flags) {
    BEGIN(cuMemHostAlloc);
    CONTEXT(cuMemHostAlloc);
    UNLESS_CAPTURING(cuMemHostAlloc);
    if (bytes == 0 || (flags & ~(unsigned)(HOST_PORTABLE | HOST_DEVICE_MAP | HOST_WRITE_COMBINED)) != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemHostAlloc of %zu bytes with flags %#x", bytes, flags));
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    /* Its content is undefined. */
    memset(made, 0xa5, bytes);
    add(made, bytes, false);
    *start = made;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemFreeHost(void *start) {
    BEGIN(cuMemFreeHost);
    CONTEXT(cuMemFreeHost);
    UNLESS_CAPTURING(cuMemFreeHost);
    struct region **at = find(start, false);
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost of an address that cuMemHostAlloc did not return"));
    drop(at, "cuMemFreeHost");
    END(CUDA_SUCCESS);
}

/* Asks the kernel if all pages are mapped, and if all are writable. */
static void pages(const char *start, size_t bytes, bool *mapped, bool *writable) {
    uintptr_t at = (uintptr_t)start, end = at + bytes;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352], mode[5];
    uintptr_t from, to;
    *mapped = *writable = maps != NULL;
    while (maps != NULL && at < end && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, mode) != 3 || to <= at)
            continue;
        if (from > at || mode[0] != 'r')
            break;
        *writable &= mode[1] == 'w';
        at = to;
    }
    *mapped &= at >= end;
    if (maps != NULL)
        fclose(maps);
}

static CUresult check_register(const char *start, size_t bytes, unsigned flags) {
    bool mapped, writable;
    const unsigned known = HOST_PORTABLE | HOST_DEVICE_MAP | REGISTER_IO_MEMORY | REGISTER_READ_ONLY;
    if (bytes == 0 || (flags & ~known) != 0 || (flags & REGISTER_IO_MEMORY) != 0)
        return misuse(CUDA_ERROR_INVALID_VALUE, "cuMemHostRegister of %zu bytes with flags %#x", bytes, flags);
    if ((flags & REGISTER_READ_ONLY) != 0 && !options.read_only_register)
        return misuse(CUDA_ERROR_NOT_SUPPORTED, "cuMemHostRegister read-only, which the device does not support");
    for (struct region *one = regions; one != NULL; one = one->next)
        if (start < one->start + one->bytes && one->start < start + bytes)
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    pages(start, bytes, &mapped, &writable);
    if (!mapped)
        return misuse(CUDA_ERROR_INVALID_VALUE, "cuMemHostRegister of pages that are not mapped");
    /* Without the flag the driver requests writable pages from the kernel. */
    return writable || (flags & REGISTER_READ_ONLY) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Pinning and unpinning cost time for each page, during which the driver answers no other call. */
static long cost_ms(size_t bytes) { return (long)((double)bytes * (double)options.register_ms_per_gb / 1e9); }

static void tell(size_t bytes, unsigned flags) {
    char line[128];
    if (!options.tell_registrations)
        return;
    snprintf(line, sizeof line, "%zu bytes, flags %u, %s", bytes, flags, work_is_queued() ? "copies" : "idle");
    remember("registrations", line);
}

EXPORTED CUresult cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags) {
    BEGIN(cuMemHostRegister_v2);
    CONTEXT(cuMemHostRegister);
    UNLESS_CAPTURING(cuMemHostRegister);
    CUresult code = check_register(start, bytes, flags);
    if (code == CUDA_SUCCESS) {
        tell(bytes, flags);
        add(start, bytes, true);
        call_stall(cost_ms(bytes));
    }
    END(code);
}

EXPORTED CUresult cuMemHostUnregister(void *start) {
    BEGIN(cuMemHostUnregister);
    CONTEXT(cuMemHostUnregister);
    UNLESS_CAPTURING(cuMemHostUnregister);
    struct region **at = find(start, true);
    if (*at == NULL)
        END(misuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister of memory that is not registered"));
    bool mapped, writable;
    size_t bytes = (*at)->bytes;
    pages((*at)->start, bytes, &mapped, &writable);
    if (!mapped)
        misuse(0, "registered memory unmapped before it was unregistered");
    drop(at, "cuMemHostUnregister");
    call_stall(cost_ms(bytes));
    END(CUDA_SUCCESS);
}

/* A copy that begins in pinned memory ends there too. */
bool host_range_fine(const void *start, size_t bytes) {
    const char *from = start;
    for (struct region *one = regions; one != NULL; one = one->next) {
        bool begins = from >= one->start && from < one->start + one->bytes;
        if (begins && bytes > one->bytes - (size_t)(from - one->start))
            return false;
    }
    return true;
}

/* Declarations shared by the files of the fake driver. Everything below needs `fake_lock`, which the
 * exported functions take. */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda_subset.h"

enum { MAX_DEVICES = 8 };

/* Options from the environment: README.md. */
struct options {
    const char *state; /* the directory that all processes of a test share */
    int devices;
    size_t memory_bytes, granule_bytes, block_bytes;
    size_t context_bytes, others_bytes;
    bool virtual_memory, descriptors, read_only_register, read_only_access, peer_access, leaks, tell_registrations;
    bool exact_size, device_addresses, mps;
    long delay_us, fault_at_copy, register_ms_per_gb, map_ms, release_ms, death_ms, not_ready_calls, not_ready_ms;
    int init_code, compute_mode;
    const char *fail;
};

extern struct options options;
extern pthread_mutex_t fake_lock;
/* Signaled whenever a stream has run a piece of work. */
extern pthread_cond_t fake_progress;

void options_read(void);

/* Begins a call, with the checks of every function. Takes the lock if it returns 0. */
CUresult call_begin(const char *name);
CUresult call_end(CUresult code);
/* Releases the lock for this time, while every other call waits at its beginning. Streams go on. */
void call_stall(long ms);
/* Records a broken rule in the file `misuse` of the shared directory. Returns `code`. */
CUresult misuse(CUresult code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a line to a file of the shared directory. */
void remember(const char *file, const char *line);

#define BEGIN(name)                                                                                                    \
    do {                                                                                                               \
        CUresult begun_ = call_begin(#name);                                                                           \
        if (begun_ != CUDA_SUCCESS)                                                                                    \
            return begun_;                                                                                             \
    } while (0)
#define END(code) return call_end(code)

/* context.c */
struct fake_context {
    int device, retained;
    /* Its own device memory, and the mark of a process that has the device for itself; below 0 without. */
    int memory, exclusive;
    /* The error of every call in this process after an illegal access. */
    CUresult sticky;
};
/* The calling thread's context; without one, NULL and a record of misuse. */
struct fake_context *context_current(const char *name);
bool device_exists(CUdevice device);
int contexts_retained(void);
bool context_any_sticky(void);
/* Ends the use of a context, and with MPS of those of all processes. Returns `code`. */
CUresult context_fault(struct fake_context *context, CUresult code);

#define CONTEXT(name)                                                                                                  \
    struct fake_context *context = context_current(#name);                                                             \
    if (context == NULL)                                                                                               \
        END(CUDA_ERROR_INVALID_CONTEXT);                                                                               \
    if (context->sticky != CUDA_SUCCESS)                                                                               \
    END(context->sticky)

/* account.c: device memory is a file in the shared directory, alive while its open description is. */
enum { NAME_BYTES = 48 };
CUresult account_take(int device, size_t bytes, int *file, char name[NAME_BYTES]);
/* As above, for memory that no call reads. */
CUresult account_take_unused(int device, size_t bytes, int *file, char name[NAME_BYTES]);
/* The beginning and the orderly end of a process with a driver. */
void account_begin(void);
void account_end(void);
/* A call has closed its descriptor or mapping of this memory. */
void account_left(const char *name);
size_t account_used(int device);
/* Returns true if a descriptor is of device memory, with a duplicate of it. */
bool account_adopt(int file, int *own, int *device, size_t *bytes, char name[NAME_BYTES]);
bool account_open(const char *name, int *own, int *device, size_t *bytes);
/* No process can open it any more; it counts until its last holder closes it. */
void account_close_to_others(const char *name);

/* mappings.c: mappings by device address. */
struct mapping {
    CUdeviceptr address;
    size_t bytes;
    int device;
    int access[MAX_DEVICES];
    bool virtual;
    /* Name of the memory. */
    char name[NAME_BYTES];
    struct mapping *next;
};
struct mapping *mapping_add(CUdeviceptr address, size_t bytes, int device, bool virtual, const char *name);
struct mapping *mapping_at(CUdeviceptr address, size_t bytes);
bool mapping_overlaps(CUdeviceptr address, size_t bytes);
void mapping_remove(struct mapping *mapping);
/* Number of mappings of virtual memory: those of legacy memory count as allocations. */
int mappings_virtual(void);
/* Address in this process of device memory, and the reverse: the same unless `device_addresses` is set. */
void *host_of(CUdeviceptr address);
CUdeviceptr device_of(const void *host);

/* capture.c */
struct fake_capture {
    bool active, invalidated;
    int mode;
    uint64_t thread;
};
/* Refuses a potentially unsafe call while a capture forbids it, and invalidates the captures. */
CUresult capture_forbids(const char *name);
/* Refuses a call that waits for all streams of the context while one of them is in capture. */
CUresult capture_forbids_waiting(const struct fake_context *context);
/* Refuses to wait for a stream in capture. */
CUresult capture_forbids_stream(CUstream stream);
/* Calls `visit` with each stream's capture. */
void captures_visit(void (*visit)(struct fake_capture *capture, const struct fake_context *context, void *argument), void *argument);
struct fake_capture *capture_of(CUstream stream);

#define UNLESS_CAPTURING(name)                                                                                         \
    do {                                                                                                               \
        CUresult forbidden_ = capture_forbids(#name);                                                                  \
        if (forbidden_ != CUDA_SUCCESS)                                                                                \
            END(forbidden_);                                                                                           \
    } while (0)

/* stream.c: returns true if queued work still reads or writes there. */
bool work_touches_host(const void *start, size_t bytes);
/* True if a stream has work that has not ended. */
bool work_is_queued(void);
bool work_touches_device(CUdeviceptr start, size_t bytes);
/* A copy that survives bad addresses; false if there was one. */
bool copy_bytes(void *to, const void *from, size_t bytes);

/* Number of live objects, for the report at exit. */
int virtual_live(int *reservations, int *handles);
int legacy_live(int *opened);
int host_live(int *registrations);
bool host_range_fine(const void *start, size_t bytes);
int streams_live(int *events);
int modules_live(void);

#endif

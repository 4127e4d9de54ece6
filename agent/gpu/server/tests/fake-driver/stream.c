/* Streams: each has a thread, which runs its copies late. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fake.h"
#include "work.h"

struct fake_stream {
    struct fake_context *context;
    uint64_t queued, done, awaited;
    struct work *first, *last;
    bool destroyed;
    struct fake_capture capture;
    pthread_cond_t more;
    struct fake_stream *next;
};

/* A point after the work queued on its stream at its recording. */
struct fake_event {
    struct fake_context *context;
    struct fake_stream *stream;
    uint64_t moment;
    /* Recorded in a capture. */
    bool captured;
    struct fake_event *next;
};

/* Streams are kept after their destruction: their work ends later, and events point to them. */
static struct fake_stream *streams;
static struct fake_event *events;

int streams_live(int *live_events) {
    int live = 0;
    *live_events = 0;
    for (struct fake_stream *one = streams; one != NULL; one = one->next)
        live += !one->destroyed;
    for (struct fake_event *one = events; one != NULL; one = one->next)
        ++*live_events;
    return live;
}

bool work_touches_host(const void *start, size_t bytes) {
    for (struct fake_stream *stream = streams; stream != NULL; stream = stream->next)
        for (struct work *work = stream->first; work != NULL; work = work->next)
            if (work->from != NULL && work->from < (const char *)start + bytes && (const char *)start < work->from + work->bytes)
                return true;
    return false;
}

bool work_is_queued(void) {
    for (struct fake_stream *stream = streams; stream != NULL; stream = stream->next)
        if (stream->first != NULL)
            return true;
    return false;
}

bool work_runs_kernels(void) {
    for (struct fake_stream *stream = streams; stream != NULL; stream = stream->next)
        for (struct work *work = stream->first; work != NULL; work = work->next)
            if (work->run != NULL)
                return true;
    return false;
}

static bool kernel_uses(const struct work *work, CUdeviceptr start, size_t bytes) {
    for (int at = 0; work->run != NULL && at < 3; at++)
        if (work->uses[at] >= start && work->uses[at] < start + bytes)
            return true;
    return false;
}

bool work_touches_device(CUdeviceptr start, size_t bytes) {
    for (struct fake_stream *stream = streams; stream != NULL; stream = stream->next)
        for (struct work *work = stream->first; work != NULL; work = work->next)
            if ((work->to < start + bytes && start < work->to + work->bytes) || kernel_uses(work, start, bytes) ||
                (work->from_device != 0 && work->from_device < start + bytes && start < work->from_device + work->bytes))
                return true;
    return false;
}

/* The kernel copies, and returns an error where a plain access would kill the program. */
bool copy_bytes(void *to, const void *from, size_t bytes) {
    while (bytes > 0) {
        struct iovec into = {.iov_base = to, .iov_len = bytes}, out = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};
        ssize_t copied = process_vm_readv(getpid(), &into, 1, &out, 1, 0);
        if (copied < 0 && (errno == EPERM || errno == ENOSYS)) {
            /* A sandbox forbids it. */
            memcpy(to, from, bytes);
            return true;
        }
        if (copied <= 0)
            return false;
        to = (char *)to + copied;
        from = (const char *)from + copied;
        bytes -= (size_t)copied;
    }
    return true;
}

bool device_accessible(const struct fake_context *context, CUdeviceptr address, size_t bytes, bool write) {
    struct mapping *mapping = mapping_at(address, bytes);
    int access = mapping == NULL ? ACCESS_NONE : mapping->access[context->device];
    return write ? access == ACCESS_READ_WRITE : access != ACCESS_NONE;
}

static CUresult perform(struct fake_context *context, struct work *work) {
    if (work->run != NULL)
        return work->run(context, work);
    if (work->wrong || !device_accessible(context, work->to, work->bytes, true))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (work->from_device != 0) {
        if (!device_accessible(context, work->from_device, work->bytes, false))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        memcpy(host_of(work->to), host_of(work->from_device), work->bytes);
    } else if (work->from == NULL)
        memset(host_of(work->to), work->value, work->bytes);
    else if (!copy_bytes(host_of(work->to), work->from, work->bytes))
        return misuse(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy from host memory that is no longer mapped");
    return CUDA_SUCCESS;
}

/* With a negative delay no work runs before a call waits for it. */
static bool is_idle(const struct fake_stream *stream) { return options.delay_us < 0 && stream->done >= stream->awaited; }

static void *serve(void *argument) {
    struct fake_stream *stream = argument;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        while (!stream->destroyed && (stream->first == NULL || is_idle(stream)))
            pthread_cond_wait(&stream->more, &fake_lock);
        struct work *work = stream->first;
        if (work == NULL)
            break;
        pthread_mutex_unlock(&fake_lock);
        if (options.delay_us > 0)
            usleep((useconds_t)options.delay_us);
        /* Without the lock: other calls go on. Also after a fault, as documented for no error but that of the function's own. */
        if (work->host != NULL)
            work->host(work->data);
        pthread_mutex_lock(&fake_lock);
        if (work->host == NULL && stream->context->sticky == CUDA_SUCCESS)
            context_fault(stream->context, perform(stream->context, work));
        stream->first = work->next;
        stream->done++;
        free(work->parameters);
        free(work);
        pthread_cond_broadcast(&fake_progress);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

static bool live(struct fake_stream *stream) {
    for (struct fake_stream *one = streams; one != NULL; one = one->next)
        if (one == stream)
            return !one->destroyed;
    return false;
}

static bool recorded(struct fake_event *event) {
    for (struct fake_event *one = events; one != NULL; one = one->next)
        if (one == event)
            return true;
    return false;
}

void captures_visit(void (*visit)(struct fake_capture *, const struct fake_context *, void *), void *argument) {
    for (struct fake_stream *one = streams; one != NULL; one = one->next)
        if (!one->destroyed && one->capture.active)
            visit(&one->capture, one->context, argument);
}

struct fake_capture *capture_of(CUstream stream) { return live(stream) ? &stream->capture : NULL; }

EXPORTED CUresult cuStreamCreate(CUstream *made, unsigned flags) {
    BEGIN(cuStreamCreate);
    CONTEXT(cuStreamCreate);
    pthread_t thread;
    if (flags != STREAM_NON_BLOCKING && flags != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuStreamCreate with flags %u", flags));
    struct fake_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        abort();
    stream->context = context;
    pthread_cond_init(&stream->more, NULL);
    if (pthread_create(&thread, NULL, serve, stream) != 0)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    pthread_detach(thread);
    stream->next = streams;
    streams = stream;
    *made = stream;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuStreamDestroy_v2(CUstream stream) {
    BEGIN(cuStreamDestroy_v2);
    CONTEXT(cuStreamDestroy);
    if (!live(stream))
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamDestroy of an invalid stream"));
    stream->destroyed = true;
    pthread_cond_signal(&stream->more);
    END(CUDA_SUCCESS);
}

static CUresult wait_for(struct fake_stream *stream, uint64_t moment) {
    stream->awaited = moment > stream->awaited ? moment : stream->awaited;
    pthread_cond_signal(&stream->more);
    while (stream->done < moment && stream->context->sticky == CUDA_SUCCESS)
        pthread_cond_wait(&fake_progress, &fake_lock);
    return stream->context->sticky;
}

EXPORTED CUresult cuStreamSynchronize(CUstream stream) {
    BEGIN(cuStreamSynchronize);
    CONTEXT(cuStreamSynchronize);
    UNLESS_CAPTURING(cuStreamSynchronize);
    if (!live(stream))
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamSynchronize of an invalid stream"));
    CUresult code = capture_forbids_stream(stream);
    if (code != CUDA_SUCCESS)
        END(code);
    END(wait_for(stream, stream->queued));
}

EXPORTED CUresult cuCtxSynchronize(void) {
    BEGIN(cuCtxSynchronize);
    CONTEXT(cuCtxSynchronize);
    CUresult code = capture_forbids_waiting(context);
    if (code != CUDA_SUCCESS)
        END(code);
    /* Streams stay in the list, so the loop is valid while other threads add to it. */
    for (struct fake_stream *one = streams; one != NULL; one = one->next)
        if (one->context == context && wait_for(one, one->queued) != CUDA_SUCCESS)
            END(context->sticky);
    END(CUDA_SUCCESS);
}

CUresult work_queue(struct fake_context *context, CUstream stream, struct work *work) {
    if (!live(stream) || stream->context != context) {
        free(work->parameters);
        free(work);
        return misuse(CUDA_ERROR_INVALID_HANDLE, "work on a stream outside the current context");
    }
    if (stream->capture.active) {
        /* It becomes a part of the graph, which nothing here launches. */
        free(work->parameters);
        free(work);
        return stream->capture.invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    if (stream->first == NULL)
        stream->first = work;
    else
        stream->last->next = work;
    stream->last = work;
    stream->queued++;
    pthread_cond_signal(&stream->more);
    return CUDA_SUCCESS;
}

static struct work *new_work(CUdeviceptr to, const void *from, size_t bytes) {
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL)
        abort();
    work->to = to;
    work->from = from;
    work->bytes = bytes;
    return work;
}

EXPORTED CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    static long copies;
    BEGIN(cuMemcpyHtoDAsync_v2);
    CONTEXT(cuMemcpyHtoDAsync);
    if (bytes == 0 || from == NULL || mapping_at(to, bytes) == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "a copy of %zu bytes to where no one mapping has as many", bytes));
    if (!host_range_fine(from, bytes))
        END(misuse(CUDA_ERROR_INVALID_VALUE, "a copy of %zu bytes from beyond the end of pinned memory", bytes));
    struct work *work = new_work(to, from, bytes);
    work->wrong = ++copies == options.fault_at_copy;
    END(work_queue(context, stream, work));
}

EXPORTED CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data) {
    BEGIN(cuLaunchHostFunc);
    CONTEXT(cuLaunchHostFunc);
    if (function == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuLaunchHostFunc without a function"));
    struct work *work = new_work(0, NULL, 0);
    work->host = function;
    work->data = data;
    END(work_queue(context, stream, work));
}

/* The memory of both is at addresses of one space. */
EXPORTED CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    BEGIN(cuMemcpyDtoDAsync_v2);
    CONTEXT(cuMemcpyDtoDAsync);
    if (bytes == 0 || mapping_at(to, bytes) == NULL || mapping_at(from, bytes) == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "a copy of %zu bytes between places where no one mapping has as many", bytes));
    struct work *work = new_work(to, NULL, bytes);
    work->from_device = from;
    END(work_queue(context, stream, work));
}

EXPORTED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    BEGIN(cuMemsetD8Async);
    CONTEXT(cuMemsetD8Async);
    if (bytes == 0 || mapping_at(to, bytes) == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "a memset of %zu bytes to where no one mapping has as many", bytes));
    struct work *work = new_work(to, NULL, bytes);
    work->value = value;
    END(work_queue(context, stream, work));
}

/* On the default stream: it and non-blocking streams do not wait for each other. */
EXPORTED CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    BEGIN(cuMemcpyDtoH_v2);
    CONTEXT(cuMemcpyDtoH);
    UNLESS_CAPTURING(cuMemcpyDtoH);
    if (bytes == 0 || mapping_at(from, bytes) == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "a copy of %zu bytes from where no one mapping has as many", bytes));
    if (!device_accessible(context, from, bytes, false))
        END(context_fault(context, CUDA_ERROR_ILLEGAL_ADDRESS));
    bool fine = copy_bytes(to, host_of(from), bytes);
    END(fine ? CUDA_SUCCESS : misuse(CUDA_ERROR_INVALID_VALUE, "a copy to host memory that is not there"));
}

EXPORTED CUresult cuEventCreate(CUevent *made, unsigned flags) {
    BEGIN(cuEventCreate);
    CONTEXT(cuEventCreate);
    bool between = (flags & EVENT_INTERPROCESS) != 0 && (flags & EVENT_DISABLE_TIMING) == 0;
    if ((flags & ~(unsigned)(EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING | EVENT_INTERPROCESS)) != 0 || between)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuEventCreate with flags %u", flags));
    struct fake_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        abort();
    *event = (struct fake_event){.context = context, .next = events};
    events = event;
    *made = event;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuEventRecord(CUevent event, CUstream stream) {
    BEGIN(cuEventRecord);
    CONTEXT(cuEventRecord);
    if (!recorded(event) || !live(stream) || event->context != stream->context || event->context != context)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuEventRecord of an event and a stream that are not of one context"));
    event->stream = stream;
    event->moment = stream->queued;
    event->captured = stream->capture.active;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuEventQuery(CUevent event) {
    BEGIN(cuEventQuery);
    CONTEXT(cuEventQuery);
    UNLESS_CAPTURING(cuEventQuery);
    if (!recorded(event))
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuEventQuery of an invalid event"));
    if (event->captured)
        END(CUDA_ERROR_CAPTURED_EVENT);
    END(event->stream == NULL || event->stream->done >= event->moment ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

EXPORTED CUresult cuEventSynchronize(CUevent event) {
    BEGIN(cuEventSynchronize);
    CONTEXT(cuEventSynchronize);
    UNLESS_CAPTURING(cuEventSynchronize);
    if (!recorded(event))
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuEventSynchronize of an invalid event"));
    if (event->captured)
        END(CUDA_ERROR_CAPTURED_EVENT);
    END(event->stream == NULL ? CUDA_SUCCESS : wait_for(event->stream, event->moment));
}

EXPORTED CUresult cuEventDestroy_v2(CUevent event) {
    BEGIN(cuEventDestroy_v2);
    CONTEXT(cuEventDestroy);
    struct fake_event **at = &events;
    while (*at != NULL && *at != event)
        at = &(*at)->next;
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuEventDestroy of an invalid event"));
    *at = event->next;
    free(event);
    END(CUDA_SUCCESS);
}

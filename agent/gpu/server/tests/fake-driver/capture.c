/* Streams in capture, and the calls that a capture forbids.
 *
 * A call that could wait for the device, or allocate there, is forbidden to the threads whose mode says so, and makes the
 * captures invalid. The rules are those of `cuThreadExchangeStreamCaptureMode`; the calls of virtual memory are not among the
 * forbidden ones. */
#include <stdlib.h>

#include "fake.h"

struct fake_graph {
    char unused;
};

static _Thread_local int mode = CAPTURE_GLOBAL;

/* Number of the calling thread, for a comparison. */
static uint64_t thread_number(void) { return (uint64_t)(uintptr_t)&mode; }

struct question {
    const struct fake_context *context; /* NULL: of all contexts */
    bool forbidden, all;
};

static bool forbids(const struct fake_capture *capture) {
    if (capture->thread == thread_number())
        return mode != CAPTURE_RELAXED && capture->mode != CAPTURE_RELAXED;
    return mode == CAPTURE_GLOBAL && capture->mode == CAPTURE_GLOBAL;
}

static void ask(struct fake_capture *capture, const struct fake_context *context, void *argument) {
    struct question *question = argument;
    bool here = question->context == NULL || question->context == context;
    if (here && (question->all || forbids(capture)))
        question->forbidden = capture->invalidated = true;
}

CUresult capture_forbids(const char *name) {
    struct question question = {0};
    captures_visit(ask, &question);
    if (question.forbidden)
        remember("captures", name);
    return question.forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_forbids_waiting(const struct fake_context *context) {
    struct question question = {.context = context, .all = true};
    captures_visit(ask, &question);
    if (question.forbidden)
        remember("captures", "cuCtxSynchronize");
    return question.forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_forbids_stream(CUstream stream) {
    struct fake_capture *capture = capture_of(stream);
    if (capture == NULL || !capture->active)
        return CUDA_SUCCESS;
    capture->invalidated = true;
    remember("captures", "cuStreamSynchronize of the stream in capture");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

EXPORTED CUresult cuThreadExchangeStreamCaptureMode(int *exchanged) {
    BEGIN(cuThreadExchangeStreamCaptureMode);
    if (exchanged == NULL || *exchanged < CAPTURE_GLOBAL || *exchanged > CAPTURE_RELAXED)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuThreadExchangeStreamCaptureMode with an unknown mode"));
    int before = mode;
    mode = *exchanged;
    *exchanged = before;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuStreamBeginCapture_v2(CUstream stream, int wanted) {
    BEGIN(cuStreamBeginCapture_v2);
    CONTEXT(cuStreamBeginCapture);
    struct fake_capture *capture = capture_of(stream);
    if (capture == NULL)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamBeginCapture of an invalid stream"));
    if (capture->active || wanted < CAPTURE_GLOBAL || wanted > CAPTURE_RELAXED)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuStreamBeginCapture of a stream in capture, or with mode %d", wanted));
    *capture = (struct fake_capture){.active = true, .mode = wanted, .thread = thread_number()};
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    BEGIN(cuStreamEndCapture);
    CONTEXT(cuStreamEndCapture);
    struct fake_capture *capture = capture_of(stream);
    *graph = NULL;
    if (capture == NULL || !capture->active)
        END(misuse(CUDA_ERROR_ILLEGAL_STATE, "cuStreamEndCapture of a stream that is not in capture"));
    if (capture->thread != thread_number() && capture->mode != CAPTURE_RELAXED)
        END(misuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "cuStreamEndCapture in another thread"));
    bool valid = !capture->invalidated;
    *capture = (struct fake_capture){0};
    if (!valid)
        END(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    *graph = malloc(sizeof **graph);
    END(*graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

/* 0: not in capture, 1: in capture, 2: in one that is invalid. */
EXPORTED CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    BEGIN(cuStreamIsCapturing);
    CONTEXT(cuStreamIsCapturing);
    struct fake_capture *capture = capture_of(stream);
    if (capture == NULL)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamIsCapturing of an invalid stream"));
    *status = !capture->active ? 0 : capture->invalidated ? 2 : 1;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuGraphDestroy(CUgraph graph) {
    BEGIN(cuGraphDestroy);
    if (graph == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuGraphDestroy of nothing"));
    free(graph);
    END(CUDA_SUCCESS);
}

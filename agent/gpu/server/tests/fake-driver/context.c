/* Devices, and primary contexts with each thread's stack of them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "fake.h"

static struct fake_context contexts[MAX_DEVICES];
/* Names of the memory of the contexts. */
static char memory[MAX_DEVICES][NAME_BYTES];

enum { MAX_DEPTH = 16 };
static _Thread_local struct {
    struct fake_context *stack[MAX_DEPTH];
    int depth;
} here;

static void path_of(char path[4096], const char *name, int device) { snprintf(path, 4096, "%s/%s.%d", options.state, name, device); }

/* The clients of an MPS server share one context on the device, and its faults. */
static bool mps_has_failed(int device) {
    char path[4096];
    path_of(path, "fault", device);
    return access(path, F_OK) == 0;
}

CUresult context_fault(struct fake_context *context, CUresult code) {
    char path[4096];
    context->sticky = code;
    if (options.mps && code != CUDA_SUCCESS) {
        path_of(path, "fault", context->device);
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    }
    return code;
}

bool device_exists(CUdevice device) { return device >= 0 && device < options.devices; }

struct fake_context *context_current(const char *name) {
    if (here.depth == 0) {
        misuse(0, "%s without a current context", name);
        return NULL;
    }
    struct fake_context *context = here.stack[here.depth - 1];
    if (context->retained == 0) {
        misuse(0, "%s in a context that was released", name);
        return NULL;
    }
    if (options.mps && context->sticky == CUDA_SUCCESS && mps_has_failed(context->device))
        context->sticky = CUDA_ERROR_MPS_CLIENT_TERMINATED;
    return context;
}

int contexts_retained(void) {
    int retained = 0;
    for (int device = 0; device < MAX_DEVICES; device++)
        retained += contexts[device].retained;
    return retained;
}

bool context_any_sticky(void) {
    bool any = false;
    for (int device = 0; device < MAX_DEVICES; device++)
        any |= contexts[device].sticky != CUDA_SUCCESS;
    return any;
}

EXPORTED CUresult cuDeviceGetCount(int *count) {
    BEGIN(cuDeviceGetCount);
    *count = options.devices;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    BEGIN(cuDeviceGet);
    if (!device_exists(ordinal))
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDeviceGet of number %d", ordinal));
    *device = ordinal;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    BEGIN(cuDeviceGetName);
    if (!device_exists(device) || length <= 0)
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDeviceGetName of device %d in %d bytes", device, length));
    snprintf(name, (size_t)length, "Fake GPU %d", device);
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuDeviceGetPCIBusId(char *address, int length, CUdevice device) {
    BEGIN(cuDeviceGetPCIBusId);
    if (!device_exists(device) || length < 13)
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDeviceGetPCIBusId of device %d in %d bytes", device, length));
    snprintf(address, (size_t)length, "FFFF:%02X:00.0", device + 1);
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    BEGIN(cuDeviceCanAccessPeer);
    if (!device_exists(device) || !device_exists(peer))
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDeviceCanAccessPeer of devices %d and %d", device, peer));
    *can = device != peer && options.peer_access;
    END(CUDA_SUCCESS);
}

#ifndef FAKE_OLD_DRIVER
EXPORTED CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    BEGIN(cuDeviceGetUuid_v2);
    if (!device_exists(device))
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDeviceGetUuid of device %d", device));
    memset(uuid->bytes, 0xfa, sizeof uuid->bytes);
    uuid->bytes[15] = (char)device;
    END(CUDA_SUCCESS);
}
#endif

EXPORTED CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    BEGIN(cuDeviceGetAttribute);
    if (!device_exists(device))
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDeviceGetAttribute of device %d", device));
    if (attribute < 1 || (attribute > ATTRIBUTE_LAST && !(options.mps && attribute <= ATTRIBUTE_MPS_ENABLED)))
        END(CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case ATTRIBUTE_UNIFIED_ADDRESSING:
    case ATTRIBUTE_HOST_REGISTER:
        *value = 1;
        break;
    case ATTRIBUTE_COMPUTE_MODE:
        *value = options.compute_mode;
        break;
    case ATTRIBUTE_MPS_ENABLED:
        *value = options.mps;
        break;
    case ATTRIBUTE_VIRTUAL_MEMORY:
        *value = options.virtual_memory;
        break;
    case ATTRIBUTE_POSIX_DESCRIPTOR:
        *value = options.virtual_memory && options.descriptors;
        break;
    case ATTRIBUTE_READ_ONLY_HOST_REGISTER:
        *value = options.read_only_register;
        break;
    default:
        *value = 0;
    }
    END(CUDA_SUCCESS);
}

/* The first process gets a device for one process. */
static CUresult exclude_others(struct fake_context *context) {
    char path[4096];
    if (options.compute_mode == COMPUTE_PROHIBITED)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (options.compute_mode != COMPUTE_EXCLUSIVE_PROCESS)
        return CUDA_SUCCESS;
    path_of(path, "exclusive", context->device);
    context->exclusive = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (context->exclusive >= 0 && flock(context->exclusive, LOCK_EX | LOCK_NB) == 0)
        return CUDA_SUCCESS;
    close(context->exclusive);
    context->exclusive = -1;
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

static void reset(struct fake_context *context) {
    if (context->memory >= 0) {
        close(context->memory);
        account_left(memory[context->device]);
    }
    if (context->exclusive >= 0)
        close(context->exclusive);
    context->memory = context->exclusive = -1;
}

static CUresult create(struct fake_context *context) {
    context->memory = context->exclusive = -1;
    CUresult code = exclude_others(context);
    if (code == CUDA_SUCCESS && options.context_bytes > 0)
        code = account_take_unused(context->device, options.context_bytes, &context->memory, memory[context->device]);
    if (code != CUDA_SUCCESS)
        reset(context);
    return code;
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    BEGIN(cuDevicePrimaryCtxRetain);
    if (!device_exists(device))
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDevicePrimaryCtxRetain of device %d", device));
    contexts[device].device = device;
    CUresult code = contexts[device].retained == 0 ? create(&contexts[device]) : CUDA_SUCCESS;
    if (code != CUDA_SUCCESS)
        END(code);
    contexts[device].retained++;
    *context = &contexts[device];
    END(CUDA_SUCCESS);
}

/* The last release resets the context: live objects in it would be lost. */
static CUresult release(struct fake_context *context) {
    if (context->retained == 0)
        return misuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context released more often than retained");
    if (--context->retained > 0)
        return CUDA_SUCCESS;
    reset(context);
    if (contexts_retained() > 0)
        return CUDA_SUCCESS;
    int reservations, handles, opened, registrations, events;
    int live = virtual_live(&reservations, &handles) + legacy_live(&opened) + host_live(&registrations);
    live += modules_live() + streams_live(&events) + reservations + handles + opened + registrations + events;
    if (live > 0 && context->sticky == CUDA_SUCCESS) {
        char line[64];
        snprintf(line, sizeof line, "the last context released with %d objects in it", live);
        remember("leaks", line);
    }
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    BEGIN(cuDevicePrimaryCtxRelease_v2);
    if (!device_exists(device))
        END(misuse(CUDA_ERROR_INVALID_DEVICE, "cuDevicePrimaryCtxRelease of device %d", device));
    END(release(&contexts[device]));
}

EXPORTED CUresult cuCtxPushCurrent_v2(CUcontext context) {
    BEGIN(cuCtxPushCurrent_v2);
    if (context < contexts || context >= contexts + MAX_DEVICES || context->retained == 0)
        END(misuse(CUDA_ERROR_INVALID_CONTEXT, "cuCtxPushCurrent of what is no context"));
    if (here.depth == MAX_DEPTH)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "more than %d contexts pushed: some are never popped", MAX_DEPTH));
    here.stack[here.depth++] = context;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    BEGIN(cuCtxPopCurrent_v2);
    if (here.depth == 0)
        END(misuse(CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent where none was pushed"));
    here.depth--;
    if (context != NULL)
        *context = here.stack[here.depth];
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext *context) {
    BEGIN(cuCtxGetCurrent);
    *context = here.depth == 0 ? NULL : here.stack[here.depth - 1];
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    BEGIN(cuMemGetInfo_v2);
    CONTEXT(cuMemGetInfo);
    size_t used = account_used(context->device);
    *total = options.memory_bytes;
    *free = used < options.memory_bytes ? options.memory_bytes - used : 0;
    END(CUDA_SUCCESS);
}

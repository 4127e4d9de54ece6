/* Breaks the rules of the fake driver one after the other, and checks the results. Prints the number
 * of broken rules.
 *
 * Every call here that is not meant to break a rule has to succeed. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static int broken;

/* Breaks a rule, and expects this result. */
#define BREAKS(expected, call) broken += is(expected, call, #call, __LINE__)

static void contexts(CUcontext context) {
    size_t free, total;
    CUcontext popped;
    int value;
    BREAKS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&popped));
    BREAKS(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo_v2(&free, &total));
    BREAKS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2((CUcontext)&value));
    BREAKS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, 102, 5));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 9999, 0));
    FINE(cuCtxPushCurrent_v2(context));
    FINE(cuMemGetInfo_v2(&free, &total));
}

static void creation(void) {
    CUmemAllocationProp wrong = properties();
    CUhandle handle;
    wrong.type = 0;
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong = properties();
    wrong.location.id = 3;
    BREAKS(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong = properties();
    wrong.handle_types = 2;
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong = properties();
    wrong.flags.reserved[1] = 1;
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong = properties();
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, MIB, &wrong, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &wrong, 1));
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, (size_t)1 << 40, &wrong, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(12345));
}

static void mappings(void) {
    CUmemAllocationProp right = properties();
    CUmemAccessDesc access = {.location = {.type = 1, .id = 0}, .flags = 3};
    CUdeviceptr loose, address;
    CUhandle handle;
    FINE(cuMemCreate(&handle, 4 * MIB, &right, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&loose, 100, 0, 0, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&loose, 4 * MIB, 3, 0, 0));
    FINE(cuMemAddressReserve(&loose, 4 * MIB, 0, 0, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemMap(loose, 4 * MIB, 0, handle, 0));
    FINE(cuMemAddressFree(loose, 4 * MIB));
    FINE(cuMemAddressReserve(&address, 4 * MIB, 2 * MIB, 0, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 8 * MIB, 0, handle, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 2 * MIB, handle, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 4 * MIB, 4 * MIB, 0, handle, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(address, 4 * MIB, &access, 1));
    FINE(cuMemMap(address, 4 * MIB, 0, handle, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 0, handle, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(address, 4 * MIB, &access, 0));
    access.flags = 2;
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(address, 4 * MIB, &access, 1));
    access.flags = 3;
    FINE(cuMemSetAccess(address, 4 * MIB, &access, 1));
    /* Allowed: the mapping keeps the memory. */
    FINE(cuMemRelease(handle));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
    memset((void *)(uintptr_t)address, 1, 4 * MIB);
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, 2 * MIB));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 4 * MIB));
    FINE(cuMemUnmap(address, 4 * MIB));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, 4 * MIB));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 2 * MIB));
    FINE(cuMemAddressFree(address, 4 * MIB));
}

static void legacy(void) {
    CUdeviceptr address, start;
    CUipcMemHandle handle;
    size_t bytes;
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&address, 0));
    FINE(cuMemAlloc_v2(&address, 1000));
    FINE(cuMemGetAddressRange_v2(&start, &bytes, address + 10));
    if (start != address || bytes != 1000)
        exit(2);
    BREAKS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&start, &bytes, 64));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, address + 1));
    FINE(cuIpcGetMemHandle(&handle, address));
    BREAKS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&start, handle, 1));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&start, handle, 0));
    memset(&handle, 0, sizeof handle);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&start, handle, 1));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address + 512));
    FINE(cuMemFree_v2(address));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
}

static void host_memory(void) {
    void *pinned;
    char *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&pinned, 0, 0));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&pinned, 10, 64));
    FINE(cuMemHostAlloc(&pinned, 10, 1));
    ANSWERS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(pinned, 10, 1));
    FINE(cuMemFreeHost(pinned));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
    FINE(cuMemHostRegister_v2(pages, MIB, 1));
    ANSWERS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(pages + 4096, 4096, 1));
    BREAKS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages + 4096));
    FINE(cuMemHostUnregister(pages));
    BREAKS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages));
    BREAKS(CUDA_ERROR_NOT_SUPPORTED, cuMemHostRegister_v2(pages, MIB, 8));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(pages, MIB, 4));
    mprotect(pages, MIB, PROT_READ);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(pages, MIB, 1));
    munmap(pages, MIB);
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(pages, MIB, 1));
}

static void streams(void) {
    CUstream stream, gone;
    CUevent event;
    CUdeviceptr address;
    void *pinned;
    char out[8];
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
    FINE(cuStreamCreate(&stream, 1));
    FINE(cuStreamCreate(&gone, 1));
    FINE(cuStreamDestroy_v2(gone));
    BREAKS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(gone));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, EVENT_INTERPROCESS));
    FINE(cuEventCreate(&event, 3));
    FINE(cuEventQuery(event));
    BREAKS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, gone));
    FINE(cuMemAlloc_v2(&address, 2 * MIB));
    FINE(cuMemHostAlloc(&pinned, 8, 1));
    memcpy(pinned, "12345678", 8);
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(address + 2 * MIB - 4, pinned, 8, stream));
    BREAKS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(address, (char *)pinned + 4, 8, stream));
    BREAKS(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoDAsync_v2(address, pinned, 8, gone));
    FINE(cuMemcpyHtoDAsync_v2(address, pinned, 8, stream));
    FINE(cuEventRecord(event, stream));
    /* The copy has not run yet: a missing wait has this effect. */
    ANSWERS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    FINE(cuMemcpyDtoH_v2(out, address, 8));
    if (memcmp(out, "12345678", 8) == 0)
        exit(3);
    FINE(cuEventSynchronize(event));
    FINE(cuMemcpyDtoH_v2(out, address, 8));
    if (memcmp(out, "12345678", 8) != 0)
        exit(4);
    FINE(cuMemcpyHtoDAsync_v2(address, pinned, 8, stream));
    broken++; /* freed while a copy reads it, and then the copy finds nothing */
    FINE(cuMemFreeHost(pinned));
    BREAKS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2(address));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventDestroy_v2(event));
}

/* The driver does not work in a forked child. */
static void forked(void) {
    int count, status;
    pid_t child = fork();
    if (child == 0)
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(5);
}

int main(void) {
    CUcontext context;
    CUdevice device;
    int count;
    ANSWERS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    FINE(cuInit(0));
    BREAKS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 7));
    FINE(cuDeviceGet(&device, 0));
    FINE(cuDevicePrimaryCtxRetain(&context, device));
    contexts(context);
    creation();
    mappings();
    legacy();
    host_memory();
    forked();
    streams();
    FINE(cuDevicePrimaryCtxRelease_v2(device));
    BREAKS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(device));
    printf("%d\n", broken);
    return 0;
}

/* The part of the CUDA driver's interface that the mirror calls: types, numbers and layouts as in cuda.h of version 11.4 and later. */
#ifndef CUDA_SUBSET_H
#define CUDA_SUBSET_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint64_t CUhandle; /* CUmemGenericAllocationHandle */
typedef struct fake_context *CUcontext;
typedef struct fake_stream *CUstream;
typedef struct fake_event *CUevent;
typedef struct fake_graph *CUgraph;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_MAP_FAILED = 205,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_MPS_CLIENT_TERMINATED = 809,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
};

enum {
    ATTRIBUTE_COMPUTE_MODE = 20,
    ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    ATTRIBUTE_HOST_REGISTER = 99,
    ATTRIBUTE_VIRTUAL_MEMORY = 102,
    ATTRIBUTE_POSIX_DESCRIPTOR = 103,
    ATTRIBUTE_READ_ONLY_HOST_REGISTER = 113,
    /* The last attribute of version 11.4. */
    ATTRIBUTE_LAST = 118,
    /* Of version 12.3. */
    ATTRIBUTE_MPS_ENABLED = 133,
};

enum { STREAM_NON_BLOCKING = 1 };
enum { COMPUTE_DEFAULT = 0, COMPUTE_PROHIBITED = 2, COMPUTE_EXCLUSIVE_PROCESS = 3 };
enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };
enum { EVENT_BLOCKING_SYNC = 1, EVENT_DISABLE_TIMING = 2, EVENT_INTERPROCESS = 4 };
enum { HOST_PORTABLE = 1, HOST_DEVICE_MAP = 2, HOST_WRITE_COMBINED = 4 };
enum { REGISTER_IO_MEMORY = 4, REGISTER_READ_ONLY = 8 };
enum { IPC_LAZY_PEER_ACCESS = 1 };

typedef struct {
    int type; /* 1: a device */
    int id;
} CUmemLocation;

enum { LOCATION_DEVICE = 1, ALLOCATION_PINNED = 1, HANDLE_POSIX_DESCRIPTOR = 1 };

typedef struct {
    int type;
    int handle_types;
    CUmemLocation location;
    void *windows_only;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} CUmemAllocationProp;

enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READ_WRITE = 3 };

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct {
    char bytes[16];
} CUuuid;

typedef struct {
    char reserved[64];
} CUipcMemHandle;

_Static_assert(sizeof(CUmemAllocationProp) == 32, "as in cuda.h");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "as in cuda.h");

/* The library is built with hidden symbols, and exports those of a driver. */
#define EXPORTED __attribute__((visibility("default")))

#endif

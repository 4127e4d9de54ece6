/* Work queued on a stream. */
#ifndef WORK_H
#define WORK_H

#include "fake.h"

struct work {
    CUdeviceptr to;
    const char *from; /* NULL: all bytes become `value` */
    unsigned char value;
    CUdeviceptr from_device; /* 0: none */
    size_t bytes;
    bool wrong; /* as if the address were bad */
    /* A kernel, with a copy of its parameters. */
    CUresult (*run)(struct fake_context *context, struct work *work);
    /* A function of the host, which may wait for anything but the driver. */
    void (*host)(void *data);
    void *data;
    void *parameters;
    char kernel[64];
    uint64_t threads;
    /* Its places in device memory. */
    CUdeviceptr uses[3];
    struct work *next;
};

bool work_runs_kernels(void);
/* Returns true if the context's device may access all of the addresses. */
bool device_accessible(const struct fake_context *context, CUdeviceptr address, size_t bytes, bool write);
/* Takes ownership of the work, also on an error. */
CUresult work_queue(struct fake_context *context, CUstream stream, struct work *work);

#endif

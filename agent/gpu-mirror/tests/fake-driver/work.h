/* What is queued on a stream. */
#ifndef WORK_H
#define WORK_H

#include "fake.h"

struct work {
    CUdeviceptr to;
    const char *from; /* NULL: all bytes become `value` */
    unsigned char value;
    size_t bytes;
    bool wrong; /* as if the address were bad */
    /* A kernel, with a copy of its parameters. */
    CUresult (*run)(struct fake_context *context, struct work *work);
    void *parameters;
    struct work *next;
};

/* Takes the work over, also when it is refused. */
CUresult work_queue(struct fake_context *context, CUstream stream, struct work *work);

#endif

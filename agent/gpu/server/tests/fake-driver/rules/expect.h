/* Expectations of a program that tests the fake driver. */
#ifndef RULES_EXPECT_H
#define RULES_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

/* Expects this result of a valid call. */
#define ANSWERS(expected, call) is(expected, call, #call, __LINE__)
#define FINE(call) is(CUDA_SUCCESS, call, #call, __LINE__)
/* Expects a fact. */
#define HOLDS(fact) is(1, fact, #fact, __LINE__)

static int is(long expected, long found, const char *call, int line) {
    if (expected != found) {
        fprintf(stderr, "line %d: expected %ld from %s, found %ld\n", line, expected, call, found);
        exit(1);
    }
    return 1;
}

enum { MIB = 1 << 20 };

static inline CUmemAllocationProp properties(void) {
    return (CUmemAllocationProp){.type = 1, .handle_types = 1, .location = {.type = 1, .id = 0}};
}

#endif

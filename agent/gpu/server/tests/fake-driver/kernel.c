/* Modules, functions, and launches of the mirror's kernels, which this file implements in C. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "work.h"

enum { MAX_PARAMETERS = 8, WARP = 32 };

typedef struct fake_function *CUfunction;
typedef struct fake_module *CUmodule;

/* The parameters of the kernels. */
struct matvec {
    uint64_t weights, input, output;
    uint32_t rows, columns, accumulate;
};

struct fake_function {
    char name[64];
    int parameters;
    size_t bytes[MAX_PARAMETERS];
    unsigned max_threads;
    struct fake_function *next;
};

struct fake_module {
    struct fake_context *context;
    struct fake_function *functions;
    struct fake_module *next;
};

static struct fake_module *modules;

int modules_live(void) {
    int live = 0;
    for (struct fake_module *module = modules; module != NULL; module = module->next)
        live++;
    return live;
}

/* Reads `NAME(.param .u64 A, ...) .maxntid N, 1, 1`. */
static struct fake_function *declared(const char *text) {
    struct fake_function *function = calloc(1, sizeof *function);
    unsigned bits;
    if (function == NULL)
        abort();
    const char *end = strchr(text, ')'), *at = text;
    if (end == NULL || sscanf(text, "%63[A-Za-z0-9_]", function->name) != 1) {
        free(function);
        return NULL;
    }
    while ((at = strstr(at, ".param")) != NULL && at < end && function->parameters < MAX_PARAMETERS) {
        if (sscanf(at, ".param .u%u", &bits) == 1 || sscanf(at, ".param .b%u", &bits) == 1 || sscanf(at, ".param .f%u", &bits) == 1)
            function->bytes[function->parameters++] = bits / 8;
        at++;
    }
    if (sscanf(end, ") .maxntid %u", &function->max_threads) != 1)
        function->max_threads = 1024;
    return function;
}

EXPORTED CUresult cuModuleLoadData(CUmodule *made, const void *image) {
    BEGIN(cuModuleLoadData);
    CONTEXT(cuModuleLoadData);
    UNLESS_CAPTURING(cuModuleLoadData);
    const char *text = image;
    if (strstr(text, "\n.version ") == NULL || strstr(text, "\n.target ") == NULL)
        END(misuse(218, "cuModuleLoadData of an image that is not PTX"));
    struct fake_module *module = calloc(1, sizeof *module);
    if (module == NULL)
        abort();
    module->context = context;
    while ((text = strstr(text, ".visible .entry ")) != NULL) {
        text += strlen(".visible .entry ");
        struct fake_function *function = declared(text);
        if (function == NULL)
            END(misuse(218, "cuModuleLoadData of a kernel without parameters"));
        function->next = module->functions;
        module->functions = function;
    }
    module->next = modules;
    modules = module;
    *made = module;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuModuleUnload(CUmodule module) {
    BEGIN(cuModuleUnload);
    CONTEXT(cuModuleUnload);
    UNLESS_CAPTURING(cuModuleUnload);
    struct fake_module **at = &modules;
    while (*at != NULL && *at != module)
        at = &(*at)->next;
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuModuleUnload of an invalid module"));
    if (work_runs_kernels())
        misuse(0, "cuModuleUnload while kernels run");
    *at = module->next;
    while (module->functions != NULL) {
        struct fake_function *function = module->functions;
        module->functions = function->next;
        free(function);
    }
    free(module);
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuModuleGetFunction(CUfunction *found, CUmodule module, const char *name) {
    BEGIN(cuModuleGetFunction);
    CONTEXT(cuModuleGetFunction);
    struct fake_module *known = modules;
    while (known != NULL && known != module)
        known = known->next;
    if (known == NULL)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuModuleGetFunction of an invalid module"));
    for (struct fake_function *one = module->functions; one != NULL; one = one->next) {
        if (strcmp(one->name, name) == 0) {
            *found = one;
            END(CUDA_SUCCESS);
        }
    }
    END(misuse(CUDA_ERROR_NOT_FOUND, "cuModuleGetFunction of %s, which the PTX lacks", name));
}

static struct fake_function *function_of(struct fake_context *context, CUfunction function) {
    for (struct fake_module *module = modules; module != NULL; module = module->next)
        for (struct fake_function *one = module->functions; one != NULL; one = one->next)
            if (one == function && module->context == context)
                return one;
    return NULL;
}

static float element(const unsigned char *weights, size_t at, bool half) {
    uint32_t bits = 0;
    float value;
    memcpy(half ? (char *)&bits + 2 : (char *)&bits, weights + at * (half ? 2 : 4), half ? 2 : 4);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void multiply(const struct matvec *product, uint32_t rows, bool half) {
    const unsigned char *weights = host_of(product->weights);
    const float *input = host_of(product->input);
    float *output = host_of(product->output);
    for (uint32_t row = 0; row < rows; row++) {
        float sums[WARP] = {0}, sum = 0;
        for (uint32_t column = 0; column < product->columns; column++)
            sums[column % WARP] += element(weights, (size_t)row * product->columns + column, half) * input[column];
        for (int lane = 0; lane < WARP; lane++)
            sum += sums[lane];
        output[row] = product->accumulate != 0 ? output[row] + sum : sum;
    }
}

/* One row for each warp of the launch. */
static CUresult run(struct fake_context *context, struct work *work) {
    const struct matvec *product = work->parameters;
    bool half = strstr(work->kernel, "bf16") != NULL, wide = strchr(work->kernel, 'x') != NULL;
    uint32_t warps = (uint32_t)(work->threads / WARP), rows = product->rows < warps ? product->rows : warps;
    uint64_t row_bytes = (uint64_t)product->columns * (half ? 2 : 4);
    if (wide && (product->weights | product->input | row_bytes) % 16 != 0)
        return misuse(716, "%s reads 16 bytes at a time where they are not aligned", work->kernel);
    bool fine = device_accessible(context, product->weights, rows * row_bytes, false) &&
                device_accessible(context, product->input, (uint64_t)product->columns * 4, false) &&
                device_accessible(context, product->output, (uint64_t)rows * 4, true);
    if (!fine)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    multiply(product, rows, half);
    return CUDA_SUCCESS;
}

static CUresult check_launch(const struct fake_function *function, const unsigned grid[3], const unsigned block[3]) {
    static const size_t expected[] = {8, 8, 8, 4, 4, 4};
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || threads == 0 || threads > function->max_threads)
        return misuse(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel of %s with %u blocks of %llu threads", function->name, grid[0],
                      (unsigned long long)threads);
    bool same = function->parameters == 6 && memcmp(function->bytes, expected, sizeof expected) == 0;
    if (!same || strncmp(function->name, "tetris_matvec_", 14) != 0)
        return misuse(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel of %s, which the fake driver does not implement", function->name);
    if (block[0] != 256 || threads != 256 || grid[1] != 1 || grid[2] != 1)
        return misuse(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel of %s, which needs blocks of 256 threads", function->name);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                                 void **extra) {
    BEGIN(cuLaunchKernel);
    CONTEXT(cuLaunchKernel);
    struct fake_function *function = function_of(context, handle);
    if (function == NULL)
        END(misuse(CUDA_ERROR_INVALID_HANDLE, "cuLaunchKernel of a function outside the current context"));
    if (parameters == NULL || extra != NULL || shared_bytes != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel without parameters, or with shared memory"));
    CUresult code = check_launch(function, (unsigned[3]){grid_x, grid_y, grid_z}, (unsigned[3]){block_x, block_y, block_z});
    if (code != CUDA_SUCCESS)
        END(code);
    struct work *work = calloc(1, sizeof *work);
    struct matvec *product = calloc(1, sizeof *product);
    if (work == NULL || product == NULL)
        abort();
    /* The call reads the parameters before it returns. */
    void *fields[] = {&product->weights, &product->input, &product->output, &product->rows, &product->columns, &product->accumulate};
    for (int at = 0; at < function->parameters; at++)
        memcpy(fields[at], parameters[at], function->bytes[at]);
    work->run = run;
    work->parameters = product;
    work->threads = (uint64_t)grid_x * block_x;
    work->uses[0] = product->weights;
    work->uses[1] = product->input;
    work->uses[2] = product->output;
    memcpy(work->kernel, function->name, sizeof work->kernel);
    END(work_queue(context, stream, work));
}

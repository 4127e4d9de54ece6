/* Whole allocations, and legacy handles for them. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

/* Several small allocations share a block, and a handle opens the whole block. */
struct block {
    CUdeviceptr address;
    size_t bytes, used;
    int file, device, allocations;
    char name[NAME_BYTES];
    struct block *next;
};

struct allocation {
    CUdeviceptr address;
    size_t bytes;
    struct block *block;
    struct allocation *next;
};

struct opened {
    CUdeviceptr address;
    size_t bytes;
    int file, times;
    char name[NAME_BYTES];
    struct opened *next;
};

/* Content of the 64 bytes of a handle. */
struct wire {
    char magic[4];
    int32_t process;
    uint64_t offset;
    char name[NAME_BYTES];
};
_Static_assert(sizeof(struct wire) == sizeof(CUipcMemHandle), "a handle has 64 bytes");
static const char MAGIC[4] = {'f', 'a', 'k', 'e'};

static struct block *blocks;
static struct allocation *allocations;
static struct opened *opened_blocks;

static void *grow(size_t bytes) {
    void *made = calloc(1, bytes);
    if (made == NULL)
        abort();
    return made;
}

int legacy_live(int *opened) {
    int live = 0;
    *opened = 0;
    for (struct allocation *one = allocations; one != NULL; one = one->next)
        live++;
    for (struct opened *one = opened_blocks; one != NULL; one = one->next)
        *opened += one->times;
    return live;
}

/* Maps at a multiple of the granule, like blocks. */
static CUdeviceptr map(int file, size_t bytes, int device, const char *name) {
    size_t unit = options.granule_bytes;
    void *all = mmap(NULL, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return 0;
    uintptr_t start = ((uintptr_t)all + unit - 1) / unit * unit;
    if (mmap((void *)start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        return 0;
    CUdeviceptr address = device_of((void *)start);
    mapping_add(address, bytes, device, false, name)->access[device] = ACCESS_READ_WRITE;
    return address;
}

static void unmap(CUdeviceptr address, size_t bytes) {
    if (work_touches_device(address, bytes))
        misuse(0, "device memory freed or closed while copies to it are under way");
    mapping_remove(mapping_at(address, bytes));
    munmap(host_of(address), bytes);
}

static CUresult block_for(int device, size_t bytes, struct block **found) {
    for (struct block *block = blocks; block != NULL; block = block->next) {
        if (block->device == device && block->bytes - block->used >= bytes) {
            *found = block;
            return CUDA_SUCCESS;
        }
    }
    struct block *block = grow(sizeof *block);
    block->bytes = (bytes + options.block_bytes - 1) / options.block_bytes * options.block_bytes;
    block->device = device;
    CUresult code = account_take(device, block->bytes, &block->file, block->name);
    if (code == CUDA_SUCCESS)
        block->address = map(block->file, block->bytes, device, block->name);
    if (code != CUDA_SUCCESS || block->address == 0) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->next = blocks;
    blocks = block;
    *found = block;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    BEGIN(cuMemAlloc_v2);
    CONTEXT(cuMemAlloc);
    UNLESS_CAPTURING(cuMemAlloc);
    struct block *block;
    if (bytes == 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemAlloc of 0 bytes"));
    size_t room = (bytes + 511) / 512 * 512;
    CUresult code = block_for(context->device, room, &block);
    if (code != CUDA_SUCCESS)
        END(code);
    struct allocation *one = grow(sizeof *one);
    *one = (struct allocation){.address = block->address + block->used, .bytes = bytes, .block = block, .next = allocations};
    allocations = one;
    block->used += room;
    block->allocations++;
    *address = one->address;
    END(CUDA_SUCCESS);
}

static void block_free(struct block *freed) {
    struct block **at = &blocks;
    while (*at != freed)
        at = &(*at)->next;
    *at = freed->next;
    unmap(freed->address, freed->bytes);
    account_close_to_others(freed->name);
    close(freed->file);
    account_left(freed->name);
    free(freed);
}

EXPORTED CUresult cuMemFree_v2(CUdeviceptr address) {
    BEGIN(cuMemFree_v2);
    CONTEXT(cuMemFree);
    UNLESS_CAPTURING(cuMemFree);
    struct allocation **at = &allocations;
    while (*at != NULL && (*at)->address != address)
        at = &(*at)->next;
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemFree of an address that cuMemAlloc did not return"));
    struct allocation *freed = *at;
    *at = freed->next;
    if (--freed->block->allocations == 0)
        block_free(freed->block);
    free(freed);
    END(CUDA_SUCCESS);
}

/* The allocation of this process, or the whole block that a handle opened. */
EXPORTED CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
    BEGIN(cuMemGetAddressRange_v2);
    CONTEXT(cuMemGetAddressRange);
    struct mapping *mapping = mapping_at(address, 1);
    if (mapping == NULL)
        END(misuse(CUDA_ERROR_NOT_FOUND, "cuMemGetAddressRange of an address that is not on a device"));
    *start = mapping->address;
    *bytes = mapping->bytes;
    for (struct allocation *one = allocations; one != NULL; one = one->next) {
        if (address >= one->address && address < one->address + one->bytes) {
            *start = one->address;
            *bytes = one->bytes;
        }
    }
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    BEGIN(cuIpcGetMemHandle);
    CONTEXT(cuIpcGetMemHandle);
    struct allocation *one = allocations;
    while (one != NULL && one->address != address)
        one = one->next;
    if (one == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuIpcGetMemHandle of an address that starts no allocation"));
    struct wire wire = {.process = (int32_t)getpid(), .offset = address - one->block->address};
    memcpy(wire.magic, MAGIC, sizeof MAGIC);
    memcpy(wire.name, one->block->name, NAME_BYTES);
    memcpy(handle, &wire, sizeof wire);
    END(CUDA_SUCCESS);
}

static struct opened *open_block(const char *name, int device, CUresult *code) {
    struct opened *one = grow(sizeof *one);
    int of;
    *code = CUDA_ERROR_MAP_FAILED;
    if (!account_open(name, &one->file, &of, &one->bytes)) {
        free(one);
        return NULL;
    }
    if (of != device && !options.peer_access)
        *code = CUDA_ERROR_INVALID_DEVICE;
    else
        one->address = map(one->file, one->bytes, device, name);
    if (one->address == 0) {
        close(one->file);
        free(one);
        return NULL;
    }
    memcpy(one->name, name, NAME_BYTES);
    one->next = opened_blocks;
    opened_blocks = one;
    return one;
}

EXPORTED CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {
    BEGIN(cuIpcOpenMemHandle_v2);
    CONTEXT(cuIpcOpenMemHandle);
    UNLESS_CAPTURING(cuIpcOpenMemHandle);
    struct wire wire;
    memcpy(&wire, &handle, sizeof wire);
    if (flags != IPC_LAZY_PEER_ACCESS)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuIpcOpenMemHandle with flags %u", flags));
    if (memcmp(wire.magic, MAGIC, sizeof MAGIC) != 0 || wire.name[NAME_BYTES - 1] != 0)
        END(CUDA_ERROR_INVALID_VALUE);
    if (wire.process == (int32_t)getpid())
        END(misuse(CUDA_ERROR_INVALID_CONTEXT, "cuIpcOpenMemHandle in the process that made the handle"));
    struct opened *one = opened_blocks;
    while (one != NULL && strcmp(one->name, wire.name) != 0)
        one = one->next;
    CUresult code = CUDA_SUCCESS;
    if (one == NULL && (one = open_block(wire.name, context->device, &code)) == NULL)
        END(code);
    one->times++;
    *address = one->address + wire.offset;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    BEGIN(cuIpcCloseMemHandle);
    CONTEXT(cuIpcCloseMemHandle);
    UNLESS_CAPTURING(cuIpcCloseMemHandle);
    struct opened **at = &opened_blocks;
    while (*at != NULL && (address < (*at)->address || address >= (*at)->address + (*at)->bytes))
        at = &(*at)->next;
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuIpcCloseMemHandle of memory that is not open"));
    struct opened *closed = *at;
    if (--closed->times > 0)
        END(CUDA_SUCCESS);
    *at = closed->next;
    unmap(closed->address, closed->bytes);
    close(closed->file);
    account_left(closed->name);
    free(closed);
    END(CUDA_SUCCESS);
}

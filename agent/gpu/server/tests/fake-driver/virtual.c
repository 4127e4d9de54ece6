/* Virtual memory: reservations, handles, mappings, descriptors. None of these calls needs a current context. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

struct reservation {
    CUdeviceptr address;
    size_t bytes;
    struct reservation *next;
};

struct handle {
    int file, device;
    size_t bytes;
    bool imported;
    char name[NAME_BYTES];
    struct handle *next;
};

static struct reservation *reservations;
static struct handle *handles;

static struct handle *handle_of(CUhandle value) {
    for (struct handle *handle = handles; handle != NULL; handle = handle->next)
        if ((CUhandle)(uintptr_t)handle == value)
            return handle;
    return NULL;
}

int virtual_live(int *live_reservations, int *live_handles) {
    *live_reservations = *live_handles = 0;
    for (struct reservation *one = reservations; one != NULL; one = one->next)
        ++*live_reservations;
    for (struct handle *one = handles; one != NULL; one = one->next)
        ++*live_handles;
    return mappings_virtual();
}

/* Checks the properties of memory that can be exported as descriptors. */
static CUresult check_properties(const CUmemAllocationProp *properties) {
    static const unsigned char zeros[4];
    if (!options.virtual_memory)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (properties == NULL || properties->type != ALLOCATION_PINNED || properties->location.type != LOCATION_DEVICE)
        return misuse(CUDA_ERROR_INVALID_VALUE, "properties that are not of pinned memory of a device");
    if (!device_exists(properties->location.id))
        return misuse(CUDA_ERROR_INVALID_DEVICE, "properties of device %d", properties->location.id);
    if (properties->handle_types != 0 && properties->handle_types != HANDLE_POSIX_DESCRIPTOR)
        return misuse(CUDA_ERROR_INVALID_VALUE, "properties with handle types %#x", (unsigned)properties->handle_types);
    if (properties->handle_types != 0 && !options.descriptors)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool plain = properties->windows_only == NULL && properties->flags.compression == 0 && properties->flags.usage == 0;
    if (!plain || memcmp(properties->flags.reserved, zeros, sizeof zeros) != 0)
        return misuse(CUDA_ERROR_INVALID_VALUE, "properties with fields that should be zero");
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties, int which) {
    BEGIN(cuMemGetAllocationGranularity);
    CUresult code = check_properties(properties);
    if (code == CUDA_SUCCESS && which != 0 && which != 1)
        code = misuse(CUDA_ERROR_INVALID_VALUE, "granularity number %d", which);
    if (code == CUDA_SUCCESS)
        *bytes = options.granule_bytes;
    END(code);
}

/* With the default alignment the address is only a multiple of a page, the documented minimum. */
EXPORTED CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
                                      unsigned long long flags) {
    BEGIN(cuMemAddressReserve);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool fine = bytes > 0 && bytes % page == 0 && (alignment & (alignment - 1)) == 0 && flags == 0 && hint % page == 0;
    if (!fine)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemAddressReserve of %zu bytes aligned to %zu", bytes, alignment));
    size_t unit = alignment > page ? alignment : page;
    void *all = mmap(NULL, bytes + 2 * unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    uintptr_t start = ((uintptr_t)all + unit - 1) / unit * unit;
    if (alignment == 0 && start % options.granule_bytes == 0)
        start += page;
    /* The pages around it stay reserved, so that no other use reuses their addresses. */
    struct reservation *one = calloc(1, sizeof *one);
    if (one == NULL)
        abort();
    *one = (struct reservation){.address = device_of((void *)start), .bytes = bytes, .next = reservations};
    reservations = one;
    *address = one->address;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    BEGIN(cuMemAddressFree);
    struct reservation **at = &reservations;
    while (*at != NULL && ((*at)->address != address || (*at)->bytes != bytes))
        at = &(*at)->next;
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemAddressFree of %zu bytes that are not one reservation", bytes));
    if (mapping_overlaps(address, bytes))
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemAddressFree while something is mapped there"));
    struct reservation *freed = *at;
    *at = freed->next;
    free(freed);
    munmap(host_of(address), bytes);
    END(CUDA_SUCCESS);
}

static CUhandle handle_add(int file, int device, size_t bytes, bool imported, const char *name) {
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL)
        abort();
    *handle = (struct handle){.file = file, .device = device, .bytes = bytes, .imported = imported, .next = handles};
    memcpy(handle->name, name, NAME_BYTES);
    handles = handle;
    return (CUhandle)(uintptr_t)handle;
}

EXPORTED CUresult cuMemCreate(CUhandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                              unsigned long long flags) {
    BEGIN(cuMemCreate);
    char name[NAME_BYTES];
    int file;
    CUresult code = check_properties(properties);
    if (code != CUDA_SUCCESS)
        END(code);
    if (flags != 0 || bytes == 0 || bytes % options.granule_bytes != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemCreate of %zu bytes with flags %llu", bytes, flags));
    code = account_take(properties->location.id, bytes, &file, name);
    if (code == CUDA_SUCCESS)
        *handle = handle_add(file, properties->location.id, bytes, false, name);
    END(code);
}

/* Allowed while the memory is mapped: the mappings keep it. */
EXPORTED CUresult cuMemRelease(CUhandle value) {
    BEGIN(cuMemRelease);
    struct handle **at = &handles;
    while (*at != NULL && (CUhandle)(uintptr_t)*at != value)
        at = &(*at)->next;
    if (*at == NULL)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemRelease of an invalid handle"));
    struct handle *released = *at;
    *at = released->next;
    close(released->file);
    account_left(released->name);
    free(released);
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemExportToShareableHandle(void *into, CUhandle value, int type, unsigned long long flags) {
    BEGIN(cuMemExportToShareableHandle);
    struct handle *handle = handle_of(value);
    if (handle == NULL || type != HANDLE_POSIX_DESCRIPTOR || flags != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemExportToShareableHandle: handle %d, type %d", handle != NULL, type));
    /* Without FD_CLOEXEC: the documentation does not promise it. */
    int file = dup(handle->file);
    if (file < 0)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    *(int *)into = file;
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemImportFromShareableHandle(CUhandle *handle, void *from, int type) {
    BEGIN(cuMemImportFromShareableHandle);
    int own, device;
    size_t bytes;
    char name[NAME_BYTES];
    if (type != HANDLE_POSIX_DESCRIPTOR)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemImportFromShareableHandle of type %d", type));
    if (!account_adopt((int)(intptr_t)from, &own, &device, &bytes, name))
        END(CUDA_ERROR_INVALID_VALUE);
    *handle = handle_add(own, device, bytes, true, name);
    END(CUDA_SUCCESS);
}

static bool reserved(CUdeviceptr address, size_t bytes) {
    for (struct reservation *one = reservations; one != NULL; one = one->next)
        if (address >= one->address && bytes <= one->bytes && address - one->address <= one->bytes - bytes)
            return true;
    return false;
}

EXPORTED CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUhandle value, unsigned long long flags) {
    BEGIN(cuMemMap);
    struct handle *handle = handle_of(value);
    size_t granule = options.granule_bytes;
    if (handle == NULL || offset != 0 || flags != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemMap: handle %d, offset %zu, flags %llu", handle != NULL, offset, flags));
    if (address % granule != 0 || bytes == 0 || bytes % granule != 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemMap of %zu bytes at %#llx: no multiples of the granule", bytes,
                   (unsigned long long)address));
    /* Imported memory may be shorter than announced. */
    if (bytes > handle->bytes)
        END(handle->imported ? CUDA_ERROR_INVALID_VALUE : misuse(CUDA_ERROR_INVALID_VALUE, "cuMemMap of more bytes than the handle has"));
    if (options.exact_size && bytes < handle->bytes)
        END(handle->imported ? CUDA_ERROR_INVALID_VALUE : misuse(CUDA_ERROR_INVALID_VALUE, "cuMemMap of fewer bytes than the handle has"));
    if (!reserved(address, bytes) || mapping_overlaps(address, bytes))
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemMap where nothing is reserved, or something is mapped"));
    void *at = mmap(host_of(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->file, 0);
    if (at == MAP_FAILED)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    mapping_add(address, bytes, handle->device, true, handle->name);
    usleep((useconds_t)options.map_ms * 1000);
    END(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    BEGIN(cuMemUnmap);
    struct mapping *mapping = mapping_at(address, bytes);
    if (mapping == NULL || !mapping->virtual || mapping->address != address || mapping->bytes != bytes)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemUnmap of %zu bytes that no call mapped", bytes));
    if (work_touches_device(address, bytes))
        misuse(0, "cuMemUnmap while copies to it are under way");
    char name[NAME_BYTES];
    memcpy(name, mapping->name, NAME_BYTES);
    mapping_remove(mapping);
    void *at = mmap(host_of(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    account_left(name);
    END(at == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

static CUresult check_access(const struct mapping *mapping, const CUmemAccessDesc *access) {
    int flags = access->flags;
    if (access->location.type != LOCATION_DEVICE || (flags != ACCESS_NONE && flags != ACCESS_READ && flags != ACCESS_READ_WRITE))
        return misuse(CUDA_ERROR_INVALID_VALUE, "cuMemSetAccess: type %d, flags %d", access->location.type, flags);
    if (!device_exists(access->location.id))
        return misuse(CUDA_ERROR_INVALID_DEVICE, "cuMemSetAccess for device %d", access->location.id);
    if (access->location.id != mapping->device && !options.peer_access)
        return CUDA_ERROR_INVALID_DEVICE;
    return flags == ACCESS_READ && !options.read_only_access ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

EXPORTED CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t number) {
    BEGIN(cuMemSetAccess);
    struct mapping *mapping = mapping_at(address, bytes);
    if (mapping == NULL || !mapping->virtual || mapping->address != address || mapping->bytes != bytes)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemSetAccess of %zu bytes that are not one mapping", bytes));
    if (access == NULL || number == 0)
        END(misuse(CUDA_ERROR_INVALID_VALUE, "cuMemSetAccess without a description"));
    for (size_t at = 0; at < number; at++) {
        CUresult code = check_access(mapping, &access[at]);
        if (code != CUDA_SUCCESS)
            END(code);
        mapping->access[access[at].location.id] = access[at].flags;
    }
    /* The process may do what one of the devices may. */
    int most = ACCESS_NONE;
    for (int device = 0; device < MAX_DEVICES; device++)
        most = mapping->access[device] > most ? mapping->access[device] : most;
    int protection = most == ACCESS_READ_WRITE ? PROT_READ | PROT_WRITE : most == ACCESS_READ ? PROT_READ : PROT_NONE;
    END(mprotect(host_of(address), bytes, protection) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

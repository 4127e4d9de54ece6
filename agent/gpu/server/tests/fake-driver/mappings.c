/* Mappings by device address, and the addresses themselves. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static struct mapping *mappings;

/* No address of a process: the processor refuses it, or the kernel gives it only to a program that asks for it. */
static const CUdeviceptr DISTANCE = (CUdeviceptr)1 << 50;

void *host_of(CUdeviceptr address) { return (void *)(uintptr_t)(options.device_addresses ? address - DISTANCE : address); }

CUdeviceptr device_of(const void *host) { return (CUdeviceptr)(uintptr_t)host + (options.device_addresses ? DISTANCE : 0); }

struct mapping *mapping_add(CUdeviceptr address, size_t bytes, int device, bool virtual, const char *name) {
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        abort();
    *mapping = (struct mapping){.address = address, .bytes = bytes, .device = device, .virtual = virtual, .next = mappings};
    memcpy(mapping->name, name, NAME_BYTES);
    mappings = mapping;
    return mapping;
}

struct mapping *mapping_at(CUdeviceptr address, size_t bytes) {
    for (struct mapping *mapping = mappings; mapping != NULL; mapping = mapping->next) {
        bool begins = address >= mapping->address && address < mapping->address + mapping->bytes;
        if (begins && bytes <= mapping->bytes - (address - mapping->address))
            return mapping;
    }
    return NULL;
}

bool mapping_overlaps(CUdeviceptr address, size_t bytes) {
    for (struct mapping *mapping = mappings; mapping != NULL; mapping = mapping->next)
        if (address < mapping->address + mapping->bytes && mapping->address < address + bytes)
            return true;
    return false;
}

void mapping_remove(struct mapping *mapping) {
    struct mapping **at = &mappings;
    while (*at != mapping)
        at = &(*at)->next;
    *at = mapping->next;
    free(mapping);
}

int mappings_virtual(void) {
    int live = 0;
    for (struct mapping *mapping = mappings; mapping != NULL; mapping = mapping->next)
        live += mapping->virtual;
    return live;
}

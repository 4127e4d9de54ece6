/* Device memory across processes.
 *
 * An allocation is a file in the shared directory, with a shared lock on its open description.
 * Passed descriptors and mappings keep the description, and with it the lock, until the last of
 * them is gone, also when a process is killed. A file that can be locked exclusively is memory
 * without a holder. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

/* Names are mem.DEVICE.PROCESS.NUMBER; after account_close_to_others they begin with `old`. */
static bool is_memory(const char *name, int *device) {
    int at = 0;
    bool known = strncmp(name, "mem.", 4) == 0 || strncmp(name, "old.", 4) == 0;
    return known && sscanf(name + 4, "%d.%n", device, &at) == 1 && at > 0;
}

static void path_of(char path[4096], const char *name) { snprintf(path, 4096, "%s/%s", options.state, name); }

/* Serializes changes and counts of all processes. */
static int one_process(void) {
    char path[4096];
    path_of(path, "lock");
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock >= 0)
        flock(lock, LOCK_EX);
    return lock;
}

static size_t bytes_held(const char *path) {
    struct stat status;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return 0;
    bool nobody = flock(file, LOCK_EX | LOCK_NB) == 0;
    size_t bytes = !nobody && fstat(file, &status) == 0 ? (size_t)status.st_size : 0;
    if (nobody)
        unlink(path);
    close(file);
    return bytes;
}

static size_t count(int device) {
    size_t used = 0;
    DIR *directory = opendir(options.state);
    if (directory == NULL)
        return options.memory_bytes;
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char path[4096];
        int of;
        if (!is_memory(entry->d_name, &of) || of != device)
            continue;
        path_of(path, entry->d_name);
        used += bytes_held(path);
    }
    closedir(directory);
    return used;
}

size_t account_used(int device) {
    int lock = one_process();
    size_t used = count(device);
    close(lock);
    return used;
}

/* Unwritten memory has undefined content: not even zeros. */
static void spoil(int file, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64 << 10) {
        ssize_t written = pwrite(file, "undefined", 9, (off_t)at);
        (void)written;
    }
}

static CUresult create(int device, size_t bytes, int *file, char name[NAME_BYTES]) {
    static unsigned number;
    char path[4096];
    if (count(device) + bytes > options.memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(name, NAME_BYTES, "mem.%d.%d.%u", device, (int)getpid(), ++number);
    path_of(path, name);
    *file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*file < 0)
        return misuse(CUDA_ERROR_OUT_OF_MEMORY, "cannot create %s", path);
    if (flock(*file, LOCK_SH) != 0 || ftruncate(*file, (off_t)bytes) != 0)
        return misuse(CUDA_ERROR_OUT_OF_MEMORY, "cannot lock and extend %s", path);
    spoil(*file, bytes);
    return CUDA_SUCCESS;
}

CUresult account_take(int device, size_t bytes, int *file, char name[NAME_BYTES]) {
    int lock = one_process();
    CUresult code = create(device, bytes, file, name);
    close(lock);
    return code;
}

bool account_adopt(int file, int *own, int *device, size_t *bytes) {
    char link[64], path[4096];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    size_t prefix = strlen(options.state);
    bool ours = name != NULL && (size_t)(name - path) == prefix && strncmp(path, options.state, prefix) == 0;
    if (!ours || !is_memory(name + 1, device) || fstat(file, &status) != 0)
        return false;
    *bytes = (size_t)status.st_size;
    /* The caller keeps its own descriptor. */
    *own = fcntl(file, F_DUPFD_CLOEXEC, 0);
    return *own >= 0;
}

bool account_open(const char *name, int *own, int *device, size_t *bytes) {
    char path[4096];
    struct stat status;
    if (strncmp(name, "mem.", 4) != 0 || strchr(name, '/') != NULL || !is_memory(name, device))
        return false;
    path_of(path, name);
    int lock = one_process();
    /* Memory without a holder no longer exists. */
    bool held = bytes_held(path) > 0;
    *own = held ? open(path, O_RDWR | O_CLOEXEC) : -1;
    bool there = *own >= 0 && flock(*own, LOCK_SH | LOCK_NB) == 0 && fstat(*own, &status) == 0;
    close(lock);
    *bytes = there ? (size_t)status.st_size : 0;
    return there;
}

void account_close_to_others(const char *name) {
    char path[4096], old[NAME_BYTES], to[4096];
    snprintf(old, sizeof old, "old%s", name + 3);
    path_of(path, name);
    path_of(to, old);
    int lock = one_process();
    rename(path, to);
    close(lock);
}

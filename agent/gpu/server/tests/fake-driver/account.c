/* Device memory across processes.
 *
 * An allocation is a file in the shared directory, with a shared lock on its open description.
 * Passed descriptors and mappings keep the description, and with it the lock, until the last of
 * them is gone, also when a process is killed. A file that can be locked exclusively is memory
 * without a holder. With an option it counts for a while longer: its time of change is then the end. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

/* Names are mem.DEVICE.PROCESS.NUMBER; after account_close_to_others they begin with `old`, and without a holder with `end`. */
static bool is_memory(const char *name, int *device) {
    int at = 0;
    bool known = strncmp(name, "mem.", 4) == 0 || strncmp(name, "old.", 4) == 0 || strncmp(name, "end.", 4) == 0;
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

/* The moment some milliseconds from now, as both times of a file. */
static void after(struct timespec times[2], long ms) {
    clock_gettime(CLOCK_REALTIME, &times[1]);
    times[1].tv_sec += ms / 1000;
    times[1].tv_nsec += ms % 1000 * 1000000;
    if (times[1].tv_nsec >= 1000000000) {
        times[1].tv_sec++;
        times[1].tv_nsec -= 1000000000;
    }
    times[0] = times[1];
}

/* Gives the memory back, after a time during which it counts. */
static void end(const char *path, const char *name, long after_ms) {
    char to[4096];
    struct timespec times[2];
    if (after_ms <= 0) {
        unlink(path);
        return;
    }
    after(times, after_ms);
    utimensat(AT_FDCWD, path, times, 0);
    snprintf(to, sizeof to, "%s/end%s", options.state, name + 3);
    rename(path, to);
}

/* Milliseconds until then, at least 0. */
static long until_ms(const struct timespec *moment) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long ms = (moment->tv_sec - now.tv_sec) * 1000 + (moment->tv_nsec - now.tv_nsec) / 1000000;
    return ms > 0 ? ms : 0;
}

/* Number of bytes that count. Memory without a holder begins its end, which a call of its last holder made or a death. */
static size_t bytes_held(const char *path, const char *name, long end_ms) {
    struct stat status;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return 0;
    size_t bytes = fstat(file, &status) == 0 ? (size_t)status.st_size : 0;
    bool ending = strncmp(name, "end.", 4) == 0;
    if (ending && until_ms(&status.st_mtim) == 0) {
        unlink(path);
        bytes = 0;
    } else if (!ending && flock(file, LOCK_EX | LOCK_NB) == 0) {
        end(path, name, end_ms);
        bytes = end_ms > 0 ? bytes : 0;
    }
    close(file);
    return bytes;
}

/* Memory that other programs use: an option, or a file that a test writes. */
static size_t others(int device) {
    char path[4096];
    long mib;
    snprintf(path, sizeof path, "%s/others.%d", options.state, device);
    FILE *file = fopen(path, "re");
    bool told = file != NULL && fscanf(file, "%ld", &mib) == 1;
    if (file != NULL)
        fclose(file);
    return told ? (size_t)mib << 20 : options.others_bytes;
}

/* A process with a driver locks a file of its number, where deaths count. */
static int mark = -1;

static void mark_path(char path[4096], int process) { snprintf(path, 4096, "%s/process.%d", options.state, process); }

void account_begin(void) {
    char path[4096];
    if (options.death_ms <= 0 || mark >= 0)
        return;
    mark_path(path, (int)getpid());
    int lock = one_process();
    mark = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (mark >= 0)
        flock(mark, LOCK_EX);
    close(lock);
}

/* The driver ends with the process: nothing of it is left. */
void account_end(void) {
    char path[4096];
    if (mark < 0)
        return;
    mark_path(path, (int)getpid());
    unlink(path);
    close(mark);
    mark = -1;
}

/* Milliseconds for which a death of this file's process counts. */
static long death_of(const char *path, const char *name) {
    struct stat status;
    long ms = 0;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return 0;
    if (name[0] == 'd' && fstat(file, &status) == 0)
        ms = until_ms(&status.st_mtim);
    else if (name[0] == 'p' && flock(file, LOCK_EX | LOCK_NB) == 0)
        ms = options.death_ms;
    if (name[0] == 'p' && ms > 0) {
        char to[4096];
        struct timespec times[2];
        after(times, ms);
        utimensat(AT_FDCWD, path, times, 0);
        snprintf(to, sizeof to, "%s/dead%s", options.state, strchr(name, '.'));
        rename(path, to);
    }
    close(file);
    return ms;
}

/* Milliseconds for which the latest death of a process counts. The driver may still free the memory of that process, and until
 * then nobody gets what it shared. */
static long deaths_ms(void) {
    long most = 0;
    DIR *directory = options.death_ms > 0 ? opendir(options.state) : NULL;
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char path[4096];
        if (strncmp(entry->d_name, "process.", 8) != 0 && strncmp(entry->d_name, "dead.", 5) != 0)
            continue;
        path_of(path, entry->d_name);
        long ms = death_of(path, entry->d_name);
        most = ms > most ? ms : most;
    }
    if (directory != NULL)
        closedir(directory);
    return most;
}

/* Ends that begin while the folder is read would count twice, so they are counted apart. */
static size_t count_those(int device, bool ending) {
    size_t used = 0;
    DIR *directory = opendir(options.state);
    if (directory == NULL)
        return options.memory_bytes;
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char path[4096];
        int of;
        if (!is_memory(entry->d_name, &of) || of != device || (entry->d_name[0] == 'e') != ending)
            continue;
        path_of(path, entry->d_name);
        used += bytes_held(path, entry->d_name, options.death_ms);
    }
    closedir(directory);
    return used;
}

static size_t count(int device) {
    deaths_ms();
    return others(device) + count_those(device, true) + count_those(device, false);
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
    return CUDA_SUCCESS;
}

CUresult account_take_unused(int device, size_t bytes, int *file, char name[NAME_BYTES]) {
    int lock = one_process();
    CUresult code = create(device, bytes, file, name);
    close(lock);
    return code;
}

CUresult account_take(int device, size_t bytes, int *file, char name[NAME_BYTES]) {
    CUresult code = account_take_unused(device, bytes, file, name);
    if (code == CUDA_SUCCESS)
        spoil(*file, bytes);
    return code;
}

void account_left(const char *name) {
    char path[4096], old[NAME_BYTES];
    int lock = one_process();
    long death_ms = deaths_ms(), end_ms = options.release_ms > death_ms ? options.release_ms : death_ms;
    path_of(path, name);
    bytes_held(path, name, end_ms);
    snprintf(old, sizeof old, "old%s", name + 3);
    path_of(path, old);
    bytes_held(path, old, end_ms);
    close(lock);
}

bool account_adopt(int file, int *own, int *device, size_t *bytes, char adopted[NAME_BYTES]) {
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
    snprintf(adopted, NAME_BYTES, "%s", name + 1);
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
    /* Memory without a holder no longer exists, also while it counts. */
    bool held = bytes_held(path, name, options.death_ms) > 0;
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

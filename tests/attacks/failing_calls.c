// Calls of the system that fail once: preloaded, armed and asked by failing_calls.py.
//
// Of calls of the kind that is armed, on files below one folder, the one with a number fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, OPEN, WRITE, RENAME, SYNC };
static int kind, number, code, seen[5];
static char folder[4096], failed[4096];

void arm_calls(const char *below, int of, int which, int error) {
    snprintf(folder, sizeof folder, "%s/", below);
    kind = of, number = which, code = error, failed[0] = 0;
    memset(seen, 0, sizeof seen);
}
int count_calls(int of) { return seen[of]; }
const char *failed_path(void) { return failed; }

static int fails(int of, const char *path) {
    if (!folder[0] || (path[0] == '/' && strncmp(path, folder, strlen(folder)))) return 0;
    if (++seen[of] != number || of != kind) return 0;
    snprintf(failed, sizeof failed, "%s", path);
    errno = code;
    return 1;
}
static int fails_of(int of, int file) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = 0;
    return path[0] == '/' && fails(of, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OPENS(name)                                      \
    int name(const char *path, int flags, ...) {         \
        va_list more;                                    \
        va_start(more, flags);                           \
        int mode = va_arg(more, int);                    \
        va_end(more);                                    \
        return fails(OPEN, path) ? -1 : NEXT(name)(path, flags, mode); \
    }
#define OPENS_AT(name)                                         \
    int name(int at, const char *path, int flags, ...) {       \
        va_list more;                                          \
        va_start(more, flags);                                 \
        int mode = va_arg(more, int);                          \
        va_end(more);                                          \
        return fails(OPEN, path) ? -1 : NEXT(name)(at, path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
FILE *fopen(const char *path, const char *mode) { return fails(OPEN, path) ? NULL : NEXT(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return fails(OPEN, path) ? NULL : NEXT(fopen64)(path, mode); }
ssize_t write(int file, const void *from, size_t size) {
    return fails_of(WRITE, file) ? -1 : NEXT(write)(file, from, size);
}
ssize_t writev(int file, const struct iovec *from, int count) {
    return fails_of(WRITE, file) ? -1 : NEXT(writev)(file, from, count);
}
ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
    return fails_of(WRITE, file) ? -1 : NEXT(pwrite64)(file, from, size, at);
}
int rename(const char *from, const char *to) { return fails(RENAME, to) ? -1 : NEXT(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
    return fails(RENAME, to) ? -1 : NEXT(renameat)(a, from, b, to);
}
int fsync(int file) { return fails_of(SYNC, file) ? -1 : NEXT(fsync)(file); }
int fdatasync(int file) { return fails_of(SYNC, file) ? -1 : NEXT(fdatasync)(file); }

// Preloaded before the C library. With HANG=CALL:PATH:FLAG, each CALL (pread, write or fsync) on a
// file whose path contains PATH never returns once the file FLAG exists, and creates FLAG.hung. If
// HANG_RANK is set, this happens only on that rank under mpirun.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char call_[16];
static char path_[200];
static char flag_[400];
static char hung_[408];

__attribute__((constructor)) static void read_plan(void) {
  const char* plan = getenv("HANG");
  const char* wanted = getenv("HANG_RANK");
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (plan == NULL || (wanted != NULL && rank != NULL && strcmp(wanted, rank) != 0)) return;
  if (sscanf(plan, "%15[^:]:%199[^:]:%399[^:]", call_, path_, flag_) != 3) abort();
  snprintf(hung_, sizeof hung_, "%s.hung", flag_);
}

static void hang_where_planned(const char* call, int descriptor) {
  char link[64];
  char target[1024];
  ssize_t length = 0;
  if (flag_[0] == 0 || strcmp(call, call_) != 0) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return;
  target[length] = 0;
  if (strstr(target, path_) == NULL || access(flag_, F_OK) != 0) return;
  close(open(hung_, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  for (;;) sleep(1000);
}

ssize_t pread(int descriptor, void* to, size_t size, off_t at) {
  static ssize_t (*real)(int, void*, size_t, off_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "pread");
  hang_where_planned("pread", descriptor);
  return real(descriptor, to, size, at);
}

ssize_t pread64(int descriptor, void* to, size_t size, off64_t at) { return pread(descriptor, to, size, at); }

ssize_t preadv(int descriptor, const struct iovec* to, int count, off_t at) {
  static ssize_t (*real)(int, const struct iovec*, int, off_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "preadv");
  hang_where_planned("pread", descriptor);
  return real(descriptor, to, count, at);
}

ssize_t preadv64(int descriptor, const struct iovec* to, int count, off64_t at) {
  return preadv(descriptor, to, count, at);
}

ssize_t write(int descriptor, const void* from, size_t size) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "write");
  hang_where_planned("write", descriptor);
  return real(descriptor, from, size);
}

int fsync(int descriptor) {
  static int (*real)(int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "fsync");
  hang_where_planned("fsync", descriptor);
  return real(descriptor);
}

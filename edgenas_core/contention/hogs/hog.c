/* A hog of the CPU's memory: one store to each line of a large array, again and again, as the
 * synthetic traffic generator of Nigam (2018), algorithm 2, under a budget of lines a period, as its
 * regulator, algorithm 3. The budget is kept by the hog itself: no counters of the processor needed.
 *
 * Usage: hog FILE HOG BYTES CORE PARENT
 *   FILE    descriptor of the control page (control_page.py says what lies where)
 *   HOG     its number there
 *   BYTES   of the array: several times the last cache for a hog, less than the first for a spinner
 *   CORE    to run on, or -1
 *   PARENT  process that it must not outlive
 * It says "ready" when the array is there, and ends with its parent: by the kernel's signal and when
 * its standard input is closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, CELL = 8, PAGE = 4096, CHUNK = 64, CHUNKS_A_LOOK = 8 };

static void *end_with_parent(void *unused) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) != 0) {
    }
    _exit(0);
    return unused;
}

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

static void sleep_until(int64_t ns) {
    struct timespec at = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

static double real_at(const uint64_t *word) {
    uint64_t bits = __atomic_load_n(word, __ATOMIC_RELAXED);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        puts("usage: hog FILE HOG BYTES CORE PARENT");
        return 2;
    }
    int file = atoi(argv[1]), hog = atoi(argv[2]), core = atoi(argv[4]);
    size_t bytes = strtoull(argv[3], NULL, 10), lines = bytes / LINE;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    if (getppid() != atoi(argv[5])) return 1; /* it died before the line above */
    signal(SIGINT, SIG_IGN);                  /* Ctrl-C reaches all; the parent decides */
    if (core >= 0) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(core, &cores);
        if (sched_setaffinity(0, sizeof cores, &cores) != 0) {
            printf("core %d: %s\n", core, strerror(errno));
            return 1;
        }
    }
    uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || array == MAP_FAILED) {
        printf("%zu bytes of memory: %s\n", bytes, strerror(errno));
        return 1;
    }
    madvise(array, bytes, MADV_HUGEPAGE); /* or a third of the time goes into finding pages; may be refused */
    memset(array, 1, bytes);
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, end_with_parent, NULL) != 0) return 1;
    puts("ready");
    fflush(stdout);

    const uint64_t *lock = page, *told = page + (1 + 2 * hog) * CELL;
    uint64_t *moved = page + (2 + 2 * hog) * CELL;
    uint64_t total = 0;
    size_t place = 0;
    double rest = 0; /* of a line, from period to period */
    int64_t end = now_ns();
    for (;;) {
        int64_t period = (int64_t)real_at(told + 2), now = now_ns();
        if (period < 1) period = 1000000;
        end += period;
        if (end <= now) end = now + period; /* a slow memory owes nothing */
        double used = 0, budget = 0;
        for (unsigned look = 0;; look++) {
            int locked = __atomic_load_n(lock, __ATOMIC_RELAXED) != 0;
            budget = real_at(told + locked) + rest;
            double left = floor(budget) - used;
            if (left < 1) {
                sleep_until(end);
                break;
            }
            size_t count = left < CHUNK ? (size_t)left : CHUNK;
            for (size_t i = 0; i < count; i++) {
                *(volatile int *)(array + place * LINE) = (int)i;
                if (++place == lines) place = 0;
            }
            used += (double)count;
            total += count * LINE;
            __atomic_store_n(moved, total, __ATOMIC_RELAXED);
            if (look % CHUNKS_A_LOOK == 0 && now_ns() >= end) break;
        }
        rest = isfinite(budget) ? budget - floor(budget) : 0;
    }
}

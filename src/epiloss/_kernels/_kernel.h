/* Shared by all C files: build attributes of functions, and access to columns. */
#ifndef EPILOSS_KERNEL_H
#define EPILOSS_KERNEL_H

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#if defined(__GNUC__)
#define PREFETCH(place) __builtin_prefetch(place)
#else
#define PREFETCH(place) ((void)(place))
#endif
/* Vectorised versions for processors that support them. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

#define CODES 64       /* number of one-byte codes of a column: 0..62 in the order of its values */
#define MISSING 63     /* code of missing values */
#define RARE 62        /* code of all rare categories */
#define AHEAD 16       /* number of rows by which memory is prefetched */
#define LINE 64        /* bytes of a cache line */

enum { NUMBER = 0, CATEGORY = 1 };

/* A feature column: its first value, the bytes from row to row, and whether it is double. */
typedef struct {
    const char *first;
    int64_t stride;
    int64_t is_double;
} Column;

/* Return the bytes of a row if its columns are adjacent in memory and have one type, else 0. */
static inline int64_t width_of(const Column *columns, int64_t n) {
    const int64_t size = columns[0].is_double ? sizeof(double) : sizeof(float);
    for (int64_t j = 1; j < n; j++)
        if (columns[j].is_double != columns[0].is_double || columns[j].stride != columns[0].stride ||
            columns[j].first != columns[0].first + j * size)
            return 0;
    return n * size;
}

/* Prefetch a number of bytes. */
static inline void ask_for(const char *place, int64_t bytes) {
    for (int64_t byte = 0; byte < bytes; byte += LINE) PREFETCH(place + byte);
}

#endif

/* Encoding of features as one-byte codes, and the definition of the extension module.
 *
 * reference.py is the NumPy version, with identical results. The caller checks all arrays; this code
 * neither allocates memory nor uses Python objects.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define EDGES 63
#define CHUNK 64       /* rows that are encoded together */
#define BLOCK 32       /* columns that are encoded together */
#define PAD 16         /* keeps neighbouring columns from sharing cache lines */
#define LANES 32       /* values that are compared together */
#define TOGETHER 16    /* rows whose values are gathered together */

/* code = the number of edges below the value. The value is compared with every fourth edge, and then
 * with two edges in between. This is faster than a binary search, because the comparisons are
 * independent of each other and are vectorised. */
#define SEARCH(NAME, REAL, INTEGER)                                                          \
    WIDE static void NAME(const REAL *restrict values, const REAL *restrict edges,          \
                          uint8_t *restrict codes) {                                        \
        for (int start = 0; start < CHUNK; start += LANES) {                                \
            const REAL *x = values + start;                                                 \
            INTEGER fours[LANES] = {0};                                                     \
            for (int e = 3; e < EDGES; e += 4)                                              \
                for (int i = 0; i < LANES; i++) fours[i] += edges[e] < x[i];                \
            for (int i = 0; i < LANES; i++) {                                               \
                int below = 4 * (int)fours[i];                                              \
                below += (edges[below + 1] < x[i]) * 2;                                     \
                below += edges[below] < x[i];                                               \
                codes[start + i] = (uint8_t)(x[i] != x[i] ? MISSING : below);               \
            }                                                                               \
        }                                                                                   \
    }

SEARCH(search_float, float, int32_t)
SEARCH(search_double, double, int64_t)

typedef struct {
    float floats[BLOCK][CHUNK + PAD];
    double doubles[BLOCK][CHUNK + PAD];
} Tile;

/* Copy `size` of the n rows of up to BLOCK columns, such that each column is contiguous: with the stride
 * of a wide matrix, values would evict each other from the cache. Rows are far apart in memory, and are
 * therefore prefetched. */
static void fill(Tile *tile, const Column *columns, int64_t width, const int64_t *rows, int64_t size,
                 int64_t n) {
    const int64_t bytes = width_of(columns, width), stride = columns[0].stride;
    for (int64_t i = 0; bytes && i < size; i++) {
        const char *row = columns[0].first + rows[i] * stride;
        if (i + AHEAD < n) ask_for(columns[0].first + rows[i + AHEAD] * stride, bytes);
        if (columns[0].is_double)
            for (int64_t j = 0; j < width; j++) tile->doubles[j][i] = ((const double *)row)[j];
        else
            for (int64_t j = 0; j < width; j++) tile->floats[j][i] = ((const float *)row)[j];
    }
    for (int64_t j = 0; !bytes && j < width; j++)
        for (int64_t i = 0; i < size; i++) {
            const char *place = columns[j].first + rows[i] * columns[j].stride;
            if (columns[j].is_double)
                tile->doubles[j][i] = *(const double *)place;
            else
                tile->floats[j][i] = *(const float *)place;
        }
}

/* Encode n rows of one level set. edges: (columns, 63), in the type of each column; codes: the codes of
 * the rows in the first column; those in the next column follow after stride bytes. */
static void encode_level_set(const Column *columns, int64_t n_columns, const int64_t *rows, int64_t n,
                             const float *float_edges, const double *double_edges, uint8_t *codes,
                             int64_t stride, Tile *tile) {
    uint8_t found[CHUNK];
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t size = n - start < CHUNK ? n - start : CHUNK;
        for (int64_t block = 0; block < n_columns; block += BLOCK) {
            const int64_t width = n_columns - block < BLOCK ? n_columns - block : BLOCK;
            fill(tile, columns + block, width, rows + start, size, n - start);
            for (int64_t j = 0; j < width; j++) {
                if (columns[block + j].is_double)
                    search_double(tile->doubles[j], double_edges + (block + j) * EDGES, found);
                else
                    search_float(tile->floats[j], float_edges + (block + j) * EDGES, found);
                memcpy(codes + (block + j) * stride + start, found, (size_t)size);
            }
        }
    }
}

/* Encode rows; those of level set s start at starts[s]. edges: (level sets, columns, 63). */
EXPORT void epiloss_encode(const Column *columns, int64_t n_columns, const int64_t *rows,
                           const int64_t *starts, int64_t n_level_sets, const float *float_edges,
                           const double *double_edges, uint8_t *codes, int64_t stride) {
    Tile tile;
    memset(&tile, 0, sizeof tile);
    for (int64_t s = 0; s < n_level_sets; s++) {
        const int64_t before = s * n_columns * EDGES;
        encode_level_set(columns, n_columns, rows + starts[s], starts[s + 1] - starts[s],
                         float_edges + before, double_edges + before, codes + starts[s], stride, &tile);
    }
}

/* Copy the values of a block's rows to gathered (samples, columns, most); the rows of sample s start at
 * starts[s]. Samples of fewer rows than most are padded with NaN. Several rows are read together, such
 * that the values written are contiguous. */
#define GATHER(NAME, REAL)                                                                   \
    static void NAME(const char *block, int64_t row_stride, int64_t column_stride,           \
                     int64_t n_columns, const int64_t *rows, int64_t n, int64_t most,        \
                     REAL *gathered) {                                                       \
        const REAL missing = NAN;                                                            \
        for (int64_t start = 0; start < most; start += TOGETHER) {                           \
            const int64_t size = most - start < TOGETHER ? most - start : TOGETHER;          \
            const char *from[TOGETHER];                                                      \
            int64_t step[TOGETHER];                                                          \
            for (int64_t i = 0; i < size; i++) {                                             \
                const int is_row = start + i < n;                                            \
                from[i] = is_row ? block + rows[start + i] * row_stride : (const char *)&missing; \
                step[i] = is_row ? column_stride : 0;                                        \
            }                                                                                \
            for (int64_t j = 0; j < n_columns; j++)                                          \
                for (int64_t i = 0; i < size; i++)                                           \
                    gathered[j * most + start + i] = *(const REAL *)(from[i] + j * step[i]); \
        }                                                                                    \
    }

GATHER(gather_floats, float)
GATHER(gather_doubles, double)

EXPORT void epiloss_gather(const char *block, int64_t row_stride, int64_t column_stride,
                           int64_t n_columns, int64_t is_double, const int64_t *rows,
                           const int64_t *starts, int64_t n_samples, int64_t most, void *gathered) {
    for (int64_t s = 0; s < n_samples; s++) {
        const int64_t *own = rows + starts[s], n = starts[s + 1] - starts[s];
        const int64_t before = s * n_columns * most;
        if (is_double)
            gather_doubles(block, row_stride, column_stride, n_columns, own, n, most,
                           (double *)gathered + before);
        else
            gather_floats(block, row_stride, column_stride, n_columns, own, n, most,
                          (float *)gathered + before);
    }
}

/* Write the quantile edges of n >= 2 sorted values, padded with infinity; few distinct values have an
 * edge between any two of them. An edge is the midpoint of two values in their type, or the lower value
 * if no number lies between. */
#define EDGES_AMONG(NAME, REAL)                                                              \
    static inline double NAME##_between(const REAL *values, int64_t place) {                 \
        const REAL low = values[place - 1], high = values[place], middle = low / 2 + high / 2; \
        return low <= middle && middle < high ? middle : low;                               \
    }                                                                                       \
    static void NAME(const REAL *values, int64_t n, double *edges) {                        \
        int64_t present = n, n_rises = 0;                                                   \
        while (present > 0 && values[present - 1] != values[present - 1]) present--;        \
        int repeated = present < EDGES;                                                     \
        for (int64_t e = 0; e < EDGES - 1; e++) {                                           \
            const int64_t place = (e + 1) * present / EDGES;                                \
            edges[e] = NAME##_between(values, place > 1 ? place : 1);                       \
            repeated |= e > 0 && !(edges[e] > edges[e - 1]);                                \
        }                                                                                   \
        edges[EDGES - 1] = INFINITY;                                                        \
        if (!repeated) return;                                                              \
        for (int64_t i = 1; i < present; i++) n_rises += values[i] > values[i - 1];         \
        if (n_rises >= EDGES) return;                                                       \
        int64_t e = 0;                                                                      \
        for (int64_t i = 1; i < present; i++)                                               \
            if (values[i] > values[i - 1]) edges[e++] = NAME##_between(values, i);          \
        while (e < EDGES) edges[e++] = INFINITY;                                            \
    }

EDGES_AMONG(edges_among_floats, float)
EDGES_AMONG(edges_among_doubles, double)

/* Write the edges (columns, 63) of sorted values (columns, n); missing values are last. */
EXPORT void epiloss_edges(const void *values, int64_t is_double, int64_t n_columns, int64_t n,
                          double *edges) {
    for (int64_t j = 0; j < n_columns; j++)
        if (is_double)
            edges_among_doubles((const double *)values + j * n, n, edges + j * EDGES);
        else
            edges_among_floats((const float *)values + j * n, n, edges + j * EDGES);
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "Compiled loops, called through ctypes.", -1,
    NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&definition); }

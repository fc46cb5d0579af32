/* Features as one-byte codes, and the module that all compiled loops are in.
 *
 * numpy_kernel.py says the same in NumPy and gives the same bits. All arrays are checked by the caller;
 * nothing is allocated here, and no Python object is touched.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define EDGES 63
#define CHUNK 64       /* rows and columns that are encoded together */
#define BLOCK 32
#define PAD 16         /* keeps neighbouring columns out of the same lines of the cache */
#define LANES 32

/* code = the number of edges below the value. First every fourth edge is compared with, which beats a
 * binary search, as many comparisons are done at once and none waits for another; then two between. */
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

/* Copy size of the n rows of up to BLOCK columns to where each column lies side by side: read with the
 * stride of a wide matrix they would push each other out of the cache. Rows lie far apart, so that those
 * to come are asked for ahead. */
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

/* Encode n rows of one level set. edges: (columns, 63), read in each column's own type; codes: the
 * rows' place in the first column, stride bytes before that in the next. */
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

/* Encode rows, those of level set s from starts[s] on. edges: (level sets, columns, 63). */
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

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "Compiled loops, called through ctypes.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&definition); }

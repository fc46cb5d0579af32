/* The inner loops that grow the histogram trees: encode, best_splits, split_rows.
 *
 * numpy_kernel.py says the same in NumPy and gives the same bits: sums are integers, and gains are
 * computed by the same floating-point operations in the same order (built with -ffp-contract=off).
 * All arrays are checked by the caller; nothing is allocated here, and no Python object is touched.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define CODES 64       /* one-byte codes of a column: 0..62 in the order of its values, */
#define MISSING 63     /* and one for missing values */
#define RARE 62        /* of a column of categories: all that are too rare for a code */
#define EDGES 63
#define LANES_OF_GAIN 8
#define AT_ONCE 4      /* columns whose codes are counted together */
#define CHUNK 64       /* rows and columns that are encoded together */
#define BLOCK 32
#define PAD 16         /* keeps neighbouring columns out of the same lines of the cache */
#define LANES 32

enum { SQUARED = 0, ENTROPY = 1 };

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

/* The natural logarithm by basic operations only, so that every implementation has the same bits. */
static double plain_log(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752) {
        m = m * 2.0;
        exponent = exponent - 1;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double t = s * s;
    double series = 1.0 / 15.0;
    for (int k = 13; k > 0; k -= 2) series = series * t + 1.0 / (double)k;
    return 2.0 * s * series + (double)exponent * 0.69314718055994531;
}

static double x_log_x(double x) { return x > 0.0 ? x * plain_log(x) : 0.0; }

/* What the two sides explain, up to a constant of the node. */
static double gain_of(int criterion, double left, double left_ones, double right, double right_ones) {
    if (criterion == SQUARED) {
        const double a = left_ones * left_ones * right;
        const double b = right_ones * right_ones * left;
        return (a + b) / (left * right);
    }
    const double a = x_log_x(left_ones) + x_log_x(left - left_ones) - x_log_x(left);
    const double b = x_log_x(right_ones) + x_log_x(right - right_ones) - x_log_x(right);
    return a + b;
}

typedef struct {
    int64_t count;
    int64_t weight;
    int64_t ones;
} Sums;

typedef struct {
    double gain;
    int32_t feature;
    uint8_t code;
    uint8_t missing_left;
} Split;

static inline void consider(Split *best, int criterion, int64_t least, int feature, int code,
                            int missing_left, Sums all, Sums left) {
    const int64_t right_count = all.count - left.count;
    if (left.count < least || right_count < least) return;
    const int64_t right_weight = all.weight - left.weight;
    if (left.weight <= 0 || right_weight <= 0) return;
    const double gain = gain_of(criterion, (double)left.weight, (double)left.ones, (double)right_weight,
                                (double)(all.ones - left.ones));
    if (gain > best->gain) {
        best->gain = gain;
        best->feature = feature;
        best->code = (uint8_t)code;
        best->missing_left = (uint8_t)(missing_left >= 0 ? missing_left : left.count >= right_count);
    }
}

/* bins: per code the count and the ones (high and low half), and for weighted rows their sums */
static inline Sums sums_of(uint64_t packed, const int64_t *weights, int code) {
    Sums one = {(int64_t)(packed >> 32), (int64_t)(packed >> 32), (int64_t)(packed & 0xffffffffu)};
    if (weights) {
        one.weight = weights[2 * code];
        one.ones = weights[2 * code + 1];
    }
    return one;
}

static inline Sums plus(Sums a, Sums b) {
    Sums sum = {a.count + b.count, a.weight + b.weight, a.ones + b.ones};
    return sum;
}

static void scan(Split *best, int criterion, int64_t least, int feature, int kind, Sums all,
                 const uint64_t *bins, const int64_t *weights) {
    if (kind == CATEGORY) {
        for (int code = 0; code < CODES; code++)
            if (bins[code] && code != RARE)
                consider(best, criterion, least, feature, code, code == MISSING, all,
                         sums_of(bins[code], weights, code));
        return;
    }
    const Sums missing = sums_of(bins[MISSING], weights, MISSING);
    Sums left = {0, 0, 0};
    for (int code = 0; code < MISSING; code++) {
        if (!bins[code]) continue; /* the same two sides as before */
        left = plus(left, sums_of(bins[code], weights, code));
        if (all.count - left.count < least) return; /* ever fewer on the right */
        if (!missing.count) {
            consider(best, criterion, least, feature, code, -1, all, left);
        } else {
            consider(best, criterion, least, feature, code, 0, all, left);
            consider(best, criterion, least, feature, code, 1, all, plus(left, missing));
        }
    }
}

/* The same for the plain case (numbers, none missing, no weights, squared loss), many codes at once:
 * those from which on the left side is large enough, and up to which the right side is. */
static inline void scan_plain(Split *best, int64_t least, int feature, Sums all, const uint64_t *bins) {
    int32_t count[CODES], ones[CODES];
    double gain[CODES], most[LANES_OF_GAIN];
    uint64_t sum = 0;
    for (int code = 0; code < CODES; code++) {
        sum += bins[code];
        count[code] = (int32_t)(sum >> 32);
        ones[code] = (int32_t)(sum & 0xffffffffu);
    }
    const int32_t low = (int32_t)least, high = (int32_t)(all.count - least);
    int first = 0, end = 0;
    for (int code = 0; code < CODES; code++) {
        first += count[code] < low;
        end += count[code] <= high;
    }
    if (first >= end) return;
    first -= first % LANES_OF_GAIN;
    const double all_count = (double)all.count, all_ones = (double)all.ones;
    for (int i = 0; i < LANES_OF_GAIN; i++) most[i] = -INFINITY;
    for (int some = first; some < end; some += LANES_OF_GAIN)
        for (int i = 0; i < LANES_OF_GAIN; i++) {
            const int code = some + i;
            const double left = (double)count[code], left_ones = (double)ones[code];
            const double right = all_count - left, right_ones = all_ones - left_ones;
            const double a = left_ones * left_ones * right;
            const double b = right_ones * right_ones * left;
            const double value = (a + b) / (left * right);
            gain[code] = (count[code] >= low) & (count[code] <= high) ? value : -INFINITY;
            most[i] = gain[code] > most[i] ? gain[code] : most[i];
        }
    double top = most[0];
    for (int i = 1; i < LANES_OF_GAIN; i++) top = most[i] > top ? most[i] : top;
    if (!(top > best->gain)) return;
    int code = first;
    while (gain[code] != top) code++;
    *best = (Split){top, feature, (uint8_t)code, count[code] >= all.count - count[code]};
}

/* Count the rows (high half) and the ones (low half) of each code, in four columns at a time: what they
 * share is read once, and no sum waits for the one before. */
static inline void add_up(uint64_t bins[AT_ONCE][CODES], const uint8_t *codes, int64_t stride,
                          int64_t width, const int32_t *rows, const uint8_t *labels, int64_t n) {
    const uint64_t one = (uint64_t)1 << 32;
    if (width == AT_ONCE) {
        const uint8_t *a = codes, *b = a + stride, *c = b + stride, *d = c + stride;
        for (int64_t i = 0; i < n; i++) {
            const int32_t row = rows[i];
            const uint64_t packed = one + labels[i];
            bins[0][a[row]] += packed;
            bins[1][b[row]] += packed;
            bins[2][c[row]] += packed;
            bins[3][d[row]] += packed;
        }
        return;
    }
    for (int64_t j = 0; j < width; j++)
        for (int64_t i = 0; i < n; i++) bins[j][codes[j * stride + rows[i]]] += one + labels[i];
}

static void add_up_weighted(int64_t *bins, const uint8_t *column, const int32_t *rows,
                            const uint8_t *labels, const int64_t *weights, int64_t n) {
    memset(bins, 0, 2 * CODES * sizeof *bins);
    for (int64_t i = 0; i < n; i++) {
        int64_t *bin = bins + 2 * column[rows[i]];
        bin[0] += weights[i];
        bin[1] += labels[i] ? weights[i] : 0;
    }
}

/* Find the best split of each node among the columns [first, last).
 *
 * codes: (columns, stride). The rows of node k are rows[starts[k]..starts[k + 1]), and labels (0 or 1)
 * and weights (or NULL) are in the order of rows. On the gain of a tie the first column wins, then the
 * lowest code. */
WIDE EXPORT void epiloss_best_splits(const uint8_t *codes, int64_t stride, const uint8_t *kinds,
                                     int64_t first, int64_t last, const int32_t *rows,
                                     const int64_t *starts, int64_t n_nodes, const uint8_t *labels,
                                     const int64_t *weights, int64_t least, int64_t criterion,
                                     const Sums *totals, Split *splits) {
    uint64_t bins[AT_ONCE][CODES];
    int64_t weighted[2 * CODES];
    for (int64_t k = 0; k < n_nodes; k++) splits[k] = (Split){-INFINITY, -1, 0, 0};
    for (int64_t some = first; some < last; some += AT_ONCE) {
        const int64_t width = last - some < AT_ONCE ? last - some : AT_ONCE;
        for (int64_t k = 0; k < n_nodes; k++) {
            const int64_t begin = starts[k], size = starts[k + 1] - begin;
            memset(bins, 0, sizeof bins);
            add_up(bins, codes + some * stride, stride, width, rows + begin, labels + begin, size);
            for (int64_t j = some; j < some + width; j++) {
                const uint64_t *own = bins[j - some];
                if (!weights && criterion == SQUARED && kinds[j] == NUMBER && !own[MISSING]) {
                    scan_plain(&splits[k], least, (int)j, totals[k], own);
                    continue;
                }
                if (weights)
                    add_up_weighted(weighted, codes + j * stride, rows + begin, labels + begin,
                                    weights + begin, size);
                scan(&splits[k], (int)criterion, least, (int)j, kinds[j], totals[k], own,
                     weights ? weighted : NULL);
            }
        }
    }
}

/* Move the rows of each node that go left to its front, in their order, and the others behind them;
 * middles[k] is where the right side begins. spare holds as many rows as the largest node. */
EXPORT void epiloss_split_rows(const uint8_t *codes, int64_t stride, const uint8_t *kinds,
                               const Split *splits, int32_t *rows, uint8_t *labels, int64_t *weights,
                               const int64_t *starts, int64_t n_nodes, int64_t *middles,
                               int32_t *spare_rows, uint8_t *spare_labels, int64_t *spare_weights) {
    for (int64_t k = 0; k < n_nodes; k++) {
        const Split split = splits[k];
        middles[k] = starts[k + 1];
        if (split.feature < 0) continue;
        const uint8_t *column = codes + split.feature * stride;
        const int is_category = kinds[split.feature] == CATEGORY;
        uint8_t goes_left[CODES];
        for (int code = 0; code < CODES; code++)
            goes_left[code] = is_category ? code == split.code : code <= split.code;
        if (!is_category) goes_left[MISSING] = split.missing_left != 0;
        int64_t left = starts[k], right = 0;
        /* written to both sides, and kept on one: no processor foresees which, so there is no branch */
        for (int64_t i = starts[k]; i < starts[k + 1]; i++) {
            const int is_left = goes_left[column[rows[i]]];
            spare_rows[right] = rows[i];
            spare_labels[right] = labels[i];
            rows[left] = rows[i];
            labels[left] = labels[i];
            if (weights) {
                spare_weights[right] = weights[i];
                weights[left] = weights[i];
            }
            left += is_left;
            right += !is_left;
        }
        memcpy(rows + left, spare_rows, (size_t)right * sizeof *rows);
        memcpy(labels + left, spare_labels, (size_t)right * sizeof *labels);
        if (weights) memcpy(weights + left, spare_weights, (size_t)right * sizeof *weights);
        middles[k] = left;
    }
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "Compiled loops, called through ctypes.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&definition); }

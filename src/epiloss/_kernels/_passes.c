/* Loops over rows: leaves of trees, sums of regions, folds and calibration curves.
 *
 * reference.py is the NumPy version, with identical results.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define TOGETHER 16    /* rows that move down the trees together */
#define AT_ONCE 32     /* scores that are compared with edges together */
#define FEW 64         /* with at most this many edges, a score is compared with all of them */
#define KEYS 128       /* rows whose hashes are computed together */
#define SHORT 512      /* rows of at most this many bytes are prefetched as a whole */
#define LEAST_TILE 128 /* minimum number of rows for which copying values pays */
#define TILE 16384     /* values that are copied row by row for the trees */
#define ADDED 32       /* rows whose values are rounded together */
#define LEAST_SPREAD 1e-290 /* smallest spread of a window for which a slope is computed */

/* A node of a tree; a leaf has no children (left < 0). A number goes left if it is at most the
 * threshold, a category if it equals the threshold. */
typedef struct {
    double threshold;
    int32_t feature;
    int32_t children[2]; /* left, right */
    uint8_t kind;
    uint8_t missing_left;
} Node;

/* Copy n values of a column, starting at row first, to every step-th position. */
static inline void copy(const Column *column, int64_t first, int64_t n, double *to, int64_t step) {
    const char *from = column->first + first * column->stride;
    if (column->is_double && column->stride == sizeof(double))
        for (int64_t i = 0; i < n; i++) to[i * step] = ((const double *)from)[i];
    else if (!column->is_double && column->stride == sizeof(float))
        for (int64_t i = 0; i < n; i++) to[i * step] = (double)((const float *)from)[i];
    else
        for (int64_t i = 0; i < n; i++, from += column->stride)
            to[i * step] = column->is_double ? *(const double *)from : (double)*(const float *)from;
}

/* A row on its way down: its position among the given rows, its index, and its current node. */
typedef struct {
    int64_t place, row;
    int32_t node;
} Walker;

/* The loop of epiloss_apply.
 *
 * Several rows move down together, one step each in turn, so that their memory accesses overlap. A row
 * that arrives at its leaf is replaced by the next row. Short rows are prefetched. Children are looked up
 * in an array, because a branch could not be predicted. */
static void go_down(const Column *columns, int64_t n_columns, const int64_t *rows, int64_t n,
                    const Node *nodes, int32_t *leaves) {
    Walker walking[TOGETHER];
    int64_t next = n < TOGETHER ? n : TOGETHER;
    const int64_t bytes = n_columns ? width_of(columns, n_columns) : 0;
    for (int64_t k = 0; k < next; k++) walking[k] = (Walker){k, rows[k], leaves[k]};
    for (int64_t n_walking = next; n_walking > 0;)
        for (int64_t k = 0; k < n_walking; k++) {
            const Node *node = &nodes[walking[k].node];
            if (node->children[0] < 0) {
                leaves[walking[k].place] = walking[k].node;
                if (bytes <= SHORT && next + AHEAD < n)
                    ask_for(columns[0].first + rows[next + AHEAD] * columns[0].stride, bytes);
                walking[k] = next < n ? (Walker){next, rows[next], leaves[next]} : walking[--n_walking];
                next++;
                continue;
            }
            const Column *column = &columns[node->feature];
            const char *place = column->first + walking[k].row * column->stride;
            const double x = column->is_double ? *(const double *)place : (double)*(const float *)place;
            int goes_right = !(x <= node->threshold);
            if (node->kind == CATEGORY) goes_right = x != node->threshold;
            if (x != x) goes_right = !node->missing_left;
            walking[k].node = node->children[goes_right];
        }
}

/* Replace the node leaves[i] by the leaf below it that row rows[i] belongs to. Columns that are not
 * adjacent in memory are copied row by row, some rows at a time. */
EXPORT void epiloss_apply(const Column *columns, int64_t n_columns, const int64_t *rows, int64_t n,
                          const Node *nodes, int32_t *leaves) {
    const int64_t size = TILE / (n_columns ? n_columns : 1);
    if (size < LEAST_TILE || width_of(columns, n_columns ? n_columns : 1)) {
        go_down(columns, n_columns, rows, n, nodes, leaves);
        return;
    }
    double tile[TILE];
    Column beside[TILE / LEAST_TILE];
    int64_t numbers[TILE];
    for (int64_t j = 0; j < n_columns; j++)
        beside[j] = (Column){(const char *)(tile + j), n_columns * (int64_t)sizeof(double), 1};
    for (int64_t i = 0; i < size && i < n; i++) numbers[i] = i;
    for (int64_t start = 0; start < n; start += size) {
        const int64_t some = n - start < size ? n - start : size;
        int one_by_one = 0;
        for (int64_t i = 1; i < some; i++) one_by_one |= rows[start + i] != rows[start] + i;
        for (int64_t j = 0; j < n_columns; j++)
            if (one_by_one)
                for (int64_t i = 0; i < some; i++)
                    copy(&columns[j], rows[start + i], 1, tile + i * n_columns + j, 1);
            else
                copy(&columns[j], rows[start], some, tile + j, n_columns);
        go_down(beside, n_columns, numbers, some, nodes, leaves + start);
    }
}

static inline double squared(double x) { return x * x; }

/* Round doubles below 2048 to multiples of 2^-40: after adding 1.5 * 2^52, a double has no bits left for
 * fractions, and its last 52 bits are 2^51 plus the rounded integer. */
#define STEPS(x) ((x) * 1099511627776.0 + 6755399441055744.0)
#define HIGH(steps) ((int64_t)(((steps) & 0xfffffffffffff) >> 20) - 0x80000000) /* of 2^-20 */
#define LOW(steps) ((int64_t)((steps) & 0xfffff))                               /* the rest */

/* Add each value, rounded to 2^-40, to the sums of its cell: high has multiples of 2^-20, low the rest.
 * Neighbouring cells are `step` numbers apart. Return 0, and add nothing, if a value is too large or not
 * finite. */
WIDE EXPORT int64_t epiloss_add_fixed_point(const int64_t *code, const double *values, int64_t n,
                                            int64_t *high, int64_t *low, int64_t step) {
    int64_t outside = 0;
    for (int64_t i = 0; i < n; i++) outside |= !(fabs(values[i]) < 2048.0);
    if (outside) return 0;
    for (int64_t start = 0; start < n; start += ADDED) {
        const int64_t size = n - start < ADDED ? n - start : ADDED;
        double x[ADDED] = {0.0};
        uint64_t steps[ADDED];
        for (int64_t i = 0; i < size; i++) x[i] = values[start + i];
        for (int i = 0; i < ADDED; i++) x[i] = STEPS(x[i]);
        memcpy(steps, x, sizeof x);
        for (int64_t i = 0; i < size; i++) {
            high[code[start + i] * step] += HIGH(steps[i]);
            low[code[start + i] * step] += LOW(steps[i]);
        }
    }
    return 1;
}

/* Add rows to the sums (cells, 2 limbs, N_FIELDS) under the Brier score, all fields at once; the last two
 * fields are only used with weights. The return value is as above. */
#define N_FIELDS 13
#define N_ADDED 12
static const int FIELD[N_ADDED] = {0, 3, 4, 5, 6, 7, 9, 10, 11, 12, 1, 2};

WIDE EXPORT int64_t epiloss_add_brier(const int64_t *code, int64_t n, const double *labels,
                                      const double *scores, const double *curve_a,
                                      const double *curve_b, const double *weights,
                                      const double *weight_sq, int64_t *sums) {
    const double *const given[] = {labels, scores, curve_a, curve_b, weights, weight_sq};
    const int n_given = weights ? 6 : 4, n_added = weights ? N_ADDED : N_ADDED - 2;
    int64_t outside = 0;
    for (int k = 0; k < n_given; k++)
        for (int64_t i = 0; i < n; i++) outside |= !(fabs(given[k][i]) <= (k < 5 ? 1.0 : 1024.0));
    if (outside) return 0;
    double rows[6][ADDED], x[N_ADDED][ADDED];
    for (int i = 0; i < ADDED; i++) rows[4][i] = rows[5][i] = 1.0;
    for (int64_t start = 0; start < n; start += ADDED) {
        const int64_t size = n - start < ADDED ? n - start : ADDED;
        uint64_t steps[N_ADDED][ADDED];
        for (int k = 0; k < n_given; k++)
            for (int64_t i = 0; i < size; i++) rows[k][i] = given[k][start + i];
        for (int64_t i = 0; i < size; i++) {
            const double y = rows[0][i], s = rows[1][i], a = rows[2][i], b = rows[3][i], w = rows[4][i];
            const double curve = (a + b) / 2.0, entropy = curve * (1.0 - curve);
            const double halves = a * (1.0 - a) + b * (1.0 - b);
            x[0][i] = STEPS(1.0);
            x[1][i] = STEPS(w * y);
            x[2][i] = STEPS(w * s);
            x[3][i] = STEPS(w * s * s);
            x[4][i] = STEPS(w * s * y);
            x[5][i] = STEPS(w * squared(s - y));
            x[6][i] = STEPS(w * (squared(s - curve) + entropy));
            x[7][i] = STEPS(w * a);
            x[8][i] = STEPS(w * b);
            x[9][i] = STEPS(w * (2.0 * entropy - halves / 2.0));
            x[10][i] = STEPS(w);
            x[11][i] = STEPS(rows[5][i]);
        }
        memcpy(steps, x, sizeof x);
        for (int64_t i = 0; i < size; i++) {
            int64_t *to = sums + code[start + i] * 2 * N_FIELDS;
            for (int f = 0; f < n_added; f++) {
                to[FIELD[f]] += HIGH(steps[f][i]);
                to[FIELD[f] + N_FIELDS] += LOW(steps[f][i]);
            }
        }
    }
    return 1;
}

static inline double inside(double p) { return p > 0.0 ? (p < 1.0 ? p : 1.0) : 0.0; }

/* Compute the terms of each row under the Brier score, as in influence.py: its score, calibration loss
 * and grouping loss, and half of the difference between the curves. lines: (3, level sets), mean score,
 * mean label and slope; curve_mean: of level sets with a single region, NaN for others. */
WIDE EXPORT void epiloss_brier_terms(const int64_t *level_set, const int32_t *cell, int64_t n,
                                     const double *scores, const double *labels, const double *curve_a,
                                     const double *curve_b, const double *lines, int64_t n_level_sets,
                                     const double *rates, const double *curve_mean,
                                     double *restrict terms) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t level = level_set[i];
        const double y = labels[i], s = scores[i], curve = (curve_a[i] + curve_b[i]) / 2.0;
        double line = lines[n_level_sets + level] + lines[2 * n_level_sets + level] * (s - lines[level]);
        double rate = rates[cell[i]];
        if (curve_mean[level] == curve_mean[level]) {
            line = curve;
            rate = curve_mean[level];
        }
        const double loss = squared(s - y);
        terms[i] = loss;
        terms[n + i] = loss - squared(inside(curve) - y);
        terms[2 * n + i] = squared(inside(line) - y) - squared(inside(rate) - y);
        terms[3 * n + i] = (squared(inside(curve_a[i]) - y) - squared(inside(curve_b[i]) - y)) / 2.0;
    }
}

/* spread[rows[i]] = the weighted deviation of value i from the mean, divided by the total weight. */
EXPORT void epiloss_spread(const double *values, const double *weights, const int64_t *rows, int64_t n,
                           const double *mean_and_total, double *spread) {
    const double mean = mean_and_total[0], total = mean_and_total[1];
    for (int64_t i = 0; i < n; i++) spread[rows[i]] = (values[i] - mean) * weights[i] / total;
}

/* Add each row to the sums (2, level sets) of x and y of its level set or, with means (2, level sets), of
 * the squared deviation of x and the product of both deviations. weights may be NULL. sums must be zero
 * at first. */
EXPORT void epiloss_moments(const int64_t *level_set, int64_t n, const double *x, const double *y,
                            const double *weights, const double *means, int64_t n_level_sets,
                            double *sums) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t level = level_set[i];
        double first = x[i], second = y[i];
        if (means) {
            first -= means[level];
            second = first * (second - means[n_level_sets + level]);
            first = first * first;
        }
        sums[level] += weights ? weights[i] * first : first;
        sums[n_level_sets + level] += weights ? weights[i] * second : second;
    }
}

/* level_set[i] = the number of sorted edges that are at most scores[i]. */
WIDE EXPORT void epiloss_level_sets(const double *restrict scores, int64_t n,
                                    const double *restrict edges, int64_t n_edges,
                                    int64_t *restrict level_set) {
    for (int64_t start = 0; start < n; start += AT_ONCE) {
        const int64_t size = n - start < AT_ONCE ? n - start : AT_ONCE;
        double x[AT_ONCE] = {0.0};
        int64_t found[AT_ONCE] = {0};
        for (int64_t i = 0; i < size; i++) x[i] = scores[start + i];
        for (int64_t e = 0; n_edges <= FEW && e < n_edges; e++) /* vectorised, without a branch */
            for (int i = 0; i < AT_ONCE; i++) found[i] += edges[e] <= x[i];
        for (int64_t i = 0; n_edges > FEW && i < size; i++)
            for (int64_t last = n_edges; found[i] < last;) {
                const int64_t middle = (found[i] + last) / 2;
                if (edges[middle] <= x[i])
                    found[i] = middle + 1;
                else
                    last = middle;
            }
        for (int64_t i = 0; i < size; i++) level_set[start + i] = found[i];
    }
}

/* among[row] = whether the row is among the first left[code] rows of its code, in the given order. */
EXPORT void epiloss_first_of_each(const int64_t *order, const uint16_t *codes, int64_t n, int64_t *left,
                                  uint8_t *among) {
    for (int64_t i = 0; i < n; i++) among[order[i]] = left[codes[order[i]]]-- > 0;
}

/* found[i] = the curve at x[i], linear between the sorted knots (at least two) and constant outside.
 *
 * first[c] is the number of knots in the cells of [0, 1] before cell c, so that few are left to search. */
EXPORT void epiloss_interpolate(const double *knots, const double *values, int64_t n_knots,
                                const int32_t *first, int64_t n_cells, const double *x, int64_t n,
                                double *found) {
    for (int64_t i = 0; i < n; i++) {
        const double inside = x[i] > 0.0 ? (x[i] < 1.0 ? x[i] : 1.0) : 0.0;
        const int64_t cell = (int64_t)(inside * (double)n_cells);
        int64_t right = first[cell], last = first[cell + 1];
        while (right < last) {
            const int64_t middle = (right + last) / 2;
            if (knots[middle] < x[i])
                right = middle + 1;
            else
                last = middle;
        }
        right = right < 1 ? 1 : right < n_knots ? right : n_knots - 1;
        double share = (x[i] - knots[right - 1]) / (knots[right] - knots[right - 1]);
        share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
        found[i] = values[right - 1] + share * (values[right] - values[right - 1]);
    }
}

/* cumulative: (5, m + 1), sums of w, w x, w x^2, w y and w x y before each score. All five are computed
 * in one pass, because each addition waits for the one before it. */
EXPORT void epiloss_cumulative_sums(const double *w, const double *x, const double *y, int64_t m,
                                    double *cumulative) {
    double sums[5] = {-0.0, -0.0, -0.0, -0.0, -0.0}; /* unlike 0.0, it keeps -0.0 */
    for (int k = 0; k < 5; k++) cumulative[k * (m + 1)] = 0.0;
    for (int64_t i = 0; i < m; i++) {
        const double wx = w[i] * x[i], terms[5] = {w[i], wx, wx * x[i], w[i] * y[i], wx * y[i]};
        for (int k = 0; k < 5; k++) cumulative[k * (m + 1) + i + 1] = sums[k] += terms[k];
    }
}

/* Compute the value at each x of the least-squares line in its window, and its leverage: (windows, m). A
 * window contains the given weight, centred at the rank of x and shifted at the ends. cumulative:
 * (5, m + 1), sums of w, w x, w x^2, w y and w x y before each score. */
EXPORT void epiloss_windowed_lines(int64_t m, const double *x, const double *rank,
                                   const double *cumulative, int64_t n_windows, const double *windows,
                                   double *fitted, double *leverage) {
    const double *w = cumulative, *wx = w + m + 1, *wxx = wx + m + 1, *wy = wxx + m + 1;
    const double *wxy = wy + m + 1, rounding = 1e-13 * wxx[m];
    const double least = rounding > LEAST_SPREAD ? rounding : LEAST_SPREAD;
    for (int64_t k = 0; k < n_windows; k++, fitted += m, leverage += m) {
        const double last = w[m] - windows[k] > 0.0 ? w[m] - windows[k] : 0.0;
        int64_t from = 0, to = 0;
        for (int64_t i = 0; i < m; i++) {
            double start = rank[i] - windows[k] / 2.0;
            start = start < 0.0 ? 0.0 : start > last ? last : start;
            while (from < m && rank[from] < start) from++;
            while (to < m && rank[to] <= start + windows[k]) to++;
            const int64_t low = from < i ? from : i, high = to > i + 1 ? to : i + 1;
            const double share = 1.0 / (w[high] - w[low]), sx = wx[high] - wx[low];
            const double x_mean = sx * share, y_mean = (wy[high] - wy[low]) * share;
            const double spread = wxx[high] - wxx[low] - sx * x_mean, offset = x[i] - x_mean;
            const double inverse = spread > least ? 1.0 / spread : 0.0; /* a single score has no slope */
            const double slope = (wxy[high] - wxy[low] - sx * y_mean) * inverse;
            fitted[i] = y_mean + slope * offset;
            leverage[i] = share + offset * offset * inverse;
        }
    }
}

/* keys[i] = a hash of the values of row i. */
WIDE EXPORT void epiloss_row_keys(const Column *columns, int64_t n_columns, int64_t n, uint64_t *keys) {
    for (int64_t start = 0; start < n; start += KEYS) {
        const int64_t size = n - start < KEYS ? n - start : KEYS;
        uint64_t found[KEYS] = {0}, bits[KEYS] = {0};
        for (int64_t j = 0; j < n_columns; j++) {
            double x[KEYS] = {0.0};
            copy(&columns[j], start, size, x, 1);
            for (int i = 0; i < KEYS; i++) x[i] = x[i] != x[i] ? (double)NAN : x[i] + 0.0;
            memcpy(bits, x, sizeof x); /* all missing values are equal, and so are 0.0 and -0.0 */
            for (int i = 0; i < KEYS; i++) {
                found[i] = (found[i] ^ bits[i]) * UINT64_C(0x9e3779b97f4a7c15);
                found[i] ^= found[i] >> 32;
            }
        }
        for (int64_t i = 0; i < size; i++) {
            uint64_t key = found[i];
            key = (key ^ key >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
            key = (key ^ key >> 27) * UINT64_C(0x94d049bb133111eb);
            keys[start + i] = key ^ key >> 31;
        }
    }
}

/* found = the largest absolute value of n values, without missing ones, and whether any is missing. */
#define EXTREMES(NAME, REAL, SIZE)                                                           \
    WIDE static void NAME(const REAL *restrict values, int64_t n, double *found) {           \
        REAL most[AT_ONCE] = {0}, missing[AT_ONCE] = {0};                                    \
        const int64_t whole = n / AT_ONCE * AT_ONCE;                                         \
        for (int64_t start = 0; start < whole; start += AT_ONCE)                             \
            for (int i = 0; i < AT_ONCE; i++) {                                              \
                const REAL x = values[start + i], size = SIZE(x);                            \
                most[i] = size > most[i] ? size : most[i];                                   \
                missing[i] = x != x ? (REAL)1 : missing[i];                                  \
            }                                                                                \
        for (int64_t i = whole; i < n; i++) {                                                \
            const REAL size = SIZE(values[i]);                                               \
            most[0] = size > most[0] ? size : most[0];                                       \
            missing[0] = values[i] != values[i] ? (REAL)1 : missing[0];                      \
        }                                                                                    \
        for (int i = 0; i < AT_ONCE; i++) {                                                  \
            found[0] = (double)most[i] > found[0] ? (double)most[i] : found[0];              \
            found[1] = missing[i] > 0 ? 1.0 : found[1];                                      \
        }                                                                                    \
    }

EXTREMES(extremes_of_floats, float, fabsf)
EXTREMES(extremes_of_doubles, double, fabs)

EXPORT void epiloss_extremes(const void *values, int64_t is_double, int64_t n, double *found) {
    found[0] = found[1] = 0.0;
    if (is_double)
        extremes_of_doubles((const double *)values, n, found);
    else
        extremes_of_floats((const float *)values, n, found);
}

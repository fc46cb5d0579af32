/* Histogram-based decision trees, grown one after the other.
 *
 * reference_trees.py is the NumPy version, with identical results: sums are integers, and gains are
 * computed by the same floating-point operations in the same order (built with -ffp-contract=off).
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define LANES_OF_GAIN 4
#define AT_ONCE 4      /* columns whose codes are counted together */
#define MOST_OPEN 34   /* waiting nodes; each has at most half the rows of the one before it */

enum { SQUARED = 0, ENTROPY = 1 };

/* The natural logarithm by basic operations, which give the same result on every machine. */
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

/* The gain of a split, up to a constant of the node. */
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

/* Return the sums of a code. A bin has the count in its high half and the positive labels in its low
 * half; weighted rows have separate sums. */
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

static inline Sums minus(Sums a, Sums b) {
    Sums rest = {a.count - b.count, a.weight - b.weight, a.ones - b.ones};
    return rest;
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
        if (!bins[code]) continue; /* the split is the same as before */
        left = plus(left, sums_of(bins[code], weights, code));
        if (all.count - left.count < least) return; /* further codes leave fewer rows on the right */
        if (!missing.count) {
            consider(best, criterion, least, feature, code, -1, all, left);
        } else {
            consider(best, criterion, least, feature, code, 0, all, left);
            consider(best, criterion, least, feature, code, 1, all, plus(left, missing));
        }
    }
}

/* The same for numbers without missing values and weights, with squared loss, vectorised over all codes
 * for which both sides are large enough. */
WIDE static void scan_plain(Split *best, int64_t least, int feature, Sums all, const uint64_t *bins) {
    int64_t sums[CODES + LANES_OF_GAIN]; /* cumulative bins */
    double gain[CODES + LANES_OF_GAIN], most[LANES_OF_GAIN];
    uint64_t sum = 0;
    for (int code = 0; code < CODES; code++) sums[code] = (int64_t)(sum += bins[code]);
    for (int i = 0; i < LANES_OF_GAIN; i++) sums[CODES + i] = 0; /* padding, which is read but not used */
    const int64_t low = least << 32, above = (all.count - least + 1) << 32;
    int first = 0, end = 0;
    for (int code = 0; code < CODES; code++) {
        first += sums[code] < low;
        end += sums[code] < above;
    }
    if (first >= end) return;
    const int n = end - first, whole = (n + LANES_OF_GAIN - 1) / LANES_OF_GAIN * LANES_OF_GAIN;
    const double all_count = (double)all.count, all_ones = (double)all.ones;
    for (int i = 0; i < whole; i++) {
        const double left = (double)(int32_t)(sums[first + i] >> 32);
        const double left_ones = (double)(int32_t)(sums[first + i] & 0xffffffff);
        const double right = all_count - left, right_ones = all_ones - left_ones;
        const double a = left_ones * left_ones * right;
        const double b = right_ones * right_ones * left;
        gain[i] = (a + b) / (left * right);
    }
    for (int i = n; i < whole; i++) gain[i] = -INFINITY; /* too few rows on the right, or padding */
    for (int i = 0; i < LANES_OF_GAIN; i++) most[i] = gain[i];
    for (int some = LANES_OF_GAIN; some < whole; some += LANES_OF_GAIN)
        for (int i = 0; i < LANES_OF_GAIN; i++)
            most[i] = gain[some + i] > most[i] ? gain[some + i] : most[i];
    double top = most[0];
    for (int i = 1; i < LANES_OF_GAIN; i++) top = most[i] > top ? most[i] : top;
    if (!(top > best->gain)) return;
    int code = 0;
    while (gain[code] != top) code++;
    const int64_t left = sums[first + code] >> 32;
    *best = (Split){top, feature, (uint8_t)(first + code), left >= all.count - left};
}

/* Count the rows (high half) and the positive labels (low half) of each code, in four columns at a time,
 * which share the reads of rows and labels and have independent sums. */
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

static inline void add_up_weighted(int64_t *bins, const uint8_t *column, const int32_t *rows,
                            const uint8_t *labels, const int64_t *weights, int64_t n) {
    memset(bins, 0, 2 * CODES * sizeof *bins);
    for (int64_t i = 0; i < n; i++) {
        int64_t *bin = bins + 2 * column[rows[i]];
        bin[0] += weights[i];
        bin[1] += labels[i] ? weights[i] : 0;
    }
}

/* A node as it is returned; a leaf has no left child (-1). The right child follows the left one. */
typedef struct {
    int64_t first; /* index of its first row */
    double gain;   /* of its split */
    int32_t tree, depth, left, feature;
    uint8_t code, missing_left;
} Grown;

/* The codes (columns, stride), and the rows sorted by node, with their labels (0 or 1) and weights (or
 * NULL) in the same order. bins: (open nodes, columns, 64); weighted, for weighted rows:
 * (open nodes, columns, 2 x 64). */
typedef struct {
    const uint8_t *codes, *kinds;
    int64_t stride, n_columns, least, criterion, deepest;
    int32_t *rows, *spare_rows;
    uint8_t *labels, *spare_labels;
    int64_t *weights, *spare_weights;
    uint64_t *bins;
    int64_t *weighted;
} Rows;

/* A node that may be split, and its best split so far. */
typedef struct {
    int64_t node, first;
    Sums sums;
    Split best;
} Open;

static Open opened(int64_t node, int64_t first, Sums sums) {
    return (Open){node, first, sums, {-INFINITY, -1, 0, 0}};
}

static int divisible(const Open *node, int64_t least) {
    const Sums all = node->sums;
    return all.count >= 2 * least && all.ones > 0 && all.ones < all.weight;
}

static inline void consider_column(Open *node, const Rows *all, int64_t j, const uint64_t *bins,
                                   const int64_t *weighted) {
    if (!weighted && all->criterion == SQUARED && all->kinds[j] == NUMBER && !bins[MISSING])
        scan_plain(&node->best, all->least, (int)j, node->sums, bins);
    else
        scan(&node->best, (int)all->criterion, all->least, (int)j, all->kinds[j], node->sums, bins,
             weighted);
}

/* Count the rows of a node into bins number `place`, and find its best split if wanted.
 *
 * rest is its sibling, or NULL. The bins before `place` are those of the parent; subtracting the node's
 * bins leaves those of the sibling, which need not be counted. Of equal gains, the first column is
 * chosen, then the lowest code. */
WIDE static void survey(const Rows *all, Open *node, int64_t place, int wanted, Open *rest) {
    const int64_t d = all->n_columns, n = node->sums.count, width = d * CODES;
    for (int64_t some = 0; some < d; some += AT_ONCE) {
        const int64_t end = d - some < AT_ONCE ? d : some + AT_ONCE;
        uint64_t(*bins)[CODES] = (uint64_t(*)[CODES])(all->bins + place * width + some * CODES);
        memset(bins, 0, (size_t)(end - some) * sizeof *bins);
        add_up(bins, all->codes + some * all->stride, all->stride, end - some, all->rows + node->first,
               all->labels + node->first, n);
        for (int64_t j = some; j < end; j++) {
            uint64_t *own = bins[j - some], *others = own - width;
            int64_t *weighted = all->weights ? all->weighted + 2 * (place * width + j * CODES) : NULL;
            if (weighted)
                add_up_weighted(weighted, all->codes + j * all->stride, all->rows + node->first,
                                all->labels + node->first, all->weights + node->first, n);
            if (wanted) consider_column(node, all, j, own, weighted);
            if (!rest) continue;
            for (int code = 0; code < CODES; code++) others[code] -= own[code];
            for (int k = 0; weighted && k < 2 * CODES; k++) weighted[k - 2 * width] -= weighted[k];
            consider_column(rest, all, j, others, weighted ? weighted - 2 * width : NULL);
        }
    }
}

/* Move the rows of a node that go left to its front and the others behind them, in stable order. */
static void divide(const Rows *all, const uint8_t *column, const uint8_t *goes_left, int64_t first,
                   int64_t last) {
    int32_t *rows = all->rows, *restrict others = all->spare_rows;
    uint8_t *labels = all->labels, *restrict other_labels = all->spare_labels;
    int64_t *weights = all->weights, left = first, right = 0;
    /* Each row is written to both sides and kept on one: a branch could not be predicted. */
    for (int64_t i = first; i < last; i++) {
        const int is_left = goes_left[column[rows[i]]];
        others[right] = rows[i];
        other_labels[right] = labels[i];
        rows[left] = rows[i];
        labels[left] = labels[i];
        if (weights) {
            all->spare_weights[right] = weights[i];
            weights[left] = weights[i];
        }
        left += is_left;
        right += !is_left;
    }
    memcpy(rows + left, others, (size_t)right * sizeof *rows);
    memcpy(labels + left, other_labels, (size_t)right * sizeof *labels);
    if (weights) memcpy(weights + left, all->spare_weights, (size_t)right * sizeof *weights);
}

/* Set which codes go left, and return the sums of their rows. */
static Sums left_of(const Rows *all, const Split *split, int64_t place, uint8_t *goes_left) {
    const int64_t column = place * all->n_columns + split->feature;
    const int is_category = all->kinds[split->feature] == CATEGORY;
    Sums left = {0, 0, 0};
    for (int code = 0; code < CODES; code++) {
        goes_left[code] = is_category ? code == split->code : code <= split->code;
        if (code == MISSING && !is_category) goes_left[code] = split->missing_left != 0;
        if (goes_left[code])
            left = plus(left, sums_of(all->bins[column * CODES + code],
                                      all->weights ? all->weighted + 2 * column * CODES : NULL, code));
    }
    return left;
}

/* Return a leaf whose rows start at first. */
static Grown leaf_at(int64_t first, int32_t tree, int32_t depth) {
    return (Grown){first, -INFINITY, tree, depth, -1, 0, 0, 0};
}

/* Grow one tree from its root, nodes[n - 1]; return the new number of nodes.
 *
 * The smaller of two children is counted and split first. The larger one waits with the remaining bins
 * of the parent, so that few bins are needed at a time. The caller sorts the nodes. Rows of nodes that
 * remain leaves are not moved. */
static int64_t grow_tree(const Rows *all, Sums sums, Grown *nodes, int64_t n) {
    Open open[MOST_OPEN];
    int64_t n_open = 0;
    open[0] = opened(n - 1, nodes[n - 1].first, sums);
    if (divisible(&open[0], all->least)) survey(all, &open[n_open++], 0, 1, NULL);
    while (n_open > 0) {
        const Open node = open[--n_open];
        const Split split = node.best;
        Grown *grown = &nodes[node.node];
        uint8_t goes_left[CODES];
        if (split.feature < 0) continue;
        const Sums left = left_of(all, &split, n_open, goes_left);
        const Sums right = minus(node.sums, left);
        const int64_t middle = node.first + left.count;
        *grown = (Grown){node.first, split.gain, grown->tree, grown->depth, (int32_t)n,
                         split.feature, split.code, split.missing_left};
        nodes[n] = leaf_at(node.first, grown->tree, grown->depth + 1);
        nodes[n + 1] = leaf_at(middle, grown->tree, grown->depth + 1);
        Open small = opened(n, node.first, left), large = opened(n + 1, middle, right);
        n += 2;
        if (grown->depth + 1 >= all->deepest) continue;
        if (right.count < left.count) {
            const Open other = small;
            small = large;
            large = other;
        }
        const int small_opens = divisible(&small, all->least);
        const int large_opens = divisible(&large, all->least);
        if (!small_opens && !large_opens) continue;
        divide(all, all->codes + split.feature * all->stride, goes_left, node.first,
               middle + right.count);
        survey(all, &small, n_open + large_opens, small_opens, large_opens ? &large : NULL);
        if (large_opens) open[n_open++] = large;
        if (small_opens) open[n_open++] = small;
    }
    return n;
}

/* Grow n_trees trees of depth at most `deepest` on the rows [starts[tree], starts[tree + 1]); return the
 * number of nodes. labels and weights are reordered with the rows, unless all trees have depth 1. The
 * spare arrays have the size of the largest tree; bins and weighted have room for one node more than can
 * wait. */
EXPORT int64_t epiloss_grow(const uint8_t *codes, int64_t stride, const uint8_t *kinds,
                            int64_t n_columns, int32_t *rows, uint8_t *labels, int64_t *weights,
                            const int64_t *starts, int64_t n_trees, int64_t least, int64_t criterion,
                            int64_t deepest, int32_t *spare_rows, uint8_t *spare_labels,
                            int64_t *spare_weights, uint64_t *bins, int64_t *weighted, Grown *nodes) {
    const Rows all = {codes, kinds, stride, n_columns, least, criterion, deepest, rows, spare_rows,
                      labels, spare_labels, weights, spare_weights, bins, weighted};
    int64_t n = 0;
    for (int64_t tree = 0; tree < n_trees; tree++) {
        Sums sums = {starts[tree + 1] - starts[tree], 0, 0};
        for (int64_t i = starts[tree]; i < starts[tree + 1]; i++) {
            const int64_t weight = weights ? weights[i] : 1;
            sums.weight += weight;
            sums.ones += labels[i] ? weight : 0;
        }
        nodes[n++] = leaf_at(starts[tree], (int32_t)tree, 0);
        n = grow_tree(&all, sums, nodes, n);
    }
    return n;
}

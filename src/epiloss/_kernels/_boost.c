/* Gradient-boosted histogram trees on one-byte codes.
 *
 * boosting.py is the NumPy version, with identical results: gradients and hessians are summed as
 * integers, and gains, values and probabilities are computed by the same floating-point operations in the
 * same order (built with -ffp-contract=off). The sums of a code are packed into one number, hessians in
 * the upper 32 bits and gradients in the lower. Units are powers of 2 such that no sum overflows.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define AT_ONCE 4       /* columns that are processed together */
#define BITS 30         /* bits of the largest sum */
#define MOST_LEAVES 64  /* of a tree */
#define SMALLER 0x1p-16
#define ROWS_AT_ONCE 256
#define ROWS_IN_CACHE 8192
#define LANES 16 /* codes that are processed together */
#define TINY 1e-6f /* minimum gain of a split, relative to what its leaf explains */
#define NUMBERS 63 /* number of codes without that of missing values */

typedef int64_t Sums;

static inline int32_t gradients(Sums sums) { return (int32_t)(uint32_t)sums; }
/* Scale a gradient such that its square times a hessian does not overflow a float. */
static inline float smaller(int32_t g) { return (float)g * (float)SMALLER; }

static inline int32_t hessians(Sums sums) { return (int32_t)((sums - gradients(sums)) >> 32); }

/* A node; a leaf has no left child (-1). The right child follows the left one. */
typedef struct {
    double value;
    int32_t left, feature;
    uint8_t code, missing_left;
} BoostNode;

/* A leaf that may be split, and its best split so far. */
typedef struct {
    int64_t first, n;
    Sums all, left;
    float gain;
    int32_t node, depth, place, column;
    uint8_t code, missing_left;
} Leaf;

typedef struct {
    const uint8_t *codes;
    const int32_t *columns;
    int64_t stride, n_columns;
    Sums *own, *bins;
    int32_t *rows, *spare;
    const uint8_t *last; /* highest code in each column, apart from missing values */
    double ridge, least;
} Ground;

/* Return the index of the lowest bit that is set; bits must not be 0. */
static inline int lowest_bit(uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int place = 0;
    while (!(bits >> place & 1)) place++;
    return place;
#endif
}

/* Round to the nearest integer, ties to even; the absolute value must be below 2^51. */
static inline double rounded(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* e^x by basic operations, which give the same result on every machine. */
static double plain_exp(double x) {
    const double k = rounded(x * 1.4426950408889634);
    const double f = (x - k * 0.693145751953125) - k * 1.4286068203094172e-06;
    double series = 1.0;
    for (int i = 13; i > 0; i--) series = 1.0 + series * f / (double)i;
    return ldexp(series, (int)k);
}

static double plain_expit(double x) {
    const double near = x < -36.0 ? -36.0 : x > 36.0 ? 36.0 : x;
    return 1.0 / (1.0 + plain_exp(-near));
}

/* Return the inverse of the unit in which the sum of n numbers of at most this size fits into BITS. */
static double units(int64_t n, double largest) {
    int exponent = 0;
    if (!(largest > 0.0)) return 1.0;
    frexp((double)n * largest, &exponent);
    return ldexp(1.0, BITS - exponent);
}

/* Add up the rows of each code in four columns at a time. */
static void count_four(Sums (*bins)[CODES], const Ground *all, const int32_t *columns,
                       const int32_t *rows, int64_t n) {
    const uint8_t *a = all->codes + columns[0] * all->stride, *b = all->codes + columns[1] * all->stride;
    const uint8_t *c = all->codes + columns[2] * all->stride, *d = all->codes + columns[3] * all->stride;
    for (int64_t i = 0; i < n; i++) {
        const int32_t row = rows[i];
        const Sums own = all->own[row];
        bins[0][a[row]] += own;
        bins[1][b[row]] += own;
        bins[2][c[row]] += own;
        bins[3][d[row]] += own;
    }
}

static void count(const Ground *all, Sums *bins, const int32_t *rows, int64_t n) {
    int64_t j = 0;
    memset(bins, 0, (size_t)(all->n_columns * CODES) * sizeof *bins);
    for (; j + AT_ONCE <= all->n_columns; j += AT_ONCE)
        count_four((Sums(*)[CODES])(bins + j * CODES), all, all->columns + j, rows, n);
    for (; j < all->n_columns; j++) {
        const uint8_t *column = all->codes + all->columns[j] * all->stride;
        for (int64_t i = 0; i < n; i++) bins[j * CODES + column[rows[i]]] += all->own[rows[i]];
    }
}

/* Compute the gain of splits of a leaf at n_codes codes (a multiple of LANES), or -1 if a side has too
 * little weight; return the largest. Gains are the bits of floats: positive floats sort like integers,
 * so that the loops have no branches and are vectorised. */
WIDE static int32_t gains(const Sums *left, int n_codes, Sums whole, float ridge, float least,
                          int32_t *gain) {
    const float g = smaller(gradients(whole)), h = (float)hessians(whole), base = g * g / (h + ridge);
    float added[CODES], lighter[CODES];
    int32_t top = 0;
    for (int code = 0; code < n_codes; code++) {
        const float left_g = smaller(gradients(left[code])), left_h = (float)hessians(left[code]);
        const float right_g = g - left_g, right_h = h - left_h;
        const float a = left_h + ridge, b = right_h + ridge;
        added[code] = (left_g * left_g * b + right_g * right_g * a) / (a * b) - base;
        lighter[code] = left_h < right_h ? left_h : right_h;
    }
    memcpy(gain, added, (size_t)n_codes * sizeof *gain);
    for (int code = 0; code < n_codes; code++) gain[code] = lighter[code] >= least ? gain[code] : -1;
    for (int code = 0; code < n_codes; code++) top = gain[code] > top ? gain[code] : top;
    return top;
}

/* Find the best split of a leaf. Of equal gains, the first column is chosen, then missing values on the
 * right, then the lowest code. */
static void scan(const Ground *all, Leaf *leaf) {
    const float g = smaller(gradients(leaf->all)), h = (float)hessians(leaf->all);
    const float ridge = (float)all->ridge, least = (float)all->least;
    leaf->gain = TINY * (g * g / (h + ridge)); /* smaller gains are rounding errors */
    leaf->column = -1;
    for (int64_t j = 0; j < all->n_columns; j++) {
        const Sums *bins = all->bins + (leaf->place * all->n_columns + j) * CODES;
        const int n_codes = (all->last[j] / LANES + 1) * LANES, present = bins[MISSING] != 0;
        Sums left[CODES], sum = 0;
        int32_t gain[CODES];
        for (int code = 0; code < n_codes; code++) left[code] = sum += code == MISSING ? 0 : bins[code];
        for (int side = 0; side <= present; side++) {
            if (side)
                for (int code = 0; code < n_codes; code++) left[code] += bins[MISSING];
            const int32_t top = gains(left, n_codes, leaf->all, ridge, least, gain);
            float best;
            memcpy(&best, &top, sizeof best);
            if (!(best > leaf->gain)) continue;
            int code = 0;
            while (gain[code] != top) code++;
            leaf->gain = best;
            leaf->column = (int32_t)j;
            leaf->code = (uint8_t)code;
            leaf->left = left[code];
            const float left_h = (float)hessians(leaf->left);
            leaf->missing_left = (uint8_t)(present ? side : left_h >= h - left_h);
        }
    }
}

/* Move the rows of a leaf that go left to its front, in stable order; return their number. */
static int64_t divide(const Ground *all, const Leaf *leaf) {
    const uint8_t *column = all->codes + all->columns[leaf->column] * all->stride;
    int32_t *rows = all->rows + leaf->first;
    int64_t left = 0, right = 0;
    uint8_t goes_left[CODES];
    for (int code = 0; code < NUMBERS; code++) goes_left[code] = code <= leaf->code;
    goes_left[MISSING] = leaf->missing_left;
    for (int64_t i = 0; i < leaf->n; i++) {
        const int32_t row = rows[i];
        const int is_left = goes_left[column[row]];
        all->spare[right] = row;
        rows[left] = row;
        left += is_left;
        right += !is_left;
    }
    memcpy(rows + left, all->spare, (size_t)right * sizeof *rows);
    return left;
}

static Leaf leaf_at(int64_t first, int64_t n, Sums all, int64_t node, int32_t depth) {
    const Leaf leaf = {first, n, all, 0, 0.0f, (int32_t)node, depth, 0, -1, 0, 0};
    return leaf;
}

/* Find the best splits of two children; the bins of their parent become those of the larger one. */
static void survey(const Ground *all, Leaf *a, Leaf *b, int32_t parent, int32_t place) {
    Leaf *small = a->n <= b->n ? a : b, *large = a->n <= b->n ? b : a;
    const int64_t width = all->n_columns * CODES;
    const int small_opens = hessians(small->all) >= 2 * all->least;
    const int large_opens = hessians(large->all) >= 2 * all->least;
    if (!small_opens && !large_opens) return;
    small->place = place;
    large->place = parent;
    Sums *own = all->bins + place * width, *rest = all->bins + parent * width;
    count(all, own, all->rows + small->first, small->n);
    if (small_opens) scan(all, small);
    if (!large_opens) return;
    for (int64_t k = 0; k < width; k++) rest[k] -= own[k];
    scan(all, large);
}

/* Grow one tree by splitting the leaf with the largest gain first; return the number of leaves. */
static int64_t grow(const Ground *all, Leaf *leaves, BoostNode *nodes, int64_t most, int64_t deepest,
                    double worth) {
    const BoostNode none = {0.0, -1, 0, 0, 0};
    int64_t n_leaves = 1, n_nodes = 1;
    nodes[0] = none;
    count(all, all->bins, all->rows, leaves[0].n);
    scan(all, &leaves[0]);
    while (n_leaves < most) {
        int64_t best = 0;
        for (int64_t k = 1; k < n_leaves; k++)
            if (leaves[k].gain > leaves[best].gain) best = k;
        const Leaf leaf = leaves[best];
        if (leaf.column < 0 || !(leaf.gain > worth)) break;
        const int64_t n_left = divide(all, &leaf);
        BoostNode *node = &nodes[leaf.node];
        node->left = (int32_t)n_nodes;
        node->feature = all->columns[leaf.column];
        node->code = leaf.code;
        node->missing_left = leaf.missing_left;
        nodes[n_nodes] = nodes[n_nodes + 1] = none;
        Leaf a = leaf_at(leaf.first, n_left, leaf.left, n_nodes, leaf.depth + 1);
        Leaf b = leaf_at(leaf.first + n_left, leaf.n - n_left, leaf.all - leaf.left, n_nodes + 1,
                         leaf.depth + 1);
        /* The children of the last split remain leaves. */
        if (n_leaves + 1 < most && a.depth < deepest)
            survey(all, &a, &b, leaf.place, (int32_t)n_leaves);
        leaves[best] = a;
        leaves[n_leaves++] = b;
        n_nodes += 2;
    }
    return n_leaves;
}

/* Compute the gradient and the hessian of each row. */
static void slopes(int64_t n, const double *target, const double *weight, const double *offset,
                   const double *total, double *g, double *h) {
    if (!offset)
        for (int64_t i = 0; i < n; i++) {
            g[i] = target[i] - weight[i] * total[i];
            h[i] = weight[i];
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const double p = plain_expit(offset[i] + total[i]);
            g[i] = weight[i] * (target[i] - p);
            h[i] = weight[i] * (p * (1.0 - p));
        }
}

static void largest_sizes(int64_t n, const double *g, const double *h, double *largest) {
    largest[0] = largest[1] = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double size = fabs(g[i]);
        largest[0] = size > largest[0] ? size : largest[0];
        largest[1] = h[i] > largest[1] ? h[i] : largest[1];
    }
}

/* Pack gradient and hessian of each row into one number, in their units; return the sum. */
static Sums put_together(int64_t n, const double *g, const double *h, const double *largest, Sums *own,
                         int32_t *rows) {
    const double of_g = units(n, largest[0]), of_h = units(n, largest[1]);
    Sums sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t in_g = (int64_t)rounded(g[i] * of_g), in_h = (int64_t)rounded(h[i] * of_h);
        own[i] = in_h * ((int64_t)1 << 32) + in_g;
        rows[i] = (int32_t)i;
        sum += own[i];
    }
    return sum;
}

/* Find the highest code of each column, apart from missing values. */
static void last_codes(const Ground *all, int64_t n, uint8_t *last) {
    for (int64_t j = 0; j < all->n_columns; j++) {
        const uint8_t *column = all->codes + all->columns[j] * all->stride;
        uint8_t top = 0;
        for (int64_t i = 0; i < n; i++) {
            const uint8_t code = column[i] == MISSING ? 0 : column[i];
            top = code > top ? code : top;
        }
        last[j] = top;
    }
}

/* Boost n_trees trees. Without offset, the loss is quadratic: the gradient is target - weight * total and
 * the hessian weight. With an offset of log-odds, target is a label and the loss is the weighted
 * log-loss. total is the sum of the trees for each row; it is updated in place.
 *
 * settings: learning rate, ridge, minimum hessian of a leaf (above 0), minimum gain of a split.
 * slope: (2, n); last: one byte per column; bins: (leaves, columns, 64); nodes: (trees, 2 leaves - 1). */
EXPORT void epiloss_boost(const uint8_t *codes, int64_t stride, const int32_t *columns,
                          int64_t n_columns, int64_t n, const double *target, const double *weight,
                          const double *offset, double *total, const double *settings, int64_t n_trees,
                          int64_t most, int64_t deepest, double *slope, uint8_t *last, Sums *own,
                          int32_t *rows, int32_t *spare, Sums *bins, Leaf *leaves, BoostNode *nodes) {
    Ground all = {codes, columns, stride, n_columns, own, bins, rows, spare, last, 0.0, 0.0};
    last_codes(&all, n, last);
    for (int64_t tree = 0; tree < n_trees; tree++, nodes += 2 * most - 1) {
        double largest[2];
        slopes(n, target, weight, offset, total, slope, slope + n);
        largest_sizes(n, slope, slope + n, largest);
        const double of_g = units(n, largest[0]), of_h = units(n, largest[1]);
        const Sums sum = put_together(n, slope, slope + n, largest, own, rows);
        all.ridge = settings[1] * of_h;
        all.least = settings[2] * of_h;
        leaves[0] = leaf_at(0, n, sum, 0, 0);
        const double worth = settings[3] * of_g * of_g / of_h * (SMALLER * SMALLER);
        const int64_t n_leaves = grow(&all, leaves, nodes, most, deepest, worth);
        for (int64_t k = 0; k < n_leaves; k++) {
            const Leaf *leaf = &leaves[k];
            const double g = gradients(leaf->all) / of_g, h = hessians(leaf->all) / of_h;
            const double value = settings[0] * (g / (h + settings[1]));
            nodes[leaf->node].value = value;
            for (int64_t i = 0; i < leaf->n; i++) total[rows[leaf->first + i]] += value;
        }
    }
}

/* Compute the gain of the best single split of all rows by each column. */
EXPORT void epiloss_single_splits(const uint8_t *codes, int64_t stride, int64_t n_columns, int64_t n,
                                  const double *gradient, const double *hessian, Sums *own,
                                  int32_t *rows, float *gain) {
    double largest[2];
    largest_sizes(n, gradient, hessian, largest);
    Sums bins[CODES];
    uint8_t last = NUMBERS - 1;
    const Sums sum = put_together(n, gradient, hessian, largest, own, rows);
    for (int32_t j = 0; j < n_columns; j++) {
        const Ground one = {codes, &j, stride, 1, own, bins, rows, 0, &last, 1.0, 0.5};
        Leaf leaf = leaf_at(0, n, sum, 0, 0);
        count(&one, bins, rows, n);
        scan(&one, &leaf);
        gain[j] = leaf.gain;
    }
}

/* Add table[column][code], summed over columns, to the totals of rows. */
EXPORT void epiloss_added_up(const uint8_t *codes, int64_t stride, int64_t n_columns, int64_t n,
                             const float *table, double *total) {
    for (int64_t first = 0; first < n; first += ROWS_AT_ONCE) {
        const int64_t m = n - first < ROWS_AT_ONCE ? n - first : ROWS_AT_ONCE;
        for (int64_t j = 0; j < n_columns; j++) {
            const uint8_t *column = codes + j * stride + first;
            const float *values = table + j * CODES;
            for (int64_t i = 0; i < m; i++) total[first + i] += values[column[i]];
        }
    }
}

/* For each column of a tree's splits and each code, the set of leaves (numbered from left to right) that
 * a row can reach. The leaf of a row is the first one in the intersection of its sets (QuickScorer;
 * Lucchese et al., 2015). */
typedef struct {
    int64_t n_features;
    int32_t features[MOST_LEAVES];
    uint64_t reach[MOST_LEAVES][CODES];
    double values[MOST_LEAVES];
} Exits;

static uint64_t *reach_of(Exits *exits, int32_t feature) {
    int64_t k = 0;
    while (k < exits->n_features && exits->features[k] != feature) k++;
    if (k == exits->n_features) {
        exits->features[k] = feature;
        exits->n_features++;
        memset(exits->reach[k], 0xff, sizeof exits->reach[k]);
    }
    return exits->reach[k];
}

static void read_tree(const BoostNode *nodes, Exits *exits) {
    int first[2 * MOST_LEAVES] = {0}, n_under[2 * MOST_LEAVES];
    int64_t n = 1;
    for (int64_t k = 0; k < n; k++)
        if (nodes[k].left + 2 > n) n = nodes[k].left + 2;
    for (int64_t k = n; k-- > 0;)
        n_under[k] = nodes[k].left < 0 ? 1 : n_under[nodes[k].left] + n_under[nodes[k].left + 1];
    exits->n_features = 0;
    for (int64_t k = 0; k < n; k++) {
        const BoostNode *node = &nodes[k];
        if (node->left < 0) {
            exits->values[first[k]] = node->value;
            continue;
        }
        first[node->left] = first[k];
        first[node->left + 1] = first[k] + n_under[node->left];
        const uint64_t right = ~((((uint64_t)1 << n_under[node->left]) - 1) << first[k]);
        uint64_t *reach = reach_of(exits, node->feature);
        for (int code = node->code + 1; code < NUMBERS; code++) reach[code] &= right;
        if (!node->missing_left) reach[MISSING] &= right;
    }
    while (exits->n_features % AT_ONCE) { /* pad with columns that exclude no leaf */
        exits->features[exits->n_features] = exits->features[0];
        memset(exits->reach[exits->n_features++], 0xff, sizeof exits->reach[0]);
    }
}

/* Add the value of its leaf to the total of each of m rows. */
static void add_exits(const Exits *exits, const uint8_t *codes, int64_t stride, const int32_t *rows,
                      int64_t m, double *total) {
    uint64_t open[ROWS_AT_ONCE];
    for (int64_t i = 0; i < m; i++) open[i] = ~(uint64_t)0;
    for (int64_t k = 0; k < exits->n_features; k += AT_ONCE) {
        const uint64_t(*reach)[CODES] = exits->reach + k;
        const uint8_t *a = codes + exits->features[k] * stride;
        const uint8_t *b = codes + exits->features[k + 1] * stride;
        const uint8_t *c = codes + exits->features[k + 2] * stride;
        const uint8_t *d = codes + exits->features[k + 3] * stride;
        for (int64_t i = 0; i < m; i++) {
            const int64_t row = rows ? rows[i] : i;
            open[i] &= reach[0][a[row]] & reach[1][b[row]] & reach[2][c[row]] & reach[3][d[row]];
        }
    }
    for (int64_t i = 0; i < m; i++) total[i] += exits->values[lowest_bit(open[i])];
}

/* Add the predictions of n_trees trees of n_nodes nodes to the totals of rows; without rows, to those of
 * the first n rows. Blocks of rows that fit into the cache go through all trees. */
EXPORT void epiloss_boosted(const uint8_t *codes, int64_t stride, const int32_t *rows, int64_t n,
                            const BoostNode *nodes, int64_t n_trees, int64_t n_nodes, double *total) {
    Exits exits;
    for (int64_t start = 0; start < n; start += ROWS_IN_CACHE) {
        const int64_t end = n - start < ROWS_IN_CACHE ? n : start + ROWS_IN_CACHE;
        for (int64_t tree = 0; tree < n_trees; tree++) {
            read_tree(nodes + tree * n_nodes, &exits);
            for (int64_t first = start; first < end; first += ROWS_AT_ONCE) {
                const int64_t m = end - first < ROWS_AT_ONCE ? end - first : ROWS_AT_ONCE;
                const uint8_t *own = rows ? codes : codes + first;
                add_exits(&exits, own, stride, rows ? rows + first : 0, m, total + first);
            }
        }
    }
}

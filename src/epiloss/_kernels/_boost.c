/* Boosted histogram trees on one-byte codes: many small trees, each of what the ones before have left.
 *
 * boosting.py says the same in NumPy and gives the same bits: gradients and hessians are summed as whole
 * numbers of 2^-20, and gains, values and probabilities are computed by the same floating-point
 * operations in the same order (built with -ffp-contract=off).
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

#define AT_ONCE 4        /* columns that are counted together */
#define SCALE 1048576.0  /* 2^20 */
#define LANES 16         /* rows that go down a tree together */
#define NUMBERS 63       /* codes but for that of missing values */

/* The sums of a code: gradients and hessians. */
#if defined(__GNUC__)
typedef int64_t Pair __attribute__((vector_size(16)));
#define PAIR(g, h) ((Pair){(g), (h)})
#define GRADIENT(pair) ((pair)[0])
#define HESSIAN(pair) ((pair)[1])
#define ADD(bin, pair) ((bin) += (pair))
#define SUBTRACT(bin, pair) ((bin) -= (pair))
#else
typedef struct {
    int64_t g, h;
} Pair;
static Pair make_pair(int64_t g, int64_t h) {
    Pair pair = {g, h};
    return pair;
}
#define PAIR(g, h) make_pair((g), (h))
#define GRADIENT(pair) ((pair).g)
#define HESSIAN(pair) ((pair).h)
#define ADD(bin, pair) ((bin).g += (pair).g, (bin).h += (pair).h)
#define SUBTRACT(bin, pair) ((bin).g -= (pair).g, (bin).h -= (pair).h)
#endif

/* A node: a leaf has no left child (-1); the right child is next to the left one. */
typedef struct {
    double value;
    int32_t left, feature;
    uint8_t code, missing_left;
} BoostNode;

/* A leaf that may be split, and the best split known of it. */
typedef struct {
    int64_t first, n, g, h, left_g, left_h;
    double gain;
    int32_t node, depth, place, column;
    uint8_t code, missing_left;
} Leaf;

typedef struct {
    const uint8_t *codes;
    const int32_t *columns;
    int64_t stride, n_columns;
    Pair *pairs, *bins;
    int32_t *rows, *spare;
    double ridge, least;
} Ground;

/* e^x by basic operations only, so that every implementation has the same bits. */
static double plain_exp(double x) {
    const double k = nearbyint(x * 1.4426950408889634);
    const double f = (x - k * 0.693145751953125) - k * 1.4286068203094172e-06;
    double series = 1.0;
    for (int i = 13; i > 0; i--) series = 1.0 + series * f / (double)i;
    return ldexp(series, (int)k);
}

static double plain_expit(double x) {
    const double near = x < -36.0 ? -36.0 : x > 36.0 ? 36.0 : x;
    return 1.0 / (1.0 + plain_exp(-near));
}

/* Add up the rows of each code, in four columns at a time. */
static void count_four(Pair (*bins)[CODES], const Ground *all, const int32_t *columns,
                       const int32_t *rows, int64_t n) {
    const uint8_t *a = all->codes + columns[0] * all->stride, *b = all->codes + columns[1] * all->stride;
    const uint8_t *c = all->codes + columns[2] * all->stride, *d = all->codes + columns[3] * all->stride;
    for (int64_t i = 0; i < n; i++) {
        const int32_t row = rows[i];
        const Pair pair = all->pairs[row];
        ADD(bins[0][a[row]], pair);
        ADD(bins[1][b[row]], pair);
        ADD(bins[2][c[row]], pair);
        ADD(bins[3][d[row]], pair);
    }
}

static void count(const Ground *all, Pair *bins, const int32_t *rows, int64_t n) {
    int64_t j = 0;
    memset(bins, 0, (size_t)(all->n_columns * CODES) * sizeof *bins);
    for (; j + AT_ONCE <= all->n_columns; j += AT_ONCE)
        count_four((Pair(*)[CODES])(bins + j * CODES), all, all->columns + j, rows, n);
    for (; j < all->n_columns; j++) {
        const uint8_t *column = all->codes + all->columns[j] * all->stride;
        for (int64_t i = 0; i < n; i++) ADD(bins[j * CODES + column[rows[i]]], all->pairs[rows[i]]);
    }
}

static inline double explained(double g, double h, double ridge) { return g * g / (h + ridge); }

/* Find the best split of a leaf. On a tie the first column wins, then missing values on the right, then
 * the lowest code. */
WIDE static void scan(const Ground *all, Leaf *leaf) {
    const double g = (double)leaf->g, h = (double)leaf->h, whole = explained(g, h, all->ridge);
    leaf->gain = 0.0;
    leaf->column = -1;
    for (int64_t j = 0; j < all->n_columns; j++) {
        const Pair *bins = all->bins + (leaf->place * all->n_columns + j) * CODES;
        double below_g[CODES], below_h[CODES], gain[CODES];
        int64_t sum_g = 0, sum_h = 0;
        for (int code = 0; code < NUMBERS; code++) {
            below_g[code] = (double)(sum_g += GRADIENT(bins[code]));
            below_h[code] = (double)(sum_h += HESSIAN(bins[code]));
        }
        const double missing_g = (double)GRADIENT(bins[MISSING]);
        const double missing_h = (double)HESSIAN(bins[MISSING]);
        const int present = missing_h > 0 || missing_g != 0; /* rows may weigh too little to count */
        for (int side = 0; side <= present; side++) {
            const double more_g = side ? missing_g : 0.0, more_h = side ? missing_h : 0.0;
            double top = leaf->gain;
            for (int code = 0; code < NUMBERS; code++) {
                const double left_g = below_g[code] + more_g, left_h = below_h[code] + more_h;
                const double right_g = g - left_g, right_h = h - left_h;
                const double both = explained(left_g, left_h, all->ridge) +
                                    explained(right_g, right_h, all->ridge) - whole;
                gain[code] = left_h >= all->least && right_h >= all->least ? both : -1.0;
            }
            for (int code = 0; code < NUMBERS; code++) top = gain[code] > top ? gain[code] : top;
            if (!(top > leaf->gain)) continue;
            int code = 0;
            while (gain[code] != top) code++;
            leaf->gain = top;
            leaf->column = (int32_t)j;
            leaf->code = (uint8_t)code;
            leaf->missing_left = (uint8_t)(present ? side : below_h[code] >= h - below_h[code]);
            leaf->left_g = (int64_t)(below_g[code] + more_g);
            leaf->left_h = (int64_t)(below_h[code] + more_h);
        }
    }
}

/* Move the rows of a leaf that go left to its front, in their order; return how many they are. */
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

static Leaf leaf_at(int64_t first, int64_t n, int64_t g, int64_t h, int64_t node, int32_t depth) {
    const Leaf leaf = {first, n, g, h, 0, 0, 0.0, (int32_t)node, depth, 0, -1, 0, 0};
    return leaf;
}

/* Look for the best splits of two children; the bins of their parent become those of the larger one. */
static void survey(const Ground *all, Leaf *a, Leaf *b, int32_t parent, int32_t place) {
    Leaf *small = a->n <= b->n ? a : b, *large = a->n <= b->n ? b : a;
    const int64_t width = all->n_columns * CODES;
    const int small_opens = (double)small->h >= 2 * all->least;
    const int large_opens = (double)large->h >= 2 * all->least;
    if (!small_opens && !large_opens) return;
    small->place = place;
    large->place = parent;
    Pair *own = all->bins + place * width, *rest = all->bins + parent * width;
    count(all, own, all->rows + small->first, small->n);
    if (small_opens) scan(all, small);
    if (!large_opens) return;
    for (int64_t k = 0; k < width; k++) SUBTRACT(rest[k], own[k]);
    scan(all, large);
}

/* Grow one tree, whose leaves are split in the order of what that explains; return its leaves. */
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
        Leaf a = leaf_at(leaf.first, n_left, leaf.left_g, leaf.left_h, n_nodes, leaf.depth + 1);
        Leaf b = leaf_at(leaf.first + n_left, leaf.n - n_left, leaf.g - leaf.left_g,
                         leaf.h - leaf.left_h, n_nodes + 1, leaf.depth + 1);
        /* the children of the last split stay leaves */
        if (n_leaves + 1 < most && a.depth < deepest)
            survey(all, &a, &b, leaf.place, (int32_t)n_leaves);
        leaves[best] = a;
        leaves[n_leaves++] = b;
        n_nodes += 2;
    }
    return n_leaves;
}

/* Boost n_trees trees. Without offset the target is a residual in units of the weight: trees are fitted
 * to target - weight * total with hessian weight. With offset (log-odds) the target is a label, and trees
 * climb the weighted log-likelihood. total, the sum of the trees for each row, begins with what it holds.
 *
 * settings: rate, ridge, least hessian of a leaf, least gain of a split. bins: (leaves, columns, 64);
 * nodes: (trees, 2 leaves - 1). */
EXPORT void epiloss_boost(const uint8_t *codes, int64_t stride, const int32_t *columns,
                          int64_t n_columns, int64_t n, const double *target, const double *weight,
                          const double *offset, double *total, const double *settings, int64_t n_trees,
                          int64_t most, int64_t deepest, Pair *pairs, int32_t *rows, int32_t *spare,
                          Pair *bins, Leaf *leaves, BoostNode *nodes) {
    const double rate = settings[0], ridge = settings[1] * SCALE, least = settings[2] * SCALE;
    const Ground all = {codes, columns, stride, n_columns, pairs, bins, rows, spare, ridge, least};
    for (int64_t tree = 0; tree < n_trees; tree++, nodes += 2 * most - 1) {
        int64_t g = 0, h = 0;
        for (int64_t i = 0; i < n; i++) {
            double gradient = target[i] - weight[i] * total[i], hessian = weight[i];
            if (offset) {
                const double p = plain_expit(offset[i] + total[i]);
                gradient = weight[i] * (target[i] - p);
                hessian = weight[i] * (p * (1.0 - p));
            }
            const int64_t whole_g = (int64_t)nearbyint(gradient * SCALE);
            const int64_t whole_h = (int64_t)nearbyint(hessian * SCALE);
            pairs[i] = PAIR(whole_g, whole_h);
            rows[i] = (int32_t)i;
            g += whole_g;
            h += whole_h;
        }
        leaves[0] = leaf_at(0, n, g, h, 0, 0);
        const int64_t n_leaves = grow(&all, leaves, nodes, most, deepest, settings[3] * SCALE);
        for (int64_t k = 0; k < n_leaves; k++) {
            const Leaf *leaf = &leaves[k];
            const double value = rate * ((double)leaf->g / ((double)leaf->h + ridge));
            nodes[leaf->node].value = value;
            for (int64_t i = 0; i < leaf->n; i++) total[rows[leaf->first + i]] += value;
        }
    }
}

/* Add the values of n_trees trees of so many nodes to the totals of rows, given by their codes. */
EXPORT void epiloss_boosted(const uint8_t *codes, int64_t stride, const int32_t *rows, int64_t n,
                            const BoostNode *nodes, int64_t n_trees, int64_t n_nodes, double *total) {
    for (int64_t first = 0; first < n; first += LANES) {
        const int64_t m = n - first < LANES ? n - first : LANES;
        double sum[LANES];
        for (int64_t i = 0; i < m; i++) sum[i] = total[first + i];
        for (int64_t tree = 0; tree < n_trees; tree++) {
            const BoostNode *root = nodes + tree * n_nodes;
            int32_t at[LANES] = {0};
            for (int moving = 1; moving;) {
                moving = 0;
                for (int64_t i = 0; i < m; i++) {
                    const BoostNode *node = &root[at[i]];
                    if (node->left < 0) continue;
                    const uint8_t code = codes[node->feature * stride + rows[first + i]];
                    const int is_left = code == MISSING ? node->missing_left : code <= node->code;
                    at[i] = node->left + !is_left;
                    moving = 1;
                }
            }
            for (int64_t i = 0; i < m; i++) sum[i] += root[at[i]].value;
        }
        for (int64_t i = 0; i < m; i++) total[first + i] = sum[i];
    }
}

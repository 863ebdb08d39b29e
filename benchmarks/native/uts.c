/* uts: count the nodes of an unbalanced tree that nobody knows before. A node is a SHA-1
 * state of 20 bytes; a child's is the hash of its parent's and of the child's number.
 * The last 31 bits, as a fraction u of 1, say how many children a node has:
 *
 *     geometric  floor(log(1 - u) / log(1 - 1 / (1 + b))) above depth d, none at d
 *     binomial   m if u < q, else none; the root has b of them
 *
 * (Olivier et al., "UTS: An Unbalanced Tree Search Benchmark", 2006.) Every child is
 * forked; no cut-off.
 *
 * size: which of the published trees: 1 is T1, 3 is T3, 13 is T3L, 0 a small binomial.
 * answer: nodes, leaves, depth.
 */
#include "native.h"

/* ---- SHA-1 (FIPS 180-4) of messages of less than 56 bytes, which are one block ---- */

enum { SHA1_BYTES = 20, SHA1_BLOCK = 64 };

static inline uint32_t rotate_left(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static inline uint32_t get_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline void put_word(uint8_t *bytes, uint32_t word)
{
    bytes[0] = (uint8_t)(word >> 24);
    bytes[1] = (uint8_t)(word >> 16);
    bytes[2] = (uint8_t)(word >> 8);
    bytes[3] = (uint8_t)word;
}

static inline uint32_t sha1_next_word(uint32_t w[16], int t)
{
    if (t >= 16) {
        w[t & 15] = rotate_left(w[(t + 13) & 15] ^ w[(t + 8) & 15] ^ w[(t + 2) & 15] ^ w[t & 15], 1);
    }
    return w[t & 15];
}

#define SHA1_ROUND(t, mix, constant)                                           \
    do {                                                                       \
        uint32_t next = rotate_left(a, 5) + (mix) + e + (constant) + sha1_next_word(w, t); \
        e = d, d = c, c = rotate_left(b, 30), b = a, a = next;                 \
    } while (0)

LEAF void sha1(const uint8_t *message, size_t length, uint8_t digest[SHA1_BYTES])
{
    uint8_t block[SHA1_BLOCK] = {0};
    uint32_t w[16];
    memcpy(block, message, length);
    block[length] = 0x80;
    put_word(block + SHA1_BLOCK - 4, (uint32_t)length * 8);
    for (int t = 0; t < 16; t++) {
        w[t] = get_word(block + 4 * t);
    }
    uint32_t a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, e = 0xc3d2e1f0;
#pragma GCC unroll 20
    for (int t = 0; t < 20; t++) {
        SHA1_ROUND(t, d ^ (b & (c ^ d)), 0x5a827999);
    }
#pragma GCC unroll 20
    for (int t = 20; t < 40; t++) {
        SHA1_ROUND(t, b ^ c ^ d, 0x6ed9eba1);
    }
#pragma GCC unroll 20
    for (int t = 40; t < 60; t++) {
        SHA1_ROUND(t, (b & c) | (d & (b | c)), 0x8f1bbcdc);
    }
#pragma GCC unroll 20
    for (int t = 60; t < 80; t++) {
        SHA1_ROUND(t, b ^ c ^ d, 0xca62c1d6);
    }
    put_word(digest, a + 0x67452301);
    put_word(digest + 4, b + 0xefcdab89);
    put_word(digest + 8, c + 0x98badcfe);
    put_word(digest + 12, d + 0x10325476);
    put_word(digest + 16, e + 0xc3d2e1f0);
}

/* ---- trees ---- */

typedef struct uts_tree {
    int64_t size;               /* what selects it */
    bool binomial;
    int depth;                  /* geometric: of the leaves at the bottom */
    double b;                   /* binomial: children of the root; geometric: expected ones */
    double q;
    int m;
    uint32_t seed;
} uts_tree_t;

static const uts_tree_t uts_trees[] = {
    {0, true, 0, 200, 0.1199, 8, 42},
    {1, false, 10, 4, 0, 0, 19},
    {3, true, 0, 2000, 0.124875, 8, 42},
    {13, true, 0, 2000, 0.200014, 5, 7},
};

typedef struct uts_node {
    const uts_tree_t *tree;
    int32_t depth;
    uint8_t state[SHA1_BYTES];
} uts_node_t;

/* What is below a node, and itself. */
typedef struct uts_counts {
    int64_t nodes, leaves, depth;
} uts_counts_t;

static inline int uts_children(const uts_node_t *node)
{
    const uts_tree_t *tree = node->tree;
    double u = (get_word(node->state + 16) & 0x7fffffff) / 2147483648.0;
    if (tree->binomial) {
        return node->depth == 0 ? (int)tree->b : u < tree->q ? tree->m : 0;
    }
    return node->depth < tree->depth ? (int)floor(log(1 - u) / log(1 - 1 / (1 + tree->b))) : 0;
}

static inline uts_node_t uts_child(const uts_node_t *parent, int number)
{
    uint8_t message[SHA1_BYTES + 4];
    uts_node_t child = {.tree = parent->tree, .depth = parent->depth + 1};
    memcpy(message, parent->state, SHA1_BYTES);
    put_word(message + SHA1_BYTES, (uint32_t)number);
    sha1(message, sizeof message, child.state);
    return child;
}

static inline uts_counts_t uts_begin(const uts_node_t *node, int children)
{
    return (uts_counts_t){1, children == 0, node->depth};
}

static inline void uts_add(uts_counts_t *counts, uts_counts_t more)
{
    counts->nodes += more.nodes;
    counts->leaves += more.leaves;
    counts->depth = counts->depth > more.depth ? counts->depth : more.depth;
}

static uts_counts_t uts_twin(uts_node_t node)
{
    int children = uts_children(&node);
    uts_counts_t counts = uts_begin(&node, children);
    for (int i = 0; i < children; i++) {
        uts_add(&counts, uts_twin(uts_child(&node, i)));
    }
    return counts;
}

FJ_TASK(uts_counts_t, uts, uts_node_t)
{
    int children = uts_children(&args);
    uts_counts_t counts = uts_begin(&args, children);
    for (int i = 0; i < children; i++) {
        uts_fork(worker, uts_child(&args, i));
    }
    for (int i = 0; i < children; i++) {
        uts_add(&counts, uts_join(worker));
    }
    return counts;
}

/* ---- the problem ---- */

static bool uts_set_up(problem_t *problem)
{
    uts_node_t *root = calloc(1, sizeof *root);
    for (size_t i = 0; root != NULL && i < sizeof uts_trees / sizeof uts_trees[0]; i++) {
        if (uts_trees[i].size == problem->size[0]) {
            uint8_t message[SHA1_BYTES] = {0};
            put_word(message + 16, uts_trees[i].seed);
            sha1(message, sizeof message, root->state);
            root->tree = &uts_trees[i];
            problem->data = root;
            return true;
        }
    }
    free(root);
    return false;
}

static void uts_done(problem_t *problem, uts_counts_t counts)
{
    problem->answer[0] = counts.nodes;
    problem->answer[1] = counts.leaves;
    problem->answer[2] = counts.depth;
}

static void uts_sequential(problem_t *problem)
{
    const uts_node_t *root = problem->data;
    uts_done(problem, uts_twin(*root));
}

static void uts_fork_join(fj_worker_t *worker, problem_t *problem)
{
    const uts_node_t *root = problem->data;
    uts_done(problem, uts(worker, *root));
}

static const program_t uts_program = {
    .name = "uts", .sizes = 1, .answers = 3, .set_up = uts_set_up, .tear_down = free_data,
    .sequential = uts_sequential, .fork_join = uts_fork_join,
};

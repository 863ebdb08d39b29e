/* cilksort: sort the quarters, merge them in pairs, merge the pairs. A merge puts the
 * median of the longer run in place and merges what is below and above it. Cut-offs, as
 * in Cilk-5: 2048 elements are sorted by quicksort (below 20: by insertion), and a merge
 * whose shorter run has fewer than 2048 is a loop.
 *
 * size: n. The input is 0 ... n - 1, shuffled. answer: how many elements are in place, n.
 */
#include "native.h"

enum { CILKSORT_QUICK = 2048, CILKSORT_MERGE = 2048, CILKSORT_INSERT = 20 };

typedef int32_t element_t;

typedef struct cilksort_data {
    element_t *shuffled, *array, *room;
} cilksort_data_t;

/* ---- the leaves ---- */

static void insertion_sort(element_t *array, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        element_t element = array[i];
        size_t at = i;
        for (; at > 0 && array[at - 1] > element; at--) {
            array[at] = array[at - 1];
        }
        array[at] = element;
    }
}

static inline element_t median_of(element_t a, element_t b, element_t c)
{
    element_t least = a < b ? a : b, most = a < b ? b : a;
    return c < least ? least : c > most ? most : c;
}

LEAF void quick_sort(element_t *array, size_t n)
{
    while (n >= CILKSORT_INSERT) {
        element_t pivot = median_of(array[0], array[n / 2], array[n - 1]);
        element_t *low = array, *high = array + n - 1;
        for (;; low++, high--) {
            while (*low < pivot) {
                low++;
            }
            while (*high > pivot) {
                high--;
            }
            if (low >= high) {
                break;
            }
            element_t one = *low;
            *low = *high;
            *high = one;
        }
        size_t below = (size_t)(high + 1 - array);
        quick_sort(array, below);            /* the other part goes on in the loop */
        array += below;
        n -= below;
    }
    insertion_sort(array, n);
}

/* Two sorted runs into one. */
typedef struct runs {
    const element_t *a, *b;
    element_t *to;
    uint32_t in_a, in_b;
} runs_t;

LEAF void merge_loop(runs_t runs)
{
    const element_t *a = runs.a, *b = runs.b, *end_a = a + runs.in_a, *end_b = b + runs.in_b;
    element_t *to = runs.to;
    while (a < end_a && b < end_b) {
        *to++ = *a <= *b ? *a++ : *b++;
    }
    memcpy(to, a, (size_t)(end_a - a) * sizeof *a);
    memcpy(to + (end_a - a), b, (size_t)(end_b - b) * sizeof *b);
}

/* How many of the n elements are less. */
LEAF uint32_t count_less(const element_t *array, uint32_t n, element_t than)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (array[mid] < than) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* False: it is a leaf. Else the median is in its place, and two merges are left. */
static bool merge_halve(runs_t whole, runs_t *below, runs_t *above)
{
    if (whole.in_a < whole.in_b) {
        whole = (runs_t){whole.b, whole.a, whole.to, whole.in_b, whole.in_a};
    }
    if (whole.in_b < CILKSORT_MERGE) {
        return false;
    }
    uint32_t half = whole.in_a / 2, less = count_less(whole.b, whole.in_b, whole.a[half]);
    whole.to[half + less] = whole.a[half];
    *below = (runs_t){whole.a, whole.b, whole.to, half, less};
    *above = (runs_t){whole.a + half + 1, whole.b + less, whole.to + half + less + 1,
                      whole.in_a - half - 1, whole.in_b - less};
    return true;
}

/* ---- the twin ---- */

typedef struct unsorted {
    element_t *array, *room;
    size_t n;
} unsorted_t;

/* Four quarters, the last one with the remainder. */
static inline unsorted_t quarter_of(unsorted_t whole, int which)
{
    size_t quarter = whole.n / 4, first = (size_t)which * quarter;
    return (unsorted_t){whole.array + first, whole.room + first, which < 3 ? quarter : whole.n - first};
}

/* The runs of two of the four quarters that lie next to each other, `first` and the next. */
static inline runs_t pair_of(unsorted_t whole, int first)
{
    unsorted_t a = quarter_of(whole, first), b = quarter_of(whole, first + 1);
    return (runs_t){a.array, b.array, a.room, (uint32_t)a.n, (uint32_t)b.n};
}

static inline runs_t pairs_of(unsorted_t whole)
{
    size_t half = whole.n / 4 * 2;
    return (runs_t){whole.room, whole.room + half, whole.array, (uint32_t)half,
                    (uint32_t)(whole.n - half)};
}

static void merge_twin(runs_t runs)
{
    runs_t below, above;
    if (!merge_halve(runs, &below, &above)) {
        merge_loop(runs);
        return;
    }
    merge_twin(below);
    merge_twin(above);
}

static void cilksort_twin(unsorted_t whole)
{
    if (whole.n <= CILKSORT_QUICK) {
        quick_sort(whole.array, whole.n);
        return;
    }
    for (int quarter = 0; quarter < 4; quarter++) {
        cilksort_twin(quarter_of(whole, quarter));
    }
    merge_twin(pair_of(whole, 0));
    merge_twin(pair_of(whole, 2));
    merge_twin(pairs_of(whole));
}

/* ---- fork/join ---- */

FJ_TASK(int, merge, runs_t)
{
    runs_t below, above;
    if (!merge_halve(args, &below, &above)) {
        merge_loop(args);
        return 0;
    }
    merge_fork(worker, above);
    (void)merge(worker, below);
    return merge_join(worker);
}

FJ_TASK(int, cilksort, unsorted_t)
{
    if (args.n <= CILKSORT_QUICK) {
        quick_sort(args.array, args.n);
        return 0;
    }
    for (int quarter = 3; quarter > 0; quarter--) {
        cilksort_fork(worker, quarter_of(args, quarter));
    }
    (void)cilksort(worker, quarter_of(args, 0));
    for (int quarter = 3; quarter > 0; quarter--) {
        (void)cilksort_join(worker);
    }
    merge_fork(worker, pair_of(args, 2));
    (void)merge(worker, pair_of(args, 0));
    (void)merge_join(worker);
    return merge(worker, pairs_of(args));
}

/* ---- the problem ---- */

static bool cilksort_set_up(problem_t *problem)
{
    size_t n = (size_t)problem->size[0];
    cilksort_data_t *data = calloc(1, sizeof *data);
    element_t *memory = malloc((3 * n + 1) * sizeof *memory);
    if (data == NULL || memory == NULL || problem->size[0] > INT32_MAX) {
        free(data);
        free(memory);
        return false;
    }
    *data = (cilksort_data_t){memory, memory + n, memory + 2 * n};
    uint64_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        size_t other = next_random(&seed) % (i + 1);
        memory[i] = memory[other];
        memory[other] = (element_t)i;
    }
    problem->data = data;
    return true;
}

static void cilksort_reset(problem_t *problem)
{
    cilksort_data_t *data = problem->data;
    memcpy(data->array, data->shuffled, (size_t)problem->size[0] * sizeof *data->array);
}

static unsorted_t cilksort_whole(const problem_t *problem)
{
    const cilksort_data_t *data = problem->data;
    return (unsorted_t){data->array, data->room, (size_t)problem->size[0]};
}

static void cilksort_sequential(problem_t *problem)
{
    cilksort_twin(cilksort_whole(problem));
}

static void cilksort_fork_join(fj_worker_t *worker, problem_t *problem)
{
    (void)cilksort(worker, cilksort_whole(problem));
}

static void cilksort_check(problem_t *problem)
{
    const cilksort_data_t *data = problem->data;
    for (int64_t i = 0; i < problem->size[0]; i++) {
        problem->answer[0] += data->array[i] == i;
    }
}

static void cilksort_tear_down(problem_t *problem)
{
    cilksort_data_t *data = problem->data;
    free(data->shuffled);                    /* and what follows it */
    free(data);
}

static const program_t cilksort_program = {
    .name = "cilksort", .sizes = 1, .answers = 1,
    .set_up = cilksort_set_up, .reset = cilksort_reset, .check = cilksort_check,
    .tear_down = cilksort_tear_down,
    .sequential = cilksort_sequential, .fork_join = cilksort_fork_join,
};

/* nqueens(n): how many ways there are to place n queens, none attacking another. One
 * byte a row; each safe place in the next row is a fork with a copy of the board. The
 * new queen is compared with all before it. No cut-off.
 *
 * size: n <= QUEENS_MOST. answer: the number of ways.
 */
#include "native.h"

enum { QUEENS_MOST = 20 };

typedef struct queens {
    int8_t n, placed;
    int8_t column[QUEENS_MOST];
} queens_t;

static inline bool queens_safe(const queens_t *board, int column)
{
    for (int row = 0; row < board->placed; row++) {
        int other = board->column[row], distance = board->placed - row;
        if (other == column || other == column - distance || other == column + distance) {
            return false;
        }
    }
    return true;
}

static inline queens_t queens_place(const queens_t *board, int column)
{
    queens_t next = *board;
    next.column[next.placed++] = (int8_t)column;
    return next;
}

static int64_t queens_twin(queens_t board)
{
    if (board.placed == board.n) {
        return 1;
    }
    int64_t ways = 0;
    for (int column = 0; column < board.n; column++) {
        if (queens_safe(&board, column)) {
            ways += queens_twin(queens_place(&board, column));
        }
    }
    return ways;
}

FJ_TASK(int64_t, queens, queens_t)
{
    if (args.placed == args.n) {
        return 1;
    }
    int forked = 0;
    for (int column = 0; column < args.n; column++) {
        if (queens_safe(&args, column)) {
            queens_fork(worker, queens_place(&args, column));
            forked++;
        }
    }
    int64_t ways = 0;
    while (forked-- > 0) {
        ways += queens_join(worker);
    }
    return ways;
}

static queens_t queens_empty(const problem_t *problem)
{
    queens_t board = {.n = (int8_t)problem->size[0]};
    return board;
}

static bool queens_set_up(problem_t *problem)
{
    return problem->size[0] <= QUEENS_MOST;
}

static void queens_sequential(problem_t *problem)
{
    problem->answer[0] = queens_twin(queens_empty(problem));
}

static void queens_fork_join(fj_worker_t *worker, problem_t *problem)
{
    problem->answer[0] = queens(worker, queens_empty(problem));
}

/* As a loop: the digits of i place the first four queens, most of them impossibly. */
enum { QUEENS_DIGITS = 4 };

static int queens_leaf(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    const problem_t *problem = data;
    int64_t ways = 0;
    (void)worker;
    for (int64_t i = lo; i < hi; i++) {
        queens_t board = queens_empty(problem);
        int64_t digits = i;
        while (board.placed < QUEENS_DIGITS && queens_safe(&board, (int)(digits % board.n))) {
            board = queens_place(&board, (int)(digits % board.n));
            digits /= board.n;
        }
        if (board.placed == QUEENS_DIGITS) {
            ways += queens_twin(board);
        }
    }
    value->i = ways;
    return 0;
}

static int queens_loop(problem_t *problem)
{
    int64_t n = problem->size[0];
    return sum_over(problem, n * n * n * n, queens_leaf);
}

static const program_t nqueens_program = {
    .name = "nqueens", .sizes = 1, .answers = 1, .set_up = queens_set_up,
    .sequential = queens_sequential, .fork_join = queens_fork_join, .loop = queens_loop,
};

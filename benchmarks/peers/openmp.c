/* fib and nqueens with OpenMP's tasks, as in ../native.
 *
 *     openmp PARALLELISM ROUNDS FIB_N QUEENS_N
 *
 * Prints key=value words, a line for each program and round.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <omp.h>

static int64_t fib(int n)
{
    int64_t left, right;
    if (n < 2) {
        return n;
    }
#pragma omp task shared(left)
    left = fib(n - 1);
    right = fib(n - 2);
#pragma omp taskwait
    return left + right;
}

typedef struct board {
    int8_t n, placed;
    int8_t column[20];
} board_t;

static bool is_safe(const board_t *board, int column)
{
    for (int row = 0; row < board->placed; row++) {
        int other = board->column[row], distance = board->placed - row;
        if (other == column || other == column - distance || other == column + distance) {
            return false;
        }
    }
    return true;
}

static int64_t queens(board_t board)
{
    int64_t ways[20] = {0}, sum = 0;
    if (board.placed == board.n) {
        return 1;
    }
    for (int column = 0; column < board.n; column++) {
        if (is_safe(&board, column)) {
            board_t next = board;
            next.column[next.placed++] = (int8_t)column;
#pragma omp task shared(ways) firstprivate(next, column)
            ways[column] = queens(next);
        }
    }
#pragma omp taskwait
    for (int column = 0; column < board.n; column++) {
        sum += ways[column];
    }
    return sum;
}

static void report(const char *program, int n, double begun, int64_t answer)
{
    double ms = (omp_get_wtime() - begun) * 1e3;
    printf("program=%s n=%d answer=%lld ms=%.3f\n", program, n, (long long)answer, ms);
}

int main(int count, char **words)
{
    if (count != 5) {
        return 2;
    }
    int rounds = atoi(words[2]), fib_n = atoi(words[3]), queens_n = atoi(words[4]);
    omp_set_num_threads(atoi(words[1]));
    printf("peer=OpenMP-%d\n", _OPENMP);
    for (int round = 0; round < rounds; round++) {
        int64_t answer = 0;
        double begun = omp_get_wtime();
#pragma omp parallel
#pragma omp single
        answer = fib(fib_n);
        report("fib", fib_n, begun, answer);
        board_t board = {(int8_t)queens_n, 0, {0}};
        begun = omp_get_wtime();
#pragma omp parallel
#pragma omp single
        answer = queens(board);
        report("nqueens", queens_n, begun, answer);
    }
    return 0;
}

// fib and nqueens with oneTBB's task_group, as in ../native.
//
//     tbb PARALLELISM ROUNDS FIB_N QUEENS_N
//
// Prints key=value words, a line for each program and round.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

static std::int64_t fib(int n)
{
    if (n < 2) {
        return n;
    }
    std::int64_t left = 0;
    tbb::task_group group;
    group.run([&left, n] { left = fib(n - 1); });
    std::int64_t right = fib(n - 2);
    group.wait();
    return left + right;
}

struct Board {
    std::int8_t n, placed;
    std::array<std::int8_t, 20> column;
};

static bool is_safe(const Board &board, int column)
{
    for (int row = 0; row < board.placed; row++) {
        int other = board.column[row], distance = board.placed - row;
        if (other == column || other == column - distance || other == column + distance) {
            return false;
        }
    }
    return true;
}

static std::int64_t queens(const Board &board)
{
    if (board.placed == board.n) {
        return 1;
    }
    std::array<std::int64_t, 20> ways{};
    tbb::task_group group;
    for (int column = 0; column < board.n; column++) {
        if (is_safe(board, column)) {
            Board next = board;
            next.column[next.placed++] = static_cast<std::int8_t>(column);
            group.run([next, to = &ways[column]] { *to = queens(next); });
        }
    }
    group.wait();
    std::int64_t sum = 0;
    for (std::int64_t one : ways) {
        sum += one;
    }
    return sum;
}

template <class Run> static void report(const char *program, int n, Run run)
{
    auto start = std::chrono::steady_clock::now();
    std::int64_t answer = run();
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    std::printf("program=%s n=%d answer=%lld ms=%.3f\n", program, n, static_cast<long long>(answer), ms.count());
}

int main(int count, char **words)
{
    if (count != 5) {
        return 2;
    }
    int parallelism = std::atoi(words[1]), rounds = std::atoi(words[2]);
    int fib_n = std::atoi(words[3]), queens_n = std::atoi(words[4]);
    std::printf("peer=oneTBB-%d.%d\n", TBB_VERSION_MAJOR, TBB_VERSION_MINOR);
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(parallelism));
    tbb::task_arena arena(parallelism);
    for (int round = 0; round < rounds; round++) {
        report("fib", fib_n, [&] { return arena.execute([&] { return fib(fib_n); }); });
        report("nqueens", queens_n, [&] {
            Board board{static_cast<std::int8_t>(queens_n), 0, {}};
            return arena.execute([&] { return queens(board); });
        });
    }
}

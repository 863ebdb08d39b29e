import java.util.Locale;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;
import java.util.function.LongSupplier;

/**
 * fib and nqueens with fork/join, as in ../native.
 *
 * <pre>java Classic.java [parallelism] [rounds] [fib n] [nqueens n]</pre>
 *
 * Prints key=value words, a line for each program and round.
 */
public class Classic {
    static class Fib extends RecursiveTask<Long> {
        final int n;

        Fib(int n) {
            this.n = n;
        }

        @Override
        protected Long compute() {
            if (n < 2) {
                return (long) n;
            }
            Fib left = new Fib(n - 1);
            left.fork();
            long right = new Fib(n - 2).compute();
            return right + left.join();
        }
    }

    static class Queens extends RecursiveTask<Long> {
        final byte[] board;
        final int placed;

        Queens(byte[] board, int placed) {
            this.board = board;
            this.placed = placed;
        }

        boolean isSafe(int column) {
            for (int row = 0; row < placed; row++) {
                int other = board[row];
                int distance = placed - row;
                if (other == column || other == column - distance || other == column + distance) {
                    return false;
                }
            }
            return true;
        }

        @Override
        protected Long compute() {
            int n = board.length;
            if (placed == n) {
                return 1L;
            }
            Queens[] forked = new Queens[n];
            int count = 0;
            for (int column = 0; column < n; column++) {
                if (isSafe(column)) {
                    byte[] next = board.clone();
                    next[placed] = (byte) column;
                    forked[count] = new Queens(next, placed + 1);
                    forked[count++].fork();
                }
            }
            long ways = 0;
            while (count > 0) {
                ways += forked[--count].join();
            }
            return ways;
        }
    }

    static void report(String program, int n, LongSupplier run) {
        long start = System.nanoTime();
        long answer = run.getAsLong();
        double ms = (System.nanoTime() - start) / 1e6;
        System.out.printf(Locale.ROOT, "program=%s n=%d answer=%d ms=%.3f%n", program, n, answer, ms);
    }

    public static void main(String[] args) {
        int parallelism = Integer.parseInt(args[0]);
        int rounds = Integer.parseInt(args[1]);
        int fib = Integer.parseInt(args[2]);
        int queens = Integer.parseInt(args[3]);
        System.out.printf("peer=Java-%s%n", System.getProperty("java.version"));
        ForkJoinPool pool = new ForkJoinPool(parallelism);
        for (int round = 0; round < rounds; round++) {
            report("fib", fib, () -> pool.invoke(new Fib(fib)));
            report("nqueens", queens, () -> pool.invoke(new Queens(new byte[queens], 0)));
        }
        pool.shutdown();
    }
}

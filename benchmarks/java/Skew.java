import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.RecursiveTask;

/**
 * The skew experiment in Java: equal chunks on a fixed pool, then fork/join.
 *
 * <pre>java Skew.java [parallelism] [rounds] [positions] [chunksize]</pre>
 *
 * Prints key=value words: one line about the JVM, then one line a round.
 */
public class Skew {
    static int positions = 4_000_000;
    static int chunksize = 20_000;

    static double priceBlock(int lo, int hi) {
        int dear = positions / 4;
        double sum = 0.0;
        for (int i = lo; i < hi; i++) {
            int rounds = i < dear ? 240 : 20;
            double x = i;
            for (int round = 0; round < rounds; round++) {
                x = Math.sqrt(x + round) * 1.0000001;
            }
            sum += x;
        }
        return sum;
    }

    static class Exposure extends RecursiveTask<Double> {
        final int lo;
        final int hi;
        final Map<String, Integer> leaves;

        Exposure(int lo, int hi, Map<String, Integer> leaves) {
            this.lo = lo;
            this.hi = hi;
            this.leaves = leaves;
        }

        @Override
        protected Double compute() {
            if (hi - lo <= chunksize) {
                leaves.merge(Thread.currentThread().getName(), 1, Integer::sum);
                return priceBlock(lo, hi);
            }
            int mid = (int) (((long) lo + hi) / 2);
            Exposure left = new Exposure(lo, mid, leaves);
            left.fork();
            double right = new Exposure(mid, hi, leaves).compute();
            return right + left.join();
        }
    }

    static double staticSplit(ExecutorService fixed, int parallelism) throws Exception {
        int chunk = positions / parallelism;
        List<Callable<Double>> parts = new ArrayList<>();
        for (int part = 0; part < parallelism; part++) {
            int lo = part * chunk;
            int hi = part == parallelism - 1 ? positions : lo + chunk;
            parts.add(() -> priceBlock(lo, hi));
        }
        double sum = 0.0;
        for (Future<Double> part : fixed.invokeAll(parts)) {
            sum += part.get();
        }
        return sum;
    }

    static double millisSince(long start) {
        return (System.nanoTime() - start) / 1e6;
    }

    static int argument(String[] args, int index, int otherwise) {
        return args.length > index ? Integer.parseInt(args[index]) : otherwise;
    }

    public static void main(String[] args) throws Exception {
        int processors = Runtime.getRuntime().availableProcessors();
        int parallelism = argument(args, 0, processors);
        int rounds = argument(args, 1, 3);
        positions = argument(args, 2, positions);
        chunksize = argument(args, 3, chunksize);
        System.out.printf("java=%s processors=%d%n", System.getProperty("java.version"), processors);

        for (int round = 1; round <= rounds; round++) {
            ExecutorService fixed = Executors.newFixedThreadPool(parallelism);
            long start = System.nanoTime();
            double split = staticSplit(fixed, parallelism);
            double staticMs = millisSince(start);
            fixed.shutdown();

            Map<String, Integer> leaves = new ConcurrentHashMap<>();
            ForkJoinPool pool = new ForkJoinPool(parallelism);
            start = System.nanoTime();
            double stolen = pool.invoke(new Exposure(0, positions, leaves));
            double forkJoinMs = millisSince(start);
            long steals = pool.getStealCount();
            pool.shutdown();

            List<String> counts = new ArrayList<>();
            new TreeMap<>(leaves).forEach((name, count) -> counts.add(name + ":" + count));
            System.out.printf(Locale.ROOT,
                    "round=%d p=%d static_ms=%.1f forkjoin_ms=%.1f ratio=%.2f steals=%d same_total=%b leaves=%s%n",
                    round, parallelism, staticMs, forkJoinMs, staticMs / forkJoinMs, steals,
                    Math.abs(split - stolen) < 1e-3 * Math.abs(split), String.join(",", counts));
        }
    }
}

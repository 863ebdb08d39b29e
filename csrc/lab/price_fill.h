/*
 * The body of one vector kernel.  price.c includes this file once for each instruction set, with
 *
 *     FILL_NAME     name of the function
 *     FILL_TARGET   its target attribute, or nothing
 *     FILL_VECTOR   the vector type: LANES doubles
 *     FILL_LANES    how many doubles that is
 *     FILL_INDEX    the vector 0.0, 1.0, ... LANES - 1
 *     FILL_SQRT     the square root of each lane
 *
 * A square root takes about 20 cycles until its result is there, but the next one can start after
 * 5 to 10.  So several independent vectors (up to 8) go through each round side by side.
 */
#define FILL_VECTORS (LAB_BLOCK / FILL_LANES < 8 ? LAB_BLOCK / FILL_LANES : 8)

FILL_TARGET
static void FILL_NAME(int64_t first, int rounds, double *out)
{
    for (int start = 0; start < LAB_BLOCK; start += FILL_VECTORS * FILL_LANES) {
        FILL_VECTOR x[FILL_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < FILL_VECTORS; v++)
            x[v] = FILL_INDEX + (double)(first + start + v * FILL_LANES);
        for (int round = 0; round < rounds; round++) {
#pragma GCC unroll 8
            for (int v = 0; v < FILL_VECTORS; v++)
                x[v] = FILL_SQRT(x[v] + (double)round) * PRICE_GROWTH;
        }
        memcpy(out + start, x, sizeof x);
    }
}

#undef FILL_NAME
#undef FILL_TARGET
#undef FILL_VECTOR
#undef FILL_LANES
#undef FILL_INDEX
#undef FILL_SQRT
#undef FILL_VECTORS

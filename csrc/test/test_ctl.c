/* test_ctl.c - the pool word: packing, unpacking, its successor. */
#include "fixture.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t counts[] = {0, 1, 2, 0x3fff, 0x4000, 0x7ffe, 0x7fff};
static const uint32_t versions[] = {0, 1, 0x1ffff, 0x20000, 0x3fffe, 0x3ffff};

static void check_fields(fj_ctl_t c, uint32_t active, uint32_t total, uint32_t version,
                         bool searching, uint32_t top)
{
    FJ_CHECK_EQ(fj_ctl_active(c), active);
    FJ_CHECK_EQ(fj_ctl_total(c), total);
    FJ_CHECK_EQ(fj_ctl_version(c), version);
    FJ_CHECK_EQ(fj_ctl_searching(c), searching);
    FJ_CHECK_EQ(fj_ctl_top(c), top);
}

/* Every field comes out as it went in, whatever the others hold. */
FJ_TEST(ctl, unpacking_gives_what_was_packed)
{
    for (size_t a = 0; a < LENGTH(counts); a++) {
        for (size_t t = 0; t < LENGTH(counts); t++) {
            for (size_t v = 0; v < LENGTH(versions); v++) {
                for (size_t s = 0; s < 2 * LENGTH(counts); s++) {
                    uint32_t top = counts[s / 2];
                    fj_ctl_t c = fj_ctl_pack(counts[a], counts[t], versions[v], s % 2, top);
                    check_fields(c, counts[a], counts[t], versions[v], s % 2, top);
                }
            }
        }
    }
}

/* The fields fill the word: as many workers as there are places, and no bit to spare. */
FJ_TEST(ctl, the_fields_fill_the_word)
{
    FJ_CHECK_EQ(fj_ctl_pack(FJ_MAX_WORKERS, FJ_MAX_WORKERS, 0x3ffff, true, FJ_MAX_WORKERS),
                UINT64_MAX);
    FJ_CHECK_EQ(fj_ctl_pack(0, 0, 0, false, 0), 0);
}

/* The successor's counts move by what was asked, top and searching are the new ones. */
FJ_TEST(ctl, next_moves_only_what_it_should)
{
    for (int active = -1; active <= 1; active++) {
        for (int total = -1; total <= 1; total++) {
            for (uint32_t bits = 0; bits < 4; bits++) {
                bool was = bits & 1, is = bits & 2;
                fj_ctl_t c = fj_ctl_pack(7, 0x4000, 41, was, 3);
                fj_ctl_t next = fj_ctl_next(c, active, total, is, 0x7fff);
                check_fields(next, (uint32_t)(7 + active), (uint32_t)(0x4000 + total), 42, is,
                             0x7fff);
            }
        }
    }
}

/* The version goes up with every change, and wraps without touching the counts beside it. */
FJ_TEST(ctl, the_version_wraps_in_its_bits)
{
    fj_ctl_t c = fj_ctl_pack(5, 6, 0x3ffff, true, 7);
    c = fj_ctl_next(c, 0, 0, true, 7);
    check_fields(c, 5, 6, 0, true, 7);
    c = fj_ctl_next(c, 0, 0, true, 7);
    check_fields(c, 5, 6, 1, true, 7);
}

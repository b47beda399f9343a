/* The load cell under the conveyor: median of the last samples, so that one jolt does not count. */
#include "weigh.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

int weigh_median(const int *samples, size_t count) {
    int *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return WEIGH_NO_MEMORY;
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    int median = sorted[count / 2];
    free(sorted);
    return median;
}

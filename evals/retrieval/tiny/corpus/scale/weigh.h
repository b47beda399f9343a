#ifndef WEIGH_H
#define WEIGH_H

#include <stddef.h>

#define WEIGH_NO_MEMORY (-1)

int weigh_median(const int *samples, size_t count);

#endif

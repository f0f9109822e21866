/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The core without floats. Each part has one public header: features (feature.h), models and model files (model.h),
 * admission (decide.h). Training (train.h), tuning of knobs (tune.h), readahead (readahead.h), placement (place.h) and
 * the ledger of writes (ledger.h) are included separately; the first two and placement use floats. Each of these headers
 * is complete by itself, in C and in C++. UNITS lists the units of each part.
 *
 * Functions that can fail return 0 or a negative LINNET_E_*, and leave every output untouched when they fail.
 * Nothing here allocates, locks, logs or keeps state of its own: the caller provides memory and serialises access to
 * each object that is not const.
 */
#ifndef LINNET_H
#define LINNET_H

#include "errors.h"
#include "port.h"

#include "feature.h"
#include "model.h"
#include "decide.h"

#endif

// SPDX-License-Identifier: MIT OR GPL-2.0-only
// How far late frames are from their places, RFC 4737: the structure and the steps of crates/wire/src/reordering.rs.
// Nothing here runs for a frame that is the next one.
#pragma once
#include "common.h"

#define GAPS 256
#define LOWS 16
#define COUNTS 122
#define EXACT 64

struct counts {
    u64 sum, maximum;
    u64 buckets[COUNTS];
};

struct gap {
    u64 first, arrival, received_ns;
};

struct low {
    u64 sequence, arrival;
};

struct out_of_order {
    struct counts extents, degrees;
    u64 late_ns_sum, late_ns_max;
    u64 forgotten, forgotten_degrees;
    u64 gap_count, low_count, low_dropped_arrival;
    struct gap gaps[GAPS];
    struct low lows[LOWS];
};

INLINE void count_value(struct counts *counts, u64 value)
{
    u32 bucket = value;
    if (value >= EXACT) {
        u64 rest = value;
        bucket = EXACT - 6;
        if (rest >> 32) { bucket += 32; rest >>= 32; }
        if (rest >> 16) { bucket += 16; rest >>= 16; }
        if (rest >> 8) { bucket += 8; rest >>= 8; }
        if (rest >> 4) { bucket += 4; rest >>= 4; }
        if (rest >> 2) { bucket += 2; rest >>= 2; }
        bucket += rest >> 1;
    }
    bucket = BOUNDED(bucket, 127);
    if (bucket < COUNTS)
        counts->buckets[bucket]++;
    counts->sum += value;
    if (value > counts->maximum)
        counts->maximum = value;
}

// A frame that skips numbers from `next` on, as the `arrival`th first arrival (from 1 on).
INLINE void skip(struct out_of_order *own, u64 next, u64 arrival, u64 now)
{
    struct gap *gap = &own->gaps[BOUNDED(own->gap_count, GAPS - 1)];
    gap->first = next;
    gap->arrival = arrival;
    gap->received_ns = now;
    own->gap_count++;
}

// The gap that a number was skipped in, newest first; null if it is not remembered.
INLINE struct gap *gap_of(struct out_of_order *own, u64 sequence)
{
    for (u32 back = 1; back <= GAPS; back++) {
        if (back > own->gap_count)
            return 0;
        struct gap *gap = &own->gaps[BOUNDED(own->gap_count - back, GAPS - 1)];
        if (gap->first <= sequence)
            return gap;
    }
    return 0;
}

// A reordered frame: its number was skipped.
INLINE void late(struct out_of_order *own, u64 sequence, u64 arrival, u64 now)
{
    u64 after_low = 0;
    struct gap *gap = gap_of(own, sequence);
    // Frames with smaller numbers than this one: the last of them ends its run of larger ones.
    for (u32 turn = 0; turn < LOWS; turn++) {
        if (!own->low_count)
            break;
        struct low *low = &own->lows[BOUNDED(own->low_count - 1, LOWS - 1)];
        if (low->sequence <= sequence) {
            after_low = low->arrival + 1;
            break;
        }
        own->low_count--;
    }
    if (!gap) {
        own->forgotten++;
    } else {
        u64 late_ns = now > gap->received_ns ? now - gap->received_ns : 0;
        count_value(&own->extents, arrival - gap->arrival);
        own->late_ns_sum += late_ns;
        if (late_ns > own->late_ns_max)
            own->late_ns_max = late_ns;
        if (!after_low && own->low_dropped_arrival >= gap->arrival)
            own->forgotten_degrees++;
        else
            count_value(&own->degrees, arrival - (after_low > gap->arrival ? after_low : gap->arrival));
    }
    if (own->low_count >= LOWS) {
        own->low_dropped_arrival = own->lows[0].arrival;
        for (u32 place = 1; place < LOWS; place++)
            own->lows[place - 1] = own->lows[place];
        own->low_count = LOWS - 1;
    }
    struct low *low = &own->lows[BOUNDED(own->low_count, LOWS - 1)];
    low->sequence = sequence;
    low->arrival = arrival;
    own->low_count++;
}

// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What both programs share: types, helper functions of the kernel by their numbers, byte order, histogram buckets.
// No header of the system is needed, so that clang alone builds the programs.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define SWAP16(value) __builtin_bswap16(value)
#define SWAP32(value) __builtin_bswap32(value)
#define SWAP64(value) __builtin_bswap64(value)

// struct xdp_md of the kernel's interface.
struct context {
    u32 data, data_end, data_meta, ingress_interface, queue, egress_interface;
};

enum { ABORTED, DROP, PASS, TRANSMIT, REDIRECT };

static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static u64 (*const monotonic_ns)(void) = (void *)5;
static u32 (*const processor)(void) = (void *)8;
static long (*const redirect_by_map)(const void *map, u64 key, u64 flags) = (void *)51;
static long (*const adjust_tail)(struct context *context, int delta) = (void *)65;
static long (*const load_bytes)(struct context *context, u32 offset, void *place, u32 bytes) = (void *)189;

// Keeps a number within a mask where the verifier sees it, whatever the compiler knows.
#define BOUNDED(value, mask)                                          \
    ({                                                                \
        u32 bounded = (value);                                        \
        asm volatile("%0 &= %1" : "+r"(bounded) : "i"(mask));         \
        bounded;                                                      \
    })

// Places in a test frame, from the start of the UDP header and of the payload.
#define ETHERNET_BYTES 14
#define TAG_BYTES 4
#define UDP_BYTES 8
#define MAGIC 0x5654
#define TRIAL 2
#define SOURCE 4
#define FLAGS 5
#define SEQUENCE 6
#define SENT 10
#define STAMPED_BYTES 18
// The send time was not read for this frame: it is that of an earlier one.
#define FLAG_EARLIER_TIME 1
// A frame that asks whether the peer takes redirected frames, and that every sink lets fall unseen.
#define ETHERTYPE_PROBE 0x88b5

// The histogram of crates/wire/src/histogram.rs: 64 buckets an octave.
#define BUCKETS 3776

INLINE u32 bucket_of(u64 value)
{
    u32 magnitude = 6;
    u64 rest = value >> 7;
    if (value < 64)
        return value;
    if (rest >> 32) { magnitude += 32; rest >>= 32; }
    if (rest >> 16) { magnitude += 16; rest >>= 16; }
    if (rest >> 8) { magnitude += 8; rest >>= 8; }
    if (rest >> 4) { magnitude += 4; rest >>= 4; }
    if (rest >> 2) { magnitude += 2; rest >>= 2; }
    if (rest >> 1) { magnitude += 1; rest >>= 1; }
    magnitude += rest;
    return (magnitude - 5) * 64 + ((value >> (magnitude - 6)) & 63);
}

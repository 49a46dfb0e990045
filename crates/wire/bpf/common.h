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
#define TRIAL 0
#define KIND 2
#define SENT 3
#define SEQUENCE 8
#define TAG 12
#define STAMPED_BYTES 18
// In the kind: a test frame's marker, the source's number, and whether the send time is that of an earlier frame.
#define MARKER 0xa0
#define MARKER_MASK 0xe0
#define SOURCE_MASK 0x0f
#define FLAG_EARLIER_TIME 0x10
#define SENT_MASK ((1ull << 40) - 1)
// A frame that asks whether the peer takes redirected frames, and that every sink lets fall unseen.
#define ETHERTYPE_PROBE 0x88b5

// SipHash's state with a source's key in it (crates/wire/src/frame/key.rs).
struct key {
    u64 words[4];
};

// The same with the first 8 bytes of a payload in it too. Flat out these stay for many frames.
struct begun {
    u64 head;
    u64 words[4];
};

#define ROTATE(value, bits) ((value) << (bits) | (value) >> (64 - (bits)))
#define ROUND(a, b, c, d)                                  \
    a += b; b = ROTATE(b, 13); b ^= a; a = ROTATE(a, 32);  \
    c += d; d = ROTATE(d, 16); d ^= c;                     \
    a += d; d = ROTATE(d, 21); d ^= a;                     \
    c += b; b = ROTATE(b, 17); b ^= c; c = ROTATE(c, 32);

INLINE void begin(struct begun *begun, const struct key *key, u64 head)
{
    u64 a = key->words[0], b = key->words[1], c = key->words[2], d = key->words[3] ^ head;
    ROUND(a, b, c, d)
    begun->head = head;
    begun->words[0] = a ^ head;
    begun->words[1] = b;
    begun->words[2] = c;
    begun->words[3] = d;
}

// A frame's tag: 48 bits of SipHash-1-3 (Aumasson and Bernstein 2012) of 15 bytes. They are the payload's first 8, its
// next 4, the length of the IP packet, big-endian, and a 0; `sequence` and `ip_bytes` are as they are in the frame. A
// head is never 0, so that it differs from that of a state that was never begun.
INLINE u64 tag_of(struct begun *begun, const struct key *key, u64 head, u32 sequence, u16 ip_bytes)
{
    if (UNLIKELY(begun->head != head))
        begin(begun, key, head);
    u64 rest = sequence | (u64)ip_bytes << 32 | 15ull << 56;
    u64 a = begun->words[0], b = begun->words[1], c = begun->words[2], d = begun->words[3] ^ rest;
    ROUND(a, b, c, d)
    a ^= rest;
    c ^= 0xff;
    ROUND(a, b, c, d)
    ROUND(a, b, c, d)
    ROUND(a, b, c, d)
    return (a ^ b ^ c ^ d) & ((1ull << 48) - 1);
}

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

// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The generator: run on frames that live in the kernel, it writes each frame anew and sends it out by redirect.
// Sources that share a core share one loop: each turn looks at the next of them. crates/wire/src/live_frames.rs fills the
// configuration in and reads the counts.
#include "common.h"

#define TOGETHER 16
#define SHAPES 16
#define SLOTS 128
#define HEADER_WORDS 9

// What the prepared words hold of the payload. All of it is written anew.
#define PREPARED 6

// A frame size: headers, and the sum over everything that does not change.
struct shape {
    u64 words[HEADER_WORDS];
    u32 sum;
    u32 frame_bytes;
    u32 ip_sum; // over the IPv4 header without checksum and destination, where there are several
    u32 ip_bytes; // length of the IP packet, as it is in the frame
};

struct source {
    // Configuration. The gap is gap_ns + gap_fraction / 2^32 nanoseconds.
    u64 limit_frames;
    u64 end_ns;
    u64 gap_ns;
    u64 gap_fraction;
    u64 shortest_gap_ns;
    u64 late_from_ns;
    u64 catch_up_ns;
    u64 time_every;
    u32 shapes;
    u32 slots;
    u32 largest_bytes;
    u16 first_port;
    u16 flows;
    u32 first_destination; // in the map of destinations
    u32 destinations;      // 0: the one in the shape
    struct key key;
    u64 head; // the first 8 bytes of the payload, with a send time of 0
    // State.
    u64 sequence;
    u64 due_ns;
    u64 due_fraction;
    u64 now_ns;
    u32 slot;
    u32 flow;
    u32 destination;
    u32 starts;
    struct begun begun;
    // Counts.
    u64 failed_frames;
    u64 skipped_frames;
    u64 late_frames;
    u64 late_max_ns;
    u64 idle_turns;
    u64 first_sent_ns;
    u64 last_sent_ns;
    u64 bursts_ns; // how long its bursts took
    u64 gap_squares_low;
    u64 gap_squares_high;
    u64 gap_min_ns;
    u64 gap_max_ns;
    u64 gaps[BUCKETS];
    struct shape shape[SHAPES];
    u8 shape_of_slot[SLOTS];
};

struct generator {
    u64 sources; // how many take turns, at least 1
    u64 turn;
    // In bursts: their length, the pause after each, and how many are left.
    u64 burst_ns;
    u64 pause_ns;
    u64 bursts;
    u64 begins_ns; // the next burst, at the earliest
    u64 began_ns;  // this burst; 0: none
    struct source source[TOGETHER];
};

struct generator generator;
struct { u32 unused; } devices SECTION("maps");
struct { u32 unused; } destinations SECTION("maps"); // IPv4 addresses as they are in a frame, one in 8 bytes

// Ones' complement sums over words of native byte order give the checksum in native byte order (RFC 1071, 2 B).
INLINE u16 fold_plain(u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

// UDP's: 0 would say that there is none.
INLINE u16 fold(u64 sum)
{
    u16 checksum = fold_plain(sum);
    return checksum ? checksum : 0xffff;
}

// Writes headers, numbers, time, tag and checksum. The frame's page may have been through a router, so all of it is anew.
INLINE int write_frame(struct context *context, struct source *own, u32 udp, u64 sequence, u64 sent_ns, u32 flags)
{
    struct shape *shape = &own->shape[0];
    if (UNLIKELY(own->slots > 1)) {
        shape = &own->shape[BOUNDED(own->shape_of_slot[BOUNDED(own->slot, SLOTS - 1)], SHAPES - 1)];
        if (++own->slot >= own->slots)
            own->slot = 0;
        if (shape->frame_bytes != own->largest_bytes
            && adjust_tail(context, (int)shape->frame_bytes - (int)own->largest_bytes))
            return -1;
    }
    u8 *frame = (u8 *)(long)context->data;
    u32 payload = udp + UDP_BYTES, prepared = payload + PREPARED;
    if (frame + payload + STAMPED_BYTES > (u8 *)(long)context->data_end)
        return -1;
    u64 *words = (u64 *)frame;
#pragma unroll
    for (u32 word = 0; word < prepared / 8; word++)
        words[word] = shape->words[word];
    if (prepared % 8)
        *(u32 *)(frame + prepared - 4) = *(u32 *)&shape->words[prepared / 8];
    u16 port = own->first_port;
    if (UNLIKELY(own->flows > 1)) {
        port += own->flow;
        if (++own->flow >= own->flows)
            own->flow = 0;
    }
    port = SWAP16(port);
    u32 address = 0;
    if (UNLIKELY(own->destinations > 0)) {
        u32 place = own->first_destination + own->destination;
        if (++own->destination >= own->destinations)
            own->destination = 0;
        u64 *known = map_lookup(&destinations, &place);
        if (!known)
            return -1;
        address = *known;
        *(u32 *)(frame + udp - 4) = address;
        *(u16 *)(frame + udp - 10) = fold_plain((u64)shape->ip_sum + address);
    }
    u32 number = SWAP32((u32)sequence);
    u64 head = own->head | flags << (8 * KIND) | SWAP64(sent_ns & SENT_MASK);
    u64 tag = tag_of(&own->begun, &own->key, head, number, shape->ip_bytes);
    *(u16 *)(frame + udp) = port;
    *(u64 *)(frame + payload) = head;
    *(u32 *)(frame + payload + SEQUENCE) = number;
    *(u32 *)(frame + payload + TAG) = tag;
    *(u16 *)(frame + payload + TAG + 4) = tag >> 32;
    *(u16 *)(frame + udp + 6) = fold((u64)shape->sum + address + port + (u32)head + (head >> 32) + number
                                     + (u32)tag + (tag >> 32));
    return 0;
}

INLINE int send(struct context *context, struct source *own, u32 place, u32 udp, u64 sequence, u64 sent_ns, u32 flags)
{
    own->sequence = sequence + 1;
    if (UNLIKELY(write_frame(context, own, udp, sequence, sent_ns, flags))) {
        own->failed_frames++;
        return DROP;
    }
    return redirect_by_map(&devices, place, 0);
}

// Whose turn it is, of several.
INLINE u32 take_turn(void)
{
    u32 place = generator.turn;
    generator.turn = place + 1 < generator.sources ? place + 1 : 0;
    return place;
}

// The configuration was written before the start. A processor that reads out of order, as Arm's do, could have read the
// rest before the start all the same: with its value in use, this is a full barrier on each of them.
INLINE void see_configuration(struct source *own)
{
    u32 before = __sync_fetch_and_add(&own->starts, 1);
    asm volatile("" : : "r"(before) : "memory");
}

// As fast as it goes; the clock is read for one frame of time_every.
INLINE int flat(struct context *context, struct source *own, u32 place, u32 udp)
{
    u64 sequence = own->sequence;
    if (UNLIKELY(sequence == 0)) {
        if (monotonic_ns() < own->due_ns) {
            own->idle_turns++;
            return DROP;
        }
        see_configuration(own);
    }
    if (UNLIKELY(sequence >= own->limit_frames))
        return DROP;
    u32 flags = FLAG_EARLIER_TIME;
    if ((sequence & (own->time_every - 1)) == 0) {
        u64 now = monotonic_ns();
        if (UNLIKELY(now >= own->end_ns))
            own->limit_frames = sequence + 1;
        if (!sequence)
            own->first_sent_ns = now;
        own->now_ns = own->last_sent_ns = now;
        flags = 0;
    }
    return send(context, own, place, udp, sequence, own->now_ns, flags);
}

INLINE void end_burst(struct source *own, u32 place, u64 now)
{
    own->bursts_ns += now - generator.began_ns;
    generator.turn = place + 1 < generator.sources ? place + 1 : 0;
    generator.begins_ns = now + generator.pause_ns;
    generator.began_ns = 0;
    generator.bursts--;
}

// As fast as it goes, for a burst; then nobody sends for a pause, in which what queues hold leaves them, and the next
// source has its burst. Each burst is of whole multiples of time_every frames.
INLINE int burst(struct context *context, struct source *own, u32 place, u32 udp)
{
    u64 sequence = own->sequence;
    if (UNLIKELY(generator.began_ns == 0)) {
        u64 now = monotonic_ns();
        if (now < generator.begins_ns || generator.bursts == 0) {
            generator.source[0].idle_turns++;
            return DROP;
        }
        see_configuration(own);
        generator.began_ns = now;
    }
    u32 flags = FLAG_EARLIER_TIME;
    if ((sequence & (own->time_every - 1)) == 0 || UNLIKELY(sequence >= own->limit_frames)) {
        u64 now = monotonic_ns();
        if (UNLIKELY(now - generator.began_ns >= generator.burst_ns)) {
            end_burst(own, place, now);
            return DROP;
        }
        if (UNLIKELY(sequence >= own->limit_frames))
            return DROP;
        if (!sequence)
            own->first_sent_ns = now;
        own->now_ns = own->last_sent_ns = now;
        flags = 0;
    }
    return send(context, own, place, udp, sequence, own->now_ns, flags);
}

INLINE void count_gap(struct source *own, u64 now)
{
    if (own->last_sent_ns == 0) {
        own->first_sent_ns = now;
        return;
    }
    u64 gap = now - own->last_sent_ns;
    u64 off = gap > own->gap_ns ? gap - own->gap_ns : own->gap_ns - gap;
    u64 square = off < 0xffffffff ? off * off : ~0ull;
    own->gap_squares_low += square;
    if (own->gap_squares_low < square)
        own->gap_squares_high++;
    if (gap > own->gap_max_ns)
        own->gap_max_ns = gap;
    if (gap < own->gap_min_ns)
        own->gap_min_ns = gap;
    u32 bucket = bucket_of(gap);
    if (bucket < BUCKETS)
        own->gaps[bucket]++;
}

INLINE void advance(struct source *own, u64 frames)
{
    u64 fraction = own->due_fraction + frames * own->gap_fraction;
    own->due_ns += frames * own->gap_ns + (fraction >> 32);
    own->due_fraction = fraction & 0xffffffff;
}

// The sender was away for longer than it may catch up: the frames that are too late are never sent.
INLINE void skip(struct source *own, u64 late_ns)
{
    u64 frames = (late_ns - own->catch_up_ns) / (own->gap_ns + 1) + 1;
    u64 left = own->limit_frames - own->sequence;
    if (frames > left)
        frames = left;
    own->skipped_frames += frames;
    own->sequence += frames;
    if (own->slots > 1)
        own->slot = own->sequence % own->slots;
    if (own->flows > 1)
        own->flow = own->sequence % own->flows;
    if (own->destinations > 0)
        own->destination = own->sequence % own->destinations;
    advance(own, frames & 0xffffffff);
}

// Each frame at its own due time; a turn that comes before it gives the frame back.
INLINE int paced(struct context *context, struct source *own, u32 place, u32 udp)
{
    u64 now = monotonic_ns();
    if (now < own->due_ns || now - own->last_sent_ns < own->shortest_gap_ns) {
        own->idle_turns++;
        return DROP;
    }
    if (UNLIKELY(own->last_sent_ns == 0))
        see_configuration(own);
    if (own->sequence >= own->limit_frames || now >= own->end_ns)
        return DROP;
    u64 late_ns = now - own->due_ns;
    if (UNLIKELY(late_ns > own->catch_up_ns)) {
        skip(own, late_ns);
        return DROP;
    }
    if (late_ns > own->late_max_ns)
        own->late_max_ns = late_ns;
    if (late_ns > own->late_from_ns)
        own->late_frames++;
    count_gap(own, now);
    own->last_sent_ns = now;
    advance(own, 1);
    return send(context, own, place, udp, own->sequence, now, 0);
}

// One source alone is at a place that the compiler knows.
#define PROGRAM(kind, name, udp)                                                          \
    SECTION("xdp/" #kind "_" #name) int kind##_##name(struct context *context)              \
    {                                                                                     \
        if (generator.sources <= 1)                                                       \
            return kind(context, &generator.source[0], 0, udp);                           \
        u32 place = BOUNDED(take_turn(), TOGETHER - 1);                                   \
        return kind(context, &generator.source[place], place, udp);                       \
    }
#define BURSTS(name, udp)                                                                 \
    SECTION("xdp/burst_" #name) int burst_##name(struct context *context)                   \
    {                                                                                     \
        u32 place = BOUNDED(generator.turn, TOGETHER - 1);                                \
        return burst(context, &generator.source[place], place, udp);                      \
    }
#define VARIANT(name, udp) PROGRAM(flat, name, udp) PROGRAM(paced, name, udp) BURSTS(name, udp)

VARIANT(4, ETHERNET_BYTES + 20)
VARIANT(4_tag, ETHERNET_BYTES + TAG_BYTES + 20)
VARIANT(6, ETHERNET_BYTES + 40)
VARIANT(6_tag, ETHERNET_BYTES + TAG_BYTES + 40)

// Sends the frame as it is: the probe. The times of its turns, which the histogram's room takes, say what a call costs.
SECTION("xdp/plain") int plain(struct context *context)
{
    struct source *own = &generator.source[0];
    u64 turn = own->idle_turns++;
    (void)context;
    if (turn < BUCKETS)
        own->gaps[turn] = monotonic_ns();
    return redirect_by_map(&devices, 0, 0);
}

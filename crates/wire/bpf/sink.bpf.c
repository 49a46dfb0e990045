// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The sink: counts test frames where the driver hands them over, and lets them fall. What is no test frame goes on to
// the stack. A receive queue is served by one processor at a time, so each queue has counts of its own and nothing is
// locked; only the bitmap of sequence numbers is shared. crates/wire/src/xdp_sink.rs adds the queues up.
#include "common.h"
#include "reordering.h"

#define SOURCES 16
#define QUEUES 64
#define SIZE_WORDS 32
#define CAPTURED_BYTES 1536
#define ABSENT_NS 10000000 // of a source that takes turns with others; no queue pauses for so long

struct expected {
    struct key key;
    u64 first_word;
    u64 capacity_frames;
    u16 first_port;
    u16 flows;
    u16 destination_port;
    u16 unused;
};

struct sink {
    u64 ip_sizes[SIZE_WORDS]; // a bit for each length of an IP packet that the trial sends
    struct expected expected[SOURCES];
    u32 sources;
    u32 capture_frames;
    u16 trial;
    u16 zero; // always; see hidden()
};

struct arrivals {
    u64 forwarded, duplicate, reordered;
    u64 next_sequence; // the largest that was seen, and one
    u64 first_ns, last_ns;
    u64 burst_first_ns, bursts_ns; // the first of a burst that is not over, and how long the others took
    u64 delay_count, delay_min_ns, delay_max_ns, delay_sum_ns;
    u64 variation_count, variation_max_ns, variation_sum_ns;
    u64 earlier_sequence, earlier_delay_ns;
    struct begun begun;
};

struct queue {
    u64 frames, foreign, late, forged, probes, processors, captured;
};

struct captured {
    u64 received_ns;
    u32 frame_bytes;
    u32 kept_bytes;
    u8 bytes[CAPTURED_BYTES];
};

struct sink sink;
struct { u32 unused; } seen SECTION("maps");
struct { u32 unused; } arrivals SECTION("maps");
struct { u32 unused; } orders SECTION("maps");
struct { u32 unused; } queues SECTION("maps");
struct { u32 unused; } histograms SECTION("maps");
struct { u32 unused; } captures SECTION("maps");

enum verdict { TEST, LATE, FORGED, FOREIGN };

INLINE void count_bucket(u32 histogram, u64 value)
{
    u32 index = histogram * BUCKETS + bucket_of(value);
    u64 *count = map_lookup(&histograms, &index);
    if (count)
        ++*count;
}

INLINE void count_delay(struct arrivals *own, u32 place, u64 sequence, u64 delay)
{
    own->delay_count++;
    own->delay_sum_ns += delay;
    if (delay < own->delay_min_ns || own->delay_count == 1)
        own->delay_min_ns = delay;
    if (delay > own->delay_max_ns)
        own->delay_max_ns = delay;
    count_bucket(place * 2, delay);
    if (own->earlier_sequence == sequence && own->delay_count > 1) {
        u64 earlier = own->earlier_delay_ns;
        u64 variation = delay > earlier ? delay - earlier : earlier - delay;
        own->variation_count++;
        own->variation_sum_ns += variation;
        if (variation > own->variation_max_ns)
            own->variation_max_ns = variation;
        count_bucket(place * 2 + 1, variation);
    }
    own->earlier_sequence = sequence + 1;
    own->earlier_delay_ns = delay;
}

// A frame that is not the next one: late, or one that skips numbers.
INLINE void enter_out_of_order(struct arrivals *own, u32 place, u64 sequence, u64 now)
{
    struct out_of_order *order = map_lookup(&orders, &place);
    if (!order)
        return;
    if (sequence < own->next_sequence) {
        own->reordered++;
        late(order, sequence, own->forwarded, now);
    } else {
        skip(order, own->next_sequence, own->forwarded, now);
        own->next_sequence = sequence + 1;
    }
}

// Enters the arrival of a frame that says it is this trial's; FOREIGN for a number that nobody sends.
INLINE enum verdict enter(u32 queue, u32 source, const u8 *payload, u32 ip_bytes)
{
    u32 number = *(u32 *)(payload + SEQUENCE);
    u64 sequence = SWAP32(number);
    struct expected *expected = &sink.expected[BOUNDED(source, SOURCES - 1)];
    u32 place = queue * sink.sources + source;
    struct arrivals *own = map_lookup(&arrivals, &place);
    if (!own)
        return FOREIGN;
    u64 tag = *(u32 *)(payload + TAG) | (u64)*(u16 *)(payload + TAG + 4) << 32;
    if (UNLIKELY(tag != tag_of(&own->begun, &expected->key, *(u64 *)payload, number, SWAP16(ip_bytes))))
        return FORGED;
    u32 word = expected->first_word + (sequence >> 6);
    u64 bit = 1ull << (sequence & 63);
    if (sequence >= expected->capacity_frames)
        return FOREIGN;
    u64 *bits = map_lookup(&seen, &word);
    if (!bits)
        return FOREIGN;
    u64 now = monotonic_ns();
    if (UNLIKELY(now - own->last_ns > ABSENT_NS)) {
        own->bursts_ns += own->last_ns - own->burst_first_ns;
        own->burst_first_ns = now;
    }
    if (!own->first_ns)
        own->first_ns = now;
    own->last_ns = now;
    if (__sync_fetch_and_or(bits, bit) & bit) {
        own->duplicate++;
        return TEST;
    }
    own->forwarded++;
    if (UNLIKELY(sequence != own->next_sequence))
        enter_out_of_order(own, place, sequence, now);
    else
        own->next_sequence = sequence + 1;
    if (!(payload[KIND] & FLAG_EARLIER_TIME)) {
        u64 delay = (now - SWAP64(*(u64 *)payload)) & SENT_MASK;
        // Stamps of two processors may say that it came before it was sent.
        count_delay(own, place, sequence, delay >> 39 ? 0 : delay);
    }
    return TEST;
}

// The same value, of which the verifier knows only that it is below a power of two. So what follows is verified once,
// and not for each way that leads to it: a quarter of the instructions, loaded in an eighth of the time.
INLINE u32 hidden(u32 value, u32 mask)
{
    return (value ^ sink.zero) & mask;
}

// Looks at a UDP packet by its header, in an IP packet of this length.
INLINE enum verdict examine(u32 queue, const u8 *udp, const u8 *end, u32 ip_bytes)
{
    const u8 *payload = udp + UDP_BYTES;
    if (payload + STAMPED_BYTES > end || (payload[KIND] & MARKER_MASK) != MARKER)
        return FOREIGN;
    if (*(u16 *)(payload + TRIAL) != SWAP16(sink.trial))
        return LATE;
    u32 source = payload[KIND] & SOURCE_MASK;
    if (source >= sink.sources || source >= SOURCES || ip_bytes >= SIZE_WORDS * 64)
        return FOREIGN;
    struct expected *expected = &sink.expected[BOUNDED(source, SOURCES - 1)];
    u16 port = SWAP16(*(u16 *)udp);
    u16 destination = SWAP16(*(u16 *)(udp + 2));
    if (!(sink.ip_sizes[BOUNDED(ip_bytes / 64, SIZE_WORDS - 1)] >> (ip_bytes & 63) & 1)
        || (u16)(port - expected->first_port) >= expected->flows || destination != expected->destination_port)
        return FOREIGN;
    return enter(queue, source, payload, ip_bytes);
}

// Length of the header of an IP packet that holds a whole UDP packet, and its own length; 0 for others.
INLINE u32 ip_header(const u8 *ip, const u8 *end, u16 type, u32 *ip_bytes)
{
    u32 room = end - ip;
    if (type == SWAP16(0x0800)) {
        if (ip + 28 > end || ip[0] != 0x45 || ip[9] != 17 || *(u16 *)(ip + 6) & SWAP16(0xbfff))
            return 0;
        *ip_bytes = SWAP16(*(u16 *)(ip + 2));
        return *ip_bytes == room && SWAP16(*(u16 *)(ip + 24)) + 20u == *ip_bytes ? 20 : 0;
    }
    if (type == SWAP16(0x86dd)) {
        if (ip + 48 > end || ip[0] >> 4 != 6 || ip[6] != 17)
            return 0;
        u32 datagram = SWAP16(*(u16 *)(ip + 4));
        *ip_bytes = datagram + 40;
        return *ip_bytes == room && SWAP16(*(u16 *)(ip + 44)) == datagram ? 40 : 0;
    }
    return 0;
}

// Looks at the packet in a frame whose link header is complete.
INLINE enum verdict examine_frame(u32 queue, const u8 *frame, const u8 *end)
{
    u32 link = ETHERNET_BYTES, ip_bytes = 0;
    u16 type = *(u16 *)(frame + 12);
    if (type == SWAP16(0x8100)) {
        link += TAG_BYTES;
        type = *(u16 *)(frame + 16);
    }
    u32 header = ip_header(frame + link, end, type, &ip_bytes);
    if (!header)
        return FOREIGN;
    return examine(queue, frame + hidden(link + header, 63), end, hidden(ip_bytes, 0xffff));
}

INLINE void capture(struct context *context, struct queue *queue)
{
    u32 number = queue->captured;
    if (number >= sink.capture_frames)
        return;
    struct captured *place = map_lookup(&captures, &number);
    u32 bytes = context->data_end - context->data;
    if (!place)
        return;
    place->received_ns = monotonic_ns();
    place->frame_bytes = bytes;
    if (bytes > CAPTURED_BYTES)
        bytes = CAPTURED_BYTES;
    // No frame is empty. The verifier of Linux 6.1 learns no least value from a comparison with 0; of a sum it does.
    u32 but_one = BOUNDED(bytes - 1, 2047);
    if (but_one >= CAPTURED_BYTES || load_bytes(context, 0, place->bytes, but_one + 1))
        return;
    place->kept_bytes = bytes;
    queue->captured = number + 1;
}

INLINE int take(struct context *context, int capturing)
{
    const u8 *frame = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
    u32 number = context->queue & (QUEUES - 1);
    struct queue *queue = map_lookup(&queues, &number);
    if (!queue)
        return PASS;
    queue->frames++;
    queue->processors |= 1ull << (processor() & 63);
    if (frame + ETHERNET_BYTES + TAG_BYTES > end) {
        queue->foreign++;
        return PASS;
    }
    u16 type = *(u16 *)(frame + 12);
    if (UNLIKELY(type == SWAP16(ETHERTYPE_PROBE))) {
        queue->probes++;
        return DROP;
    }
    if (capturing)
        capture(context, queue);
    frame = (u8 *)(long)context->data;
    end = (u8 *)(long)context->data_end;
    if (frame + ETHERNET_BYTES + TAG_BYTES > end)
        return PASS;
    enum verdict verdict = examine_frame(number, frame, end);
    if (verdict == TEST)
        return DROP;
    if (verdict == LATE)
        queue->late++;
    else if (verdict == FORGED)
        queue->forged++;
    else
        queue->foreign++;
    return verdict == FOREIGN ? PASS : DROP;
}

SECTION("xdp/count") int count(struct context *context)
{
    return take(context, 0);
}

SECTION("xdp/count_and_capture") int count_and_capture(struct context *context)
{
    return take(context, 1);
}

// Counts every frame and lets it fall, whatever it is: for other generators.
SECTION("xdp/count_any") int count_any(struct context *context)
{
    u32 number = context->queue & (QUEUES - 1);
    struct queue *queue = map_lookup(&queues, &number);
    if (queue)
        queue->frames++;
    return DROP;
}

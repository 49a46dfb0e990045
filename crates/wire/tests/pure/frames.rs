//! Frames: every size, any value, any damage.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;
use virtoll_wire::MacAddress;
use virtoll_wire::frame::{
    Composer, FrameError, FrameShape, Key, Layout, TestFrame, TestFrameRepr, delay_ns,
    frame_bytes_of, frame_size_of,
};
use virtoll_wire::icmp::{EchoKind, EchoRepr};

/// RFC 1071 as its text says it, one byte at a time: the check of the faster one in the crate.
fn plain_sum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut sum = 0_u32;
    for (index, byte) in bytes.iter().enumerate() {
        sum += u32::from(*byte) << if index % 2 == 0 { 8 } else { 0 };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn assert_valid(frame: &[u8]) {
    let ip = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    let ipv6 = frame[ip - 2..ip] == [0x86, 0xdd];
    let (addresses, udp) =
        if ipv6 { (ip + 8..ip + 40, ip + 40) } else { (ip + 12..ip + 20, ip + 20) };
    if !ipv6 {
        assert_eq!(plain_sum(&[&frame[ip..udp]]), 0xffff, "IPv4 header");
    }
    let length = ((frame.len() - udp) as u16).to_be_bytes();
    assert_eq!(plain_sum(&[&frame[addresses], &[0, 17], &length, &frame[udp..]]), 0xffff, "UDP");
    assert_ne!(frame[udp + 6..udp + 8], [0, 0], "UDP checksum must not be 0");
}

const KEY: Key = Key::new(*b"sixteen bytes of");
/// What a frame holds of a send time.
const SENT_MASK: u64 = (1 << 40) - 1;

/// A whole frame between two hosts; a test changes what it is about.
pub fn repr(frame_bytes: usize) -> TestFrameRepr {
    TestFrameRepr {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source_address: Ipv4Addr::new(10, 1, 0, 1).into(),
        destination_address: Ipv4Addr::new(10, 2, 0, 1).into(),
        source_port: 40_000,
        destination_port: 40_001,
        trial: 7,
        source: 2,
        sequence: 0x0506_0708,
        sent_monotonic_ns: 0x1416_1718,
        timed: true,
        frame_bytes,
    }
}

#[test]
fn every_size_is_valid_and_reads_back() {
    for frame_bytes in 60..=1514 {
        let mut bytes = vec![0xee; frame_bytes];
        repr(frame_bytes).emit(&mut bytes, &KEY).unwrap();
        assert_valid(&bytes);
        assert_eq!(TestFrameRepr::parse(&bytes, &KEY), Ok(repr(frame_bytes)));
    }
}

#[test]
fn two_families_and_wrong_numbers_are_refused() {
    let mixed = TestFrameRepr { destination_address: Ipv6Addr::LOCALHOST.into(), ..repr(200) };
    assert_eq!(mixed.emit(&mut [0; 200], &KEY), Err(FrameError::WrongAddresses));
    let beyond = TestFrameRepr { vlan: Some(4095), ..repr(200) };
    assert_eq!(beyond.emit(&mut [0; 200], &KEY), Err(FrameError::WrongAddresses));
    let mut tagged_bytes = [0; 200];
    TestFrameRepr { vlan: Some(5), ..repr(200) }.emit(&mut tagged_bytes, &KEY).unwrap();
    tagged_bytes[14..16].copy_from_slice(&[0x0f, 0xff]);
    let read = TestFrameRepr::parse(&tagged_bytes, &KEY);
    assert_eq!(read, Err(FrameError::WrongAddresses), "what cannot be written is not read either");
    let largest = TestFrameRepr { vlan: Some(4094), ..repr(200) };
    largest.emit(&mut tagged_bytes, &KEY).unwrap();
    assert_eq!(TestFrameRepr::parse(&tagged_bytes, &KEY), Ok(largest));
    let unknown = TestFrameRepr { source: 16, ..repr(200) };
    assert_eq!(unknown.emit(&mut [0; 200], &KEY), Err(FrameError::WrongAddresses));
    let tagged = TestFrameRepr { vlan: Some(5), ..repr(60) };
    assert_eq!(tagged.emit(&mut [0; 60], &KEY), Err(FrameError::Truncated));
    let ports = TestFrameRepr { source_port: 65_535, ..repr(60) };
    let beyond_ports = FrameShape { flows: 2, ..FrameShape::of_one(ports) };
    let no_flow = FrameShape { flows: 0, ..FrameShape::of_one(repr(60)) };
    let no_size = FrameShape { sizes: Vec::new(), ..FrameShape::of_one(repr(60)) };
    for shape in [beyond_ports, no_flow, no_size] {
        assert!(Composer::new(&shape).is_err(), "{shape:?}");
    }
}

/// What the sink looks at first: it knows other traffic by its headers, whatever the checksums are.
#[test]
fn other_headers_are_told_apart_without_a_checksum() {
    let of = |vlan: Option<u16>, ipv6: bool| {
        let addresses = (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        let (source_address, destination_address) = if ipv6 {
            addresses
        } else {
            (repr(100).source_address, repr(100).destination_address)
        };
        let repr = TestFrameRepr { vlan, source_address, destination_address, ..repr(100) };
        let mut bytes = vec![0; 100];
        repr.emit(&mut bytes, &KEY).unwrap();
        bytes
    };
    for vlan in [None, Some(5)] {
        let ip = if vlan.is_some() { 18 } else { 14 };
        let changes_4 = [
            (ip - 2, 0x86, FrameError::NotIp),
            (ip - 1, 0x06, FrameError::NotIp),
            (ip, 0x46, FrameError::NotIp),
            (ip, 0x65, FrameError::NotIp),
            (ip + 6, 0x20, FrameError::NotIp),
            (ip + 7, 0x01, FrameError::NotIp),
            (ip + 9, 6, FrameError::NotUdp),
            (ip + 3, 1, FrameError::NotUdp),
            (ip + 25, 1, FrameError::NotUdp),
            (ip + 30, 0x40, FrameError::WrongMarker),
            (ip + 30, 0xe0, FrameError::WrongMarker),
        ];
        let changes_6 = [
            (ip, 0x40, FrameError::NotIp),
            (ip + 6, 6, FrameError::NotUdp),
            (ip + 5, 1, FrameError::NotUdp),
            (ip + 45, 1, FrameError::NotUdp),
            (ip + 50, 0x40, FrameError::WrongMarker),
        ];
        for (ipv6, changes) in [(false, &changes_4[..]), (true, &changes_6[..])] {
            let whole = of(vlan, ipv6);
            assert!(TestFrame::new(&whole, 100).is_ok());
            for (place, value, error) in changes {
                let mut bytes = whole.clone();
                bytes[*place] = *value;
                assert_eq!(TestFrame::new(&bytes, 100).unwrap_err(), *error, "byte {place}");
            }
            let least = least(vlan.is_some(), ipv6);
            assert!(TestFrame::new(&whole[..least], 100).is_ok(), "captured as far as it is read");
            assert_eq!(
                TestFrame::new(&whole[..least - 1], 100).unwrap_err(),
                FrameError::Truncated
            );
            for frame_bytes in [99, 101] {
                let error = TestFrame::new(&whole, frame_bytes).unwrap_err();
                assert_eq!(error, FrameError::Truncated, "its headers say 100 bytes");
            }
        }
    }
}

#[test]
fn a_frame_that_came_before_it_was_sent_has_no_delay() {
    assert_eq!(delay_ns(1_000, 1_000), 0);
    assert_eq!(delay_ns(1_000, 999), 0, "stamps of two CPUs");
    assert_eq!(delay_ns(SENT_MASK, 1 << 40), 1, "over the end of 40 bits");
    assert_eq!(delay_ns(0, (1 << 39) - 1), (1 << 39) - 1, "the longest");
    assert_eq!(delay_ns(0, 1 << 39), 0);
}

#[test]
fn the_simple_mix_grows_with_the_headers() {
    let mix = |tagged, ipv6| Layout { tagged, ipv6 }.imix().map(|(size, _)| size);
    assert_eq!(Layout::default().imix(), [(64, 7), (594, 4), (1_518, 1)]);
    assert_eq!(mix(true, false), [68, 594, 1_518]);
    assert_eq!(mix(false, true), [84, 594, 1_518]);
    assert_eq!(mix(true, true), [88, 594, 1_518]);
    assert_eq!(
        (frame_bytes_of(64), frame_bytes_of(4), frame_bytes_of(3)),
        (Some(60), Some(0), None)
    );
    assert_eq!(frame_size_of(60), 64);
}

#[test]
fn a_shape_tells_its_sizes_with_and_without_its_headers() {
    let tagged = TestFrameRepr { vlan: Some(5), ..repr(64) };
    let shape = FrameShape { sizes: vec![64, 1_514], flows: 3, ..FrameShape::of_one(tagged) };
    assert_eq!(shape.frame_sizes(), [68, 1_518]);
    assert!(shape.ip_bytes().eq([46, 1_496]));
    let composer = Composer::new(&shape).unwrap();
    assert_eq!((composer.ports(), composer.largest_bytes()), ((40_000, 3), 1_514));
    assert_eq!(composer.layout(), Layout { tagged: true, ipv6: false });
    assert!(composer.destinations().is_empty());
}

#[test]
fn as_many_sizes_ports_and_slots_as_there_are_are_taken_and_no_more() {
    let composed = |sizes: Vec<usize>, flows: u16, source_port: u16| {
        let repr = TestFrameRepr { source_port, ..repr(60) };
        Composer::new(&FrameShape { sizes, flows, ..FrameShape::of_one(repr) }).err()
    };
    assert_eq!(composed((60..76).collect(), 1, 1), None, "16 sizes");
    assert_eq!(composed((60..77).collect(), 1, 1), Some(FrameError::Truncated));
    assert_eq!(composed(vec![60; 128], 1, 1), None, "128 slots");
    assert_eq!(composed(vec![60; 129], 1, 1), Some(FrameError::Truncated));
    assert_eq!(composed(vec![60], 2, 65_534), None, "up to port 65535");
    assert_eq!(composed(vec![60], 3, 65_534), Some(FrameError::WrongAddresses));
}

/// To a sum of ones' complements a 0 is as good as the 0xffff that stands for it; to UDP it means that there is none.
#[test]
fn a_frame_without_a_udp_checksum_is_refused() {
    let without = TestFrameRepr { source_port: 0, ..repr(60) };
    let mut bytes = [0; 60];
    without.emit(&mut bytes, &KEY).unwrap();
    // With what the checksum makes up for as a port, the sum is 0xffff.
    let source_port = u16::from_be_bytes([bytes[40], bytes[41]]);
    TestFrameRepr { source_port, ..without }.emit(&mut bytes, &KEY).unwrap();
    assert_eq!(bytes[40..42], [0xff; 2]);
    assert!(TestFrameRepr::parse(&bytes, &KEY).is_ok());
    bytes[40..42].fill(0);
    assert_eq!(TestFrameRepr::parse(&bytes, &KEY), Err(FrameError::WrongChecksum));
}

#[test]
fn a_secret_is_never_printed() {
    assert_eq!(format!("{KEY:?}"), "Key(..)");
}

#[test]
fn the_payload_is_big_endian_at_its_place() {
    let mut bytes = [0; 80];
    repr(80).emit(&mut bytes, &KEY).unwrap();
    assert_eq!(bytes[42..45], [0, 7, 0xa2]);
    assert_eq!(bytes[45..50], [0, 0x14, 0x16, 0x17, 0x18]);
    assert_eq!(bytes[50..54], [5, 6, 7, 8]);
    assert_eq!(bytes[18..24], [0, 0, 0x40, 0, 64, 17], "identification 0, DF, TTL 64, UDP");
}

#[test]
fn sizes_outside_the_range_are_refused() {
    for frame_bytes in [0, 59, 1515] {
        let mut bytes = vec![0; 2_000];
        assert_eq!(repr(frame_bytes).emit(&mut bytes, &KEY), Err(FrameError::Truncated));
    }
    assert_eq!(repr(100).emit(&mut [0; 99], &KEY), Err(FrameError::Truncated));
}

/// The smallest frame by its headers: (tagged, IPv6).
fn least(tagged: bool, ipv6: bool) -> usize {
    60 + if tagged { 4 } else { 0 } + if ipv6 { 20 } else { 0 }
}

fn any_addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(source, destination)| {
            (Ipv4Addr::from_bits(source).into(), Ipv4Addr::from_bits(destination).into())
        }),
        any::<(u128, u128)>().prop_map(|(source, destination)| {
            (Ipv6Addr::from_bits(source).into(), Ipv6Addr::from_bits(destination).into())
        }),
    ]
}

fn any_repr() -> impl Strategy<Value = TestFrameRepr> {
    let link =
        (any::<[u8; 6]>(), any::<[u8; 6]>(), prop::option::of(0_u16..=4094), any_addresses());
    let numbers = (any::<u16>(), any::<u16>(), any::<u16>(), 0_u8..16, any::<u32>(), 0..=SENT_MASK);
    (link, numbers, any::<bool>(), 0_usize..=1454).prop_map(|(link, numbers, timed, size)| {
        let (source_address, destination_address) = link.3;
        TestFrameRepr {
            source_mac: MacAddress(link.0),
            destination_mac: MacAddress(link.1),
            vlan: link.2,
            source_address,
            destination_address,
            source_port: numbers.0,
            destination_port: numbers.1,
            trial: numbers.2,
            source: numbers.3,
            sequence: numbers.4.into(),
            sent_monotonic_ns: numbers.5,
            timed,
            frame_bytes: (60 + size).max(least(link.2.is_some(), source_address.is_ipv6())),
        }
    })
}

/// The tag as the paper's own reference has it for these bytes: SipHash-1-3 of the head, the length and a zero.
#[test]
fn the_tag_is_six_bytes_of_siphash() {
    let mut bytes = [0; 80];
    repr(80).emit(&mut bytes, &KEY).unwrap();
    let message: Vec<u8> = bytes[42..54].iter().chain(&[0, 66, 0]).copied().collect();
    let hash = plain_siphash_1_3(b"sixteen bytes of", &message);
    assert_eq!(bytes[54..60], hash.to_le_bytes()[..6]);
}

/// Aumasson and Bernstein 2012, 2.1 to 2.3, as its text says it: the check of the library's.
fn plain_siphash_1_3(key: &[u8; 16], message: &[u8]) -> u64 {
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let (low, high) = (word(&key[..8]), word(&key[8..]));
    let mut v = [
        low ^ u64::from_be_bytes(*b"somepseu"),
        high ^ u64::from_be_bytes(*b"dorandom"),
        low ^ u64::from_be_bytes(*b"lygenera"),
        high ^ u64::from_be_bytes(*b"tedbytes"),
    ];
    let round = |v: &mut [u64; 4]| {
        for (first, second, bits, turned) in
            [(0, 1, 13, true), (2, 3, 16, false), (0, 3, 21, false), (2, 1, 17, true)]
        {
            v[first] = v[first].wrapping_add(v[second]);
            v[second] = v[second].rotate_left(bits) ^ v[first];
            if turned {
                v[first] = v[first].rotate_left(32);
            }
        }
    };
    let mut padded = message.to_vec();
    padded.resize(message.len() / 8 * 8 + 7, 0);
    padded.push(message.len() as u8);
    for block in padded.chunks(8) {
        v[3] ^= word(block);
        round(&mut v);
        v[0] ^= word(block);
    }
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

proptest! {
    #[test]
    fn any_value_reads_back(repr in any_repr()) {
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes, &KEY).unwrap();
        assert_valid(&bytes);
        prop_assert_eq!(TestFrameRepr::parse(&bytes, &KEY), Ok(repr));
        prop_assert_eq!(TestFrameRepr::parse(&bytes, &Key::PUBLIC), Err(FrameError::WrongTag));
    }

    #[test]
    fn composing_is_the_same_as_writing_anew(
        repr in any_repr(), other in 84_usize..=1514, numbers in prop::collection::vec(any::<(u32, u64, bool)>(), 1..8), flows in 1_u16..9,
    ) {
        let first_port = repr.source_port.min(u16::MAX - 8);
        let repr = TestFrameRepr { source_port: first_port, ..repr };
        for sizes in [vec![repr.frame_bytes], vec![repr.frame_bytes, other, other]] {
            let shape = FrameShape { sizes: sizes.clone(), flows, key: KEY, ..FrameShape::of_one(repr) };
            let composer = Composer::new(&shape).unwrap();
            let mut place = vec![0; composer.largest_bytes()];
            composer.prepare(&mut place);
            for (sequence, sent_monotonic_ns, timed) in &numbers {
                let sequence = &u64::from(*sequence);
                let frame_bytes = sizes[(sequence % sizes.len() as u64) as usize];
                prop_assert_eq!(composer.frame_bytes(*sequence), frame_bytes);
                let frame = &mut place[..frame_bytes];
                composer.compose(frame, *sequence, *sent_monotonic_ns, *timed);
                let source_port = first_port + (sequence % u64::from(flows)) as u16;
                let wanted = TestFrameRepr {
                    sequence: *sequence, sent_monotonic_ns: *sent_monotonic_ns, timed: *timed, frame_bytes, source_port, ..repr
                };
                let mut written = vec![0; frame_bytes];
                wanted.emit(&mut written, &KEY).unwrap();
                prop_assert_eq!(&*frame, written.as_slice());
            }
        }
    }

    #[test]
    fn frames_to_several_destinations_are_the_same_as_written_anew(
        repr in any_repr(), addresses in prop::collection::vec(any::<u32>(), 1..9), numbers in prop::collection::vec((any::<u32>().prop_map(u64::from), any::<u64>()), 1..8),
    ) {
        let destinations: Arc<[Ipv4Addr]> = addresses.iter().map(|bits| Ipv4Addr::from_bits(*bits)).collect();
        let shape = FrameShape { destinations: Arc::clone(&destinations), key: KEY, ..FrameShape::of_one(repr) };
        let composer = Composer::new(&shape);
        if repr.layout().ipv6 {
            prop_assert!(composer.is_err());
            return Ok(());
        }
        let composer = composer.unwrap();
        prop_assert_eq!(composer.destinations(), &*destinations);
        let mut frame = vec![0; repr.frame_bytes];
        composer.prepare(&mut frame);
        for (sequence, sent_monotonic_ns) in numbers {
            composer.compose(&mut frame, sequence, sent_monotonic_ns, true);
            let destination = destinations[(sequence % destinations.len() as u64) as usize];
            let wanted = TestFrameRepr {
                sequence, sent_monotonic_ns, timed: true, destination_address: destination.into(), ..repr
            };
            let mut written = vec![0; repr.frame_bytes];
            wanted.emit(&mut written, &KEY).unwrap();
            prop_assert_eq!(&frame, &written);
        }
    }

    #[test]
    fn one_wrong_bit_behind_the_link_header_is_seen(repr in any_repr(), place: prop::sample::Index, bit in 0_u8..8) {
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes, &KEY).unwrap();
        let first = repr.layout().ip();
        let at = first + place.index(repr.frame_bytes - first);
        // IPv6 has no checksum over traffic class, flow label and hop limit, as routers change them.
        prop_assume!(!repr.layout().ipv6 || !matches!(at - first, 0..=3 | 7));
        bytes[at] ^= 1 << bit;
        prop_assert!(TestFrameRepr::parse(&bytes, &KEY).is_err(), "bit {} of byte {}", bit, at);
    }

    #[test]
    fn no_number_can_be_changed_without_the_key(repr in any_repr(), place in 0_usize..18, bit in 0_u8..8) {
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes, &KEY).unwrap();
        let payload = repr.layout().payload();
        // The marker says that it is a test frame at all.
        prop_assume!(place != 2 || bit < 5);
        bytes[payload + place] ^= 1 << bit;
        let changed = TestFrame::new(&bytes, bytes.len()).unwrap();
        prop_assert!(!changed.is_of(&KEY), "bit {} of byte {}", bit, place);
    }

    #[test]
    fn a_frame_cannot_be_made_longer_or_shorter_without_the_key(repr in any_repr(), other in 84_usize..=1514) {
        prop_assume!(other != repr.frame_bytes);
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes, &KEY).unwrap();
        let mut longer = vec![0; other];
        TestFrameRepr { frame_bytes: other, ..repr }.emit(&mut longer, &Key::PUBLIC).unwrap();
        let stamp = repr.layout().payload()..repr.layout().payload() + 18;
        longer[stamp.clone()].copy_from_slice(&bytes[stamp]);
        prop_assert!(!TestFrame::new(&longer, other).unwrap().is_of(&KEY));
    }

    #[test]
    fn delays_come_back_from_forty_bits(received_ns: u64, delay in 0_u64..1 << 39) {
        let sent_ns = received_ns.saturating_sub(delay);
        prop_assert_eq!(delay_ns(sent_ns & SENT_MASK, received_ns), received_ns - sent_ns);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..1600), length in 0_usize..2000) {
        let _ = TestFrame::new(&bytes, length);
        let _ = TestFrameRepr::parse(&bytes, &KEY);
        let _ = EchoRepr::parse(&bytes);
    }

    #[test]
    fn an_echo_reads_back(identifier: u16, sequence: u16, reply: bool, source: u32, target: u32) {
        let echo = EchoRepr {
            kind: if reply { EchoKind::Reply } else { EchoKind::Request },
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            source_address: Ipv4Addr::from_bits(source),
            destination_address: Ipv4Addr::from_bits(target),
            identifier,
            sequence,
        };
        let frame = echo.emit();
        prop_assert_eq!(EchoRepr::parse(&frame), Some(echo));
        prop_assert_eq!(plain_sum(&[&frame[14..34]]), 0xffff);
        prop_assert_eq!(plain_sum(&[&frame[34..]]), 0xffff);
    }
}

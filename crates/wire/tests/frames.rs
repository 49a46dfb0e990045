//! Frames: every size, any value, any damage.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;
use virtoll_wire::MacAddress;
use virtoll_wire::frame::{Composer, FrameError, FrameShape, TestFrame, TestFrameRepr};
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

fn repr(frame_bytes: usize) -> TestFrameRepr {
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
        sent_monotonic_ns: 0x1112_1314_1516_1718,
        timed: true,
        frame_bytes,
    }
}

#[test]
fn every_size_is_valid_and_reads_back() {
    for frame_bytes in 60..=1514 {
        let mut bytes = vec![0xee; frame_bytes];
        repr(frame_bytes).emit(&mut bytes).unwrap();
        assert_valid(&bytes);
        assert_eq!(TestFrameRepr::parse(&bytes), Ok(repr(frame_bytes)));
    }
}

#[test]
fn two_families_and_wrong_numbers_are_refused() {
    let mixed = TestFrameRepr { destination_address: Ipv6Addr::LOCALHOST.into(), ..repr(200) };
    assert_eq!(mixed.emit(&mut [0; 200]), Err(FrameError::WrongAddresses));
    let beyond = TestFrameRepr { vlan: Some(4095), ..repr(200) };
    assert_eq!(beyond.emit(&mut [0; 200]), Err(FrameError::WrongAddresses));
    let mut tagged_bytes = [0; 200];
    TestFrameRepr { vlan: Some(5), ..repr(200) }.emit(&mut tagged_bytes).unwrap();
    tagged_bytes[14..16].copy_from_slice(&[0x0f, 0xff]);
    let read = TestFrameRepr::parse(&tagged_bytes);
    assert_eq!(read, Err(FrameError::WrongAddresses), "what cannot be written is not read either");
    let tagged = TestFrameRepr { vlan: Some(5), ..repr(60) };
    assert_eq!(tagged.emit(&mut [0; 60]), Err(FrameError::Truncated));
    let ports = TestFrameRepr { source_port: 65_535, ..repr(60) };
    let beyond_ports = FrameShape { flows: 2, ..FrameShape::of_one(ports) };
    let no_flow = FrameShape { flows: 0, ..FrameShape::of_one(repr(60)) };
    let no_size = FrameShape { sizes: Vec::new(), ..FrameShape::of_one(repr(60)) };
    for shape in [beyond_ports, no_flow, no_size] {
        assert!(Composer::new(&shape).is_err(), "{shape:?}");
    }
}

#[test]
fn the_payload_is_big_endian_at_its_place() {
    let mut bytes = [0; 80];
    repr(80).emit(&mut bytes).unwrap();
    assert_eq!(bytes[42..48], [0x56, 0x54, 0, 7, 2, 0]);
    assert_eq!(bytes[48..52], [5, 6, 7, 8]);
    assert_eq!(bytes[52..60], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    assert_eq!(bytes[18..24], [0, 0, 0x40, 0, 64, 17], "identification 0, DF, TTL 64, UDP");
}

#[test]
fn sizes_outside_the_range_are_refused() {
    for frame_bytes in [0, 59, 1515] {
        let mut bytes = vec![0; 2_000];
        assert_eq!(repr(frame_bytes).emit(&mut bytes), Err(FrameError::Truncated));
    }
    assert_eq!(repr(100).emit(&mut [0; 99]), Err(FrameError::Truncated));
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
    let numbers =
        (any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>(), any::<u32>(), any::<u64>());
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

proptest! {
    #[test]
    fn any_value_reads_back(repr in any_repr()) {
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes).unwrap();
        assert_valid(&bytes);
        prop_assert_eq!(TestFrameRepr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn composing_is_the_same_as_writing_anew(
        repr in any_repr(), other in 84_usize..=1514, numbers in prop::collection::vec(any::<(u32, u64, bool)>(), 1..8), flows in 1_u16..9,
    ) {
        let first_port = repr.source_port.min(u16::MAX - 8);
        let repr = TestFrameRepr { source_port: first_port, ..repr };
        for sizes in [vec![repr.frame_bytes], vec![repr.frame_bytes, other, other]] {
            let shape = FrameShape { sizes: sizes.clone(), flows, ..FrameShape::of_one(repr) };
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
                wanted.emit(&mut written).unwrap();
                prop_assert_eq!(&*frame, written.as_slice());
            }
        }
    }

    #[test]
    fn frames_to_several_destinations_are_the_same_as_written_anew(
        repr in any_repr(), addresses in prop::collection::vec(any::<u32>(), 1..9), numbers in prop::collection::vec((any::<u32>().prop_map(u64::from), any::<u64>()), 1..8),
    ) {
        let destinations: Arc<[Ipv4Addr]> = addresses.iter().map(|bits| Ipv4Addr::from_bits(*bits)).collect();
        let shape = FrameShape { destinations: Arc::clone(&destinations), ..FrameShape::of_one(repr) };
        let composer = Composer::new(&shape);
        if repr.layout().ipv6 {
            prop_assert!(composer.is_err());
            return Ok(());
        }
        let composer = composer.unwrap();
        let mut frame = vec![0; repr.frame_bytes];
        composer.prepare(&mut frame);
        for (sequence, sent_monotonic_ns) in numbers {
            composer.compose(&mut frame, sequence, sent_monotonic_ns, true);
            let destination = destinations[(sequence % destinations.len() as u64) as usize];
            let wanted = TestFrameRepr {
                sequence, sent_monotonic_ns, timed: true, destination_address: destination.into(), ..repr
            };
            let mut written = vec![0; repr.frame_bytes];
            wanted.emit(&mut written).unwrap();
            prop_assert_eq!(&frame, &written);
        }
    }

    #[test]
    fn one_wrong_bit_behind_the_link_header_is_seen(repr in any_repr(), place: prop::sample::Index, bit in 0_u8..8) {
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes).unwrap();
        let first = repr.layout().ip();
        let at = first + place.index(repr.frame_bytes - first);
        // IPv6 has no checksum over traffic class, flow label and hop limit, as routers change them.
        prop_assume!(!repr.layout().ipv6 || !matches!(at - first, 0..=3 | 7));
        bytes[at] ^= 1 << bit;
        prop_assert!(TestFrameRepr::parse(&bytes).is_err(), "bit {} of byte {}", bit, at);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..1600), length in 0_usize..2000) {
        let _ = TestFrame::new(&bytes, length);
        let _ = TestFrameRepr::parse(&bytes);
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

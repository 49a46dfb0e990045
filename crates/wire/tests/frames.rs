//! Frames: every size, any value, any damage.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use virtoll_wire::MacAddress;
use virtoll_wire::frame::{FrameError, Stamper, TestFrame, TestFrameRepr};
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
    assert_eq!(plain_sum(&[&frame[14..34]]), 0xffff, "IPv4 header");
    let length = ((frame.len() - 34) as u16).to_be_bytes();
    assert_eq!(plain_sum(&[&frame[26..34], &[0, 17], &length, &frame[34..]]), 0xffff, "UDP");
    assert_ne!(frame[40..42], [0, 0], "UDP checksum must not be 0");
}

fn repr(frame_bytes: usize) -> TestFrameRepr {
    TestFrameRepr {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source_address: Ipv4Addr::new(10, 1, 0, 1),
        destination_address: Ipv4Addr::new(10, 2, 0, 1),
        source_port: 40_000,
        destination_port: 40_001,
        trial: 7,
        source: 2,
        sequence: 0x0102_0304_0506_0708,
        sent_monotonic_ns: 0x1112_1314_1516_1718,
        frame_bytes,
    }
}

#[test]
fn every_size_is_valid_and_reads_back() {
    for frame_bytes in 64..=1518 {
        let mut bytes = vec![0xee; frame_bytes];
        repr(frame_bytes).emit(&mut bytes).unwrap();
        assert_valid(&bytes);
        assert_eq!(TestFrameRepr::parse(&bytes), Ok(repr(frame_bytes)));
    }
}

#[test]
fn the_payload_is_big_endian_at_its_place() {
    let mut bytes = [0; 80];
    repr(80).emit(&mut bytes).unwrap();
    assert_eq!(bytes[42..48], [0x56, 0x54, 0, 7, 2, 0]);
    assert_eq!(bytes[48..56], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[56..64], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    assert_eq!(bytes[18..24], [0, 0, 0x40, 0, 64, 17], "identification 0, DF, TTL 64, UDP");
}

#[test]
fn sizes_outside_the_range_are_refused() {
    for frame_bytes in [0, 63, 1519] {
        let mut bytes = vec![0; 2_000];
        assert_eq!(repr(frame_bytes).emit(&mut bytes), Err(FrameError::Truncated));
    }
    assert_eq!(repr(100).emit(&mut [0; 99]), Err(FrameError::Truncated));
}

fn any_repr() -> impl Strategy<Value = TestFrameRepr> {
    let addresses = (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<u32>(), any::<u32>());
    let numbers =
        (any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>(), any::<u64>(), any::<u64>());
    (addresses, numbers, 64_usize..=1518).prop_map(|(addresses, numbers, frame_bytes)| {
        TestFrameRepr {
            source_mac: MacAddress(addresses.0),
            destination_mac: MacAddress(addresses.1),
            source_address: Ipv4Addr::from_bits(addresses.2),
            destination_address: Ipv4Addr::from_bits(addresses.3),
            source_port: numbers.0,
            destination_port: numbers.1,
            trial: numbers.2,
            source: numbers.3,
            sequence: numbers.4,
            sent_monotonic_ns: numbers.5,
            frame_bytes,
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
    fn stamping_is_the_same_as_writing_anew(repr in any_repr(), sequence: u64, sent: u64) {
        let mut stamped = vec![0; repr.frame_bytes];
        repr.emit(&mut stamped).unwrap();
        Stamper::new(&repr).unwrap().stamp(&mut stamped, sequence, sent);
        let mut written = vec![0; repr.frame_bytes];
        TestFrameRepr { sequence, sent_monotonic_ns: sent, ..repr }.emit(&mut written).unwrap();
        prop_assert_eq!(stamped, written);
    }

    #[test]
    fn one_wrong_bit_behind_the_link_header_is_seen(repr in any_repr(), place: prop::sample::Index, bit in 0_u8..8) {
        let mut bytes = vec![0; repr.frame_bytes];
        repr.emit(&mut bytes).unwrap();
        let at = 14 + place.index(repr.frame_bytes - 14);
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

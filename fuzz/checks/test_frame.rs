//! Any bytes as a captured frame, and any damage to a right one: nothing panics, and a frame that is taken for ours can
//! be written and reads the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use virtoll_wire::MacAddress;
use virtoll_wire::frame::{Key, TestFrame, TestFrameRepr};

fn right_frame(frame_bytes: usize) -> Vec<u8> {
    let (source, destination) = if frame_bytes.is_multiple_of(3) {
        (IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    } else {
        (IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)))
    };
    let repr = TestFrameRepr {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        vlan: (frame_bytes % 2 == 1).then_some(5),
        source_address: source,
        destination_address: destination,
        source_port: 1,
        destination_port: 2,
        trial: 3,
        source: 4,
        sequence: 5,
        sent_monotonic_ns: 6,
        timed: true,
        frame_bytes,
    };
    let mut bytes = vec![0; frame_bytes];
    repr.emit(&mut bytes, &Key::PUBLIC).expect("a size within the range");
    bytes
}

fn check(bytes: &[u8]) {
    if let Ok(frame) = TestFrame::new(bytes, bytes.len()) {
        assert!(bytes.len() >= 60);
        let _ = (frame.ports(), frame.trial(), frame.source(), frame.sequence(), frame.is_timed());
        let _ = (frame.sent_ns(), frame.is_of(&Key::PUBLIC));
    }
    if let Ok(repr) = TestFrameRepr::parse(bytes, &Key::PUBLIC)
        && repr.frame_bytes <= 1514
    {
        let mut written = vec![0; repr.frame_bytes];
        repr.emit(&mut written, &Key::PUBLIC).expect("a frame that was read can be written");
        assert_eq!(TestFrameRepr::parse(&written, &Key::PUBLIC), Ok(repr));
    }
}

/// Panics where it does not hold for this input.
pub fn holds(input: &[u8]) {
    check(input);
    let mut damaged = right_frame(84 + input.len() % 1431);
    for (byte, damage) in damaged.iter_mut().skip(12).zip(input) {
        *byte ^= damage;
    }
    check(&damaged);
}

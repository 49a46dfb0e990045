//! Any bytes as an ICMP echo, and any damage to a right one: nothing panics, and what is read is written back with the
//! same meaning.

use std::net::Ipv4Addr;

use virtoll_wire::MacAddress;
use virtoll_wire::icmp::{EchoKind, EchoRepr};

fn check(bytes: &[u8]) {
    if let Some(echo) = EchoRepr::parse(bytes) {
        assert_eq!(EchoRepr::parse(&echo.emit()), Some(echo));
    }
}

/// Panics where it does not hold for this input.
pub fn holds(input: &[u8]) {
    check(input);
    let right = EchoRepr {
        kind: EchoKind::Reply,
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source_address: Ipv4Addr::new(10, 99, 0, 1),
        destination_address: Ipv4Addr::new(10, 99, 0, 2),
        identifier: 7,
        sequence: 8,
    };
    let mut damaged = right.emit();
    for (byte, damage) in damaged.iter_mut().skip(12).zip(input) {
        *byte ^= damage;
    }
    check(&damaged);
}

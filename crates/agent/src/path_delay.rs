//! `path-delay`: round trips of echo requests that the guest's kernel answers; they bound the error of the marks.

use virtoll_clock::{monotonic_ns, realtime_ns};
use virtoll_proto::request::PathDelay;
use virtoll_proto::{Error, reply};
use virtoll_wire::icmp::{EchoKind, EchoRepr};
use virtoll_wire::{PacketKind, PacketSocket, interface_mac};

use crate::marks::parse_mac;

/// The identifier of these requests; marks have the controller's.
const IDENTIFIER: u16 = 0x5644;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for a link address that is none, `system` for an interface that is not there.
pub fn measure(request: &PathDelay) -> Result<reply::PathDelay, Error> {
    let interface = &request.interface;
    let destination_mac = parse_mac(&request.target_mac)?;
    let system = |cause| Error::system(format!("path-delay on {interface}"), &cause);
    let socket = PacketSocket::for_icmp(interface).map_err(system)?;
    let echo = EchoRepr {
        kind: EchoKind::Request,
        source_mac: interface_mac(interface).map_err(system)?,
        destination_mac,
        source_address: request.source,
        destination_address: request.target,
        identifier: IDENTIFIER,
        sequence: 0,
    };
    let mut round_trips = Vec::new();
    let mut lost = 0_u32;
    for number in 0..request.count {
        let one = EchoRepr { sequence: number as u16, ..echo };
        match round_trip(&socket, &one, request.timeout_ns).map_err(system)? {
            Some(round_trip_ns) => round_trips.push(round_trip_ns),
            None => lost += 1,
        }
    }
    Ok(reply::PathDelay { round_trip_ns: round_trips, lost })
}

/// From just before the send call to the kernel's receive stamp of the reply; none if it did not come in time.
fn round_trip(
    socket: &PacketSocket,
    echo: &EchoRepr,
    timeout_ns: u64,
) -> std::io::Result<Option<u64>> {
    let frame = echo.emit();
    let mut buffer = [0; 2048];
    let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
    let sent_ns = realtime_ns();
    socket.send(&frame)?;
    loop {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Ok(None);
        }
        let Some(received) = socket.receive(&mut buffer, left_ns)? else { continue };
        if is_answer(received.kind, &buffer[..received.bytes], echo) {
            return Ok(Some(received.realtime_ns.saturating_sub(sent_ns)));
        }
    }
}

/// Whether a captured frame is the answer to this request.
fn is_answer(direction: PacketKind, frame: &[u8], echo: &EchoRepr) -> bool {
    direction == PacketKind::Incoming
        && EchoRepr::parse(frame).is_some_and(|reply| {
            reply.kind == EchoKind::Reply
                && (reply.identifier, reply.sequence) == (echo.identifier, echo.sequence)
                && reply.source_address == echo.destination_address
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use virtoll_wire::MacAddress;

    #[test]
    fn an_answer_is_the_guests_reply_to_this_very_request() {
        let request = EchoRepr {
            kind: EchoKind::Request,
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            source_address: Ipv4Addr::new(10, 99, 0, 1),
            destination_address: Ipv4Addr::new(10, 99, 0, 2),
            identifier: IDENTIFIER,
            sequence: 7,
        };
        let reply = EchoRepr {
            kind: EchoKind::Reply,
            source_mac: request.destination_mac,
            destination_mac: request.source_mac,
            source_address: request.destination_address,
            destination_address: request.source_address,
            ..request
        };
        let incoming = |frame: EchoRepr| is_answer(PacketKind::Incoming, &frame.emit(), &request);
        assert!(incoming(reply));
        assert!(!is_answer(PacketKind::Outgoing, &reply.emit(), &request), "one that left");
        assert!(!is_answer(PacketKind::Incoming, &reply.emit()[..41], &request), "cut short");
        for (other, why) in [
            (EchoRepr { kind: EchoKind::Request, ..reply }, "the guest asks"),
            (EchoRepr { identifier: IDENTIFIER + 1, ..reply }, "another's"),
            (EchoRepr { sequence: 6, ..reply }, "of the request before"),
            (EchoRepr { source_address: Ipv4Addr::new(10, 99, 0, 3), ..reply }, "a neighbour's"),
        ] {
            assert!(!incoming(other), "{why}");
        }
    }
}

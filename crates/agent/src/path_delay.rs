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
        let is_reply = EchoRepr::parse(&buffer[..received.bytes]).is_some_and(|reply| {
            reply.kind == EchoKind::Reply
                && (reply.identifier, reply.sequence) == (echo.identifier, echo.sequence)
                && reply.source_address == echo.destination_address
        });
        if received.kind == PacketKind::Incoming && is_reply {
            return Ok(Some(received.realtime_ns.saturating_sub(sent_ns)));
        }
    }
}

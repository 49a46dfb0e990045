//! `path-delay`: round trips of echo requests that the guest's kernel answers; they bound the error of the marks.

use std::io;

use virtoll_clock::{monotonic_ns, realtime_ns};
use virtoll_proto::request::PathDelay;
use virtoll_proto::{Error, reply};
use virtoll_wire::icmp::{EchoKind, EchoRepr};
use virtoll_wire::{PacketKind, PacketSocket, Received, interface_mac};

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
    round_trips(&socket, &echo, request).map_err(system)
}

/// Where requests leave and frames arrive.
trait Link {
    fn send(&self, frame: &[u8]) -> io::Result<()>;
    fn receive(&self, buffer: &mut [u8], timeout_ns: u64) -> io::Result<Option<Received>>;
}

impl Link for PacketSocket {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.send(frame)
    }

    fn receive(&self, buffer: &mut [u8], timeout_ns: u64) -> io::Result<Option<Received>> {
        self.receive(buffer, timeout_ns)
    }
}

/// One request after the other.
fn round_trips(
    link: &impl Link,
    echo: &EchoRepr,
    request: &PathDelay,
) -> io::Result<reply::PathDelay> {
    let mut round_trips = Vec::new();
    let mut lost = 0_u32;
    for number in 0..request.count {
        let one = EchoRepr { sequence: number as u16, ..*echo };
        match round_trip(link, &one, request.timeout_ns)? {
            Some(round_trip_ns) => round_trips.push(round_trip_ns),
            None => lost += 1,
        }
    }
    Ok(reply::PathDelay { round_trip_ns: round_trips, lost })
}

/// From just before the send call to the kernel's receive stamp of the reply; none if it did not come in time.
fn round_trip(link: &impl Link, echo: &EchoRepr, timeout_ns: u64) -> io::Result<Option<u64>> {
    let frame = echo.emit();
    let mut buffer = [0; 2048];
    let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
    let sent_ns = realtime_ns();
    link.send(&frame)?;
    loop {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Ok(None);
        }
        let Some(received) = link.receive(&mut buffer, left_ns)? else { continue };
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
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::net::Ipv4Addr;
    use virtoll_proto::ErrorKind;
    use virtoll_wire::MacAddress;

    const ECHO: EchoRepr = EchoRepr {
        kind: EchoKind::Request,
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source_address: Ipv4Addr::new(10, 99, 0, 1),
        destination_address: Ipv4Addr::new(10, 99, 0, 2),
        identifier: IDENTIFIER,
        sequence: 7,
    };

    fn reply_to(request: EchoRepr) -> EchoRepr {
        EchoRepr {
            kind: EchoKind::Reply,
            source_mac: request.destination_mac,
            destination_mac: request.source_mac,
            source_address: request.destination_address,
            destination_address: request.source_address,
            ..request
        }
    }

    /// A guest that answers 700 ns after it was asked. Before that comes its answer to the request before, and what left.
    struct Guest {
        asked: RefCell<Vec<u16>>,
        frames: RefCell<VecDeque<(PacketKind, Vec<u8>, u64)>>,
        silent: bool,
    }

    impl Guest {
        fn new(silent: bool) -> Self {
            Self { asked: RefCell::default(), frames: RefCell::default(), silent }
        }
    }

    impl Link for Guest {
        fn send(&self, frame: &[u8]) -> io::Result<()> {
            let now_ns = realtime_ns();
            let request = EchoRepr::parse(frame).unwrap();
            let late = EchoRepr { sequence: request.sequence.wrapping_sub(1), ..request };
            self.asked.borrow_mut().push(request.sequence);
            self.frames.borrow_mut().extend([
                (PacketKind::Outgoing, frame.to_vec(), now_ns),
                (PacketKind::Incoming, reply_to(late).emit().to_vec(), now_ns),
                (PacketKind::Incoming, reply_to(request).emit().to_vec(), now_ns + 700),
            ]);
            Ok(())
        }

        fn receive(&self, buffer: &mut [u8], timeout_ns: u64) -> io::Result<Option<Received>> {
            assert!(timeout_ns > 0, "no wait without an end");
            let Some((kind, frame, realtime_ns)) = self.frames.borrow_mut().pop_front() else {
                return Ok(None);
            };
            if self.silent {
                return Ok(None);
            }
            buffer[..frame.len()].copy_from_slice(&frame);
            Ok(Some(Received { bytes: frame.len(), realtime_ns, kind }))
        }
    }

    fn request(target_mac: &str, count: u32, timeout_ns: u64) -> PathDelay {
        PathDelay {
            interface: "nowhere".to_owned(),
            source: ECHO.source_address,
            target: ECHO.destination_address,
            target_mac: target_mac.to_owned(),
            count,
            timeout_ns,
        }
    }

    #[test]
    fn each_request_has_its_number_and_the_time_to_its_own_answer() {
        let guest = Guest::new(false);
        let found = round_trips(&guest, &ECHO, &request("", 3, u64::MAX)).unwrap();
        assert_eq!((*guest.asked.borrow()).as_slice(), [0, 1, 2]);
        assert_eq!((found.round_trip_ns.len(), found.lost), (3, 0));
        assert!(found.round_trip_ns.iter().all(|one| *one >= 700), "{found:?}");
    }

    #[test]
    fn a_request_without_an_answer_in_time_is_lost() {
        for (silent, timeout_ns) in [(true, 1_000), (false, 0)] {
            let guest = Guest::new(silent);
            let found = round_trips(&guest, &ECHO, &request("", 3, timeout_ns)).unwrap();
            assert_eq!((found.round_trip_ns.len(), found.lost), (0, 3));
            assert_eq!(guest.asked.borrow().len(), 3);
        }
    }

    #[test]
    fn a_link_address_that_is_none_is_refused() {
        let error = measure(&request("nobody", 1, 1)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
    }

    #[test]
    fn an_answer_is_the_guests_reply_to_this_very_request() {
        let request = ECHO;
        let reply = reply_to(request);
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

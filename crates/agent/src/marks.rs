//! A job's marks: two ICMP echo requests, prepared before the job, each sent by one system call.

use virtoll_proto::request::MarkLink;
use virtoll_proto::{Edge, Error};
use virtoll_wire::icmp::{ECHO_FRAME_BYTES, EchoKind, EchoRepr};
use virtoll_wire::{MacAddress, PacketSocket, interface_mac};

/// The socket and both frames.
pub struct PreparedMarks {
    interface: String,
    socket: PacketSocket,
    start: [u8; ECHO_FRAME_BYTES],
    end: [u8; ECHO_FRAME_BYTES],
}

impl PreparedMarks {
    /// Opens the socket and writes the frames.
    ///
    /// # Errors
    /// `bad-request` for a link address that is none, `system` for an interface that is not there.
    pub fn new(link: &MarkLink) -> Result<Self, Error> {
        let interface = &link.interface;
        let destination_mac = parse_mac(&link.target_mac)?;
        let system =
            |cause| Error::system(format!("open the marks' socket on {interface}"), &cause);
        let echo = EchoRepr {
            kind: EchoKind::Request,
            source_mac: interface_mac(interface).map_err(system)?,
            destination_mac,
            source_address: link.source,
            destination_address: link.target,
            identifier: link.identifier,
            sequence: link.first_sequence,
        };
        Ok(Self {
            interface: interface.clone(),
            socket: PacketSocket::for_sending(interface).map_err(system)?,
            start: echo.emit(),
            end: EchoRepr { sequence: link.first_sequence.wrapping_add(1), ..echo }.emit(),
        })
    }

    /// Sends one mark.
    ///
    /// # Errors
    /// `system` if the call fails.
    #[inline]
    pub fn send(&self, edge: Edge) -> Result<(), Error> {
        let frame = match edge {
            Edge::Start => &self.start,
            Edge::End => &self.end,
        };
        self.socket
            .send(frame)
            .map_err(|cause| Error::system(format!("send a mark on {}", self.interface), &cause))
    }
}

/// Reads a link address from a request.
///
/// # Errors
/// `bad-request` with the text.
pub fn parse_mac(text: &str) -> Result<MacAddress, Error> {
    text.parse().map_err(Error::bad_request)
}

//! The `udp` back end: frames by a UDP socket, through the kernel's own stack and queueing discipline.
//!
//! The kernel writes the headers of what leaves, and the source hands it the payload alone: the same stamp and pattern as
//! in every test frame, so that a sink counts them like all others. The interface must have the source's address, and a
//! neighbour or a route for the destination's.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::af_packet::source::Generator;
use crate::af_packet::sys::{bind_to_interface, report_full_queues};
use crate::backend::check_link;
use crate::source::SourcePlan;

/// The back end's name in results.
pub const NAME: &str = "udp";

/// Opens the socket and writes the frames.
///
/// # Errors
/// No such interface, an address that it does not have, a destination without a route, or frames that differ in what
/// one socket cannot change.
pub fn open(plan: SourcePlan) -> io::Result<Generator> {
    let composer = plan.composer()?;
    check_link(&plan.interface, &composer)?;
    let (repr, layout) = (&plan.shape.repr, composer.layout());
    if layout.tagged || plan.shape.flows > 1 || !composer.destinations().is_empty() {
        let sentence = "a UDP socket sends untagged frames of one flow to one destination";
        return Err(io::Error::new(io::ErrorKind::Unsupported, sentence));
    }
    let family = if layout.ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // Before the address: gVisor frees a port as it was reserved for the interface that the socket has last.
    bind_to_interface(socket.as_fd(), &plan.interface)?;
    bind(&socket, &SocketAddr::new(repr.source_address, repr.source_port))?;
    connect(&socket, &SocketAddr::new(repr.destination_address, repr.destination_port))?;
    report_full_queues(socket.as_fd(), layout.ipv6)?;
    let from = layout.payload();
    Generator::on(socket, plan, composer, from)
}

//! The `AF_PACKET` back end: works on any interface and, in a user namespace, without root.
//!
//! Sending: `sendmmsg` of prepared frames past the queueing discipline. Receiving: one `TPACKET_V3` ring for each
//! interface, of which only the first bytes of a frame are kept, so that 64 MiB hold about 400 000 frames.

use std::io;
use std::os::fd::AsFd;

use crate::backend::{Collect, Quiet, SinkCounts, Start, Stop, check_link};
use crate::sequence_accounting::{Books, Expectation};
use crate::sink::{self, Captured, FrameReceiver};
use crate::socket::interface_index;
use crate::source::SourcePlan;
use crate::sys::packet_socket;

pub(crate) mod source;
pub(crate) mod sys;

/// The back end's name in results.
pub const NAME: &str = "af-packet";
/// The sink's name in results.
pub const SINK_NAME: &str = "tpacket";

/// Opens the socket and writes the frames.
///
/// # Errors
/// No such interface, no right to open packet sockets, or frames that cannot be.
pub fn open(plan: SourcePlan) -> io::Result<source::Generator> {
    let composer = plan.composer()?;
    let link = check_link(&plan.interface, &composer)?;
    let socket = packet_socket(0, link.index)?;
    sys::bypass_queueing(socket.as_fd())?;
    source::Generator::on(socket, plan, composer, 0)
}

struct Rings(Vec<sys::Ring>);

impl FrameReceiver for Rings {
    fn receive(&mut self, take: &mut dyn FnMut(Captured<'_>)) -> io::Result<u64> {
        Ok(self.0.iter_mut().map(|ring| ring.take_block(take)).sum())
    }

    fn wait(&mut self, timeout_ms: u32) -> io::Result<()> {
        sys::wait_rings(&self.0, timeout_ms)
    }

    fn kernel_dropped_frames(&mut self) -> io::Result<u64> {
        self.0.iter().map(sys::Ring::dropped_frames).sum()
    }
}

/// A sink on packet sockets with rings.
pub struct Collector {
    rings: Rings,
    books: Books,
    quiet: Quiet,
    capture_frames: u32,
}

impl Collector {
    /// Opens the rings; they capture from here on. The first `capture_frames` are kept whole.
    ///
    /// # Errors
    /// No such interface, no right to open packet sockets, or no memory for the ring.
    pub fn open(
        interfaces: &[String],
        expectation: Expectation,
        quiet: Quiet,
        capture_frames: u32,
    ) -> io::Result<Self> {
        let rings = interfaces
            .iter()
            .map(|interface| sys::Ring::open(interface_index(interface)?, capture_frames > 0))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self { rings: Rings(rings), books: Books::new(expectation), quiet, capture_frames })
    }
}

impl Collect for Collector {
    fn collect(mut self: Box<Self>, start: &Start, stop: &Stop) -> io::Result<SinkCounts> {
        sink::collect(&mut self.rings, self.books, self.quiet, self.capture_frames, start, stop)
    }
}

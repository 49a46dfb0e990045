//! The `AF_PACKET` back end: works on any interface and, in a user namespace, without root.
//!
//! Sending: `sendmmsg` of prepared frames past the queueing discipline. Receiving: one `TPACKET_V3` ring for each
//! interface, of which only the first bytes of a frame are kept, so that 64 MiB hold about 400 000 frames.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::backend::{Collect, Generate, Quiet, SinkCounts, SourcePlan, Start, Stop};
use crate::books::Books;
use crate::frame::{ETHERNET_BYTES, Stamper};
use crate::pacing::{BATCH_FRAMES, FrameSender, Schedule, SourceCounts, send_flat_out, send_paced};
use crate::sink::{self, Captured, FrameReceiver};
use crate::socket::interface_index;
use crate::sys::{interface_mtu_bytes, packet_socket};

mod sys;

/// The back end's name in results.
pub const NAME: &str = "af-packet";

struct Sender {
    socket: OwnedFd,
    batch: sys::SendBatch,
}

impl FrameSender for Sender {
    #[inline]
    fn frame(&mut self, index: usize) -> &mut [u8] {
        self.batch.frame(index)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        self.batch.send(self.socket.as_fd(), count)
    }
}

/// One source on a packet socket.
pub struct Generator {
    plan: SourcePlan,
    sender: Sender,
    stamper: Stamper,
}

impl Generator {
    /// Opens the socket and writes the frames.
    ///
    /// # Errors
    /// No such interface, no right to open packet sockets, or a frame size outside 64..=1518.
    pub fn open(plan: SourcePlan) -> io::Result<Self> {
        let refuse =
            |_| io::Error::new(io::ErrorKind::InvalidInput, "frame size outside 64..=1518");
        let mtu_bytes = interface_mtu_bytes(&plan.interface)?;
        let wanted_bytes = plan.frame.frame_bytes.saturating_sub(ETHERNET_BYTES);
        if wanted_bytes > mtu_bytes {
            let sentence =
                format!("the frame size needs an MTU of {wanted_bytes}, not {mtu_bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let stamper = Stamper::new(&plan.frame).map_err(refuse)?;
        let socket = packet_socket(0, interface_index(&plan.interface)?)?;
        sys::prepare_for_bulk_sending(socket.as_fd())?;
        let mut batch = sys::SendBatch::new(BATCH_FRAMES, plan.frame.frame_bytes);
        for index in 0..BATCH_FRAMES {
            plan.frame.emit(batch.frame(index)).map_err(refuse)?;
        }
        Ok(Self { plan, sender: Sender { socket, batch }, stamper })
    }
}

impl Generate for Generator {
    fn generate(&mut self, start: &Start) -> io::Result<SourceCounts> {
        let start_ns = start.wait();
        let duration_ns = self.plan.duration_ns;
        match self.plan.frames_per_second {
            Some(frames_per_second) => {
                let schedule = Schedule { start_ns, frames_per_second, duration_ns };
                send_paced(&mut self.sender, self.stamper, &schedule)
            }
            None => send_flat_out(
                &mut self.sender,
                self.stamper,
                start_ns,
                duration_ns,
                self.plan.limit_frames,
            ),
        }
    }
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
}

impl Collector {
    /// Opens the rings; they capture from here on.
    ///
    /// # Errors
    /// No such interface, no right to open packet sockets, or no memory for the ring.
    pub fn open(interfaces: &[String], books: Books, quiet: Quiet) -> io::Result<Self> {
        let rings = interfaces
            .iter()
            .map(|interface| sys::Ring::open(interface_index(interface)?))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self { rings: Rings(rings), books, quiet })
    }
}

impl Collect for Collector {
    fn collect(mut self: Box<Self>, start: &Start, stop: &Stop) -> io::Result<SinkCounts> {
        sink::collect(&mut self.rings, self.books, self.quiet, start, stop)
    }
}

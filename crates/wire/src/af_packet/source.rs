//! One source on a socket that takes prepared frames in batches: whole ones, or what follows the headers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::sys::{SendBatch, keep_few_on_the_way};
use crate::backend::{Generate, Start};
use crate::frame::Composer;
use crate::pacing::{BATCH_FRAMES, FrameSender, send};
use crate::source::{SourceCounts, SourcePlan};

/// Flat out, so many frames are on the path at most.
const FLAT_OUT_ON_THE_WAY_FRAMES: usize = 64;

struct Sender {
    socket: OwnedFd,
    batch: SendBatch,
}

impl FrameSender for Sender {
    #[inline]
    fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        self.batch.frame(index, bytes)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        self.batch.send(self.socket.as_fd(), count)
    }
}

/// One source on a socket that is ready to send.
pub struct Generator {
    plan: SourcePlan,
    sender: Sender,
    composer: Composer,
}

impl Generator {
    /// Writes the frames; the socket takes each from its byte `from` on.
    ///
    /// # Errors
    /// The socket takes no limit of what is on the way.
    pub fn on(
        socket: OwnedFd,
        plan: SourcePlan,
        composer: Composer,
        from: usize,
    ) -> io::Result<Self> {
        let bytes = composer.largest_bytes();
        if plan.frames_per_second.is_none() {
            keep_few_on_the_way(socket.as_fd(), bytes, FLAT_OUT_ON_THE_WAY_FRAMES)?;
        }
        let mut batch = SendBatch::new(BATCH_FRAMES, bytes, from);
        for index in 0..BATCH_FRAMES {
            composer.prepare(batch.frame(index, bytes));
        }
        Ok(Self { plan, sender: Sender { socket, batch }, composer })
    }
}

impl Generate for Generator {
    fn generate(&mut self, start: &Start) -> io::Result<Vec<SourceCounts>> {
        send(&mut self.sender, &self.composer, &self.plan, start.wait()).map(|counts| vec![counts])
    }
}

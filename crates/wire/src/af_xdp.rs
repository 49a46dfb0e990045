//! The `AF_XDP` back end for sending, in copy mode: works on any interface and, in a user namespace, without root.
//!
//! One socket on the interface's first queue, frames in memory that the kernel reads, handed over by descriptors in a
//! ring. The kernel copies each frame on a send call and reports those that the interface refused.

use std::io;

use crate::backend::{Generate, Start, check_link};
use crate::frame::Composer;
use crate::pacing::send;
use crate::source::{SourceCounts, SourcePlan};

mod sys;

/// The back end's name in results.
pub const NAME: &str = "af-xdp";

/// One source on an `AF_XDP` socket.
pub struct Generator {
    plan: SourcePlan,
    composer: Composer,
    sender: sys::Sender,
}

impl Generator {
    /// Opens the socket and writes the frames.
    ///
    /// # Errors
    /// No such interface, no right (`CAP_NET_RAW`), too little lockable memory, or frames that cannot be.
    pub fn open(plan: SourcePlan) -> io::Result<Self> {
        let composer = plan.composer()?;
        let link = check_link(&plan.interface, &composer)?;
        let mut sender = sys::Sender::open(link.index)?;
        sender.prepare(|place| composer.prepare(place));
        Ok(Self { plan, composer, sender })
    }
}

impl Generate for Generator {
    fn generate(&mut self, start: &Start) -> io::Result<Vec<SourceCounts>> {
        send(&mut self.sender, &self.composer, &self.plan, start.wait()).map(|counts| vec![counts])
    }
}

//! The seam for back ends: a way to generate the frames of sources, and a way to collect what arrives.
//!
//! The two traits are coarse on purpose: a back end that sends or counts inside the kernel (live XDP frames, an XDP
//! sink) has no loop in user space. Back ends whose loop is here share [`crate::pacing`] and [`crate::sink`].

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use virtoll_clock::monotonic_ns;

use crate::books::SourceBook;
use crate::frame::{Composer, TestFrameRepr};
use crate::netlink::{Link, Netlink};
use crate::pacing::SourceCounts;
use crate::pcap::CapturedPacket;

/// One source of a trial.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The interface that its frames leave by.
    pub interface: String,
    /// Its frames, with sequence number, send time and size of no meaning.
    pub frame: TestFrameRepr,
    /// The pattern of frame sizes, which is repeated.
    pub sizes: Vec<usize>,
    /// How many flows, told apart by their source ports from that of `frame` on.
    pub flows: u16,
    /// Where frames go in turn, of IPv4; none for the address of `frame` alone.
    pub destinations: Arc<[Ipv4Addr]>,
    /// Target rate; none for flat out.
    pub frames_per_second: Option<f64>,
    /// How long it sends.
    pub duration_ns: u64,
    /// The most frames that it may send: the size of the sink's books.
    pub limit_frames: u64,
    /// The core of its thread.
    pub cpu: Option<u32>,
    /// Frames of one batch of a back end that lets it be chosen; none for the smallest that holds the rate.
    pub batch_frames: Option<u32>,
    /// A frame that is later than this is not sent.
    pub catch_up_ns: u64,
}

impl SourcePlan {
    /// The source's prepared frames.
    ///
    /// # Errors
    /// A size, number of flows or addresses that cannot be.
    pub fn composer(&self) -> io::Result<Composer> {
        let composer =
            Composer::to_destinations(&self.frame, &self.sizes, self.flows, &self.destinations);
        composer.map_err(|_| {
            let least = self.frame.layout().minimum_bytes();
            let sentence = format!(
                "frames of these headers have {least} to 1518 bytes, at most 16 sizes, ports up to 65535 and two \
                 addresses of one family, which is IPv4 where there are several destinations"
            );
            io::Error::new(io::ErrorKind::InvalidInput, sentence)
        })
    }
}

/// The interface of a source, which must be on and wide enough.
///
/// # Errors
/// It is not there, is down, or has too small an MTU.
pub fn check_link(interface: &str, composer: &Composer) -> io::Result<Link> {
    let link = Netlink::open()?.link_named(interface)?;
    let wanted_bytes = composer.largest_bytes() - composer.layout().ip();
    if wanted_bytes > link.mtu as usize {
        let sentence = format!("the frame size needs an MTU of {wanted_bytes}, not {}", link.mtu);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    if !link.up {
        return Err(io::Error::from_raw_os_error(libc::ENETDOWN));
    }
    Ok(link)
}

/// When the sink's wait is over.
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    /// Nothing of the trial arrived for so long, after something had.
    pub quiet_ns: u64,
    /// The longest wait after the last source stopped.
    pub limit_ns: u64,
}

impl Quiet {
    /// Whether the wait is over: none if not yet, else whether quiet came before the limit. `last_ns` is when the last
    /// frame of the trial was seen, none if none was: a path that let nothing through yet may be slow to begin, so the
    /// whole limit is its (RFC 2544, section 23, waits two seconds for residual frames).
    pub fn came(&self, stopped_ns: Option<u64>, last_ns: Option<u64>, now_ns: u64) -> Option<bool> {
        let stopped_ns = stopped_ns?;
        if last_ns.is_some_and(|last_ns| now_ns >= stopped_ns.max(last_ns) + self.quiet_ns) {
            return Some(true);
        }
        (now_ns >= stopped_ns + self.limit_ns).then_some(last_ns.is_none())
    }
}

/// What the sink counted.
#[derive(Debug)]
pub struct SinkCounts {
    /// The books by source.
    pub sources: Vec<SourceBook>,
    /// All frames that it saw, of whatever kind.
    pub seen_frames: u64,
    /// Frames of no trial.
    pub foreign_frames: u64,
    /// Frames of another trial.
    pub late_trial_frames: u64,
    /// Frames that the kernel dropped for want of room before the sink read them.
    pub kernel_dropped_frames: u64,
    /// Processors that it ran on, where it knows.
    pub processors: Vec<u32>,
    /// The first frames, if that was asked for.
    pub captured: Vec<CapturedPacket>,
    /// Whether quiet came before the limit.
    pub drained: bool,
}

/// Sends the frames of one source, or of several that share a core. Made on the trial's main thread, with everything
/// allocated.
pub trait Generate: Send {
    /// Waits for `start`, then sends; the counts of each source.
    ///
    /// # Errors
    /// What made sending impossible.
    fn generate(&mut self, start: &Start) -> io::Result<Vec<SourceCounts>>;

    /// Completes the counts when the path is empty again.
    ///
    /// # Errors
    /// What made reading a counter impossible.
    fn settle(&mut self, _counts: &mut [SourceCounts]) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what arrives at the sink. Captures from the moment that it is made.
pub trait Collect: Send {
    /// Lets the sources start, counts until they stopped and quiet came.
    ///
    /// # Errors
    /// What made receiving impossible.
    fn collect(self: Box<Self>, start: &Start, stop: &Stop) -> io::Result<SinkCounts>;
}

/// Frames may leave once the sink and all sources stand ready.
#[derive(Debug)]
pub struct Start {
    gathered: Barrier,
    announced: Barrier,
    at_ns: AtomicU64,
    not_before_ns: u64,
}

/// From the moment that all threads stand ready to the first frame's due time.
const LEAD_NS: u64 = 500_000;

impl Start {
    /// A start for `threads` threads: the sources and the sink.
    pub fn new(threads: usize) -> Self {
        Self::not_before(threads, 0)
    }

    /// A start no earlier than at `not_before_ns`, `CLOCK_MONOTONIC`.
    pub fn not_before(threads: usize, not_before_ns: u64) -> Self {
        Self {
            gathered: Barrier::new(threads),
            announced: Barrier::new(threads),
            at_ns: AtomicU64::new(0),
            not_before_ns,
        }
    }

    /// Waits for all threads; the common start in `CLOCK_MONOTONIC` nanoseconds.
    pub fn wait(&self) -> u64 {
        if self.gathered.wait().is_leader() {
            let soon_ns = monotonic_ns() + LEAD_NS;
            self.at_ns.store(soon_ns.max(self.not_before_ns), Ordering::Release);
        }
        self.announced.wait();
        self.at_ns.load(Ordering::Acquire)
    }
}

/// Tells the sink when the last source had stopped.
#[derive(Debug, Default)]
pub struct Stop {
    stopped_ns: AtomicU64,
}

impl Stop {
    /// All sources have stopped, for whatever reason.
    pub fn stopped(&self) {
        self.stopped_ns.store(monotonic_ns(), Ordering::Release);
    }

    /// `CLOCK_MONOTONIC` at which that was told, once it was.
    pub fn stopped_ns(&self) -> Option<u64> {
        Some(self.stopped_ns.load(Ordering::Acquire)).filter(|at| *at > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Quiet;

    #[test]
    fn a_path_that_let_nothing_through_has_the_whole_limit_and_one_that_did_only_the_quiet() {
        let quiet = Quiet { quiet_ns: 20, limit_ns: 2_000 };
        assert_eq!(quiet.came(None, Some(50), 9_000), None);
        assert_eq!(quiet.came(Some(100), None, 1_000), None);
        assert_eq!(quiet.came(Some(100), None, 2_100), Some(true));
        assert_eq!(quiet.came(Some(100), Some(90), 119), None);
        assert_eq!(quiet.came(Some(100), Some(90), 120), Some(true));
        assert_eq!(quiet.came(Some(100), Some(1_000), 1_019), None);
        assert_eq!(quiet.came(Some(100), Some(1_000), 1_020), Some(true));
        assert_eq!(quiet.came(Some(100), Some(2_095), 2_100), Some(false));
    }
}

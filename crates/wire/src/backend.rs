//! The seam for back ends: a way to generate the frames of sources, and a way to collect what arrives.
//!
//! The two traits are coarse on purpose: a back end that sends or counts inside the kernel (live XDP frames, an XDP
//! sink) has no loop in user space. Back ends whose loop is here share [`crate::pacing`] and [`crate::sink`].

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use virtoll_clock::monotonic_ns;

use crate::frame::Composer;
use crate::netlink::{Link, Netlink};
use crate::pcap::CapturedPacket;
use crate::sequence_accounting::SourceBook;
use crate::source::SourceCounts;

/// The most sources of a trial.
pub const MOST_SOURCES: usize = 16;

/// The interface of a source, which must be on and wide enough.
///
/// # Errors
/// It is not there, is down, or has too small an MTU.
pub(crate) fn check_link(interface: &str, composer: &Composer) -> io::Result<Link> {
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

/// A back end's refusal, and of which interface.
#[derive(Debug)]
pub struct Refused {
    /// The interface or interfaces.
    pub on: String,
    /// The cause.
    pub cause: io::Error,
}

/// What a sink still waits for once the sources have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The number of offered frames is unknown.
    Unknown,
    /// Every offered frame has arrived.
    Nothing,
    /// Some have not: they are lost, or a device on the path still holds them.
    Frames,
}

/// When the sink's wait is over.
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    /// Nothing of the trial arrived for so long, and no offered frame is missing as far as is known. What may still come
    /// are duplicates, and what an interface adds to its counters at a poll's end.
    pub quiet_ns: u64,
    /// Nothing arrived for so long, and offered frames are missing: a guest that was off its CPU goes on with what it
    /// held (RFC 2544, section 23, waits two seconds for residual frames).
    pub residual_ns: u64,
    /// The longest wait after the last source stopped.
    pub limit_ns: u64,
}

impl Quiet {
    /// Whether the wait is over: none if not yet, else whether quiet came before the limit. `last_ns` is when the last
    /// frame of the trial was seen, none if none was: a path that has forwarded nothing yet may be slow to begin, so it
    /// gets the whole limit.
    pub fn came(
        &self,
        stopped_ns: Option<u64>,
        last_ns: Option<u64>,
        awaited: Awaited,
        now_ns: u64,
    ) -> Option<bool> {
        let stopped_ns = stopped_ns?;
        let (last_ns, wait_ns) = match awaited {
            Awaited::Unknown => (last_ns, self.quiet_ns),
            // That may be none at all: where nothing was offered, there is nothing that a path could be slow with.
            Awaited::Nothing => (last_ns.or(Some(stopped_ns)), self.quiet_ns),
            Awaited::Frames => (last_ns, self.residual_ns),
        };
        if last_ns.is_some_and(|last| now_ns >= stopped_ns.max(last).saturating_add(wait_ns)) {
            return Some(true);
        }
        (now_ns >= self.end_ns(stopped_ns)).then_some(last_ns.is_none())
    }

    /// When the wait is over at the latest.
    pub fn end_ns(&self, stopped_ns: u64) -> u64 {
        stopped_ns.saturating_add(self.limit_ns)
    }
}

/// What the sink counted.
#[derive(Debug, Default)]
pub struct SinkCounts {
    /// The books by source.
    pub sources: Vec<SourceBook>,
    /// All frames that it saw, of whatever kind.
    pub seen_frames: u64,
    /// Frames of no trial.
    pub foreign_frames: u64,
    /// Frames that say they are another trial's.
    pub late_trial_frames: u64,
    /// Frames that say they are this trial's and have a wrong tag.
    pub forged_frames: u64,
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
pub(crate) trait Generate: Send {
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

/// The common start: frames leave once the sink and all sources are ready.
#[derive(Debug)]
pub struct Start {
    gathered: Barrier,
    announced: Barrier,
    at_ns: AtomicU64,
    not_before_ns: u64,
}

/// From the moment that all threads are ready to the first frame's due time.
const LEAD_NS: u64 = 500_000;

impl Start {
    /// A start for `threads` threads: the sources and the sink.
    pub fn new(threads: usize) -> Self {
        Self::not_before(threads, 0)
    }

    /// A start no earlier than at `not_before_ns`, `CLOCK_MONOTONIC`.
    pub(crate) fn not_before(threads: usize, not_before_ns: u64) -> Self {
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

/// The time at which the last source stopped, and what each had offered, for the sink.
#[derive(Debug, Default)]
pub struct Stop {
    stopped_ns: AtomicU64,
    /// How many entries of `offered_frames` are known; 0 if none are.
    known: AtomicUsize,
    offered_frames: [AtomicU64; MOST_SOURCES],
}

impl Stop {
    /// All sources have stopped, for whatever reason. `offered_frames` are those of each, where they are known: too many
    /// only make the sink wait longer, too few would make it leave early.
    pub fn stopped(&self, offered_frames: Option<&[u64]>) {
        let known = offered_frames.filter(|all| all.len() <= MOST_SOURCES).unwrap_or(&[]);
        for (place, frames) in self.offered_frames.iter().zip(known) {
            place.store(*frames, Ordering::Relaxed);
        }
        self.known.store(known.len(), Ordering::Relaxed);
        // Last, so that a reader that sees the time also sees the frames.
        self.stopped_ns.store(monotonic_ns(), Ordering::Release);
    }

    /// What a sink of so many sources still waits for; `arrived_frames` counts each sequence number of a source once.
    /// Frames of another number of sources are not of its trial.
    pub(crate) fn awaited(&self, sources: usize, arrived_frames: impl Fn(usize) -> u64) -> Awaited {
        let known = self.stopped_ns().map_or(0, |_| self.known.load(Ordering::Relaxed));
        if known == 0 || known != sources {
            return Awaited::Unknown;
        }
        let offered_frames = self.offered_frames[..known].iter().enumerate();
        let missing = |(source, offered): (usize, &AtomicU64)| {
            arrived_frames(source) < offered.load(Ordering::Relaxed)
        };
        if offered_frames.into_iter().any(missing) { Awaited::Frames } else { Awaited::Nothing }
    }

    /// `CLOCK_MONOTONIC` at which the sources had stopped; none before.
    pub(crate) fn stopped_ns(&self) -> Option<u64> {
        Some(self.stopped_ns.load(Ordering::Acquire)).filter(|at| *at > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Awaited, MOST_SOURCES, Quiet, Stop};

    const QUIET: Quiet = Quiet { quiet_ns: 20, residual_ns: 500, limit_ns: 2_000 };

    #[test]
    fn a_path_that_let_nothing_through_has_the_whole_limit() {
        for awaited in [Awaited::Unknown, Awaited::Frames] {
            assert_eq!(QUIET.came(None, Some(50), awaited, 9_000), None);
            assert_eq!(QUIET.came(Some(100), None, awaited, 2_099), None);
            assert_eq!(QUIET.came(Some(100), None, awaited, 2_100), Some(true));
        }
        // Unless nothing was offered to it.
        assert_eq!(QUIET.came(Some(100), None, Awaited::Nothing, 119), None);
        assert_eq!(QUIET.came(Some(100), None, Awaited::Nothing, 120), Some(true));
    }

    #[test]
    fn a_whole_stream_has_the_quiet_and_one_with_missing_frames_the_residual_time() {
        for (awaited, wait_ns) in
            [(Awaited::Unknown, 20), (Awaited::Nothing, 20), (Awaited::Frames, 500)]
        {
            for last_ns in [90, 100, 1_000] {
                let end_ns = last_ns.max(100) + wait_ns;
                assert_eq!(QUIET.came(Some(100), Some(last_ns), awaited, end_ns - 1), None);
                assert_eq!(QUIET.came(Some(100), Some(last_ns), awaited, end_ns), Some(true));
            }
            assert_eq!(QUIET.came(Some(100), Some(2_095), awaited, 2_099), None);
            assert_eq!(QUIET.came(Some(100), Some(2_095), awaited, 2_100), Some(false));
        }
        let endless = Quiet { quiet_ns: u64::MAX, residual_ns: u64::MAX, limit_ns: u64::MAX };
        assert_eq!(endless.came(Some(100), Some(90), Awaited::Frames, u64::MAX - 1), None);
    }

    #[test]
    fn a_frame_is_awaited_until_each_source_has_all_of_its_own() {
        let stop = Stop::default();
        assert_eq!(stop.awaited(2, |_| 0), Awaited::Unknown);
        stop.stopped(Some(&[3, 0]));
        assert_eq!(stop.awaited(2, |source| [2, 9][source]), Awaited::Frames);
        assert_eq!(stop.awaited(2, |source| [3, 0][source]), Awaited::Nothing);
        assert_eq!(stop.awaited(2, |source| [4, 1][source]), Awaited::Nothing);
    }

    #[test]
    fn what_was_told_of_other_sources_is_not_known() {
        for reported in [None, Some(&[][..]), Some(&[3][..]), Some(&[3; MOST_SOURCES + 1][..])] {
            let stop = Stop::default();
            stop.stopped(reported);
            assert!(stop.stopped_ns().is_some());
            assert_eq!(stop.awaited(2, |_| 3), Awaited::Unknown, "{reported:?}");
            assert_eq!(stop.awaited(MOST_SOURCES + 1, |_| 3), Awaited::Unknown, "{reported:?}");
        }
    }
}

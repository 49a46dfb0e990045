//! A source of a trial: what it is to send, and what it sent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::frame::{Composer, FrameShape, frame_size_of};
use crate::gaps::GapSummary;

/// Sources that send in turn, each flat out for a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// How long each sends.
    pub burst_ns: u64,
    /// How long nobody sends after it, so that what queues hold can leave them.
    pub pause_ns: u64,
    /// How many bursts each source has.
    pub count: u64,
}

impl Bursts {
    /// From the first burst of one of so many sources to the end of the last pause.
    pub const fn of_all_ns(&self, sources: u64) -> u64 {
        self.count * sources * (self.burst_ns + self.pause_ns)
    }
}

/// One source of a trial.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The interface that its frames leave by.
    pub interface: String,
    /// Its frames.
    pub shape: FrameShape,
    /// Target rate; none for flat out.
    pub frames_per_second: Option<f64>,
    /// How long it sends.
    pub duration_ns: u64,
    /// The most frames that it may send: the size of the sink's books.
    pub limit_frames: u64,
    /// The core of its thread.
    pub cpu: Option<u32>,
    /// Frames of one batch, for back ends with a configurable batch; none for the smallest that holds the rate.
    pub batch_frames: Option<u32>,
    /// A frame that is later than this is not sent.
    pub catch_up_ns: u64,
    /// Paced: it wakes every so many nanoseconds, sends what is due and sleeps; none: each frame at its own time.
    pub wake_ns: Option<u64>,
    /// Flat out: it takes turns with the other sources; none: all send at once.
    pub bursts: Option<Bursts>,
    /// Set from outside while it sends: it stops there, and what was not due by then was never intended.
    pub stop: Option<Arc<AtomicBool>>,
}

impl SourcePlan {
    /// Whether it was told to stop.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        is_set(self.stop.as_deref())
    }

    /// The source's prepared frames.
    ///
    /// # Errors
    /// A size, number of flows or addresses that cannot be.
    pub fn composer(&self) -> io::Result<Composer> {
        Composer::new(&self.shape).map_err(|_| {
            let least = frame_size_of(self.shape.layout().minimum_bytes());
            let sentence = format!(
                "frames of these headers have {least} to 1518 bytes with FCS, at most 16 sizes, ports up to 65535 and two \
                 addresses of one family, which is IPv4 where there are several destinations"
            );
            io::Error::new(io::ErrorKind::InvalidInput, sentence)
        })
    }
}

/// Whether there is a stop, and it is set.
#[inline]
pub(crate) fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// What one source did.
#[derive(Clone, Debug, Default)]
pub struct SourceCounts {
    /// Frames that the trial asked for.
    pub intended_frames: u64,
    /// Frames that the interface accepted.
    pub offered_frames: u64,
    /// Intended frames that did not leave: refused, skipped, or their time was over.
    pub unsent_frames: u64,
    /// Of these: the interface refused them (its queue was full).
    pub refused_frames: u64,
    /// Of these: more than [`SourcePlan::catch_up_ns`] late.
    pub skipped_frames: u64,
    /// Frames that left more than [`crate::pacing::LATE_FROM_NS`] late.
    pub late_frames: u64,
    /// `CLOCK_MONOTONIC` at which the first frame was due.
    pub start_monotonic_ns: u64,
    /// `CLOCK_MONOTONIC` after the last send call.
    pub end_monotonic_ns: u64,
    /// Send times of the first and the last frame.
    pub sent_between_ns: Option<(u64, u64)>,
    /// The most that a frame was sent after its due time.
    pub late_ns_max: u64,
    /// The most frames of one send call.
    pub batch_frames: u64,
    /// Frames that it sent before the trial, to see that the interface takes any. None of the trial's.
    pub probe_frames: u64,
    /// How long its bursts took; 0 of a source that takes no turns.
    pub bursts_ns: u64,
    /// Gaps between send times; none flat out.
    pub gaps: Option<GapSummary>,
}

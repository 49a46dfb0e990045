//! The receive loop of back ends that count in user space.

use std::io;

use virtoll_clock::{monotonic_ns, realtime_minus_monotonic_ns};

use crate::backend::{Quiet, SinkCounts, Start, Stop};
use crate::books::{Arrival, Books};
use crate::pcap::CapturedPacket;

/// A frame as the kernel handed it over.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// Its whole length in bytes.
    pub frame_bytes: usize,
    /// The kernel's receive stamp, `CLOCK_REALTIME` nanoseconds.
    pub received_realtime_ns: u64,
}

/// Where captured frames come from: one or more interfaces.
pub trait FrameReceiver {
    /// Hands every frame that is there to `take`, in order of arrival per interface; the number of frames.
    ///
    /// # Errors
    /// What made receiving impossible.
    fn receive(&mut self, take: &mut dyn FnMut(Captured<'_>)) -> io::Result<u64>;

    /// Waits until frames are there, at most `timeout_ms`.
    ///
    /// # Errors
    /// What made waiting impossible.
    fn wait(&mut self, timeout_ms: u32) -> io::Result<()>;

    /// Frames that the kernel dropped for want of room since the receiver was made.
    ///
    /// # Errors
    /// What made reading the counter impossible.
    fn kernel_dropped_frames(&mut self) -> io::Result<u64>;
}

/// While sources run: the longest that the sink sleeps without looking whether they stopped.
const RUNNING_WAIT_MS: u32 = 10;
const DRAINING_WAIT_MS: u32 = 1;

/// Counts until the sources stopped and quiet came.
///
/// # Errors
/// As the receiver's.
pub fn collect(
    receiver: &mut impl FrameReceiver,
    mut books: Books,
    quiet: Quiet,
    capture_frames: u32,
    start: &Start,
    stop: &Stop,
) -> io::Result<SinkCounts> {
    let offset_ns = realtime_minus_monotonic_ns();
    let mut captured = Vec::with_capacity(capture_frames as usize);
    let mut seen_frames = 0;
    start.wait();
    let mut last_seen_ns = None;
    let drained = loop {
        // Read before receiving: a frame that was sent before the stop is then never missed.
        let stopped = stop.stopped_ns();
        let now_ns = monotonic_ns();
        let mut of_trial = false;
        let received = receiver.receive(&mut |frame| {
            let received_ns = (frame.received_realtime_ns as i64 - offset_ns) as u64;
            let arrival = books.enter(frame.bytes, frame.frame_bytes, received_ns);
            of_trial |= arrival == Arrival::Test;
            // Copies are made only for a capture, which is not for trials that count.
            if captured.len() < capture_frames as usize && arrival != Arrival::Probe {
                captured.push(frame.packet(received_ns));
            }
        })?;
        seen_frames += received;
        if of_trial {
            last_seen_ns = Some(monotonic_ns());
        }
        if let Some(drained) = quiet.came(stopped, last_seen_ns, now_ns) {
            break drained;
        }
        if received == 0 {
            receiver.wait(if stopped.is_some() { DRAINING_WAIT_MS } else { RUNNING_WAIT_MS })?;
        }
    };
    let kernel_dropped_frames = receiver.kernel_dropped_frames()?;
    Ok(counts(books, seen_frames, kernel_dropped_frames, captured, drained))
}

fn counts(
    books: Books,
    seen_frames: u64,
    kernel_dropped_frames: u64,
    captured: Vec<CapturedPacket>,
    drained: bool,
) -> SinkCounts {
    SinkCounts {
        seen_frames,
        foreign_frames: books.foreign_frames(),
        late_trial_frames: books.late_trial_frames(),
        sources: books.into_sources(),
        kernel_dropped_frames,
        processors: Vec::new(),
        captured,
        drained,
    }
}

impl Captured<'_> {
    fn packet(&self, received_ns: u64) -> CapturedPacket {
        CapturedPacket {
            monotonic_ns: received_ns,
            frame_bytes: self.frame_bytes as u32,
            bytes: self.bytes.to_vec(),
        }
    }
}

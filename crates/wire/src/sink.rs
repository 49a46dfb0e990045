//! The receive loop of back ends that count in user space.

use std::io;

use virtoll_clock::{monotonic_ns, realtime_minus_monotonic_ns};

use crate::backend::{Quiet, SinkCounts, Start, Stop};
use crate::pcap::CapturedPacket;
use crate::sequence_accounting::{Arrival, Books};

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
        let (mut of_trial, mut earliest_ns) = (false, u64::MAX);
        let received = receiver.receive(&mut |frame| {
            let received_ns = (frame.received_realtime_ns as i64 - offset_ns) as u64;
            earliest_ns = earliest_ns.min(received_ns);
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
        // Frames that are already in the ring are read first: they are the trial's if this thread was kept from running.
        // A flood of frames that arrive after the end is not waited for.
        if received == 0 || stopped.is_some_and(|stopped| earliest_ns >= quiet.end_ns(stopped)) {
            let sources = books.sources();
            let awaited = stop.awaited(sources.len(), |source| sources[source].forwarded_frames());
            if let Some(drained) = quiet.came(stopped, last_seen_ns, awaited, now_ns) {
                break drained;
            }
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
        forged_frames: books.forged_frames(),
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

#[cfg(test)]
mod tests {
    use super::*;

    use crate::frame::{Key, MINIMUM_FRAME_BYTES, TestFrameRepr};
    use crate::sequence_accounting::{Expectation, Ports};

    const SECOND_NS: u64 = 1_000_000_000;

    fn frame(sequence: u64) -> [u8; MINIMUM_FRAME_BYTES] {
        let repr = TestFrameRepr::smallest(sequence);
        let mut frame = [0; MINIMUM_FRAME_BYTES];
        repr.emit(&mut frame, &Key::PUBLIC).unwrap();
        frame
    }

    fn books() -> Books {
        let ports = vec![Ports { first_source: 1, flows: 1, destination: 2 }];
        let ip_bytes = vec![MINIMUM_FRAME_BYTES - 14];
        let (keys, capacities) = (vec![Key::PUBLIC], vec![1_000_000_000]);
        Books::new(Expectation { trial: 3, ip_bytes, ports, keys, capacities })
    }

    /// Hands out a frame, by its number and when it came, for each call for which `next` has one.
    struct Scripted<F>(F);

    impl<F: FnMut() -> Option<(u64, u64)>> FrameReceiver for Scripted<F> {
        fn receive(&mut self, take: &mut dyn FnMut(Captured<'_>)) -> io::Result<u64> {
            let Some((sequence, monotonic_ns)) = self.0() else { return Ok(0) };
            let bytes = frame(sequence);
            let received_realtime_ns = (monotonic_ns as i64 + realtime_minus_monotonic_ns()) as u64;
            take(Captured { bytes: &bytes, frame_bytes: bytes.len(), received_realtime_ns });
            Ok(1)
        }

        fn wait(&mut self, _timeout_ms: u32) -> io::Result<()> {
            Ok(())
        }

        fn kernel_dropped_frames(&mut self) -> io::Result<u64> {
            Ok(0)
        }
    }

    /// The frames that arrived, and whether quiet came, of a stream that has stopped.
    fn collected(
        next: impl FnMut() -> Option<(u64, u64)>,
        quiet: Quiet,
        offered_frames: Option<&[u64]>,
    ) -> (u64, bool) {
        let stop = Stop::default();
        stop.stopped(offered_frames);
        let counts =
            collect(&mut Scripted(next), books(), quiet, 0, &Start::new(1), &stop).unwrap();
        (counts.sources[0].forwarded_frames(), counts.drained)
    }

    /// The first frame at once, and another one when so much time has passed.
    fn held(hold_ns: u64) -> impl FnMut() -> Option<(u64, u64)> {
        let (begun_ns, mut sequences) = (monotonic_ns(), 0..2);
        move || {
            let now_ns = monotonic_ns();
            let due = sequences.start == 0 || now_ns >= begun_ns + hold_ns;
            sequences.by_ref().take(usize::from(due)).next().map(|sequence| (sequence, now_ns))
        }
    }

    #[test]
    fn a_frame_that_was_offered_is_waited_for_after_the_quiet() {
        let quiet =
            Quiet { quiet_ns: 1_000_000, residual_ns: 600 * SECOND_NS, limit_ns: 900 * SECOND_NS };
        assert_eq!(collected(held(50_000_000), quiet, Some(&[2])), (2, true));
        // If the number of offered frames is unknown, only the quiet time ends the wait.
        assert_eq!(collected(held(600 * SECOND_NS), quiet, None), (1, true));
        // And where all have come there is nothing to wait for.
        assert_eq!(collected(held(600 * SECOND_NS), quiet, Some(&[1])), (1, true));
    }

    #[test]
    fn what_is_lost_ends_the_wait_when_its_time_is_over() {
        let quiet = Quiet { quiet_ns: 1, residual_ns: 20_000_000, limit_ns: 900 * SECOND_NS };
        assert_eq!(collected(held(600 * SECOND_NS), quiet, Some(&[2])), (1, true));
    }

    #[test]
    fn what_came_within_the_limit_is_read_however_late() {
        // The limit has passed before the first look; each look finds one frame more.
        let quiet = Quiet { quiet_ns: u64::MAX, residual_ns: u64::MAX, limit_ns: 0 };
        let mut sequences = 0..100;
        let came_ns = monotonic_ns() - SECOND_NS;
        let next = || sequences.next().map(|sequence| (sequence, came_ns));
        assert_eq!(collected(next, quiet, Some(&[100])), (100, false));
    }

    #[test]
    fn a_flood_does_not_outlast_the_limit() {
        let quiet = Quiet { quiet_ns: u64::MAX, residual_ns: u64::MAX, limit_ns: 2_000_000 };
        let mut sequence = 0;
        let next = || {
            sequence += 1;
            Some((sequence, monotonic_ns()))
        };
        let (forwarded, drained) = collected(next, quiet, Some(&[u64::MAX]));
        assert!(forwarded > 0 && !drained);
    }
}

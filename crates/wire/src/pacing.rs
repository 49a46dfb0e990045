//! When each frame is due, and the loops that send by it from user space.
//!
//! Each frame has its own due time: `start + sequence / rate`. A sender that was away catches up in batches, never
//! moves the schedule, and never sends a frame that is later than [`Schedule::catch_up_ns`]: what did not leave is unsent.
//! Live frames keep the same schedule inside the kernel
//! (`bpf/generator.bpf.c`), by [`Schedule::gap`].

use std::io;
use std::sync::atomic::AtomicBool;

use virtoll_clock::{monotonic_ns, sleep_until_monotonic};

use crate::frame::Composer;
use crate::gaps::Gaps;
use crate::schedule::Schedule;
use crate::source::{SourceCounts, SourcePlan, is_set};

/// The most frames of one send call.
pub const BATCH_FRAMES: usize = 64;
/// A frame that is later than this is never sent, unless the plan says otherwise.
pub const CATCH_UP_NS: u64 = 20_000_000;
/// A frame that leaves later than this after its due time is counted as late.
pub const LATE_FROM_NS: u64 = 10_000;
/// With less time than this until the next frame the sender spins instead of sleeping.
const SPIN_NS: u64 = 100_000;
/// So long before its time a sender that slept is to be awake.
const AWAKE_NS: u64 = 50_000;

/// Where a batch of prepared frames leaves.
pub trait FrameSender {
    /// The place of the frame at `index` of the batch, below [`BATCH_FRAMES`], made `bytes` long. It was prepared by
    /// [`Composer::prepare`] once.
    fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8];

    /// Sends the first `count` frames of the batch in order; returns how many the interface accepted. The others
    /// are refused for good (queue full).
    ///
    /// # Errors
    /// What makes sending impossible, such as an interface that went down.
    fn send(&mut self, count: usize) -> io::Result<usize>;
}

/// Sends what a source's plan asks for, from `start_ns` on.
///
/// # Errors
/// As [`FrameSender::send`].
pub fn send(
    sender: &mut impl FrameSender,
    composer: &Composer,
    plan: &SourcePlan,
    start_ns: u64,
) -> io::Result<SourceCounts> {
    let (duration_ns, catch_up_ns, wake_ns) = (plan.duration_ns, plan.catch_up_ns, plan.wake_ns);
    let stop = plan.stop.as_deref();
    if let Some(frames_per_second) = plan.frames_per_second {
        let schedule = Schedule { start_ns, frames_per_second, duration_ns, catch_up_ns, wake_ns };
        send_paced(sender, composer, &schedule, stop)
    } else {
        let limits = Limits { duration_ns, frames: plan.limit_frames, stop };
        send_flat_out(sender, composer, start_ns, &limits)
    }
}

/// Sends by the schedule, until it is over or `stop` is set. Then what was due by that time is what was intended.
///
/// # Errors
/// As [`FrameSender::send`].
pub fn send_paced(
    sender: &mut impl FrameSender,
    composer: &Composer,
    schedule: &Schedule,
    stop: Option<&AtomicBool>,
) -> io::Result<SourceCounts> {
    let mut intended = schedule.intended_frames();
    let mut gaps = Gaps::new(schedule.gap().0);
    let mut counts =
        SourceCounts { start_monotonic_ns: schedule.start_ns, ..SourceCounts::default() };
    let mut next = 0;
    while next < intended {
        if is_set(stop) {
            intended = next;
            break;
        }
        let now = monotonic_ns();
        let due = schedule.due_frames(now).min(intended);
        if due <= next {
            if let Some(wake_ns) = schedule.wake_ns {
                sleep_until_monotonic(next_wake_ns(schedule.start_ns, wake_ns, now));
            } else {
                wait_until(schedule.due_ns(next), now);
            }
            continue;
        }
        let late_ns = now.saturating_sub(schedule.due_ns(next));
        if late_ns > schedule.catch_up_ns {
            let still = schedule.due_frames(now - schedule.catch_up_ns).clamp(next + 1, intended);
            counts.skipped_frames += still - next;
            next = still;
            continue;
        }
        counts.late_ns_max = counts.late_ns_max.max(late_ns);
        let batch = ((due - next) as usize).min(BATCH_FRAMES);
        counts.late_frames += if late_ns > LATE_FROM_NS { batch as u64 } else { 0 };
        send_batch(sender, composer, next, batch, &mut counts, Some(&mut gaps))?;
        next += batch as u64;
    }
    counts.end_monotonic_ns = monotonic_ns();
    counts.intended_frames = intended;
    counts.unsent_frames = intended - counts.offered_frames;
    counts.gaps = gaps.summary();
    Ok(counts)
}

/// When a source that sends flat out ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'plan> {
    /// How long it sends.
    pub duration_ns: u64,
    /// The most frames.
    pub frames: u64,
    /// Ends it before that, once set.
    pub stop: Option<&'plan AtomicBool>,
}

/// Sends without a pause from `start_ns` on, up to its limits.
///
/// # Errors
/// As [`FrameSender::send`].
pub fn send_flat_out(
    sender: &mut impl FrameSender,
    composer: &Composer,
    start_ns: u64,
    limits: &Limits<'_>,
) -> io::Result<SourceCounts> {
    let mut counts = SourceCounts { start_monotonic_ns: start_ns, ..SourceCounts::default() };
    let end_ns = start_ns + limits.duration_ns;
    sleep_until_monotonic(start_ns);
    while monotonic_ns() < end_ns && counts.intended_frames < limits.frames && !is_set(limits.stop)
    {
        let room = limits.frames - counts.intended_frames;
        let batch = BATCH_FRAMES.min(usize::try_from(room).unwrap_or(BATCH_FRAMES));
        send_batch(sender, composer, counts.intended_frames, batch, &mut counts, None)?;
        counts.intended_frames += batch as u64;
    }
    counts.end_monotonic_ns = monotonic_ns();
    counts.unsent_frames = counts.intended_frames - counts.offered_frames;
    Ok(counts)
}

#[inline]
fn send_batch(
    sender: &mut impl FrameSender,
    composer: &Composer,
    first: u64,
    batch: usize,
    counts: &mut SourceCounts,
    mut gaps: Option<&mut Gaps>,
) -> io::Result<()> {
    let mut between = (0, 0);
    for (index, sequence) in (first..first + batch as u64).enumerate() {
        let now = monotonic_ns();
        let frame = sender.frame(index, composer.frame_bytes(sequence));
        composer.compose(frame, sequence, now, true);
        between = (if index == 0 { now } else { between.0 }, now);
        if let Some(gaps) = &mut gaps {
            gaps.record(now);
        }
    }
    let accepted = sender.send(batch)? as u64;
    counts.offered_frames += accepted;
    counts.refused_frames += batch as u64 - accepted;
    counts.batch_frames = counts.batch_frames.max(batch as u64);
    let started = counts.sent_between_ns.map_or(between.0, |(first, _)| first);
    counts.sent_between_ns = Some((started, between.1));
    Ok(())
}

#[inline]
fn wait_until(due_ns: u64, now_ns: u64) {
    if due_ns.saturating_sub(now_ns) > SPIN_NS {
        sleep_until_monotonic(due_ns - AWAKE_NS);
    } else {
        std::hint::spin_loop();
    }
}

/// The first time after `now_ns` that is a whole number of periods from the start, whether a frame is due then or not:
/// a sender wakes as often for few frames as for many.
const fn next_wake_ns(start_ns: u64, wake_ns: u64, now_ns: u64) -> u64 {
    start_ns + (now_ns.saturating_sub(start_ns) / wake_ns + 1) * wake_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameShape, Key, MINIMUM_FRAME_BYTES, TestFrameRepr};
    use proptest::prelude::*;
    use virtoll_clock::thread_cpu_ns;

    struct Refusing {
        frames: Vec<[u8; MINIMUM_FRAME_BYTES]>,
        every: usize,
        seen: usize,
        sequences: Vec<u64>,
    }

    impl FrameSender for Refusing {
        fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8] {
            &mut self.frames[index][..bytes]
        }

        fn send(&mut self, count: usize) -> io::Result<usize> {
            let mut accepted = 0;
            for frame in &self.frames[..count] {
                self.sequences.push(TestFrameRepr::parse(frame, &Key::PUBLIC).unwrap().sequence);
                self.seen += 1;
                accepted += usize::from(!self.seen.is_multiple_of(self.every));
            }
            Ok(accepted)
        }
    }

    fn sender(every: usize) -> (Refusing, Composer) {
        let repr = TestFrameRepr::smallest(0);
        let mut frame = [0; MINIMUM_FRAME_BYTES];
        repr.emit(&mut frame, &Key::PUBLIC).unwrap();
        let sender =
            Refusing { frames: vec![frame; BATCH_FRAMES], every, seen: 0, sequences: Vec::new() };
        (sender, Composer::new(&FrameShape::of_one(repr)).unwrap())
    }

    #[test]
    fn refused_frames_are_unsent_and_every_number_is_used_once() {
        let (mut sender, composer) = sender(10);
        let schedule = Schedule {
            start_ns: monotonic_ns() + 100_000,
            frames_per_second: 50_000.0,
            duration_ns: 20_000_000,
            catch_up_ns: u64::MAX,
            wake_ns: None,
        };
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        assert_eq!(counts.intended_frames, 1_000);
        assert_eq!(counts.offered_frames + counts.unsent_frames, 1_000);
        assert!(counts.unsent_frames >= sender.seen as u64 / 10);
        assert!(sender.sequences.iter().copied().eq(0..sender.seen as u64));
    }

    /// 100 frames that were all due a second ago.
    fn over(catch_up_ns: u64) -> Schedule {
        Schedule {
            start_ns: monotonic_ns() - 1_100_000_000,
            frames_per_second: 1_000.0,
            duration_ns: 100_000_000,
            catch_up_ns,
            wake_ns: None,
        }
    }

    #[test]
    fn what_is_due_at_once_is_sent_in_batches_and_booked_as_late() {
        let (mut sender, composer) = sender(10);
        let schedule = over(u64::MAX);
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        assert_eq!((counts.intended_frames, counts.offered_frames), (100, 90));
        assert_eq!((counts.refused_frames, counts.unsent_frames), (10, 10));
        assert_eq!((counts.skipped_frames, counts.late_frames, counts.batch_frames), (0, 100, 64));
        assert!(sender.sequences.iter().copied().eq(0..100));
        assert!(counts.late_ns_max >= 1_000_000_000, "{counts:?}");
        assert_eq!(counts.start_monotonic_ns, schedule.start_ns);
        let (first_ns, last_ns) = counts.sent_between_ns.unwrap();
        assert!(schedule.start_ns + 1_100_000_000 <= first_ns && first_ns <= last_ns);
        assert!(last_ns <= counts.end_monotonic_ns);
        let gaps = counts.gaps.unwrap().distribution;
        assert_eq!(gaps.count, 99);
        assert!(gaps.maximum <= last_ns - first_ns);
    }

    #[test]
    fn what_is_all_too_late_is_not_sent_at_all() {
        let (mut sender, composer) = sender(usize::MAX);
        let counts = send_paced(&mut sender, &composer, &over(10_000_000), None).unwrap();
        assert_eq!((counts.intended_frames, counts.offered_frames), (100, 0));
        assert_eq!((counts.skipped_frames, counts.unsent_frames), (100, 100));
        assert!(sender.sequences.is_empty() && counts.sent_between_ns.is_none());
    }

    #[test]
    fn a_plan_with_a_rate_is_paced_and_one_without_goes_on_to_its_limit() {
        let plan = SourcePlan {
            interface: "in0".to_owned(),
            shape: FrameShape::of_one(TestFrameRepr::smallest(0)),
            frames_per_second: Some(1_000.0),
            duration_ns: 100_000_000,
            limit_frames: 70,
            cpu: None,
            batch_frames: None,
            catch_up_ns: u64::MAX,
            wake_ns: None,
            bursts: None,
            stop: None,
        };
        let (mut frames, composer) = sender(usize::MAX);
        let counts = send(&mut frames, &composer, &plan, over(1).start_ns).unwrap();
        assert_eq!((counts.intended_frames, counts.offered_frames), (100, 100));
        let plan = SourcePlan { frames_per_second: None, duration_ns: u64::MAX >> 1, ..plan };
        let counts = send(&mut frames, &composer, &plan, over(1).start_ns).unwrap();
        assert_eq!((counts.intended_frames, counts.offered_frames), (70, 70));
        assert!(counts.gaps.is_none());
        let counts = send(&mut frames, &composer, &plan, 1).unwrap();
        assert_eq!((counts.start_monotonic_ns, counts.offered_frames), (1, 70));
    }

    #[test]
    fn flat_out_ends_with_its_time_or_when_it_is_stopped() {
        let (mut sender, composer) = sender(10);
        let stop = AtomicBool::new(true);
        for (duration_ns, stop) in [(100_000_000, None), (u64::MAX >> 1, Some(&stop))] {
            let limits = Limits { duration_ns, frames: u64::MAX, stop };
            let counts = send_flat_out(&mut sender, &composer, over(1).start_ns, &limits).unwrap();
            assert_eq!((counts.intended_frames, counts.offered_frames), (0, 0));
        }
        let limits = Limits { duration_ns: u64::MAX >> 1, frames: 100, stop: None };
        let counts = send_flat_out(&mut sender, &composer, over(1).start_ns, &limits).unwrap();
        assert_eq!((counts.intended_frames, counts.offered_frames), (100, 90));
        assert_eq!(
            (counts.refused_frames, counts.unsent_frames, counts.batch_frames),
            (10, 10, 64)
        );
    }

    #[test]
    fn a_sender_that_wakes_sends_all_that_is_due_and_nothing_before() {
        let (mut sender, composer) = sender(usize::MAX);
        let start_ns = monotonic_ns();
        let schedule = Schedule {
            start_ns,
            frames_per_second: 10_000.0,
            duration_ns: 20_000_000,
            catch_up_ns: u64::MAX,
            wake_ns: Some(5_000_000),
        };
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        assert_eq!((counts.offered_frames, counts.unsent_frames), (200, 0));
        assert!(sender.sequences.iter().copied().eq(0..200));
        assert!(counts.batch_frames > 1 && counts.end_monotonic_ns >= start_ns + 15_000_000);
        let (first_ns, last_ns) = counts.sent_between_ns.unwrap();
        assert!(start_ns <= first_ns && first_ns <= last_ns && last_ns <= counts.end_monotonic_ns);
    }

    /// One frame, due in 20 ms.
    fn soon() -> Schedule {
        Schedule {
            start_ns: monotonic_ns() + 20_000_000,
            frames_per_second: 1_000.0,
            duration_ns: 1_000_000,
            catch_up_ns: u64::MAX,
            wake_ns: None,
        }
    }

    /// Where the machine keeps it away for longer than the wait, it is tried again.
    #[test]
    #[cfg_attr(miri, ignore = "the real clock runs away from an interpreter")]
    fn a_sender_leaves_its_core_until_just_before_a_frame_and_sends_it_in_time() {
        let (mut sender, composer) = sender(usize::MAX);
        let (mut slept, mut in_time) = (0, false);
        while slept < 5 || !in_time {
            let (cpu_ns, schedule) = (thread_cpu_ns(), soon());
            let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
            assert_eq!(counts.offered_frames, 1);
            assert!(counts.sent_between_ns.unwrap().0 >= schedule.start_ns, "and not before");
            // Five times in a row: one that spins may be kept from its core once.
            slept = if thread_cpu_ns() - cpu_ns < 2_000_000 { slept + 1 } else { 0 };
            in_time |= counts.late_frames == 0;
        }
    }

    /// Takes one frame and is busy with it until a time.
    struct Busy {
        inner: Refusing,
        until_ns: u64,
    }

    impl FrameSender for Busy {
        fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8] {
            self.inner.frame(index, bytes)
        }

        fn send(&mut self, count: usize) -> io::Result<usize> {
            sleep_until_monotonic(self.until_ns);
            self.inner.send(count)
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the real clock runs away from an interpreter")]
    fn what_came_too_late_while_the_interface_was_busy_is_skipped_once() {
        let (inner, composer) = sender(usize::MAX);
        let start_ns = monotonic_ns();
        let mut sender = Busy { inner, until_ns: start_ns + 80_000_000 };
        let schedule = Schedule {
            start_ns,
            frames_per_second: 1_000.0,
            duration_ns: 100_000_000,
            catch_up_ns: 30_000_000,
            wake_ns: None,
        };
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        assert!(counts.skipped_frames > 0, "{counts:?}");
        assert_eq!(counts.offered_frames + counts.skipped_frames, 100);
        assert_eq!(counts.unsent_frames, counts.skipped_frames);
        assert!(sender.inner.sequences.is_sorted_by(|one, next| one < next));
    }

    /// One by one they would take hours.
    #[test]
    #[cfg_attr(miri, ignore = "its clock begins at 0: nothing is due long ago")]
    fn any_number_of_frames_that_are_too_late_is_skipped_at_once() {
        let (mut sender, composer) = sender(usize::MAX);
        let schedule = Schedule {
            start_ns: 0,
            frames_per_second: 1e13,
            duration_ns: 100_000_000,
            catch_up_ns: 10_000_000,
            wake_ns: None,
        };
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        assert_eq!((counts.skipped_frames, counts.offered_frames), (1_000_000_000_000, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "its clock begins at 0: nothing is due long ago")]
    fn what_is_no_later_than_allowed_is_sent() {
        // Due from the machine's start to half of the time since then; late is what is older than three quarters of it.
        let (mut sender, composer) = sender(usize::MAX);
        let before_ns = monotonic_ns();
        let duration_ns = before_ns / 2;
        let schedule = Schedule {
            start_ns: 0,
            frames_per_second: 100.5 * 1e9 / duration_ns as f64,
            duration_ns,
            catch_up_ns: before_ns / 4 * 3,
            wake_ns: None,
        };
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        let skipped_by = |now_ns: u64| schedule.due_frames(now_ns - schedule.catch_up_ns).min(100);
        let possible = skipped_by(before_ns)..=skipped_by(monotonic_ns());
        assert!(possible.contains(&counts.skipped_frames), "{possible:?}: {counts:?}");
        assert_eq!(counts.offered_frames + counts.skipped_frames, 100);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "its clock begins at 0: nothing is due long ago")]
        fn the_counts_are_those_of_a_list_of_what_was_sent(frames in 0_u64..300, every in 1_usize..20, flat_out: bool) {
            let (mut sender, composer) = sender(every);
            let counts = if flat_out {
                let limits = Limits { duration_ns: u64::MAX, frames, stop: None };
                send_flat_out(&mut sender, &composer, 0, &limits)
            } else {
                send_paced(&mut sender, &composer, &long_ago(frames, u64::MAX), None)
            };
            let counts = counts.unwrap();
            prop_assert_eq!(&sender.sequences, &(0..frames).collect::<Vec<_>>());
            let refused = frames / every as u64;
            prop_assert_eq!((counts.intended_frames, counts.offered_frames), (frames, frames - refused));
            prop_assert_eq!((counts.unsent_frames, counts.refused_frames), (refused, refused));
            prop_assert_eq!(counts.batch_frames, frames.min(BATCH_FRAMES as u64));
            // Flat out no frame has a time to be late for, or a gap to keep.
            let (late, gaps) = if flat_out { (0, 0) } else { (frames, frames.saturating_sub(1)) };
            prop_assert_eq!((counts.late_frames, counts.skipped_frames), (late, 0));
            prop_assert_eq!(counts.gaps.map_or(0, |gaps| gaps.distribution.count), gaps);
        }

        #[test]
        #[cfg_attr(miri, ignore = "its clock begins at 0: nothing is due long ago")]
        fn what_is_later_than_allowed_is_never_sent(frames in 0_u64..300) {
            let (mut sender, composer) = sender(usize::MAX);
            let counts = send_paced(&mut sender, &composer, &long_ago(frames, 1), None).unwrap();
            prop_assert!(sender.sequences.is_empty());
            prop_assert_eq!((counts.intended_frames, counts.skipped_frames), (frames, frames));
            prop_assert_eq!((counts.unsent_frames, counts.offered_frames), (frames, 0));
        }

        #[test]
        fn the_next_wake_is_the_first_whole_period_after_now(start_ns in 0_u64..1 << 50, wake_ns in 1_u64..1 << 30, now_ns in 0_u64..1 << 51) {
            let next = next_wake_ns(start_ns, wake_ns, now_ns);
            prop_assert!(next > now_ns && next > start_ns && (next - start_ns).is_multiple_of(wake_ns));
            prop_assert!(next - wake_ns <= now_ns.max(start_ns));
        }
    }

    /// A trial of so many frames in a tenth of a second that began, by its clock, at the machine's start.
    fn long_ago(frames: u64, catch_up_ns: u64) -> Schedule {
        let frames_per_second = frames as f64 * 10.0 + 1.0;
        Schedule {
            start_ns: 0,
            frames_per_second,
            duration_ns: 100_000_000,
            catch_up_ns,
            wake_ns: None,
        }
    }

    #[test]
    fn wakes_are_whole_periods_from_the_start() {
        assert_eq!(next_wake_ns(100, 10, 100), 110);
        assert_eq!(next_wake_ns(100, 10, 119), 120);
        assert_eq!(next_wake_ns(100, 10, 90), 110);
    }

    #[test]
    fn a_sender_that_is_stopped_intended_no_more_than_was_due() {
        let (mut sender, composer) = sender(10);
        let stop = AtomicBool::new(false);
        let schedule = Schedule {
            start_ns: monotonic_ns(),
            frames_per_second: 10_000.0,
            duration_ns: 3_600_000_000_000,
            catch_up_ns: u64::MAX,
            wake_ns: Some(1_000_000),
        };
        let counts = std::thread::scope(|scope| {
            let sending =
                scope.spawn(|| send_paced(&mut sender, &composer, &schedule, Some(&stop)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            sending.join().unwrap().unwrap()
        });
        assert!(counts.intended_frames > 0 && counts.intended_frames < 36_000_000);
        assert_eq!(counts.intended_frames, sender.seen as u64);
        assert_eq!(counts.offered_frames + counts.unsent_frames, counts.intended_frames);
        assert_eq!(counts.unsent_frames, counts.refused_frames);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the real clock runs away from an interpreter")]
    fn what_is_too_late_is_skipped_and_booked() {
        let (mut sender, composer) = sender(usize::MAX);
        let schedule = Schedule {
            start_ns: monotonic_ns() - 5_000_000,
            frames_per_second: 10_000.0,
            duration_ns: 10_000_000,
            catch_up_ns: 2_000_000,
            wake_ns: None,
        };
        let counts = send_paced(&mut sender, &composer, &schedule, None).unwrap();
        assert!(counts.skipped_frames >= 30, "{counts:?}");
        assert_eq!(counts.offered_frames + counts.unsent_frames, 100);
        assert!(counts.unsent_frames >= counts.skipped_frames);
        // Whoever is kept from running for all of the trial sends none.
        assert!(sender.sequences.first().is_none_or(|first| *first >= 30));
        assert!(sender.sequences.is_sorted());
    }
}

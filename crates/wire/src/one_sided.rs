//! The two ends of a path, each without the other: sources without a sink, and a sink without sources. `trial` combines
//! both; the command line and trials between two hosts use one each.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::backend::{Collect, Refused, SinkCounts, Start, Stop};
use crate::backend_selection::{self, Chosen};
use crate::priority::SessionPriority;
use crate::senders::{self, Outcome, Sender, Sent, ThreadCost, on_core};
use crate::source::SourcePlan;

/// The longest that frames may take from a source's interface into its counters.
const SETTLING: Duration = Duration::from_millis(20);

/// Opened sources, and the result of each sending thread.
pub struct Sources<'plans> {
    senders: Chosen<Vec<Sender>>,
    plans: &'plans [SourcePlan],
    ended: Vec<thread::Result<Outcome>>,
}

impl<'plans> Sources<'plans> {
    /// Opens all of them with one back end.
    ///
    /// # Errors
    /// As [`backend_selection::open_sources`].
    pub fn open(
        wanted: backend_selection::Generator,
        plans: &'plans [SourcePlan],
    ) -> Result<Self, Refused> {
        Ok(Self {
            senders: backend_selection::open_sources(wanted, plans)?,
            plans,
            ended: Vec::new(),
        })
    }

    /// Sends what the plans ask for, each on its thread. [`Self::settle`] returns the failures.
    pub fn send(&mut self) {
        self.send_from(0);
    }

    /// As [`Self::send`], with the first frame due no earlier than at `not_before_ns` (`CLOCK_MONOTONIC`). Sources that are
    /// ready by then start at that time, whatever else runs on their core.
    pub(crate) fn send_from(&mut self, not_before_ns: u64) {
        let (senders, plans) = (&mut self.senders.value, self.plans);
        let start = Start::not_before(senders.len(), not_before_ns);
        // Reserved before the first thread starts: from the first frame on nothing is allocated.
        let mut ended = Vec::with_capacity(senders.len());
        thread::scope(|scope| {
            let threads = senders::spawn(scope, senders, plans, &start);
            ended.extend(threads.into_iter().map(thread::ScopedJoinHandle::join));
        });
        self.ended = ended;
    }

    /// Frames that each source offered, in the order of the plans, without those that the interface is already known to
    /// have refused: the sink need not wait for them. Never fewer than after [`Self::settle`]. None if a source failed.
    pub fn offered_frames(&mut self) -> Option<Vec<u64>> {
        let mut offered = vec![None; self.plans.len()];
        for (ended, sender) in self.ended.iter().zip(&mut self.senders.value) {
            let Ok(Ok((counts, _))) = ended else { return None };
            let mut counts = counts.clone();
            sender.generator.settle(&mut counts).ok()?;
            for (place, counts) in sender.sources.iter().zip(counts) {
                offered[*place] = Some(counts.offered_frames);
            }
        }
        offered.into_iter().collect()
    }

    /// Completes the counts, once the frames have passed the interface.
    ///
    /// # Errors
    /// What failed while sending, and on which interface.
    pub(crate) fn settle(mut self) -> Result<Chosen<Vec<Sent>>, Refused> {
        let value = senders::gather(self.ended, &mut self.senders.value, self.plans)?;
        Ok(Chosen { value, name: self.senders.name, reason: self.senders.reason })
    }
}

/// Sends what the plans ask for, no earlier than at `not_before_ns`, without a sink.
///
/// # Errors
/// What failed while opening or sending.
pub fn send(
    wanted: backend_selection::Generator,
    plans: &[SourcePlan],
    not_before_ns: u64,
) -> Result<Chosen<Vec<Sent>>, Refused> {
    let mut sources = Sources::open(wanted, plans)?;
    let priority = SessionPriority::raise();
    sources.send_from(not_before_ns);
    drop(priority);
    thread::sleep(SETTLING);
    sources.settle()
}

/// A sink that counts on its own thread until [`Self::finish`]. If it is dropped, the thread ends once its wait is over.
pub struct Receiving {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<io::Result<(SinkCounts, ThreadCost)>>>,
}

impl Receiving {
    /// Starts the thread, on a core, and waits until it runs: on a busy machine that may take longer than the sources
    /// wait before their first frame.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(sink: Box<dyn Collect>, cpu: Option<u32>) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let seen = Arc::clone(&stop);
        let (running, runs) = mpsc::channel::<()>();
        let collect = move || {
            on_core(cpu, || {
                drop(running);
                sink.collect(&Start::new(1), &seen)
            })
        };
        let thread = thread::Builder::new().name("sink".to_owned()).spawn(collect)?;
        let _ = runs.recv(); // nothing is sent: it ends when the other side is dropped, by a panic too
        Ok(Self { stop, thread: Some(thread) })
    }

    /// All sources have stopped, and offered so many frames each, where that is known: waits for quiet, and hands the
    /// counts over.
    ///
    /// # Errors
    /// What made receiving impossible.
    pub fn finish(
        mut self,
        offered_frames: Option<&[u64]>,
    ) -> io::Result<(SinkCounts, ThreadCost)> {
        self.stop.stopped(offered_frames);
        let ended = self.thread.take().map(JoinHandle::join);
        let panicked = || Err(io::Error::other("the sink's thread panicked"));
        ended.and_then(Result::ok).unwrap_or_else(panicked)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop.stopped(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Awaited, Generate};
    use crate::frame::{FrameShape, TestFrameRepr};
    use crate::source::SourceCounts;

    /// A sink whose count of foreign frames says whether it was told that all 3 frames of its only source left.
    struct Counting;

    impl Collect for Counting {
        fn collect(self: Box<Self>, start: &Start, stop: &Stop) -> io::Result<SinkCounts> {
            start.wait();
            while stop.stopped_ns().is_none() {
                thread::yield_now();
            }
            Ok(SinkCounts {
                seen_frames: 41,
                foreign_frames: u64::from(stop.awaited(1, |_| 3) == Awaited::Nothing),
                drained: true,
                ..SinkCounts::default()
            })
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2) and getrusage(2)")]
    fn a_sink_counts_until_it_is_told_that_the_sources_have_stopped() {
        for (offered, known) in [(Some(&[3][..]), 1), (None, 0)] {
            let receiving = Receiving::start(Box::new(Counting), None).unwrap();
            let (counts, _) = receiving.finish(offered).unwrap();
            assert_eq!((counts.seen_frames, counts.foreign_frames), (41, known));
        }
    }

    /// A sink that tells when its thread is over.
    struct Telling(mpsc::Sender<()>);

    impl Collect for Telling {
        fn collect(self: Box<Self>, start: &Start, stop: &Stop) -> io::Result<SinkCounts> {
            let counts = Box::new(Counting).collect(start, stop);
            let _ = self.0.send(());
            counts
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2) and getrusage(2)")]
    fn a_sink_that_nobody_asks_any_more_ends() {
        let (over, ended) = mpsc::channel();
        drop(Receiving::start(Box::new(Telling(over)), None).unwrap());
        assert_eq!(ended.recv(), Ok(()));
    }

    struct Panicking;

    impl Collect for Panicking {
        fn collect(self: Box<Self>, _: &Start, _: &Stop) -> io::Result<SinkCounts> {
            panic!("as a test wants it")
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2) and getrusage(2)")]
    fn a_sink_that_panics_is_an_error() {
        let ended = Receiving::start(Box::new(Panicking), None).unwrap().finish(None);
        assert_eq!(ended.unwrap_err().to_string(), "the sink's thread panicked");
    }

    /// A generator of sources that offer 10, 20, ... frames, of which it learns afterwards that one of each did not leave.
    struct Offering {
        sources: u64,
        failing: bool,
        not_before_ns: u64,
    }

    impl Generate for Offering {
        fn generate(&mut self, start: &Start) -> io::Result<Vec<SourceCounts>> {
            assert!(start.wait() >= self.not_before_ns);
            if self.failing {
                return Err(io::ErrorKind::NetworkDown.into());
            }
            let counts =
                |number| SourceCounts { offered_frames: number * 10, ..Default::default() };
            Ok((1..=self.sources).map(counts).collect())
        }

        fn settle(&mut self, counts: &mut [SourceCounts]) -> io::Result<()> {
            for one in counts {
                one.offered_frames -= 1;
            }
            Ok(())
        }
    }

    /// Sources 0 and 2 on one thread, source 1 on another.
    fn sources(plans: &[SourcePlan], failing: bool, not_before_ns: u64) -> Sources<'_> {
        let sender = |places: &[usize], failing| Sender {
            generator: Box::new(Offering { sources: places.len() as u64, failing, not_before_ns }),
            sources: places.to_vec(),
        };
        let value = vec![sender(&[0, 2], false), sender(&[1], failing)];
        let senders = Chosen { value, name: "offering", reason: None };
        Sources { senders, plans, ended: Vec::new() }
    }

    fn plans() -> Vec<SourcePlan> {
        let plan = |number| SourcePlan {
            interface: format!("in{number}"),
            shape: FrameShape::of_one(TestFrameRepr::smallest(0)),
            frames_per_second: None,
            duration_ns: 1,
            limit_frames: 100,
            cpu: None,
            batch_frames: None,
            catch_up_ns: 1,
            wake_ns: None,
            bursts: None,
            stop: None,
        };
        (0..3).map(plan).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2) and getrusage(2)")]
    fn what_each_source_offered_stands_at_its_place_without_what_did_not_leave() {
        let plans = plans();
        let mut sources = sources(&plans, false, 0);
        sources.send();
        // Asking twice counts nothing twice.
        for _ in 0..2 {
            assert_eq!(sources.offered_frames(), Some(vec![9, 9, 19]));
        }
        let sent = sources.settle().ok().unwrap();
        let offered = sent.value.iter().map(|one| (one.counts.offered_frames, one.thread));
        assert!(offered.eq([(9, 0), (9, 1), (19, 0)]));
        assert_eq!(sent.name, "offering");
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2) and getrusage(2)")]
    fn a_source_that_fails_is_named_and_its_frames_are_not_known() {
        let plans = plans();
        let mut sources = sources(&plans, true, 0);
        sources.send();
        assert_eq!(sources.offered_frames(), None);
        let refused = sources.settle().err().unwrap();
        assert_eq!(
            (refused.on.as_str(), refused.cause.kind()),
            ("in1", io::ErrorKind::NetworkDown)
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2) and getrusage(2)")]
    fn sources_start_no_earlier_than_they_are_told() {
        let not_before_ns = virtoll_clock::monotonic_ns() + 3_600_000_000_000;
        let plans = plans();
        let mut sources = sources(&plans, false, not_before_ns);
        sources.send_from(not_before_ns);
        assert!(sources.offered_frames().is_some(), "no thread panicked");
    }
}

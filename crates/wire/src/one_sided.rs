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

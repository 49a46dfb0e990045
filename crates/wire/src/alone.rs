//! One end of a path without the other: sources without a sink, a sink without sources.

use std::io;
use std::thread;
use std::time::Duration;

use crate::backend::{Collect, SinkCounts, SourcePlan, Start, Stop};
use crate::choice::{self, Chosen, Refused};
use crate::pacing::SourceCounts;
use crate::priority::{SessionPriority, prefer_this_thread};
use crate::sys;
use crate::trial::ThreadCost;

/// The longest that frames may take from a source's interface into its counters.
const SETTLING: Duration = Duration::from_millis(20);

/// Sends what the plans ask for and does not look who receives it.
///
/// # Errors
/// What failed while opening or sending.
pub fn send(
    wanted: choice::Generator,
    plans: &[SourcePlan],
) -> Result<Chosen<Vec<(SourceCounts, ThreadCost)>>, Refused> {
    let mut sources = choice::open_sources(wanted, plans)?;
    let start = Start::new(plans.len());
    let priority = SessionPriority::raise();
    let results: Vec<_> = thread::scope(|scope| {
        let threads = sources.value.iter_mut().zip(plans).map(|(source, plan)| {
            let start = &start;
            scope.spawn(move || {
                let pinned = plan.cpu.map_or(Ok(()), sys::pin_thread);
                prefer_this_thread();
                let cost = ThreadCost::begin();
                let counts = source.generate(start);
                let cost = cost.end();
                thread::sleep(SETTLING);
                let mut counts = pinned.and(counts)?;
                source.settle(&mut counts).map(|()| (counts, cost))
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    drop(priority);
    let mut value = Vec::new();
    for (result, plan) in results.into_iter().zip(plans) {
        let result = result.unwrap_or_else(|_| Err(io::Error::other("a traffic thread panicked")));
        let refused = |cause| Refused { on: plan.interface.clone(), cause };
        value.push(result.map_err(refused)?);
    }
    Ok(Chosen { value, name: sources.name, reason: sources.reason })
}

/// Counts for `duration`, and then until quiet came.
///
/// # Errors
/// What made receiving impossible.
pub fn receive(sink: Box<dyn Collect>, duration: Duration) -> io::Result<SinkCounts> {
    let (start, stop) = (Start::new(1), Stop::new(1));
    thread::scope(|scope| {
        let sink = scope.spawn(|| sink.collect(&start, &stop));
        thread::sleep(duration);
        stop.one_stopped();
        sink.join().unwrap_or_else(|_| Err(io::Error::other("the sink's thread panicked")))
    })
}

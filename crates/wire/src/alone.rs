//! One end of a path without the other: sources without a sink, a sink without sources.

use std::io;
use std::thread;
use std::time::Duration;

use crate::backend::{Collect, SinkCounts, SourcePlan, Start, Stop};
use crate::choice::{self, Chosen, Refused};
use crate::priority::SessionPriority;
use crate::senders::{self, Sent};

/// The longest that frames may take from a source's interface into its counters.
const SETTLING: Duration = Duration::from_millis(20);

/// Sends what the plans ask for and does not look who receives it.
///
/// # Errors
/// What failed while opening or sending.
pub fn send(wanted: choice::Generator, plans: &[SourcePlan]) -> Result<Chosen<Vec<Sent>>, Refused> {
    let mut senders = choice::open_sources(wanted, plans)?;
    let count = senders.value.len();
    let (start, stop) = (Start::new(count), Stop::new(count));
    let priority = SessionPriority::raise();
    let results: Vec<_> = thread::scope(|scope| {
        let threads = senders::spawn(scope, &mut senders.value, plans, &start, &stop);
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    drop(priority);
    thread::sleep(SETTLING);
    let value = senders::gather(results, &mut senders.value, plans)?;
    Ok(Chosen { value, name: senders.name, reason: senders.reason })
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

//! One traffic trial: sources and sink on threads of their own, then the books.

use std::io;
use std::thread;

use crate::backend::{Collect, Quiet, SinkCounts, SourcePlan, Start, Stop};
use crate::books::{Expectation, Ports};
use crate::choice::{self, Chosen, Refused};
use crate::netlink::{LinkStatistics, Netlink};
use crate::pacing::intended_frames;
use crate::priority::SessionPriority;
pub use crate::senders::ThreadCost;
use crate::senders::{self, Sender, Sent, on_core};
pub use result::{InterfaceChange, Names, SourceResult, TrialCounts, TrialError};

mod result;

/// The largest rate that a flat-out source is given room for in the sink's books.
const FLAT_OUT_LIMIT_FRAMES_PER_SECOND: f64 = 20e6;
/// The shortest wait for quiet: a ring's block is handed over within a few milliseconds.
pub const MINIMUM_QUIET_NS: u64 = 10_000_000;

/// What a trial is made of.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    /// The trial's number.
    pub trial: u16,
    /// What sends.
    pub generator: choice::Generator,
    /// The sources.
    pub sources: Vec<SourcePlan>,
    /// What counts.
    pub sink: choice::Sink,
    /// Where frames arrive.
    pub sink_interfaces: Vec<String>,
    /// The core of the sink's thread.
    pub sink_cpu: Option<u32>,
    /// When the sink's wait is over.
    pub quiet: Quiet,
    /// How many frames the sink keeps.
    pub capture_frames: u32,
}

/// The most frames that a source may send.
pub fn limit_frames(frames_per_second: Option<f64>, duration_ns: u64) -> u64 {
    intended_frames(frames_per_second.unwrap_or(FLAT_OUT_LIMIT_FRAMES_PER_SECOND), duration_ns)
}

impl TrialPlan {
    /// How the sink tells this trial's frames from others.
    pub fn expectation(&self) -> Expectation {
        let mut ip_bytes: Vec<usize> = self
            .sources
            .iter()
            .flat_map(|source| source.sizes.iter().map(|size| size - source.frame.layout().ip()))
            .collect();
        ip_bytes.sort_unstable();
        ip_bytes.dedup();
        let ports = self.sources.iter().map(|source| Ports {
            first_source: source.frame.source_port,
            flows: source.flows,
            destination: source.frame.destination_port,
        });
        Expectation {
            trial: self.trial,
            ip_bytes,
            ports: ports.collect(),
            capacities: self.sources.iter().map(|source| source.limit_frames).collect(),
        }
    }

    fn interfaces(&self) -> io::Result<Vec<(String, LinkStatistics)>> {
        let mut netlink = Netlink::open()?;
        let mut names: Vec<&String> = self.sources.iter().map(|source| &source.interface).collect();
        names.extend(&self.sink_interfaces);
        names.dedup();
        names
            .into_iter()
            .map(|name| Ok((name.clone(), netlink.link_named(name)?.statistics)))
            .collect()
    }
}

/// Runs a trial.
///
/// # Errors
/// What failed while opening, sending or receiving, or books that do not balance.
pub fn run(plan: &TrialPlan) -> Result<TrialCounts, TrialError> {
    for source in &plan.sources {
        source.composer().map_err(|cause| failed("open a source on", &source.interface, cause))?;
    }
    let refused =
        |what: &'static str| move |refused: Refused| failed(what, &refused.on, refused.cause);
    let expectation = plan.expectation();
    let sink = choice::open_sink(
        plan.sink,
        &plan.sink_interfaces,
        &expectation,
        plan.quiet,
        plan.capture_frames,
    )
    .map_err(refused("open the sink on"))?;
    let sources =
        choice::open_sources(plan.generator, &plan.sources).map_err(refused("open a source on"))?;
    let names = Names {
        backend: sources.name,
        backend_reason: sources.reason.clone(),
        sink: sink.name,
        sink_reason: sink.reason.clone(),
    };
    let before = plan.interfaces().map_err(|cause| failed("read counters", "", cause))?;
    let priority = SessionPriority::raise();
    let mut counts = run_threads(plan, sources, sink, names)?;
    drop(priority);
    let after = plan.interfaces().map_err(|cause| failed("read counters", "", cause))?;
    let changes = before.into_iter().zip(after).map(|((interface, before), (_, after))| {
        InterfaceChange { interface, statistics: (before, after) }
    });
    counts.interfaces = changes.collect();
    Ok(counts)
}

fn failed(what: &str, on: &str, cause: io::Error) -> TrialError {
    TrialError::System(format!("{what} {on}"), cause)
}

fn run_threads(
    plan: &TrialPlan,
    mut senders: Chosen<Vec<Sender>>,
    sink: Chosen<Box<dyn Collect>>,
    names: Names,
) -> Result<TrialCounts, TrialError> {
    let count = senders.value.len();
    let (start, stop) = (Start::new(count + 1), Stop::new(count));
    let (sent, received) = thread::scope(|scope| {
        let receive = || on_core(plan.sink_cpu, || sink.value.collect(&start, &stop));
        let sink = scope.spawn(receive);
        let threads = senders::spawn(scope, &mut senders.value, &plan.sources, &start, &stop);
        let sent: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (sent, sink.join())
    });
    let sent = senders::gather(sent, &mut senders.value, &plan.sources)
        .map_err(|refused| failed("send on", &refused.on, refused.cause))?;
    let (sink, sink_cost) = received
        .map_err(|_| TrialError::Books("the sink's thread panicked".to_owned()))?
        .map_err(|cause| failed("receive on", &plan.sink_interfaces.join(", "), cause))?;
    close_books(sent, sink, sink_cost, names)
}

fn close_books(
    sources: Vec<Sent>,
    sink: SinkCounts,
    sink_cost: ThreadCost,
    names: Names,
) -> Result<TrialCounts, TrialError> {
    let mut results = Vec::new();
    for (number, (source, book)) in sources.into_iter().zip(&sink.sources).enumerate() {
        let (sent, thread, cost) = (source.counts, source.thread, source.cost);
        let arrived = book.arrivals();
        let forged = book.arrived_from(sent.intended_frames);
        let balanced =
            book.agrees() && sent.offered_frames + sent.unsent_frames == sent.intended_frames;
        let lost = sent.offered_frames.checked_sub(arrived.forwarded_frames);
        let Some(lost_frames) = lost.filter(|_| balanced && forged == 0) else {
            return Err(TrialError::Books(format!(
                "the books of source {number} do not balance: intended {}, offered {}, unsent {}, forwarded {}, \
                 of which {forged} were never sent",
                sent.intended_frames,
                sent.offered_frames,
                sent.unsent_frames,
                arrived.forwarded_frames
            )));
        };
        results.push(SourceResult { sent, arrived, lost_frames, thread, cost });
    }
    Ok(TrialCounts {
        names,
        sources: results,
        seen_frames: sink.seen_frames,
        foreign_frames: sink.foreign_frames,
        late_trial_frames: sink.late_trial_frames,
        kernel_dropped_frames: sink.kernel_dropped_frames,
        sink_processors: sink.processors,
        captured: sink.captured,
        drained: sink.drained,
        sink_cost,
        interfaces: Vec::new(),
    })
}

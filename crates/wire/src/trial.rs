//! One traffic trial: sources and sink on threads of their own, then the books.

use std::fmt;
use std::io;
use std::thread;

use virtoll_clock::{CpuTime, thread_cpu};

use crate::af_packet;
use crate::backend::{Collect, Generate, Quiet, SinkCounts, SourcePlan, Start, Stop};
use crate::books::{Books, Expectation, SourceArrivals};
use crate::pacing::{SourceCounts, intended_frames};
use crate::sys;

/// The largest rate that a flat-out source is given room for in the sink's books.
const FLAT_OUT_LIMIT_FRAMES_PER_SECOND: f64 = 20e6;
/// The shortest wait for quiet: a ring's block is handed over within a few milliseconds.
pub const MINIMUM_QUIET_NS: u64 = 10_000_000;

/// What a trial is made of.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    /// The trial's number.
    pub trial: u16,
    /// Frame size in bytes.
    pub frame_bytes: usize,
    /// The sources.
    pub sources: Vec<SourcePlan>,
    /// Where frames arrive.
    pub sink_interfaces: Vec<String>,
    /// The core of the sink's thread.
    pub sink_cpu: Option<u32>,
    /// When the sink's wait is over.
    pub quiet: Quiet,
}

/// A source's side and the sink's side of its books.
#[derive(Clone, Copy, Debug)]
pub struct SourceResult {
    /// What was sent.
    pub sent: SourceCounts,
    /// What arrived.
    pub arrived: SourceArrivals,
    /// Offered and not arrived.
    pub lost_frames: u64,
}

/// The trial's outcome.
#[derive(Debug)]
pub struct TrialCounts {
    /// By source.
    pub sources: Vec<SourceResult>,
    /// Frames of no trial.
    pub foreign_frames: u64,
    /// Frames of another trial.
    pub late_trial_frames: u64,
    /// Frames that the kernel dropped before the sink read them.
    pub kernel_dropped_frames: u64,
    /// Whether quiet came in time.
    pub drained: bool,
    /// CPU time of all generator threads.
    pub generator_cpu: CpuTime,
    /// CPU time of the sink's thread.
    pub sink_cpu: CpuTime,
}

/// Why a trial has no result.
#[derive(Debug)]
pub enum TrialError {
    /// A system call failed, on what.
    System(String, io::Error),
    /// The books do not balance: the trial is worth nothing.
    Books(String),
}

impl fmt::Display for TrialError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(what, cause) => write!(formatter, "{what}: {cause}"),
            Self::Books(sentence) => formatter.write_str(sentence),
        }
    }
}

impl std::error::Error for TrialError {}

/// The most frames that a source may send.
pub fn limit_frames(frames_per_second: Option<f64>, duration_ns: u64) -> u64 {
    intended_frames(frames_per_second.unwrap_or(FLAT_OUT_LIMIT_FRAMES_PER_SECOND), duration_ns)
}

/// Runs a trial on packet sockets.
///
/// # Errors
/// What failed while opening, sending or receiving, or books that do not balance.
pub fn run(plan: &TrialPlan) -> Result<TrialCounts, TrialError> {
    let capacities: Vec<u64> = plan.sources.iter().map(|source| source.limit_frames).collect();
    let expectation = Expectation {
        trial: plan.trial,
        frame_bytes: plan.frame_bytes,
        ports: plan
            .sources
            .iter()
            .map(|source| (source.frame.source_port, source.frame.destination_port))
            .collect(),
    };
    let books = Books::new(expectation, &capacities);
    let sink = af_packet::Collector::open(&plan.sink_interfaces, books, plan.quiet)
        .map_err(|cause| failed("open the sink on", &plan.sink_interfaces.join(", "), cause))?;
    let mut generators = Vec::new();
    for source in &plan.sources {
        let generator = af_packet::Generator::open(source.clone())
            .map_err(|cause| failed("open a source on", &source.interface, cause))?;
        generators.push(Box::new(generator) as Box<dyn Generate>);
    }
    run_threads(plan, generators, Box::new(sink))
}

fn failed(what: &str, on: &str, cause: io::Error) -> TrialError {
    TrialError::System(format!("{what} {on}"), cause)
}

fn run_threads(
    plan: &TrialPlan,
    generators: Vec<Box<dyn Generate>>,
    sink: Box<dyn Collect>,
) -> Result<TrialCounts, TrialError> {
    let start = Start::new(generators.len() + 1);
    let stop = Stop::new(generators.len());
    let (sent, received) = thread::scope(|scope| {
        let (start, stop) = (&start, &stop);
        let sink = scope.spawn(move || {
            let pinned = pin(plan.sink_cpu);
            let before = thread_cpu();
            let counts = sink.collect(start, stop);
            pinned.and(counts).map(|counts| (counts, thread_cpu().since(before)))
        });
        let sources: Vec<_> = generators
            .into_iter()
            .zip(&plan.sources)
            .map(|(mut generator, source)| {
                scope.spawn(move || {
                    let pinned = pin(source.cpu);
                    let before = thread_cpu();
                    let counts = generator.generate(start);
                    stop.one_stopped();
                    pinned.and(counts).map(|counts| (counts, thread_cpu().since(before)))
                })
            })
            .collect();
        let sent: Vec<_> = sources.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (sent, sink.join())
    });
    let panicked = || TrialError::Books("a traffic thread panicked".to_owned());
    let mut sources = Vec::new();
    let mut generator_cpu = CpuTime::default();
    for (result, source) in sent.into_iter().zip(&plan.sources) {
        let (counts, cpu) = result
            .map_err(|_| panicked())?
            .map_err(|cause| failed("send on", &source.interface, cause))?;
        generator_cpu = generator_cpu + cpu;
        sources.push(counts);
    }
    let (sink, sink_cpu) = received
        .map_err(|_| panicked())?
        .map_err(|cause| failed("receive on", &plan.sink_interfaces.join(", "), cause))?;
    close_books(&sources, &sink, generator_cpu, sink_cpu)
}

fn pin(cpu: Option<u32>) -> io::Result<()> {
    cpu.map_or(Ok(()), sys::pin_thread)
}

fn close_books(
    sources: &[SourceCounts],
    sink: &SinkCounts,
    generator_cpu: CpuTime,
    sink_cpu: CpuTime,
) -> Result<TrialCounts, TrialError> {
    let mut results = Vec::new();
    for (number, (sent, book)) in sources.iter().zip(sink.books.sources()).enumerate() {
        let arrived = book.arrivals();
        let forged = book.arrived_from(sent.intended_frames);
        let balanced = sent.offered_frames + sent.unsent_frames == sent.intended_frames;
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
        results.push(SourceResult { sent: *sent, arrived, lost_frames });
    }
    Ok(TrialCounts {
        sources: results,
        foreign_frames: sink.books.foreign_frames(),
        late_trial_frames: sink.books.late_trial_frames(),
        kernel_dropped_frames: sink.kernel_dropped_frames,
        drained: sink.drained,
        generator_cpu,
        sink_cpu,
    })
}

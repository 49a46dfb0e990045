//! What a trial ends with.

use std::fmt;
use std::io;

use crate::books::SourceArrivals;
use crate::netlink::LinkStatistics;
use crate::pacing::SourceCounts;
use crate::pcap::CapturedPacket;
use crate::senders::{Sent, ThreadCost};

/// A source's side and the sink's side of its books.
#[derive(Clone, Debug)]
pub struct SourceResult {
    /// What was sent.
    pub sent: SourceCounts,
    /// What arrived.
    pub arrived: SourceArrivals,
    /// Offered and not arrived.
    pub lost_frames: u64,
    /// The number of the thread that sent it, perhaps with others.
    pub thread: usize,
    /// What that thread cost.
    pub cost: ThreadCost,
}

impl SourceResult {
    /// The source's side alone.
    pub fn as_sent(&self) -> Sent {
        Sent { counts: self.sent.clone(), thread: self.thread, cost: self.cost }
    }
}

/// Change of an interface's counters over the trial.
#[derive(Clone, Debug)]
pub struct InterfaceChange {
    /// Its name.
    pub interface: String,
    /// Before the first frame, and after the last.
    pub statistics: (LinkStatistics, LinkStatistics),
}

/// The trial's outcome.
#[derive(Debug)]
pub struct TrialCounts {
    /// The back end and the sink, and why nothing better was taken.
    pub names: Names,
    /// By source.
    pub sources: Vec<SourceResult>,
    /// All frames that the sink saw.
    pub seen_frames: u64,
    /// Frames of no trial.
    pub foreign_frames: u64,
    /// Frames of another trial.
    pub late_trial_frames: u64,
    /// Frames that the kernel dropped before the sink read them.
    pub kernel_dropped_frames: u64,
    /// Processors that the sink ran on, where it knows.
    pub sink_processors: Vec<u32>,
    /// The first frames, if that was asked for.
    pub captured: Vec<CapturedPacket>,
    /// Whether quiet came in time.
    pub drained: bool,
    /// What the sink's thread cost.
    pub sink_cost: ThreadCost,
    /// The interfaces of sources and sink.
    pub interfaces: Vec<InterfaceChange>,
}

/// What was chosen.
#[derive(Clone, Debug)]
pub struct Names {
    /// The back end.
    pub backend: &'static str,
    /// Why no better one.
    pub backend_reason: Option<String>,
    /// The sink.
    pub sink: &'static str,
    /// Why no better one.
    pub sink_reason: Option<String>,
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

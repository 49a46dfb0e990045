//! What a trial ends with.

use std::fmt;
use std::io;

use crate::backend::{Refused, SinkCounts};
use crate::backend_selection::Chosen;
use crate::netlink::LinkStatistics;
use crate::senders::{Sent, ThreadCost};
use crate::sequence_accounting::{SourceArrivals, SourceBook};
use crate::source::SourceCounts;

/// Totals of a source, with which the sink's books are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceTotals {
    /// Frames that it was to send.
    pub intended_frames: u64,
    /// Frames that left.
    pub offered_frames: u64,
    /// Frames that did not.
    pub unsent_frames: u64,
}

impl From<&SourceCounts> for SourceTotals {
    fn from(counts: &SourceCounts) -> Self {
        Self {
            intended_frames: counts.intended_frames,
            offered_frames: counts.offered_frames,
            unsent_frames: counts.unsent_frames,
        }
    }
}

/// What the sink counted, before it knows what was sent.
#[derive(Debug)]
pub struct Received {
    /// The sink's name.
    pub name: &'static str,
    /// Why nothing better was taken.
    pub reason: Option<String>,
    /// The counts.
    pub counts: SinkCounts,
    /// What its thread cost.
    pub cost: ThreadCost,
}

/// The sink's side of a source's books.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// What arrived.
    pub arrivals: SourceArrivals,
    /// Offered and not arrived.
    pub lost_frames: u64,
}

/// The sink's half of a trial whose books balance.
#[derive(Debug)]
pub struct SinkResult {
    /// By source.
    pub sources: Vec<Arrived>,
    /// What the sink counted.
    pub received: Received,
}

impl Received {
    /// Balances the books with the sources' totals.
    ///
    /// # Errors
    /// They do not balance: what of which source.
    pub fn balance(self, reported: &[SourceTotals]) -> Result<SinkResult, TrialError> {
        let books = &self.counts.sources;
        if books.len() != reported.len() {
            let (kept, given) = (books.len(), reported.len());
            let sentence =
                format!("the sink keeps books of {kept} sources and was told of {given}");
            return Err(TrialError::Books(sentence));
        }
        let pairs = books.iter().zip(reported).enumerate();
        let sources = pairs
            .map(|(number, (book, reported))| close(number, book, *reported))
            .collect::<Result<_, _>>()?;
        Ok(SinkResult { sources, received: self })
    }
}

fn close(number: usize, book: &SourceBook, reported: SourceTotals) -> Result<Arrived, TrialError> {
    let arrivals = book.arrivals();
    let forged = book.arrived_from(reported.intended_frames);
    let sum = reported.offered_frames.checked_add(reported.unsent_frames);
    let balanced = book.agrees() && sum == Some(reported.intended_frames);
    let lost = reported.offered_frames.checked_sub(arrivals.forwarded_frames);
    let Some(lost_frames) = lost.filter(|_| balanced && forged == 0) else {
        return Err(TrialError::Books(format!(
            "the books of source {number} do not balance: intended {}, offered {}, unsent {}, forwarded {}, \
             of which {forged} were never sent",
            reported.intended_frames,
            reported.offered_frames,
            reported.unsent_frames,
            arrivals.forwarded_frames
        )));
    };
    Ok(Arrived { arrivals, lost_frames })
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
pub struct TrialCounts {
    /// The sources' half, in the order of the plan.
    pub sent: Chosen<Vec<Sent>>,
    /// The sink's.
    pub sink: SinkResult,
    /// The interfaces of sources and sink.
    pub interfaces: Vec<InterfaceChange>,
}

/// Why a trial has no result.
#[derive(Debug)]
pub enum TrialError {
    /// A system call failed, on what.
    System(String, io::Error),
    /// The books do not balance: the trial is worth nothing.
    Books(String),
}

impl TrialError {
    /// A refusal, with what was tried.
    pub fn refused(what: &str, refused: Refused) -> Self {
        Self::System(format!("{what} {}", refused.on), refused.cause)
    }
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

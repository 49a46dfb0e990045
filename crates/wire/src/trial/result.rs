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

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink that counted so many frames of each source, of the first numbers.
    fn received(forwarded: &[u64]) -> Received {
        let book = |frames: &u64| {
            let mut book = SourceBook::new(100);
            assert!((0..*frames).all(|number| book.record(number, None, 1)));
            book
        };
        let counts = SinkCounts {
            sources: forwarded.iter().map(book).collect(),
            seen_frames: forwarded.iter().sum(),
            drained: true,
            ..SinkCounts::default()
        };
        Received { name: "tpacket", reason: None, counts, cost: ThreadCost::default() }
    }

    fn told(intended_frames: u64, offered_frames: u64, unsent_frames: u64) -> SourceTotals {
        SourceTotals { intended_frames, offered_frames, unsent_frames }
    }

    #[test]
    fn what_was_offered_and_did_not_arrive_is_lost() {
        let result = received(&[7, 5]).balance(&[told(12, 10, 2), told(5, 5, 0)]).unwrap();
        let lost: Vec<u64> = result.sources.iter().map(|one| one.lost_frames).collect();
        assert_eq!(lost, [3, 0]);
        assert_eq!(result.sources[0].arrivals.forwarded_frames, 7);
        assert_eq!(result.received.counts.seen_frames, 12);
    }

    #[test]
    fn books_that_do_not_balance_are_worth_nothing() {
        let refused = |received: Received, told: &[SourceTotals]| {
            received.balance(told).unwrap_err().to_string()
        };
        for (intended, offered, unsent, why) in [
            (12, 10, 1, "a frame that is neither offered nor unsent"),
            (12, 10, 3, "a frame that is both"),
            (12, 6, 6, "more arrived than was offered"),
            (6, 6, 0, "a number arrived that nobody sent"),
            (6, 10, u64::MAX - 3, "a sum beyond all numbers"),
        ] {
            let sentence = refused(received(&[7]), &[told(intended, offered, unsent)]);
            assert!(sentence.contains("source 0 do not balance"), "{why}: {sentence}");
        }
        let mut beyond = received(&[2]);
        assert!(beyond.counts.sources[0].record(9, None, 1));
        let sentence = refused(beyond, &[told(9, 9, 0)]);
        assert!(sentence.contains("forwarded 3, of which 1 were never sent"), "{sentence}");
        let sentence = refused(received(&[7]), &[told(7, 7, 0); 2]);
        assert_eq!(sentence, "the sink keeps books of 1 sources and was told of 2");
        // Bits and count that differ: the memory that a program in the kernel shares was read while it changed.
        let counts = SourceArrivals { forwarded_frames: 2, ..SourceArrivals::default() };
        let mut differing = received(&[]);
        differing.counts.sources = vec![SourceBook::counted(vec![0b1], counts, 64)];
        assert!(refused(differing, &[told(3, 3, 0)]).contains("forwarded 2"));
    }

    #[test]
    fn a_source_is_summed_up_by_its_own_counts() {
        let counts = SourceCounts {
            intended_frames: 12,
            offered_frames: 10,
            unsent_frames: 2,
            ..SourceCounts::default()
        };
        assert_eq!(SourceTotals::from(&counts), told(12, 10, 2));
    }

    #[test]
    fn a_refusal_says_what_was_tried_on_what() {
        let refused = Refused { on: "in0".to_owned(), cause: io::Error::other("no room") };
        let error = TrialError::refused("open a source on", refused);
        assert_eq!(error.to_string(), "open a source on in0: no room");
    }
}

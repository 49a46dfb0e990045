//! The generator program's data: `struct generator` of `bpf/generator.bpf.c`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::bpf::{Object, Shared};
use crate::frame::{Composer, MOST_SHAPES, MOST_SLOTS};
use crate::gaps::{self, GapSummary};
use crate::histogram::{BUCKETS, Histogram};
use crate::pacing::{Schedule, SourceCounts};

pub(crate) const HEADER_WORDS: usize = 9;

/// A frame size.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Shape {
    words: [u64; HEADER_WORDS],
    sum: u32,
    frame_bytes: u32,
}

/// The whole of the program's data.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Data {
    limit_frames: u64,
    end_ns: u64,
    gap_ns: u64,
    gap_fraction: u64,
    shortest_gap_ns: u64,
    late_from_ns: u64,
    catch_up_ns: u64,
    time_every: u64,
    shapes: u32,
    slots: u32,
    largest_bytes: u32,
    first_port: u16,
    flows: u16,
    sequence: u64,
    due_ns: u64,
    due_fraction: u64,
    now_ns: u64,
    slot: u32,
    flow: u32,
    redirected_frames: u64,
    failed_frames: u64,
    skipped_frames: u64,
    late_frames: u64,
    late_max_ns: u64,
    idle_turns: u64,
    first_sent_ns: u64,
    last_sent_ns: u64,
    gap_squares_low: u64,
    gap_squares_high: u64,
    gap_min_ns: u64,
    gap_max_ns: u64,
    gaps: [u64; BUCKETS],
    shape: [Shape; MOST_SHAPES],
    shape_of_slot: [u8; MOST_SLOTS],
}

const EMPTY: Data = Data {
    limit_frames: 0,
    end_ns: 0,
    gap_ns: 0,
    gap_fraction: 0,
    shortest_gap_ns: 0,
    late_from_ns: 0,
    catch_up_ns: 0,
    time_every: 1,
    shapes: 0,
    slots: 0,
    largest_bytes: 0,
    first_port: 0,
    flows: 1,
    sequence: 0,
    due_ns: 0,
    due_fraction: 0,
    now_ns: 0,
    slot: 0,
    flow: 0,
    redirected_frames: 0,
    failed_frames: 0,
    skipped_frames: 0,
    late_frames: 0,
    late_max_ns: 0,
    idle_turns: 0,
    first_sent_ns: 0,
    last_sent_ns: 0,
    gap_squares_low: 0,
    gap_squares_high: 0,
    gap_min_ns: u64::MAX,
    gap_max_ns: 0,
    gaps: [0; BUCKETS],
    shape: [Shape { words: [0; HEADER_WORDS], sum: 0, frame_bytes: 0 }; MOST_SHAPES],
    shape_of_slot: [0; MOST_SLOTS],
};

/// The data that program and process share.
pub(crate) struct State(Shared<Data>);

impl State {
    /// Data for the frames of `composer`.
    pub(crate) fn create(object: &Object, composer: &Composer) -> io::Result<Self> {
        let mut shared: Shared<Data> = object.data()?;
        let (first_port, flows) = composer.ports();
        let mut data = Data {
            shapes: composer.shapes().len() as u32,
            slots: composer.slots().len() as u32,
            largest_bytes: composer.largest_bytes() as u32,
            first_port,
            flows,
            ..EMPTY
        };
        for (place, (bytes, sum)) in data.shape.iter_mut().zip(composer.shapes()) {
            *place = shape(bytes, sum);
        }
        data.shape_of_slot[..composer.slots().len()].copy_from_slice(composer.slots());
        shared.set(0, data);
        Ok(Self(shared))
    }

    /// Data with which no frame is ever due.
    pub(crate) fn idle(object: &Object) -> io::Result<Self> {
        let mut shared: Shared<Data> = object.data()?;
        shared.set(0, Data { due_ns: u64::MAX, ..EMPTY });
        Ok(Self(shared))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn change(&mut self, change: impl FnOnce(&mut Data)) {
        let mut data = self.0.get(0);
        change(&mut data);
        self.0.set(0, data);
    }

    /// A paced trial: after a delay frames follow each other at half their gap at the shortest.
    pub(crate) fn set_paced(&mut self, schedule: &Schedule, end_ns: u64, late_from_ns: u64) {
        let (gap_ns, gap_fraction) = schedule.gap();
        self.change(|data| {
            data.limit_frames = schedule.intended_frames();
            data.end_ns = end_ns;
            data.gap_ns = gap_ns;
            data.gap_fraction = gap_fraction;
            data.shortest_gap_ns = gap_ns / 2;
            data.late_from_ns = late_from_ns;
            data.catch_up_ns = schedule.catch_up_ns;
            data.due_ns = schedule.start_ns;
        });
    }

    /// A trial without a pace; `time_every` is a power of two.
    pub(crate) fn set_flat_out(&mut self, limit_frames: u64, end_ns: u64, time_every: u64) {
        self.change(|data| {
            data.limit_frames = limit_frames;
            data.end_ns = end_ns;
            data.time_every = time_every;
        });
    }

    /// Whether all frames left or were given up.
    pub(crate) fn is_done(&self) -> bool {
        let data = self.0.get(0);
        data.sequence >= data.limit_frames
    }

    /// One more than the last number that was used.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.0.get(0).sequence
    }

    /// What was sent, but for what only the trial knows.
    pub(crate) fn counts(&self) -> SourceCounts {
        let data = self.0.get(0);
        let sent = data.redirected_frames > 0;
        SourceCounts {
            offered_frames: data.redirected_frames,
            skipped_frames: data.skipped_frames,
            late_frames: data.late_frames,
            late_ns_max: data.late_max_ns,
            sent_between_ns: sent.then_some((data.first_sent_ns, data.last_sent_ns)),
            ..SourceCounts::default()
        }
    }

    /// The gaps of a paced trial.
    pub(crate) fn gaps(&self) -> Option<GapSummary> {
        let data = self.0.get(0);
        let sum = data.last_sent_ns.saturating_sub(data.first_sent_ns);
        let squares = u128::from(data.gap_squares_high) << 64 | u128::from(data.gap_squares_low);
        let mut histogram = Histogram::default();
        histogram.add(data.gaps.into_iter(), sum, (data.gap_min_ns, data.gap_max_ns));
        gaps::summary(&histogram, data.gap_ns, squares)
    }
}

fn shape(bytes: &[u8], sum: u64) -> Shape {
    let mut words = [0; HEADER_WORDS];
    for (word, part) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(value);
    }
    // The program sums words as this machine reads them, which swaps the bytes of the sum and of nothing else.
    let folded = !crate::checksum::finish(sum);
    Shape { words, sum: u32::from(folded.to_be()), frame_bytes: bytes.len() as u32 }
}

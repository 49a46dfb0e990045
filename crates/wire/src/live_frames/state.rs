//! The generator program's data: `struct generator` of `bpf/generator.bpf.c`.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

use super::TIME_EVERY_FRAMES;
use crate::backend::SourcePlan;
use crate::bpf::{Object, Shared};
use crate::frame::{Composer, MOST_SHAPES, MOST_SLOTS};
use crate::gaps::{self, GapSummary};
use crate::histogram::{BUCKETS, Histogram};
use crate::pacing::{GRACE_NS, LATE_FROM_NS, Schedule, SourceCounts};

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
    due_ns: u64::MAX,
    due_fraction: 0,
    now_ns: 0,
    slot: 0,
    flow: 0,
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
        shared.set(0, EMPTY);
        Ok(Self(shared))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sets the start of a trial while the program already runs; when it ends.
    pub(crate) fn set_start(&mut self, start_ns: u64, plan: &SourcePlan) -> u64 {
        let end_ns = start_ns + plan.duration_ns;
        let end_ns = if let Some(frames_per_second) = plan.frames_per_second {
            let (duration_ns, catch_up_ns) = (plan.duration_ns, plan.catch_up_ns);
            let schedule = Schedule { start_ns, frames_per_second, duration_ns, catch_up_ns };
            let (gap_ns, gap_fraction) = schedule.gap();
            self.0.set_field(offset_of!(Data, limit_frames), schedule.intended_frames());
            self.0.set_field(offset_of!(Data, gap_ns), gap_ns);
            self.0.set_field(offset_of!(Data, gap_fraction), gap_fraction);
            // After a delay frames follow each other at half their gap at the shortest.
            self.0.set_field(offset_of!(Data, shortest_gap_ns), gap_ns / 2);
            self.0.set_field(offset_of!(Data, late_from_ns), LATE_FROM_NS);
            self.0.set_field(offset_of!(Data, catch_up_ns), catch_up_ns);
            end_ns + GRACE_NS
        } else {
            self.0.set_field(offset_of!(Data, limit_frames), plan.limit_frames);
            self.0.set_field(offset_of!(Data, time_every), TIME_EVERY_FRAMES);
            end_ns
        };
        self.0.set_field(offset_of!(Data, end_ns), end_ns);
        // Last: the program looks at the rest only once this time has come.
        fence(Ordering::Release);
        self.0.set_field(offset_of!(Data, due_ns), start_ns);
        end_ns
    }

    /// Lets the program send at once, with a send time for each of `frames`.
    pub(crate) fn set_once(&mut self, frames: u64) {
        self.0.set_field(offset_of!(Data, limit_frames), frames);
        self.0.set_field(offset_of!(Data, end_ns), u64::MAX);
        self.0.set_field(offset_of!(Data, due_ns), 0);
    }

    /// Whether the program has begun to turn.
    pub(crate) fn is_running(&self) -> bool {
        self.0.field(offset_of!(Data, idle_turns)) > 0
    }

    /// Whether all frames left or were given up.
    pub(crate) fn is_done(&self) -> bool {
        self.next_sequence() >= self.0.field(offset_of!(Data, limit_frames))
    }

    /// One more than the last number that was used.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.0.field(offset_of!(Data, sequence))
    }

    /// What was sent, but for what only the trial knows.
    pub(crate) fn counts(&self) -> SourceCounts {
        let data = self.0.get(0);
        let redirected = data.sequence - data.failed_frames - data.skipped_frames;
        SourceCounts {
            offered_frames: redirected,
            skipped_frames: data.skipped_frames,
            late_frames: data.late_frames,
            late_ns_max: data.late_max_ns,
            sent_between_ns: (redirected > 0).then_some((data.first_sent_ns, data.last_sent_ns)),
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

//! The generator program's data: `struct generator` of `bpf/generator.bpf.c`.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

use bytemuck::{Pod, Zeroable};

use super::TIME_EVERY_FRAMES;
use crate::backend::MOST_SOURCES;
use crate::bpf::{Object, Shared};
use crate::frame::{Begun, Composer, MOST_SHAPES, MOST_SLOTS, Words};
use crate::gaps::{self, GapSummary};
use crate::histogram::{BUCKETS, Histogram};
use crate::pacing::LATE_FROM_NS;
use crate::schedule::Schedule;
use crate::source::{Bursts, SourceCounts, SourcePlan};

pub(crate) const HEADER_WORDS: usize = 9;

/// A frame size.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Shape {
    words: [u64; HEADER_WORDS],
    sum: u32,
    frame_bytes: u32,
    ip_sum: u32,
    ip_bytes: u32,
}

/// Bursts begin and end late where something else runs on their core.
const LATEST_NS: u64 = 1_000_000_000;
/// The most sources of one loop.
pub(crate) const TOGETHER: usize = MOST_SOURCES;

/// The whole of the program's data.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Data {
    sources: u64,
    turn: u64,
    burst_ns: u64,
    pause_ns: u64,
    bursts: u64,
    begins_ns: u64,
    began_ns: u64,
    source: [SourceData; TOGETHER],
}

/// One source.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct SourceData {
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
    first_destination: u32,
    destinations: u32,
    key: Words,
    head: u64,
    sequence: u64,
    due_ns: u64,
    due_fraction: u64,
    now_ns: u64,
    slot: u32,
    flow: u32,
    destination: u32,
    starts: u32,
    begun: Begun,
    failed_frames: u64,
    skipped_frames: u64,
    late_frames: u64,
    late_max_ns: u64,
    idle_turns: u64,
    first_sent_ns: u64,
    last_sent_ns: u64,
    bursts_ns: u64,
    gap_squares_low: u64,
    gap_squares_high: u64,
    gap_min_ns: u64,
    gap_max_ns: u64,
    gaps: [u64; BUCKETS],
    shape: [Shape; MOST_SHAPES],
    shape_of_slot: [u8; MOST_SLOTS],
}

const NO_SHAPE: Shape =
    Shape { words: [0; HEADER_WORDS], sum: 0, frame_bytes: 0, ip_sum: 0, ip_bytes: 0 };

const EMPTY: SourceData = SourceData {
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
    first_destination: 0,
    destinations: 0,
    key: [0; 4],
    head: 0,
    sequence: 0,
    due_ns: u64::MAX,
    due_fraction: 0,
    now_ns: 0,
    slot: 0,
    flow: 0,
    destination: 0,
    starts: 0,
    begun: [0; 5],
    failed_frames: 0,
    skipped_frames: 0,
    late_frames: 0,
    late_max_ns: 0,
    idle_turns: 0,
    first_sent_ns: 0,
    last_sent_ns: 0,
    bursts_ns: 0,
    gap_squares_low: 0,
    gap_squares_high: 0,
    gap_min_ns: u64::MAX,
    gap_max_ns: 0,
    gaps: [0; BUCKETS],
    shape: [NO_SHAPE; MOST_SHAPES],
    shape_of_slot: [0; MOST_SLOTS],
};

/// The data that program and process share.
pub(crate) struct State {
    shared: Shared<Data>,
    sources: usize,
}

const fn place_of(source: usize) -> usize {
    offset_of!(Data, source) + source * size_of::<SourceData>()
}

/// The place of a field of one source.
macro_rules! at {
    ($source:expr, $field:ident) => {
        place_of($source) + offset_of!(SourceData, $field)
    };
}

impl State {
    /// Data for sources with these frames, at most [`TOGETHER`].
    pub(crate) fn create(object: &Object, composers: &[&Composer]) -> io::Result<Self> {
        let mut shared: Shared<Data> = object.data()?;
        shared.set_field(offset_of!(Data, sources), composers.len() as u64);
        let mut first_destination = 0;
        for (source, composer) in composers.iter().enumerate() {
            let (first_port, flows) = composer.ports();
            let mut data = SourceData {
                shapes: composer.shapes().len() as u32,
                slots: composer.slots().len() as u32,
                largest_bytes: composer.largest_bytes() as u32,
                first_port,
                flows,
                first_destination,
                destinations: composer.destinations().len() as u32,
                key: composer.key_words(),
                head: u64::from_le_bytes(composer.blank_head()),
                ..EMPTY
            };
            first_destination += data.destinations;
            for (place, (bytes, sum, ip_sum)) in data.shape.iter_mut().zip(composer.shapes()) {
                *place = shape(bytes, composer.layout().ip(), sum, ip_sum);
            }
            data.shape_of_slot[..composer.slots().len()].copy_from_slice(composer.slots());
            shared.set_part(place_of(source), &data);
        }
        Ok(Self { shared, sources: composers.len() })
    }

    /// Data with which no frame is ever due.
    pub(crate) fn idle(object: &Object) -> io::Result<Self> {
        let mut shared: Shared<Data> = object.data()?;
        shared.set_part(place_of(0), &EMPTY);
        Ok(Self { shared, sources: 1 })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.as_fd()
    }

    /// Sets the start of a source while the program already runs; when it ends.
    pub(crate) fn set_start(&mut self, source: usize, start_ns: u64, plan: &SourcePlan) -> u64 {
        let end_ns = start_ns + plan.duration_ns;
        let end_ns = if let Some(frames_per_second) = plan.frames_per_second {
            let (duration_ns, catch_up_ns) = (plan.duration_ns, plan.catch_up_ns);
            let schedule =
                Schedule { start_ns, frames_per_second, duration_ns, catch_up_ns, wake_ns: None };
            let (gap_ns, gap_fraction) = schedule.gap();
            self.shared.set_field(at!(source, limit_frames), schedule.intended_frames());
            self.shared.set_field(at!(source, gap_ns), gap_ns);
            self.shared.set_field(at!(source, gap_fraction), gap_fraction);
            // After a delay frames follow each other at half their gap at the shortest.
            self.shared.set_field(at!(source, shortest_gap_ns), gap_ns / 2);
            self.shared.set_field(at!(source, late_from_ns), LATE_FROM_NS);
            self.shared.set_field(at!(source, catch_up_ns), catch_up_ns);
            // The last frames may be late too; after that the program would only skip them.
            end_ns.saturating_add(catch_up_ns).saturating_add(gap_ns)
        } else {
            self.shared.set_field(at!(source, limit_frames), plan.limit_frames);
            self.shared.set_field(at!(source, time_every), TIME_EVERY_FRAMES);
            end_ns
        };
        self.shared.set_field(at!(source, end_ns), end_ns);
        // Last: the program looks at the rest only once this time has come.
        fence(Ordering::Release);
        self.shared.set_field(at!(source, due_ns), start_ns);
        end_ns
    }

    /// Sets the start of bursts in turn, once all sources have theirs; when they end at the latest.
    pub(crate) fn set_bursts(&mut self, start_ns: u64, bursts: &Bursts) -> u64 {
        let sources = self.sources as u64;
        self.shared.set_field(offset_of!(Data, burst_ns), bursts.burst_ns);
        self.shared.set_field(offset_of!(Data, pause_ns), bursts.pause_ns);
        self.shared.set_field(offset_of!(Data, begins_ns), start_ns);
        fence(Ordering::Release);
        self.shared.set_field(offset_of!(Data, bursts), bursts.count * sources);
        start_ns + bursts.of_all_ns(sources) + LATEST_NS
    }

    /// How many bursts were not sent to their end.
    pub(crate) fn bursts_left(&self) -> u64 {
        self.shared.field(offset_of!(Data, bursts))
    }

    /// Lets the program send at once, with a send time for each of `frames`.
    pub(crate) fn set_once(&mut self, frames: u64) {
        self.shared.set_field(at!(0, limit_frames), frames);
        self.shared.set_field(at!(0, end_ns), u64::MAX);
        self.shared.set_field(at!(0, due_ns), 0);
    }

    /// Whether the program has begun to turn.
    pub(crate) fn is_running(&self) -> bool {
        self.shared.field(at!(0, idle_turns)) > 0
    }

    /// Whether all frames of all sources left or were given up, or all bursts are over.
    pub(crate) fn is_done(&self, in_bursts: bool) -> bool {
        if in_bursts {
            return self.bursts_left() == 0;
        }
        (0..self.sources).all(|source| {
            self.shared.field(at!(source, sequence)) >= self.shared.field(at!(source, limit_frames))
        })
    }

    /// When each of the probe's turns began, in nanoseconds.
    pub(crate) fn probe_times(&self) -> Vec<u64> {
        let data: SourceData = self.shared.part(place_of(0));
        data.gaps[..(data.idle_turns as usize).min(BUCKETS)].to_vec()
    }

    /// What a source sent, but for what only the trial knows. Intended is what was attempted.
    pub(crate) fn counts(&self, source: usize) -> SourceCounts {
        let data: SourceData = self.shared.part(place_of(source));
        let redirected = data.sequence - data.failed_frames - data.skipped_frames;
        SourceCounts {
            intended_frames: data.sequence,
            offered_frames: redirected,
            skipped_frames: data.skipped_frames,
            late_frames: data.late_frames,
            late_ns_max: data.late_max_ns,
            bursts_ns: data.bursts_ns,
            sent_between_ns: (redirected > 0).then_some((data.first_sent_ns, data.last_sent_ns)),
            gaps: gaps_of(&data),
            ..SourceCounts::default()
        }
    }
}

/// The gaps of a paced source; none flat out.
fn gaps_of(data: &SourceData) -> Option<GapSummary> {
    let sum = data.last_sent_ns.saturating_sub(data.first_sent_ns);
    let squares = u128::from(data.gap_squares_high) << 64 | u128::from(data.gap_squares_low);
    let mut histogram = Histogram::default();
    histogram.add(data.gaps.into_iter(), sum, (data.gap_min_ns, data.gap_max_ns));
    gaps::summary(&histogram, data.gap_ns, squares)
}

fn shape(bytes: &[u8], ip: usize, sum: u64, ip_sum: u64) -> Shape {
    let mut words = [0; HEADER_WORDS];
    for (word, part) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(value);
    }
    // The program sums words as this machine reads them, which swaps the bytes of the sum and of nothing else.
    let folded = |sum| u32::from((!crate::checksum::finish(sum)).to_be());
    let (sum, ip_sum) = (folded(sum), folded(ip_sum));
    let ip_bytes = u32::from(((bytes.len() - ip) as u16).to_be());
    Shape { words, sum, frame_bytes: bytes.len() as u32, ip_sum, ip_bytes }
}

/// The destinations of all sources, one source's after another's, as they are in a frame.
pub(crate) fn destinations(composers: &[&Composer]) -> io::Result<Shared<u64>> {
    let all = || composers.iter().flat_map(|composer| composer.destinations());
    let mut shared: Shared<u64> = Shared::create(all().count() as u32)?;
    for (place, address) in all().enumerate() {
        shared.set(place, u64::from(u32::from_ne_bytes(address.octets())));
    }
    Ok(shared)
}

//! The sink in XDP: frames are counted where the driver hands them over, and go no further.
//!
//! Needs root in the first user namespace. Each interface has a program and counts of its own, the bitmap of sequence
//! numbers is shared; [`Collector`] only waits, and adds up at the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use virtoll_clock::monotonic_ns;

use crate::backend::{Collect, Quiet, SinkCounts, Start, Stop};
use crate::bpf::{self, AttachMode, Object, Shared, attach_xdp, named};
use crate::histogram::{BUCKETS, Histogram};
use crate::pcap::CapturedPacket;
use crate::reordering::OutOfOrder;
use crate::sequence_accounting::{Expectation, SourceArrivals, SourceBook};
use crate::socket::interface_index;
use crate::sys::grace_period;
pub(crate) use layout::{Arrivals, CapturedFrame, Configuration, Queue};

mod layout;

/// The sink's name in results.
pub const NAME: &str = "xdp";
/// Receive queues with counts of their own; a queue beyond shares with another.
const QUEUES: usize = 64;
const SINK: &Object = &bpf::SINK;
const WAIT: Duration = Duration::from_millis(1);

/// What the programs do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Count test frames; others go on to the stack.
    Test,
    /// The same, and keep the first so many of each interface.
    Capture(u32),
    /// Count every frame of any kind and drop it.
    Any,
}

struct Interface {
    arrivals: Shared<Arrivals>,
    orders: Shared<OutOfOrder>,
    queues: Shared<Queue>,
    histograms: Shared<u64>,
    captures: Shared<CapturedFrame>,
    mode: AttachMode,
    /// What the program needs for as long as it counts.
    _configuration: Shared<Configuration>,
    /// The program counts as long as this is there.
    link: Option<OwnedFd>,
}

/// The sink on one or more interfaces.
pub struct Collector {
    interfaces: Vec<Interface>,
    seen: Shared<u64>,
    expectation: Expectation,
    quiet: Quiet,
}

impl Collector {
    /// Loads and attaches the programs; they count from here on.
    ///
    /// # Errors
    /// No such interface, or a kernel or driver that refuses.
    pub fn open(
        names: &[String],
        expectation: Expectation,
        quiet: Quiet,
        mode: Mode,
    ) -> io::Result<Self> {
        let words: u64 = expectation.capacities.iter().map(|frames| frames.div_ceil(64)).sum();
        let words = u32::try_from(words).map_err(io::Error::other)?;
        let seen = Shared::create(words)?;
        let interfaces = names
            .iter()
            .map(|name| Interface::open(name, &expectation, &seen, mode))
            .collect::<io::Result<_>>()?;
        Ok(Self { interfaces, seen, expectation, quiet })
    }

    /// Whether the driver itself runs the program on every interface.
    pub fn mode(&self) -> AttachMode {
        let native = self.interfaces.iter().all(|one| one.mode == AttachMode::Native);
        if native { AttachMode::Native } else { AttachMode::Generic }
    }

    fn queues(&self) -> Queue {
        let queues =
            self.interfaces.iter().flat_map(|one| (0..QUEUES).map(|at| one.queues.get(at)));
        queues.fold(Queue::default(), Queue::plus)
    }

    /// Frames of this trial so far.
    fn test_frames(&self) -> u64 {
        let counts = self.queues();
        counts.frames - counts.foreign - counts.late - counts.probes
    }

    /// Sequence numbers of one source that arrived so far.
    fn arrived(&self, source: usize) -> u64 {
        let sources = self.expectation.capacities.len();
        let places = (0..QUEUES).map(|queue| queue * sources + source);
        let arrived =
            |place| self.interfaces.iter().map(move |one| one.arrivals.get(place).forwarded);
        places.flat_map(arrived).sum()
    }

    fn book(&self, source: usize, first_word: usize) -> SourceBook {
        let capacity = self.expectation.capacities[source];
        let words = capacity.div_ceil(64) as usize;
        let seen = (first_word..first_word + words).map(|word| self.seen.get(word)).collect();
        let sources = self.expectation.capacities.len();
        let (mut sum, mut delays, mut variations) =
            (SourceArrivals::default(), Histogram::default(), Histogram::default());
        for (interface, place) in self.interfaces.iter().flat_map(|interface| {
            (0..QUEUES).map(move |queue| (interface, queue * sources + source))
        }) {
            let own = interface.arrivals.get(place);
            if own.forwarded + own.duplicate == 0 {
                continue;
            }
            own.add_to(&mut sum);
            sum.reordering.out_of_order.add(&interface.orders.get(place));
            let extremes = (own.delay_min_ns, own.delay_max_ns);
            delays.add(interface.buckets(place * 2), own.delay_sum_ns, extremes);
            let extremes = (0, own.variation_max_ns);
            variations.add(interface.buckets(place * 2 + 1), own.variation_sum_ns, extremes);
        }
        sum.delay_ns = delays.distribution();
        sum.delay_histogram = delays.buckets();
        sum.delay_variation_ns = variations.distribution();
        SourceBook::counted(seen, sum, capacity)
    }

    fn books(&self) -> Vec<SourceBook> {
        let mut first_word = 0;
        let mut books = Vec::new();
        for (source, capacity) in self.expectation.capacities.iter().enumerate() {
            books.push(self.book(source, first_word));
            first_word += capacity.div_ceil(64) as usize;
        }
        books
    }

    fn captured(&self) -> Vec<CapturedPacket> {
        let mut packets: Vec<_> = self
            .interfaces
            .iter()
            .flat_map(|one| {
                let count = (0..QUEUES).map(|at| one.queues.get(at).captured).max().unwrap_or(0);
                (0..count as usize).map(|at| one.captures.get(at).packet())
            })
            .collect();
        packets.sort_by_key(|packet| packet.monotonic_ns);
        packets
    }
}

impl Interface {
    fn open(
        name: &str,
        expectation: &Expectation,
        seen: &Shared<u64>,
        mode: Mode,
    ) -> io::Result<Self> {
        let (program, capture_frames) = match mode {
            Mode::Test => ("count", 0),
            Mode::Capture(frames) => ("count_and_capture", frames),
            Mode::Any => ("count_any", 0),
        };
        let index = interface_index(name)?;
        let places = (QUEUES * expectation.capacities.len()) as u32;
        let arrivals = Shared::create(places)?;
        let orders = Shared::create(places)?;
        let queues = Shared::create(QUEUES as u32)?;
        let histograms = Shared::create(places * 2 * BUCKETS as u32)?;
        let captures = Shared::create(capture_frames)?;
        let mut configuration: Shared<Configuration> = SINK.data()?;
        configuration.set(0, Configuration::new(expectation, capture_frames));
        let maps = [
            named("seen", seen),
            named("arrivals", &arrivals),
            named("orders", &orders),
            named("queues", &queues),
            named("histograms", &histograms),
            named("captures", &captures),
        ];
        let program = SINK.load(program, configuration.as_fd(), &maps)?;
        let (link, mode) = match attach_xdp(program.as_fd(), index, AttachMode::Native) {
            Ok(link) => (link, AttachMode::Native),
            Err(native) => match attach_xdp(program.as_fd(), index, AttachMode::Generic) {
                Ok(link) => (link, AttachMode::Generic),
                Err(_) => return Err(native),
            },
        };
        Ok(Self {
            arrivals,
            orders,
            queues,
            histograms,
            captures,
            mode,
            _configuration: configuration,
            link: Some(link),
        })
    }

    fn buckets(&self, histogram: usize) -> impl Iterator<Item = u64> {
        (histogram * BUCKETS..(histogram + 1) * BUCKETS).map(|at| self.histograms.get(at))
    }
}

/// Waits until no program runs any more that was detached before.
fn wait_for_programs() {
    // A kernel with CPUs that take no ticks (nohz_full) refuses; a program takes less than a microsecond.
    if grace_period().is_err() {
        thread::sleep(WAIT);
    }
}

impl Collect for Collector {
    fn collect(mut self: Box<Self>, start: &Start, stop: &Stop) -> io::Result<SinkCounts> {
        start.wait();
        let (mut count, mut changed_ns) = (0, None);
        let drained = loop {
            // Read before counting: a frame that was sent before the stop is then never missed.
            let stopped = stop.stopped_ns();
            let now_ns = monotonic_ns();
            let present = self.test_frames();
            if present != count {
                (count, changed_ns) = (present, Some(now_ns));
            }
            let awaited =
                stop.awaited(self.expectation.capacities.len(), |source| self.arrived(source));
            if let Some(drained) = self.quiet.came(stopped, changed_ns, awaited, now_ns) {
                break drained;
            }
            thread::sleep(if stopped.is_some() { WAIT } else { WAIT * 10 });
        };
        // Books that are read while frames still arrive would not agree with themselves, and after any quiet one more may
        // come: a guest that has slept over what it held goes on.
        self.interfaces.iter_mut().for_each(|one| one.link = None);
        wait_for_programs();
        let queues = self.queues();
        Ok(SinkCounts {
            sources: self.books(),
            seen_frames: queues.frames,
            foreign_frames: queues.foreign,
            late_trial_frames: queues.late,
            forged_frames: queues.forged,
            kernel_dropped_frames: 0,
            processors: (0..64).filter(|cpu| queues.processors >> cpu & 1 == 1).collect(),
            captured: self.captured(),
            drained,
        })
    }
}

//! The live-frames back end: an XDP program that the kernel runs on frames of its own (`BPF_PROG_RUN` with live
//! frames, Linux 5.18 and later), which writes each frame anew and sends it out by redirect.
//!
//! Needs root in the first user namespace, and at the other end of a veth pair an XDP program or GRO, without which the
//! kernel drops every redirected frame: [`open_all`] sends probe frames before the trial to find out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use virtoll_clock::{monotonic_ns, sleep_until_monotonic};

use crate::backend::{Generate, Start, check_link};
use crate::bpf::{self, Object, named, run_live, run_once};
use crate::frame::{Composer, ETHERTYPE_PROBE, Layout, MAXIMUM_FRAME_BYTES};
use crate::netlink::{LinkStatistics, Netlink};
use crate::schedule::intended_frames;
use crate::senders::Sender;
use crate::socket::interface_index;
use crate::source::{SourceCounts, SourcePlan};
use state::{State, TOGETHER};
use sys::Alarm;

mod batch;
mod state;
mod sys;

/// The back end's name in results.
pub const NAME: &str = "live-frames";
/// Flat out, the clock is read for one frame of so many: enough for the delay, and they leave in groups anyway.
const TIME_EVERY_FRAMES: u64 = 64;
/// Half of a veth ring.
const FLAT_OUT_BATCH: u32 = 128;
/// The largest batch that the kernel takes.
pub const LARGEST_BATCH: u32 = 256;
/// Turns of one kernel call: minutes of them, of which the alarm leaves as many as are wanted.
const TURNS: u32 = 4_000_000_000;
/// The longest that a loop without a start turns in the kernel. In a group with a CPU quota it may be what keeps the
/// helper from running, and is stopped itself as soon as it comes out.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(1);
const PROBE_WAIT: Duration = Duration::from_millis(1);
/// A pair counts what was redirected when its other end takes it, which a busy machine puts off.
const PROBE_LIMIT_NS: u64 = 300_000_000;
/// The fewest counter reads before an interface is refused: time that passed while this process did not run says nothing
/// about the interface.
const PROBE_LOOKS: u32 = 100;
const PROBE_TRIES: u32 = 20;
/// More than an idle link sends by itself in that time (neighbour discovery, multicast reports). They precede the trial's
/// frames on the path and are counted there, so there are few.
const PROBE_FRAMES: u32 = 8;

/// The most sources that send at once in one loop: each turn of it looks at one of them.
const AT_ONCE: usize = 4;

const GENERATOR: &Object = &bpf::GENERATOR;

/// A source and its interface.
struct Source {
    plan: SourcePlan,
    composer: Composer,
    interface: u32,
    probe_frames: u64,
    /// Nanoseconds of a batch of one frame on this way.
    call_ns: u64,
    before: LinkStatistics,
}

/// Sources that take turns in one loop in the kernel, on one core.
pub struct Generator {
    sources: Vec<Source>,
    program: OwnedFd,
    state: State,
    batch: u32,
}

/// Whether two sources can share a loop: the same core, the same program.
fn together(first: &SourcePlan, second: &SourcePlan) -> bool {
    first.cpu == second.cpu
        && first.shape.layout() == second.shape.layout()
        && first.frames_per_second.is_some() == second.frames_per_second.is_some()
        && first.shape.sizes == second.shape.sizes
        && first.bursts == second.bursts
}

/// Opens loops for all sources; each with the places of its sources in `plans`.
///
/// # Errors
/// No such interface, one that is down or too narrow, a kernel that refuses, or a peer that takes no frames; with the
/// place of the source.
pub fn open_all(plans: &[SourcePlan]) -> Result<Vec<Sender>, (usize, io::Error)> {
    if let Some(place) = plans.iter().position(|plan| plan.wake_ns.is_some()) {
        let sentence = "the kernel's loop cannot sleep between frames";
        return Err((place, io::Error::new(io::ErrorKind::Unsupported, sentence)));
    }
    let in_turn = plans.iter().any(|plan| plan.bursts.is_some());
    let room = if in_turn { TOGETHER } else { AT_ONCE };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, plan) in plans.iter().enumerate() {
        let fits = |group: &&mut Vec<usize>| group.len() < room && together(&plans[group[0]], plan);
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    if in_turn && let Some(group) = groups.get(1) {
        let sentence = "sources send in turn with one CPU, one layout and the same sizes";
        return Err((group[0], io::Error::new(io::ErrorKind::Unsupported, sentence)));
    }
    groups
        .into_iter()
        .map(|group| {
            let plans = group.iter().map(|place| plans[*place].clone()).collect();
            let generator = Generator::open(plans).map_err(|(at, cause)| (group[at], cause))?;
            Ok(Sender { generator: Box::new(generator), sources: group })
        })
        .collect()
}

impl Source {
    fn open(plan: SourcePlan) -> io::Result<Self> {
        let composer = plan.composer()?;
        let interface = check_link(&plan.interface, &composer)?.index;
        let devices = bpf::devices(&[interface])?;
        let state = State::idle(GENERATOR)?;
        let plain = GENERATOR.load("plain", state.descriptor(), &[named("devices", &devices)])?;
        let probe_frames = probe(&plan, interface, &plain)?;
        let call_ns = batch::call_ns(&state.probe_times());
        Ok(Self {
            plan,
            composer,
            interface,
            probe_frames,
            call_ns,
            before: LinkStatistics::default(),
        })
    }
}

impl Generator {
    /// Loads the program, asks whether frames pass, and chooses the batch. The sources fit [`together`].
    fn open(plans: Vec<SourcePlan>) -> Result<Self, (usize, io::Error)> {
        let open = |(at, plan)| Source::open(plan).map_err(|cause| (at, cause));
        let sources: Vec<Source> =
            plans.into_iter().enumerate().map(open).collect::<Result<_, _>>()?;
        Self::load(sources).map_err(|cause| (0, cause))
    }

    fn load(sources: Vec<Source>) -> io::Result<Self> {
        let interfaces: Vec<u32> = sources.iter().map(|source| source.interface).collect();
        let composers: Vec<&Composer> = sources.iter().map(|source| &source.composer).collect();
        let first = &sources[0].plan;
        let state = State::create(GENERATOR, &composers)?;
        let kind = match (first.bursts, first.frames_per_second) {
            (Some(_), _) => "burst",
            (None, Some(_)) => "paced",
            (None, None) => "flat",
        };
        let name = format!("{kind}_{}", variant(first.shape.layout()));
        let program = load(&name, &state, &interfaces, &composers)?;
        let rates: Option<Vec<f64>> =
            sources.iter().map(|source| source.plan.frames_per_second).collect();
        let batch = match (first.batch_frames, rates) {
            (Some(batch), _) => batch.clamp(1, LARGEST_BATCH),
            (None, None) => FLAT_OUT_BATCH,
            (None, Some(rates)) => {
                let call_ns = sources.iter().map(|source| source.call_ns).max().unwrap_or(0);
                batch::smallest_that_holds(rates.iter().sum(), call_ns)?
            }
        };
        Ok(Self { sources, program, state, batch })
    }

    /// Runs the kernel's loop. Entering it takes tens of milliseconds (the kernel waits for a grace period of RCU), so
    /// all loops are entered before the common start is announced, and a helper writes the start into the shared data.
    /// From then on the loop ends in time without the helper, which may not get to run before it has.
    fn run(&mut self, start: &Start) -> io::Result<u64> {
        let sources = &self.sources;
        let frame = sources[0].composer.shapes().last().map_or(&[][..], |(bytes, ..)| bytes);
        let alarm = Alarm::of_this_thread()?;
        alarm.set(monotonic_ns() + LONGEST_WAIT.as_nanos() as u64, LONGEST_WAIT)?;
        let (over, ends_ns, batch) = (AtomicBool::new(false), AtomicU64::new(u64::MAX), self.batch);
        let end_at = |end_ns| {
            ends_ns.store(end_ns, Ordering::Release);
            alarm.set(end_ns, POLL)
        };
        let (program, state) = (self.program.as_fd(), &mut self.state);
        thread::scope(|scope| {
            let helper = scope.spawn(|| {
                sys::leave_core(sources[0].plan.cpu);
                while !state.is_running() && !over.load(Ordering::Acquire) {
                    thread::sleep(POLL);
                }
                let start_ns = start.wait();
                let set =
                    |(at, source): (usize, &Source)| state.set_start(at, start_ns, &source.plan);
                let mut end_ns = sources.iter().enumerate().map(set).max().unwrap_or(start_ns);
                if let Some(bursts) = &sources[0].plan.bursts {
                    end_ns = state.set_bursts(start_ns, bursts);
                }
                end_at(end_ns)?;
                sleep_until_monotonic(start_ns);
                let plan = &sources[0].plan;
                let nominal_end_ns = match &plan.bursts {
                    Some(bursts) => start_ns + bursts.of_all_ns(sources.len() as u64),
                    None => start_ns + plan.duration_ns,
                };
                let stopped = || sources.iter().all(|source| source.plan.is_stopped());
                while !over.load(Ordering::Acquire)
                    && !state.is_done(plan.bursts.is_some())
                    && !stopped()
                    && monotonic_ns() < end_ns
                {
                    let left_ns = nominal_end_ns.saturating_sub(monotonic_ns());
                    thread::sleep(Duration::from_nanos(left_ns).clamp(POLL, POLL * 10));
                }
                end_at(monotonic_ns().min(end_ns))?;
                // A thread that ends frees memory, and until the last frame has left nothing is freed.
                while !over.load(Ordering::Acquire) {
                    thread::sleep(POLL);
                }
                Ok(start_ns)
            });
            // The alarm ends a call, as do the end of its turns and SIGSTOP with SIGCONT; the clock says whether that was
            // the last. If not, the loop continues where it was.
            let result = loop {
                match run_live(program, frame, TURNS, batch) {
                    Ok(()) if monotonic_ns() >= ends_ns.load(Ordering::Acquire) => break Ok(()),
                    Ok(()) => {}
                    Err(cause) => break Err(cause),
                }
            };
            over.store(true, Ordering::Release);
            let start_ns = helper.join().map_err(|_| io::Error::other("the helper panicked"))?;
            result.and(start_ns)
        })
    }

    fn counts(&self, at: usize, start_ns: u64, end_ns: u64) -> SourceCounts {
        let plan = &self.sources[at].plan;
        let mut counts = self.state.counts(at);
        if let Some(rate) = plan.frames_per_second.filter(|_| !plan.is_stopped()) {
            counts.intended_frames = intended_frames(rate, plan.duration_ns);
        }
        counts.start_monotonic_ns = start_ns;
        counts.end_monotonic_ns = end_ns;
        counts.batch_frames = u64::from(self.batch);
        counts.probe_frames = self.sources[at].probe_frames;
        counts.unsent_frames = counts.intended_frames - counts.offered_frames;
        counts
    }
}

impl Generate for Generator {
    fn generate(&mut self, start: &Start) -> io::Result<Vec<SourceCounts>> {
        let before: io::Result<Vec<LinkStatistics>> =
            self.sources.iter().map(|source| statistics(source.interface)).collect();
        let start_ns = self.run(start)?;
        if self.state.bursts_left() > 0 {
            return Err(io::Error::other(
                "bursts did not end in time: something else ran on their core",
            ));
        }
        for (source, before) in self.sources.iter_mut().zip(before?) {
            source.before = before;
        }
        let end_ns = monotonic_ns();
        Ok((0..self.sources.len()).map(|at| self.counts(at, start_ns, end_ns)).collect())
    }

    /// The interface's own counter says how many frames it dropped: the kernel reports no per-frame status for
    /// `XDP_REDIRECT`.
    fn settle(&mut self, counts: &mut [SourceCounts]) -> io::Result<()> {
        for (source, counts) in self.sources.iter().zip(counts) {
            let dropped = statistics(source.interface)?.tx_dropped;
            count_refused(counts, source.before.tx_dropped, dropped)?;
        }
        Ok(())
    }
}

/// Moves the frames that the interface dropped from offered to refused; `before` and `after` are its `tx_dropped`.
///
/// # Errors
/// The counter went back, so that the number of dropped frames is unknown.
fn count_refused(counts: &mut SourceCounts, before: u64, after: u64) -> io::Result<()> {
    let dropped = after.checked_sub(before).ok_or_else(|| {
        io::Error::other(format!(
            "its counter tx_dropped went back from {before} to {after}: it was reset during the trial"
        ))
    })?;
    let refused = dropped.min(counts.offered_frames);
    counts.refused_frames = refused;
    counts.offered_frames -= refused;
    counts.unsent_frames += refused;
    Ok(())
}

/// A program that writes frames, with the interfaces that they leave by and where they go.
fn load(
    name: &str,
    state: &State,
    interfaces: &[u32],
    composers: &[&Composer],
) -> io::Result<OwnedFd> {
    let devices = bpf::devices(interfaces)?;
    let destinations = state::destinations(composers)?;
    let maps = [named("devices", &devices), named("destinations", &destinations)];
    GENERATOR.load(name, state.descriptor(), &maps)
}

fn variant(layout: Layout) -> &'static str {
    match (layout.ipv6, layout.tagged) {
        (false, false) => "4",
        (false, true) => "4_tag",
        (true, false) => "6",
        (true, true) => "6_tag",
    }
}

fn statistics(interface: u32) -> io::Result<LinkStatistics> {
    Ok(Netlink::open()?.link(interface)?.statistics)
}

/// Sends frames that no sink counts, and checks that the interface counts all of them. A single counted frame could be
/// another's, since a link that has just come up sends a few by itself. Returns how many it sent: a busy machine may
/// need several tries. Dropped ones do not count: before Linux 6.3 a pair drops all of them, and counts that, where its
/// other end takes none.
fn probe(plan: &SourcePlan, interface: u32, plain: &OwnedFd) -> io::Result<u64> {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&plan.shape.repr.destination_mac.0);
    frame[6..12].copy_from_slice(&plan.shape.repr.source_mac.0);
    frame[12..14].copy_from_slice(&ETHERTYPE_PROBE.to_be_bytes());
    let sent = || statistics(interface).map(|statistics| statistics.tx_packets);
    for tries in 1..=PROBE_TRIES {
        let started_ns = monotonic_ns();
        let before = sent()?;
        // One a batch, so that the turns' times say what a batch costs.
        run_live(plain.as_fd(), &frame, PROBE_FRAMES, 1)?;
        for looks in 1.. {
            let grown = sent()?.saturating_sub(before);
            let in_time = monotonic_ns() - started_ns < PROBE_LIMIT_NS;
            match (grown >= u64::from(PROBE_FRAMES), in_time) {
                (true, true) => return Ok(u64::from(tries * PROBE_FRAMES)),
                (true, false) => break, // we were kept from looking for so long that others' frames may be enough
                (false, false) if looks >= PROBE_LOOKS => return Err(no_redirect(plan)),
                (false, _) => thread::sleep(PROBE_WAIT),
            }
        }
    }
    Err(no_redirect(plan))
}

fn no_redirect(plan: &SourcePlan) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{} takes no redirected frames: give the other end of the pair GRO (ethtool -K PEER gro on) or an XDP program",
            plan.interface
        ),
    )
}

/// The first `count` frames as the program writes them, without sending them: for inspection and tests.
///
/// # Errors
/// As [`open_all`], but for the probe.
pub fn written_frames(plan: &SourcePlan, count: u64) -> io::Result<Vec<Vec<u8>>> {
    let composer = plan.composer()?;
    let interface = interface_index(&plan.interface)?;
    let mut state = State::create(GENERATOR, &[&composer])?;
    state.set_once(count);
    let name = format!("flat_{}", variant(composer.layout()));
    let program = load(&name, &state, &[interface], &[&composer])?;
    let mut template = [0; MAXIMUM_FRAME_BYTES];
    let largest = &mut template[..composer.largest_bytes()];
    composer.prepare(largest);
    (0..count).map(|_| run_once(program.as_fd(), largest).map(|(_, frame)| frame)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> SourceCounts {
        SourceCounts { intended_frames: 100, offered_frames: 100, ..SourceCounts::default() }
    }

    #[test]
    fn dropped_frames_are_refused_and_unsent() {
        let mut counts = counts();
        count_refused(&mut counts, 5, 8).unwrap();
        assert_eq!(
            (counts.offered_frames, counts.refused_frames, counts.unsent_frames),
            (97, 3, 3)
        );
    }

    #[test]
    fn a_counter_that_was_reset_is_an_error_and_refuses_nothing() {
        let mut counts = counts();
        let refusal = count_refused(&mut counts, 8, 5).unwrap_err().to_string();
        assert!(refusal.contains("tx_dropped went back from 8 to 5"), "{refusal}");
        assert_eq!(
            (counts.offered_frames, counts.refused_frames, counts.unsent_frames),
            (100, 0, 0)
        );
    }
}

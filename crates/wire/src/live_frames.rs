//! The live-frames back end: an XDP program that the kernel runs on frames of its own (`BPF_PROG_RUN` with live
//! frames, Linux 5.18 and later), which writes each frame anew and sends it out by redirect.
//!
//! Needs root in the first user namespace, and at the other end of a veth pair an XDP program or GRO, without which the
//! kernel lets every redirected frame fall: [`Generator::open`] asks with a probe frame before the trial.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use virtoll_clock::{monotonic_ns, sleep_until_monotonic};

use crate::backend::{Generate, SourcePlan, Start, check_link};
use crate::bpf::{self, Object, named, run_live, run_once};
use crate::frame::{Composer, ETHERTYPE_PROBE, Layout, MAXIMUM_FRAME_BYTES};
use crate::netlink::{LinkStatistics, Netlink};
use crate::pacing::{GRACE_NS, LATE_FROM_NS, Schedule, SourceCounts};
use crate::socket::interface_index;
pub(crate) use state::Data;
use state::State;

mod batch;
mod state;
mod sys;

/// The back end's name in results.
pub const NAME: &str = "live-frames";
/// Flat out, the clock is read for one frame of so many: they leave the kernel's queue in groups of 16 anyway.
const TIME_EVERY_FRAMES: u64 = 8;
const FLAT_OUT_BATCH: u32 = 64;
/// The largest batch that the kernel takes.
pub const LARGEST_BATCH: u32 = 256;
/// The kernel call is entered so long before the first frame is due.
const LEAD_NS: u64 = 200_000;
/// Turns of one call of a paced trial: it returns to us once in a minute or so.
const PACED_TURNS: u32 = 3_000_000_000;
const PROBE_WAIT: Duration = Duration::from_millis(1);
const PROBE_TRIES: u32 = 50;

const GENERATOR: &Object = &bpf::GENERATOR;

/// One source in the kernel.
pub struct Generator {
    plan: SourcePlan,
    composer: Composer,
    interface: u32,
    program: OwnedFd,
    state: State,
    batch: u32,
    before: LinkStatistics,
}

impl Generator {
    /// Loads the program, asks whether frames pass, and chooses the batch.
    ///
    /// # Errors
    /// No such interface, one that is down or too narrow, a kernel that refuses, or a peer that takes no frames.
    pub fn open(plan: SourcePlan) -> io::Result<Self> {
        let composer = plan.composer()?;
        let link = check_link(&plan.interface, &composer)?;
        let interface = link.index;
        let devices = bpf::set_device(interface)?;
        let state = State::create(GENERATOR, &composer)?;
        let maps = [named("devices", &devices)];
        let kind = if plan.frames_per_second.is_some() { "paced" } else { "flat" };
        let name = format!("{kind}_{}", variant(composer.layout()));
        let program = GENERATOR.load(&name, state.descriptor(), &maps)?;
        let plain = GENERATOR.load("plain", state.descriptor(), &maps)?;
        probe(&plan, interface, &plain)?;
        let batch = match (plan.batch_frames, plan.frames_per_second) {
            (Some(batch), _) => batch.clamp(1, LARGEST_BATCH),
            (None, None) => FLAT_OUT_BATCH,
            (None, Some(rate)) => batch::smallest_that_holds(rate)?,
        };
        let before = LinkStatistics::default();
        Ok(Self { plan, composer, interface, program, state, batch, before })
    }

    /// Runs the kernel's loop until `done` says so; a signal at `end_ns` takes us out of it.
    fn run(&self, turns: u32, end_ns: u64) -> io::Result<()> {
        let _alarm = sys::Alarm::at(end_ns)?;
        let frame = self.composer.shapes().last().map_or(&[][..], |(bytes, _)| bytes);
        loop {
            run_live(self.program.as_fd(), frame, turns, self.batch)?;
            let over = monotonic_ns() >= end_ns;
            if over || self.state.is_done() {
                return Ok(());
            }
        }
    }

    fn run_paced(&mut self, start_ns: u64, frames_per_second: f64) -> io::Result<SourceCounts> {
        let (duration_ns, catch_up_ns) = (self.plan.duration_ns, self.plan.catch_up_ns);
        let schedule = Schedule { start_ns, frames_per_second, duration_ns, catch_up_ns };
        let end_ns = start_ns + duration_ns + GRACE_NS;
        self.state.set_paced(&schedule, end_ns, LATE_FROM_NS);
        sleep_until_monotonic(start_ns.saturating_sub(LEAD_NS));
        self.run(PACED_TURNS, end_ns)?;
        let mut counts = self.state.counts();
        counts.intended_frames = schedule.intended_frames();
        counts.gaps = self.state.gaps();
        Ok(counts)
    }

    fn run_flat_out(&mut self, start_ns: u64) -> io::Result<SourceCounts> {
        let end_ns = start_ns + self.plan.duration_ns;
        self.state.set_flat_out(self.plan.limit_frames, end_ns, TIME_EVERY_FRAMES);
        sleep_until_monotonic(start_ns);
        let turns = self.plan.limit_frames.clamp(1, u64::from(u32::MAX - 2 * LARGEST_BATCH));
        self.run(turns as u32, end_ns)?;
        let mut counts = self.state.counts();
        counts.intended_frames = self.state.next_sequence();
        Ok(counts)
    }
}

impl Generate for Generator {
    fn generate(&mut self, start: &Start) -> io::Result<SourceCounts> {
        let before = statistics(self.interface);
        let start_ns = start.wait();
        self.before = before?;
        let mut counts = match self.plan.frames_per_second {
            Some(rate) => self.run_paced(start_ns, rate)?,
            None => self.run_flat_out(start_ns)?,
        };
        counts.start_monotonic_ns = start_ns;
        counts.end_monotonic_ns = monotonic_ns();
        counts.batch_frames = u64::from(self.batch);
        counts.unsent_frames = counts.intended_frames - counts.offered_frames;
        Ok(counts)
    }

    /// What the interface refused is known by its own counter alone: of redirected frames the kernel tells nothing.
    fn settle(&mut self, counts: &mut SourceCounts) -> io::Result<()> {
        let dropped = statistics(self.interface)?.tx_dropped - self.before.tx_dropped;
        let refused = dropped.min(counts.offered_frames);
        counts.refused_frames = refused;
        counts.offered_frames -= refused;
        counts.unsent_frames += refused;
        Ok(())
    }
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

/// Sends one frame that no sink counts, and looks whether the interface counts it.
fn probe(plan: &SourcePlan, interface: u32, plain: &OwnedFd) -> io::Result<()> {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&plan.frame.destination_mac.0);
    frame[6..12].copy_from_slice(&plan.frame.source_mac.0);
    frame[12..14].copy_from_slice(&ETHERTYPE_PROBE.to_be_bytes());
    let seen = |statistics: LinkStatistics| statistics.tx_packets + statistics.tx_dropped;
    let before = seen(statistics(interface)?);
    run_live(plain.as_fd(), &frame, 1, 1)?;
    for _ in 0..PROBE_TRIES {
        if seen(statistics(interface)?) != before {
            return Ok(());
        }
        thread::sleep(PROBE_WAIT);
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{} takes no redirected frames: give the other end of the pair GRO (ethtool -K PEER gro on) or an XDP program",
            plan.interface
        ),
    ))
}

/// The first `count` frames as the program writes them, without sending them: for inspection and tests.
///
/// # Errors
/// As [`Generator::open`], but for the probe.
pub fn written_frames(plan: &SourcePlan, count: u64) -> io::Result<Vec<Vec<u8>>> {
    let composer = plan.composer()?;
    let devices = bpf::set_device(interface_index(&plan.interface)?)?;
    let mut state = State::create(GENERATOR, &composer)?;
    state.set_flat_out(count, u64::MAX, 1);
    let name = format!("flat_{}", variant(composer.layout()));
    let program = GENERATOR.load(&name, state.descriptor(), &[named("devices", &devices)])?;
    let mut template = [0; MAXIMUM_FRAME_BYTES];
    let largest = &mut template[..composer.largest_bytes()];
    composer.prepare(largest);
    (0..count).map(|_| run_once(program.as_fd(), largest).map(|(_, frame)| frame)).collect()
}

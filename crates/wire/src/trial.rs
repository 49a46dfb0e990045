//! One traffic trial: sources and sink on threads of their own, then the books. On two hosts each has its half of it.

use std::collections::HashSet;
use std::io;

use crate::backend::{Collect, Quiet};
use crate::backend_selection::{self, Chosen};
use crate::netlink::{LinkStatistics, Netlink};
use crate::one_sided::{Receiving, Sources};
use crate::priority::SessionPriority;
use crate::schedule::intended_frames;
use crate::sequence_accounting::{Expectation, Ports};
use crate::source::SourcePlan;
pub use result::{
    Arrived, InterfaceChange, Received, SinkResult, SourceTotals, TrialCounts, TrialError,
};

mod result;

/// The largest rate that a flat-out source is given room for in the sink's books.
const FLAT_OUT_LIMIT_FRAMES_PER_SECOND: f64 = 20e6;
/// The shortest wait for quiet: a ring's block is handed over within a few milliseconds.
pub const MINIMUM_QUIET_NS: u64 = 10_000_000;

/// What a trial is made of.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    /// The trial's number.
    pub trial: u16,
    /// What sends.
    pub generator: backend_selection::Generator,
    /// The sources.
    pub sources: Vec<SourcePlan>,
    /// What counts.
    pub sink: backend_selection::Sink,
    /// Where frames arrive.
    pub sink_interfaces: Vec<String>,
    /// The core of the sink's thread.
    pub sink_cpu: Option<u32>,
    /// When the sink's wait is over.
    pub quiet: Quiet,
    /// How many frames the sink keeps.
    pub capture_frames: u32,
}

/// The most frames that a source may send.
pub fn limit_frames(frames_per_second: Option<f64>, duration_ns: u64) -> u64 {
    intended_frames(frames_per_second.unwrap_or(FLAT_OUT_LIMIT_FRAMES_PER_SECOND), duration_ns)
}

impl TrialPlan {
    /// How the sink recognises this trial's frames.
    pub fn expectation(&self) -> Expectation {
        let mut ip_bytes: Vec<usize> =
            self.sources.iter().flat_map(|source| source.shape.ip_bytes()).collect();
        ip_bytes.sort_unstable();
        ip_bytes.dedup();
        let ports = self.sources.iter().map(|source| Ports {
            first_source: source.shape.repr.source_port,
            flows: source.shape.flows,
            destination: source.shape.repr.destination_port,
        });
        Expectation {
            trial: self.trial,
            ip_bytes,
            ports: ports.collect(),
            keys: self.sources.iter().map(|source| source.shape.key).collect(),
            capacities: self.sources.iter().map(|source| source.limit_frames).collect(),
        }
    }

    /// The sources' interfaces.
    pub fn source_interfaces(&self) -> Vec<String> {
        self.sources.iter().map(|source| source.interface.clone()).collect()
    }
}

/// Counters of interfaces, read before something happens to them.
pub struct Watched(Vec<(String, LinkStatistics)>);

/// The names in the order of their first appearance, each once.
fn unique(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

impl Watched {
    /// Reads them, each once.
    ///
    /// # Errors
    /// No such interface, or what the kernel says.
    pub fn read(names: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let mut netlink = Netlink::open()?;
        let read = |name: String| {
            let statistics = netlink.link_named(&name)?.statistics;
            Ok((name, statistics))
        };
        unique(names).into_iter().map(read).collect::<io::Result<_>>().map(Self)
    }

    /// What happened to them since.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn changes(self) -> io::Result<Vec<InterfaceChange>> {
        let after = Self::read(self.0.iter().map(|(name, _)| name.clone()))?;
        let both = self.0.into_iter().zip(after.0);
        let change = |((interface, before), (_, after))| InterfaceChange {
            interface,
            statistics: (before, after),
        };
        Ok(both.map(change).collect())
    }
}

/// Opens the sink of a plan; it counts from here on.
///
/// # Errors
/// What failed.
pub fn open_sink(plan: &TrialPlan) -> Result<Chosen<Box<dyn Collect>>, TrialError> {
    backend_selection::open_sink(
        plan.sink,
        &plan.sink_interfaces,
        &plan.expectation(),
        plan.quiet,
        plan.capture_frames,
    )
    .map_err(|refused| TrialError::refused("open the sink on", refused))
}

/// Runs a trial.
///
/// # Errors
/// What failed while opening, sending or receiving, or books that do not balance.
pub fn run(plan: &TrialPlan) -> Result<TrialCounts, TrialError> {
    run_between(plan, || (), |()| ()).map(|(counts, ())| counts)
}

/// Runs a trial with a reading of something before the first frame, when all is open, and one after the last.
///
/// # Errors
/// As [`run`].
pub fn run_between<Before, Change>(
    plan: &TrialPlan,
    before: impl FnOnce() -> Before,
    after: impl FnOnce(Before) -> Change,
) -> Result<(TrialCounts, Change), TrialError> {
    let unread = |cause| TrialError::System("read counters".to_owned(), cause);
    for source in &plan.sources {
        source.composer().map_err(|cause| failed("open a source on", &source.interface, cause))?;
    }
    let sink = open_sink(plan)?;
    let mut sources = Sources::open(plan.generator, &plan.sources)
        .map_err(|refused| TrialError::refused("open a source on", refused))?;
    let names = plan.source_interfaces().into_iter().chain(plan.sink_interfaces.clone());
    let watched = Watched::read(names).map_err(unread)?;
    let priority = SessionPriority::raise();
    let receiving = receive(plan, sink)?;
    let reading = before();
    sources.send();
    let received = receiving.finish(sources.offered_frames().as_deref());
    let change = after(reading);
    drop(priority);
    let sent = sources.settle().map_err(|refused| TrialError::refused("send on", refused))?;
    let totals: Vec<_> = sent.value.iter().map(|one| SourceTotals::from(&one.counts)).collect();
    let sink = received?.balance(&totals)?;
    let interfaces = watched.changes().map_err(unread)?;
    Ok((TrialCounts { sent, sink, interfaces }, change))
}

fn failed(what: &str, on: &str, cause: io::Error) -> TrialError {
    TrialError::System(format!("{what} {on}"), cause)
}

/// The sink of a plan while it counts.
pub struct SinkHalf {
    receiving: Receiving,
    name: &'static str,
    reason: Option<String>,
    interfaces: Vec<String>,
}

/// Lets an open sink count on its own thread.
///
/// # Errors
/// The thread cannot be started.
pub fn receive(plan: &TrialPlan, sink: Chosen<Box<dyn Collect>>) -> Result<SinkHalf, TrialError> {
    let receiving = Receiving::start(sink.value, plan.sink_cpu)
        .map_err(|cause| failed("receive on", &plan.sink_interfaces.join(", "), cause))?;
    let interfaces = plan.sink_interfaces.clone();
    Ok(SinkHalf { receiving, name: sink.name, reason: sink.reason, interfaces })
}

impl SinkHalf {
    /// All sources have stopped, and offered so many frames each, where that is known: waits for quiet.
    ///
    /// # Errors
    /// What made receiving impossible.
    pub fn finish(self, offered_frames: Option<&[u64]>) -> Result<Received, TrialError> {
        let (counts, cost) = self
            .receiving
            .finish(offered_frames)
            .map_err(|cause| failed("receive on", &self.interfaces.join(", "), cause))?;
        Ok(Received { name: self.name, reason: self.reason, counts, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameShape, Key, TestFrameRepr};

    #[test]
    fn an_interface_that_is_named_again_later_is_read_once() {
        let names = ["in0", "out0", "in0", "out0", "in1"].map(str::to_owned);
        assert_eq!(unique(names), ["in0", "out0", "in1"]);
    }

    /// Each network namespace has this interface, and whoever uses it only adds.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn an_interface_that_was_watched_has_counters_from_before_and_after() {
        let watched = Watched::read(["lo", "lo"].map(str::to_owned)).unwrap();
        let changes = watched.changes().unwrap();
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        assert_eq!(change.interface, "lo");
        let (before, after) = change.statistics;
        assert!(before.tx_packets <= after.tx_packets && before.tx_bytes <= after.tx_bytes);
        assert!(Watched::read(["nowhere".to_owned()]).is_err());
    }

    #[test]
    fn a_source_has_room_for_its_rate_and_one_without_a_rate_for_twenty_million_a_second() {
        assert_eq!(limit_frames(Some(1_000.0), 1_500_000_000), 1_500);
        assert_eq!(limit_frames(None, 1_500_000_000), 30_000_000);
    }

    #[test]
    fn a_sink_expects_what_the_sources_of_the_plan_send() {
        let source = |number: u8, sizes: Vec<usize>, limit_frames: u64| {
            let port = u16::from(number) * 100;
            let repr = TestFrameRepr {
                source: number,
                source_port: 1_000 + port,
                destination_port: 2_000 + port,
                ..TestFrameRepr::smallest(0)
            };
            let key = Key::new([number; 16]);
            let flows = u16::from(number) + 1;
            SourcePlan {
                interface: format!("in{number}"),
                shape: FrameShape { sizes, flows, key, ..FrameShape::of_one(repr) },
                frames_per_second: None,
                duration_ns: 1,
                limit_frames,
                cpu: None,
                batch_frames: None,
                catch_up_ns: 1,
                wake_ns: None,
                bursts: None,
                stop: None,
            }
        };
        let plan = TrialPlan {
            trial: 7,
            generator: backend_selection::Generator::Auto,
            sources: vec![source(0, vec![514, 60, 60], 30), source(1, vec![60, 114], 40)],
            sink: backend_selection::Sink::Auto,
            sink_interfaces: vec!["out0".to_owned()],
            sink_cpu: None,
            quiet: Quiet { quiet_ns: 1, residual_ns: 1, limit_ns: 1 },
            capture_frames: 0,
        };
        assert_eq!(plan.source_interfaces(), ["in0", "in1"]);
        let expected = plan.expectation();
        assert_eq!((expected.trial, expected.ip_bytes), (7, vec![46, 100, 500]));
        let ports = [(1_000, 1, 2_000), (1_100, 2, 2_100)];
        assert_eq!(
            expected.ports,
            ports.map(|(first_source, flows, destination)| Ports {
                first_source,
                flows,
                destination
            })
        );
        assert_eq!(expected.keys, [Key::new([0; 16]), Key::new([1; 16])]);
        assert_eq!(expected.capacities, [30, 40]);
    }
}

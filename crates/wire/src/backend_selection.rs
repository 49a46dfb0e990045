//! Which back end sends and which sink counts: what was asked for, or the best that the host allows.

use std::io;

use crate::backend::{Collect, Generate, Quiet, Refused};
use crate::bpf::AttachMode;
use crate::senders::Sender;
use crate::sequence_accounting::Expectation;
use crate::source::SourcePlan;
use crate::xdp_sink::{self, Mode};
use crate::{af_packet, af_xdp, live_frames, udp};

/// What sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generator {
    /// The first of the next three that the host allows.
    #[default]
    Auto,
    /// An XDP program on frames of the kernel.
    LiveFrames,
    /// `AF_XDP` sockets.
    AfXdp,
    /// `AF_PACKET` sockets.
    AfPacket,
    /// UDP sockets, through the host's own stack; never chosen by itself.
    Udp,
}

/// What counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// The first of the others that the host allows.
    #[default]
    Auto,
    /// An XDP program.
    Xdp,
    /// A `TPACKET_V3` ring.
    Tpacket,
}

/// Something that was chosen.
pub struct Chosen<T> {
    /// It.
    pub value: T,
    /// Its name in results.
    pub name: &'static str,
    /// Why nothing better was taken, in one sentence; none if the best was, or one was asked for.
    pub reason: Option<String>,
}

type Senders = Vec<Sender>;

/// Opens all sources with one back end.
///
/// # Errors
/// The refusal of the back end that was asked for, or of the last one.
pub(crate) fn open_sources(
    wanted: Generator,
    plans: &[SourcePlan],
) -> Result<Chosen<Senders>, Refused> {
    let candidates = match wanted {
        Generator::Auto => &[Generator::LiveFrames, Generator::AfXdp, Generator::AfPacket][..],
        Generator::LiveFrames => &[Generator::LiveFrames],
        Generator::AfXdp => &[Generator::AfXdp],
        Generator::AfPacket => &[Generator::AfPacket],
        Generator::Udp => &[Generator::Udp],
    };
    let mut reasons = Vec::new();
    let mut last = None;
    for candidate in candidates {
        let name = name_of(*candidate);
        match open_all(*candidate, plans) {
            Ok(value) => return Ok(Chosen { value, name, reason: sentence(&reasons) }),
            Err(refused) => {
                reasons.push(format!("{name}: {}", refused.cause));
                last = Some(refused);
            }
        }
    }
    let nothing = || Refused { on: String::new(), cause: io::ErrorKind::Unsupported.into() };
    Err(last.unwrap_or_else(nothing))
}

fn sentence(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn name_of(generator: Generator) -> &'static str {
    match generator {
        Generator::Auto => "auto",
        Generator::LiveFrames => live_frames::NAME,
        Generator::AfXdp => af_xdp::NAME,
        Generator::AfPacket => af_packet::NAME,
        Generator::Udp => udp::NAME,
    }
}

fn open_all(generator: Generator, plans: &[SourcePlan]) -> Result<Senders, Refused> {
    let refused =
        |(place, cause): (usize, io::Error)| Refused { on: plans[place].interface.clone(), cause };
    let shared = |place: &usize| {
        plans[..*place].iter().any(|other| other.interface == plans[*place].interface)
    };
    if let Some(place) = (0..plans.len()).find(shared)
        && ![Generator::AfPacket, Generator::Udp].contains(&generator)
    {
        let sentence = "several sources share one interface";
        return Err(refused((place, io::Error::new(io::ErrorKind::Unsupported, sentence))));
    }
    if generator != Generator::LiveFrames
        && let Some(place) = plans.iter().position(|plan| plan.bursts.is_some())
    {
        let sentence = "sources send in turn with live frames alone";
        return Err(refused((place, io::Error::new(io::ErrorKind::Unsupported, sentence))));
    }
    if generator == Generator::LiveFrames {
        return live_frames::open_all(plans).map_err(refused);
    }
    let open = |(place, plan): (usize, &SourcePlan)| {
        let plan = plan.clone();
        let generator: io::Result<Box<dyn Generate>> = match generator {
            Generator::AfXdp => af_xdp::Generator::open(plan).map(|one| Box::new(one) as _),
            Generator::Udp => udp::open(plan).map(|one| Box::new(one) as _),
            _ => af_packet::open(plan).map(|one| Box::new(one) as _),
        };
        let generator = generator.map_err(|cause| refused((place, cause)))?;
        Ok(Sender { generator, sources: vec![place] })
    };
    plans.iter().enumerate().map(open).collect()
}

/// Opens a sink that counts every frame of any kind and passes none on; it counts from here on.
///
/// # Errors
/// The refusal of the XDP sink, which is the only one that can.
pub fn open_sink_of_all_frames(
    interfaces: &[String],
    expectation: &Expectation,
    quiet: Quiet,
) -> Result<Chosen<Box<dyn Collect>>, Refused> {
    let sink = xdp_sink::Collector::open(interfaces, expectation.clone(), quiet, Mode::Any);
    sink.map(|sink| Chosen { value: Box::new(sink) as _, name: xdp_sink::NAME, reason: None })
        .map_err(|cause| Refused { on: interfaces.join(", "), cause })
}

/// Opens the sink on its interfaces; it counts from here on.
///
/// # Errors
/// The refusal of the sink that was asked for, or of the last one.
pub fn open_sink(
    wanted: Sink,
    interfaces: &[String],
    expectation: &Expectation,
    quiet: Quiet,
    capture_frames: u32,
) -> Result<Chosen<Box<dyn Collect>>, Refused> {
    let refused = |cause| Refused { on: interfaces.join(", "), cause };
    let mut reason = None;
    if wanted != Sink::Tpacket {
        let mode = if capture_frames > 0 { Mode::Capture(capture_frames) } else { Mode::Test };
        match xdp_sink::Collector::open(interfaces, expectation.clone(), quiet, mode) {
            Ok(sink) => {
                let generic = sink.mode() == AttachMode::Generic;
                let reason =
                    generic.then(|| "xdp runs in the stack: the driver has no XDP".to_owned());
                return Ok(Chosen { value: Box::new(sink), name: xdp_sink::NAME, reason });
            }
            Err(cause) if wanted == Sink::Xdp => return Err(refused(cause)),
            Err(cause) => reason = Some(format!("{}: {cause}", xdp_sink::NAME)),
        }
    }
    af_packet::Collector::open(interfaces, expectation.clone(), quiet, capture_frames)
        .map(|sink| Chosen { value: Box::new(sink) as _, name: af_packet::SINK_NAME, reason })
        .map_err(refused)
}

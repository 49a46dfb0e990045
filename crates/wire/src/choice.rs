//! Which back end sends and which sink counts: what was asked for, or the best that the host allows.

use std::io;

use crate::backend::{Collect, Generate, Quiet, SourcePlan};
use crate::books::Expectation;
use crate::xdp_sink::{self, Mode};
use crate::{AttachMode, af_packet, af_xdp, live_frames};

/// What sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generator {
    /// The first of the others that the host allows.
    #[default]
    Auto,
    /// An XDP program on frames of the kernel.
    LiveFrames,
    /// `AF_XDP` sockets.
    AfXdp,
    /// `AF_PACKET` sockets.
    AfPacket,
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

type Sources = Vec<Box<dyn Generate>>;

/// A failure, and on what.
#[derive(Debug)]
pub struct Refused {
    /// The interface or interfaces.
    pub on: String,
    /// The cause.
    pub cause: io::Error,
}

/// Opens all sources with one back end.
///
/// # Errors
/// The refusal of the back end that was asked for, or of the last one.
pub fn open_sources(wanted: Generator, plans: &[SourcePlan]) -> Result<Chosen<Sources>, Refused> {
    let candidates = match wanted {
        Generator::Auto => &[Generator::LiveFrames, Generator::AfXdp, Generator::AfPacket][..],
        Generator::LiveFrames => &[Generator::LiveFrames],
        Generator::AfXdp => &[Generator::AfXdp],
        Generator::AfPacket => &[Generator::AfPacket],
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
    }
}

fn open_all(generator: Generator, plans: &[SourcePlan]) -> Result<Sources, Refused> {
    let mut sources: Sources = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let refused = |cause| Refused { on: plan.interface.clone(), cause };
        let shared = plans[..number].iter().any(|other| other.interface == plan.interface);
        if shared && generator != Generator::AfPacket {
            let sentence = "several sources share one interface";
            return Err(refused(io::Error::new(io::ErrorKind::Unsupported, sentence)));
        }
        let plan = plan.clone();
        let source: io::Result<Box<dyn Generate>> = match generator {
            Generator::LiveFrames => {
                live_frames::Generator::open(plan).map(|one| Box::new(one) as _)
            }
            Generator::AfXdp => af_xdp::Generator::open(plan).map(|one| Box::new(one) as _),
            _ => af_packet::Generator::open(plan).map(|one| Box::new(one) as _),
        };
        sources.push(source.map_err(refused)?);
    }
    Ok(sources)
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

//! `traffic`: turns a request into a trial of `virtoll-wire` and its counts into the answer; `halves` its two halves.

use std::fs::File;
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustix::rand::GetRandomFlags;
use virtoll_proto::request::{Backend, Destinations, FrameKey, SinkBackend, Source, Traffic};
use virtoll_proto::{Error, ErrorKind, reply};
use virtoll_wire::backend::{MOST_SOURCES, Quiet};
use virtoll_wire::frame::{
    FrameShape, Key, MAXIMUM_FRAME_BYTES, MINIMUM_FRAME_BYTES, TestFrameRepr, frame_bytes_of,
    mix_slots,
};
use virtoll_wire::pcap::CapturedPacket;
use virtoll_wire::routes::{MOST_DESTINATIONS, MOST_ROUTES, Table};
use virtoll_wire::trial::{self, MINIMUM_QUIET_NS, TrialError, TrialPlan, limit_frames};
use virtoll_wire::{Bursts, CATCH_UP_NS, SourcePlan, backend_selection, pcap};

use crate::idle::Idle;
use crate::marks::parse_mac;
use crate::processors::Processors;
use queued::Queued;

pub mod answer;
pub mod beside;
pub mod halves;
mod order;
mod queued;

const MOST_SINKS: usize = 16;
const MOST_RATE: f64 = 1e8;
/// 2^32 sequence numbers: half a gigabyte of books.
const MOST_FRAMES: u64 = 1 << 32;
const MOST_DURATION_NS: u64 = 3_600_000_000_000;
const WAKE_NS: RangeInclusive<u64> = 100_000..=1_000_000_000;
const BURST_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;
const MOST_BURSTS: u64 = 1000;
const MOST_CAPTURED: u32 = 10_000;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for values outside their range, `limit` for a trial that is too long, `system` for a call that failed
/// or books that do not balance.
pub fn run(request: &Traffic) -> Result<reply::traffic::Traffic, Error> {
    let request = &keyed(request)?;
    carry_out(request, &plan(request)?, || ())
}

/// The same request with a new secret for each source that has none, where sources and sink are this agent's.
///
/// # Errors
/// `system` if the kernel has no random numbers.
fn keyed(request: &Traffic) -> Result<Traffic, Error> {
    let mut request = request.clone();
    for source in request.sources.iter_mut().filter(|source| source.key.is_none()) {
        let mut secret = [0; 16];
        // So few bytes are never cut short (getrandom(2)).
        rustix::rand::getrandom(&mut secret, GetRandomFlags::empty())
            .map_err(|cause| Error::system("draw a key", &cause.into()))?;
        source.key = Some(FrameKey(secret));
    }
    Ok(request)
}

/// A trial of that plan; `opened` is called when all is open, just before the first frame.
fn carry_out(
    request: &Traffic,
    plan: &TrialPlan,
    opened: impl FnOnce(),
) -> Result<reply::traffic::Traffic, Error> {
    let _queued = Queued::frames_of(plan.source_interfaces());
    let processors = Processors::read();
    let before = || {
        opened();
        Idle::read(&request.idle_of)
    };
    let (counts, idle) =
        trial::run_between(plan, before, |before| before?.since_then()).map_err(failed)?;
    let idle = idle?;
    let busy = processors.since_then();
    if let Some(capture) = &request.capture {
        write_capture(&capture.path, &counts.sink.received.counts.captured)?;
    }
    Ok(answer::answer(request, plan, &counts, busy, idle))
}

fn failed(cause: TrialError) -> Error {
    match cause {
        TrialError::System(what, cause) => Error::system(what, &cause),
        TrialError::Books(sentence) => Error::new(ErrorKind::System, sentence),
    }
}

fn write_capture(path: &str, captured: &[CapturedPacket]) -> Result<(), Error> {
    File::create(path)
        .and_then(|file| pcap::write(&mut BufWriter::new(file), captured))
        .map_err(|cause| Error::system(format!("write {path}"), &cause))
}

/// The trial that a request asks for.
///
/// # Errors
/// As [`run`], before anything was tried.
pub fn plan(request: &Traffic) -> Result<TrialPlan, Error> {
    if !(1..=MOST_SOURCES).contains(&request.sources.len()) {
        return Err(Error::bad_request(format!("sources must be 1 to {MOST_SOURCES}")));
    }
    if !(1..=MOST_SINKS).contains(&request.sink.interfaces.len()) {
        return Err(Error::bad_request(format!("sink.interfaces must be 1 to {MOST_SINKS}")));
    }
    if request.wake_ns.is_some_and(|wake_ns| !WAKE_NS.contains(&wake_ns)) {
        return Err(Error::bad_request("wake_ns must be 100000 to 1000000000"));
    }
    if !(1..=MOST_DURATION_NS).contains(&request.duration_ns) {
        return Err(Error::bad_request("duration_ns must be 1 to 3600000000000"));
    }
    if let Some(bursts) = &request.bursts {
        check_bursts(request, bursts)?;
    }
    let sizes = sizes(request)?;
    let sources = request
        .sources
        .iter()
        .enumerate()
        .map(|(number, source)| source_plan(request, number as u8, source, &sizes))
        .collect::<Result<_, _>>()?;
    Ok(TrialPlan {
        trial: request.trial,
        generator: generator(request.backend),
        sources,
        sink: sink(request.sink.backend),
        sink_interfaces: request.sink.interfaces.clone(),
        sink_cpu: request.sink.cpu,
        quiet: quiet(request),
        capture_frames: request
            .capture
            .as_ref()
            .map_or(0, |capture| capture.frames.min(MOST_CAPTURED)),
    })
}

fn check_bursts(request: &Traffic, bursts: &virtoll_proto::request::Bursts) -> Result<(), Error> {
    if request.sources.iter().any(|source| source.rate_frames_per_second.is_some()) {
        return Err(Error::bad_request(
            "sources send in bursts flat out: no rate_frames_per_second",
        ));
    }
    if !BURST_NS.contains(&bursts.burst_ns)
        || !(0..=*BURST_NS.end()).contains(&bursts.pause_ns)
        || !(1..=MOST_BURSTS).contains(&bursts.count)
    {
        return Err(Error::bad_request(
            "bursts must be of 1000000 to 1000000000 ns, with a pause of at most 1000000000, and 1 to 1000 of a source",
        ));
    }
    if request.duration_ns != bursts.burst_ns * bursts.count {
        return Err(Error::bad_request("duration_ns must be that of one source's bursts"));
    }
    Ok(())
}

fn quiet(request: &Traffic) -> Quiet {
    let quiet_ns = request.quiet_ns.max(MINIMUM_QUIET_NS);
    Quiet {
        quiet_ns,
        // The wait for missing frames is no shorter than the wait for quiet.
        residual_ns: request.residual_ns.unwrap_or(quiet_ns).max(quiet_ns),
        limit_ns: request.drain_limit_ns.max(MINIMUM_QUIET_NS),
    }
}

const fn generator(backend: Backend) -> backend_selection::Generator {
    match backend {
        Backend::Auto => backend_selection::Generator::Auto,
        Backend::LiveFrames => backend_selection::Generator::LiveFrames,
        Backend::AfXdp => backend_selection::Generator::AfXdp,
        Backend::AfPacket => backend_selection::Generator::AfPacket,
        Backend::Udp => backend_selection::Generator::Udp,
    }
}

/// The same in the words of `virtoll-wire`.
pub const fn sink(backend: SinkBackend) -> backend_selection::Sink {
    match backend {
        SinkBackend::Auto => backend_selection::Sink::Auto,
        SinkBackend::Xdp => backend_selection::Sink::Xdp,
        SinkBackend::Tpacket => backend_selection::Sink::Tpacket,
    }
}

/// The pattern of frame sizes, as bytes in the buffer.
fn sizes(request: &Traffic) -> Result<Vec<usize>, Error> {
    let sizes = if request.mix.is_empty() {
        vec![request.frame_size_bytes as usize]
    } else {
        let weights: Vec<_> =
            request.mix.iter().map(|part| (part.frame_size_bytes as usize, part.weight)).collect();
        mix_slots(&weights)
            .ok_or_else(|| Error::bad_request("the weights of mix must add up to 1 to 128"))?
    };
    let possible = MINIMUM_FRAME_BYTES..=MAXIMUM_FRAME_BYTES;
    sizes
        .into_iter()
        .map(|size| frame_bytes_of(size).filter(|bytes| possible.contains(bytes)))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::bad_request("frame_size_bytes must be 64 to 1518, with FCS"))
}

fn source_plan(
    request: &Traffic,
    number: u8,
    source: &Source,
    sizes: &[usize],
) -> Result<SourcePlan, Error> {
    let number = source.number.unwrap_or(number);
    if usize::from(number) >= MOST_SOURCES {
        return Err(Error::bad_request(format!("number must be below {MOST_SOURCES}")));
    }
    let rate = source.rate_frames_per_second;
    if rate.is_some_and(|rate| !(rate > 0.0 && rate <= MOST_RATE)) {
        return Err(Error::bad_request("rate_frames_per_second must be above 0 and at most 1e8"));
    }
    let FrameKey(secret) = source.key.ok_or_else(|| {
        Error::bad_request("key must be given, the same to the agents of source and sink")
    })?;
    let limit_frames = limit_frames(rate, request.duration_ns);
    if limit_frames > MOST_FRAMES {
        return Err(Error::new(
            ErrorKind::Limit,
            "the trial has more than 2^32 frames of a source",
        ));
    }
    let plan = SourcePlan {
        interface: source.interface.clone(),
        shape: FrameShape {
            repr: TestFrameRepr {
                source_mac: parse_mac(&source.source_mac)?,
                destination_mac: parse_mac(&source.destination_mac)?,
                vlan: source.vlan,
                source_address: source.source_address,
                destination_address: source.destination_address,
                source_port: source.source_port,
                destination_port: source.destination_port,
                trial: request.trial,
                source: number,
                sequence: 0,
                sent_monotonic_ns: 0,
                timed: true,
                frame_bytes: 0,
            },
            sizes: sizes.to_vec(),
            flows: source.flows,
            destinations: destinations(source.destinations)?,
            key: Key::new(secret),
        },
        frames_per_second: rate,
        duration_ns: request.duration_ns,
        limit_frames,
        cpu: source.cpu,
        batch_frames: request.batch_frames,
        catch_up_ns: request.catch_up_ns.unwrap_or(CATCH_UP_NS),
        wake_ns: request.wake_ns,
        bursts: request.bursts.map(|bursts| Bursts {
            burst_ns: bursts.burst_ns,
            pause_ns: bursts.pause_ns,
            count: bursts.count,
        }),
        stop: None,
    };
    plan.composer().map_err(|cause| Error::bad_request(cause.to_string()))?;
    Ok(plan)
}

/// Addresses spread over a table; none where they were not asked for.
fn destinations(wanted: Option<Destinations>) -> Result<Arc<[Ipv4Addr]>, Error> {
    let Some(Destinations { count, routes, seed }) = wanted else { return Ok(Arc::new([])) };
    let table = Table::new(routes, seed).filter(|_| (1..=MOST_DESTINATIONS).contains(&count));
    let table = table.ok_or_else(|| {
        Error::bad_request(format!(
            "destinations must be 1 to {MOST_DESTINATIONS}, of a table of 1 to {MOST_ROUTES} routes"
        ))
    })?;
    Ok(table.destinations(count).into())
}

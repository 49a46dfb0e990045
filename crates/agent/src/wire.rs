//! `virtoll-agent wire send|receive|calibrate|forward`: generator and sink for anyone, without the control plane.

use std::fs::File;
use std::io::BufWriter;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use virtoll_proto::request::Traffic;
use virtoll_wire::backend::{Collect, Quiet};
use virtoll_wire::frame::{Key, MAXIMUM_FRAME_BYTES, MINIMUM_FRAME_BYTES};
use virtoll_wire::netlink::{LinkStatistics, Netlink};
use virtoll_wire::one_sided::{self, Receiving};
use virtoll_wire::pcap::{self, CapturedPacket};
use virtoll_wire::sequence_accounting::{Expectation, Ports};
use virtoll_wire::trial::MINIMUM_QUIET_NS;
use virtoll_wire::{backend_selection, written_frames};

use crate::command_line::Failure;
use crate::traffic::{self, answer};
use arguments::{Arguments, require};
use error::WireError;
use result::{OpenEvent, ReceiveResult, SendResult};

mod arguments;
mod calibrate;
mod error;
mod forward;
mod help;
mod report;
mod result;

/// The room of a sink that does not know what will be sent: 2^28 sequence numbers, 32 MiB.
const CAPACITY_FRAMES: u64 = 1 << 28;
const LINK_HEADER_BYTES: usize = 14;
/// Lengths of IP packets that a test frame can have.
const IP_BYTES: std::ops::RangeInclusive<usize> =
    MINIMUM_FRAME_BYTES - LINK_HEADER_BYTES..=MAXIMUM_FRAME_BYTES - LINK_HEADER_BYTES;

/// One of the commands.
type Work = fn(&Arguments) -> Result<(), Failure>;

/// Carries out the command.
///
/// # Errors
/// A sentence for the user.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let (command, rest) = match arguments.split_first() {
        None => ("--help", &[][..]),
        Some((command, rest)) => (command.as_str(), rest),
    };
    if command == "forward" {
        return forward::run(rest);
    }
    let (help, work): (_, Work) = match command {
        "send" => (help::HELP_SEND, send),
        "receive" => (help::HELP_RECEIVE, receive),
        "calibrate" => (help::HELP_CALIBRATE, calibrate::run),
        "--help" | "-h" | "help" => {
            print!("{}", help::HELP);
            return Ok(());
        }
        other => {
            let sentence = format!(
                "wire {other:?} is not send, receive, calibrate or forward; see wire --help"
            );
            return Err(Failure::Usage(sentence));
        }
    };
    if let Some(arguments) = Arguments::parse(rest)? {
        return work(&arguments);
    }
    print!("{help}");
    Ok(())
}

fn print<T: Serialize>(
    arguments: &Arguments,
    result: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), WireError> {
    if !arguments.json {
        print!("{}", table(result));
        return Ok(());
    }
    // By way of a value, which sorts the names.
    let value = serde_json::to_value(result).map_err(WireError::Result)?;
    println!("{value}");
    Ok(())
}

fn statistics(interface: &str) -> Result<LinkStatistics, WireError> {
    let link = Netlink::open().and_then(|mut netlink| netlink.link_named(interface));
    link.map(|link| link.statistics).map_err(WireError::on(interface))
}

fn send(arguments: &Arguments) -> Result<(), Failure> {
    let request: Traffic = arguments.request()?;
    let plan = traffic::plan(&request).map_err(|error| Failure::Usage(error.message))?;
    if let (Some(path), Some(source)) = (&arguments.pcap, plan.sources.first()) {
        let frames = written_frames(source, u64::from(arguments.pcap_frames))
            .map_err(|cause| WireError::Frames(path.clone(), cause))?;
        let packet = |bytes: Vec<u8>| CapturedPacket {
            monotonic_ns: 0,
            frame_bytes: bytes.len() as u32,
            bytes,
        };
        save(path, &frames.into_iter().map(packet).collect::<Vec<_>>())?;
    }
    let before = statistics(&arguments.interface)?;
    let sent = one_sided::send(plan.generator, &plan.sources, 0).map_err(WireError::from)?;
    let after = statistics(&arguments.interface)?;
    let sources: Vec<_> = sent
        .value
        .iter()
        .enumerate()
        .map(|(number, sent)| answer::sent(number, sent, &plan, false))
        .collect();
    let result = SendResult {
        backend: sent.name.into(),
        backend_reason: sent.reason,
        sizes_bytes: plan.sources[0].shape.frame_sizes(),
        sources,
        interface: answer::changes(&before, &after),
    };
    Ok(print(arguments, &result, report::sent)?)
}

fn save(path: &str, packets: &[CapturedPacket]) -> Result<(), WireError> {
    File::create(path)
        .and_then(|file| pcap::write(&mut BufWriter::new(file), packets))
        .map_err(|cause| WireError::Capture(path.to_owned(), cause))
}

fn open_sink(
    arguments: &Arguments,
    expectation: &Expectation,
) -> Result<backend_selection::Chosen<Box<dyn Collect>>, WireError> {
    // This sink does not know what was offered: the caller states how long it counts.
    let quiet = Quiet {
        quiet_ns: MINIMUM_QUIET_NS,
        residual_ns: MINIMUM_QUIET_NS,
        limit_ns: 1_000_000_000,
    };
    let interfaces = [arguments.interface.clone()];
    let frames = if arguments.pcap.is_some() { arguments.pcap_frames } else { 0 };
    let sink = if arguments.any {
        backend_selection::open_sink_of_all_frames(&interfaces, expectation, quiet)
    } else {
        backend_selection::open_sink(
            traffic::sink(arguments.sink),
            &interfaces,
            expectation,
            quiet,
            frames,
        )
    };
    Ok(sink?)
}

/// Announces that the sink counts, for scripts that wait for it.
fn tell_open(arguments: &Arguments, backend: &str) -> Result<(), WireError> {
    let interface = &arguments.interface;
    if !arguments.json {
        eprintln!("open: receiving on {interface} by {backend}");
        return Ok(());
    }
    print(arguments, &OpenEvent { interface, backend }, |_| String::new())
}

fn receive(arguments: &Arguments) -> Result<(), Failure> {
    require("--interface", &arguments.interface)?;
    let first_source = arguments.ports.0;
    let ports = Ports {
        first_source,
        flows: (u16::MAX - first_source).max(1),
        destination: arguments.ports.1,
    };
    let expectation = Expectation {
        trial: arguments.trial,
        ip_bytes: IP_BYTES.collect(),
        ports: vec![ports],
        keys: vec![Key::new(arguments.key.0)],
        capacities: vec![CAPACITY_FRAMES],
    };
    let sink = open_sink(arguments, &expectation)?;
    let before = statistics(&arguments.interface)?;
    let failed = WireError::on(&arguments.interface);
    let receiving = Receiving::start(sink.value, None).map_err(&failed)?;
    tell_open(arguments, sink.name)?;
    thread::sleep(Duration::from_nanos(arguments.duration_ns));
    let (counts, _) = receiving.finish(None).map_err(failed)?;
    let after = statistics(&arguments.interface)?;
    if let Some(path) = &arguments.pcap {
        save(path, &counts.captured)?;
    }
    let arrivals = counts.sources[0].arrivals();
    // A sink alone knows no more of what was sent than the largest number that came.
    let missing =
        counts.sources[0].largest().map_or(0, |last| last + 1 - arrivals.forwarded_frames);
    let source = answer::arrived(None, &arrivals, missing, false);
    let result = ReceiveResult {
        backend: sink.name.into(),
        backend_reason: sink.reason,
        seen_frames: counts.seen_frames,
        foreign_frames: counts.foreign_frames,
        late_trial_frames: counts.late_trial_frames,
        forged_frames: counts.forged_frames,
        kernel_dropped_frames: counts.kernel_dropped_frames,
        ran_on: counts.processors,
        source,
        interface: answer::changes(&before, &after),
    };
    Ok(print(arguments, &result, report::received)?)
}

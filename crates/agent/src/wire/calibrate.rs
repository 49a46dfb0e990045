//! `wire calibrate`: generator and sink with nothing between them, on a veth pair in a namespace of its own.

use std::net::Ipv4Addr;

use virtoll_proto::request::{Backend, SinkBackend, Traffic};
use virtoll_wire::interface_mac;

use super::arguments::Arguments;
use super::report;
use super::result::Calibration;
use crate::command_line::Failure;
use crate::{isolated_namespace, traffic};

const SIZES: [u32; 4] = [64, 500, 1_000, 1_500];
/// Each back end with the sinks that it is measured with.
const PAIRS: [(Backend, SinkBackend); 4] = [
    (Backend::LiveFrames, SinkBackend::Xdp),
    (Backend::AfXdp, SinkBackend::Xdp),
    (Backend::AfPacket, SinkBackend::Xdp),
    (Backend::AfXdp, SinkBackend::Tpacket),
];

/// Measures, and prints a line for each trial.
///
/// # Errors
/// A sentence for the user.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    isolated_namespace::make_pairs(1)
        .map_err(|cause| format!("make a veth pair in a namespace: {cause}"))?;
    let (sending, receiving) = isolated_namespace::names(0);
    let mac = interface_mac(&receiving).map_err(|cause| cause.to_string())?;
    let mut base = arguments.clone();
    base.interface = sending;
    base.destination_mac = mac.to_string();
    base.source = Some(Ipv4Addr::new(10, 1, 0, 1).into());
    base.destination = Some(Ipv4Addr::new(10, 2, 0, 1).into());
    let sizes: Vec<u32> = if arguments.sizes.is_empty() {
        SIZES.to_vec()
    } else {
        arguments.sizes.iter().map(|size| size.0).collect()
    };
    let mut rates: Vec<Option<f64>> = vec![None];
    if !arguments.flat_out {
        rates.extend(arguments.rates_mbit.iter().copied().map(Some));
    }
    if !arguments.json {
        print!("{}", report::calibration_head());
    }
    for (backend, sink) in PAIRS {
        if ![Backend::Auto, backend].contains(&arguments.backend) {
            continue;
        }
        for size in &sizes {
            for rate in &rates {
                let answer = trial(&base, &receiving, (backend, sink), *size, *rate);
                // Each has its own number: what is late of one is not taken for a frame of the next.
                base.trial = base.trial.wrapping_add(1);
                match answer {
                    Ok(answer) => {
                        super::print(arguments, &answer, report::calibration)?;
                    }
                    Err(usage @ Failure::Usage(_)) => return Err(usage),
                    Err(Failure::Work(sentence)) => {
                        eprintln!("{backend} into {sink}, {size} B: {sentence}");
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

fn trial(
    base: &Arguments,
    receiving: &str,
    (backend, sink): (Backend, SinkBackend),
    size: u32,
    rate: Option<f64>,
) -> Result<Calibration, Failure> {
    let mut arguments = base.clone();
    arguments.sizes = vec![(size, 1)];
    arguments.rate_mbit = rate;
    arguments.backend = backend;
    let mut request: Traffic = arguments.request()?;
    request.sink.interfaces = vec![receiving.to_owned()];
    request.sink.backend = sink;
    Ok(Calibration {
        reply: traffic::run(&request).map_err(|error| error.message)?,
        rate_mbit: rate,
        rate_frames_per_second: request.sources[0].rate_frames_per_second,
        duration_ns: request.duration_ns,
    })
}

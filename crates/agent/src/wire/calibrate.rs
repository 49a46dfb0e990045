//! `wire calibrate`: generator and sink with nothing between them, on a veth pair in a namespace of its own.

use std::fs;

use serde_json::{Value, json};
use virtoll_proto::request::Traffic;
use virtoll_wire::interface_mac;
use virtoll_wire::netlink::Netlink;

use super::arguments::Arguments;
use super::{report, sys};
use crate::traffic;

const SENDING: &str = "vt-send";
const RECEIVING: &str = "vt-receive";
const MTU: u32 = 1_600;
const SIZES: [u32; 4] = [64, 500, 1_000, 1_500];
/// Each back end with the sinks that it is measured with.
const PAIRS: [(&str, &str); 4] =
    [("live-frames", "xdp"), ("af-xdp", "xdp"), ("af-packet", "xdp"), ("af-xdp", "tpacket")];

fn make_pair() -> std::io::Result<()> {
    sys::own_network()?;
    // The kernel's own IPv6 messages would be foreign frames.
    for kind in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{kind}/disable_ipv6");
        let _ = fs::write(path, "1");
    }
    let mut netlink = Netlink::open()?;
    netlink.add_veth(SENDING, RECEIVING, MTU)?;
    for name in [SENDING, RECEIVING] {
        let index = netlink.link_named(name)?.index;
        netlink.set_up(index, true)?;
    }
    Ok(())
}

/// Measures, and prints a line for each trial.
///
/// # Errors
/// A sentence for the user.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    make_pair().map_err(|cause| format!("make a veth pair in a namespace: {cause}"))?;
    let mac = interface_mac(RECEIVING).map_err(|cause| cause.to_string())?;
    let mut base = arguments.clone();
    SENDING.clone_into(&mut base.interface);
    base.destination_mac = mac.to_string();
    "10.1.0.1".clone_into(&mut base.source);
    "10.2.0.1".clone_into(&mut base.destination);
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
        if arguments.backend != "auto" && arguments.backend != backend {
            continue;
        }
        for size in &sizes {
            for rate in &rates {
                let answer = trial(&base, backend, sink, *size, *rate);
                match answer {
                    Ok(answer) if arguments.json => println!("{answer}"),
                    Ok(answer) => print!("{}", report::calibration(&answer)),
                    Err(sentence) => {
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
    backend: &str,
    sink: &str,
    size: u32,
    rate: Option<f64>,
) -> Result<Value, String> {
    let mut arguments = base.clone();
    arguments.sizes = vec![(size, 1)];
    arguments.rate_mbit = rate;
    backend.clone_into(&mut arguments.backend);
    let mut request: Traffic = arguments.request()?;
    request.sink.interfaces = vec![RECEIVING.to_owned()];
    request.sink.backend =
        serde_json::from_value(json!(sink)).map_err(|cause| cause.to_string())?;
    let mut answer = traffic::run(&request).map_err(|error| error.message)?;
    answer["rate_mbit"] = json!(rate);
    answer["rate_frames_per_second"] = json!(request.sources[0].rate_frames_per_second);
    answer["duration_ns"] = json!(request.duration_ns);
    Ok(answer)
}

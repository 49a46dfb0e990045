//! Requests of `traffic` over veth pairs, and what their answers must hold.

use serde_json::{Value, json};

use super::Agent;

pub const MILLISECOND_NS: u64 = 1_000_000;

/// A pair `gN`-`sN`: frames that leave by `gN` arrive at `sN`.
pub fn pair(agent: &Agent, number: usize) {
    // The kernel's own IPv6 messages would be foreign frames.
    let quiet =
        "for one in all default; do echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6; done";
    let status = agent.inside("sh").args(["-c", quiet]).status();
    assert!(status.is_ok_and(|status| status.success()), "IPv6 stays on");
    agent.ip(&format!(
        "link add g{number} mtu 1600 address 02:00:00:00:01:0{number} type veth peer name s{number} mtu 1600 address 02:00:00:00:02:0{number}"
    ));
    agent.ip(&format!("link set g{number} up"));
    agent.ip(&format!("link set s{number} up"));
}

pub fn source(number: usize, rate: Option<f64>) -> Value {
    json!({
        "interface": format!("g{number}"),
        "source_mac": format!("02:00:00:00:01:0{number}"),
        "destination_mac": format!("02:00:00:00:02:0{number}"),
        "source_address": format!("10.1.{number}.1"),
        "destination_address": "10.2.0.1",
        "source_port": 5_000 + number,
        "destination_port": 6_000,
        "rate_frames_per_second": rate,
        "cpu": null,
    })
}

pub fn trial(
    number: u16,
    size: u32,
    milliseconds: u64,
    sources: &[Value],
    sinks: &[&str],
) -> Value {
    json!({
        "trial": number,
        "frame_size_bytes": size,
        "duration_ns": milliseconds * MILLISECOND_NS,
        "backend": "auto",
        "sources": sources,
        "sink": {"interfaces": sinks, "cpu": null},
        "quiet_ns": 20 * MILLISECOND_NS,
        "drain_limit_ns": 2_000 * MILLISECOND_NS,
    })
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Checks the books of every source; intended, offered and forwarded frames of each.
pub fn books(answer: &Value) -> Vec<(u64, u64, u64)> {
    let sent = answer["sources"].as_array().unwrap();
    let arrived = answer["sink"]["per_source"].as_array().unwrap();
    sent.iter()
        .zip(arrived)
        .map(|(sent, arrived)| {
            let (intended, offered) =
                (number(&sent["intended_frames"]), number(&sent["offered_frames"]));
            let forwarded = number(&arrived["forwarded_frames"]);
            assert_eq!(offered + number(&sent["unsent_frames"]), intended);
            assert_eq!(forwarded + number(&arrived["lost_frames"]), offered);
            (intended, offered, forwarded)
        })
        .collect()
}

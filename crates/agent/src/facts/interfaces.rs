//! Facts about network interfaces.

use serde_json::{Map, Value, json};

use super::{read_trimmed, sys};
use virtoll_wire::netlink::{Link, Netlink};

/// The ethtool queries whose answer is one word, by the name that ethtool itself prints.
const OFFLOADS: [(&str, u32); 6] = [
    ("generic-receive-offload", 0x2b),
    ("generic-segmentation-offload", 0x23),
    ("rx-checksumming", 0x14),
    ("scatter-gather", 0x18),
    ("tcp-segmentation-offload", 0x1e),
    ("tx-checksumming", 0x16),
];
const GET_FLAGS: u32 = 0x25;
const FLAG_LARGE_RECEIVE: u32 = 1 << 15;

/// All interfaces in the order of their numbers, or null.
pub fn collect() -> Value {
    let links = Netlink::open().and_then(|mut netlink| netlink.links());
    links.map_or(Value::Null, |links| links.iter().map(describe_interface).collect())
}

fn describe_interface(link: &Link) -> Value {
    let speed = read_trimmed(&format!("/sys/class/net/{}/speed", link.name));
    json!({
        "name": link.name,
        "mac": link.mac.map(|mac| mac.to_string()),
        "mtu": link.mtu,
        "driver": sys::driver(&link.name),
        "speed_mbit": speed.and_then(|speed| speed.parse::<u64>().ok()),
        "offloads": offloads(&link.name),
    })
}

fn offloads(name: &str) -> Value {
    let mut found: Map<String, Value> = OFFLOADS
        .iter()
        .filter_map(|(offload, query)| {
            Some(((*offload).to_owned(), json!(sys::ethtool_word(name, *query)? != 0)))
        })
        .collect();
    if let Some(flags) = sys::ethtool_word(name, GET_FLAGS) {
        found.insert("large-receive-offload".to_owned(), json!(flags & FLAG_LARGE_RECEIVE != 0));
    }
    Value::Object(found)
}

//! Facts about network interfaces.

use std::collections::BTreeMap;

use virtoll_proto::reply::facts::Interface;
use virtoll_wire::netlink::{Link, Netlink};

use super::{read_trimmed, sys};

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

/// All interfaces in the order of their numbers; none if netlink fails.
pub fn collect() -> Option<Vec<Interface>> {
    let links = Netlink::open().and_then(|mut netlink| netlink.links()).ok()?;
    Some(links.iter().map(describe_interface).collect())
}

fn describe_interface(link: &Link) -> Interface {
    let speed = read_trimmed(&format!("/sys/class/net/{}/speed", link.name));
    Interface {
        name: link.name.clone(),
        mac: link.mac.map(|mac| mac.to_string()),
        mtu: link.mtu,
        driver: sys::driver(&link.name),
        speed_mbit: speed.and_then(|speed| speed.parse().ok()),
        offloads: offloads(&link.name),
    }
}

fn offloads(name: &str) -> BTreeMap<String, bool> {
    let word = |(offload, query): &(&str, u32)| {
        Some(((*offload).to_owned(), sys::ethtool_word(name, *query)? != 0))
    };
    let mut found: BTreeMap<String, bool> = OFFLOADS.iter().filter_map(word).collect();
    if let Some(flags) = sys::ethtool_word(name, GET_FLAGS) {
        found.insert("large-receive-offload".to_owned(), flags & FLAG_LARGE_RECEIVE != 0);
    }
    found
}

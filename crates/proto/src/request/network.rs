//! `network`: how the interfaces, their addresses and forwarding shall be.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

/// `network`: how the interfaces shall be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The interfaces, found by MAC address.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// Routes by gateway.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// IPv4 forwarding on or off, or left as it is.
    #[serde(default)]
    pub ip_forward: Option<bool>,
    /// IPv6 forwarding on or off, or left as it is.
    #[serde(default)]
    pub ipv6_forward: Option<bool>,
}

/// One interface of `network`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// The address it is found by.
    pub mac: String,
    /// Its new name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its new MTU in bytes.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Its only IPv4 address, with the prefix's length.
    #[serde(default)]
    pub address: Option<String>,
    /// Its only IPv6 address besides link-local ones, with the prefix's length.
    #[serde(default)]
    pub ipv6_address: Option<String>,
    /// Its IPv4 addresses are taken away.
    #[serde(default)]
    pub without_address: bool,
    /// Permanent neighbours.
    #[serde(default)]
    pub neighbours: Vec<Neighbour>,
    /// Its only VLAN sub-interfaces; null leaves those that there are.
    #[serde(default)]
    pub vlans: Option<Vec<Vlan>>,
}

/// One VLAN (802.1Q) of an interface: a sub-interface with addresses of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// The VLAN's number, 1 to 4094.
    pub vlan: u16,
    /// Its only IPv4 address, with the prefix's length.
    #[serde(default)]
    pub address: Option<String>,
    /// Its only IPv6 address, with the prefix's length.
    #[serde(default)]
    pub ipv6_address: Option<String>,
    /// Permanent neighbours.
    #[serde(default)]
    pub neighbours: Vec<Neighbour>,
}

/// A permanent neighbour entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// The IP address.
    pub address: IpAddr,
    /// Its link address.
    pub mac: String,
}

/// A route by gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The prefix, for example `10.9.0.0/16`.
    pub destination: String,
    /// The gateway.
    pub via: Ipv4Addr,
}

//! `network`: makes the interfaces, neighbours, routes and forwarding as they are asked for.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

use serde_json::{Value, json};
use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::request::{Interface, Network};
use virtoll_wire::MacAddress;

use crate::marks::parse_mac;
use virtoll_wire::netlink::{Link, LinkEvents, Netlink};

const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// How long interfaces may take to appear and to get a carrier.
const DEADLINE_NS: u64 = 5_000_000_000;
const LOOPBACK_INDEX: u32 = 1;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for addresses that are none, `system` for an interface that does not appear or a call that failed.
pub fn apply(wanted: &Network) -> Result<Value, Error> {
    let interfaces = wanted.interfaces.iter().map(Wanted::read).collect::<Result<Vec<_>, _>>()?;
    let routes = wanted
        .routes
        .iter()
        .map(|route| Ok((parse_prefix(&route.destination)?, route.via)))
        .collect::<Result<Vec<_>, Error>>()?;
    let system = |cause: io::Error| Error::system("netlink", &cause);
    let mut netlink = Netlink::open().map_err(system)?;
    let events = LinkEvents::open().map_err(system)?;
    let deadline_ns = monotonic_ns() + DEADLINE_NS;
    for interface in &interfaces {
        let link = interface.find(&mut netlink, &events, deadline_ns)?;
        interface.apply(&mut netlink, &link)?;
    }
    for ((destination, prefix), gateway) in routes {
        netlink.set_route(destination, prefix, gateway).map_err(|cause| {
            Error::system(format!("route {destination}/{prefix} via {gateway}"), &cause)
        })?;
    }
    if let Some(on) = wanted.ip_forward {
        fs::write(IP_FORWARD, if on { "1" } else { "0" })
            .map_err(|cause| Error::system(format!("write {IP_FORWARD}"), &cause))?;
    }
    let links =
        wait_for_carrier(&interfaces, &mut netlink, &events, deadline_ns).map_err(system)?;
    Ok(json!({"interfaces": links.iter().map(told).collect::<Vec<_>>()}))
}

/// Switches the loopback interface on.
///
/// # Errors
/// The kernel's.
pub fn loopback_up() -> io::Result<()> {
    Netlink::open()?.set_up(LOOPBACK_INDEX, true)
}

struct Wanted<'a> {
    request: &'a Interface,
    mac: MacAddress,
    address: Option<(Ipv4Addr, u8)>,
    neighbours: Vec<(Ipv4Addr, MacAddress)>,
}

impl<'a> Wanted<'a> {
    fn read(request: &'a Interface) -> Result<Self, Error> {
        let neighbours = request
            .neighbours
            .iter()
            .map(|neighbour| Ok((neighbour.address, parse_mac(&neighbour.mac)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            request,
            mac: parse_mac(&request.mac)?,
            address: request.address.as_deref().map(parse_prefix).transpose()?,
            neighbours,
        })
    }

    /// Waits for the interface.
    fn find(
        &self,
        netlink: &mut Netlink,
        events: &LinkEvents,
        deadline_ns: u64,
    ) -> Result<Link, Error> {
        let system = |cause: io::Error| Error::system(format!("interface {}", self.mac), &cause);
        loop {
            let links = netlink.links().map_err(system)?;
            if let Some(link) = links.into_iter().find(|link| link.mac == Some(self.mac)) {
                return Ok(link);
            }
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return Err(system(io::Error::from_raw_os_error(libc::ENODEV)));
            }
            events.wait(left_ns).map_err(system)?;
        }
    }

    fn apply(&self, netlink: &mut Netlink, link: &Link) -> Result<(), Error> {
        let step = |what: &str| {
            let what = format!("{what} of interface {} ({})", self.mac, link.name);
            move |cause: io::Error| Error::system(&what, &cause)
        };
        if let Some(name) = self.request.name.as_ref().filter(|name| **name != link.name) {
            if link.up {
                netlink.set_up(link.index, false).map_err(step("switching off"))?;
            }
            netlink.rename(link.index, name).map_err(step("name"))?;
        }
        if let Some(mtu) = self.request.mtu.filter(|mtu| *mtu != link.mtu) {
            netlink.set_mtu(link.index, mtu).map_err(step("mtu"))?;
        }
        if let Some((address, prefix)) = self.address {
            netlink.set_address(link.index, address, prefix).map_err(step("address"))?;
        }
        netlink.set_up(link.index, true).map_err(step("switching on"))?;
        for (address, mac) in &self.neighbours {
            match netlink.set_neighbour(link.index, *address, *mac) {
                // A kernel without such a call (gVisor's) was given its neighbours before its start.
                Err(cause) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                result => result.map_err(step("neighbour"))?,
            }
        }
        Ok(())
    }
}

/// The interfaces as they are once all have a carrier, or when the time is over.
fn wait_for_carrier(
    interfaces: &[Wanted<'_>],
    netlink: &mut Netlink,
    events: &LinkEvents,
    deadline_ns: u64,
) -> io::Result<Vec<Link>> {
    loop {
        let links = netlink.links()?;
        let ours: Vec<Link> = interfaces
            .iter()
            .filter_map(|wanted| links.iter().find(|link| link.mac == Some(wanted.mac)).cloned())
            .collect();
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 || ours.iter().all(Link::is_ready) {
            return Ok(ours);
        }
        events.wait(left_ns)?;
    }
}

fn told(link: &Link) -> Value {
    json!({
        "name": link.name,
        "mac": link.mac.map(|mac| mac.to_string()),
        "mtu": link.mtu,
        "operstate": link.operation_state,
    })
}

/// Reads `10.1.0.1/24`.
fn parse_prefix(text: &str) -> Result<(Ipv4Addr, u8), Error> {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let length = length.parse().ok().filter(|length| *length <= 32)?;
        Some((address.parse().ok()?, length))
    });
    parsed.ok_or_else(|| {
        Error::bad_request(format!(
            "{text:?} is not an IPv4 address with a prefix length such as 10.1.0.1/24"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_refused() {
        assert_eq!(parse_prefix("10.1.0.1/24").unwrap(), (Ipv4Addr::new(10, 1, 0, 1), 24));
        for wrong in ["10.1.0.1", "10.1.0.1/33", "10.1.0/24", "x/8", ""] {
            assert!(parse_prefix(wrong).is_err(), "{wrong}");
        }
    }
}

//! `network`: makes the interfaces, neighbours, routes and forwarding as they are asked for.

use std::fs;
use std::io;

use virtoll_clock::monotonic_ns;
use virtoll_proto::request::{Interface, Network};
use virtoll_proto::{Error, reply};
use virtoll_wire::MacAddress;

use crate::marks::parse_mac;
use addresses::{Addresses, parse_prefix};
use virtoll_wire::netlink::{Link, LinkEvents, Netlink};
use vlans::Vlans;

mod addresses;
mod ipv6;
mod vlans;

const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// How long interfaces may take to appear.
const APPEARANCE_NS: u64 = 5_000_000_000;
/// How long all of it may take until each has a carrier: the other end of a link may be a busy machine's.
const CARRIER_NS: u64 = 30_000_000_000;
const LOOPBACK_INDEX: u32 = 1;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for addresses that are none, `unsupported` where the kernel has no IPv6 or no VLANs that were asked for,
/// `system` for an interface that does not appear or a call that failed.
pub fn apply(wanted: &Network) -> Result<reply::Network, Error> {
    let interfaces = wanted.interfaces.iter().map(Wanted::read).collect::<Result<Vec<_>, _>>()?;
    let routes = wanted
        .routes
        .iter()
        .map(|route| Ok((parse_prefix(&route.destination)?, route.via)))
        .collect::<Result<Vec<_>, Error>>()?;
    let system = |cause: io::Error| Error::system("netlink", &cause);
    let mut netlink = Netlink::open().map_err(system)?;
    let events = LinkEvents::open().map_err(system)?;
    let asked_ns = monotonic_ns();
    let mut above = Vec::new();
    for interface in &interfaces {
        let link = interface.find(&mut netlink, &events, asked_ns + APPEARANCE_NS)?;
        above.extend(interface.apply(&mut netlink, &link)?);
    }
    for ((destination, prefix), gateway) in routes {
        netlink.set_route(destination, prefix, gateway).map_err(|cause| {
            let what = format!("route {destination}/{prefix} via {gateway}");
            match cause.raw_os_error() {
                Some(libc::EOPNOTSUPP) => {
                    Error::unsupported(format!("its kernel takes no routes ({what}: {cause})"))
                }
                _ => Error::system(what, &cause),
            }
        })?;
    }
    if let Some(on) = wanted.ip_forward {
        fs::write(IP_FORWARD, if on { "1" } else { "0" })
            .map_err(|cause| Error::system(format!("write {IP_FORWARD}"), &cause))?;
    }
    if let Some(on) = wanted.ipv6_forward {
        ipv6::require()?;
        ipv6::set_forwarding(on)?;
    }
    let links = wait_for_carrier(&interfaces, &above, &mut netlink, &events, asked_ns + CARRIER_NS)
        .map_err(system)?;
    Ok(reply::Network { interfaces: links.into_iter().map(describe_link).collect() })
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
    addresses: Addresses,
    vlans: Option<Vlans>,
}

impl<'a> Wanted<'a> {
    fn read(request: &'a Interface) -> Result<Self, Error> {
        Ok(Self {
            request,
            mac: parse_mac(&request.mac)?,
            addresses: Addresses::read(
                request.address.as_deref(),
                request.ipv6_address.as_deref(),
                &request.neighbours,
            )?,
            vlans: request.vlans.as_deref().map(Vlans::read).transpose()?,
        })
    }

    /// Whether this is the interface; a VLAN on it has the same address.
    fn is(&self, link: &Link) -> bool {
        link.mac == Some(self.mac) && link.vlan.is_none()
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
            if let Some(link) = links.into_iter().find(|link| self.is(link)) {
                return Ok(link);
            }
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return Err(system(io::Error::from_raw_os_error(libc::ENODEV)));
            }
            events.wait(left_ns).map_err(system)?;
        }
    }

    /// Sets it up; the numbers of its VLANs' interfaces.
    fn apply(&self, netlink: &mut Netlink, link: &Link) -> Result<Vec<u32>, Error> {
        let step = |what: &str| {
            let what = format!("{what} of interface {} ({})", self.mac, link.name);
            move |cause: io::Error| Error::system(&what, &cause)
        };
        let mut link = link.clone();
        if let Some(name) = self.request.name.as_ref().filter(|name| **name != link.name) {
            if link.up {
                netlink.set_up(link.index, false).map_err(step("switching off"))?;
            }
            netlink.rename(link.index, name).map_err(step("name"))?;
            link.name.clone_from(name);
        }
        if let Some(mtu) = self.request.mtu.filter(|mtu| *mtu != link.mtu) {
            netlink.set_mtu(link.index, mtu).map_err(step("mtu"))?;
        }
        if self.request.without_address {
            netlink.remove_addresses(link.index).map_err(step("taking the addresses"))?;
        }
        self.addresses.prepare(netlink, link.index, &link.name)?;
        netlink.set_up(link.index, true).map_err(step("switching on"))?;
        self.addresses.apply(netlink, link.index, &link.name)?;
        self.vlans.as_ref().map_or(Ok(Vec::new()), |vlans| vlans.apply(netlink, &link))
    }
}

/// The interfaces as they are once all, and those above them, have a carrier, or when the time is over.
fn wait_for_carrier(
    interfaces: &[Wanted<'_>],
    above: &[u32],
    netlink: &mut Netlink,
    events: &LinkEvents,
    deadline_ns: u64,
) -> io::Result<Vec<Link>> {
    loop {
        let links = netlink.links()?;
        let ours: Vec<Link> = interfaces
            .iter()
            .filter_map(|wanted| links.iter().find(|link| wanted.is(link)).cloned())
            .collect();
        let ready = |index: &u32| links.iter().any(|link| link.index == *index && link.is_ready());
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 || (ours.iter().all(Link::is_ready) && above.iter().all(ready)) {
            return Ok(ours);
        }
        events.wait(left_ns)?;
    }
}

fn describe_link(link: Link) -> reply::InterfaceState {
    reply::InterfaceState {
        name: link.name,
        mac: link.mac.map(|mac| mac.to_string()),
        mtu: link.mtu,
        operstate: link.operation_state.into(),
    }
}

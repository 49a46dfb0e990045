//! Addresses and permanent neighbours of one interface, or of one VLAN of it.

use std::net::{IpAddr, Ipv4Addr};

use virtoll_proto::Error;
use virtoll_proto::request::Neighbour;
use virtoll_wire::MacAddress;
use virtoll_wire::netlink::Netlink;

use super::ipv6;
use crate::marks::parse_mac;

/// What one interface is to have.
#[derive(Debug)]
pub struct Addresses {
    own: Vec<(IpAddr, u8)>,
    neighbours: Vec<(IpAddr, MacAddress)>,
}

impl Addresses {
    /// Reads and checks them.
    ///
    /// # Errors
    /// `bad-request` for addresses that are none or of the wrong family.
    pub fn read(
        address: Option<&str>,
        ipv6_address: Option<&str>,
        neighbours: &[Neighbour],
    ) -> Result<Self, Error> {
        let first = address.map(parse_prefix).transpose()?;
        let second = ipv6_address.map(parse_ipv6_prefix).transpose()?;
        let own = [first.map(|(address, length)| (address.into(), length)), second];
        let neighbours = neighbours
            .iter()
            .map(|neighbour| Ok((neighbour.address, parse_mac(&neighbour.mac)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { own: own.into_iter().flatten().collect(), neighbours })
    }

    /// Whether an IPv6 address is among them.
    pub fn has_ipv6(&self) -> bool {
        self.own.iter().any(|(address, _)| address.is_ipv6())
    }

    /// Sets what can only be set on an interface that is on: IPv6 addresses, and neighbours.
    ///
    /// # Errors
    /// `system` for a call that failed, `unsupported` where the kernel takes no IPv6 address.
    pub fn apply(&self, netlink: &mut Netlink, index: u32, name: &str) -> Result<(), Error> {
        self.assign(true, netlink, index, name)?;
        for (address, mac) in &self.neighbours {
            match netlink.set_neighbour(index, *address, *mac) {
                // A kernel without such a call (gVisor's) was given its IPv4 neighbours before its start.
                Err(cause) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    if address.is_ipv6() {
                        return Err(Error::unsupported(format!(
                            "its kernel takes no IPv6 neighbours ({address} of {name}: {cause}); use ip_version 4"
                        )));
                    }
                }
                Err(cause) => {
                    return Err(Error::system(format!("neighbour {address} of {name}"), &cause));
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn assign(
        &self,
        ipv6: bool,
        netlink: &mut Netlink,
        index: u32,
        name: &str,
    ) -> Result<(), Error> {
        for (address, length) in self.own.iter().filter(|(one, _)| one.is_ipv6() == ipv6) {
            netlink.set_address(index, *address, *length).map_err(|cause| {
                let what = format!("address {address}/{length} of {name}");
                match cause.raw_os_error() {
                    Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES)
                        if address.is_ipv6() =>
                    {
                        Error::unsupported(format!(
                            "its kernel takes no IPv6 address ({what}: {cause}); switch IPv6 on there, or use ip_version 4"
                        ))
                    }
                    _ => Error::system(what, &cause),
                }
            })?;
        }
        Ok(())
    }

    /// Sets the IPv4 address and prepares IPv6 before the interface is switched on: it answers from its first frame on.
    ///
    /// # Errors
    /// `unsupported` where an IPv6 address is wanted and the kernel has no IPv6, `system` for a call that failed.
    pub fn prepare(&self, netlink: &mut Netlink, index: u32, name: &str) -> Result<(), Error> {
        self.assign(false, netlink, index, name)?;
        if self.has_ipv6() {
            ipv6::require()?;
            ipv6::switch_on(name);
        } else if self.own.is_empty() {
            // Its kernel is to send nothing by itself: what a full queue drops of that would count as a source's frames.
            ipv6::switch_off(name);
        }
        Ok(())
    }
}

/// Reads `10.1.0.1/24`.
///
/// # Errors
/// `bad-request`.
pub fn parse_prefix(text: &str) -> Result<(Ipv4Addr, u8), Error> {
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

/// Reads `2001:2::1/64`.
fn parse_ipv6_prefix(text: &str) -> Result<(IpAddr, u8), Error> {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let length = length.parse().ok().filter(|length| *length <= 128)?;
        Some((IpAddr::V6(address.parse().ok()?), length))
    });
    parsed.ok_or_else(|| {
        Error::bad_request(format!(
            "{text:?} is not an IPv6 address with a prefix length such as 2001:2::1/64"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["10.0.0.1", "/", "24", "::1", "2001::", "33", "129"])) {
            let _ = (parse_prefix(&text), parse_ipv6_prefix(&text));
        }
    }

    #[test]
    fn prefixes_are_read_and_refused() {
        assert_eq!(parse_prefix("10.1.0.1/24").unwrap(), (Ipv4Addr::new(10, 1, 0, 1), 24));
        for wrong in ["10.1.0.1", "10.1.0.1/33", "10.1.0/24", "x/8", "", "2001:2::1/24"] {
            assert!(parse_prefix(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_ipv6_prefix("2001:2::1/64").unwrap(), ("2001:2::1".parse().unwrap(), 64));
        for wrong in ["2001:2::1", "2001:2::1/129", "10.1.0.1/24", "::x/8", ""] {
            assert!(parse_ipv6_prefix(wrong).is_err(), "{wrong}");
        }
    }
}

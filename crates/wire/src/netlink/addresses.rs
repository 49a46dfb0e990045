//! Addresses, neighbours and routes, of IPv4 and IPv6.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use super::{
    CREATE_OR_REPLACE, DUMP, Message, Netlink, REQUEST_AND_ACKNOWLEDGE, attributes, u32_at,
};
use crate::mac::MacAddress;

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// No duplicate address detection: the address is usable at once.
const IFA_F_NODAD: u8 = 0x02;
const SCOPE_LINK: u8 = 253;
const NUD_PERMANENT: u16 = 0x80;
// Attributes of an address.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
/// Of a route: the interface that it leads out of.
const RTA_OIF: u16 = 4;

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    }
}

impl Netlink {
    /// Makes `address` the only address of its family on an interface; link-local ones of IPv6 stay beside it.
    ///
    /// # Errors
    /// The kernel's: `EAFNOSUPPORT` or `EOPNOTSUPP` without that family, `EACCES` where IPv6 is switched off.
    pub fn set_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let (family, own) = family_and_bytes(address);
        self.remove_other_addresses(index, family, &own, prefix)?;
        let flags = if family == AF_INET6 { IFA_F_NODAD } else { 0 };
        let mut header = [family, prefix, flags, 0, 0, 0, 0, 0];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut message = Message::new(RTM_NEWADDR, CREATE_OR_REPLACE, &header)
            .attribute(IFA_LOCAL, &own)
            .attribute(IFA_ADDRESS, &own);
        if let IpAddr::V4(address) = address {
            let host_bits = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
            let broadcast = (address.to_bits() | host_bits).to_be_bytes();
            message = message.attribute(IFA_BROADCAST, &broadcast);
        }
        self.acknowledged(message)
    }

    /// Takes every IPv4 address from an interface.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_addresses(&mut self, index: u32) -> io::Result<()> {
        self.remove_other_addresses(index, AF_INET, &[], 0)
    }

    fn remove_other_addresses(
        &mut self,
        index: u32,
        family: u8,
        own: &[u8],
        prefix: u8,
    ) -> io::Result<()> {
        let query = Message::new(RTM_GETADDR, DUMP, &[family, 0, 0, 0, 0, 0, 0, 0]);
        for body in self.request(query, RTM_NEWADDR)? {
            if let Some((kind, old)) = to_take_away(&body, index, own, (family, prefix)) {
                let gone = Message::new(RTM_DELADDR, REQUEST_AND_ACKNOWLEDGE, &body[..8]);
                self.acknowledged(gone.attribute(kind, old))?;
            }
        }
        Ok(())
    }

    /// Sets a permanent neighbour entry.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_neighbour(
        &mut self,
        index: u32,
        address: IpAddr,
        mac: MacAddress,
    ) -> io::Result<()> {
        let (family, bytes) = family_and_bytes(address);
        let mut header = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        header[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
        let message = Message::new(RTM_NEWNEIGH, CREATE_OR_REPLACE, &header)
            .attribute(1, &bytes)
            .attribute(2, &mac.0);
        self.acknowledged(message)
    }

    /// Sets the route to a prefix by a gateway, out of the interface that has the gateway in its subnet.
    ///
    /// Linux finds that interface by itself; gVisor takes a route without one and never uses it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_route(
        &mut self,
        destination: Ipv4Addr,
        prefix: u8,
        gateway: Ipv4Addr,
    ) -> io::Result<()> {
        let interface = self.towards(gateway)?;
        let header = [AF_INET, prefix, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let mut message = Message::new(RTM_NEWROUTE, CREATE_OR_REPLACE, &header)
            .attribute(1, &destination.octets())
            .attribute(5, &gateway.octets());
        if let Some(index) = interface {
            message = message.attribute(RTA_OIF, &index.to_ne_bytes());
        }
        self.acknowledged(message)
    }

    /// The interface whose subnet holds an address, the smallest subnet where several do.
    fn towards(&mut self, address: Ipv4Addr) -> io::Result<Option<u32>> {
        let query = Message::new(RTM_GETADDR, DUMP, &[AF_INET, 0, 0, 0, 0, 0, 0, 0]);
        let found = self.request(query, RTM_NEWADDR)?;
        Ok(found
            .iter()
            .filter_map(|body| lies_in(body, address))
            .max_by_key(|(prefix, _)| *prefix)
            .map(|(_, index)| index))
    }
}

/// The address of an interface that is neither this one of its own nor link-local: its attribute.
pub(super) fn to_take_away<'a>(
    body: &'a [u8],
    index: u32,
    own: &[u8],
    (family, prefix): (u8, u8),
) -> Option<(u16, &'a [u8])> {
    let found =
        |wanted| attributes(body.get(8..).unwrap_or(&[])).find(move |(kind, _)| *kind == wanted);
    // IPv6 has a local address only where the other end has one of its own.
    let (kind, old) = found(IFA_LOCAL).or_else(|| found(IFA_ADDRESS))?;
    let kept = family == AF_INET6 && body.get(3) == Some(&SCOPE_LINK);
    let same = old == own && body.get(1) == Some(&prefix);
    // A kernel without this family may answer with the addresses of another.
    let ours = body.first() == Some(&family) && u32_at(body, 4) == Some(index);
    (ours && !same && !kept).then_some((kind, old))
}

/// The length of an address' subnet and its interface, where that subnet holds `address`.
pub(super) fn lies_in(body: &[u8], address: Ipv4Addr) -> Option<(u8, u32)> {
    if body.first() != Some(&AF_INET) {
        return None;
    }
    let (_, own) = attributes(body.get(8..)?).find(|(kind, _)| *kind == IFA_ADDRESS)?;
    let own = u32::from_be_bytes(own.try_into().ok()?);
    let prefix = *body.get(1)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    let inside = own & mask == address.to_bits() & mask;
    inside.then_some((prefix, u32_at(body, 4)?))
}

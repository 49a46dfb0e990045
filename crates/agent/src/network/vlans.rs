//! VLAN (802.1Q) sub-interfaces of an interface.

use std::io;

use virtoll_proto::Error;
use virtoll_proto::request::Vlan;
use virtoll_wire::netlink::{Link, Netlink};

use super::addresses::Addresses;
use super::ipv6;

/// The kernel's limit for an interface's name, in bytes.
const NAME_BYTES: usize = 15;

/// The only VLANs that an interface is to have.
#[derive(Debug)]
pub struct Vlans(Vec<(u16, Addresses)>);

impl Vlans {
    /// Reads and checks them.
    ///
    /// # Errors
    /// `bad-request` for a number out of range or twice, and for addresses that are none.
    pub fn read(wanted: &[Vlan]) -> Result<Self, Error> {
        let mut found: Vec<(u16, Addresses)> = Vec::new();
        for one in wanted {
            if !(1..=4094).contains(&one.vlan) || found.iter().any(|(other, _)| *other == one.vlan)
            {
                return Err(Error::bad_request(format!(
                    "vlan {} of an interface must be 1 to 4094, each once",
                    one.vlan
                )));
            }
            let addresses = Addresses::read(
                one.address.as_deref(),
                one.ipv6_address.as_deref(),
                &one.neighbours,
            )?;
            found.push((one.vlan, addresses));
        }
        Ok(Self(found))
    }

    /// Removes the others and makes these; the numbers of their interfaces.
    ///
    /// # Errors
    /// `unsupported` where the kernel has no VLANs, `system` for any other call that failed.
    pub fn apply(&self, netlink: &mut Netlink, below: &Link) -> Result<Vec<u32>, Error> {
        let mut there = of(netlink, below)?;
        there.retain(|(number, index)| {
            let wanted = self.0.iter().any(|(other, _)| other == number);
            wanted || netlink.delete_link(*index).is_err()
        });
        let mut indexes = Vec::new();
        for (number, addresses) in &self.0 {
            let name = name(below, *number);
            let failed = |cause: io::Error| Error::system(format!("VLAN {name}"), &cause);
            if !there.iter().any(|(other, _)| other == number) {
                netlink
                    .add_vlan(below.index, &name, *number)
                    .map_err(|cause| refused(&name, &cause))?;
                there = of(netlink, below)?;
            }
            let found = there.iter().find(|(other, _)| other == number);
            let index = found.ok_or_else(|| failed(io::Error::from_raw_os_error(libc::ENODEV)))?.1;
            if !addresses.has_ipv6() {
                ipv6::switch_off(&name);
            }
            addresses.prepare(netlink, index, &name)?;
            netlink.set_up(index, true).map_err(failed)?;
            addresses.apply(netlink, index, &name)?;
            indexes.push(index);
        }
        Ok(indexes)
    }
}

/// Number and interface of each VLAN on an interface.
fn of(netlink: &mut Netlink, below: &Link) -> Result<Vec<(u16, u32)>, Error> {
    let links = netlink.links().map_err(|cause| Error::system("netlink", &cause))?;
    let vlan = |link: Link| {
        link.vlan.filter(|(parent, _)| *parent == below.index).map(|one| (one.1, link.index))
    };
    Ok(links.into_iter().filter_map(vlan).collect())
}

fn name(below: &Link, number: u16) -> String {
    let usual = format!("{}.{number}", below.name);
    if usual.len() <= NAME_BYTES { usual } else { format!("v{}.{number}", below.index) }
}

fn refused(name: &str, cause: &io::Error) -> Error {
    match cause.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => Error::unsupported(format!(
            "its kernel has no VLANs (802.1Q; {name}: {cause}); load or build in the module 8021q, or use vlan 0"
        )),
        _ => Error::system(format!("VLAN {name}"), cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(numbers: &[u16]) -> Vec<Vlan> {
        let one = |vlan: &u16| Vlan {
            vlan: *vlan,
            address: None,
            ipv6_address: None,
            neighbours: vec![],
        };
        numbers.iter().map(one).collect()
    }

    #[test]
    fn numbers_are_checked() {
        assert!(Vlans::read(&numbered(&[1, 5, 4094])).is_ok());
        for wrong in [[0, 5], [4095, 5], [5, 5]] {
            assert!(Vlans::read(&numbered(&wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_kernel_without_vlans_is_told_from_a_call_that_failed() {
        let sentence = refused("eth0.5", &io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        assert_eq!(sentence.kind, virtoll_proto::ErrorKind::Unsupported);
        assert!(sentence.message.contains("802.1Q") && sentence.message.contains("eth0.5"));
        let sentence = refused("eth0.5", &io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(sentence.kind, virtoll_proto::ErrorKind::System);
    }
}

//! Route netlink, as much of it as setting up a guest's network and reading counters takes: messages are built and read
//! here, byte by byte.

use std::collections::HashMap;
use std::io;

use crate::mac::MacAddress;
use crate::socket::interface_index;

pub use routes::Route;
pub use socket::{LinkEvents, Netlink};
pub use statistics::{LinkStatistics, QueueDiscipline};

mod addresses;
mod routes;
mod socket;
mod statistics;
mod sys;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const REQUEST_AND_ACKNOWLEDGE: u16 = 0x5;
const DUMP: u16 = 0x301;
const CREATE_OR_REPLACE: u16 = 0x500 | REQUEST_AND_ACKNOWLEDGE;
const CREATE_ONLY: u16 = 0x600 | REQUEST_AND_ACKNOWLEDGE;
const IFF_UP: u32 = 0x1;
const IFF_LOWER_UP: u32 = 0x1_0000;
const OPERATION_STATES: [&str; 7] =
    ["unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"];
const HEADER_BYTES: usize = 16;
/// The kernel's limit for an interface's name, in bytes.
const NAME_BYTES: usize = 15;

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its link address, if it is an Ethernet one.
    pub mac: Option<MacAddress>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// `up`, `down`, `unknown` and so on.
    pub operation_state: &'static str,
    /// Where it is a VLAN sub-interface: the interface below it, and the VLAN's number.
    pub vlan: Option<(u32, u16)>,
    /// Its counters.
    pub statistics: LinkStatistics,
}

impl Link {
    /// Whether frames pass: a carrier alone is not enough, since the kernel takes its queue into use a little later.
    pub fn is_ready(&self) -> bool {
        self.carrier && matches!(self.operation_state, "up" | "unknown")
    }
}

/// A message under construction.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(header);
        Self { bytes }
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..offset + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// An interface's name as an attribute holds it.
///
/// # Errors
/// `EINVAL` for what cannot be one: the kernel would read what is behind a NUL, or beyond an attribute's length, as more
/// attributes.
fn name_value(name: &str) -> io::Result<Vec<u8>> {
    if !(1..=NAME_BYTES).contains(&name.len()) || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok([name.as_bytes(), b"\0"].concat())
}

/// The attributes of a message: kind and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn link_message(index: u32, flags: u32, change: u32) -> Message {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    Message::new(RTM_NEWLINK, REQUEST_AND_ACKNOWLEDGE, &header)
}

/// A link as a netlink message describes it. `counted` has the counters where the kernel (gVisor's) reports none by netlink.
fn read_link(body: &[u8], counted: &mut Option<HashMap<String, LinkStatistics>>) -> Option<Link> {
    let flags = u32_at(body, 8)?;
    let mut link = Link {
        index: u32_at(body, 4)?,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        operation_state: OPERATION_STATES[0],
        vlan: None,
        statistics: LinkStatistics::default(),
    };
    let mut below = 0;
    let mut has_counters = false;
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            1 => link.mac = value.try_into().ok().map(MacAddress),
            3 => String::from_utf8_lossy(value).trim_end_matches('\0').clone_into(&mut link.name),
            4 => link.mtu = u32_at(value, 0)?,
            5 => below = u32_at(value, 0)?,
            16 => {
                let state = value.first().copied().map_or(0, usize::from);
                link.operation_state = OPERATION_STATES.get(state).unwrap_or(&OPERATION_STATES[0]);
            }
            18 => link.vlan = read_vlan(value),
            23 => {
                link.statistics = LinkStatistics::read(value);
                has_counters = true;
            }
            _ => {}
        }
        link.vlan = link.vlan.map(|(_, number)| (below, number));
    }
    if !has_counters {
        let counted = counted.get_or_insert_with(statistics::from_device_table);
        link.statistics = counted.get(&link.name).copied().unwrap_or_default();
    }
    Some(link)
}

/// The VLAN's number from an interface's link information, where it is a VLAN sub-interface; what is below is not in it.
fn read_vlan(information: &[u8]) -> Option<(u32, u16)> {
    let find = |bytes, wanted| attributes(bytes).find(|(kind, _)| *kind == wanted);
    let (_, kind) = find(information, 1)?;
    if kind != b"vlan\0" {
        return None;
    }
    let (_, number) = find(find(information, 2)?.1, 1)?;
    Some((0, u16_at(number, 0)?))
}

impl Netlink {
    /// All interfaces.
    ///
    /// # Errors
    /// The kernel's.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let bodies = self.request(Message::new(RTM_GETLINK, DUMP, &[0; 16]), RTM_NEWLINK)?;
        let mut counted = None;
        Ok(bodies.iter().filter_map(|body| read_link(body, &mut counted)).collect())
    }

    /// One interface by its number.
    ///
    /// # Errors
    /// The kernel's; no such interface.
    pub fn link(&mut self, index: u32) -> io::Result<Link> {
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let message = Message::new(RTM_GETLINK, REQUEST_AND_ACKNOWLEDGE, &header);
        let bodies = self.request(message, RTM_NEWLINK)?;
        let link = bodies.first().and_then(|body| read_link(body, &mut None));
        link.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// One interface by its name.
    ///
    /// # Errors
    /// As [`Self::link`].
    pub fn link_named(&mut self, name: &str) -> io::Result<Link> {
        self.link(interface_index(name)?)
    }

    /// Makes a veth pair.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_veth(
        &mut self,
        one: (&str, MacAddress),
        other: (&str, MacAddress),
        mtu: u32,
    ) -> io::Result<()> {
        let named = |message: Message, (name, address): (&str, MacAddress)| {
            let message = message.attribute(1, &address.0).attribute(3, &name_value(name)?);
            io::Result::Ok(message.attribute(4, &mtu.to_ne_bytes()))
        };
        let peer = named(Message { bytes: vec![0; 16] }, other)?.bytes;
        let data = Message { bytes: Vec::new() }.attribute(1, &peer).bytes;
        let information =
            Message { bytes: Vec::new() }.attribute(1, b"veth\0").attribute(2, &data).bytes;
        let message = Message::new(RTM_NEWLINK, CREATE_ONLY, &[0; 16]);
        self.acknowledged(named(message, one)?.attribute(18, &information))
    }

    /// Switches an interface on or off.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_up(&mut self, index: u32, up: bool) -> io::Result<()> {
        self.acknowledged(link_message(index, if up { IFF_UP } else { 0 }, IFF_UP))
    }

    /// Renames an interface that is switched off.
    ///
    /// # Errors
    /// `EINVAL` for what is no name; the kernel's.
    pub fn rename(&mut self, index: u32, name: &str) -> io::Result<()> {
        self.acknowledged(link_message(index, 0, 0).attribute(3, &name_value(name)?))
    }

    /// Sets an interface's MTU in bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        self.acknowledged(link_message(index, 0, 0).attribute(4, &mtu.to_ne_bytes()))
    }

    /// Makes a VLAN (802.1Q) sub-interface, switched off.
    ///
    /// # Errors
    /// The kernel's: `EOPNOTSUPP` where it has no VLANs.
    pub fn add_vlan(&mut self, parent: u32, name: &str, vlan: u16) -> io::Result<()> {
        let data = Message { bytes: Vec::new() }.attribute(1, &vlan.to_ne_bytes()).bytes;
        let information =
            Message { bytes: Vec::new() }.attribute(1, b"vlan\0").attribute(2, &data).bytes;
        let message = Message::new(RTM_NEWLINK, CREATE_ONLY, &[0; 16])
            .attribute(3, &name_value(name)?)
            .attribute(5, &parent.to_ne_bytes())
            .attribute(18, &information);
        self.acknowledged(message)
    }

    /// Removes an interface.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_link(&mut self, index: u32) -> io::Result<()> {
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        self.acknowledged(Message::new(RTM_DELLINK, REQUEST_AND_ACKNOWLEDGE, &header))
    }
}

/// Bytes as the kernel's answers, each read as every kind; how many answers there were. For fuzzing and for tests, which
/// have no kernel that says something wrong.
///
/// # Panics
/// Where an answer's body is longer than what is left of the bytes.
#[cfg(any(test, fuzzing))]
pub fn read_answers(bytes: &[u8]) -> usize {
    let mut count = 0;
    for (_, _, body) in socket::answers(bytes) {
        count += 1;
        assert!(body.len() <= bytes.len() - HEADER_BYTES * count);
        let _ = read_link(body, &mut Some(HashMap::new()));
        let _ = (statistics::read_queue(body), routes::read_route(body), socket::code(body));
        let _ = addresses::lies_in(body, std::net::Ipv4Addr::LOCALHOST);
        let _ = addresses::to_take_away(body, 1, &[], (2, 24));
        statistics::read_device_table(&String::from_utf8_lossy(body));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_attributes() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
        prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..40)), 0..8)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_nothing_of_what_is_cut_off(
            messages in prop::collection::vec((any::<u16>(), any::<u32>(), any_attributes()), 0..6), cut: prop::sample::Index,
        ) {
            let (mut bytes, mut ends) = (Vec::new(), vec![0]);
            for (kind, sequence, wanted) in &messages {
                let message = Message::new(*kind, DUMP, &[7; 12]);
                let message = wanted.iter().fold(message, |message, (kind, value)| message.attribute(*kind, value));
                bytes.extend(message.finish(*sequence));
                ends.push(bytes.len());
            }
            let read: Vec<_> = socket::answers(&bytes).map(|(sequence, kind, body)| {
                let found: Vec<_> = attributes(&body[12..]).map(|(kind, value)| (kind, value.to_vec())).collect();
                (kind, sequence, found)
            }).collect();
            prop_assert_eq!(read, messages);
            let cut = cut.index(bytes.len() + 1);
            let whole = ends.iter().filter(|end| (1..=cut).contains(*end)).count();
            prop_assert_eq!(socket::answers(&bytes[..cut]).count(), whole);
        }

        #[test]
        fn no_answer_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            read_answers(&bytes);
        }

        #[test]
        fn no_body_makes_it_panic(kind in 0_u16..30, wanted in any_attributes(), header in prop::collection::vec(any::<u8>(), 0..24)) {
            let message = Message::new(kind, 0, &header);
            let message = wanted.iter().fold(message, |message, (kind, value)| message.attribute(kind % 32, value));
            prop_assert_eq!(read_answers(&message.finish(1)), 1);
        }
    }

    #[test]
    fn the_kernels_code_is_an_error_of_its_number() {
        let code = |code: i32| socket::code(&code.to_ne_bytes());
        assert!(code(0).is_ok() && socket::code(&[0]).is_err());
        assert_eq!(code(-95).unwrap_err().raw_os_error(), Some(95));
        assert!(code(i32::MIN).is_err());
    }

    #[test]
    fn a_link_is_read() {
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        header[8..12].copy_from_slice(&(IFF_UP | IFF_LOWER_UP).to_ne_bytes());
        let data = Message { bytes: Vec::new() }.attribute(1, &5_u16.to_ne_bytes()).bytes;
        let information =
            Message { bytes: Vec::new() }.attribute(1, b"vlan\0").attribute(2, &data).bytes;
        let counters: Vec<u8> = (1..=25_u64).flat_map(u64::to_ne_bytes).collect();
        let message = Message { bytes: header.to_vec() }
            .attribute(3, b"eth0\0")
            .attribute(4, &1500_u32.to_ne_bytes())
            .attribute(5, &3_u32.to_ne_bytes())
            .attribute(16, &[6])
            .attribute(18, &information)
            .attribute(23, &counters);
        let link = read_link(&message.bytes, &mut None).unwrap();
        assert_eq!(
            (link.index, link.name.as_str(), link.mtu, link.vlan),
            (7, "eth0", 1500, Some((3, 5)))
        );
        assert!(link.up && link.is_ready() && link.mac.is_none());
        assert_eq!((link.statistics.rx_packets, link.statistics.rx_otherhost_dropped), (1, 25));
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_before_the_kernel_is_asked() {
        assert_eq!(name_value("eth0").unwrap(), b"eth0\0");
        assert_eq!(name_value(&"x".repeat(15)).unwrap().len(), 16);
        for name in ["", "a\0b", &"x".repeat(16), &"x".repeat(70_000)] {
            assert_eq!(name_value(name).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    }
}

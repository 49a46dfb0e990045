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
            message
                .attribute(1, &address.0)
                .attribute(3, &[name.as_bytes(), b"\0"].concat())
                .attribute(4, &mtu.to_ne_bytes())
        };
        let peer = named(Message { bytes: vec![0; 16] }, other).bytes;
        let data = Message { bytes: Vec::new() }.attribute(1, &peer).bytes;
        let information =
            Message { bytes: Vec::new() }.attribute(1, b"veth\0").attribute(2, &data).bytes;
        let message = Message::new(RTM_NEWLINK, CREATE_ONLY, &[0; 16]);
        self.acknowledged(named(message, one).attribute(18, &information))
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
    /// The kernel's.
    pub fn rename(&mut self, index: u32, name: &str) -> io::Result<()> {
        let name = [name.as_bytes(), b"\0"].concat();
        self.acknowledged(link_message(index, 0, 0).attribute(3, &name))
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
            .attribute(3, &[name.as_bytes(), b"\0"].concat())
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

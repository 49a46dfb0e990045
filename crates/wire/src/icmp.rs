//! ICMP echo as a prepared Ethernet frame, and its parser: the marks on the timekeeper's link.

use std::net::Ipv4Addr;

use crate::checksum;
use crate::mac::MacAddress;

/// Length of a mark's frame in bytes: padded to Ethernet's minimum without FCS.
pub const ECHO_FRAME_BYTES: usize = 60;

const IPV4: usize = 14;
const ICMP: usize = 34;
const PAYLOAD_BYTES: usize = 18;
const PROTOCOL_ICMP: u8 = 1;

/// Request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoKind {
    /// Type 8.
    Request,
    /// Type 0.
    Reply,
}

/// An echo message and its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoRepr {
    /// Request or reply.
    pub kind: EchoKind,
    /// Link address of the sender.
    pub source_mac: MacAddress,
    /// Link address of the receiver.
    pub destination_mac: MacAddress,
    /// IPv4 source.
    pub source_address: Ipv4Addr,
    /// IPv4 destination.
    pub destination_address: Ipv4Addr,
    /// ICMP identifier.
    pub identifier: u16,
    /// ICMP sequence number.
    pub sequence: u16,
}

impl EchoRepr {
    /// Reads an echo message; none if the bytes are anything else, are cut short or have a wrong checksum.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..ICMP)?;
        if header[12..14] != [0x08, 0x00]
            || header[IPV4] != 0x45
            || header[IPV4 + 9] != PROTOCOL_ICMP
        {
            return None;
        }
        let fragment = u16::from_be_bytes([header[IPV4 + 6], header[IPV4 + 7]]) & 0x3fff;
        let total = usize::from(u16::from_be_bytes([header[IPV4 + 2], header[IPV4 + 3]]));
        let message = bytes.get(ICMP..IPV4 + total).filter(|message| message.len() >= 8)?;
        let kind = match message[..2] {
            [8, 0] => EchoKind::Request,
            [0, 0] => EchoKind::Reply,
            _ => return None,
        };
        let right = checksum::finish(checksum::add_bytes(0, &header[IPV4..])) == 0
            && checksum::finish(checksum::add_bytes(0, message)) == 0;
        if fragment != 0 || !right {
            return None;
        }
        let address =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        Some(Self {
            kind,
            source_mac: MacAddress(header[6..12].try_into().ok()?),
            destination_mac: MacAddress(header[..6].try_into().ok()?),
            source_address: address(IPV4 + 12),
            destination_address: address(IPV4 + 16),
            identifier: u16::from_be_bytes([message[4], message[5]]),
            sequence: u16::from_be_bytes([message[6], message[7]]),
        })
    }

    /// The frame, ready to be sent.
    pub fn emit(&self) -> [u8; ECHO_FRAME_BYTES] {
        let mut bytes = [0; ECHO_FRAME_BYTES];
        bytes[..6].copy_from_slice(&self.destination_mac.0);
        bytes[6..12].copy_from_slice(&self.source_mac.0);
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        let total = (ECHO_FRAME_BYTES - IPV4) as u16;
        bytes[IPV4] = 0x45;
        bytes[IPV4 + 2..IPV4 + 4].copy_from_slice(&total.to_be_bytes());
        bytes[IPV4 + 6] = 0x40;
        bytes[IPV4 + 8] = 64;
        bytes[IPV4 + 9] = PROTOCOL_ICMP;
        bytes[IPV4 + 12..IPV4 + 16].copy_from_slice(&self.source_address.octets());
        bytes[IPV4 + 16..ICMP].copy_from_slice(&self.destination_address.octets());
        let sum = checksum::finish(checksum::add_bytes(0, &bytes[IPV4..ICMP]));
        bytes[IPV4 + 10..IPV4 + 12].copy_from_slice(&sum.to_be_bytes());
        bytes[ICMP] = if self.kind == EchoKind::Request { 8 } else { 0 };
        bytes[ICMP + 4..ICMP + 6].copy_from_slice(&self.identifier.to_be_bytes());
        bytes[ICMP + 6..ICMP + 8].copy_from_slice(&self.sequence.to_be_bytes());
        for (offset, byte) in bytes[ICMP + 8..ICMP + 8 + PAYLOAD_BYTES].iter_mut().enumerate() {
            *byte = b'a' + offset as u8;
        }
        let sum = checksum::finish(checksum::add_bytes(0, &bytes[ICMP..]));
        bytes[ICMP + 2..ICMP + 4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

//! A test frame as a plain value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    DO_NOT_FRAGMENT, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, FrameError, Key, Layout,
    MAXIMUM_FRAME_BYTES, PROTOCOL_UDP, SOURCE_MASK, STAMPED_BYTES, Stamp, TestFrame, never_zero,
    put_u16, u16_at,
};
use crate::checksum;
use crate::mac::MacAddress;

const TIME_TO_LIVE: u8 = 64;
const LARGEST_VLAN: u16 = 4094;

/// A test frame as a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestFrameRepr {
    /// Link address of the sender.
    pub source_mac: MacAddress,
    /// Link address of the next hop.
    pub destination_mac: MacAddress,
    /// Number of the VLAN, for a tagged frame.
    pub vlan: Option<u16>,
    /// IP source.
    pub source_address: IpAddr,
    /// IP destination, of the same family.
    pub destination_address: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// The trial's number.
    pub trial: u16,
    /// The source's number, below 16.
    pub source: u8,
    /// The frame's number, from 0, below 2^32.
    pub sequence: u64,
    /// Send time, `CLOCK_MONOTONIC` nanoseconds; what was read from a frame has the lower 40 bits alone.
    pub sent_monotonic_ns: u64,
    /// Whether that time was read for this very frame.
    pub timed: bool,
    /// Bytes in the buffer: the frame size without FCS.
    pub frame_bytes: usize,
}

impl TestFrameRepr {
    /// The smallest frame of trial 3, for tests of what is around it.
    #[cfg(test)]
    pub(crate) fn smallest(sequence: u64) -> Self {
        Self {
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            vlan: None,
            source_address: Ipv4Addr::LOCALHOST.into(),
            destination_address: Ipv4Addr::LOCALHOST.into(),
            source_port: 1,
            destination_port: 2,
            trial: 3,
            source: 0,
            sequence,
            sent_monotonic_ns: 0,
            timed: true,
            frame_bytes: super::MINIMUM_FRAME_BYTES,
        }
    }

    /// Which headers it has.
    pub const fn layout(&self) -> Layout {
        Layout { tagged: self.vlan.is_some(), ipv6: self.source_address.is_ipv6() }
    }

    /// Reads a whole frame and checks everything in it but the time to live, which routers change.
    ///
    /// # Errors
    /// What is not as in a test frame of a source with this key.
    pub fn parse(bytes: &[u8], key: &Key) -> Result<Self, FrameError> {
        let frame = TestFrame::new(bytes, bytes.len())?;
        let layout = frame.layout();
        let vlan = layout.tagged.then(|| u16_at(bytes, 14) & 0x0fff);
        if vlan.is_some_and(|number| number > LARGEST_VLAN) {
            return Err(FrameError::WrongAddresses);
        }
        let link = |offset: usize| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&bytes[offset..offset + 6]);
            MacAddress(mac)
        };
        let (source_address, destination_address) = addresses(bytes, layout);
        let (source_port, destination_port) = frame.ports();
        let repr = Self {
            source_mac: link(6),
            destination_mac: link(0),
            vlan,
            source_address,
            destination_address,
            source_port,
            destination_port,
            trial: frame.trial(),
            source: frame.source(),
            sequence: frame.sequence(),
            sent_monotonic_ns: frame.sent_ns(),
            timed: frame.is_timed(),
            frame_bytes: bytes.len(),
        };
        let header = &bytes[layout.ip()..layout.udp()];
        let header_right = layout.ipv6 || checksum::finish(checksum::add_bytes(0, header)) == 0;
        let udp_right =
            checksum::finish(repr.udp_sum(bytes)) == 0 && u16_at(bytes, layout.udp() + 6) != 0;
        if !(header_right && udp_right) {
            return Err(FrameError::WrongChecksum);
        }
        if frame.is_of(key) { Ok(repr) } else { Err(FrameError::WrongTag) }
    }

    /// Writes the frame into the first [`Self::frame_bytes`] of `bytes`, tagged by this key.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the size is below the headers' or above 1514 or `bytes` is shorter,
    /// [`FrameError::WrongAddresses`] for addresses of two families or a source's number over 15.
    pub fn emit(&self, bytes: &mut [u8], key: &Key) -> Result<(), FrameError> {
        let layout = self.layout();
        if self.source > SOURCE_MASK {
            return Err(FrameError::WrongAddresses);
        }
        let sizes = layout.minimum_bytes()..=MAXIMUM_FRAME_BYTES;
        if !sizes.contains(&self.frame_bytes) || bytes.len() < self.frame_bytes {
            return Err(FrameError::Truncated);
        }
        let bytes = &mut bytes[..self.frame_bytes];
        bytes[..6].copy_from_slice(&self.destination_mac.0);
        bytes[6..12].copy_from_slice(&self.source_mac.0);
        if let Some(vlan) = self.vlan {
            if vlan > LARGEST_VLAN {
                return Err(FrameError::WrongAddresses);
            }
            put_u16(bytes, 12, ETHERTYPE_VLAN);
            put_u16(bytes, 14, vlan);
        }
        let family = if layout.ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
        put_u16(bytes, layout.ip() - 2, family);
        match (self.source_address, self.destination_address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                emit_ipv4(&mut bytes[layout.ip()..], source, destination);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                emit_ipv6(&mut bytes[layout.ip()..], source, destination);
            }
            _ => return Err(FrameError::WrongAddresses),
        }
        self.emit_udp(bytes, layout, key);
        Ok(())
    }

    fn emit_udp(&self, bytes: &mut [u8], layout: Layout, key: &Key) {
        let udp = layout.udp();
        put_u16(bytes, udp, self.source_port);
        put_u16(bytes, udp + 2, self.destination_port);
        put_u16(bytes, udp + 4, self.udp_length());
        put_u16(bytes, udp + 6, 0);
        let payload = &mut bytes[layout.payload()..];
        let Self { trial, source, timed, sequence, sent_monotonic_ns, .. } = *self;
        let stamp = Stamp { trial, source, timed, sequence, sent_monotonic_ns };
        payload[..STAMPED_BYTES].copy_from_slice(&stamp.bytes(key, self.frame_bytes - layout.ip()));
        for (offset, byte) in payload[STAMPED_BYTES..].iter_mut().enumerate() {
            *byte = offset as u8;
        }
        let sum = self.udp_sum(bytes);
        put_u16(bytes, udp + 6, never_zero(checksum::finish(sum)));
    }

    fn udp_length(&self) -> u16 {
        (self.frame_bytes - self.layout().udp()) as u16
    }

    /// The sum over the pseudo header and the datagram, in its present state.
    pub(super) fn udp_sum(&self, bytes: &[u8]) -> u64 {
        let length = u64::from(PROTOCOL_UDP) + u64::from(self.udp_length());
        let sum = match (self.source_address, self.destination_address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => checksum::add_bytes(
                checksum::add_bytes(length, &source.octets()),
                &destination.octets(),
            ),
            (source, destination) => [source, destination].iter().fold(length, |sum, address| {
                if let IpAddr::V6(address) = address {
                    checksum::add_bytes(sum, &address.octets())
                } else {
                    sum
                }
            }),
        };
        checksum::add_bytes(sum, &bytes[self.layout().udp()..])
    }
}

fn addresses(bytes: &[u8], layout: Layout) -> (IpAddr, IpAddr) {
    if layout.ipv6 {
        let address = |offset: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[layout.ip() + offset..layout.ip() + offset + 16]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        return (address(8), address(24));
    }
    let address = |offset: usize| {
        let mut octets = [0; 4];
        octets.copy_from_slice(&bytes[layout.ip() + offset..layout.ip() + offset + 4]);
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    (address(12), address(16))
}

fn emit_ipv4(ip: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr) {
    ip[0] = 0x45;
    ip[1] = 0;
    put_u16(ip, 2, ip.len() as u16);
    put_u16(ip, 4, 0);
    put_u16(ip, 6, DO_NOT_FRAGMENT);
    ip[8] = TIME_TO_LIVE;
    ip[9] = PROTOCOL_UDP;
    put_u16(ip, 10, 0);
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&destination.octets());
    let sum = checksum::add_bytes(0, &ip[..20]);
    put_u16(ip, 10, checksum::finish(sum));
}

fn emit_ipv6(ip: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    put_u16(ip, 4, (ip.len() - super::IPV6_BYTES) as u16);
    ip[6] = PROTOCOL_UDP;
    ip[7] = TIME_TO_LIVE;
    ip[8..24].copy_from_slice(&source.octets());
    ip[24..40].copy_from_slice(&destination.octets());
}

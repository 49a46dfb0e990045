//! The test frame: Ethernet II, IPv4, UDP, and 22 bytes of our own.
//!
//! [`TestFrame`] is a view over bytes that were captured (they may be cut short after the part that we read),
//! [`TestFrameRepr`] the plain value, [`Stamper`] what writes sequence number and send time into a prepared frame.
//! Sizes are Ethernet header to the end of the payload, without FCS, preamble and gap.

use std::net::Ipv4Addr;

use crate::checksum;
use crate::mac::MacAddress;

/// The smallest test frame in bytes: all headers and nothing else.
pub const MINIMUM_FRAME_BYTES: usize = 64;
/// The largest test frame in bytes.
pub const MAXIMUM_FRAME_BYTES: usize = 1518;
/// The first two bytes of the payload: "VT".
pub const MAGIC: u16 = 0x5654;

/// The link header in bytes, which an MTU does not count.
pub const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const IPV4: usize = ETHERNET_BYTES;
const UDP: usize = IPV4 + IPV4_BYTES;
const PAYLOAD: usize = UDP + UDP_BYTES;
const TRIAL: usize = PAYLOAD + 2;
const SOURCE: usize = PAYLOAD + 4;
const SEQUENCE: usize = PAYLOAD + 6;
const SENT: usize = PAYLOAD + 14;
const PATTERN: usize = PAYLOAD + 22;
const UDP_CHECKSUM: usize = UDP + 6;
const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// Why bytes are not a test frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Too short for the headers, or for the length that the headers state.
    Truncated,
    /// Not IPv4 without options, or a fragment.
    NotIpv4,
    /// Not UDP, or its length does not fit.
    NotUdp,
    /// The payload does not begin with the magic number.
    WrongMagic,
    /// The IPv4 or UDP checksum does not fit the bytes.
    WrongChecksum,
}

/// A view over the bytes of a frame, at least its first [`MINIMUM_FRAME_BYTES`].
#[derive(Clone, Copy, Debug)]
pub struct TestFrame<'a> {
    bytes: &'a [u8; MINIMUM_FRAME_BYTES],
}

impl<'a> TestFrame<'a> {
    /// Looks at the captured first bytes of a frame that was `frame_bytes` long.
    /// Checks structure and magic, not the checksums ([`TestFrameRepr::parse`] does).
    ///
    /// # Errors
    /// What is not as in a test frame.
    #[inline]
    pub fn new(captured: &'a [u8], frame_bytes: usize) -> Result<Self, FrameError> {
        let bytes = captured.first_chunk().ok_or(FrameError::Truncated)?;
        let frame = Self { bytes };
        if frame.u16_at(12) != ETHERTYPE_IPV4
            || bytes[IPV4] != 0x45
            || frame.u16_at(IPV4 + 6) & !DO_NOT_FRAGMENT != 0
        {
            return Err(FrameError::NotIpv4);
        }
        let total = usize::from(frame.u16_at(IPV4 + 2));
        let datagram = usize::from(frame.u16_at(UDP + 4));
        if bytes[IPV4 + 9] != PROTOCOL_UDP || datagram + IPV4_BYTES != total {
            return Err(FrameError::NotUdp);
        }
        if total + ETHERNET_BYTES < MINIMUM_FRAME_BYTES || total + ETHERNET_BYTES != frame_bytes {
            return Err(FrameError::Truncated);
        }
        if frame.u16_at(PAYLOAD) != MAGIC {
            return Err(FrameError::WrongMagic);
        }
        Ok(frame)
    }

    #[inline]
    fn u16_at(self, offset: usize) -> u16 {
        u16::from_be_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    #[inline]
    fn u64_at(self, offset: usize) -> u64 {
        let mut value = [0; 8];
        value.copy_from_slice(&self.bytes[offset..offset + 8]);
        u64::from_be_bytes(value)
    }

    /// UDP source and destination port.
    #[inline]
    pub fn ports(self) -> (u16, u16) {
        (self.u16_at(UDP), self.u16_at(UDP + 2))
    }

    /// The trial's number.
    #[inline]
    pub fn trial(self) -> u16 {
        self.u16_at(TRIAL)
    }

    /// The source's number.
    #[inline]
    pub fn source(self) -> u8 {
        self.bytes[SOURCE]
    }

    /// The frame's number within its source, from 0.
    #[inline]
    pub fn sequence(self) -> u64 {
        self.u64_at(SEQUENCE)
    }

    /// `CLOCK_MONOTONIC` of the sender, in nanoseconds.
    #[inline]
    pub fn sent_monotonic_ns(self) -> u64 {
        self.u64_at(SENT)
    }
}

/// A test frame as a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestFrameRepr {
    /// Link address of the sender.
    pub source_mac: MacAddress,
    /// Link address of the next hop.
    pub destination_mac: MacAddress,
    /// IPv4 source.
    pub source_address: Ipv4Addr,
    /// IPv4 destination.
    pub destination_address: Ipv4Addr,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// The trial's number.
    pub trial: u16,
    /// The source's number.
    pub source: u8,
    /// The frame's number, from 0.
    pub sequence: u64,
    /// Send time, `CLOCK_MONOTONIC` nanoseconds.
    pub sent_monotonic_ns: u64,
    /// Frame size in bytes.
    pub frame_bytes: usize,
}

impl TestFrameRepr {
    /// Reads a whole frame and checks everything in it but the time to live, which routers change.
    ///
    /// # Errors
    /// What is not as in a test frame.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = TestFrame::new(bytes, bytes.len())?;
        let address = |offset: usize| {
            Ipv4Addr::new(bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3])
        };
        let link = |offset: usize| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&bytes[offset..offset + 6]);
            MacAddress(mac)
        };
        let (source_port, destination_port) = frame.ports();
        let repr = Self {
            source_mac: link(6),
            destination_mac: link(0),
            source_address: address(IPV4 + 12),
            destination_address: address(IPV4 + 16),
            source_port,
            destination_port,
            trial: frame.trial(),
            source: frame.source(),
            sequence: frame.sequence(),
            sent_monotonic_ns: frame.sent_monotonic_ns(),
            frame_bytes: bytes.len(),
        };
        let header_right = checksum::finish(checksum::add_bytes(0, &bytes[IPV4..UDP])) == 0;
        let udp_right =
            checksum::finish(repr.udp_sum(bytes)) == 0 && frame.u16_at(UDP_CHECKSUM) != 0;
        if header_right && udp_right { Ok(repr) } else { Err(FrameError::WrongChecksum) }
    }

    /// Writes the frame into the first [`Self::frame_bytes`] of `bytes`.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the size is outside 64..=1518 or `bytes` is shorter.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), FrameError> {
        let sizes = MINIMUM_FRAME_BYTES..=MAXIMUM_FRAME_BYTES;
        if !sizes.contains(&self.frame_bytes) || bytes.len() < self.frame_bytes {
            return Err(FrameError::Truncated);
        }
        let bytes = &mut bytes[..self.frame_bytes];
        bytes[..6].copy_from_slice(&self.destination_mac.0);
        bytes[6..12].copy_from_slice(&self.source_mac.0);
        put_u16(bytes, 12, ETHERTYPE_IPV4);
        self.emit_ipv4(bytes);
        put_u16(bytes, UDP, self.source_port);
        put_u16(bytes, UDP + 2, self.destination_port);
        put_u16(bytes, UDP + 4, self.udp_length());
        put_u16(bytes, UDP_CHECKSUM, 0);
        put_u16(bytes, PAYLOAD, MAGIC);
        put_u16(bytes, TRIAL, self.trial);
        bytes[SOURCE] = self.source;
        bytes[SOURCE + 1] = 0;
        put_u64(bytes, SEQUENCE, self.sequence);
        put_u64(bytes, SENT, self.sent_monotonic_ns);
        for (offset, byte) in bytes[PATTERN..].iter_mut().enumerate() {
            *byte = offset as u8;
        }
        let sum = self.udp_sum(bytes);
        put_u16(bytes, UDP_CHECKSUM, never_zero(checksum::finish(sum)));
        Ok(())
    }

    fn emit_ipv4(&self, bytes: &mut [u8]) {
        bytes[IPV4] = 0x45;
        bytes[IPV4 + 1] = 0;
        put_u16(bytes, IPV4 + 2, (self.frame_bytes - ETHERNET_BYTES) as u16);
        put_u16(bytes, IPV4 + 4, 0);
        put_u16(bytes, IPV4 + 6, DO_NOT_FRAGMENT);
        bytes[IPV4 + 8] = TIME_TO_LIVE;
        bytes[IPV4 + 9] = PROTOCOL_UDP;
        put_u16(bytes, IPV4 + 10, 0);
        bytes[IPV4 + 12..IPV4 + 16].copy_from_slice(&self.source_address.octets());
        bytes[IPV4 + 16..IPV4 + 20].copy_from_slice(&self.destination_address.octets());
        let sum = checksum::add_bytes(0, &bytes[IPV4..UDP]);
        put_u16(bytes, IPV4 + 10, checksum::finish(sum));
    }

    fn udp_length(&self) -> u16 {
        (self.frame_bytes - UDP) as u16
    }

    fn udp_sum(&self, bytes: &[u8]) -> u64 {
        let pseudo = checksum::pseudo_header(
            self.source_address.octets(),
            self.destination_address.octets(),
            PROTOCOL_UDP,
            self.udp_length(),
        );
        checksum::add_bytes(pseudo, &bytes[UDP..])
    }
}

/// Writes sequence number, send time and checksum into a prepared frame, in a few nanoseconds and for any size.
#[derive(Clone, Copy, Debug)]
pub struct Stamper {
    sum: u64,
}

impl Stamper {
    /// The stamper for frames that `repr` was written to.
    ///
    /// # Errors
    /// As [`TestFrameRepr::emit`].
    pub fn new(repr: &TestFrameRepr) -> Result<Self, FrameError> {
        let blank = TestFrameRepr { sequence: 0, sent_monotonic_ns: 0, ..*repr };
        let mut bytes = [0; MAXIMUM_FRAME_BYTES];
        blank.emit(&mut bytes)?;
        put_u16(&mut bytes, UDP_CHECKSUM, 0);
        Ok(Self { sum: blank.udp_sum(&bytes[..blank.frame_bytes]) })
    }

    /// Stamps one frame.
    ///
    /// # Panics
    /// If `frame` is shorter than [`MINIMUM_FRAME_BYTES`].
    #[inline]
    pub fn stamp(self, frame: &mut [u8], sequence: u64, sent_monotonic_ns: u64) {
        put_u64(frame, SEQUENCE, sequence);
        put_u64(frame, SENT, sent_monotonic_ns);
        let sum = checksum::add_u64(checksum::add_u64(self.sum, sequence), sent_monotonic_ns);
        put_u16(frame, UDP_CHECKSUM, never_zero(checksum::finish(sum)));
    }
}

/// UDP writes a checksum of 0 as its other form, since 0 means "none" (RFC 768).
const fn never_zero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

#[inline]
fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline]
fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_be_bytes());
}

//! The test frame: Ethernet II, at most one VLAN tag, IPv4 or IPv6, UDP, and 18 bytes of our own.
//!
//! [`TestFrame`] is a view over bytes that were captured (they may be cut short after the part that we read),
//! [`TestFrameRepr`] the plain value, [`FrameShape`] the frames of a source, [`Composer`] what writes sequence number and send time into prepared frames.
//! A *frame size* is the field's (RFC 2544): Ethernet header to the end of the FCS, a VLAN tag included, without preamble
//! and gap. The kernel is handed [`FCS_BYTES`] less, the *frame bytes* of this crate: [`frame_bytes_of`] and
//! [`frame_size_of`] are the only places that know.

mod composer;
mod key;
mod repr;
mod shape;

pub use composer::{Composer, mix_slots};
pub(crate) use composer::{MOST_SHAPES, MOST_SLOTS};
pub(crate) use key::{Begun, Words};
pub use key::{Key, TAG_BITS};
pub use repr::TestFrameRepr;
pub use shape::FrameShape;

/// The frame check sequence, which the interface adds: no buffer holds it.
pub const FCS_BYTES: usize = 4;
/// The smallest test frame in bytes without FCS: all headers of untagged IPv4, the test frame's own, and nothing else.
pub const MINIMUM_FRAME_BYTES: usize = 60;
/// The largest test frame in bytes without FCS.
pub const MAXIMUM_FRAME_BYTES: usize = 1514;
/// The simple IMIX: frame size in bytes, with FCS, and weight.
pub const IMIX: [(usize, u32); 3] = [(64, 7), (594, 4), (1_518, 1)];
/// The upper three bits of the kind, in each test frame.
pub(crate) const MARKER: u8 = 0xa0;
pub(crate) const MARKER_MASK: u8 = 0xe0;
/// Where the kind is in the payload.
pub(crate) const KIND: usize = 2;
/// A bit of the kind: the send time is that of an earlier frame, and says nothing of this one's delay.
const FLAG_EARLIER_TIME: u8 = 0x10;
/// The source's number in the kind.
const SOURCE_MASK: u8 = 0x0f;
/// The send time's bits in a frame: 2^40 ns are 18 minutes.
const SENT_BITS: u32 = 40;
/// The send time as a frame has it.
const SENT_MASK: u64 = (1 << SENT_BITS) - 1;
/// The type of a frame that only asks whether an interface takes redirected frames; sinks do not count it.
pub(crate) const ETHERTYPE_PROBE: u16 = 0x88b5;
/// The link header in bytes, which an MTU does not count.
pub(crate) const ETHERNET_BYTES: usize = 14;

const TAG_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV4_CHECKSUM: usize = 10;
const IPV4_DESTINATION: usize = 16;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const PROTOCOL_UDP: u8 = 17;
const DO_NOT_FRAGMENT: u16 = 0x4000;
// Places in the payload.
const TRIAL: usize = 0;
const SENT: usize = 3;
const SEQUENCE: usize = 8;
const TAG: usize = 12;
const STAMPED_BYTES: usize = 18;

/// Why bytes are not a test frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Too short for the headers, or for the length that the headers state.
    Truncated,
    /// Neither IPv4 without options nor IPv6, or a fragment.
    NotIp,
    /// Not UDP, or its length does not fit.
    NotUdp,
    /// The payload has no test frame's marker.
    WrongMarker,
    /// Not of a source with this key: forged, or changed on the way.
    WrongTag,
    /// The IPv4 or UDP checksum does not fit the bytes.
    WrongChecksum,
    /// An IPv4 and an IPv6 address, a VLAN number over 4094, or a source's number over 15.
    WrongAddresses,
}

/// The bytes in the buffer of a frame of this size; none where it has no room for an FCS.
pub const fn frame_bytes_of(frame_size: usize) -> Option<usize> {
    frame_size.checked_sub(FCS_BYTES)
}

/// The frame size of so many bytes in the buffer.
pub const fn frame_size_of(frame_bytes: usize) -> usize {
    frame_bytes + FCS_BYTES
}

/// Which headers a frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// A VLAN tag.
    pub tagged: bool,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
}

impl Layout {
    /// Where the IP header begins: the length of the link header.
    pub const fn ip(self) -> usize {
        if self.tagged { ETHERNET_BYTES + TAG_BYTES } else { ETHERNET_BYTES }
    }

    /// Where the UDP header begins.
    pub const fn udp(self) -> usize {
        self.ip() + if self.ipv6 { IPV6_BYTES } else { IPV4_BYTES }
    }

    /// Where the payload begins.
    pub const fn payload(self) -> usize {
        self.udp() + UDP_BYTES
    }

    /// The simple IMIX in frame sizes, its smallest frame raised to what these headers need.
    pub fn imix(self) -> [(usize, u32); 3] {
        IMIX.map(|(size, weight)| (size.max(frame_size_of(self.minimum_bytes())), weight))
    }

    /// The smallest frame without FCS: 60, 64, 80 or 84 bytes.
    pub(crate) const fn minimum_bytes(self) -> usize {
        self.payload() + STAMPED_BYTES
    }
}

/// A view over the bytes of a frame, at least its headers and the part of the payload that we read.
#[derive(Clone, Copy, Debug)]
pub struct TestFrame<'a> {
    layout: Layout,
    bytes: &'a [u8],
}

impl<'a> TestFrame<'a> {
    /// Looks at the captured first bytes of a frame that was `frame_bytes` long.
    /// Checks structure and marker, not the checksums ([`TestFrameRepr::parse`] does) and not the tag
    /// ([`Self::is_of`] does).
    ///
    /// # Errors
    /// What is not as in a test frame.
    #[inline]
    pub fn new(captured: &'a [u8], frame_bytes: usize) -> Result<Self, FrameError> {
        if captured.len() < MINIMUM_FRAME_BYTES {
            return Err(FrameError::Truncated);
        }
        let tagged = u16_at(captured, 12) == ETHERTYPE_VLAN;
        let ipv6 = match u16_at(captured, if tagged { 16 } else { 12 }) {
            ETHERTYPE_IPV4 => false,
            ETHERTYPE_IPV6 => true,
            _ => return Err(FrameError::NotIp),
        };
        let layout = Layout { tagged, ipv6 };
        if captured.len() < layout.minimum_bytes() {
            return Err(FrameError::Truncated);
        }
        let frame = Self { layout, bytes: captured };
        let total = if ipv6 { frame.ipv6_total() } else { frame.ipv4_total() }?;
        if usize::from(u16_at(captured, layout.udp() + 4)) + layout.udp() - layout.ip() != total {
            return Err(FrameError::NotUdp);
        }
        let stated_bytes = total + layout.ip();
        if stated_bytes < layout.minimum_bytes() || stated_bytes != frame_bytes {
            return Err(FrameError::Truncated);
        }
        if captured[layout.payload() + KIND] & MARKER_MASK != MARKER {
            return Err(FrameError::WrongMarker);
        }
        Ok(frame)
    }

    /// Length of the IP packet.
    #[inline]
    fn ipv4_total(self) -> Result<usize, FrameError> {
        let ip = &self.bytes[self.layout.ip()..];
        if ip[0] != 0x45 || u16_at(ip, 6) & !DO_NOT_FRAGMENT != 0 {
            return Err(FrameError::NotIp);
        }
        if ip[9] == PROTOCOL_UDP { Ok(usize::from(u16_at(ip, 2))) } else { Err(FrameError::NotUdp) }
    }

    #[inline]
    fn ipv6_total(self) -> Result<usize, FrameError> {
        let ip = &self.bytes[self.layout.ip()..];
        if ip[0] >> 4 != 6 {
            return Err(FrameError::NotIp);
        }
        if ip[6] == PROTOCOL_UDP {
            Ok(usize::from(u16_at(ip, 4)) + IPV6_BYTES)
        } else {
            Err(FrameError::NotUdp)
        }
    }

    #[inline]
    fn payload(self) -> &'a [u8] {
        &self.bytes[self.layout.payload()..]
    }

    /// Which headers it has.
    #[inline]
    pub fn layout(self) -> Layout {
        self.layout
    }

    /// UDP source and destination port.
    #[inline]
    pub fn ports(self) -> (u16, u16) {
        (u16_at(self.bytes, self.layout.udp()), u16_at(self.bytes, self.layout.udp() + 2))
    }

    /// The trial's number.
    #[inline]
    pub fn trial(self) -> u16 {
        u16_at(self.payload(), TRIAL)
    }

    /// The source's number.
    #[inline]
    pub fn source(self) -> u8 {
        self.payload()[KIND] & SOURCE_MASK
    }

    /// Whether the send time was read for this very frame.
    #[inline]
    pub fn is_timed(self) -> bool {
        self.payload()[KIND] & FLAG_EARLIER_TIME == 0
    }

    /// The frame's number within its source, from 0.
    #[inline]
    pub fn sequence(self) -> u64 {
        u64::from(u32_at(self.payload(), SEQUENCE))
    }

    /// `CLOCK_MONOTONIC` of the sender, in nanoseconds: its lower 40 bits.
    #[inline]
    pub fn sent_ns(self) -> u64 {
        u64::from(self.payload()[SENT]) << 32 | u64::from(u32_at(self.payload(), SENT + 1))
    }

    /// Whether who has the key wrote these numbers into a packet of this length.
    #[inline]
    pub fn is_of(self, key: &Key) -> bool {
        let payload = self.payload();
        let ip = usize::from(u16_at(self.bytes, self.layout.udp() + 4)) + self.layout.udp()
            - self.layout.ip();
        key.tag(&payload[..TAG], ip) == payload[TAG..STAMPED_BYTES]
    }
}

/// From a frame's send time, as [`TestFrame::sent_ns`] has it, to `received_ns` of the same clock. 0 where the two say that
/// it came before it was sent, which is as far as stamps of two CPUs are apart.
#[inline]
pub fn delay_ns(sent_ns: u64, received_ns: u64) -> u64 {
    let delay_ns = received_ns.wrapping_sub(sent_ns) & SENT_MASK;
    if delay_ns >> (SENT_BITS - 1) == 0 { delay_ns } else { 0 }
}

#[inline]
fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes([bytes[offset], bytes[offset + 1]])
}

#[inline]
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_be_bytes(value)
}

/// UDP writes a checksum of 0 as its other form, since 0 means "none" (RFC 768).
const fn never_zero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

#[inline]
fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}

/// What a generator writes into each frame.
#[derive(Clone, Copy)]
struct Stamp {
    trial: u16,
    source: u8,
    timed: bool,
    /// The largest trial has 2^32 frames of a source.
    sequence: u64,
    sent_monotonic_ns: u64,
}

impl Stamp {
    /// The first bytes of the payload in an IP packet of that length.
    #[inline]
    fn bytes(self, key: &Key, ip_bytes: usize) -> [u8; STAMPED_BYTES] {
        let mut bytes = [0; STAMPED_BYTES];
        put_u16(&mut bytes, TRIAL, self.trial);
        bytes[KIND] = MARKER | self.source & SOURCE_MASK;
        if !self.timed {
            bytes[KIND] |= FLAG_EARLIER_TIME;
        }
        bytes[SENT..SEQUENCE].copy_from_slice(&self.sent_monotonic_ns.to_be_bytes()[3..]);
        bytes[SEQUENCE..TAG].copy_from_slice(&(self.sequence as u32).to_be_bytes());
        let tag = key.tag(&bytes[..TAG], ip_bytes);
        bytes[TAG..].copy_from_slice(&tag);
        bytes
    }
}

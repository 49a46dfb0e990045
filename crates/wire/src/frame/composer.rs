//! Writes sequence number, send time, tag, port and checksum into prepared frames of one or several sizes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::{
    FrameError, FrameShape, IPV4_BYTES, IPV4_CHECKSUM, IPV4_DESTINATION, Key, Layout,
    MAXIMUM_FRAME_BYTES, STAMPED_BYTES, Stamp, TestFrameRepr, Words, never_zero, put_u16,
};
use crate::checksum;

/// The most frame sizes of a source.
pub(crate) const MOST_SHAPES: usize = 16;
/// The longest pattern of sizes, which is the largest sum of weights.
pub(crate) const MOST_SLOTS: usize = 128;

/// A prepared frame of one size.
#[derive(Clone, Debug)]
struct Shape {
    bytes: Vec<u8>,
    /// Over all that stays: the source port and the first bytes of the payload are 0 in it, and so is the destination's
    /// address where there are several.
    sum: u64,
    /// Over the IPv4 header in the same state, its checksum 0 too; of no meaning with IPv6.
    ip_sum: u64,
}

/// The frames of one source: frame `n` has the size of slot `n` modulo the pattern's length, flow `n` modulo the number
/// of flows, and destination `n` modulo theirs, where there are several.
#[derive(Clone, Debug)]
pub struct Composer {
    layout: Layout,
    shapes: Vec<Shape>,
    shape_of_slot: Vec<u8>,
    first_port: u16,
    flows: u16,
    destinations: Arc<[Ipv4Addr]>,
    largest_bytes: usize,
    trial: u16,
    source: u8,
    key: Key,
}

impl Composer {
    /// Prepares frames of that shape.
    ///
    /// # Errors
    /// As [`TestFrameRepr::emit`]; too many sizes or slots count as [`FrameError::Truncated`], ports beyond 65535 and
    /// several destinations of IPv6 as [`FrameError::WrongAddresses`].
    pub fn new(wanted: &FrameShape) -> Result<Self, FrameError> {
        let FrameShape { sizes, flows, destinations, .. } = wanted;
        let repr = blank_destination(wanted);
        let mut known = sizes.clone();
        known.sort_unstable();
        known.dedup();
        if known.is_empty() || known.len() > MOST_SHAPES || sizes.len() > MOST_SLOTS {
            return Err(FrameError::Truncated);
        }
        if *flows == 0 || repr.source_port.checked_add(flows - 1).is_none() {
            return Err(FrameError::WrongAddresses);
        }
        let shape_of_slot = sizes
            .iter()
            .filter_map(|size| known.binary_search(size).ok())
            .map(|place| place as u8)
            .collect();
        let shapes: Vec<Shape> =
            known.iter().map(|size| Shape::new(&repr, *size)).collect::<Result<_, _>>()?;
        Ok(Self {
            layout: repr.layout(),
            shapes,
            shape_of_slot,
            first_port: repr.source_port,
            flows: *flows,
            destinations: Arc::clone(destinations),
            largest_bytes: known.last().copied().unwrap_or(MAXIMUM_FRAME_BYTES),
            trial: repr.trial,
            source: repr.source,
            key: wanted.key,
        })
    }

    /// Where the frames go in turn; none where all go to one address.
    pub fn destinations(&self) -> &[Ipv4Addr] {
        &self.destinations
    }

    /// Which headers the frames have.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Size of the largest frame.
    pub fn largest_bytes(&self) -> usize {
        self.largest_bytes
    }

    /// Source ports: the first and how many.
    pub fn ports(&self) -> (u16, u16) {
        (self.first_port, self.flows)
    }

    /// The prepared frames, each with the sums over all that stays in it: for the UDP checksum and for IPv4's.
    pub(crate) fn shapes(&self) -> impl ExactSizeIterator<Item = (&[u8], u64, u64)> {
        self.shapes.iter().map(|shape| (shape.bytes.as_slice(), shape.sum, shape.ip_sum))
    }

    /// The state of `SipHash` with the source's key in it.
    pub(crate) fn key_words(&self) -> Words {
        self.key.words()
    }

    /// The first eight bytes of the payload, with a send time of 0.
    pub(crate) fn blank_head(&self) -> [u8; 8] {
        let stamp = self.stamp(0, 0, true, 0);
        std::array::from_fn(|at| stamp[at])
    }

    #[inline]
    fn stamp(
        &self,
        sequence: u64,
        sent_monotonic_ns: u64,
        timed: bool,
        ip_bytes: usize,
    ) -> [u8; STAMPED_BYTES] {
        let Self { trial, source, .. } = *self;
        Stamp { trial, source, timed, sequence, sent_monotonic_ns }.bytes(&self.key, ip_bytes)
    }

    /// The pattern: indices into [`Self::shapes`].
    pub(crate) fn slots(&self) -> &[u8] {
        &self.shape_of_slot
    }

    #[inline]
    fn shape(&self, sequence: u64) -> &Shape {
        if self.shapes.len() == 1 {
            return &self.shapes[0];
        }
        let slot = (sequence % self.shape_of_slot.len() as u64) as usize;
        &self.shapes[usize::from(self.shape_of_slot[slot])]
    }

    /// Size of frame `sequence`.
    #[inline]
    pub fn frame_bytes(&self, sequence: u64) -> usize {
        self.shape(sequence).bytes.len()
    }

    /// Prepares a place for frames; needed once for each place, since with one size only the changing parts are
    /// written later.
    pub fn prepare(&self, place: &mut [u8]) {
        let bytes = &self.shapes[self.shapes.len() - 1].bytes;
        place[..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes frame `sequence` into a prepared place of exactly [`Self::frame_bytes`].
    ///
    /// # Panics
    /// If `frame` has another length.
    #[inline]
    pub fn compose(&self, frame: &mut [u8], sequence: u64, sent_monotonic_ns: u64, timed: bool) {
        let shape = self.shape(sequence);
        if self.shapes.len() != 1 {
            frame.copy_from_slice(&shape.bytes);
        }
        let flow = if self.flows == 1 { 0 } else { (sequence % u64::from(self.flows)) as u16 };
        let port = self.first_port + flow;
        put_u16(frame, self.layout.udp(), port);
        let payload = self.layout.payload();
        let ip_bytes = frame.len() - self.layout.ip();
        let stamp = self.stamp(sequence, sent_monotonic_ns, timed, ip_bytes);
        frame[payload..payload + STAMPED_BYTES].copy_from_slice(&stamp);
        let mut sum = checksum::add_bytes(shape.sum + u64::from(port), &stamp);
        if !self.destinations.is_empty() {
            let place = (sequence % self.destinations.len() as u64) as usize;
            let address = self.destinations[place].octets();
            let ip = self.layout.ip();
            frame[ip + IPV4_DESTINATION..ip + IPV4_BYTES].copy_from_slice(&address);
            let of_ip = checksum::finish(checksum::add_bytes(shape.ip_sum, &address));
            put_u16(frame, ip + IPV4_CHECKSUM, of_ip);
            sum = checksum::add_bytes(sum, &address);
        }
        put_u16(frame, self.layout.udp() + 6, never_zero(checksum::finish(sum)));
    }
}

/// The frame that is prepared; where there are several destinations each frame's own is written into it.
fn blank_destination(wanted: &FrameShape) -> TestFrameRepr {
    if wanted.destinations.is_empty() {
        return wanted.repr;
    }
    TestFrameRepr { destination_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ..wanted.repr }
}

impl Shape {
    fn new(repr: &TestFrameRepr, frame_bytes: usize) -> Result<Self, FrameError> {
        let blank = TestFrameRepr {
            source_port: 0,
            sequence: 0,
            sent_monotonic_ns: 0,
            timed: true,
            frame_bytes,
            ..*repr
        };
        let mut bytes = vec![0; frame_bytes.min(MAXIMUM_FRAME_BYTES)];
        blank.emit(&mut bytes, &Key::PUBLIC)?;
        put_u16(&mut bytes, blank.layout().udp() + 6, 0);
        let payload = blank.layout().payload();
        bytes[payload..payload + STAMPED_BYTES].fill(0);
        let sum = blank.udp_sum(&bytes);
        let ip = blank.layout().ip();
        let ip_sum = if blank.layout().ipv6 {
            0
        } else {
            let mut header = bytes[ip..ip + IPV4_BYTES].to_vec();
            put_u16(&mut header, IPV4_CHECKSUM, 0);
            checksum::add_bytes(0, &header)
        };
        Ok(Self { bytes, sum, ip_sum })
    }
}

/// A pattern in which each size comes as often as its weight says, spread evenly (smooth weighted round robin);
/// none if the weights' sum, divided by their common factor, is 0 or over [`MOST_SLOTS`].
pub fn mix_slots(weights: &[(usize, u32)]) -> Option<Vec<usize>> {
    let common = weights.iter().fold(0, |common, (_, weight)| greatest_common(common, *weight));
    let weight = |index: usize| i64::from(weights[index].1 / common.max(1));
    let total: i64 = (0..weights.len()).map(weight).sum();
    if total == 0 || total > MOST_SLOTS as i64 {
        return None;
    }
    let mut credit = vec![0; weights.len()];
    let slots = (0..total).map(|_| {
        for (index, credit) in credit.iter_mut().enumerate() {
            *credit += weight(index);
        }
        let richest = (0..credit.len()).rev().max_by_key(|index| credit[*index]).unwrap_or(0);
        credit[richest] -= total;
        weights[richest].0
    });
    Some(slots.collect())
}

const fn greatest_common(first: u32, second: u32) -> u32 {
    if second == 0 { first } else { greatest_common(second, first % second) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mix_has_each_size_as_often_as_its_weight(weights in prop::collection::vec(prop_oneof![0_u32..40, any::<u32>()], 0..6)) {
            let weights: Vec<(usize, u32)> = (64..).zip(weights).collect();
            let total: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
            let Some(slots) = mix_slots(&weights) else {
                prop_assert!(total == 0 || total > MOST_SLOTS as u64);
                return Ok(());
            };
            prop_assert!((1..=MOST_SLOTS).contains(&slots.len()));
            for (size, weight) in &weights {
                let times = slots.iter().filter(|one| *one == size).count() as u64;
                prop_assert_eq!(times * total, u64::from(*weight) * slots.len() as u64);
            }
        }
    }

    #[test]
    fn the_xdp_programs_begin_with_the_first_bytes_and_with_the_key_in_the_state_of_siphash() {
        let repr = TestFrameRepr { trial: 0x0102, source: 5, ..TestFrameRepr::smallest(0) };
        let key = Key::new(std::array::from_fn(|at| at as u8));
        let composer = Composer::new(&FrameShape { key, ..FrameShape::of_one(repr) }).unwrap();
        assert_eq!(composer.blank_head(), [1, 2, 0xa5, 0, 0, 0, 0, 0]);
        // Aumasson and Bernstein 2012, appendix A.
        let state = [
            0x7469_6861_7371_6475,
            0x6b61_7f6d_656e_6665,
            0x6b7f_6261_6d67_7361,
            0x7b6b_696e_727e_6c7b,
        ];
        assert_eq!(composer.key_words(), state);
    }

    #[test]
    fn a_slot_is_the_place_of_its_size_among_the_sorted_ones() {
        let shape = FrameShape {
            sizes: vec![514, 60, 60, 114],
            ..FrameShape::of_one(TestFrameRepr::smallest(0))
        };
        let composer = Composer::new(&shape).unwrap();
        assert!(composer.shapes().map(|(bytes, ..)| bytes.len()).eq([60, 114, 514]));
        assert_eq!(composer.slots(), [2, 0, 0, 1]);
    }

    #[test]
    fn the_simple_internet_mix_is_spread() {
        let slots = mix_slots(&[(64, 14), (594, 8), (1518, 2)]).unwrap();
        assert_eq!(slots.len(), 12);
        let times = |size: usize| slots.iter().filter(|one| **one == size).count();
        assert_eq!((times(64), times(594), times(1518)), (7, 4, 1));
        assert!(slots.windows(3).all(|three| three.contains(&64)), "{slots:?}");
        assert_eq!(mix_slots(&[(64, 0)]), None);
        assert_eq!(mix_slots(&[(64, 1000), (65, 999)]), None);
        assert_eq!(mix_slots(&[(64, 127), (65, 1)]).map(|slots| slots.len()), Some(128));
        assert_eq!(mix_slots(&[(64, 128), (65, 1)]), None);
    }
}

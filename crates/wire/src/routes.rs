//! A model of a full IPv4 routing table: as many prefixes as wanted, and destinations that lie in them.
//!
//! Router and generator make the same table from its size and a seed, so that nothing of it need be sent. What is
//! modelled is how many prefixes there are of each length; where they lie is uniform over the address space, which public
//! tables are not: neighbouring prefixes of one holder are missing, and more specific ones within shorter ones are as
//! frequent as chance makes them.

use std::net::Ipv4Addr;

/// The largest table: beyond it the shorter lengths run out of prefixes.
pub const MOST_ROUTES: u32 = 2_000_000;
/// The most destinations of a source.
pub const MOST_DESTINATIONS: u32 = 1 << 16;
/// Length and share in 100 000: a model, rounded, in the shape of public tables of the 2020s, most of which are /24.
const SHARES: [(u8, u64); 17] = [
    (8, 2),
    (9, 1),
    (10, 4),
    (11, 10),
    (12, 30),
    (13, 60),
    (14, 120),
    (15, 200),
    (16, 1_370),
    (17, 830),
    (18, 1_380),
    (19, 2_500),
    (20, 4_500),
    (21, 5_200),
    (22, 11_300),
    (23, 10_300),
    (24, 62_193),
];
const ALL_SHARES: u64 = 100_000;
/// Networks that no prefix may touch (RFC 6890): a router's own networks lie there, and multicast is another matter.
const APART: [(u32, u8); 9] = [
    (0x0000_0000, 8),
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xe000_0000, 3),
];

/// One prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The network's address, with zeros beyond the length.
    pub network: u32,
    /// How many bits of it count.
    pub length: u8,
}

impl Prefix {
    /// Whether it and another have an address in common.
    pub const fn overlaps(self, other: Self) -> bool {
        let length = if self.length < other.length { self.length } else { other.length };
        length == 0 || (self.network ^ other.network) >> (32 - length as u32) == 0
    }

    /// Whether a table may have a prefix in it: not, if it lies in a network that tables leave alone.
    pub fn may_be_covered(self) -> bool {
        !APART.iter().any(|(network, length)| {
            self.length >= *length && self.overlaps(Self { network: *network, length: *length })
        })
    }

    fn is_apart(self) -> bool {
        APART
            .iter()
            .any(|(network, length)| self.overlaps(Self { network: *network, length: *length }))
    }
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    routes: u32,
    seed: u64,
}

impl Table {
    /// A table of so many routes, 1 to [`MOST_ROUTES`]; none otherwise.
    pub fn new(routes: u32, seed: u64) -> Option<Self> {
        (1..=MOST_ROUTES).contains(&routes).then_some(Self { routes, seed })
    }

    /// Its prefixes, each once: by length, within a length in no order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        let (routes, seed) = (u64::from(self.routes), self.seed);
        let mut before = 0;
        SHARES.into_iter().flat_map(move |(length, share)| {
            let from = before * routes / ALL_SHARES;
            before += share;
            let count = before * routes / ALL_SHARES - from;
            let order = Order::new(length, seed);
            (0..1 << length)
                .map(move |place| Prefix { network: order.at(place) << (32 - length), length })
                .filter(|prefix| !prefix.is_apart())
                .take(count as usize)
        })
    }

    /// Addresses that lie in prefixes spread evenly over the table, in no order: at most [`MOST_DESTINATIONS`].
    pub fn destinations(&self, count: u32) -> Vec<Ipv4Addr> {
        let count = u64::from(count.min(MOST_DESTINATIONS));
        let routes = u64::from(self.routes);
        let mut chance = Chance(self.seed);
        let mut found: Vec<Ipv4Addr> = Vec::with_capacity(count as usize);
        for (number, prefix) in self.prefixes().enumerate() {
            while (found.len() as u64) < count
                && found.len() as u64 * routes / count == number as u64
            {
                let host = (chance.next() as u32) & (u32::MAX >> prefix.length);
                found.push(Ipv4Addr::from_bits(prefix.network | host));
            }
        }
        for place in (1..found.len()).rev() {
            found.swap(place, (chance.next() % (place as u64 + 1)) as usize);
        }
        found
    }
}

/// The numbers below 2^bits, each once, as if shuffled: multiplying by an odd number and folding the upper half into the
/// lower one can each be undone, so no two places have the same number.
#[derive(Clone, Copy)]
struct Order {
    bits: u8,
    keys: [u32; 4],
}

impl Order {
    fn new(bits: u8, seed: u64) -> Self {
        let mut chance = Chance(seed ^ u64::from(bits) << 56);
        Self { bits, keys: [0; 4].map(|_: u32| chance.next() as u32) }
    }

    fn at(&self, place: u32) -> u32 {
        let mask = (1 << self.bits) - 1;
        self.keys.iter().fold(place, |number, key| {
            let number = number.wrapping_mul(key | 1).wrapping_add(key >> 8) & mask;
            number ^ number >> self.bits.div_ceil(2)
        })
    }
}

/// `SplitMix64` (Steele, Lea and Flood 2014): the same numbers for a seed, here and in every later version.
struct Chance(u64);

impl Chance {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all(routes: u32, seed: u64) -> Vec<Prefix> {
        Table::new(routes, seed).unwrap().prefixes().collect()
    }

    #[test]
    fn a_table_has_its_size_and_every_prefix_once_and_none_where_it_must_not() {
        let sizes = [1, 7, 1_000, 100_000, MOST_ROUTES];
        for routes in sizes.into_iter().take(if cfg!(miri) { 3 } else { sizes.len() }) {
            let prefixes = all(routes, 11);
            assert_eq!(prefixes.len(), routes as usize);
            assert_eq!(prefixes.iter().collect::<HashSet<_>>().len(), prefixes.len());
            for prefix in prefixes {
                assert_eq!(prefix.network & (u32::MAX >> prefix.length), 0, "{prefix:?}");
                assert!(!prefix.is_apart(), "{prefix:?}");
            }
        }
        assert!(Table::new(0, 1).is_none() && Table::new(MOST_ROUTES + 1, 1).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow: a table of a hundred thousand routes")]
    fn most_prefixes_are_of_24_bits_and_lie_everywhere() {
        let prefixes = all(100_000, 3);
        let of = |length| prefixes.iter().filter(|prefix| prefix.length == length).count();
        assert_eq!((of(24), of(16), of(8)), (62_193, 1_370, 2));
        let quarters: HashSet<u32> =
            prefixes.iter().filter(|one| one.length == 24).map(|one| one.network >> 24).collect();
        // 224 first bytes are unicast; three of them are apart as a whole.
        assert_eq!(quarters.len(), 221);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow: a table of a million routes")]
    fn a_seed_makes_the_table() {
        assert_eq!(all(5_000, 1), all(5_000, 1));
        let common: HashSet<_> = all(5_000, 1).into_iter().collect();
        let same = all(5_000, 2).iter().filter(|prefix| common.contains(prefix)).count();
        assert!(same < 50, "{same}");
        // Written down: agents of two builds must agree.
        let first = all(1_000_000, 1)[999_999];
        assert_eq!(first.length, 24);
        assert_eq!(
            Table::new(1_000, 1).unwrap().destinations(3),
            Table::new(1_000, 1).unwrap().destinations(3)
        );
    }

    #[test]
    fn destinations_lie_in_prefixes_spread_over_the_table() {
        let sizes = [(1, 64), (1_000, 64), (1_000, 5_000), (100_000, 65_536)];
        for (routes, count) in sizes.into_iter().take(if cfg!(miri) { 2 } else { sizes.len() }) {
            let table = Table::new(routes, 5).unwrap();
            let known: HashSet<Prefix> = table.prefixes().collect();
            let destinations = table.destinations(count);
            assert_eq!(destinations.len(), count as usize);
            let mut met = HashSet::new();
            for destination in destinations {
                let covering: Vec<Prefix> = (8..=24)
                    .map(|length| Prefix {
                        network: destination.to_bits() & !(u32::MAX >> length),
                        length,
                    })
                    .filter(|prefix| known.contains(prefix))
                    .collect();
                assert!(!covering.is_empty(), "{destination}");
                met.extend(covering);
            }
            assert!(
                met.len() >= routes.min(count) as usize * 9 / 10,
                "{routes} {count}: {}",
                met.len()
            );
        }
    }

    #[test]
    fn what_a_router_has_of_its_own_is_covered_or_not() {
        let prefix =
            |network: [u8; 4], length| Prefix { network: u32::from_be_bytes(network), length };
        for (own, covered) in [
            (prefix([0, 0, 0, 0], 0), true),
            (prefix([10, 64, 3, 0], 24), false),
            (prefix([192, 168, 0, 0], 15), true),
            (prefix([8, 8, 8, 0], 24), true),
        ] {
            assert_eq!(own.may_be_covered(), covered, "{own:?}");
        }
    }
}

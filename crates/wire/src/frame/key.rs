//! The secret of a source in a trial, and the tag by which its sink knows its frames.

use std::fmt;

use siphasher::sip::SipHasher13;

use super::TAG;

/// The tag's length. Who has no key writes a right one with a chance of 2^-48 a frame.
pub const TAG_BITS: u32 = 48;
const TAG_BYTES: usize = TAG_BITS as usize / 8;
/// What the tag is of: the payload before it, the length of the IP packet, and a byte that fills two words.
const MESSAGE_BYTES: usize = TAG + 3;
/// `SipHash`'s constants (Aumasson and Bernstein 2012, 2.1).
const INITIAL: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

/// The state of `SipHash` with a key in it, as the XDP programs want it.
pub(crate) type Words = [u64; 4];
/// The programs' own: the same with the first 8 bytes of a payload, and before it those bytes.
pub(crate) type Begun = [u64; 5];

/// A source's secret in a trial: 128 bits that it and the sink have and nothing between them. It is never printed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// The key that everybody knows. Frames with it are told from others, and anybody can write them.
    pub const PUBLIC: Self = Self([0; 16]);

    /// That secret.
    pub const fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// The tag: SipHash-1-3 of the payload's first 12 bytes, the length of the IP packet (u16, big-endian) and a 0, of
    /// whose 8 bytes it is the first 6.
    ///
    /// # Panics
    /// If `stamp` has another length.
    #[inline]
    pub(super) fn tag(&self, stamp: &[u8], ip_bytes: usize) -> [u8; TAG_BYTES] {
        let mut message = [0; MESSAGE_BYTES];
        message[..TAG].copy_from_slice(stamp);
        message[TAG..TAG + 2].copy_from_slice(&(ip_bytes as u16).to_be_bytes());
        let hash = SipHasher13::new_with_key(&self.0).hash(&message).to_le_bytes();
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hash[..TAG_BYTES]);
        tag
    }

    /// The state that `SipHash` begins with.
    pub(crate) fn words(&self) -> Words {
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.0[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let keys = [half(0), half(8), half(0), half(8)];
        std::array::from_fn(|word| keys[word] ^ INITIAL[word])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

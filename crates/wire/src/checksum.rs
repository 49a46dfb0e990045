//! The Internet checksum (RFC 1071): a ones' complement sum of 16-bit big-endian words.

/// Adds `bytes` to a running sum; an odd last byte counts as the high half of a word.
#[must_use]
pub fn add_bytes(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    for word in words {
        sum += u64::from(u16::from_be_bytes(*word));
    }
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    sum
}

/// Folds a running sum to 16 bits and complements it: the value for a header's checksum field.
#[inline]
#[must_use]
pub const fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = add_bytes(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(finish(sum), !0xddf2);
    }
}

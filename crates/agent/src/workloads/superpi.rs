//! Pi by the Gauss-Legendre iteration (Brent 1976, Salamin 1976): integer arithmetic, some memory, no system calls.
//!
//! All quantities are integers scaled by 2^bits. With a = 1, b = 1/sqrt 2, t = 1/4, p = 1 each round takes
//! a' = (a + b) / 2, b' = sqrt(a b), t' = t - p (a - a')^2, p' = 2 p and doubles the right digits;
//! pi = (a + b)^2 / (4 t).

use malachite_base::num::arithmetic::traits::{FloorSqrt, Pow, Square};
use malachite_base::num::logic::traits::SignificantBits;
use malachite_nz::natural::Natural;
use sha2::{Digest, Sha256};
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::SuperPi;
use virtoll_proto::{Error, ErrorKind};

use super::{Done, Outcome, Workload};

/// Bits beyond the digits: each round loses a few units, doubled by p in each of at most 32 rounds.
const GUARD_BITS: u64 = 128;
/// Half a gigabyte of memory at this size.
const MOST_DIGITS: u64 = 1 << 28;

struct Pi {
    digits: u64,
    iterations: u32,
    text: String,
}

/// Checks the range.
///
/// # Errors
/// `bad-request` for no digits, `limit` for too many.
pub fn checked(wanted: SuperPi) -> Result<SuperPi, Error> {
    match wanted.digits {
        0 => Err(Error::bad_request("superpi: digits must be at least 1")),
        1..=MOST_DIGITS => Ok(wanted),
        _ => Err(Error::new(
            ErrorKind::Limit,
            format!("superpi: digits must be at most {MOST_DIGITS}"),
        )),
    }
}

impl Workload for SuperPi {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let bits = self.digits * 3_322 / 1_000 + self.digits / 1_000 + GUARD_BITS;
        let (pi, iterations) = gauss_legendre(bits);
        let text = decimals(&pi, bits, self.digits);
        Ok(Box::new(Pi { digits: self.digits, iterations, text }))
    }
}

impl Done for Pi {
    fn value(&self) -> Option<String> {
        Some(format!("{:x}", Sha256::digest(self.text.as_bytes())))
    }

    fn check(self: Box<Self>) -> Outcome {
        Outcome {
            result: Figures::SuperPi(figures::SuperPi {
                iterations: self.iterations,
                digits: self.digits,
            }),
            check: format!("{:x}", Sha256::digest(self.text.as_bytes())),
        }
    }
}

/// Pi times 2^bits, short of it by a few units, and the number of rounds.
fn gauss_legendre(bits: u64) -> (Natural, u32) {
    let one = Natural::from(1_u32) << bits;
    let mut a = one.clone();
    let mut b = (one << (bits - 1)).floor_sqrt();
    let mut t = Natural::from(1_u32) << (bits - 2);
    let mut rounds = 0;
    loop {
        let difference = &a - &b;
        let product = &a * &b;
        a = (a + b) >> 1_u64;
        b = product.floor_sqrt();
        // (a - a')^2 is a quarter of the squared difference, and p is 2^rounds.
        t -= (&difference).square() >> (bits + 2 - u64::from(rounds));
        rounds += 1;
        if difference.significant_bits() < bits / 2 {
            return ((a + b).square() / (t << 2_u64), rounds);
        }
    }
}

/// "3." and the first decimals, cut off and not rounded.
fn decimals(pi: &Natural, bits: u64, digits: u64) -> String {
    let scaled = (pi * Natural::from(5_u32).pow(digits)) >> (bits - digits);
    let mut text = scaled.to_string();
    text.insert(1, '.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with the Chudnovsky series in Python's `decimal`: another formula, another base, another program.
    /// Sizes that are multiplied by FFT are tried in Python's tests, on the optimised agent.
    const KNOWN: [(u64, &str); 4] = [
        (1, "35efc6ded4e13f29a8d86e4f33294be0f59fcaaf3a56b538f9e34e60e3ae4f44"),
        (30, "27f6ef06c05a66675cc7f80fca76488b57496bfa62c362128194da38905f2a76"),
        (1_000, "823a2e34f63c5d5f30a27733976df5a1ab57feaab505f40d95d3dd3fefa425cc"),
        (16_384, "53c47cd7dcac44fc2e2890489843fa13fcab2bf425df2573b9bd5cf308a3c695"),
    ];

    #[test]
    fn the_digits_are_those_of_another_method() {
        // An interpreter takes minutes for the larger ones.
        for (digits, hash) in KNOWN.into_iter().take(if cfg!(miri) { 2 } else { KNOWN.len() }) {
            let outcome = SuperPi { digits }.run().unwrap().check();
            assert_eq!(outcome.check, hash, "{digits} digits");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(checked(SuperPi { digits: 0 }).is_err());
        assert!(checked(SuperPi { digits: MOST_DIGITS + 1 }).is_err());
    }
}

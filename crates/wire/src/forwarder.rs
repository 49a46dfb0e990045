//! A router of test frames that does known harm to them: what `virtoll selftest` has inside a guest.
//!
//! It takes the untagged IPv4 test frames that arrive at one interface and sends them on from another, with new link
//! addresses. Which of them it drops, duplicates or swaps is a matter of counting, so that what it did is known exactly.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use virtoll_clock::monotonic_ns;

use crate::frame::MAXIMUM_FRAME_BYTES;
use crate::mac::MacAddress;
use crate::socket::{PacketSocket, interface_index};
use crate::sys::wait_readable;

mod sys;

/// How long it waits for a frame before it looks whether it shall end.
const LOOK_NS: u64 = 20_000_000;
/// How long a frame that shall be overtaken waits for another one. The last of a stream goes on then, before sinks take it
/// for lost (500 ms); a sender that is off its CPU for less does not change the count.
const OVERTAKEN_WITHIN_NS: u64 = 400_000_000;
/// A tagged frame of the largest size.
const LARGEST_BYTES: usize = MAXIMUM_FRAME_BYTES + 4;

/// The harm, of the frames that it takes, counted from 1: every Nth of a kind, 0 for none. One frame suffers one harm: it
/// is dropped before it would be duplicated, and duplicated before it would be swapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impairment {
    /// Is not sent on.
    pub drop_every: u64,
    /// Is sent twice.
    pub duplicate_every: u64,
    /// Is sent after the next one that goes on: one reordered frame (RFC 4737) each.
    pub swap_every: u64,
    /// Each frame goes on so long after it was read.
    pub delay_ns: u64,
}

/// What became of the frames: `sent + refused = taken - dropped + duplicated`. The kernel had no room for those that were
/// `missed`, and did not take those `refused`. `swapped` were overtaken by the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the frames' fates, by name
pub struct Account {
    pub taken: u64,
    pub dropped: u64,
    pub duplicated: u64,
    pub swapped: u64,
    pub sent: u64,
    pub refused: u64,
    pub missed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Drop,
    Duplicate,
    Swap,
    Pass,
}

impl Impairment {
    /// What happens to the frame with this number.
    fn fate(&self, number: u64) -> Fate {
        let falls = |every: u64| every > 0 && number.is_multiple_of(every);
        match () {
            () if falls(self.drop_every) => Fate::Drop,
            () if falls(self.duplicate_every) => Fate::Duplicate,
            () if falls(self.swap_every) => Fate::Swap,
            () => Fate::Pass,
        }
    }
}

/// The router.
pub struct Forwarder {
    receiver: OwnedFd,
    sender: PacketSocket,
    link_addresses: [u8; 12],
    impairment: Impairment,
    account: Account,
    /// It waits for the next one, and since when.
    held: Option<(u64, Vec<u8>)>,
    /// Delayed: when it goes on, in order.
    waiting: VecDeque<(u64, Vec<u8>)>,
}

impl Forwarder {
    /// Opens both interfaces; frames that arrive from here on are taken.
    ///
    /// # Errors
    /// No such interface, or no right to open packet sockets (`CAP_NET_RAW`).
    pub fn open(
        (from, to): (&str, &str),
        (source, destination): (MacAddress, MacAddress),
        impairment: Impairment,
    ) -> io::Result<Self> {
        let mut link_addresses = [0; 12];
        link_addresses[..6].copy_from_slice(&destination.0);
        link_addresses[6..].copy_from_slice(&source.0);
        Ok(Self {
            receiver: sys::open(interface_index(from)?)?,
            sender: PacketSocket::for_sending(to)?,
            link_addresses,
            impairment,
            account: Account::default(),
            held: None,
            waiting: VecDeque::new(),
        })
    }

    /// Forwards until `end` is set; then all that it has still goes on.
    ///
    /// # Errors
    /// A socket's, such as an interface that is gone.
    pub fn run(mut self, end: &AtomicBool) -> io::Result<Account> {
        let mut buffer = [0; LARGEST_BYTES];
        loop {
            let ending = end.load(Ordering::Acquire);
            if wait_readable(&[self.receiver.as_fd()], if ending { 0 } else { self.patience_ns() })?
            {
                while let Some(bytes) = next_frame(&self.receiver, &mut buffer)? {
                    self.take(&buffer[..bytes])?;
                    self.send_due(monotonic_ns())?;
                }
            }
            let now_ns = monotonic_ns();
            let alone = |since_ns: u64| ending || now_ns - since_ns > OVERTAKEN_WITHIN_NS;
            if let Some((_, held)) = self.held.take_if(|(since_ns, _)| alone(*since_ns)) {
                self.pass(held)?;
            }
            self.send_due(now_ns)?;
            if ending {
                break;
            }
        }
        self.send_due(u64::MAX)?;
        self.account.missed = sys::missed_frames(self.receiver.as_fd())?;
        Ok(self.account)
    }

    /// Until the next delayed frame is due, or it is time to look for the end.
    fn patience_ns(&self) -> u64 {
        let due = self.waiting.front().map_or(u64::MAX, |(due_ns, _)| *due_ns);
        due.saturating_sub(monotonic_ns()).min(LOOK_NS)
    }

    fn take(&mut self, frame: &[u8]) -> io::Result<()> {
        self.account.taken += 1;
        let fate = self.impairment.fate(self.account.taken);
        if fate == Fate::Drop {
            self.account.dropped += 1;
            return Ok(());
        }
        let mut frame = frame.to_vec();
        frame[..12].copy_from_slice(&self.link_addresses);
        if fate == Fate::Swap && self.held.is_none() {
            self.held = Some((monotonic_ns(), frame));
            return Ok(());
        }
        if fate == Fate::Duplicate {
            self.account.duplicated += 1;
            self.pass(frame.clone())?;
        }
        self.pass(frame)?;
        match self.held.take() {
            Some((_, held)) => {
                self.account.swapped += 1;
                self.pass(held)
            }
            None => Ok(()),
        }
    }

    fn pass(&mut self, frame: Vec<u8>) -> io::Result<()> {
        if self.impairment.delay_ns == 0 {
            return self.send(&frame);
        }
        self.waiting.push_back((monotonic_ns() + self.impairment.delay_ns, frame));
        Ok(())
    }

    fn send_due(&mut self, now_ns: u64) -> io::Result<()> {
        while self.waiting.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
            if let Some((_, frame)) = self.waiting.pop_front() {
                self.send(&frame)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match self.sender.send(frame) {
            Ok(()) => self.account.sent += 1,
            Err(full) if full.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                self.account.refused += 1;
            }
            Err(other) => return Err(other),
        }
        Ok(())
    }
}

/// The next frame that has arrived; none where there is none.
fn next_frame(receiver: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match recv(receiver, buffer, RecvFlags::DONTWAIT) {
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_suffers_one_harm_by_its_number() {
        let harm = Impairment { drop_every: 4, duplicate_every: 2, swap_every: 3, delay_ns: 0 };
        let fates: Vec<Fate> = (1..=6).map(|number| harm.fate(number)).collect();
        let expected =
            [Fate::Pass, Fate::Duplicate, Fate::Swap, Fate::Drop, Fate::Pass, Fate::Duplicate];
        assert_eq!(fates, expected);
        assert!((1..100).all(|number| Impairment::default().fate(number) == Fate::Pass));
    }
}

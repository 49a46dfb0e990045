//! Bandwidth between two processes: one sends chunk after chunk, the other receives and sums each (lmbench's `bw_pipe`,
//! `bw_unix`, `bw_tcp` over the loopback interface, and `bw_mmap_rd` for a mapping that both have; `McVoy` and Staelin
//! 1996).
//!
//! Both processes are there, have touched their memory and have carried some chunks before the start mark. The agent
//! receives, as in lmbench, so that the end mark leaves when the last byte has come. The processes are not pinned: with
//! several CPUs the scheduler decides whether both share one.
//!
//! Several workers are pairs of processes of their own that move as much at once, as lmbench's `-P` has it.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::{IpcBandwidth, IpcChannel};
use virtoll_proto::{Error, ErrorKind};

use super::stream::copy;
use super::sys::{Memory, available_bytes, close_inherited, end, fork, pipe, read_all, write_all};
use super::{Done, MOST_WORKERS, Outcome, Workload};

/// Every word of a chunk but the first, which is the chunk's number: one that is lost, or comes twice, shows in the sum.
const PATTERN: u64 = 0x5654_6970_6362_7754;
const WORD_BYTES: u64 = 8;
/// One that the sender fills and one that the receiver reads.
const SHARED_CHUNKS: usize = 2;
/// How many chunks the sender, the receiver and their mapping hold together.
const CHUNKS_HELD: u64 = 2 + SHARED_CHUNKS as u64;
/// Carried before the start mark, so that all of the mapping was used.
const FIRST_CHUNKS: u64 = SHARED_CHUNKS as u64;

/// Starts the sender, and has some chunks carried.
///
/// # Errors
/// `bad-request` for sizes that do not fit, `limit` for more memory than there is, `unsupported` where the loopback
/// interface is missing, `system` for what cannot be made.
pub fn ready(wanted: IpcBandwidth) -> Result<Ready, Error> {
    let IpcBandwidth { size_bytes, chunk_bytes, workers, .. } = wanted;
    if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(WORD_BYTES) {
        let sentence = "ipc-bandwidth: chunk_bytes must be a multiple of 8, and not 0";
        return Err(Error::bad_request(sentence));
    }
    if size_bytes == 0 || !size_bytes.is_multiple_of(chunk_bytes) {
        let sentence = "ipc-bandwidth: size_bytes must be a multiple of chunk_bytes, and not 0";
        return Err(Error::bad_request(sentence));
    }
    if !(1..=MOST_WORKERS).contains(&workers) {
        let sentence = format!("ipc-bandwidth: workers must be 1 to {MOST_WORKERS}");
        return Err(Error::bad_request(sentence));
    }
    let needed = chunk_bytes.saturating_mul(CHUNKS_HELD).saturating_mul(workers);
    if let Some(available) = available_bytes().filter(|available| needed > *available) {
        let sentence = format!("ipc-bandwidth: {needed} bytes wanted, {available} available");
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let others = (1..workers).map(|_| Worker::start(&wanted)).collect::<Result<Vec<_>, _>>()?;
    let mut receiver = Receiver::start(&wanted)?;
    receiver.receive(FIRST_CHUNKS).map_err(|cause| broken(&cause))?;
    Ok(Ready { wanted, receiver: RefCell::new(receiver), others })
}

/// Senders that wait, at each repeat.
pub struct Ready {
    wanted: IpcBandwidth,
    receiver: RefCell<Receiver>,
    others: Vec<Worker>,
}

impl Workload for Ready {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let IpcBandwidth { size_bytes, chunk_bytes, .. } = self.wanted;
        let chunks = size_bytes / chunk_bytes;
        self.others.iter().for_each(|other| other.begin(chunks));
        let own = self.receiver.borrow_mut().receive(chunks).map_err(|cause| broken(&cause))?;
        let mut all = own;
        for other in &self.others {
            let Received { bytes, sum } = other.received().map_err(|cause| broken(&cause))?;
            all = Received { bytes: all.bytes + bytes, sum: all.sum.wrapping_add(sum) };
        }
        let figures = figures::IpcBandwidth { chunk_bytes, received_bytes: all.bytes };
        Ok(Box::new(Summed { figures, sum: all.sum }))
    }
}

fn broken(cause: &io::Error) -> Error {
    Error::system("ipc-bandwidth: receive from the other process", cause)
}

struct Summed {
    figures: figures::IpcBandwidth,
    sum: u64,
}

impl Done for Summed {
    fn value(&self) -> Option<String> {
        Some(self.sum.to_string())
    }

    fn check(self: Box<Self>) -> Outcome {
        Outcome { result: Figures::IpcBandwidth(self.figures), check: self.sum.to_string() }
    }
}

/// Both ends of what is sent through, all in one process: the receiver's first.
enum Ends {
    Stream(OwnedFd, OwnedFd),
    /// By a byte in the first pipe a chunk of the mapping is full, by one in the second it is free again.
    Shared(Memory, (OwnedFd, OwnedFd), (OwnedFd, OwnedFd)),
}

impl Ends {
    fn make(channel: IpcChannel, chunk_bytes: usize) -> Result<Self, Error> {
        let made = match channel {
            IpcChannel::Pipe => pipe().map(|(from, to)| Self::Stream(from, to)),
            IpcChannel::UnixStream => {
                UnixStream::pair().map(|(from, to)| Self::Stream(from.into(), to.into()))
            }
            IpcChannel::TcpLoopback => {
                let (from, to) = connection().map_err(|cause| no_loopback(&cause))?;
                Ok(Self::Stream(from.into(), to.into()))
            }
            IpcChannel::SharedMemory => Memory::shared(SHARED_CHUNKS * chunk_bytes)
                .and_then(|mapping| Ok(Self::Shared(mapping, pipe()?, pipe()?))),
        };
        made.map_err(|cause| Error::system(format!("ipc-bandwidth: make {channel:?}"), &cause))
    }
}

/// Two ends of a connection over the loopback interface. Nobody listens any more when it is there.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    let (from, who) = listener.accept()?;
    if who == to.local_addr()? {
        Ok((from, to))
    } else {
        Err(io::Error::other("another program connected to its port"))
    }
}

fn no_loopback(cause: &io::Error) -> Error {
    let what = "tcp-loopback: a connection to 127.0.0.1";
    match cause.raw_os_error() {
        Some(libc::EADDRNOTAVAIL | libc::ENETUNREACH | libc::ENETDOWN | libc::EAFNOSUPPORT) => {
            Error::unsupported(format!(
                "{what} ({cause}): this guest's loopback interface is not up; switch it on, or leave this channel out"
            ))
        }
        _ => Error::system(what, cause),
    }
}

/// Another pair. Its receiver is a child too, and receives as many chunks as it is told to.
struct Worker {
    receiver: libc::pid_t,
    sender: Option<libc::pid_t>,
    orders: OwnedFd,
    answers: OwnedFd,
}

impl Worker {
    /// All is made and forked here, so that the receiver takes no memory from the heap. It has carried some chunks.
    fn start(wanted: &IpcBandwidth) -> Result<Self, Error> {
        let mut pair = Receiver::start(wanted)?;
        let worker = Self::with(&mut pair)
            .map_err(|cause| Error::system("ipc-bandwidth: start the receiver", &cause))?;
        worker.begin(FIRST_CHUNKS);
        worker.received().map_err(|cause| broken(&cause))?;
        // What the two go through is theirs alone when it is closed here.
        Ok(worker)
    }

    fn with(pair: &mut Receiver) -> io::Result<Self> {
        let (input, orders) = pipe()?;
        let (answers, output) = pipe()?;
        let receiver = fork(|| {
            close_inherited(orders.as_raw_fd());
            close_inherited(answers.as_raw_fd());
            let mut chunks = [0; size_of::<u64>()];
            while read_all(input.as_raw_fd(), &mut chunks) {
                let Ok(received) = pair.receive(u64::from_ne_bytes(chunks)) else { return 1 };
                if !write_all(output.as_raw_fd(), &received.to_bytes()) {
                    return 1;
                }
            }
            0
        })?;
        Ok(Self { receiver, sender: pair.sender.take(), orders, answers })
    }

    #[inline]
    fn begin(&self, chunks: u64) {
        write_all(self.orders.as_raw_fd(), &chunks.to_ne_bytes());
    }

    /// What it has, once all has come; an error where it has ended.
    fn received(&self) -> io::Result<Received> {
        let mut bytes = [0; Received::BYTES];
        if read_all(self.answers.as_raw_fd(), &mut bytes) {
            Ok(Received::from_bytes(bytes))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(self.receiver);
        self.sender.take().into_iter().for_each(end);
    }
}

/// This process, with a child that sends as many chunks as it is asked for.
struct Receiver {
    sender: Option<libc::pid_t>,
    asked: File,
    from: From,
}

/// Where a chunk is when it has come.
enum From {
    Stream { from: File, block: Memory },
    Shared { mapping: Memory, filled: File, freed: File },
}

impl Receiver {
    fn start(wanted: &IpcBandwidth) -> Result<Self, Error> {
        let chunk_bytes = wanted.chunk_bytes as usize;
        let ends = Ends::make(wanted.channel, chunk_bytes)?;
        Self::with(ends, chunk_bytes)
            .map_err(|cause| Error::system("ipc-bandwidth: start the sender", &cause))
    }

    fn with(ends: Ends, chunk_bytes: usize) -> io::Result<Self> {
        let (requests, asked) = pipe()?;
        let (requests, asked) = (File::from(requests), File::from(asked));
        match ends {
            Ends::Stream(from, to) => {
                let mut block = Memory::allocate(chunk_bytes)?;
                let (from, mut to) = (File::from(from), File::from(to));
                let unwanted = [asked.as_raw_fd(), from.as_raw_fd()];
                let sender = fork(|| {
                    unwanted.into_iter().for_each(close_inherited);
                    send(&requests, chunk_bytes, |_, chunk| to.write_all(chunk.bytes()))
                })?;
                // Not before the fork: the sender would have its pages too, until they are written again.
                touch(&mut block);
                Ok(Self { sender: Some(sender), asked, from: From::Stream { from, block } })
            }
            Ends::Shared(mut mapping, (filled, fill), (free, freed)) => {
                touch(&mut mapping);
                let (filled, mut fill) = (File::from(filled), File::from(fill));
                let (mut free, mut freed) = (File::from(free), File::from(freed));
                freed.write_all(&[0; SHARED_CHUNKS])?;
                let unwanted = [asked.as_raw_fd(), filled.as_raw_fd(), freed.as_raw_fd()];
                let sender = fork(|| {
                    unwanted.into_iter().for_each(close_inherited);
                    send(&requests, chunk_bytes, |number, chunk| {
                        free.read_exact(&mut [0])?;
                        copy(part(&mut mapping, number), chunk.words());
                        fill.write_all(&[0])
                    })
                })?;
                let from = From::Shared { mapping, filled, freed };
                Ok(Self { sender: Some(sender), asked, from })
            }
        }
    }

    /// Asks for so many chunks and sums them; an error where the sender has ended.
    fn receive(&mut self, chunks: u64) -> io::Result<Received> {
        self.asked.write_all(&chunks.to_ne_bytes())?;
        let mut received = Received { bytes: 0, sum: 0 };
        for number in 0..chunks {
            match &mut self.from {
                From::Stream { from, block } => {
                    from.read_exact(block.bytes())?;
                    received.add(block.words());
                }
                From::Shared { mapping, filled, freed } => {
                    filled.read_exact(&mut [0])?;
                    received.add(part(mapping, number));
                    freed.write_all(&[0])?;
                }
            }
        }
        Ok(received)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.sender.take().into_iter().for_each(end);
    }
}

struct Received {
    bytes: u64,
    sum: u64,
}

impl Received {
    const BYTES: usize = 2 * size_of::<u64>();

    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (first, second) = bytes.split_at_mut(size_of::<u64>());
        first.copy_from_slice(&self.bytes.to_ne_bytes());
        second.copy_from_slice(&self.sum.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|place| bytes[at + place]));
        Self { bytes: word(0), sum: word(size_of::<u64>()) }
    }

    fn add(&mut self, words: &[u64]) {
        let words = std::hint::black_box(words);
        self.bytes += size_of_val(words) as u64;
        self.sum = words.iter().fold(self.sum, |sum, word| sum.wrapping_add(*word));
    }
}

/// A child's life: sends as many chunks as it is asked for, until nobody asks any more.
fn send(
    mut requests: &File,
    chunk_bytes: usize,
    mut hand_over: impl FnMut(u64, &mut Memory) -> io::Result<()>,
) -> i32 {
    let Ok(mut chunk) = Memory::allocate(chunk_bytes) else { return 1 };
    touch(&mut chunk);
    let mut count = [0; size_of::<u64>()];
    while requests.read_exact(&mut count).is_ok() {
        for number in 0..u64::from_ne_bytes(count) {
            if let Some(first) = chunk.words().first_mut() {
                *first = number;
            }
            if hand_over(number, &mut chunk).is_err() {
                return 1;
            }
        }
    }
    0
}

/// The part of the mapping that a chunk is handed over in.
fn part(mapping: &mut Memory, number: u64) -> &mut [u64] {
    let words = mapping.words();
    let length = words.len() / SHARED_CHUNKS;
    let begin = number as usize % SHARED_CHUNKS * length;
    &mut words[begin..begin + length]
}

/// Has every page be there, as pages of its own: one that was only read would be the kernel's common page of zeros.
fn touch(memory: &mut Memory) {
    memory.words().fill(std::hint::black_box(PATTERN));
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: [IpcChannel; 4] = [
        IpcChannel::Pipe,
        IpcChannel::UnixStream,
        IpcChannel::TcpLoopback,
        IpcChannel::SharedMemory,
    ];

    fn job(channel: IpcChannel, size_bytes: u64, chunk_bytes: u64) -> IpcBandwidth {
        IpcBandwidth { channel, size_bytes, chunk_bytes, workers: 1 }
    }

    /// What is received when every word of every chunk has come once.
    fn expected(size_bytes: u64, chunk_bytes: u64) -> u64 {
        let chunks = size_bytes / chunk_bytes;
        let words = (size_bytes / WORD_BYTES).wrapping_sub(chunks);
        words.wrapping_mul(PATTERN).wrapping_add(chunks * (chunks - 1) / 2)
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2), sockets and shared memory")]
    fn every_word_of_every_chunk_comes_once_each_time() {
        // One word a chunk; an odd number of chunks; one chunk that fills no page; one larger than what a pipe holds.
        for (size, chunk) in [(80, 8), (3 * 65_536, 65_536), (4008, 4008), (2 << 20, 1 << 20)] {
            for channel in CHANNELS {
                let ready = ready(job(channel, size, chunk)).unwrap();
                for _ in 0..3 {
                    let outcome = ready.run().unwrap().check();
                    assert_eq!(outcome.check, expected(size, chunk).to_string(), "{channel:?}");
                    let Figures::IpcBandwidth(reported) = outcome.result else {
                        panic!("not of ipc-bandwidth")
                    };
                    assert_eq!((reported.chunk_bytes, reported.received_bytes), (chunk, size));
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2), sockets and shared memory")]
    fn a_sender_that_has_ended_is_told() {
        for channel in CHANNELS {
            let ready = ready(job(channel, 1 << 20, 4096)).unwrap();
            end(ready.receiver.borrow_mut().sender.take().unwrap());
            let error = ready.run().err().unwrap();
            assert!(error.message.contains("receive from the other process"), "{}", error.message);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2), sockets and shared memory")]
    fn every_pair_moves_all_of_it() {
        for channel in CHANNELS {
            let ready =
                ready(IpcBandwidth { workers: 3, ..job(channel, 12 * 4096, 4096) }).unwrap();
            for _ in 0..3 {
                let outcome = ready.run().unwrap().check();
                let one = expected(12 * 4096, 4096);
                assert_eq!(outcome.check, one.wrapping_mul(3).to_string(), "{channel:?}");
                let Figures::IpcBandwidth(reported) = outcome.result else {
                    panic!("not of ipc-bandwidth")
                };
                assert_eq!(reported.received_bytes, 3 * 12 * 4096);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2), sockets and shared memory")]
    fn a_pair_of_which_one_has_ended_is_told() {
        let of_each: [fn(&Worker) -> Option<libc::pid_t>; 2] =
            [|worker| Some(worker.receiver), |worker| worker.sender];
        for of in of_each {
            for channel in CHANNELS {
                let wanted = IpcBandwidth { workers: 2, ..job(channel, 1 << 20, 4096) };
                let ready = ready(wanted).unwrap();
                let pid = of(&ready.others[0]).unwrap();
                // The owner ends it once more, and waits for it: here it must only be gone.
                std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
                let error = ready.run().err().unwrap();
                assert!(error.message.contains("receive from the other"), "{}", error.message);
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for (size, chunk, kind) in [
            (0, 8, ErrorKind::BadRequest),
            (8, 0, ErrorKind::BadRequest),
            (12, 12, ErrorKind::BadRequest),
            (4096, 8192, ErrorKind::BadRequest),
            (10_000, 4096, ErrorKind::BadRequest),
            (1 << 50, 1 << 50, ErrorKind::Limit),
        ] {
            let error = ready(job(IpcChannel::Pipe, size, chunk)).err().unwrap();
            assert_eq!(error.kind, kind, "{}", error.message);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2), sockets and shared memory")]
    fn nobody_listens_once_the_connection_is_there() {
        let (from, _to) = connection().unwrap();
        let refused = TcpStream::connect(from.local_addr().unwrap()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2), sockets and shared memory")]
    fn a_missing_loopback_interface_is_no_failure() {
        let refused = no_loopback(&io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        assert_eq!(refused.kind, ErrorKind::Unsupported);
        assert!(refused.message.contains("loopback interface is not up"), "{}", refused.message);
        let other = no_loopback(&io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(other.kind, ErrorKind::System);
    }
}

//! What two agents do with each other over TCP: bytes one way, or requests and answers, by one connection or several.
//!
//! Both ends are given the same [`Exchange`], so that they cannot disagree about it. The one that opened a connection
//! says when it begins, by its first bytes: its start mark has left then. They also say which connection it is, and so
//! which part of the whole it carries. Nothing is set on the sockets: buffers, Nagle's algorithm and congestion control
//! are the kernel's own, as in netperf's tests of these names.
//!
//! The data are verifiable: each message of a stream begins with its number, and each answer is that of its request.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::reply::TcpInformation;
use virtoll_proto::request::{Exchange, Side};
use virtoll_wire::Histogram;

pub use open::Opened;
pub use serve::Served;
pub use together::Outcome;

mod open;
mod serve;
mod sys;
mod together;

const GO: u8 = 0x56;
const GREETING_BYTES: usize = 1 + size_of::<u32>();
const NUMBER_BYTES: usize = 8;
/// The messages of a connection are numbered from here on, times its own number: those of another are wrong ones.
const APART: u32 = 48;
const FILLING: u8 = 0x54;
/// The most that one message, request or answer may be.
const MOST_BYTES: u32 = 16 << 20;
const MOST_CONNECTIONS: u32 = 256;

/// What one end did by one connection.
#[derive(Debug, Default)]
struct Carried {
    number: u32,
    /// Its part: bytes, or transactions.
    amount: u64,
    /// So much of it the end that receives says it has, and so many messages, or answers, were not the right ones.
    received: u64,
    wrong: u64,
    /// Of a stream.
    messages: u64,
    start_ns: u64,
    /// At the end that sends a stream.
    handed_over_ns: u64,
    end_ns: u64,
    /// At the end that asks.
    times: Option<Histogram>,
    tcp: Option<TcpInformation>,
}

/// Checks the sizes.
///
/// # Errors
/// `bad-request` for nothing, or for more than fits.
pub fn check(exchange: &Exchange) -> Result<(), Error> {
    let sizes = match exchange {
        Exchange::Stream { message_bytes, .. } => [*message_bytes; 2],
        Exchange::RequestResponse { request_bytes, response_bytes, .. } => {
            [*request_bytes, *response_bytes]
        }
    };
    let connections = exchange.connections();
    if !(1..=MOST_CONNECTIONS).contains(&connections) {
        return Err(Error::bad_request(format!(
            "connections of an exchange must be 1 to {MOST_CONNECTIONS}"
        )));
    }
    let fits = sizes.iter().all(|size| (1..=MOST_BYTES).contains(size));
    if !fits || exchange.amount() < u64::from(connections) {
        return Err(Error::bad_request(format!(
            "an exchange must be of at least 1 by each connection, and its messages of 1 to {MOST_BYTES} bytes"
        )));
    }
    Ok(())
}

/// The opener's end of the connection of that number, first word included.
fn ask_of(exchange: &Exchange, number: u32, mut stream: &TcpStream) -> io::Result<Carried> {
    let mut greeting = [GO; GREETING_BYTES];
    greeting[1..].copy_from_slice(&number.to_be_bytes());
    stream.write_all(&greeting)?;
    carry_out(exchange, Side::Opener, number, stream)
}

/// The listener's end of a connection, once the other one has said which it is.
fn answer_to(exchange: &Exchange, mut stream: &TcpStream) -> io::Result<Carried> {
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting)?;
    let [go, number @ ..] = greeting;
    let number = u32::from_be_bytes(number);
    if go != GO || number >= exchange.connections() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not the agent"));
    }
    carry_out(exchange, Side::Listener, number, stream)
}

/// One connection's part of the whole: as equal as can be, the first ones have one more.
fn part(exchange: &Exchange, number: u32) -> u64 {
    let (amount, connections) = (exchange.amount(), u64::from(exchange.connections()));
    amount / connections + u64::from(u64::from(number) < amount % connections)
}

fn carry_out(
    exchange: &Exchange,
    end: Side,
    number: u32,
    stream: &TcpStream,
) -> io::Result<Carried> {
    let amount = part(exchange, number);
    let carried = match *exchange {
        Exchange::Stream { active, message_bytes, .. } => {
            let first = u64::from(number) << APART;
            let work = if active == end { send } else { receive };
            work(stream, amount, message_bytes as usize, first)
        }
        Exchange::RequestResponse { active, request_bytes, response_bytes, .. } => {
            let work = if active == end { ask } else { answer };
            work(stream, amount, (request_bytes as usize, response_bytes as usize), number as u8)
        }
    }?;
    Ok(Carried { number, amount, tcp: sys::tcp_information(stream), ..carried })
}

/// Sends all bytes, then waits for what the other end says it has. Messages are numbered from `first` on.
fn send(
    mut stream: &TcpStream,
    bytes: u64,
    message_bytes: usize,
    first: u64,
) -> io::Result<Carried> {
    let mut message = vec![FILLING; message_bytes];
    let start_ns = monotonic_ns();
    let (mut left, mut messages) = (bytes, 0_u64);
    while left > 0 {
        let length = left.min(message_bytes as u64) as usize;
        mark(&mut message[..length], first + messages);
        stream.write_all(&message[..length])?;
        left -= length as u64;
        messages += 1;
    }
    let handed_over_ns = monotonic_ns();
    let mut reported = [0; 2 * NUMBER_BYTES];
    stream.read_exact(&mut reported)?;
    let end_ns = monotonic_ns();
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|place| reported[at + place]));
    let (received, wrong) = (word(0), word(NUMBER_BYTES));
    Ok(Carried {
        received,
        wrong,
        messages,
        start_ns,
        handed_over_ns,
        end_ns,
        ..Carried::default()
    })
}

/// Receives all bytes, looks at the number in each message, and says how many they were.
fn receive(
    mut stream: &TcpStream,
    bytes: u64,
    message_bytes: usize,
    first: u64,
) -> io::Result<Carried> {
    let mut message = vec![0; message_bytes];
    let start_ns = monotonic_ns();
    let (mut left, mut messages, mut wrong) = (bytes, 0_u64, 0_u64);
    while left > 0 {
        let length = left.min(message_bytes as u64) as usize;
        stream.read_exact(&mut message[..length])?;
        wrong += u64::from(!is_marked(&message[..length], first + messages));
        left -= length as u64;
        messages += 1;
    }
    let reported = [bytes.to_be_bytes(), wrong.to_be_bytes()].concat();
    stream.write_all(&reported)?;
    let end_ns = monotonic_ns();
    Ok(Carried { received: bytes, wrong, messages, start_ns, end_ns, ..Carried::default() })
}

/// Asks and awaits each answer; a transaction's time is from one answer to the next. Requests are numbered from `first`
/// on.
fn ask(
    mut stream: &TcpStream,
    transactions: u64,
    sizes: (usize, usize),
    first: u8,
) -> io::Result<Carried> {
    let (mut request, mut response) = (vec![FILLING; sizes.0], vec![0; sizes.1]);
    let mut times = Histogram::default();
    let start_ns = monotonic_ns();
    let (mut end_ns, mut wrong) = (start_ns, 0_u64);
    for transaction in 0..transactions {
        let number = first.wrapping_add(transaction as u8);
        request[0] = number;
        stream.write_all(&request)?;
        stream.read_exact(&mut response)?;
        wrong += u64::from(response[0] != !number);
        let now_ns = monotonic_ns();
        times.record(now_ns - end_ns);
        end_ns = now_ns;
    }
    let (received, times) = (transactions, Some(times));
    Ok(Carried { received, wrong, start_ns, end_ns, times, ..Carried::default() })
}

/// Answers each request; the answer's first byte is the complement of the request's.
fn answer(
    mut stream: &TcpStream,
    transactions: u64,
    sizes: (usize, usize),
    first: u8,
) -> io::Result<Carried> {
    let (mut request, mut response) = (vec![0; sizes.0], vec![FILLING; sizes.1]);
    let start_ns = monotonic_ns();
    let mut wrong = 0_u64;
    for transaction in 0..transactions {
        stream.read_exact(&mut request)?;
        wrong += u64::from(request[0] != first.wrapping_add(transaction as u8));
        response[0] = !request[0];
        stream.write_all(&response)?;
    }
    let (received, end_ns) = (transactions, monotonic_ns());
    Ok(Carried { received, wrong, start_ns, end_ns, ..Carried::default() })
}

/// A message too short for its number is not verified.
fn mark(message: &mut [u8], number: u64) {
    if let Some(place) = message.first_chunk_mut::<NUMBER_BYTES>() {
        *place = number.to_be_bytes();
    }
}

fn is_marked(message: &[u8], number: u64) -> bool {
    message.first_chunk::<NUMBER_BYTES>().is_none_or(|found| *found == number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn stream(active: Side, bytes: u64, message_bytes: u32, connections: u32) -> Exchange {
        Exchange::Stream { active, bytes, message_bytes, connections }
    }

    /// Both ends of the connection of that number, opener's first.
    fn both(exchange: &Exchange, number: u32) -> (Carried, Carried) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let opener = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let theirs = exchange.clone();
        let thread = std::thread::spawn(move || answer_to(&theirs, &other).unwrap());
        let ours = ask_of(exchange, number, &opener).unwrap();
        (ours, thread.join().unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "TCP_INFO")]
    fn every_byte_arrives_in_either_direction() {
        for active in [Side::Opener, Side::Listener] {
            for (bytes, message_bytes) in [(1, 1), (1_000_003, 16_384), (70_000, 9), (16, 8)] {
                let (ours, theirs) = both(&stream(active, bytes, message_bytes, 1), 0);
                for carried in [ours, theirs] {
                    assert_eq!(carried.messages, bytes.div_ceil(u64::from(message_bytes)));
                    assert_eq!((carried.received, carried.wrong), (bytes, 0));
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "TCP_INFO")]
    fn a_connection_carries_its_part() {
        let (ours, theirs) = both(&stream(Side::Opener, 1_000_003, 16_384, 4), 3);
        for carried in [ours, theirs] {
            assert_eq!((carried.number, carried.amount, carried.received), (3, 250_000, 250_000));
            assert_eq!(carried.wrong, 0);
        }
        for (amount, connections) in [(10, 4), (4, 4), (1_000_003, 7)] {
            let exchange = stream(Side::Opener, amount, 16_384, connections);
            let parts: Vec<u64> = (0..connections).map(|number| part(&exchange, number)).collect();
            assert_eq!(parts.iter().sum::<u64>(), amount);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "TCP_INFO")]
    fn every_answer_is_that_of_its_request() {
        for active in [Side::Opener, Side::Listener] {
            let exchange = Exchange::RequestResponse {
                active,
                transactions: 600,
                request_bytes: 1,
                response_bytes: 5,
                connections: 2,
            };
            let (ours, theirs) = both(&exchange, 1);
            for carried in [&ours, &theirs] {
                assert_eq!((carried.received, carried.wrong), (300, 0));
            }
            let asker = if active == Side::Opener { ours } else { theirs };
            let times = asker.times.unwrap();
            assert_eq!(times.distribution().unwrap().count, 300);
        }
    }

    /// What the listener makes of what the opener says, if it ends after that.
    fn said(exchange: &Exchange, said: &[u8]) -> io::Result<Carried> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut opener = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        opener.write_all(said).unwrap();
        opener.shutdown(std::net::Shutdown::Write).unwrap();
        answer_to(exchange, &other)
    }

    #[test]
    #[cfg_attr(miri, ignore = "TCP_INFO")]
    fn a_message_that_is_not_the_next_one_is_counted() {
        let exchange = stream(Side::Opener, 32, 16, 1);
        let message = |number: u64| [number.to_be_bytes(), [0; 8]].concat();
        let wrong = [&b"V\0\0\0\0"[..], &message(1), &message(1)].concat();
        let carried = said(&exchange, &wrong).unwrap();
        assert_eq!((carried.received, carried.wrong), (32, 1));
        // The right numbers of another connection are wrong ones.
        let exchange = stream(Side::Opener, 64, 16, 2);
        let first = 1 << APART;
        for (numbers, wrong) in [([first, first + 1], 0), ([0, 1], 2)] {
            let sent = [&b"V\0\0\0\x01"[..], &message(numbers[0]), &message(numbers[1])].concat();
            assert_eq!(said(&exchange, &sent).unwrap().wrong, wrong);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_connection_that_is_closed_or_somebody_elses_is_an_error() {
        for bytes in [&b""[..], b"GET / HTTP/1.1", b"V\0\0\0\0short", b"V\0\0\0\x02"] {
            let outcome = said(&stream(Side::Opener, 32, 16, 2), bytes);
            assert!(outcome.is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(check(&stream(Side::Opener, 1, 1, 1)).is_ok());
        assert!(check(&stream(Side::Opener, 256, 1, 256)).is_ok());
        for (bytes, message_bytes, connections) in [
            (0, 1, 1),
            (1, 0, 1),
            (1, MOST_BYTES + 1, 1),
            (1, 1, 0),
            (1, 1, 2),
            (1000, 1, MOST_CONNECTIONS + 1),
        ] {
            assert!(check(&stream(Side::Opener, bytes, message_bytes, connections)).is_err());
        }
    }
}

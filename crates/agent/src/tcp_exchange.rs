//! What two agents do with each other over a TCP connection: bytes one way, or requests and answers.
//!
//! Both ends are given the same [`Exchange`], so that they cannot disagree about it. The one that opened the connection
//! says when it begins, by one byte: its start mark has left then. Nothing is set on the sockets: buffers, Nagle's
//! algorithm and congestion control are the kernel's own, as in netperf's tests of these names.
//!
//! The data are verifiable: each message of a stream begins with its number, and each answer is that of its request.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::reply::figures::{Answered, Asked, ExchangeFigures, StreamReceived, StreamSent};
use virtoll_proto::request::{Exchange, Side};
use virtoll_wire::Histogram;

use crate::traffic::answer::distribution;
pub use serve::{Served, open};
pub use sys::tcp_information;

mod serve;
mod sys;

const GO: u8 = 0x56;
const NUMBER_BYTES: usize = 8;
const FILLING: u8 = 0x54;
/// The most that one message, request or answer may be.
const MOST_BYTES: u32 = 16 << 20;

/// What one end has to say of an exchange.
#[derive(Debug)]
pub struct Carried {
    /// Its figures.
    pub result: ExchangeFigures,
    /// What was received by the end that receives: bytes or transactions, decimal, if all were right.
    pub check: String,
}

/// Checks the sizes.
///
/// # Errors
/// `bad-request` for nothing, or for more than fits.
pub fn check(exchange: &Exchange) -> Result<(), Error> {
    let (sizes, amount) = match exchange {
        Exchange::Stream { bytes, message_bytes, .. } => ([*message_bytes; 2], *bytes),
        Exchange::RequestResponse { transactions, request_bytes, response_bytes, .. } => {
            ([*request_bytes, *response_bytes], *transactions)
        }
    };
    if amount == 0 || sizes.iter().any(|size| !(1..=MOST_BYTES).contains(size)) {
        return Err(Error::bad_request(format!(
            "an exchange must be of at least 1, and its messages of 1 to {MOST_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Does this end's part.
///
/// # Errors
/// The connection's: it was closed, or nothing came for as long as its timeout says.
pub fn carry_out(exchange: &Exchange, end: Side, stream: &TcpStream) -> io::Result<Carried> {
    let mut connection = stream;
    match end {
        Side::Opener => connection.write_all(&[GO])?,
        Side::Listener => {
            let mut go = [0];
            connection.read_exact(&mut go)?;
            if go != [GO] {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not the agent"));
            }
        }
    }
    match *exchange {
        Exchange::Stream { active, bytes, message_bytes } if active == end => {
            send(stream, bytes, message_bytes as usize)
        }
        Exchange::Stream { bytes, message_bytes, .. } => {
            receive(stream, bytes, message_bytes as usize)
        }
        Exchange::RequestResponse { active, transactions, request_bytes, response_bytes } => {
            let sizes = (request_bytes as usize, response_bytes as usize);
            if active == end {
                ask(stream, transactions, sizes)
            } else {
                answer(stream, transactions, sizes)
            }
        }
    }
}

/// Sends all bytes, then waits for what the other end says it has.
fn send(mut stream: &TcpStream, bytes: u64, message_bytes: usize) -> io::Result<Carried> {
    let mut message = vec![FILLING; message_bytes];
    let start_ns = monotonic_ns();
    let (mut left, mut number) = (bytes, 0_u64);
    while left > 0 {
        let length = left.min(message_bytes as u64) as usize;
        mark(&mut message[..length], number);
        stream.write_all(&message[..length])?;
        left -= length as u64;
        number += 1;
    }
    let handed_over_ns = monotonic_ns();
    let mut reported = [0; 2 * NUMBER_BYTES];
    stream.read_exact(&mut reported)?;
    let end_ns = monotonic_ns();
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|place| reported[at + place]));
    Ok(Carried {
        result: ExchangeFigures::Sent(StreamSent {
            bytes,
            messages: number,
            start_monotonic_ns: start_ns,
            handed_over_monotonic_ns: handed_over_ns,
            end_monotonic_ns: end_ns,
        }),
        check: right(word(0), word(NUMBER_BYTES)),
    })
}

/// Receives all bytes, looks at the number in each message, and says how many they were.
fn receive(mut stream: &TcpStream, bytes: u64, message_bytes: usize) -> io::Result<Carried> {
    let mut message = vec![0; message_bytes];
    let start_ns = monotonic_ns();
    let (mut left, mut number, mut wrong) = (bytes, 0_u64, 0_u64);
    while left > 0 {
        let length = left.min(message_bytes as u64) as usize;
        stream.read_exact(&mut message[..length])?;
        wrong += u64::from(!is_marked(&message[..length], number));
        left -= length as u64;
        number += 1;
    }
    let reported = [bytes.to_be_bytes(), wrong.to_be_bytes()].concat();
    stream.write_all(&reported)?;
    Ok(Carried {
        result: ExchangeFigures::Received(StreamReceived {
            bytes,
            messages: number,
            start_monotonic_ns: start_ns,
            end_monotonic_ns: monotonic_ns(),
        }),
        check: right(bytes, wrong),
    })
}

/// Asks and awaits each answer; a transaction's time is from one answer to the next.
fn ask(mut stream: &TcpStream, transactions: u64, sizes: (usize, usize)) -> io::Result<Carried> {
    let (mut request, mut response) = (vec![FILLING; sizes.0], vec![0; sizes.1]);
    let mut times = Histogram::default();
    let start_ns = monotonic_ns();
    let (mut before_ns, mut wrong) = (start_ns, 0_u64);
    for number in 0..transactions {
        request[0] = number as u8;
        stream.write_all(&request)?;
        stream.read_exact(&mut response)?;
        wrong += u64::from(response[0] != !(number as u8));
        let now_ns = monotonic_ns();
        times.record(now_ns - before_ns);
        before_ns = now_ns;
    }
    let reported = times.distribution();
    Ok(Carried {
        result: ExchangeFigures::Asked(Asked {
            transactions,
            start_monotonic_ns: start_ns,
            end_monotonic_ns: before_ns,
            transaction_ns: reported.map(|reported| distribution(&reported, Some(times.buckets()))),
        }),
        check: right(transactions, wrong),
    })
}

/// Answers each request; the answer's first byte is the complement of the request's.
fn answer(mut stream: &TcpStream, transactions: u64, sizes: (usize, usize)) -> io::Result<Carried> {
    let (mut request, mut response) = (vec![0; sizes.0], vec![FILLING; sizes.1]);
    let start_ns = monotonic_ns();
    let mut wrong = 0_u64;
    for number in 0..transactions {
        stream.read_exact(&mut request)?;
        wrong += u64::from(request[0] != number as u8);
        response[0] = !request[0];
        stream.write_all(&response)?;
    }
    Ok(Carried {
        result: ExchangeFigures::Answered(Answered {
            transactions,
            start_monotonic_ns: start_ns,
            end_monotonic_ns: monotonic_ns(),
        }),
        check: right(transactions, wrong),
    })
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

fn right(amount: u64, wrong: u64) -> String {
    if wrong == 0 { amount.to_string() } else { format!("{wrong} wrong of {amount}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Both ends' say, opener's first.
    fn both(exchange: &Exchange) -> (Carried, Carried) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let opener = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let theirs = exchange.clone();
        let thread =
            std::thread::spawn(move || carry_out(&theirs, Side::Listener, &other).unwrap());
        let ours = carry_out(exchange, Side::Opener, &opener).unwrap();
        (ours, thread.join().unwrap())
    }

    fn sent_or_received(carried: &Carried) -> u64 {
        match carried.result {
            ExchangeFigures::Sent(StreamSent { messages, .. })
            | ExchangeFigures::Received(StreamReceived { messages, .. }) => messages,
            _ => panic!("{carried:?} is not of a stream"),
        }
    }

    #[test]
    fn every_byte_arrives_in_either_direction() {
        for active in [Side::Opener, Side::Listener] {
            for (bytes, message_bytes) in [(1, 1), (1_000_003, 16_384), (70_000, 9), (16, 8)] {
                let (ours, theirs) = both(&Exchange::Stream { active, bytes, message_bytes });
                let messages = bytes.div_ceil(u64::from(message_bytes));
                for carried in [ours, theirs] {
                    assert_eq!(sent_or_received(&carried), messages);
                    assert_eq!(carried.check, bytes.to_string());
                }
            }
        }
    }

    #[test]
    fn every_answer_is_that_of_its_request() {
        for active in [Side::Opener, Side::Listener] {
            let exchange = Exchange::RequestResponse {
                active,
                transactions: 300,
                request_bytes: 1,
                response_bytes: 5,
            };
            let (ours, theirs) = both(&exchange);
            assert_eq!((ours.check.as_str(), theirs.check.as_str()), ("300", "300"));
            let asker = if active == Side::Opener { ours } else { theirs };
            let ExchangeFigures::Asked(reported) = asker.result else { panic!("it did not ask") };
            let times = reported.transaction_ns.unwrap();
            assert_eq!(times.count, 300);
            let counted: u64 = times.histogram.unwrap().iter().map(|bucket| bucket.1).sum();
            assert_eq!(counted, 300);
            assert!(times.minimum <= times.p50);
        }
    }

    #[test]
    fn a_message_that_is_not_the_next_one_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut opener = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let exchange = Exchange::Stream { active: Side::Opener, bytes: 32, message_bytes: 16 };
        let mut sent = vec![GO];
        sent.extend([&1_u64.to_be_bytes()[..], &[0; 8], &1_u64.to_be_bytes(), &[0; 8]].concat());
        opener.write_all(&sent).unwrap();
        assert_eq!(carry_out(&exchange, Side::Listener, &other).unwrap().check, "1 wrong of 32");
    }

    #[test]
    fn a_connection_that_is_closed_or_somebody_elses_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for said in [&b""[..], b"GET", b"V short"] {
            let mut opener = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (other, _) = listener.accept().unwrap();
            opener.write_all(said).unwrap();
            drop(opener);
            let exchange = Exchange::Stream { active: Side::Opener, bytes: 32, message_bytes: 16 };
            assert!(carry_out(&exchange, Side::Listener, &other).is_err());
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let stream =
            |bytes, message_bytes| Exchange::Stream { active: Side::Opener, bytes, message_bytes };
        assert!(check(&stream(1, 1)).is_ok());
        for wrong in [stream(0, 1), stream(1, 0), stream(1, MOST_BYTES + 1)] {
            assert!(check(&wrong).is_err());
        }
    }
}

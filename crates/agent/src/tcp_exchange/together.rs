//! The connections of one exchange together: what they did in all, and their end where one of them fails.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtoll_proto::reply::TcpInformation;
use virtoll_proto::reply::figures::{
    Answered, Asked, Connection, ExchangeFigures, StreamReceived, StreamSent,
};
use virtoll_proto::request::{Exchange, Side};
use virtoll_wire::Histogram;

use super::{Carried, part};
use crate::traffic::answer::distribution;

/// What one end has to say of an exchange.
#[derive(Debug)]
pub struct Outcome {
    /// Its figures, over all connections.
    pub result: ExchangeFigures,
    /// What was received by the end that receives: bytes or transactions, decimal, if all were right.
    pub check: String,
    /// What the kernel says of the only connection.
    pub tcp: Option<TcpInformation>,
    /// Each of several.
    pub connections: Vec<Connection>,
}

/// The connections that are open. Where one fails, all are shut down: nobody waits for the others until they time out.
#[derive(Default)]
pub struct Group {
    open: Mutex<Vec<Arc<TcpStream>>>,
    failed: Mutex<Option<io::Error>>,
}

impl Group {
    /// One more.
    pub fn add(&self, stream: &Arc<TcpStream>) {
        locked(&self.open).push(Arc::clone(stream));
    }

    /// Ends all that are open.
    pub fn shut_down(&self) {
        for stream in locked(&self.open).iter() {
            // One that is closed already cannot be shut down, and need not be.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Keeps why it failed, if nothing failed before, and ends all.
    pub fn fail(&self, cause: io::Error) {
        locked(&self.failed).get_or_insert(cause);
        self.shut_down();
    }

    /// What came of one connection; none where it failed.
    pub(super) fn settle(&self, outcome: io::Result<Carried>) -> Option<Carried> {
        outcome.map_err(|cause| self.fail(cause)).ok()
    }

    /// What came of all of them.
    ///
    /// # Errors
    /// Of the connection that failed first.
    pub(super) fn outcome(
        &self,
        exchange: &Exchange,
        end: Side,
        carried: Vec<Option<Carried>>,
    ) -> io::Result<Outcome> {
        if let Some(cause) = locked(&self.failed).take() {
            return Err(cause);
        }
        let mut carried: Vec<Carried> = carried.into_iter().flatten().collect();
        carried.sort_by_key(|one| one.number);
        if !carried.iter().map(|one| one.number).eq(0..exchange.connections()) {
            let sentence = "not each of the connections was there once";
            return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
        }
        Ok(summed(exchange, end, &carried))
    }
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn summed(exchange: &Exchange, end: Side, carried: &[Carried]) -> Outcome {
    let (result, check) = (figures(exchange, end, carried), verdict(exchange, carried));
    if let [only] = carried {
        return Outcome { result, check, tcp: only.tcp, connections: Vec::new() };
    }
    let each = |one: &Carried| {
        let mut own = figures(exchange, end, std::slice::from_ref(one));
        if let ExchangeFigures::Asked(asked) = &mut own
            && let Some(times) = &mut asked.transaction_ns
        {
            times.histogram = None;
        }
        Connection { exchange: own, tcp: one.tcp }
    };
    Outcome { result, check, tcp: None, connections: carried.iter().map(each).collect() }
}

/// From the first one's start to the last one's end.
fn figures(exchange: &Exchange, end: Side, carried: &[Carried]) -> ExchangeFigures {
    let sum = |of: fn(&Carried) -> u64| carried.iter().map(of).sum::<u64>();
    let last = |of: fn(&Carried) -> u64| carried.iter().map(of).max().unwrap_or_default();
    let (amount, messages) = (sum(|one| one.amount), sum(|one| one.messages));
    let start_monotonic_ns = carried.iter().map(|one| one.start_ns).min().unwrap_or_default();
    let end_monotonic_ns = last(|one| one.end_ns);
    match exchange {
        Exchange::Stream { active, .. } if *active == end => ExchangeFigures::Sent(StreamSent {
            bytes: amount,
            messages,
            start_monotonic_ns,
            handed_over_monotonic_ns: last(|one| one.handed_over_ns),
            end_monotonic_ns,
        }),
        Exchange::Stream { .. } => ExchangeFigures::Received(StreamReceived {
            bytes: amount,
            messages,
            start_monotonic_ns,
            end_monotonic_ns,
        }),
        Exchange::RequestResponse { active, .. } if *active == end => {
            let mut times = Histogram::default();
            carried.iter().filter_map(|one| one.times.as_ref()).for_each(|own| times.merge(own));
            let reported = times.distribution();
            ExchangeFigures::Asked(Asked {
                transactions: amount,
                start_monotonic_ns,
                end_monotonic_ns,
                transaction_ns: reported
                    .map(|reported| distribution(&reported, Some(times.buckets()))),
            })
        }
        Exchange::RequestResponse { .. } => ExchangeFigures::Answered(Answered {
            transactions: amount,
            start_monotonic_ns,
            end_monotonic_ns,
        }),
    }
}

/// The sum of what was received, where each connection had all of its part, and no message was a wrong one.
fn verdict(exchange: &Exchange, carried: &[Carried]) -> String {
    let received: u64 = carried.iter().map(|one| one.received).sum();
    let wrong: u64 = carried.iter().map(|one| one.wrong).sum();
    if wrong > 0 {
        return format!("{wrong} wrong of {received}");
    }
    let unlike = carried.iter().find(|one| one.received != part(exchange, one.number));
    unlike.map_or_else(
        || received.to_string(),
        |one| {
            let wanted = part(exchange, one.number);
            format!("{} of {wanted} by connection {}", one.received, one.number)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Exchange =
        Exchange::Stream { active: Side::Opener, bytes: 7, message_bytes: 8, connections: 2 };

    fn carried(number: u32, received: u64, wrong: u64) -> Carried {
        let times = u64::from(number);
        Carried {
            number,
            amount: received,
            received,
            wrong,
            messages: 1,
            start_ns: 10 + times,
            handed_over_ns: 20 + times,
            end_ns: 30 + times,
            ..Carried::default()
        }
    }

    fn ended(both: [Carried; 2], exchange: &Exchange) -> io::Result<Outcome> {
        Group::default().outcome(exchange, Side::Opener, both.map(Some).into())
    }

    #[test]
    fn what_connections_did_together_is_their_sum_from_the_first_start_to_the_last_end() {
        let outcome = ended([carried(1, 3, 0), carried(0, 4, 0)], &PARTS).unwrap();
        assert_eq!(outcome.check, "7");
        let sent = |bytes, messages, start, handed_over, end| {
            ExchangeFigures::Sent(StreamSent {
                bytes,
                messages,
                start_monotonic_ns: start,
                handed_over_monotonic_ns: handed_over,
                end_monotonic_ns: end,
            })
        };
        assert_eq!(outcome.result, sent(7, 2, 10, 21, 31));
        let each: Vec<ExchangeFigures> =
            outcome.connections.into_iter().map(|one| one.exchange).collect();
        assert_eq!(each, [sent(4, 1, 10, 20, 30), sent(3, 1, 11, 21, 31)]);
    }

    #[test]
    fn the_check_holds_for_each_connection() {
        let check = |both| ended(both, &PARTS).unwrap().check;
        assert_eq!(check([carried(0, 3, 0), carried(1, 4, 0)]), "3 of 4 by connection 0");
        assert_eq!(check([carried(0, 4, 1), carried(1, 3, 2)]), "3 wrong of 7");
    }

    #[test]
    fn a_connection_that_came_twice_or_failed_is_an_error() {
        let error = ended([carried(0, 4, 0), carried(0, 4, 0)], &PARTS).unwrap_err();
        assert!(error.to_string().contains("there once"), "{error}");
        let group = Group::default();
        assert!(group.settle(Err(io::Error::other("the first"))).is_none());
        assert!(group.settle(Err(io::Error::other("the second"))).is_none());
        let error = group.outcome(&PARTS, Side::Opener, vec![None, None]).unwrap_err();
        assert_eq!(error.to_string(), "the first");
    }

    #[test]
    fn times_of_transactions_are_of_all_connections() {
        let exchange = Exchange::RequestResponse {
            active: Side::Opener,
            transactions: 3,
            request_bytes: 1,
            response_bytes: 1,
            connections: 2,
        };
        let asked = |number, transactions, times: &[u64]| {
            let mut histogram = Histogram::default();
            for time in times {
                histogram.record(*time);
            }
            Carried { times: Some(histogram), ..carried(number, transactions, 0) }
        };
        let outcome = ended([asked(0, 2, &[5, 7]), asked(1, 1, &[9])], &exchange).unwrap();
        let times = |figures: &ExchangeFigures| match figures {
            ExchangeFigures::Asked(asked) => asked.transaction_ns.clone().unwrap(),
            _ => panic!("{figures:?} did not ask"),
        };
        let all = times(&outcome.result);
        assert_eq!((all.count, all.minimum, all.p50, all.maximum), (3, 5, 7, 9));
        assert_eq!(all.histogram, Some(vec![(5, 1), (7, 1), (9, 1)]));
        let each: Vec<_> = outcome.connections.iter().map(|one| times(&one.exchange)).collect();
        assert_eq!((each[0].count, each[0].histogram.clone()), (2, None));
        assert_eq!((each[1].count, each[1].maximum), (1, 9));
    }
}

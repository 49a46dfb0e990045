//! Traffic over a TCP connection to an agent that serves: netperf's `TCP_STREAM` and `TCP_RR`.
//!
//! The connection is opened before the start mark; between the marks is the exchange, to the last byte that either end
//! has to say.

use std::net::{SocketAddr, TcpStream};

use virtoll_proto::Error;
use virtoll_proto::reply::TcpInformation;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::Tcp;
use virtoll_proto::request::{Exchange, Side};

use super::{Done, Outcome, Workload};
use crate::tcp_exchange::{self, Carried};

/// An open connection.
pub struct Connected {
    exchange: Exchange,
    stream: TcpStream,
}

struct Exchanged {
    carried: Carried,
    tcp: Option<TcpInformation>,
}

/// Opens the connection.
///
/// # Errors
/// `bad-request` for sizes out of range, `system` if the server cannot be reached.
pub fn open(wanted: &Tcp) -> Result<Connected, Error> {
    tcp_exchange::check(&wanted.exchange)?;
    let at = SocketAddr::from((wanted.address, wanted.port));
    let stream = tcp_exchange::open(at, wanted.timeout_ns)
        .map_err(|cause| Error::system(format!("tcp: connect to {at}"), &cause))?;
    Ok(Connected { exchange: wanted.exchange.clone(), stream })
}

impl Workload for Connected {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let carried = tcp_exchange::carry_out(&self.exchange, Side::Opener, &self.stream)
            .map_err(|cause| Error::system("tcp", &cause))?;
        Ok(Box::new(Exchanged { carried, tcp: tcp_exchange::tcp_information(&self.stream) }))
    }
}

impl Done for Exchanged {
    fn check(self: Box<Self>) -> Outcome {
        let result = figures::Tcp { exchange: self.carried.result, tcp: self.tcp };
        Outcome { result: Figures::Tcp(result), check: self.carried.check }
    }
}

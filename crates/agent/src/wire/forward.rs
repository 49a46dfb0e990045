//! `wire forward`: a router of test frames that does known harm to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lexopt::Parser;
use lexopt::prelude::{Long, ValueExt};
use virtoll_wire::MacAddress;
use virtoll_wire::forwarder::{Account, Forwarder, Impairment};

use super::help;
use crate::command_line::{Failure, number, spelling, value};
use crate::sys::EndSignals;

#[derive(Debug, Default)]
struct Wanted {
    from: String,
    to: String,
    source: Option<MacAddress>,
    destination: Option<MacAddress>,
    impairment: Impairment,
}

/// What it prints when it is told to end.
fn written(account: &Account) -> serde_json::Value {
    serde_json::json!({
        "taken_frames": account.taken,
        "dropped_frames": account.dropped,
        "duplicated_frames": account.duplicated,
        "swapped_frames": account.swapped,
        "sent_frames": account.sent,
        "refused_frames": account.refused,
        "missed_frames": account.missed,
    })
}

/// Forwards until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// A sentence for the user.
pub fn run(words: &[String]) -> Result<(), Failure> {
    let Some(wanted) = parse(words)? else {
        print!("{}", help::HELP_FORWARD);
        return Ok(());
    };
    let missing = |name: &str| Failure::Usage(format!("{name} is missing; see --help"));
    for (name, text) in [("--from", &wanted.from), ("--to", &wanted.to)] {
        if text.is_empty() {
            return Err(missing(name));
        }
    }
    let source = wanted.source.ok_or_else(|| missing("--source-mac"))?;
    let destination = wanted.destination.ok_or_else(|| missing("--destination-mac"))?;
    let signals = EndSignals::block().map_err(|cause| format!("signals: {cause}"))?;
    let (from, to) = (wanted.from.as_str(), wanted.to.as_str());
    let failed = |cause| format!("{from} to {to}: {cause}");
    let forwarder =
        Forwarder::open((from, to), (source, destination), wanted.impairment).map_err(failed)?;
    let end = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&end);
    thread::spawn(move || {
        signals.wait();
        told.store(true, Ordering::Release);
    });
    eprintln!("open: forwarding from {from} to {to}");
    let account = forwarder.run(&end).map_err(failed)?;
    println!("{}", written(&account));
    Ok(())
}

fn parse(words: &[String]) -> Result<Option<Wanted>, lexopt::Error> {
    let mut own = Wanted::default();
    let mut parser = Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        let name = spelling(&argument);
        match argument {
            Long("help") => return Ok(None),
            Long("from") => own.from = parser.value()?.string()?,
            Long("to") => own.to = parser.value()?.string()?,
            Long("source-mac") => own.source = Some(value(&mut parser, &name, number)?),
            Long("destination-mac") => own.destination = Some(value(&mut parser, &name, number)?),
            Long("drop-every") => own.impairment.drop_every = value(&mut parser, &name, number)?,
            Long("duplicate-every") => {
                own.impairment.duplicate_every = value(&mut parser, &name, number)?;
            }
            Long("swap-every") => own.impairment.swap_every = value(&mut parser, &name, number)?,
            Long("delay-us") => {
                let delay_us: u32 = value(&mut parser, &name, number)?;
                own.impairment.delay_ns = u64::from(delay_us) * 1_000;
            }
            _ => return Err(format!("unknown argument {name}; see --help").into()),
        }
    }
    Ok(Some(own))
}

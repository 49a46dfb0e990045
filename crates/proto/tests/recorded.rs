//! The exchanges in `tests/recorded/protocol`, which Python's tests read too: each is read into the types of requests and
//! replies, and written back as it was.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use virtoll_proto::reply::counters::Counters;
use virtoll_proto::reply::facts::Facts;
use virtoll_proto::reply::{self, to_line, traffic};
use virtoll_proto::{Answer, Edge, Event, Operation, Request};

/// One request and what the agent answered with `ok`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    operation: String,
    request: Map<String, Value>,
    reply: Value,
}

fn exchanges() -> Vec<(String, Exchange)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/protocol");
    let files =
        fs::read_dir(&folder).unwrap_or_else(|cause| panic!("{}: {cause}", folder.display()));
    let read = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
    };
    files
        .map(|file| file.unwrap().path())
        .map(|path| (path.file_name().unwrap().display().to_string(), read(&path)))
        .collect()
}

fn parse(request: &Map<String, Value>) -> Operation {
    let mut line = request.clone();
    line.insert("id".to_owned(), json!(1));
    let request = Request::parse(Value::from(line).to_string().as_bytes());
    request.unwrap_or_else(|refusal| panic!("{refusal:?}")).operation
}

/// What is recorded is written back. What is written besides are fields that a request may leave out.
fn assert_holds(written: &Value, recorded: &Value, at: &str) {
    match (written, recorded) {
        (Value::Object(written), Value::Object(recorded)) => {
            for (key, value) in recorded {
                let found = written.get(key).unwrap_or_else(|| panic!("{at}.{key} is lost"));
                assert_holds(found, value, &format!("{at}.{key}"));
            }
        }
        (Value::Array(written), Value::Array(recorded)) => {
            assert_eq!(written.len(), recorded.len(), "{at}");
            for (number, (one, other)) in written.iter().zip(recorded).enumerate() {
                assert_holds(one, other, &format!("{at}[{number}]"));
            }
        }
        // 1 and 1.0 are one number.
        (Value::Number(one), Value::Number(other)) => {
            assert_eq!(one.as_f64(), other.as_f64(), "{at}");
        }
        // An IPv6 address has several texts.
        (Value::String(one), Value::String(other)) if one != other => {
            let [one, other] = [one, other].map(|text| text.parse::<Ipv6Addr>());
            assert!(one.is_ok() && one == other, "{at}: {written} for {recorded}");
        }
        _ => assert_eq!(written, recorded, "{at}"),
    }
}

/// The reply, read into the type of its operation and written again; none where it is none of that type.
fn rewritten_reply(operation: &Operation, reply: &Value) -> Option<Value> {
    let write = match operation {
        Operation::Hello(_) => rewritten::<reply::Hello>,
        Operation::Clocks {} => rewritten::<reply::Clocks>,
        Operation::Facts {} => rewritten::<Facts>,
        Operation::Network(_) => rewritten::<reply::Network>,
        Operation::Run(_) => rewritten::<reply::Run>,
        Operation::Exec(_) => rewritten::<reply::Exec>,
        Operation::Spawn(_) => rewritten::<reply::Spawn>,
        Operation::Progress(_) => rewritten::<reply::Progress>,
        Operation::End(_) => rewritten::<reply::End>,
        Operation::Marks(_) => rewritten::<reply::Marks>,
        Operation::HandOver(_) => rewritten::<reply::HandOver>,
        Operation::PathDelay(_) => rewritten::<reply::PathDelay>,
        Operation::Traffic(_) | Operation::TrafficStop {} => rewritten::<traffic::Traffic>,
        Operation::SinkOpen(_) => rewritten::<reply::SinkOpen>,
        Operation::SinkFinish(_) => rewritten::<traffic::SinkFinish>,
        Operation::Send(_) => rewritten::<traffic::Send>,
        Operation::Counters(_) => rewritten::<Counters>,
        Operation::Data(_) => rewritten::<reply::Data>,
        Operation::HttpLoad(_) => rewritten::<traffic::HttpLoad>,
        Operation::Serve(_) => rewritten::<reply::Serve>,
        Operation::ServeFinish(_) => rewritten::<reply::ServeFinish>,
        Operation::Terminal(_)
        | Operation::TerminalInput(_)
        | Operation::TerminalResize(_)
        | Operation::TerminalClose {}
        | Operation::Shutdown {}
        | Operation::TimekeeperStart(_)
        | Operation::TrafficStart(_)
        | Operation::SinkClose {}
        | Operation::ServeClose {} => rewritten::<reply::Empty>,
    };
    write(reply)
}

/// The same, where it is such a reply at all.
fn rewritten<T: DeserializeOwned + Serialize>(reply: &Value) -> Option<Value> {
    let typed: T = serde_json::from_value(reply.clone()).ok()?;
    Some(serde_json::to_value(typed).unwrap())
}

/// The names of an enumeration, as the refusal of an unknown one lists them.
fn names(request: &Value) -> BTreeSet<String> {
    let refusal = Request::parse(request.to_string().as_bytes()).unwrap_err().error.message;
    let (_, list) = refusal.split_once("expected one of ").unwrap_or_else(|| panic!("{refusal}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Where in a value there are objects, as JSON pointers.
fn objects(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let below =
                fields.iter().flat_map(|(name, value)| objects(value, &format!("{at}/{name}")));
            std::iter::once(at.to_owned()).chain(below).collect()
        }
        Value::Array(parts) => {
            let numbered = parts.iter().enumerate();
            numbered.flat_map(|(number, part)| objects(part, &format!("{at}/{number}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn a_recorded_request_is_read_and_written_whole() {
    for (file, exchange) in exchanges() {
        assert_eq!(exchange.request["op"], exchange.operation.as_str(), "{file}");
        let typed = parse(&exchange.request);
        let written = serde_json::to_value(&typed).unwrap();
        assert_holds(&written, &exchange.request.into(), &file);
        assert_eq!(parse(written.as_object().unwrap()), typed, "{file}");
    }
}

#[test]
fn an_unknown_field_of_a_request_is_refused_at_any_depth() {
    for (file, exchange) in exchanges() {
        let recorded = Value::from(exchange.request);
        // The names of variables are the caller's choice.
        for at in objects(&recorded, "").iter().filter(|at| !at.ends_with("/env")) {
            let mut line = recorded.clone();
            line.pointer_mut(at).unwrap()["no_such_field"] = json!(1);
            line["id"] = json!(1);
            let refusal = Request::parse(line.to_string().as_bytes());
            let refusal = refusal.expect_err(&format!("{file}: {at}/no_such_field is accepted"));
            assert!(refusal.error.message.contains("no_such_field"), "{file}: {refusal:?}");
        }
    }
}

#[test]
fn a_recorded_reply_is_written_back_as_it_was() {
    for (file, exchange) in exchanges() {
        let written = rewritten_reply(&parse(&exchange.request), &exchange.reply);
        assert_eq!(written, Some(exchange.reply), "{file}");
    }
}

#[test]
fn every_operation_and_every_job_is_recorded() {
    let all = exchanges();
    let recorded = all.iter().map(|(_, exchange)| exchange.operation.clone()).collect();
    assert_eq!(names(&json!({"id": 1, "op": "no such"})), recorded);
    let job = |exchange: &Exchange| exchange.request.get("job")?.as_str().map(str::to_owned);
    let jobs = all.iter().filter_map(|(_, exchange)| job(exchange)).collect();
    assert_eq!(names(&json!({"id": 1, "op": "run", "job": "no such"})), jobs);
}

/// Where in a value there is no object and no list, as JSON pointers.
fn leaves(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| leaves(value, &format!("{at}/{name}"))).collect()
        }
        Value::Array(parts) => {
            let numbered = parts.iter().enumerate();
            numbered.flat_map(|(number, part)| leaves(part, &format!("{at}/{number}"))).collect()
        }
        _ => vec![at.to_owned()],
    }
}

fn any_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u64..70_000).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
    ]
}

/// Some leaves of a value, by their places among all, and what they become.
fn any_changes() -> impl Strategy<Value = Vec<(prop::sample::Index, Value)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any_leaf()), 1..4)
}

fn changed(value: &Value, changes: Vec<(prop::sample::Index, Value)>) -> Value {
    let (mut value, places) = (value.clone(), leaves(value, ""));
    for (place, leaf) in changes {
        // One that was changed before may have been above this one.
        if !places.is_empty()
            && let Some(at) = value.pointer_mut(place.get(places.as_slice()).as_str())
        {
            *at = leaf;
        }
    }
    value
}

#[test]
fn any_request_that_is_accepted_is_written_and_reads_the_same() {
    let recorded: Vec<Value> =
        exchanges().into_iter().map(|(_, exchange)| exchange.request.into()).collect();
    proptest!(|(which: prop::sample::Index, changes in any_changes(), id in 1_u64..)| {
        let mut line = changed(which.get(recorded.as_slice()), changes);
        line["id"] = json!(id);
        if let Ok(request) = Request::parse(line.to_string().as_bytes()) {
            prop_assert_eq!(request.id, id);
            let mut written = serde_json::to_value(&request.operation).unwrap();
            written["id"] = json!(id);
            prop_assert_eq!(Request::parse(written.to_string().as_bytes()), Ok(request));
        }
    });
}

#[test]
fn any_reply_that_is_read_is_written_and_reads_the_same() {
    let recorded: Vec<(Operation, Value)> = exchanges()
        .into_iter()
        .map(|(_, exchange)| (parse(&exchange.request), exchange.reply))
        .collect();
    proptest!(|(which: prop::sample::Index, changes in any_changes())| {
        let (operation, reply) = which.get(recorded.as_slice());
        if let Some(written) = rewritten_reply(operation, &changed(reply, changes)) {
            // By its line, as it is sent: a number in it is text.
            let read: Value = serde_json::from_str(&written.to_string()).unwrap();
            prop_assert_eq!(rewritten_reply(operation, &read), Some(written));
        }
    });
}

proptest! {
    #[test]
    fn any_answer_and_any_event_come_back(
        id in prop::option::of(any::<u64>()), leaf in any_leaf(), message in ".{0,40}", refused: bool, at_end: bool, bytes in prop::collection::vec(any::<u8>(), 0..40), code in prop::option::of(any::<i32>()),
    ) {
        let error = reply::Error::system(message, &std::io::Error::from_raw_os_error(5));
        let answer = Answer::new(id, if refused { Err(error) } else { Ok(json!([leaf])) });
        prop_assert_eq!(serde_json::from_slice::<Answer>(&to_line(&answer)).unwrap(), answer);
        let edge = if at_end { Edge::End } else { Edge::Start };
        let id = id.unwrap_or(1);
        for event in [
            Event::Mark { id, edge, guest_monotonic_ns: id },
            Event::Taken { bytes: id },
            Event::Terminal { data: bytes },
            Event::TerminalExit { status: code, signal: code },
        ] {
            let line = to_line(&event);
            prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            prop_assert_eq!(serde_json::from_slice::<Event>(&line).unwrap(), event);
        }
    }
}

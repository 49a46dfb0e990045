//! The tables that `wire` prints.

use std::fmt::Write;

use serde_json::Value;

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<28} {value:>16}");
}

fn counts(text: &mut String, value: &Value, names: &[(&str, &str)]) {
    for (name, key) in names {
        line(text, name, &count(&value[*key]).to_string());
    }
}

/// Microseconds with three digits behind the point.
fn microseconds(value: &Value) -> String {
    let nanoseconds = count(value);
    format!("{}.{:03} us", nanoseconds / 1_000, nanoseconds % 1_000)
}

fn distribution(text: &mut String, title: &str, value: &Value) {
    for key in ["minimum", "p50", "p90", "p99", "p999", "maximum"] {
        if !value[key].is_null() {
            line(text, &format!("{title} {key}"), &microseconds(&value[key]));
        }
    }
}

fn chosen(text: &mut String, value: &Value) {
    line(text, "back end", value["backend"].as_str().unwrap_or_default());
    if let Some(reason) = value["backend_reason"].as_str() {
        let _ = writeln!(text, "  nothing faster, because: {reason}");
    }
}

/// Frames per second between the first and the last one.
pub fn rate(frames: u64, first_ns: &Value, last_ns: &Value) -> f64 {
    let between_ns = count(last_ns).saturating_sub(count(first_ns));
    if frames < 2 || between_ns == 0 { 0.0 } else { (frames - 1) as f64 * 1e9 / between_ns as f64 }
}

/// The table of `wire send`.
pub fn sent(value: &Value) -> String {
    let mut text = String::from("sent\n");
    chosen(&mut text, value);
    for source in value["sources"].as_array().into_iter().flatten() {
        let names = [
            ("intended frames", "intended_frames"),
            ("offered frames", "offered_frames"),
            ("unsent frames", "unsent_frames"),
            ("  refused by the interface", "refused_frames"),
            ("  skipped, too late", "skipped_frames"),
            ("late frames (over 10 us)", "late_frames"),
            ("frames of a batch", "batch_frames"),
        ];
        counts(&mut text, source, &names);
        let offered = count(&source["offered_frames"]);
        let per_second =
            rate(offered, &source["first_sent_monotonic_ns"], &source["last_sent_monotonic_ns"]);
        line(&mut text, "frames per second", &format!("{per_second:.3}"));
        let gap = &source["gap_ns"];
        if let Some(variation) = gap["coefficient_of_variation"].as_f64() {
            line(&mut text, "gap variation (sd / mean)", &format!("{variation:.4}"));
        }
        distribution(&mut text, "gap", gap);
        let cost = count(&source["cpu_ns"]) as f64 / offered.max(1) as f64;
        line(&mut text, "CPU time a frame", &format!("{cost:.1} ns"));
    }
    text
}

/// Reordered ratio, extent, late time and n-reordering (RFC 4737); displacement and buffer (RFC 5236).
fn order(text: &mut String, source: &Value) {
    let (order, reordered) = (&source["reordering"], count(&source["reordered_frames"]));
    let forwarded = count(&source["forwarded_frames"]).max(1);
    line(text, "  ratio", &format!("{:.4} %", reordered as f64 * 100.0 / forwarded as f64));
    let mean = |value: &Value| count(&value["sum"]) as f64 / count(&value["count"]).max(1) as f64;
    let extents = &order["extent_frames"];
    if count(&extents["count"]) > 0 {
        line(text, "  extent, mean (frames)", &format!("{:.2}", mean(extents)));
        line(text, "  extent, largest", &count(&extents["maximum"]).to_string());
        line(text, "  late time, largest", &microseconds(&order["late_time_ns"]["maximum"]));
        let degrees = order["n_reordering"]["histogram"].as_array().into_iter().flatten();
        let three: u64 = degrees.filter(|one| count(&one[0]) >= 3).map(|one| count(&one[1])).sum();
        line(text, "  3-reordered", &three.to_string());
    }
    if count(&extents["unknown_frames"]) > 0 {
        line(text, "  extent not known", &count(&extents["unknown_frames"]).to_string());
    }
    for (title, key) in [
        ("displacement (RFC 5236 RD)", "displacement"),
        ("in buffer (RFC 5236 RBD)", "buffer_occupancy"),
    ] {
        let Some(histogram) = order[key]["histogram"].as_array() else {
            let _ = writeln!(text, "  {title:<28} not measured by this sink");
            continue;
        };
        // In order, every frame has displacement 0 and the buffer is empty: nothing to show.
        for one in histogram.iter().filter(|_| histogram.len() > 1) {
            let place = one[0].as_i64().unwrap_or(0);
            line(text, &format!("{title} {place}"), &count(&one[1]).to_string());
        }
    }
}

/// The table of `wire receive`.
pub fn received(value: &Value) -> String {
    let mut text = String::from("received\n");
    chosen(&mut text, value);
    counts(
        &mut text,
        value,
        &[
            ("all frames", "seen_frames"),
            ("foreign frames", "foreign_frames"),
            ("of another trial", "late_trial_frames"),
            ("dropped before the sink", "kernel_dropped_frames"),
        ],
    );
    line(&mut text, "interface: received", &count(&value["interface"]["rx_packets"]).to_string());
    line(&mut text, "interface: dropped", &count(&value["interface"]["rx_dropped"]).to_string());
    let source = &value["source"];
    counts(
        &mut text,
        source,
        &[
            ("test frames, each once", "forwarded_frames"),
            ("lost (up to the last seen)", "lost_frames"),
            ("duplicates", "duplicate_frames"),
            ("reordered (RFC 4737)", "reordered_frames"),
        ],
    );
    order(&mut text, source);
    let (first, last) =
        (&source["first_received_monotonic_ns"], &source["last_received_monotonic_ns"]);
    let per_second = rate(count(&source["forwarded_frames"]), first, last);
    line(&mut text, "test frames per second", &format!("{per_second:.3}"));
    distribution(&mut text, "delay", &source["delay_ns"]);
    distribution(&mut text, "delay variation (IPDV)", &source["inter_packet_delay_variation_ns"]);
    text
}

/// The head of the calibration's table.
pub fn calibration_head() -> String {
    format!(
        "{:<12} {:<8} {:>5} {:>7} {:>13} {:>9} {:>9} {:>6} {:>6} {:>5} {:>8} {:>9} {:>9} {:>9}\n",
        "back end",
        "sink",
        "bytes",
        "Mbit/s",
        "frames/s",
        "error %",
        "unsent",
        "lost",
        "batch",
        "cv",
        "gap max",
        "delay min",
        "delay p50",
        "delay p99"
    )
}

/// One line of it. The error is that of the rate between the first and the last frame; gap and delay in microseconds.
pub fn calibration(value: &Value) -> String {
    let (source, arrived) = (&value["sources"][0], &value["sink"]["per_source"][0]);
    let offered = count(&source["offered_frames"]);
    let reached =
        rate(offered, &source["first_sent_monotonic_ns"], &source["last_sent_monotonic_ns"]);
    let wanted = value["rate_frames_per_second"].as_f64();
    let error = wanted.map(|wanted| format!("{:+.5}", (reached / wanted - 1.0) * 100.0));
    let short = |value: &Value| format!("{:.3}", count(value) as f64 / 1e3);
    format!(
        "{:<12} {:<8} {:>5} {:>7} {:>13.1} {:>9} {:>9} {:>6} {:>6} {:>5.2} {:>8} {:>9} {:>9} {:>9}\n",
        value["backend"].as_str().unwrap_or_default(),
        value["sink"]["backend"].as_str().unwrap_or_default(),
        count(&value["frame_size_bytes"]),
        value["rate_mbit"].as_f64().map_or("flat".to_owned(), |rate| format!("{rate}")),
        reached,
        error.unwrap_or_else(|| "-".to_owned()),
        count(&source["unsent_frames"]),
        count(&arrived["lost_frames"]),
        count(&source["batch_frames"]),
        source["gap_ns"]["coefficient_of_variation"].as_f64().unwrap_or(0.0),
        short(&source["gap_ns"]["maximum"]),
        short(&arrived["delay_ns"]["minimum"]),
        short(&arrived["delay_ns"]["p50"]),
        short(&arrived["delay_ns"]["p99"]),
    )
}

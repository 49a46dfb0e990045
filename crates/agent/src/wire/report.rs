//! The tables that `wire` prints.

use std::fmt::{Display, Write};

use virtoll_proto::reply::traffic::{ArrivedSource, Distribution, ReorderDensity, SentSource};

use super::result::{Calibration, ReceiveResult, SendResult};

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<28} {value:>16}");
}

fn counts(text: &mut String, named: &[(&str, u64)]) {
    for (name, count) in named {
        line(text, name, &count.to_string());
    }
}

/// Microseconds with three digits behind the point.
fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03} us", nanoseconds / 1_000, nanoseconds % 1_000)
}

fn distribution(text: &mut String, title: &str, all: &Distribution) {
    let quantiles = [
        ("minimum", all.minimum),
        ("p50", all.p50),
        ("p90", all.p90),
        ("p99", all.p99),
        ("p999", all.p999),
        ("maximum", all.maximum),
    ];
    for (name, value) in quantiles {
        line(text, &format!("{title} {name}"), &microseconds(value));
    }
}

fn chosen(text: &mut String, backend: &str, reason: Option<&String>) {
    line(text, "back end", backend);
    if let Some(reason) = reason {
        let _ = writeln!(text, "  nothing faster, because: {reason}");
    }
}

/// Frames per second between the first and the last one.
fn rate(frames: u64, first_ns: Option<u64>, last_ns: Option<u64>) -> f64 {
    let between_ns = last_ns.unwrap_or(0).saturating_sub(first_ns.unwrap_or(0));
    if frames < 2 || between_ns == 0 { 0.0 } else { (frames - 1) as f64 * 1e9 / between_ns as f64 }
}

fn offered_rate(source: &SentSource) -> f64 {
    rate(source.offered_frames, source.first_sent_monotonic_ns, source.last_sent_monotonic_ns)
}

/// The table of `wire send`.
pub fn sent(result: &SendResult) -> String {
    let mut text = String::from("sent\n");
    chosen(&mut text, &result.backend, result.backend_reason.as_ref());
    for source in &result.sources {
        let named = [
            ("intended frames", source.intended_frames),
            ("offered frames", source.offered_frames),
            ("unsent frames", source.unsent_frames),
            ("  refused by the interface", source.refused_frames),
            ("  skipped, too late", source.skipped_frames),
            ("late frames (over 10 us)", source.late_frames),
            ("frames of a batch", source.batch_frames),
            ("frames before the trial", source.probe_frames),
        ];
        counts(&mut text, &named);
        line(&mut text, "frames per second", &format!("{:.3}", offered_rate(source)));
        if let Some(gap) = &source.gap_ns {
            let variation = format!("{:.4}", gap.coefficient_of_variation);
            line(&mut text, "gap variation (sd / mean)", &variation);
            distribution(&mut text, "gap", &gap.distribution);
        }
        let cost = source.cpu_ns as f64 / source.offered_frames.max(1) as f64;
        line(&mut text, "CPU time a frame", &format!("{cost:.1} ns"));
    }
    text
}

/// Reordered ratio, extent, late time and n-reordering (RFC 4737); displacement and buffer (RFC 5236).
fn order(text: &mut String, source: &ArrivedSource) {
    let (order, reordered) = (&source.reordering, source.reordered_frames);
    let forwarded = source.forwarded_frames.max(1);
    line(text, "  ratio", &format!("{:.4} %", reordered as f64 * 100.0 / forwarded as f64));
    let extents = &order.extent_frames;
    if extents.count > 0 {
        let mean = extents.sum as f64 / extents.count as f64;
        line(text, "  extent, mean (frames)", &format!("{mean:.2}"));
        line(text, "  extent, largest", &extents.maximum.to_string());
        line(text, "  late time, largest", &microseconds(order.late_time_ns.maximum));
        let degrees = order.n_reordering.histogram.iter();
        let three: u64 = degrees.filter(|bucket| bucket.0 >= 3).map(|bucket| bucket.1).sum();
        line(text, "  3-reordered", &three.to_string());
    }
    if extents.unknown_frames > 0 {
        line(text, "  extent not known", &extents.unknown_frames.to_string());
    }
    density(text, "displacement (RFC 5236 RD)", order.displacement.as_ref());
    density(text, "in buffer (RFC 5236 RBD)", order.buffer_occupancy.as_ref());
}

fn density<T: Display>(text: &mut String, title: &str, density: Option<&ReorderDensity<T>>) {
    let Some(ReorderDensity { histogram, .. }) = density else {
        let _ = writeln!(text, "  {title:<28} not measured by this sink");
        return;
    };
    // In order, every frame has displacement 0 and the buffer is empty: nothing to show.
    for (place, frames) in histogram.iter().filter(|_| histogram.len() > 1) {
        line(text, &format!("{title} {place}"), &frames.to_string());
    }
}

/// The table of `wire receive`.
pub fn received(result: &ReceiveResult) -> String {
    let mut text = String::from("received\n");
    chosen(&mut text, &result.backend, result.backend_reason.as_ref());
    let grew = |name: &str| result.interface.get(name).copied().unwrap_or(0);
    let source = &result.source;
    let named = [
        ("all frames", result.seen_frames),
        ("foreign frames", result.foreign_frames),
        ("of another trial", result.late_trial_frames),
        ("forged: a wrong tag", result.forged_frames),
        ("dropped before the sink", result.kernel_dropped_frames),
        ("interface: received", grew("rx_packets")),
        ("interface: dropped", grew("rx_dropped")),
        ("test frames, each once", source.forwarded_frames),
        ("lost (up to the last seen)", source.lost_frames),
        ("duplicates", source.duplicate_frames),
        ("reordered (RFC 4737)", source.reordered_frames),
    ];
    counts(&mut text, &named);
    order(&mut text, source);
    let (first, last) = (source.first_received_monotonic_ns, source.last_received_monotonic_ns);
    let per_second = rate(source.forwarded_frames, first, last);
    line(&mut text, "test frames per second", &format!("{per_second:.3}"));
    if let Some(delays) = &source.delay_ns {
        distribution(&mut text, "delay", delays);
    }
    if let Some(variations) = &source.inter_packet_delay_variation_ns {
        distribution(&mut text, "delay variation (IPDV)", variations);
    }
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

/// One line of it, of a trial with one source. The error is that of the rate between the first and the last frame; gap and
/// delay in microseconds.
pub fn calibration(result: &Calibration) -> String {
    let Calibration { reply, rate_mbit, rate_frames_per_second, .. } = result;
    let (Some(source), Some(arrived)) = (reply.sent.sources.first(), reply.sink.per_source.first())
    else {
        return String::new();
    };
    let reached = offered_rate(source);
    let error =
        rate_frames_per_second.map(|rate| format!("{:+.5}", (reached / rate - 1.0) * 100.0));
    let short = |nanoseconds: Option<u64>| format!("{:.3}", nanoseconds.unwrap_or(0) as f64 / 1e3);
    let (gap, delay) = (source.gap_ns.as_ref(), arrived.delay_ns.as_ref());
    format!(
        "{:<12} {:<8} {:>5} {:>7} {:>13.1} {:>9} {:>9} {:>6} {:>6} {:>5.2} {:>8} {:>9} {:>9} {:>9}\n",
        reply.sent.backend,
        reply.sink.backend,
        reply.sent.frame_size_bytes,
        rate_mbit.map_or("flat".to_owned(), |rate| rate.to_string()),
        reached,
        error.unwrap_or_else(|| "-".to_owned()),
        source.unsent_frames,
        arrived.lost_frames,
        source.batch_frames,
        gap.map_or(0.0, |gap| gap.coefficient_of_variation),
        short(gap.map(|gap| gap.distribution.maximum)),
        short(delay.map(|delay| delay.minimum)),
        short(delay.map(|delay| delay.p50)),
        short(delay.map(|delay| delay.p99)),
    )
}

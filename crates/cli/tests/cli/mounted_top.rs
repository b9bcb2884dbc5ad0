//! `lanefs top`: what a mounted volume has done, as rates and as text for Prometheus.

use crate::common::{run, text, until};
use crate::mount::Mounted;
use std::fs;

/// The value of a line of a Prometheus text.
fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn top_counts_what_is_done_through_the_mount() {
    let m = Mounted::new();
    let ask = || run(&["top", text(&m.dir), "--prometheus"]).ends(0).out().to_string();
    let before = ask();
    for number in 0..50 {
        fs::write(m.path(&format!("f{number}")), vec![b'x'; 10_000]).unwrap();
    }
    for number in 0..7 {
        fs::remove_file(m.path(&format!("f{number}"))).unwrap();
    }
    fs::write(m.path("no/such/directory"), "").unwrap_err();
    let after = ask();
    let counted = |operation: &str| {
        let name = format!("lanefs_operation_seconds_count{{operation=\"{operation}\"}}");
        value(&after, &name) - value(&before, &name)
    };
    assert_eq!((counted("create"), counted("unlink"), counted("mkdir")), (50.0, 7.0, 0.0));
    assert!(counted("write") >= 50.0 && counted("lookup") >= 50.0, "{after}");
    assert_eq!(value(&after, "lanefs_inodes") - value(&before, "lanefs_inodes"), 43.0);
    assert_eq!(value(&after, "lanefs_size_bytes"), 64.0 * 1048576.0);
    let freed = value(&before, "lanefs_free_bytes") - value(&after, "lanefs_free_bytes");
    assert!(freed >= 43.0 * 10_000.0, "{freed}");
    // Commands are not counted as requests of the kernel.
    run(&["mkdir", text(&m.dir), "/d"]).ends(0);
    assert_eq!(value(&ask(), "lanefs_operation_seconds_count{operation=\"mkdir\"}"), 0.0);
    m.umount().ends(0);
}

#[test]
fn the_text_for_prometheus_is_well_formed() {
    let m = Mounted::new();
    fs::write(m.path("f"), "text").unwrap();
    let ran = run(&["top", text(&m.v.image), "--prometheus"]).ends(0);
    let (mut family, mut kind, mut families) = (String::new(), String::new(), Vec::new());
    let mut seen = std::collections::BTreeSet::new();
    for line in ran.out().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, what) = rest.split_once(' ').unwrap();
            assert!(!families.contains(&name) && what.ends_with('.'), "{line}");
            families.push(name);
            (family, kind) = (name.to_string(), String::new());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(kind.is_empty(), "{line}");
            kind = rest.strip_prefix(&family).unwrap().trim().to_string();
            assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{line}");
            continue;
        }
        let (name, number) = line.rsplit_once(' ').unwrap();
        number.parse::<f64>().unwrap();
        assert!(seen.insert(name.to_string()), "twice: {name}");
        let base = name.split('{').next().unwrap();
        let of = match kind.as_str() {
            "histogram" => {
                ["_bucket", "_sum", "_count"].iter().find_map(|end| base.strip_suffix(end)).unwrap()
            }
            kind => {
                assert_eq!(kind == "counter", base.ends_with("_total"), "{line}");
                base
            }
        };
        assert_eq!(of, family, "{line}");
    }
    assert!(families.len() > 10);
    m.umount().ends(0);
}

#[test]
fn top_shows_rates() {
    let m = Mounted::new();
    let dir = m.path("");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::create_dir(dir.join("d")).unwrap();
                fs::remove_dir(dir.join("d")).unwrap();
            }
        });
        // On a loaded machine an interval may be without requests, and so without lines; or the server may be
        // preempted between its counters. The rates of another run agree then.
        until("two screens show the same rate for both requests", || {
            let ran = run(&["top", text(&m.dir), "--interval", "0.3", "-n", "2"]).ends(0);
            let screens = ran.out().lines().filter(|line| line.contains("free")).count();
            assert_eq!(screens, 2, "{}", ran.out());
            let rates = |name: &str| -> Vec<f64> {
                let lines = ran.out().lines().filter(|line| line.split_whitespace().next() == Some(name));
                lines.map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap()).collect()
            };
            let (created, removed) = (rates("mkdir"), rates("rmdir"));
            // The counts differ by one at most, so the rates by one in 0.3 s, and the rounding.
            let agree = |(created, removed): (&f64, &f64)| *created > 0.0 && (created - removed).abs() <= 5.0;
            (created.len(), removed.len()) == (2, 2) && created.iter().zip(&removed).all(agree)
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    run(&["top", text(&m.v.host("nowhere"))]).ends(1).says("not a mounted volume");
    m.umount().ends(0);
    run(&["top", text(&m.v.image), "-n", "1"]).ends(1).says("not a mounted volume");
}

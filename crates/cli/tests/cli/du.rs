//! `lanefs du --top`.

use crate::common::TestVolume;

fn volume() -> TestVolume {
    let v = TestVolume::new();
    let script = "mkdir -p /big/deep '/a<b>&\\x01\\xff'\ntouch /empty\n";
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    for (path, kib) in [("/big/deep/one", 4000), ("/big/two", 2000), ("/four", 40), ("/three", 900)] {
        v.run_with("write", &[path], &vec![b'x'; kib << 10]).ends(0);
    }
    let script = "mv /three '/a<b>&\\x01\\xff'\n";
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    let small: String = (0..100).map(|number| format!("touch /big/small{number}\n")).collect();
    v.run_with("shell", &[] as &[&str], small.as_bytes()).ends(0);
    v
}

#[test]
fn the_largest_directories_come_first() {
    let v = volume();
    let all = v.run("du", "-a /").ends(0);
    let mut lines: Vec<(u64, &str)> = all
        .out()
        .lines()
        .map(|line| {
            line.split_once('\t').map(|(size, path)| (size.parse().expect("a number"), path)).expect("a tab")
        })
        .collect();
    lines.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    for count in [0, 1, 5, 50, 1000] {
        let expected: String =
            lines.iter().take(count).map(|(size, path)| format!("{size}\t{path}\n")).collect();
        assert_eq!(v.run("du", &format!("-a --top {count} /")).ends(0).out(), expected, "{count}");
    }
    assert_eq!(v.run("du", "--top 2 -h /").ends(0).out().lines().count(), 2);
    let total = v.run("du", "--top 1 -c /big /four").ends(0);
    assert!(total.out().ends_with("\ttotal\n") && total.out().lines().count() == 2);
    v.run("du", "-s --top 3 /").ends(2);
}

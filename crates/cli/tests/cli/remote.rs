//! `lanefs remote`.

use crate::common::{Ran, TestVolume, run, text};
use std::fs;

/// A volume that was published twice: as `latest`, and before that as a version without a tag.
struct Remote {
    v: TestVolume,
    url: String,
    versions: [String; 2],
}

impl Remote {
    fn new() -> Self {
        let v = TestVolume::new();
        let url = format!("file://{}", text(&v.host("store")));
        let publish = || {
            let report = run(&["publish", text(&v.image), &url, "--json"]).ends(0);
            let report: serde_json::Value = serde_json::from_str(report.out()).unwrap();
            report["version"].as_str().unwrap().to_owned()
        };
        fs::write(v.host("file"), vec![7; 100_000]).unwrap();
        v.run("mkdir", "/d").ends(0);
        v.run("mkdir", "/gone").ends(0);
        v.run("import", &format!("{} /d/file", text(&v.host("file")))).ends(0);
        v.run("mkdir", "/gone/deep").ends(0);
        let first = publish();
        v.run("rm", "-r /gone").ends(0);
        v.run("chmod", "600 /d/file").ends(0);
        v.run("mkdir", "/new").ends(0);
        v.run("mkdir", "/new/a\\tb").ends(0);
        let second = publish();
        Remote { v, url, versions: [first, second] }
    }

    fn at(&self, reference: &str) -> String {
        format!("{}#{reference}", self.url)
    }

    fn json(&self, command: &str, args: &[&str]) -> serde_json::Value {
        let ran = run(&[&["remote", command, &self.url, "--json"], args].concat()).ends(0);
        serde_json::from_str(ran.out()).unwrap()
    }
}

#[test]
fn tags_and_versions_are_listed_made_and_deleted() {
    let r = Remote::new();
    let [first, second] = &r.versions;
    let ls = || run(&["remote", "ls", &r.url]).ends(0);
    let lines = |ran: Ran| -> Vec<String> {
        // Behind the time, which is 16 characters and two spaces.
        ran.out().lines().map(|line| line[18..].to_owned()).collect()
    };
    let mut listed = lines(ls());
    listed.sort();
    let mut expected = [first.clone(), format!("{second}  latest")];
    expected.sort();
    assert_eq!(listed, expected);
    run(&["remote", "tag", &r.at(first), "old"]).ends(0);
    run(&["remote", "tag", &r.at(first), "older"]).ends(0);
    assert!(lines(ls()).contains(&format!("{first}  old older")));
    run(&["remote", "tag", &r.url, "old"]).ends(3).says("#old: the tag names another version");
    assert!(run(&["remote", "tag", "-f", &r.url, "old"]).ends(0).out().contains(first));
    assert_eq!(run(&["ls", &r.at("older"), "/"]).ends(0).out(), "d\ngone\n");
    assert!(run(&["remote", "tag", "--delete", &r.at("older")]).ends(0).out().contains(first));
    run(&["remote", "tag", "--delete", &r.at("older")]).ends(4).says("there is no such tag");
    for object in run(&["remote", "ls", &r.url, "--json"]).ends(0).out().lines() {
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert!(object["written"].as_i64().unwrap() > 1_700_000_000);
        let expected = if object["version"] == second[..] { vec!["latest", "old"] } else { vec![] };
        assert_eq!(object["tags"], serde_json::json!(expected));
    }
    // Wrong use.
    run(&["remote", "tag", &r.url, first]).ends(2).says("is a version");
    run(&["remote", "tag", &r.url, ".x"]).ends(2).says("does not begin with");
    run(&["remote", "tag", &r.url]).ends(2).says("<NAME>");
    run(&["remote", "tag", "--delete", &r.at(first)]).ends(2).says("is a version");
    run(&["remote", "tag", &r.at("none"), "x"]).ends(4).says("#none: there is no such tag");
    run(&["remote", "tag", &r.at(&"0".repeat(64)), "x"]).ends(4).says("no such object");
    run(&["remote", "ls", "/tmp"]).ends(2).says("URL: ");
    for command in ["ls", "prune"] {
        for reference in ["latest", "draft", &first[..]] {
            run(&["remote", command, &r.at(reference)]).ends(2).says("is about the whole store; leave out #");
        }
    }
    run(&["remote", "ls", "file:///none/such"]).ends(4).says("no directory ");
    // A version that somebody removed by hand.
    fs::remove_file(r.v.host(&format!("store/versions/{second}"))).unwrap();
    assert!(ls().out().contains(&format!("missing           {second}  latest old")), "{}", ls().out());
}

#[test]
fn a_version_is_shown_and_verified() {
    let r = Remote::new();
    let info = r.json("info", &[]);
    assert_eq!(info["version"], r.versions[1][..]);
    let verified = r.json("verify", &[]);
    for key in ["version", "pages", "pieces", "stored_bytes", "packs"] {
        assert_eq!(info[key], verified[key], "{key}");
        assert!(info[key].is_string() || info[key].as_u64().unwrap() > 0, "{key}");
    }
    let shown = run(&["remote", "info", &r.url]).ends(0);
    assert!(shown.out().contains(info["uuid"].as_str().unwrap()), "{}", shown.out());
    run(&["remote", "verify", &r.at(&r.versions[0])]).ends(0);
    // Each pack once with a wrong byte, and once missing.
    let mut found = 0;
    for pack in fs::read_dir(r.v.host("store/packs")).unwrap() {
        let pack = pack.unwrap().path();
        let name = pack.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&pack).unwrap();
        let mut wrong = bytes.clone();
        wrong[0] ^= 1;
        fs::write(&pack, wrong).unwrap();
        let damaged = run(&["remote", "verify", &r.url]);
        fs::remove_file(&pack).unwrap();
        let missing = run(&["remote", "verify", &r.url]);
        fs::write(&pack, bytes).unwrap();
        if missing.code == 0 {
            continue; // A pack of the first version.
        }
        found += 1;
        let missing = missing.ends(3).says("damaged or missing");
        assert!(missing.out().contains(&format!("{}/packs/{name} at byte ", r.url)), "{}", missing.out());
        assert!(missing.out().contains("no such object"), "{}", missing.out());
        // The first piece may be one that only the first version needs.
        assert!(matches!(damaged.code, 0 | 3), "{damaged:?}");
    }
    assert!(found >= 2, "pieces and pages");
    run(&["remote", "verify", &r.url]).ends(0);
    run(&["remote", "info", &r.at("none")]).ends(4).says("there is no such tag");
}

#[test]
fn two_versions_are_compared_by_path() {
    let r = Remote::new();
    let [first, _] = &r.versions;
    let diff = |from: &str, to: &str| run(&["remote", "diff", from, to]).ends(0).out().to_owned();
    let there = "M /\nM /d/file\n- /gone\n- /gone/deep\n+ /new\n+ /new/a\\\\tb\n";
    assert_eq!(diff(&r.at(first), &r.url), there);
    let back = there.replace('+', "x").replace('-', "+").replace('x', "-");
    assert_eq!(diff(&r.url, &r.at(first)), back);
    assert_eq!(diff(&r.url, &r.url), "");
    let json = run(&["remote", "diff", "--json", &r.at(first), &r.url]).ends(0);
    let changes: Vec<serde_json::Value> =
        json.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(changes[5], serde_json::json!({ "change": "+", "path": "/new/a\\tb" }));
    let other = TestVolume::new();
    let url = format!("file://{}", text(&other.host("store")));
    run(&["publish", text(&other.image), &url]).ends(0);
    run(&["remote", "diff", &r.url, &url]).ends(2).says("another volume");
}

#[test]
fn a_prune_condemns_first_and_deletes_later() {
    let r = Remote::new();
    let [first, second] = &r.versions;
    let versions = || fs::read_dir(r.v.host("store/versions")).unwrap().count();
    // Both are young.
    let young = r.json("prune", &[]);
    assert_eq!((&young["kept"]["versions"], young["due"].is_null()), (&2.into(), true), "{young}");
    for folder in ["packs", "versions"] {
        for object in fs::read_dir(r.v.host("store").join(folder)).unwrap() {
            let file = fs::File::options().write(true).open(object.unwrap().path()).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(1000)).unwrap();
        }
    }
    let dry = run(&["remote", "prune", &r.url, "--grace", "15m", "--dry-run"]).ends(0);
    assert!(dry.out().contains("would be condemned: 1 version, "), "{}", dry.out());
    assert!(!r.v.host("store/prune/condemned").exists());
    let condemned = r.json("prune", &["--grace", "15m"]);
    assert_eq!(condemned["condemned"]["versions"], 1);
    assert!(condemned["due"].as_i64().is_some() && versions() == 2);
    let kept = r.json("prune", &["--grace", "0", "--keep", "2"]);
    assert_eq!((&kept["kept"]["versions"], versions()), (&2.into(), 2), "{kept}");
    let deleted = run(&["remote", "prune", &r.url, "--grace", "0"]).ends(0);
    assert!(deleted.out().contains("\nkept: 1 version, "), "{}", deleted.out());
    assert!(deleted.out().starts_with("deleted: 1 version, "), "{}", deleted.out());
    assert_eq!(versions(), 1);
    run(&["remote", "verify", &r.url]).ends(0);
    run(&["ls", &r.at(first)]).ends(4).says("no such object");
    run(&["remote", "prune", &r.url, "--grace", "5x"]).ends(2).says("write it like 90s");
    run(&["remote", "prune", &r.url, "--grace", "899s"]).ends(2).says("too short; give 15m at least, or 0");
    // A damaged tag needs nobody knows what, until it is deleted.
    fs::write(r.v.host("store/tags/bad"), "wrong bytes").unwrap();
    let refused = run(&["remote", "prune", &r.url, "--grace", "0"]).ends(3);
    refused.says("store/tags/bad: is not a tag of a publication").says("the tag").says("delete the tag");
    let listed = run(&["remote", "ls", &r.url]).ends(0);
    let line = format!("{:16}  {:64}  bad", "damaged", "-");
    assert!(listed.out().lines().any(|shown| shown == line), "{}", listed.out());
    let listed = run(&["remote", "ls", &r.url, "--json"]).ends(0);
    let last: serde_json::Value = serde_json::from_str(listed.out().lines().last().unwrap()).unwrap();
    assert_eq!((&last["tags"], last["version"].is_null()), (&serde_json::json!(["bad"]), true), "{last}");
    assert!(last["damaged"].as_str().unwrap().contains("not a tag of a publication"), "{last}");
    let deleted = run(&["remote", "tag", "--delete", &r.at("bad")]).ends(0);
    assert_eq!(deleted.out(), "bad was damaged\n");
    run(&["remote", "prune", &r.url, "--grace", "0"]).ends(0);
    // All that a tag needs must be readable.
    fs::write(r.v.host(&format!("store/versions/{second}")), "wrong bytes").unwrap();
    run(&["remote", "prune", &r.url, "--grace", "0"]).ends(3).says("their hash differs");
    fs::write(r.v.host("store/prune/condemned"), "wrong bytes").unwrap();
    run(&["remote", "prune", &r.url]).ends(3).says("prune/condemned");
    run(&["publish", text(&r.v.image), &r.url]).ends(3);
}

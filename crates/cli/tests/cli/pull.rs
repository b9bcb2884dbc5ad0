//! `lanefs pull`.

use crate::common::{TestVolume, ended, program, run, text};
use crate::server::Server;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

/// A volume that is published to a directory.
fn published() -> (TestVolume, String) {
    let v = TestVolume::new();
    let tree = v.host("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..20u8 {
        fs::write(tree.join(format!("f{number}")), vec![number; 30_000]).unwrap();
    }
    run(&["import", text(&v.image), text(&tree), "/d"]).ends(0);
    let url = format!("file://{}", text(&v.host("store")));
    run(&["publish", text(&v.image), &url]).ends(0);
    (v, url)
}

#[test]
fn a_publication_becomes_an_image_that_is_an_ordinary_volume() {
    let (v, url) = published();
    let to = v.host("there.lane");
    let pulled = run(&["pull", "--no-cache", &url, text(&to)]).ends(0);
    assert!(pulled.out().contains("there.lane: version "), "{}", pulled.out());
    assert!(!v.host("there.lane.part").exists());
    for (command, args) in [("ls", &["-laRn", "/"][..]), ("cat", &["/d/f7"]), ("info", &["--json"])] {
        let here = run(&[&[command, text(&v.image)], args].concat()).ends(0);
        let there = run(&[&[command, text(&to)], args].concat()).ends(0);
        let names = |out: &str| out.replace(text(&to), text(&v.image));
        assert_eq!(names(there.out()), here.out(), "{command}");
    }
    run(&["mkdir", text(&to), "/new"]).ends(0);
    run(&["fsck", text(&to)]).ends(0);
    run(&["scrub", text(&to)]).ends(0);
    // It is published to the same tag, and another machine pulls that.
    run(&["publish", text(&to), &url]).ends(0);
    let third = v.host("third\\.lane");
    let json = run(&["pull", "--no-cache", "--json", &url, text(&third)]).ends(0);
    let report: serde_json::Value = serde_json::from_str(json.out()).unwrap();
    assert_eq!(report["image"], text(&third), "the exact name");
    assert!(report["written_bytes"].as_u64().unwrap() > 600_000, "{report}");
    assert_eq!(report["found_bytes"], 0);
    assert_eq!(run(&["ls", text(&third), "/"]).ends(0).out(), "d\nnew\n");
}

#[test]
fn a_pull_that_cannot_be_done_leaves_no_image() {
    let (v, url) = published();
    let to = v.host("there.lane");
    run(&["pull", &format!("{url}#none"), text(&to)]).ends(4).says("there is no such tag");
    run(&["pull", text(&v.image), text(&to)]).ends(2).says("URL: ");
    run(&["pull", &url]).ends(2).says("<IMAGE>");
    run(&["pull", &url, text(&v.image)]).ends(4).says("exists already; choose another name");
    run(&["pull", &url, "/none/such/v.lane"]).ends(4).says("/none/such/v.lane.part: No such file");
    // Every data pack is damaged.
    for pack in fs::read_dir(v.host("store/packs")).unwrap() {
        let pack = pack.unwrap().path();
        let mut bytes = fs::read(&pack).unwrap();
        bytes[0] ^= 1;
        fs::write(&pack, bytes).unwrap();
    }
    run(&["pull", "--no-cache", &url, text(&to)]).ends(3).says("/packs/");
    assert!(!to.exists());
    v.clean();
}

#[test]
fn ctrl_c_leaves_a_part_from_which_the_next_pull_goes_on() {
    let (v, _) = published();
    let server = Server::start();
    for folder in ["packs", "tags", "versions"] {
        for object in fs::read_dir(v.host("store").join(folder)).unwrap() {
            let object = object.unwrap();
            let name = object.file_name().into_string().unwrap();
            server.put(&format!("/photos/{folder}/{name}"), &fs::read(object.path()).unwrap());
        }
    }
    let url = format!("{}/photos", server.url());
    let to = v.host("there.lane");
    let (reached, is_reached) = channel();
    let (go, may_go) = channel::<()>();
    server.plant(move |request| {
        if request.path.contains("/packs/") {
            let _ = reached.send(());
            let _ = may_go.recv();
        }
        None
    });
    let args = ["pull", "--no-cache", &url, text(&to)];
    let mut child = program().args(args).stderr(Stdio::piped()).spawn().unwrap();
    is_reached.recv().expect("a request for a pack");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    // From here on the server answers.
    drop(go);
    let code = ended(&mut child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // The program may be done before its handler of the signal runs.
    if code != Some(0) {
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("pulling again continues from here"), "{said}");
        assert!(!to.exists() && v.host("there.lane.part").exists());
        run(&args).ends(0);
    }
    assert!(!v.host("there.lane.part").exists());
    run(&["fsck", text(&to)]).ends(0);
    assert_eq!(run(&["cat", text(&to), "/d/f7"]).ends(0).bytes, vec![7; 30_000]);
}

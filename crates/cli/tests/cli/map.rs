//! `lanefs map`.

use crate::common::{Ran, TestVolume, ended, program, run, text, until};
use crate::mount::Mounted;
use lanefs_testkit::mutate::{bases, hostile};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// An element of a picture.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: HashMap<String, String>,
    /// Its own text.
    text: String,
    /// Identifiers of the elements around it.
    inside: Vec<String>,
}

impl Element {
    fn new(start: &BytesStart<'_>, inside: &[String]) -> Self {
        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let attributes = start.attributes().map(|attribute| {
            let attribute = attribute.expect("an attribute");
            (utf8(attribute.key.as_ref()), unescaped(&utf8(&attribute.value)))
        });
        Element {
            name: utf8(start.name().as_ref()),
            attributes: attributes.collect(),
            text: String::new(),
            inside: inside.to_vec(),
        }
    }

    fn number(&self, key: &str) -> f64 {
        self.attributes[key].parse().expect("a number")
    }
}

fn unescaped(text: &str) -> String {
    quick_xml::escape::unescape(text).expect("references that XML has").into_owned()
}

/// Parses a document, and checks that it is well-formed; the title of an element is its text.
fn parse(document: &[u8]) -> Vec<Element> {
    let document = std::str::from_utf8(document).expect("UTF-8");
    let is_character =
        |c: char| matches!(c, '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(document.chars().all(is_character), "a character that no document has");
    let mut reader = Reader::from_str(document);
    reader.config_mut().check_end_names = true;
    let (mut done, mut open, mut inside) = (Vec::new(), Vec::<Element>::new(), Vec::<String>::new());
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Eof => break,
            Event::Empty(start) => done.push(Element::new(&start, &inside)),
            Event::Start(start) => {
                let element = Element::new(&start, &inside);
                inside.push(element.attributes.get("id").cloned().unwrap_or_default());
                open.push(element);
            }
            Event::Text(part) => {
                if let Some(element) = open.last_mut() {
                    element.text += part.decode().expect("UTF-8").trim();
                }
            }
            Event::GeneralRef(reference) => {
                let name = reference.decode().expect("UTF-8");
                open.last_mut().expect("inside").text += &unescaped(&format!("&{name};"));
            }
            Event::End(_) => {
                let element = open.pop().expect("an element that began");
                inside.pop();
                match open.last_mut() {
                    Some(above) if element.name == "title" => above.text += &element.text,
                    _ => done.push(element),
                }
            }
            Event::Decl(_) => {}
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert!(open.is_empty() && done.last().is_some_and(|last| last.name == "svg"));
    done
}

/// The cells of directories: title without the sizes, bytes, area.
fn cells(picture: &[Element]) -> Vec<(String, u64, f64)> {
    let cells = picture.iter().filter(|element| {
        element.name == "rect"
            && element.inside.iter().any(|id| id == "directories")
            && element.attributes.get("class").is_some_and(|class| class == "c")
    });
    cells
        .map(|cell| {
            let (path, rest) = cell.text.rsplit_once(": ").expect("a path and a size");
            let bytes = rest.split_once('(').and_then(|(_, rest)| rest.split_once(" bytes"));
            let bytes = bytes.expect("bytes").0.parse().expect("a number");
            (path.to_string(), bytes, cell.number("width") * cell.number("height"))
        })
        .collect()
}

/// Draws a picture to standard output.
fn picture(v: &TestVolume, args: &str) -> Vec<Element> {
    let ran = v.run("map", &format!("{args} --svg -")).ends(0);
    parse(&ran.bytes)
}

fn du(v: &TestVolume, path: &str) -> u64 {
    let ran = v.run_with("du", &["-s", path], b"").ends(0);
    ran.out().split('\t').next().expect("a line").parse::<u64>().expect("a number") << 10
}

fn volume() -> TestVolume {
    let v = TestVolume::new();
    let script = "mkdir -p /big/deep/deeper/deepest \"/a<b>&\\\"\\x01\\xff\\xef\\xbf\\xbf\" /empty\n";
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    let files = [("/big/deep/deeper/deepest/one", 4000), ("/big/two", 2000), ("/four", 400), ("/three", 900)];
    for (path, kib) in files {
        v.run_with("write", &[path], &vec![b'x'; kib << 10]).ends(0);
    }
    let script = "mv /three \"/a<b>&\\\"\\x01\\xff\\xef\\xbf\\xbf\"\nln /big/two /big/deep/same\n";
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    v
}

#[test]
fn areas_are_proportional_to_the_space_that_directories_take() {
    let v = volume();
    let picture = picture(&v, "");
    let cells = cells(&picture);
    let (bytes, area) = cells.iter().fold((0, 0.0), |(bytes, area), cell| (bytes + cell.1, area + cell.2));
    assert_eq!(bytes, du(&v, "/"));
    assert!((area - 1160.0 * 640.0).abs() < 1.0, "{area}");
    for (path, bytes, found) in &cells {
        let expected = *bytes as f64 / du(&v, "/") as f64 * area;
        assert!((found - expected).abs() < 0.01 * expected + 10.0, "{path}: {found} for {expected}");
    }
    let of = |path: &str| cells.iter().find(|cell| cell.0 == path).map(|cell| cell.1);
    assert_eq!(of("/big/deep/deeper/deepest"), Some(du(&v, "/big/deep/deeper/deepest")));
    // A file with two names counts once.
    let big = cells.iter().filter(|cell| cell.0.contains("/big")).map(|cell| cell.1).sum::<u64>();
    assert_eq!(big, du(&v, "/big"));
    assert_eq!(of("files in /"), Some(du(&v, "/") - du(&v, "/big") - du(&v, "/empty") - du_of_strange(&v)));
}

/// The space of the directory with the strange name.
fn du_of_strange(v: &TestVolume) -> u64 {
    let ran = v.run("du", "-d 1 /").ends(0);
    let line = ran.out().lines().find(|line| line.contains("a<b>")).expect("a line");
    line.split('\t').next().expect("a number").parse::<u64>().expect("a number") << 10
}

#[test]
fn deep_directories_count_in_the_last_one_that_is_shown() {
    let v = volume();
    for depth in 1..=16 {
        let cells = cells(&picture(&v, &format!("--depth {depth}")));
        assert_eq!(cells.iter().map(|cell| cell.1).sum::<u64>(), du(&v, "/"), "{depth}");
        let shows = |path: &str| cells.iter().any(|cell| cell.0 == path);
        assert_eq!(shows("/big"), depth == 1);
        assert_eq!(shows("/big/deep/deeper/deepest"), depth >= 4);
    }
    let below = cells(&picture(&v, "/big/deep"));
    assert!(below.iter().any(|cell| cell.0 == "/big/deep/deeper/deepest"), "{below:?}");
    v.run("map", "--svg - --depth 17").ends(2);
    v.run("map", "--svg - --depth 0").ends(2);
    v.run("map", "/").ends(2).says("--svg");
}

#[test]
fn names_are_escaped() {
    let v = volume();
    let picture = picture(&v, "");
    let name = r#"/a<b>&"\x01\xff\xef\xbf\xbf"#;
    assert!(cells(&picture).iter().any(|cell| cell.0 == name), "{:?}", cells(&picture));
    assert!(picture.iter().any(|element| element.name == "text" && element.text.contains("<b>&\"")));
}

#[test]
fn each_group_has_a_cell_with_its_use() {
    let v = TestVolume::sized("300M");
    v.run_with("write", &["/f"], &vec![7; 30 << 20]).ends(0);
    let picture = picture(&v, "/");
    let titles: Vec<&str> = picture
        .iter()
        .filter(|element| element.inside.iter().any(|id| id == "groups") && !element.text.is_empty())
        .map(|element| &element.text[..])
        .collect();
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(titles[0].starts_with("group 0 at 0x0: metadata "), "{titles:?}");
    assert!(titles.iter().any(|title| title.contains("metadata 2.0M in 1 chunk, ")), "{titles:?}");
    let heading = picture.iter().find(|element| element.text.starts_with("3 block groups: "));
    let heading = &heading.expect("a heading").text;
    assert!(heading.contains(", file data 30M, free "), "{heading}");
}

#[test]
fn an_empty_volume_has_a_picture() {
    let v = TestVolume::new();
    let cells = cells(&picture(&v, ""));
    assert!(cells.iter().all(|cell| cell.0 == "/" || cell.0 == "files in /"), "{cells:?}");
    let ran = run(&["map", "mem:16M", "--svg", "-"]).ends(0);
    parse(&ran.bytes);
}

#[test]
fn errors_name_their_subject_and_leave_no_file() {
    let v = volume();
    let names = || fs::read_dir(v.dir.path()).expect("a directory").count();
    let before = names();
    let svg = v.host("new.svg");
    v.run_with("map", &["/none", "--svg", text(&svg)], b"").ends(1).says("/none: ");
    v.run_with("map", &["/four", "--svg", text(&svg)], b"").ends(1).says("/four: not a directory");
    v.run_with("map", &["--svg", text(&v.host("none/x.svg"))], b"").ends(4).says("none/x.svg: ");
    v.run_with("map", &["--svg", text(&v.image)], b"").ends(2).says("is the image itself");
    v.run_with("map", &["--svg", text(v.dir.path())], b"").ends(4).says("directory");
    assert_eq!(names(), before);
    v.clean();
    v.run_with("map", &["--svg", text(&svg)], b"").ends(0);
    assert_eq!(names(), before + 1);
    assert_eq!(svg.metadata().expect("there").permissions().mode() & 0o400, 0o400);
    parse(&fs::read(&svg).expect("there"));
    // A disk that is full: the message names the file.
    v.run_with("map", &["--svg", "/dev/full"], b"").ends(4).says("/dev/full: ");
    let script = format!("cd /big\nmap --svg {}\n", text(&svg));
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    assert!(cells(&parse(&fs::read(&svg).expect("there"))).iter().any(|cell| cell.0 == "files in /big"));
}

#[test]
fn hostile_volumes_have_a_picture_or_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, svg) = (dir.path().join("v.lane"), dir.path().join("v.svg"));
    for base in bases().expect("sound volumes can be made") {
        for seed in 1..=4 {
            fs::write(&image, hostile(base, seed)).expect("an image");
            let _ = fs::remove_file(&svg);
            let ran = run(&["map", text(&image), "--svg", text(&svg)]);
            assert!(matches!(ran.code, 0 | 1 | 3 | 4) && !ran.err.contains("panicked"), "{seed}: {ran:?}");
            assert!(ran.code != 0 || svg.exists(), "{seed}: {ran:?}");
            if svg.exists() {
                parse(&fs::read(&svg).expect("there"));
            }
        }
    }
}

#[test]
fn many_directories_make_a_picture_of_bounded_size() {
    let v = TestVolume::new();
    let tree = v.host("tree");
    for i in 0..3500 {
        let dir = tree.join(format!("{}/{i}", i % 7));
        fs::create_dir_all(&dir).expect("made");
        fs::write(dir.join("file"), "content that needs a block of its own".repeat(10)).expect("written");
    }
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    let ran = v.run("map", "--svg -").ends(0);
    let cells = cells(&parse(&ran.bytes));
    assert_eq!(cells.iter().map(|cell| cell.1).sum::<u64>(), du(&v, "/"));
    assert!(cells.len() <= 2000 + 2 * 8 && ran.bytes.len() < 2 << 20, "{}, {}", cells.len(), ran.bytes.len());
    let merged = cells.iter().filter(|cell| cell.0.contains(" other directories in /")).count();
    let whole = cells.iter().filter(|cell| matches!(&cell.0[..], "/0" | "/1" | "/2" | "/3")).count();
    assert!(merged + whole > 0 && cells.len() > 1000, "{merged}, {whole}, {}", cells.len());
}

/// Interrupts a command as soon as it has made its file, if it runs for so long.
fn interrupted(image: &Path, svg: &Path) {
    let mut child = program()
        .args(["map", text(image), "--svg", text(svg)])
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let part = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(".lanefs-"))
    };
    let dir = svg.parent().expect("a directory");
    until("the file is made", || {
        fs::read_dir(dir).expect("a directory").any(part) || child.try_wait().expect("a child").is_some()
    });
    let _ = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let code = ended(&mut child);
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    assert_eq!(svg.exists(), code == Some(0));
    assert!(!fs::read_dir(dir).expect("a directory").any(part), "a temporary file is left");
}

#[test]
fn ctrl_c_leaves_no_file() {
    let v = TestVolume::sized("256M");
    let tree = v.host("tree");
    for i in 0..20_000 {
        let dir = tree.join((i % 100).to_string());
        fs::create_dir_all(&dir).expect("made");
        fs::write(dir.join(i.to_string()), "x").expect("written");
    }
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    let out = v.host("out");
    fs::create_dir(&out).expect("made");
    interrupted(&v.image, &out.join("v.svg"));
}

/// Elements as text, without the name of the volume in the heading.
fn same(ran: &Ran) -> String {
    let elements = parse(&ran.bytes);
    elements.iter().map(|element| format!("{} {}\n", element.name, element.text)).collect()
}

#[test]
fn a_mounted_volume_has_a_picture_that_the_client_writes() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).expect("made");
    fs::write(m.path("d/f"), vec![7; 3 << 20]).expect("written");
    let here = m.v.host("here");
    fs::create_dir(&here).expect("made");
    for volume in [&m.v.image, &m.dir] {
        let ran = program()
            .args(["map", text(volume), "--svg", "new.svg"])
            .current_dir(&here)
            .output()
            .expect("the program starts");
        assert!(ran.status.success() && ran.stdout.is_empty(), "{ran:?}");
        let found = cells(&parse(&fs::read(here.join("new.svg")).expect("the client's file")));
        assert!(found.iter().any(|cell| cell.0 == "/d" && cell.1 >= 3 << 20), "{found:?}");
        fs::remove_file(here.join("new.svg")).expect("removed");
        let svg = here.join("none.svg");
        run(&["map", text(volume), "/none", "--svg", text(&svg)]).ends(1).says("/none: ");
        run(&["map", text(volume), "--svg", text(&m.v.image)]).ends(2).says("is the image itself");
        run(&["map", text(volume), "--svg", text(&here.join("none/x"))]).ends(4).says("none/x: ");
        run(&["map", text(volume), "--svg", "/dev/full"]).ends(4).says("/dev/full: ");
    }
    assert_eq!(fs::read_dir(&here).expect("a directory").count(), 0);
    let mounted = same(&run(&["map", text(&m.dir), "/d", "--svg", "-"]).ends(0));
    assert!(mounted.contains("/d: 3.1M") || mounted.contains("/d: 3.0M"), "{mounted}");
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_publication_has_the_picture_of_its_volume() {
    let v = volume();
    let url = format!("file://{}/store", text(v.dir.path()));
    run(&["publish", text(&v.image), &url]).ends(0);
    let of = |image: &str| cells(&parse(&run(&["map", image, "--svg", "-"]).ends(0).bytes));
    assert_eq!(of(&url), of(text(&v.image)));
}

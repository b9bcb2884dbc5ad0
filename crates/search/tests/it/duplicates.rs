//! Files of the same content, compared with whole contents in a map.

use lanefs::{Caller, CreateOptions, Volume};
use lanefs_search::{
    Candidate, ContentHash, CpuHash, Duplicates, Error, FileError, duplicates, duplicates_by,
};
use lanefs_testkit::seeded::Seeded;
use std::collections::HashMap;
use std::sync::Mutex;

fn candidate(volume: &Volume, path: &str) -> Candidate {
    let attr = volume.resolve(path).expect("a file");
    Candidate { path: path.into(), shown: None, ino: attr.ino, size: attr.size, is_named: false }
}

fn find(volume: &Volume, files: Vec<Candidate>, threads: usize) -> Duplicates {
    let mut failed = |path: &[u8], why| panic!("{}: {why}", String::from_utf8_lossy(path));
    duplicates(volume, files, threads, &mut failed, &|_, _| (), &|| false).expect("duplicates")
}

#[test]
fn groups_are_those_of_whole_contents() {
    let options = CreateOptions { size: 256 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("a volume");
    let mut random = Seeded::new(1);
    let mut contents: HashMap<Vec<u8>, Vec<Vec<Vec<u8>>>> = HashMap::new();
    let mut files = Vec::new();
    // Contents that differ at the first, at the last, or at no byte; empty ones, and some larger than a
    // batch.
    for number in 0..400 {
        let bytes = [0, 1, 5000, 70_000, 5 << 20][random.weighted(&[2, 4, 20, 8, 1])];
        let mut content = vec![random.below(2) as u8; bytes];
        if random.chance(30)
            && let Some(last) = content.last_mut()
        {
            *last = random.below(4) as u8;
        }
        let path = format!("/file-{number}");
        volume.write_file(&path, &content).expect("write");
        files.push(candidate(&volume, &path));
        let mut paths = vec![path.clone().into_bytes()];
        if random.chance(10) {
            let link = format!("link-{number}");
            let ino = files.last().expect("a file").ino;
            volume.link(&Caller::OWNER, ino, volume.root(), link.as_bytes()).expect("link");
            files.push(candidate(&volume, &format!("/{link}")));
            paths.push(format!("/{link}").into_bytes());
        }
        contents.entry(content).or_default().push(paths);
    }
    let mut expected: Vec<_> = contents.into_iter().filter(|(_, files)| files.len() > 1).collect();
    let wasted = |(content, files): &(Vec<u8>, Vec<Vec<Vec<u8>>>)| content.len() * (files.len() - 1);
    expected.sort_by(|a, b| wasted(b).cmp(&wasted(a)).then_with(|| a.1.cmp(&b.1)));
    for threads in [1, 3] {
        let found = find(&volume, files.clone(), threads);
        assert_eq!(found.groups.len(), expected.len());
        for (group, (content, files)) in found.groups.iter().zip(&expected) {
            assert_eq!((group.size, &group.files), (content.len() as u64, files));
            assert_eq!(group.hash, *blake3::hash(content).as_bytes());
            assert_eq!(group.wasted() as usize, content.len() * (files.len() - 1));
        }
    }
    let stopped = duplicates(&volume, files, 2, &mut |_, _| true, &|_, _| (), &|| true);
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
}

#[test]
fn a_file_that_is_gone_is_reported_and_the_others_are_compared() {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("a volume");
    for path in ["/a", "/b", "/c"] {
        volume.write_file(path, b"content").expect("write");
    }
    let files: Vec<Candidate> = ["/a", "/b", "/c"].iter().map(|path| candidate(&volume, path)).collect();
    volume.remove_all("/b").expect("removed");
    let mut failed = Vec::new();
    let mut fail = |path: &[u8], error| {
        assert!(matches!(error, FileError::Volume(_)), "{error}");
        failed.push(path.to_vec());
        failed.len() < 2
    };
    let find = |files, fail: &mut dyn FnMut(&[u8], FileError) -> bool| {
        duplicates(&volume, files, 1, fail, &|_, _| (), &|| false)
    };
    let found = find(files.clone(), &mut fail).expect("the others");
    let ended = find(files, &mut fail);
    assert!(matches!(ended, Err(Error::Ended)), "{ended:?}");
    assert_eq!((found.failed, &failed[..]), (1, &[b"/b".to_vec(), b"/b".to_vec()][..]));
    assert_eq!(found.groups[0].files, [[b"/a".to_vec()], [b"/c".to_vec()]]);
}

/// An engine that keeps the lengths of the texts that it got, and gives all of them one hash.
#[derive(Default)]
struct Blind(Mutex<Vec<usize>>);

impl ContentHash for Blind {
    fn hash(&self, texts: &[&[u8]]) -> Vec<[u8; 32]> {
        self.0.lock().expect("no panic").extend(texts.iter().map(|text| text.len()));
        vec![[1; 32]; texts.len()]
    }
}

#[test]
fn another_engine_hashes_small_files_and_decides_about_them() {
    let options = CreateOptions { size: 128 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("a volume");
    let (small, large) = ((4 << 20) - 1, 4 << 20);
    let mut files = Vec::new();
    for (path, byte, len) in [
        ("/a", 1, 100),
        ("/b", 2, 100),
        ("/gone", 3, 100),
        ("/c", 1, small),
        ("/d", 2, small),
        ("/e", 1, large),
        ("/f", 1, large),
        ("/g", 2, large),
        ("/alone", 1, 7),
    ] {
        volume.write_file(path, vec![byte; len]).expect("write");
        files.push(candidate(&volume, path));
    }
    volume.remove_all("/gone").expect("removed");
    let find = |hasher: &dyn ContentHash, threads| {
        let mut failed = |path: &[u8], _| path == b"/gone";
        let found =
            duplicates_by(hasher, &volume, files.clone(), threads, &mut failed, &|_, _| (), &|| false);
        let names = |files: Vec<Vec<Vec<u8>>>| files.concat().concat().escape_ascii().to_string();
        found.expect("the others").groups.into_iter().map(|group| names(group.files)).collect::<Vec<_>>()
    };
    for threads in [1, 3] {
        assert_eq!(find(&CpuHash, threads), ["/e/f"]);
        // Its hashes count for small files, and for no large one.
        let other = Blind::default();
        assert_eq!(find(&other, threads), ["/e/f", "/c/d", "/a/b"]);
        let mut got = other.0.into_inner().expect("no panic");
        got.retain(|len| *len != 0);
        got.sort_unstable();
        assert_eq!(got, [100, 100, small, small]);
    }
}

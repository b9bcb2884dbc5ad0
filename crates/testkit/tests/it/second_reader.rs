//! The second reader on whole volumes. (Sequences of operations, crash states and planted faults meet it in
//! their own tests.)

use lanefs::{Access, CreateOptions, InodeSize, MemoryDevice, Volume};
use lanefs_format::superblock::{CLEAN, fields};
use lanefs_format::{BLOCK, SUPERBLOCK_COPY};
use lanefs_testkit::mutate::{Editor, bases};
use lanefs_testkit::naive::Naive;
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::volume::options;

#[test]
fn the_reader_and_the_engine_agree_on_volumes_with_everything_in_them() {
    for base in bases().expect("sound volumes can be made") {
        let bytes = base.image.bytes();
        let tree = Naive::open(&&bytes[..]).and_then(|reader| reader.tree());
        let tree = tree.unwrap_or_else(|text| panic!("{}: {text}", base.name));
        let device = Box::new(MemoryDevice::new(bytes.clone()));
        let volume = Volume::open_device(device, Access::Read).expect("the volume opens");
        tree.compare(&volume).unwrap_or_else(|text| panic!("{}: {text}", base.name));
        assert!(tree.entries.len() > base.paths.len().min(1), "{}", base.name);
    }
}

/// Fails unless the reader refuses the volume with this text.
fn refused(read: Result<Naive<'_>, String>, text: &str) {
    let why = read.and_then(|reader| reader.tree()).map(drop).expect_err(text);
    assert!(why.contains(text), "{why}");
}

#[test]
fn a_closed_volume_with_an_orphan_is_refused() {
    let bases = bases().expect("sound volumes can be made");
    let base = bases.iter().find(|base| base.name == "small-256").expect("the base");
    let mut editor = Editor::new(&base.image);
    for at in [0, SUPERBLOCK_COPY] {
        fields::STATE.write(editor.edit(at), CLEAN);
    }
    editor.seal();
    let bytes = editor.into_bytes(&mut Seeded::new(0));
    refused(Naive::open(&&bytes[..]), "on a closed volume");
}

#[test]
fn bytes_past_the_end_of_a_file_are_refused_where_nothing_may_have_left_them() {
    let options = CreateOptions { data_checksums: false, ..options(8 << 20, InodeSize::B256) };
    let volume = Volume::create_memory(&options).expect("a volume");
    volume.write_file("/file", [7_u8; 5000]).expect("a file");
    let mut bytes = volume.to_bytes().expect("its bytes");
    let clear =
        |bytes: &[u8]| Naive::open(&bytes).and_then(|reader| reader.with_clear_ends().tree()).map(drop);
    assert_eq!(clear(&bytes), Ok(()));
    let end = 5000 - BLOCK as usize;
    let last = bytes.chunks_mut(BLOCK as usize).find(|block| block.starts_with(&[7; 904]) && block[end] == 0);
    last.expect("the last block of the file")[end] = 1;
    assert!(Naive::open(&&bytes[..]).and_then(|reader| reader.tree()).is_ok());
    refused(Naive::open(&&bytes[..]).map(Naive::with_clear_ends), "bytes past the end");
}

#[test]
fn bytes_that_are_no_volume_are_refused() {
    for len in [0, 4096, 8 << 20] {
        let bytes = vec![0x5a; len];
        assert!(Naive::open(&&bytes[..]).is_err(), "{len} bytes");
    }
}

//! Stores whose hashes are right and whose contents are not: what a publisher takes over, and what a reader
//! by the hash of a version gets.

mod framed;
mod frames;

use crate::support::{Image, Memory, assert_same, change_at_random, content, open, text, volume};
use framed::{Frame, bind, frame_bytes, frames_of, in_frames, take_sizes};
use lanefs::format::superblock::Superblock;
use lanefs::{Access, Device, IoBufMut, Read, Volume};
use lanefs_publish::{
    Error, Hash, Publication, PublishOptions, PublishReport, ReadOptions, Reference, publish,
};
use lanefs_testkit::seeded::Seeded;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

const SIZE: u64 = 64 << 20;
/// Bytes of `pack_end`, `pack_entry`, `pack_name`, `page_ref`, `piece_ref`, and of the heads.
const END: usize = 72;
const ENTRY: usize = 64;
const NAME: usize = 48;
const PAGE_REF: usize = 56;
const PIECE: usize = 104;
const PAGE: usize = 32;
const ROOT: usize = 96;
const TAG: usize = 128;

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn set(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn image() -> Image {
    Image::new(SIZE, |volume| change_at_random(volume, &mut Seeded::new(77), 100))
}

fn add_file(volume: &Volume) {
    volume.write_file("/new", b"new").expect("write");
}

/// Names of the packs of a store.
fn packs(store: &Memory) -> Vec<String> {
    store.names().into_iter().filter(|name| name.starts_with("packs/")).collect()
}

/// Where a pack's pieces end and its footer begins.
fn footer(pack: &[u8]) -> Range<usize> {
    pack.len() - word(pack, pack.len() - END + 20)..pack.len()
}

/// The content of stored bytes without frames.
fn unpacked(bytes: &[u8], codec: u8) -> Vec<u8> {
    match codec {
        0 => bytes.to_vec(),
        _ => zstd::bulk::decompress(bytes, 2 << 20).expect("it decompresses"),
    }
}

/// Changes frames of a piece that is forged.
type Lie<'l> = &'l dyn Fn(&mut Vec<Frame>);

/// A version that is forged.
#[derive(Clone, Copy)]
struct Forgery<'f> {
    /// Its references promise of contents what is true.
    binds: bool,
    /// Version of the format, if it is not that of the version before.
    version: Option<usize>,
    /// Pieces in frames get frames again, and the lies about them. The others and, without this, all have
    /// none.
    lie: Option<Lie<'f>>,
}

/// A piece that replaces the one at an offset of a pack.
struct Forged {
    offset: usize,
    stored: usize,
    hash: Hash,
    codec: u8,
    raw: Vec<u8>,
    sizes: Vec<u16>,
}

type Replaced = HashMap<(String, usize), Forged>;

/// Ends a pack: its content and its name are right.
fn finished(mut body: Vec<u8>, mut footer: Vec<u8>) -> (String, Vec<u8>) {
    let end = footer.len() - END;
    footer[end + 24..end + 56].copy_from_slice(&Hash::of(&body).0);
    let name = format!("packs/{}", Hash::of(&footer));
    body.extend_from_slice(&footer);
    (name, body)
}

/// Makes a pack with the digests of another one and other bytes under its hashes.
fn forge_pack(
    name: &str,
    pack: &[u8],
    change: &dyn Fn(u64, &mut Vec<u8>),
    forgery: Forgery<'_>,
    replaced: &mut Replaced,
) -> (String, Vec<u8>) {
    let mut foot = pack[footer(pack)].to_vec();
    let (count, digests) = (word(pack, pack.len() - END + 12), word(pack, pack.len() - END + 16));
    let end = foot.split_off(foot.len() - END);
    let old = foot.split_off(count * ENTRY + digests * 16);
    let (mut old, mut all) = (&old[..], Vec::new());
    let mut body = Vec::new();
    for entry in foot[..count * ENTRY].chunks_exact_mut(ENTRY) {
        let (offset, stored) = (word(entry, 16), word(entry, 20));
        let (codec, blocks) = (entry[56], long(entry, 8).count_ones() as usize);
        let bytes = &pack[offset..offset + stored];
        let sizes = take_sizes(&mut old, codec, blocks);
        let mut raw = match codec {
            0 | 1 => unpacked(bytes, codec),
            _ => {
                let hash = Hash(entry[24..56].try_into().expect("a hash"));
                frames_of(bytes, codec, blocks, &sizes, hash).iter().flat_map(Frame::unpacked).collect()
            }
        };
        change(long(entry, 0), &mut raw);
        let (bytes, hash, sizes, codec) = match forgery.lie.filter(|_| codec > 1) {
            Some(lie) => {
                let mut frames = raw.chunks(frame_bytes(codec)).map(Frame::packed).collect();
                lie(&mut frames);
                let (bytes, hash, sizes) = in_frames(&frames);
                (bytes, hash, sizes, codec)
            }
            None => {
                let bytes = zstd::bulk::compress(&raw, 1).expect("it compresses");
                let hash = Hash::of(&bytes);
                (bytes, hash, Vec::new(), 1)
            }
        };
        set(entry, 16, body.len());
        set(entry, 20, bytes.len());
        entry[24..56].copy_from_slice(&hash.0);
        entry[56] = codec;
        all.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        let forged = Forged { offset: body.len(), stored: bytes.len(), hash, codec, raw, sizes };
        replaced.insert((name.into(), offset), forged);
        body.extend_from_slice(&bytes);
    }
    assert!(old.is_empty(), "sizes of frames end with the footer");
    let mut foot = [foot, all, end].concat();
    let (end, len) = (foot.len() - END, foot.len());
    set(&mut foot, end + 20, len);
    forgery.version.into_iter().for_each(|version| set(&mut foot, end + 8, version));
    finished(body, foot)
}

/// Replaces the version of `latest`, which has one page and borrows nothing, by one with other pieces. All
/// its hashes are right; what its references promise of contents, too, where `binds`.
fn forge(store: &Memory, binds: bool, change: &dyn Fn(u64, &mut Vec<u8>)) {
    forge_as(store, Forgery { binds, version: None, lie: None }, change);
}

fn forge_as(store: &Memory, forgery: Forgery<'_>, change: &dyn Fn(u64, &mut Vec<u8>)) {
    let (mut replaced, mut names) = (Replaced::new(), HashMap::new());
    let root_name = format!("versions/{}", hex(&store.content("tags/latest")[16..48]));
    let mut root = store.content(&root_name);
    for old in packs(store) {
        let (name, bytes) = forge_pack(&old, &store.content(&old), change, forgery, &mut replaced);
        names.insert(old, (name.clone(), bytes.len(), footer(&bytes).len()));
        store.objects.lock().insert(name, (bytes, 1));
    }
    let rename = |at: &mut [u8]| {
        let (name, len, footer) = &names[&format!("packs/{}", hex(&at[..32]))];
        at[..32].copy_from_slice(&Hash::parse(&name[6..]).expect("a hash").0);
        set(at, 32, *len);
        set(at, 40, *footer);
    };
    let page_ref = ROOT + word(&root, 72) * NAME;
    let pack_at = ROOT + word(&root, page_ref + 4) * NAME;
    let page_pack = store.content(&format!("packs/{}", hex(&root[pack_at..pack_at + 32])));
    let (offset, stored) = (word(&root, page_ref + 8), word(&root, page_ref + 12));
    let mut page = unpacked(&page_pack[offset..offset + stored], root[page_ref + 20]);
    let (named, pieces) = (word(&page, 24), word(&page, 28));
    let mut all = Vec::new();
    page.truncate(PAGE + named * NAME + pieces * PIECE);
    let (head, list) = page.split_at_mut(PAGE + named * NAME);
    for piece in list.chunks_exact_mut(PIECE).take(pieces) {
        let pack = PAGE + word(piece, 4) * NAME;
        let key = (format!("packs/{}", hex(&head[pack..pack + 32])), word(piece, 24));
        let Forged { offset, stored, hash, codec, raw, sizes } = &replaced[&key];
        all.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        set(piece, 24, *offset);
        set(piece, 28, *stored);
        piece[32..64].copy_from_slice(&hash.0);
        if forgery.binds {
            let bound = bind(long(piece, 8), long(piece, 16), raw, *codec);
            piece[64..96].copy_from_slice(&bound.0);
        }
        piece[96] = *codec;
    }
    head[PAGE..].chunks_exact_mut(NAME).for_each(rename);
    page.extend(all);
    forgery.version.into_iter().for_each(|version| set(&mut page, 8, version));
    let bytes = zstd::bulk::compress(&page, 1).expect("it compresses");
    let (name, pack) = finished(bytes.clone(), page_pack[page_pack.len() - END..].to_vec());
    root[pack_at..pack_at + 32].copy_from_slice(&Hash::parse(&name[6..]).expect("a hash").0);
    set(&mut root, pack_at + 32, pack.len());
    set(&mut root, page_ref + 8, 0);
    set(&mut root, page_ref + 12, bytes.len());
    set(&mut root, page_ref + 16, page.len());
    root[page_ref + 20] = 1;
    root[page_ref + 24..page_ref + 56].copy_from_slice(&Hash::of(&bytes).0);
    // Nothing is read ahead.
    set(&mut root, 80, 0);
    forgery.version.into_iter().for_each(|version| set(&mut root, 8, version));
    root.truncate(page_ref + PAGE_REF);
    store.objects.lock().insert(name, (pack, 1));
    set_tag(store, &root);
}

/// Makes `latest` name a root.
fn set_tag(store: &Memory, root: &[u8]) {
    let version = Hash::of(root);
    let mut tag = store.content("tags/latest")[..TAG].to_vec();
    tag[8] = root[8];
    set(&mut tag, 12, root.len());
    tag[16..48].copy_from_slice(&version.0);
    let check = Hash::of(&tag[..96]);
    tag[96..].copy_from_slice(&check.0);
    let mut objects = store.objects.lock();
    objects.insert("tags/latest".into(), (tag, 7));
    objects.insert(format!("versions/{version}"), (root.to_vec(), 1));
}

fn hex(hash: &[u8]) -> String {
    Hash(hash.try_into().expect("a hash")).to_string()
}

/// Opens a version by its hash.
fn by_hash(store: &Arc<Memory>, version: Hash) -> Publication {
    let options = ReadOptions { ahead: 0, ..ReadOptions::default() };
    Publication::open(store.clone(), &Reference::Version(version), &options).expect("the version")
}

/// Reads all blocks that the volume uses: each is right, or an error. Returns the number of errors.
fn errors(image: &Image, publication: &Publication) -> usize {
    let device = publication.device();
    let read = |(at, right): (u64, Vec<u8>)| {
        let mut block = vec![0; 4096];
        let read = device.read_slice(at, &mut block);
        assert!(read.is_err() || block == right, "planted bytes at {at}");
        usize::from(read.is_err())
    };
    content(&image.open()).blocks.into_iter().map(read).sum()
}

fn checked(image: &Image, store: &Arc<Memory>) -> PublishReport {
    let options = PublishOptions { level: 1, check: true, ..PublishOptions::default() };
    publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).expect("published")
}

fn found(publication: &Publication) -> u64 {
    publication.verify(&|_, _| true).expect("verified").found
}

#[test]
fn a_planted_pack_does_not_reach_the_version() {
    let image = image();
    let honest = Arc::new(Memory::default());
    let whole = image.publish(&honest).expect("published");
    let store = Arc::new(Memory::default());
    for pack in packs(&honest) {
        let evil = |_, raw: &mut Vec<u8>| raw.fill(0x66);
        let forgery = Forgery { binds: false, version: None, lie: None };
        let (name, bytes) = forge_pack(&pack, &honest.content(&pack), &evil, forgery, &mut Replaced::new());
        store.objects.lock().insert(name, (bytes, 1));
    }
    let report = image.publish(&store).expect("published");
    assert_eq!(report.kept_pieces, 0);
    assert!(report.damaged_pieces >= whole.new_pieces, "{report:?}");
    let publication = by_hash(&store, report.version);
    assert_same(&image, &publication);
    assert_eq!(found(&publication), 0);
}

#[test]
fn a_version_that_was_planted_under_a_tag_is_an_error_to_the_next_one_and_never_its_content() {
    let image = image();
    for binds in [false, true] {
        let store = Arc::new(Memory::default());
        image.publish(&store).expect("published");
        forge(&store, binds, &|_, raw| raw.iter_mut().for_each(|byte| *byte ^= 0x66));
        image.change(add_file);
        let report = image.publish(&store).expect("published");
        assert!(report.kept_pieces > 0, "it builds upon the planted version");
        let publication = by_hash(&store, report.version);
        assert!(errors(&image, &publication) > 0);
        let verified = publication.verify(&|_, _| true).expect("verified");
        assert!(verified.found > 0 && verified.findings[0].to_string().contains("has other content"));
        let to = image.home.path().join("pulled.lane");
        let pulled = publication.pull(&to, &|_, _| true).expect_err("planted");
        assert!(matches!(pulled, Error::Damaged { .. }), "{pulled}");
        std::fs::remove_file(to.with_extension("lane.part")).ok();
        // A publisher that checks all replaces it.
        let report = checked(&image, &store);
        assert!(report.damaged_pieces > 0, "{report:?}");
        let publication = by_hash(&store, report.version);
        assert_same(&image, &publication);
        assert_eq!(found(&publication), 0);
    }
}

#[test]
fn a_flipped_bit_in_an_old_pack_is_an_error_and_a_check_replaces_the_piece() {
    let image = image();
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    for name in packs(&store) {
        if word(&store.content(&name), store.content(&name).len() - END + 12) > 0 {
            store.objects.lock().get_mut(&name).expect("a pack").0[9] ^= 4;
        }
    }
    image.change(add_file);
    let report = image.publish(&store).expect("published");
    assert!(errors(&image, &by_hash(&store, report.version)) > 0);
    let report = checked(&image, &store);
    assert!(report.damaged_pieces > 0, "{report:?}");
    assert_same(&image, &by_hash(&store, report.version));
    let again = checked(&image, &store);
    assert_eq!((again.written_bytes, again.damaged_pieces), (0, 0));
}

#[test]
fn a_check_replaces_a_pack_that_is_missing_and_one_whose_footer_is_damaged() {
    let image = image();
    for remove in [false, true] {
        let store = Arc::new(Memory::default());
        let first = image.publish(&store).expect("published");
        for name in packs(&store) {
            let mut objects = store.objects.lock();
            let bytes = &mut objects.get_mut(&name).expect("a pack").0;
            if remove && word(bytes, bytes.len() - END + 12) > 0 {
                objects.remove(&name);
            } else if !remove && word(bytes, bytes.len() - END + 12) > 0 {
                let at = footer(bytes).start;
                bytes[at] ^= 1;
            }
        }
        image.publish(&store).expect_err("damage that it meets");
        let report = checked(&image, &store);
        assert_same(&image, &by_hash(&store, report.version));
        // The same pieces make the same packs, which are written again under their names.
        assert_eq!(report.version, first.version);
    }
}

#[test]
fn a_pack_that_has_the_right_name_and_other_bytes_is_written_again() {
    let image = image();
    let store = Arc::new(Memory::default());
    *store.refused.lock() = Some("versions/");
    image.publish(&store).expect_err("the root is refused");
    *store.refused.lock() = None;
    for name in packs(&store) {
        store.objects.lock().get_mut(&name).expect("a pack").0[5] ^= 1;
    }
    let report = image.publish(&store).expect("published");
    assert_same(&image, &by_hash(&store, report.version));
    assert_eq!(found(&by_hash(&store, report.version)), 0);
}

#[test]
fn a_delta_reads_footers_and_pages_only() {
    let image = image();
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    image.change(add_file);
    store.reads.lock().clear();
    image.publish(&store).expect("published");
    let reads = store.reads.lock().clone();
    let mut of_packs = 0;
    for (object, range) in reads.iter().filter(|(object, _)| object.starts_with("packs/")) {
        let pack = store.content(object);
        let has_pieces = word(&pack, pack.len() - END + 12) > 0;
        let is_footer = range.start as usize == footer(&pack).start && range.end as usize == pack.len();
        assert!(is_footer || !has_pieces, "{object} {range:?}");
        of_packs += 1;
    }
    // The page, and the footers of the metadata and of the data. Also the tag, the root, and the list of
    // condemned objects three times, all of which are small.
    assert_eq!((of_packs, reads.len()), (3, 3 + 5), "{reads:?}");
}

#[test]
fn a_volume_that_was_not_closed_is_refused_before_its_log_is_read() {
    let image = image();
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    forge(&store, true, &|position, raw| {
        if position == 0
            && let Ok(mut superblock) = Superblock::decode(&raw[..4096])
        {
            superblock.clean = false;
            superblock.sequence += 100;
            raw[..4096].copy_from_slice(&superblock.encode());
        }
    });
    let publication = open(&store).expect("a publication");
    let refused = publication.volume(Access::Read).map(drop).expect_err("not closed");
    assert!(matches!(refused, Error::NotClosed(_)), "{refused}");
    let refused = publication.pull(&image.home.path().join("there"), &|_, _| true).expect_err("not closed");
    assert!(matches!(refused, Error::NotClosed(_)), "{refused}");
}

/// Writes the objects of a file of the test data to a store.
fn unpack(file: &[u8]) -> Arc<Memory> {
    let bytes = zstd::decode_all(file).expect("a store");
    let store = Arc::new(Memory::default());
    let mut rest = &bytes[..];
    while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..at]).expect("a line");
        let (name, len) = line.rsplit_once(' ').expect("a name and a length");
        let (object, behind) = rest[at + 1..].split_at(len.parse().expect("a length"));
        store.objects.lock().insert(name.into(), (object.to_vec(), 1));
        rest = behind;
    }
    store
}

#[test]
fn a_publication_of_version_2_is_read_and_built_upon() {
    let store = unpack(include_bytes!("../../data/version2.store.zst"));
    let image = Image::new(SIZE, |_| {});
    let bytes = zstd::decode_all(&include_bytes!("../../data/version2.lane.zst")[..]).expect("an image");
    std::fs::write(&image.path, bytes).expect("write");
    let old = open(&store).expect("a publication");
    assert!(!old.is_bound());
    assert_same(&image, &old);
    assert_eq!(found(&old), 0);
    let report = image.publish(&store).expect("published");
    assert_eq!((report.new_pieces, report.previous), (0, Some(old.version())));
    let new = open(&store).expect("a publication");
    assert!(new.is_bound() && new.version() == report.version);
    assert_same(&image, &new);
    assert_eq!(found(&new), 0);
    assert_same(&image, &by_hash(&store, old.version()));
    image.change(add_file);
    let delta = image.publish(&store).expect("published");
    assert!(delta.written_bytes < 16 << 10, "{delta:?}");
    assert_same(&image, &open(&store).expect("a publication"));
    assert!(volume(&old).resolve("/new").is_err(), "the old version stays");
}

#[test]
fn a_publication_of_version_3_is_read_and_built_upon() {
    let options = PublishOptions { level: 1, frame_bytes: 0, ..PublishOptions::default() };
    // Where blocks lie differs, and with it whether two are found to be equal; a forgery follows none.
    let without_equal_blocks = || {
        let (image, store) = (image(), Arc::new(Memory::default()));
        let report = publish(&image.open(), store.clone(), "latest", &options, &|_, _| true);
        (report.expect("published").equal_blocks == 0).then_some((image, store))
    };
    let (image, store) = std::iter::repeat_with(without_equal_blocks).flatten().next().expect("one");
    // The structures of version 3 are the same.
    forge_as(&store, Forgery { binds: true, version: Some(3), lie: None }, &|_, _| {});
    let old = open(&store).expect("a publication");
    assert!(old.is_bound());
    assert_same(&image, &old);
    assert_eq!(found(&old), 0);
    let report = image.publish(&store).expect("published");
    assert_eq!((report.new_pieces, report.previous), (0, Some(old.version())));
    assert!(report.written_bytes < 64 << 10, "pages and the root: {report:?}");
    assert_same(&image, &by_hash(&store, report.version));
    image.change(add_file);
    image.publish(&store).expect("published");
    assert_same(&image, &open(&store).expect("a publication"));
    assert_eq!(found(&open(&store).expect("a publication")), 0);
    assert!(volume(&old).resolve("/new").is_err(), "the old version stays");
}

/// A volume with many windows of data.
fn image_of_files() -> Image {
    Image::new(SIZE, |volume| {
        let mut random = Seeded::new(5);
        for file in 0..16 {
            volume.write_file(format!("/file {file}"), text(&mut random, 300_000)).expect("write");
        }
    })
}

#[test]
fn a_publication_of_version_2_is_not_a_shard() {
    let store = unpack(include_bytes!("../../data/version2.store.zst"));
    let old = open(&store).expect("a publication");
    let (version, uuid) = (old.version(), old.facts().uuid);
    let receipt = lanefs_publish::Receipt { prefix: b"/old".to_vec(), version, uuid, files: 1, bytes: 1 };
    let options = lanefs_publish::JoinOptions::default();
    let error = lanefs_publish::join(store.clone(), "joined", &[receipt], &options, &|_, _| true);
    let error = error.expect_err("nothing binds its files").to_string();
    assert!(error.contains("/old") && error.contains("before CONTENT"), "{error}");
    assert!(error.ends_with("publish it again"), "{error}");
}

#[test]
fn a_page_that_names_one_offset_by_many_hashes_costs_nothing() {
    let store = unpack(include_bytes!("../../data/ahead.store.zst"));
    // It opens, or not; what its hashes say of bytes that were read ahead is not believed.
    if let Ok(publication) = open(&store) {
        let _ = Volume::open_device(Box::new(publication.device()), Access::Read);
    }
}

#[test]
fn a_codec_or_a_kind_that_is_not_known_is_a_clear_error() {
    let image = image();
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    let mut root = store.content(&format!("versions/{}", hex(&store.content("tags/latest")[16..48])));
    let page_ref = ROOT + word(&root, 72) * NAME;
    let honest = root.clone();
    root[page_ref + 20] = 9;
    set_tag(&store, &root);
    let refused = open(&store).map(drop).expect_err("a codec");
    let text = "is stored by codec 9, which this program does not know";
    assert!(refused.to_string().contains(text), "{refused}");
    root.clone_from(&honest);
    root[84] = 2;
    set_tag(&store, &root);
    let refused = open(&store).map(drop).expect_err("a kind");
    assert!(refused.to_string().contains("of a kind that this program does not know"), "{refused}");
}

//! Hashes of texts: the kernels and their twins, beside the crate `blake3`, and the bytes that are loaded.

use crate::support::{faulty, gpu, over_copies, planted, sources};
use lanefs_gpu::{Error, Gpu, Probes, TextHash};
use lanefs_testkit::seeded::Seeded;

/// Lengths at all borders of blocks, portions and trees.
fn lengths() -> Vec<usize> {
    let near = [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 960, 1023, 1024, 1025, 2047, 2048, 2049];
    let trees = (3..=40).flat_map(|portions| [portions * 1024 - 1, portions * 1024, portions * 1024 + 1]);
    near.into_iter().chain(trees).chain([65_536, 100_000, 262_143, 262_144, 262_145, 300_000]).collect()
}

fn random(numbers: &mut Seeded, len: usize) -> Vec<u8> {
    (0..len).map(|_| numbers.below(256) as u8).collect()
}

/// Compares the hashes of a device with those of the crate.
fn hashes_are_those_of_the_crate(hasher: &TextHash, texts: &[Vec<u8>]) {
    let found = hasher.hash(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!(found.len(), texts.len());
    for (text, found) in texts.iter().zip(found) {
        assert_eq!(found, Some(*blake3::hash(text).as_bytes()), "{} bytes", text.len());
    }
}

fn texts_of_all_lengths(gpu: &Gpu) {
    let numbers = &mut Seeded::new(1);
    let hasher = gpu.text_hash();
    let mut texts: Vec<Vec<u8>> = lengths().into_iter().map(|len| random(numbers, len)).collect();
    hashes_are_those_of_the_crate(&hasher, &texts);
    // In other memory, in another order, and each alone.
    texts.reverse();
    hashes_are_those_of_the_crate(&hasher, &texts);
    for text in &texts {
        hashes_are_those_of_the_crate(&hasher, std::slice::from_ref(text));
    }
    assert_eq!(hasher.failure(), None);
}

#[test]
fn texts_of_all_lengths_have_their_hashes() {
    texts_of_all_lengths(&gpu(64));
}

#[test]
fn texts_are_hashed_on_a_device_whose_memory_the_host_does_not_map() {
    texts_of_all_lengths(over_copies());
}

#[test]
fn random_texts_have_their_hashes_from_several_threads() {
    let gpu = gpu(64);
    let hasher = &gpu.text_hash();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let numbers = &mut Seeded::new(100 + thread);
                for _ in 0..25 {
                    let len = |numbers: &mut Seeded| match numbers.below(12) {
                        0 => numbers.below(300 << 10),
                        1..4 => numbers.below(20) << 10,
                        _ => numbers.length(5000),
                    };
                    let texts: Vec<Vec<u8>> = (0..numbers.below(80) + 1)
                        .map(|_| {
                            let len = len(numbers) as usize;
                            random(numbers, len)
                        })
                        .collect();
                    hashes_are_those_of_the_crate(hasher, &texts);
                }
            });
        }
    });
    assert_eq!(hasher.failure(), None);
}

#[test]
fn every_kernel_gives_the_bits_of_its_twin() {
    for workgroup in [32, 64, 256] {
        let gpu = gpu(workgroup);
        let hasher = gpu.text_hash();
        let numbers = &mut Seeded::new(u64::from(workgroup));
        let texts: Vec<Vec<u8>> = lengths().into_iter().map(|len| random(numbers, len)).collect();
        let some: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        // The portions alone, and then level by level.
        for levels in 0..=9 {
            let ([by_kernels, by_twins], _) = hasher.values(&some, levels).expect("the device");
            assert_eq!(by_kernels, by_twins, "{levels} levels");
        }
    }
}

#[test]
fn a_text_of_more_than_a_dispatch_is_left_to_the_caller() {
    let gpu = gpu(64);
    let hasher = gpu.text_hash();
    let numbers = &mut Seeded::new(7);
    let part = random(numbers, 1 << 20);
    let largest = part.repeat(16);
    let large = [&largest[..], b"x"].concat();
    let hash = |text: &[u8]| Some(*blake3::hash(text).as_bytes());
    let texts: Vec<&[u8]> = vec![b"first", &large, b"", &part, &largest, &largest[1..], b"last"];
    let expected =
        [hash(b"first"), None, hash(b""), hash(&part), hash(&largest), hash(&largest[1..]), hash(b"last")];
    assert!(hasher.hash(&texts) == expected);
    assert_eq!(hasher.hash(&[]), []);
    assert_eq!(hasher.failure(), None);
}

/// Bytes loaded for a byte of text, at most.
const LOADED: f64 = 1.1;

#[test]
fn a_byte_of_text_is_loaded_about_once() {
    let gpu = gpu(64);
    let hasher = gpu.text_hash();
    let loaded = |texts: &[&[u8]]| {
        let ([by_kernels, by_twins], loaded) = hasher.values(texts, usize::MAX).expect("the device");
        assert!(by_kernels == by_twins);
        loaded as f64 / texts.iter().map(|text| text.len()).sum::<usize>() as f64
    };
    let files = sources();
    let of_files = loaded(&files.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let large = loaded(&[&vec![b'x'; 4 << 20]]);
    println!("\n| texts | bytes loaded for a byte of text |\n|---|---|");
    println!("| {} sources | {of_files:.3} |\n| 4 MiB | {large:.3} |", files.len());
    assert!(of_files <= LOADED && large <= LOADED, "{of_files}, {large}");
    // Files of a few bytes load a block and its list, and that is seen.
    assert!(loaded(&[&b"a few bytes"[..]; 100]) > LOADED);
}

#[test]
fn a_wrong_kernel_does_not_pass_its_probe() {
    const BLAKE3: &str = "blake3.glsl";
    const TEXT: &str = "hash_text.comp";
    const JOIN: &str = "hash_join.comp";
    let mut passed = Vec::new();
    for (kernel, file, right, wrong) in [
        // Rotations, additions, rows and columns of the state.
        ("hash_text", BLAKE3, "turned(d ^ a, 16u)", "turned(d ^ a, 15u)"),
        ("hash_text", BLAKE3, "turned(b ^ c, 12u)", "turned(b ^ c, 13u)"),
        ("hash_join", BLAKE3, "turned(d ^ a, 8u)", "turned(d ^ a, 9u)"),
        ("hash_join", BLAKE3, "turned(b ^ c, 7u)", "turned(b ^ c, 6u)"),
        ("hash_text", BLAKE3, "x >> by | x << (32u - by)", "x << by | x >> (32u - by)"),
        ("hash_text", BLAKE3, "a += b + y;", "a += b + x;"),
        ("hash_text", BLAKE3, "b = b.yzwx;", "b = b.zwxy;"),
        ("hash_join", BLAKE3, "d = d.yzwx;", "d = d.wzyx;"),
        ("hash_text", BLAKE3, "0xa54ff53au", "0xa54ff53bu"),
        ("hash_join", BLAKE3, "0x5be0cd19u", "0x5be0cd18u"),
        ("hash_join", BLAKE3, "low = a ^ c;", "low = a;"),
        // The order of the words of a block.
        ("hash_text", BLAKE3, "uvec4(k.z, l.z, k.w, m.z)", "uvec4(k.z, l.z, m.z, k.w)"),
        ("hash_join", BLAKE3, "uvec4(m.y, n.z, n.w, m.x)", "uvec4(m.y, n.w, n.z, m.x)"),
        ("hash_text", BLAKE3, "uvec4(k.xz, l.xz), uvec4(k.yw, l.yw)", "uvec4(k.yw, l.xz), uvec4(k.xz, l.yw)"),
        (
            "hash_text",
            TEXT,
            "uvec4 n = portion_word(i, first + 3u);",
            "uvec4 n = portion_word(i, first + 2u);",
        ),
        ("hash_text", TEXT, "woven(i, word, PORTION_WORDS)", "woven(i, word, STRIP_WORDS)"),
        // The number of a portion, lengths and flags of blocks.
        ("hash_text", BLAKE3, "uvec4(number, 0u, bytes, flags)", "uvec4(number & 0xffffu, 0u, bytes, flags)"),
        ("hash_text", TEXT, "portion.number, in_block", "0u, in_block"),
        ("hash_text", TEXT, "in_block = bytes - block * BLOCK_BYTES;", "in_block = BLOCK_BYTES;"),
        ("hash_text", TEXT, "block == 0u ? CHUNK_START : 0u", "CHUNK_START"),
        ("hash_text", TEXT, "is_root ? CHUNK_END | ROOT : CHUNK_END", "CHUNK_END"),
        ("hash_text", TEXT, "flags |= is_root", "flags = is_root"),
        ("hash_text", TEXT, "portion.bytes & ~IS_ROOT", "portion.bytes & 0x3ffu"),
        ("hash_text", TEXT, "max(bytes, 1u) - 1u", "bytes"),
        ("hash_text", TEXT, "block <= last &&", "block < last &&"),
        ("hash_text", TEXT, "word[i * 2u + 1u] = high", "word[i * 2u + 1u] = low"),
        ("hash_text", TEXT, "i >= p.count", "i > p.count / 2u"),
        // The order of two values, their flags, the place of their value.
        ("hash_join", JOIN, "uvec4 k = values.word[left];", "uvec4 k = values.word[right];"),
        ("hash_join", JOIN, "uvec4 n = values.word[right + 1u];", "uvec4 n = values.word[left + 1u];"),
        ("hash_join", JOIN, "? PARENT | ROOT : PARENT", "? PARENT : PARENT"),
        ("hash_join", JOIN, "join.right >= IS_ROOT", "join.right > 0u"),
        ("hash_join", JOIN, "(join.right & ~IS_ROOT)", "(join.left + 1u)"),
        ("hash_join", JOIN, "0u, BLOCK_BYTES, flags", "1u, BLOCK_BYTES, flags"),
        ("hash_join", JOIN, "0u, BLOCK_BYTES, flags", "0u, 0u, flags"),
        ("hash_join", JOIN, "values.word[left + 1u] = high;", "values.word[right + 1u] = high;"),
        ("hash_join", JOIN, "i < p.count", "i < p.count / 2u"),
    ] {
        let code = faulty(kernel, file, right, wrong);
        let opened = planted(kernel, &code, Probes::Of(kernel));
        if !matches!(opened, Err(Error::Wrong { kernel: found, .. }) if found == kernel) {
            passed.push(wrong);
        }
    }
    assert_eq!(passed, [""; 0], "passes the probe");
}

//! Frames of planted versions.

use super::*;

/// Reads one block of each 256 KiB by one call, so that frames are what it fetches. Each block is right, or
/// an error. Returns the number of errors.
fn errors_of_frames(image: &Image, publication: &Publication) -> usize {
    let device = publication.device();
    let all = content(&image.open()).blocks;
    let mut last = u64::MAX;
    let some: Vec<(u64, Vec<u8>)> =
        all.into_iter().filter(|(at, _)| at >> 18 != std::mem::replace(&mut last, at >> 18)).collect();
    let mut buffers = vec![vec![0xee; 4096]; some.len()];
    let mut reads: Vec<Read<'_>> = some
        .iter()
        .zip(&mut buffers)
        .map(|((at, _), buffer)| Read { at: *at, buffer: IoBufMut::new(buffer) })
        .collect();
    let failures = device.read_many(&mut reads).err();
    drop(reads);
    let mut failed = 0;
    for (number, ((at, right), read)) in some.iter().zip(&buffers).enumerate() {
        let is_error = failures.as_ref().is_some_and(|failures| failures.of(number).is_some());
        assert!(is_error || read == right, "planted bytes at {at}");
        failed += usize::from(is_error);
    }
    failed
}

#[test]
fn lies_about_frames_are_errors_of_their_pieces() {
    let image = image_of_files();
    let bomb = zstd::bulk::compress(&vec![0; 8 << 20], 1).expect("it compresses");
    let lies: [(&str, Lie<'_>); 12] = [
        ("a frame that is longer than it is", &|frames| frames[0].stored += 1),
        ("two frames that lie otherwise in their piece", &|frames| {
            frames[0].stored += 1;
            frames[1].stored -= 1;
        }),
        ("a frame without bytes", &|frames| frames[0].set(&[])),
        ("a frame of more bytes than its blocks", &|frames| frames[0].set(&[7; (64 << 10) + 1])),
        ("a last frame of more bytes than its blocks", &|frames| {
            frames.last_mut().expect("a frame").set(&[7; (64 << 10) + 1]);
        }),
        ("a frame that decompresses to more than its blocks", &|frames| frames[0].set(&bomb)),
        ("a frame that decompresses to fewer", &|frames| {
            frames[0].set(&zstd::bulk::compress(&[0; 4096], 1).expect("it compresses"));
        }),
        ("a frame with another hash", &|frames| frames[0].hash.0[31] ^= 1),
        ("two frames that have changed places", &|frames| frames.swap(0, 1)),
        ("a frame with another content than its own", &|frames| frames[0].content.0[31] ^= 1),
        ("a frame with another content in its proof", &|frames| frames[0].wrong_proof = Some(3)),
        ("a frame with another neighbour", &|frames| frames[0].wrong_proof = Some(40)),
    ];
    let mut refused = 0;
    for (what, lie) in lies {
        let store = Arc::new(Memory::default());
        image.publish(&store).expect("published");
        forge_as(&store, Forgery { binds: true, version: None, lie: Some(lie) }, &|_, _| {});
        let publication = match open(&store) {
            Ok(publication) => publication,
            Err(error) => {
                // The page says that it cannot be.
                assert!(error.to_string().contains("has a frame of an impossible size"), "{what}: {error}");
                refused += 1;
                continue;
            }
        };
        assert!(errors_of_frames(&image, &publication) > 0, "{what}, by frames");
        assert!(errors(&image, &open(&store).expect("a publication")) > 0, "{what}, alone");
        assert!(found(&publication) > 0, "{what}");
    }
    assert_eq!(refused, 3, "no bytes, and too many");
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    forge_as(&store, Forgery { binds: true, version: None, lie: Some(&|_| {}) }, &|_, _| {});
    assert_eq!(errors_of_frames(&image, &open(&store).expect("a publication")), 0, "without a lie");
    assert_same(&image, &open(&store).expect("a publication"));
}

#[test]
fn frames_of_a_planted_version_are_errors_and_a_proof_cannot_vouch_for_itself() {
    let image = image_of_files();
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    // Frames with right hashes of other content; a publisher builds upon them.
    let planted = Forgery { binds: true, version: None, lie: Some(&|_| {}) };
    forge_as(&store, planted, &|_, raw| raw.iter_mut().for_each(|byte| *byte ^= 0x66));
    image.change(add_file);
    let report = image.publish(&store).expect("published");
    assert!(report.kept_pieces > 0, "it builds upon the planted version");
    assert!(errors_of_frames(&image, &by_hash(&store, report.version)) > 0);
    // One frame of other content, and a proof that says of it what is right.
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    let lie: Lie<'_> = &|frames| {
        let mut raw = frames[0].unpacked();
        raw[5] ^= 0x66;
        let honest = std::mem::replace(&mut frames[0], Frame::packed(&raw));
        frames[0].content = honest.content;
    };
    forge_as(&store, Forgery { binds: true, version: None, lie: Some(lie) }, &|_, _| {});
    assert!(errors_of_frames(&image, &open(&store).expect("a publication")) > 0);
}

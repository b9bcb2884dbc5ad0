//! Exported mirrors and device file tables beside another device that imports them: what a program reads
//! there by `include/lanefs_device.h`, and the files that it misses.

#[path = "../../tests/it/device_header/driver.rs"]
mod driver;

use crate::error::Error;
use crate::file_table::{BroughtFiles, DeviceFileTable, FileTableOptions};
use crate::gpu::Gpu;
use crate::kernels::context::{GpuOptions, Probes};
use crate::lookups::mirrored::{MirrorOptions, Mirrored};
use crate::mirror_export::MirrorExportOptions;
use crate::vulkan::{Buffer, Choice, Commands, Device, ExportedMemory, MemoryLocation, fail_call};
use driver::{Driver, Requests};
use lanefs::{Code, CreateOptions, Ino, Volume};
use std::sync::Arc;

fn open() -> Gpu {
    let options = GpuOptions { guards: true, probes: Probes::None, ..GpuOptions::default() };
    Gpu::open_with(&options).expect("a Vulkan device")
}

fn volume() -> Volume {
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    Volume::create_memory(&options).expect("volume")
}

/// Bytes of a file that its number gives.
fn content(number: u64) -> Vec<u8> {
    (0..500 + number * 37).map(|at| (at * 5 + number) as u8).collect()
}

/// Memory that another device has imported.
struct Imported {
    device: Arc<Device>,
    buffer: Buffer,
}

impl Imported {
    fn of(exported: ExportedMemory, len: u64) -> Imported {
        let device = Device::open(&Choice::Best, false, false).expect("a device of another instance");
        let buffer = Buffer::import(&device, exported, len).expect("imported");
        Imported { device, buffer }
    }

    /// Its bytes, after their owner has given them away.
    fn read(&self) -> Vec<u8> {
        let host = Buffer::alone(&self.device, self.buffer.len, MemoryLocation::Download).expect("memory");
        self.copy(&self.buffer, &host);
        host.bytes().expect("mapped")[..self.buffer.len as usize].to_vec()
    }

    /// Writes bytes, as a kernel does.
    fn write(&self, bytes: &[u8]) {
        let mut host = Buffer::alone(&self.device, self.buffer.len, MemoryLocation::Upload).expect("memory");
        host.bytes_mut().expect("mapped")[..bytes.len()].copy_from_slice(bytes);
        self.copy(&host, &self.buffer);
    }

    fn copy(&self, from: &Buffer, to: &Buffer) {
        let mut commands = Commands::of_copies(&self.device).expect("commands");
        let copied = commands.record(|recording| {
            recording.take_back(&self.buffer);
            recording.copy(from, to, &[(0, 0, self.buffer.len)]);
            recording.give_away(&self.buffer);
        });
        copied.and_then(|()| commands.submit()).and_then(|_| commands.wait()).expect("copied");
    }
}

/// Resolves a path by an exported mirror: its code and its inode number.
fn looked_up(mirror: &[u8], root: u64, path: &str) -> (Code, u64) {
    let mut requests = Requests::default();
    requests.lookup(root, path.as_bytes(), true);
    let [code, _, ino] = Driver::shared().ask(mirror, None, &requests).numbers();
    (Code::from_number(code as u8).expect("a code"), ino)
}

#[test]
fn an_exported_mirror_stays_at_its_generation_until_it_is_refreshed() {
    fail_call(None);
    let (gpu, volume) = (open(), volume());
    let first = volume.mkdir_all("/a/b", 0o755).expect("made").ino;
    let root = volume.root().0;
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    for caches in [false, true] {
        let options = MirrorExportOptions { caches, spare: 0 };
        let mut export = mirrored.export(&options).expect("exported");
        let imported = Imported::of(export.export_fd().expect("a descriptor"), export.bytes());
        assert!(imported.read() == export.read().expect("read back"));
        assert_eq!(export.generation(), mirrored.generation().expect("a generation"));
        assert_eq!(looked_up(&imported.read(), root, "/a/b"), (Code::Success, first.0));
        // The volume changes, and the memory does not.
        let path = format!("/a/{caches}");
        let made = volume.write_file(&path, b"new").expect("written").ino;
        assert!(export.generation() < mirrored.generation().expect("a generation"), "nothing new is seen");
        assert_eq!(looked_up(&imported.read(), root, &path).0, Code::NotFound);
        let new = export.refresh(&mirrored).expect("refreshed");
        assert_eq!((new, export.generation()), (mirrored.generation().expect("a generation"), new));
        assert_eq!(looked_up(&imported.read(), root, &path), (Code::Success, made.0));
        // The importer's bytes outlive the export.
        drop(export);
        assert_eq!(looked_up(&imported.read(), root, &path), (Code::Success, made.0));
    }
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn a_mirror_that_has_grown_past_its_memory_is_an_error_and_stays() {
    fail_call(None);
    let (gpu, volume) = (open(), volume());
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let mut export = mirrored.export(&MirrorExportOptions::default()).expect("exported");
    let mut large =
        mirrored.export(&MirrorExportOptions { spare: 8 << 20, caches: false }).expect("exported");
    let (bytes, capacity) = (large.bytes(), large.capacity());
    let imported = Imported::of(large.export_fd().expect("a descriptor"), capacity);
    for number in 0..9000 {
        volume.write_file(format!("/{number}"), b"").expect("written");
    }
    let (before, generation) = (export.read().expect("read back"), export.generation());
    match export.refresh(&mirrored) {
        Err(Error::Volume(error)) => assert_eq!(error.code(), Code::NoSpace),
        other => panic!("{other:?}"),
    }
    assert!(export.generation() == generation && export.read().expect("read back") == before);
    large.refresh(&mirrored).expect("there is room");
    assert_eq!(looked_up(&large.read().expect("read"), volume.root().0, "/8999").0, Code::Success);
    // The importer of the whole memory has what came later, too.
    assert!(large.bytes() > bytes && large.capacity() == capacity && capacity >= large.bytes());
    assert_eq!(looked_up(&imported.read(), volume.root().0, "/8999").0, Code::Success);
}

/// Reads files as a kernel of another program does, by the memory that it has imported. Returns the answers.
fn kernel(mirrored: &Mirrored<'_>, memory: &Imported, inodes: &[u64]) -> Vec<Result<Vec<u8>, Code>> {
    let mut export = mirrored.export(&MirrorExportOptions::default()).expect("exported");
    by_mirror(&export.read().expect("read"), memory, inodes)
}

/// The same with the bytes of an exported mirror.
fn by_mirror(mirror: &[u8], memory: &Imported, inodes: &[u64]) -> Vec<Result<Vec<u8>, Code>> {
    let mut requests = Requests::default();
    // Each twice: a miss is noted once.
    inodes.iter().chain(inodes).for_each(|ino| requests.read(*ino, 0, 5000));
    let mut table = memory.read();
    let mut answers = Driver::shared().ask(mirror, Some(&mut table), &requests);
    memory.write(&table);
    let mut all: Vec<_> = (0..2 * inodes.len())
        .map(|_| {
            let (count, bytes) = (answers.number() as i64, answers.text());
            let code = || Code::from_number(count.unsigned_abs() as u8).expect("a code");
            if count < 0 { Err(code()) } else { Ok(bytes) }
        })
        .collect();
    let again = all.split_off(inodes.len());
    assert_eq!(all, again);
    all
}

fn table(gpu: &Gpu, capacity: u64, options: FileTableOptions) -> (DeviceFileTable, Imported) {
    let table = gpu.file_table(capacity, &options).expect("memory");
    let imported = Imported::of(table.export_fd().expect("a descriptor"), table.bytes());
    (table, imported)
}

#[test]
fn files_that_a_kernel_misses_are_there_when_it_runs_again() {
    fail_call(None);
    let (gpu, volume) = (open(), volume());
    let write =
        |number: u64| volume.write_file(format!("/{number}"), content(number)).expect("written").ino.0;
    let inodes: Vec<u64> = (0..40).map(write).collect();
    let dir = volume.mkdir_all("/dir", 0o755).expect("made").ino.0;
    let small = volume.write_file("/small", b"in the inode").expect("written").ino.0;
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    // Parts that end inside of files and slots.
    let options = FileTableOptions { bounce: 1000, ..FileTableOptions::default() };
    let (mut table, memory) = table(&gpu, 1 << 20, FileTableOptions { files: 500, ..options });
    assert!(table.is_empty() && table.missed().expect("read").is_empty());
    let all: Vec<u64> = inodes.iter().copied().chain([dir, small, u64::MAX]).collect();
    let found = kernel(&mirrored, &memory, &all);
    assert!(found[..40].iter().all(|one| *one == Err(Code::NotResident)));
    assert_eq!(found[40..], [Err(Code::IsDirectory), Ok(b"in the inode".to_vec()), Err(Code::NotResident)]);
    let mut expected = inodes.clone();
    expected.sort_unstable();
    assert_eq!(table.missed().expect("read"), expected.into_iter().map(Ino).collect::<Vec<_>>());
    let brought = mirrored.bring_missed(&mut table).expect("brought");
    assert_eq!(brought, BroughtFiles { files: 40, ..BroughtFiles::default() });
    assert_eq!((table.len(), table.missed().expect("read")), (40, Vec::new()));
    let found = kernel(&mirrored, &memory, &all);
    assert!((0..40).all(|number| found[number as usize] == Ok(content(number))));
    // A file that changes has its old content until it is brought again.
    volume.write_file("/3", content(4)).expect("written");
    assert_eq!(kernel(&mirrored, &memory, &inodes)[3], Ok(content(3)));
    mirrored.bring_files(&[Ino(inodes[3])], &mut table).expect("brought");
    assert_eq!(kernel(&mirrored, &memory, &inodes)[3], Ok(content(4)));
    // Another file with the same number is not taken for it.
    volume.remove_file("/3").expect("removed");
    let other = (100..200).find(|number| write(*number) == inodes[3]);
    assert!(other.is_some(), "the number was not used again");
    assert_eq!(kernel(&mirrored, &memory, &inodes)[3], Err(Code::NotResident));
    assert_eq!(table.missed().expect("read"), [Ino(inodes[3])]);
    mirrored.bring_missed(&mut table).expect("brought");
    assert_eq!(kernel(&mirrored, &memory, &inodes)[3], Ok(content(other.expect("a number"))));
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn a_number_that_another_file_has_got_is_missed_and_brought() {
    fail_call(None);
    let (gpu, volume) = (open(), volume());
    // Beside others, so that its block stays a block of inodes.
    let keep = |number: u32| volume.write_file(format!("/keep{number}"), content(1)).expect("written").ino;
    let ino = (0..40).map(keep).collect::<Vec<_>>()[3];
    let mut names = 0_u32..;
    let mut write = |bytes: &[u8]| {
        let mut made = (0..300).map(|_| {
            let name = format!("/{}", names.next().expect("a name"));
            (volume.write_file(&name, bytes).expect("written").ino, name)
        });
        made.find(|(got, _)| *got == ino).expect("the number was not used again").1
    };
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let few = FileTableOptions { files: 32, misses: 8, ..FileTableOptions::default() };
    let (mut table, memory) = table(&gpu, 9000, few);
    let options = MirrorExportOptions { spare: 8 << 20, ..MirrorExportOptions::default() };
    let mut export = mirrored.export(&options).expect("exported");
    let old = export.read().expect("read");
    mirrored.bring_files(&[ino], &mut table).expect("brought");
    volume.remove_file("/keep3").expect("removed");
    let [nothing, file, failure] =
        [(0, 0), (1, 0), (0, 1)].map(|(files, failed)| BroughtFiles { files, failed, ..Default::default() });
    // One that is larger than the table, and then one that is not.
    for (bytes, found, brought) in
        [(vec![1; 9500], Err(Code::BufferTooSmall), failure), (content(2), Ok(content(2)), file)]
    {
        assert!(table.missed().expect("read").is_empty());
        let name = write(&bytes);
        export.refresh(&mirrored).expect("refreshed");
        let new = export.read().expect("read");
        assert_eq!(by_mirror(&new, &memory, &[ino.0]), [Err(Code::NotResident)]);
        assert_eq!(table.missed().expect("read"), [ino]);
        assert_eq!(mirrored.bring_missed(&mut table).expect("brought"), brought);
        assert_eq!(by_mirror(&new, &memory, &[ino.0]), std::slice::from_ref(&found));
        // A mirror that is older than the table brings nothing, and takes nothing away.
        assert_eq!(by_mirror(&old, &memory, &[ino.0]), [Err(Code::NotResident)]);
        assert_eq!(mirrored.bring_missed(&mut table).expect("brought"), nothing);
        assert_eq!(by_mirror(&new, &memory, &[ino.0]), [found]);
        volume.remove_file(&name).expect("removed");
    }
    // The generation of a file that has gone is unknown; the host sees that another one has the number.
    let gone = volume.getattr(ino).map(|_| ()).expect_err("it has gone").code();
    assert_eq!(mirrored.bring_files(&[ino], &mut table).expect("brought"), failure);
    assert_eq!(by_mirror(&export.read().expect("read"), &memory, &[ino.0]), [Err(gone)]);
    write(&content(3));
    export.refresh(&mirrored).expect("refreshed");
    let new = export.read().expect("read");
    assert_eq!(mirrored.bring_missed(&mut table).expect("brought"), nothing);
    assert_eq!(by_mirror(&new, &memory, &[ino.0]), [Err(Code::NotResident)]);
    assert_eq!(mirrored.bring_missed(&mut table).expect("brought"), file);
    assert_eq!(by_mirror(&new, &memory, &[ino.0]), [Ok(content(3))]);
}

#[test]
fn a_table_without_room_for_all_files_brings_them_in_rounds() {
    fail_call(None);
    let (gpu, volume) = (open(), volume());
    let write =
        |number: u64| volume.write_file(format!("/{number}"), content(number)).expect("written").ino.0;
    let inodes: Vec<u64> = (0..40).map(write).collect();
    let large = volume.write_file("/large", vec![1; 9000]).expect("written").ino.0;
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    for options in [
        FileTableOptions { files: 7, ..FileTableOptions::default() },
        FileTableOptions { misses: 3, ..FileTableOptions::default() },
        FileTableOptions { files: 32, ..FileTableOptions::default() },
    ] {
        let (mut table, memory) = table(&gpu, 8000, options);
        let mut left: Vec<u64> = inodes.iter().copied().chain([large]).collect();
        let (mut done, mut rounds) = (0, 0);
        while !left.is_empty() {
            let found = kernel(&mirrored, &memory, &left);
            for (ino, found) in left.clone().into_iter().zip(found) {
                let number = inodes.iter().position(|one| *one == ino);
                match found {
                    Err(Code::NotResident) => continue,
                    Err(Code::BufferTooSmall) => assert_eq!(ino, large),
                    found => assert_eq!(found, Ok(content(number.expect("a file") as u64))),
                }
                left.retain(|one| *one != ino);
                done += 1;
            }
            let brought = mirrored.bring_missed(&mut table).expect("brought");
            assert!(table.len() <= options.files.max(1) as usize, "{brought:?}");
            rounds += 1;
            assert!(rounds < 60, "no end: {left:?}");
        }
        assert_eq!(done, 41);
        assert!(rounds > 3, "all had room");
    }
}

#[test]
fn no_bytes_that_a_kernel_leaves_lead_the_host_or_another_kernel_astray() {
    fail_call(None);
    let (gpu, volume) = (open(), volume());
    let ino = volume.write_file("/file", content(3)).expect("written").ino.0;
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let (mut table, memory) = table(&gpu, 9000, FileTableOptions { files: 32, misses: 8, bounce: 777 });
    let mut export = mirrored.export(&MirrorExportOptions::default()).expect("exported");
    let mirror = export.read().expect("read");
    let mut requests = Requests::default();
    (ino..ino + 40).for_each(|ino| requests.read(ino, 7, 500));
    let mut numbers = 1_u64;
    for case in 0..40 {
        let mut bytes = memory.read();
        for place in 0..=case {
            numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = 16 + (numbers >> 20) as usize % (bytes.len() / 2) / 8 * 8;
            let value = [numbers, u64::MAX, ino, 9000][(place % 4) as usize];
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let mut left = bytes.clone();
        let done = Driver::shared().output(&mirror, Some(&mut left), 1, &requests);
        assert!(done.status.success(), "case {case}: {}", String::from_utf8_lossy(&done.stderr));
        memory.write(&left);
        let _ = table.missed().expect("read");
        mirrored.bring_missed(&mut table).expect("brought");
        mirrored.bring_files(&[Ino(ino)], &mut table).expect("brought");
        assert_eq!(kernel(&mirrored, &memory, &[ino]), [Ok(content(3))], "case {case}");
    }
}

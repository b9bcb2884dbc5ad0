//! Probes one after the other in the same memory.

use crate::gpu::Gpu;
use crate::kernels::context::{GpuOptions, Probes};
use crate::vulkan::{Commands, Direction, Recording, Staged};

#[test]
fn a_probe_finds_no_answers_of_an_earlier_one() {
    const BYTES: u64 = 4096;
    for own_memory in [false, true] {
        let options = GpuOptions { own_memory, probes: Probes::None, ..GpuOptions::default() };
        let gpu = Gpu::open_with(&options).expect("a Vulkan device");
        let device = &gpu.context.device;
        let read = |clear: bool| {
            let output = Staged::new(device, BYTES, Direction::ToHost).expect("memory");
            let mut commands = Commands::new(device).expect("commands");
            let record = |recording: &Recording<'_>| {
                if clear {
                    output.clear(recording, BYTES);
                }
                output.transfer(recording, BYTES);
            };
            commands.record(record).expect("recorded");
            commands.submit().expect("submitted");
            commands.wait().expect("done");
            output.bytes()[..BYTES as usize].to_vec()
        };
        assert_eq!(read(true), [0; BYTES as usize]);
        // The memory is taken again, and keeps what it held, but not for a probe.
        assert_eq!(read(false), [0; BYTES as usize]);
        let probed = device.probed();
        assert_eq!(read(false), [0xa5; BYTES as usize]);
        drop(probed);
        assert_eq!(read(true), [0; BYTES as usize]);
    }
}

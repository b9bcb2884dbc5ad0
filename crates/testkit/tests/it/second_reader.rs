//! The second reader on whole volumes. (Sequences of operations, crash states and planted faults meet it in
//! their own tests.)

use lanefs::{Access, MemoryDevice, Volume};
use lanefs_testkit::mutate::bases;
use lanefs_testkit::naive::Naive;

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

#[test]
fn bytes_that_are_no_volume_are_refused() {
    for len in [0, 4096, 8 << 20] {
        let bytes = vec![0x5a; len];
        assert!(Naive::open(&&bytes[..]).is_err(), "{len} bytes");
    }
}

//! The compiled shaders that are kept with the sources are what the sources give.
//!
//! `UPDATE_SHADERS=1` writes the generated header and the compiled shaders again.

use lanefs_gpu::KERNELS;
use lanefs_gpu::testing::generated_glsl;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders")
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_SHADERS").is_some()
}

/// Compares a file with what it should be, or writes it.
fn keep(path: &Path, wanted: &[u8]) {
    if is_update() {
        std::fs::write(path, wanted).expect("written");
    }
    let there = std::fs::read(path).unwrap_or_default();
    let what = "is not what its sources give: UPDATE_SHADERS=1 cargo test -p lanefs-gpu --test it shaders::";
    assert!(there == wanted, "{} {what}", path.display());
}

#[test]
fn compiled_shaders_are_what_the_sources_give() {
    for (file, text) in generated_glsl() {
        keep(&folder().join(file), text.as_bytes());
    }
    let out = tempfile::tempdir().expect("a directory for temporary files");
    for kernel in KERNELS.iter().map(|kernel| kernel.name) {
        let spirv = out.path().join(kernel);
        let done = Command::new("glslc")
            .args(["--target-env=vulkan1.2", "-O0", "-o"])
            .arg(&spirv)
            .arg(folder().join(kernel).with_extension("comp"))
            .output()
            .expect("glslc is needed (Debian: apt install glslc; make setup does it)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        keep(&folder().join(kernel).with_extension("spv"), &std::fs::read(&spirv).expect("compiled"));
    }
}

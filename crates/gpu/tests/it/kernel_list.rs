//! The list of kernels: an entry without a twin or a probe does not compile, and the documentation has a
//! row for each.
//!
//! `UPDATE_SHADERS=1` writes the table of the documentation again.

use lanefs_gpu::KERNELS;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const LIST: &str = include_str!("../../src/kernel_list.rs");

/// Modules with an empty function for each path, as twins and probes have them.
fn stubs(module: &str, paths: impl Iterator<Item = &'static str>) -> String {
    let mut paths: Vec<&str> = paths.collect();
    paths.sort_unstable();
    paths.dedup();
    let mut text = format!("pub mod {module} {{\n");
    let mut last = "";
    for path in paths {
        let (name, function) = path.split_once("::").expect("a module and a function");
        if name != last {
            text += if last.is_empty() { "" } else { "}\n" };
            let _ = writeln!(text, "pub mod {name} {{");
        }
        last = name;
        let _ = writeln!(text, "pub fn {function}() {{}}");
    }
    text + "}\n}\n"
}

/// Compiles a list of kernels with these twins and probes; the compiler's complaint, if it has one.
fn compile(list: &str, twins: &str, probes: &str) -> Option<String> {
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    file("kernel_list.rs", list);
    let lib = "#![allow(dead_code)]\n#[macro_use]\nmod kernel_list;\nwith_kernels!(check_kernels);\n";
    file("lib.rs", &format!("{lib}{twins}{probes}"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(rustc)
        .current_dir(dir.path())
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "lib.rs"])
        .output()
        .expect("rustc");
    (!done.status.success()).then(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_kernel_without_a_twin_or_a_probe_does_not_compile() {
    let kernels = stubs("kernels", KERNELS.iter().map(|kernel| kernel.twin));
    let twins = format!("mod twin {{\n{kernels}}}\n");
    let probes = stubs("probe", KERNELS.iter().map(|kernel| kernel.probe));
    assert_eq!(compile(LIST, &twins, &probes), None);
    let without = |part: &str| {
        assert_eq!(LIST.matches(part).count(), 1, "{part}");
        compile(&LIST.replace(part, ""), &twins, &probes).expect("an entry that lacks a part compiles")
    };
    assert!(without("twin: warm::warm, ").contains("no rules expected"));
    assert!(without(", probe: paths::warm").contains("expected"));
    for kernel in KERNELS {
        let (_, function) = kernel.twin.split_once("::").expect("a path");
        let fewer = twins.replace(&format!("pub fn {function}() {{}}"), "");
        let said = compile(LIST, &fewer, &probes).expect("a twin that does not exist is accepted");
        assert!(said.contains("unresolved import") && said.contains(function), "{said}");
        let (_, function) = kernel.probe.split_once("::").expect("a path");
        let fewer = probes.replace(&format!("pub fn {function}() {{}}"), "");
        let said = compile(LIST, &twins, &fewer).expect("a probe that does not exist is accepted");
        assert!(said.contains("unresolved import") && said.contains(function), "{said}");
    }
}

#[test]
fn the_documentation_has_every_kernel() {
    const BEGIN: &str = "<!-- kernels -->\n";
    const END: &str = "<!-- end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gpu.md");
    let document = std::fs::read_to_string(&path).expect("docs/gpu.md");
    let (before, rest) = document.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where the table ends");
    let mut table = String::from("| kernel | one | does | probe |\n|---|---|---|---|\n");
    for kernel in KERNELS {
        let (name, each) = (kernel.name, kernel.each);
        let (summary, probe) = (kernel.summary.trim_end_matches('.'), kernel.probe);
        let _ = writeln!(table, "| `{name}` | {each} | {summary} | `{probe}` |");
    }
    let wanted = [before, BEGIN, &table, END, after].concat();
    if std::env::var_os("UPDATE_SHADERS").is_some() {
        std::fs::write(&path, &wanted).expect("written");
    }
    let there = std::fs::read_to_string(&path).expect("docs/gpu.md");
    assert!(
        there == wanted,
        "docs/gpu.md: UPDATE_SHADERS=1 cargo test -p lanefs-gpu --test it kernel_list::"
    );
}

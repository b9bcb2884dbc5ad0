//! The C library of `rpmalloc-sys` has a `pthread_create` as well, which is not exported: the first one
//! counts.

fn main() {
    println!("cargo:rustc-link-arg-cdylib=-Wl,--allow-multiple-definition");
    println!("cargo:rerun-if-changed=build.rs");
}

//! Real programs, with and without the library: output and exit status must be the same, and counters show
//! that the library was used.

mod support;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{Outcome, folder, preload, run};

/// Runs a command twice, each time in a folder of its own that `prepare` fills, and compares; returns the
/// outcome with the library.
fn same(name: &str, prepare: impl Fn(&Path), command: impl Fn(&Path) -> Command) -> Outcome {
    let (plain_folder, folder) = (folder(&format!("{name}/plain")), folder(&format!("{name}/preloaded")));
    prepare(&plain_folder);
    prepare(&folder);
    let plain = run(command(&plain_folder).current_dir(&plain_folder));
    let with = run(preload(command(&folder).current_dir(&folder)));
    assert!(
        !plain.used_library() && !is_bound(&plain_folder),
        "{name}: the library was there when it was not asked for"
    );
    assert!(
        with.used_library() || is_bound(&folder),
        "{name}: the library was not used: {}",
        with.describe()
    );
    let is_same = plain.output.status == with.output.status
        && plain.output.stdout == with.output.stdout
        && plain.errors == with.errors;
    assert!(is_same, "{name}: without the library: {}\n\nwith it: {}", plain.describe(), with.describe());
    let (plain_files, files) = (contents(&plain_folder), contents(&folder));
    for (one, other) in plain_files.iter().zip(&files) {
        assert!(one == other, "{name}: {} and {} are not the same", one.0, other.0);
    }
    assert_eq!(plain_files.len(), files.len(), "{name}");
    with
}

/// Returns true if the dynamic linker wrote into [`BINDINGS`] that a program's `malloc` is the library's. For
/// programs that end without exit handlers, as `sort` does: they print no counters.
fn is_bound(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join(BINDINGS)) else { return false };
    entries.flatten().any(|entry| {
        let text = fs::read_to_string(entry.path()).expect("a file of the linker");
        text.lines().any(|line| line.contains("liblanefs_alloc.so [0]: normal symbol `malloc'"))
    })
}

const BINDINGS: &str = ".bindings";

/// Runs a shell script; the library is preloaded into every program that it starts.
fn same_script(name: &str, script: &str) -> Outcome {
    let with = same(name, |_| (), |_| shell(script));
    assert!(with.output.status.success(), "{name}: {}", with.describe());
    with
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]);
    command
}

/// Returns names and bytes of the files that a program created, without folders that begin with a dot (they
/// contain times).
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_file() {
            all.push((name, fs::read(&path).expect("a file")));
        } else if !name.starts_with('.') && name != "target" {
            all.extend(contents(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        }
    }
    all.sort();
    all
}

/// Returns lines in random order, the same each time.
fn lines(count: usize) -> String {
    let (mut text, mut random) = (String::new(), 1u64);
    for _ in 0..count {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = writeln!(text, "{:x} {}", random >> 30, "word ".repeat((random >> 60) as usize));
    }
    text
}

#[test]
fn git_keeps_a_repository() {
    same_script(
        "git",
        "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000'
         git init -q -b main .
         git config user.name Nobody; git config user.email nobody@example.org; git config gc.autoDetach false
         for commit in 1 2 3 4 5; do
             for file in $(seq 100); do seq $((file * commit)) > file-$((file % (30 * commit))); done
             git add -A
             git commit -q -m \"commit $commit\"
             git tag v$commit
         done
         git log --stat --format='%H %an %s' | cksum
         git branch side HEAD~3
         git checkout -q side
         echo different > file-new; git add -A; git commit -q -m side
         git merge -q -m merged main
         git gc -q --prune=now
         git repack -q -a -d -f --threads=4 --depth=20 --window=20
         git fsck --strict --no-progress
         git log --graph --oneline -p | cksum
         # git adds a prefix to what the other side of a clone prints on standard error, so that side prints no counters.
         LANEFS_ALLOC_STATS= git clone -q --no-local . .copy
         git -C .copy rev-parse HEAD
         git -C .copy grep -c 77 | sort | head -20",
    );
}

#[test]
fn python_keeps_lists_dicts_and_threads() {
    let script = "
import collections, gc, json, random, re, threading, zlib
random.seed(7)
results = {}
def work(number):
    chance = random.Random(number)
    kept, texts = [], {}
    for step in range(30000):
        kept.append([chance.random()] * chance.randrange(20))
        texts[str(chance.randrange(5000))] = 'x' * chance.randrange(300)
        if len(kept) > 700:
            del kept[::2]
    results[number] = zlib.crc32(repr((sorted(texts.items()), len(kept))).encode())
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(results.items()))
tree = {str(i): [i, {'a': list(range(i % 50))}] for i in range(5000)}
print(zlib.crc32(json.dumps(tree).encode()), json.loads(json.dumps(tree)) == tree)
print(len(re.findall(r'(a|b)+c', 'ababac' * 10000)), len(zlib.compress(bytes(1 << 20))))
numbers = [random.random() for _ in range(200000)]
print(sum(a <= b for a, b in zip(sorted(numbers), sorted(numbers)[1:])))
chain = collections.deque(maxlen=1000)
for i in range(100000):
    chain.append(bytearray(i % 3000))
print(sum(map(len, chain)), 10 ** 5000 % 10 ** 50 == 0, gc.collect() >= 0)
";
    for allocator in ["malloc", "pymalloc"] {
        let with = same(
            &format!("python-{allocator}"),
            |_| (),
            |_| {
                let mut command = Command::new("python3");
                command.args(["-S", "-c", script]).env("PYTHONMALLOC", allocator);
                command
            },
        );
        assert!(with.output.status.success(), "{}", with.describe());
    }
}

/// Runs Python's own tests. Some distributions have no package `test`; the script above runs in any case.
#[test]
fn python_passes_of_its_own_tests_what_it_passes_without_the_library() {
    // The output contains times. The exit status and the failed tests must be the same.
    let verdict = |outcome: &Outcome| {
        let all = format!("{}{}", outcome.text(), outcome.errors);
        let mut failed: Vec<String> = all
            .lines()
            .filter(|line| line.starts_with("FAIL:") || line.starts_with("ERROR:"))
            .map(String::from)
            .collect();
        failed.sort();
        (outcome.output.status.code(), failed)
    };
    // Tests compare the standard error of Python programs that they start, so the library prints no counters
    // there.
    let script = "
import os, runpy
os.environ.pop('LANEFS_ALLOC_STATS', None)
runpy.run_module('test', run_name='__main__', alter_sys=True)
";
    for test in ["test_list", "test_dict", "test_threading"] {
        let folder = folder(test);
        let command = || {
            let mut command = Command::new("python3");
            command.args(["-c", script, test]).env("PYTHONMALLOC", "malloc").current_dir(&folder);
            command
        };
        let plain = run(&mut command());
        if plain.errors.contains("No module named") {
            eprintln!("{test}: this Python has no tests: {}", plain.errors);
        }
        let with = run(preload(&mut command()));
        assert!(with.used_library() && !plain.used_library(), "{test}: {}", with.describe());
        assert_eq!(
            verdict(&plain),
            verdict(&with),
            "{test}: {}\n\nwith: {}",
            plain.describe(),
            with.describe()
        );
    }
}

#[test]
fn sqlite_keeps_a_hundred_thousand_rows() {
    let script = "
pragma journal_mode = wal;
create table things(id integer primary key, name text, number real, bytes blob);
with recursive count(i) as (select 1 union all select i + 1 from count where i < 100000)
    insert into things select i, 'thing ' || (i * 7919 % 100003), i * 0.5, zeroblob(i % 90) from count;
create index by_name on things(name);
create index by_number on things(number desc, name);
update things set name = name || ' again' where id % 3 = 0;
delete from things where id % 7 = 0;
select count(*), sum(length(name)), max(name), total(number) from things;
select a.name, b.id from things a join things b on a.name = b.name || ' again' order by 1 limit 10;
select count(distinct substr(name, 1, 9)) from (select name from things order by number);
pragma integrity_check;
vacuum;
pragma integrity_check;
.dump
";
    let prepare = |folder: &Path| fs::write(folder.join("script.sql"), script).expect("a script");
    let with = same("sqlite", prepare, |_| {
        shell("sqlite3 -bail rows.db < script.sql > dump.sql; cksum rows.db dump.sql")
    });
    assert!(with.output.status.success(), "{}", with.describe());
    let dump = fs::read_to_string(folder_of("sqlite").join("dump.sql")).expect("the dump");
    assert_eq!(dump.lines().filter(|line| *line == "ok").count(), 2);
}

/// Returns the folder in which the program ran with the library.
fn folder_of(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).join("preloaded")
}

/// Returns a C program with many functions, tables and types.
fn long_source() -> String {
    let mut source =
        String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n");
    for i in 0..250 {
        let _ = write!(
            source,
            "struct s{i} {{ int a[{n}]; double d; struct s{i} *next; }};
             static const char *const names{i}[] = {{\"a{i}\", \"b{i}\", \"c{i}\"}};
             int f{i}(struct s{i} *s, int n) {{
                 int sum = {i};
                 for (int i = 0; i < n; i++) {{
                     for (int j = 0; j < {n}; j++) sum += s[i].a[j] * (j ^ {i});
                     switch (sum & 7) {{ case 0: sum ^= 3; break; case 1: sum += (int)s[i].d; break; case 5: sum -= (int)strlen(names{i}[i % 3]); }}
                     if (s[i].next) sum += f{i}(s[i].next, n - 1);
                 }}
                 return sum;
             }}\n",
            n = i % 17 + 1
        );
    }
    source
}

#[test]
fn gcc_compiles_to_the_same_bytes() {
    let source = long_source();
    let prepare = |folder: &Path| fs::write(folder.join("long.c"), &source).expect("a source");
    let with = same("gcc", prepare, |_| shell("gcc -O2 -c long.c -o long.o; cksum long.o"));
    assert!(with.output.status.success(), "{}", with.describe());
}

#[test]
fn cargo_builds_a_program_that_runs() {
    let mut source = String::from("use std::collections::{BTreeMap, HashMap};\nuse std::fmt::Debug;\n");
    for i in 0..60 {
        let _ = write!(
            source,
            "#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
             struct S{i} {{ a: Vec<u{}>, b: Option<String>, c: BTreeMap<String, (u8, i64)> }}
             fn f{i}<T: Debug + Clone>(all: &[T]) -> String {{
                 let mut map = HashMap::new();
                 all.iter().enumerate().for_each(|(i, one)| {{ map.insert(i, format!(\"{{one:?}}\")); }});
                 let mut all: Vec<_> = map.into_iter().collect();
                 all.sort();
                 format!(\"{{}} {{:?}} {{:?}}\", all.len(), all.first(), S{i}::default())
             }}\n",
            [8, 16, 32, 64][i % 4]
        );
    }
    let _ = writeln!(source, "fn main() {{");
    for i in 0..60 {
        let _ = writeln!(source, "println!(\"{{}}\", f{i}(&[{i}, 1, 2]));");
    }
    let _ = writeln!(source, "}}");
    let prepare = |folder: &Path| {
        let manifest = "[package]\nname = \"small\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[workspace]\n[profile.dev]\nopt-level = 1\n";
        fs::create_dir(folder.join("src")).expect("a folder");
        fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
        fs::write(folder.join("src/main.rs"), &source).expect("a source");
    };
    let with = same("cargo", prepare, |folder| {
        let mut command = shell("\"$CARGO\" build --quiet --offline && target/debug/small");
        command.env("CARGO", env!("CARGO")).env("CARGO_TARGET_DIR", folder.join("target"));
        command
    });
    assert!(with.output.status.success(), "{}", with.describe());
    assert_eq!(with.text().lines().count(), 60, "{}", with.describe());
}

#[test]
fn sort_sorts_in_threads() {
    let text = lines(200_000);
    let prepare = |folder: &Path| {
        fs::write(folder.join("lines"), &text).expect("a file");
        fs::create_dir(folder.join(BINDINGS)).expect("a folder");
    };
    let with = same("sort", prepare, |_| {
        shell(
            "LD_DEBUG=bindings LD_DEBUG_OUTPUT=.bindings/of sort --parallel=4 -S 64M -o sorted lines
             sort -c sorted; sort --parallel=4 -r -k 2 lines | cksum",
        )
    });
    assert!(with.output.status.success(), "{}", with.describe());
    let mut expected: Vec<&str> = text.lines().collect();
    expected.sort_unstable();
    let sorted = fs::read_to_string(folder_of("sort").join("sorted")).expect("the result");
    assert!(sorted.lines().eq(expected), "the order differs from the standard library's");
}

//! A project in C, as a build finds it: sources that include headers of one another, a library for each
//! directory, a program that uses all of them, and a `Makefile`. All of it follows from its size, and so does
//! the number that the program prints.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Sources of a directory, which become one library.
const UNITS_PER_PART: usize = 30;
/// Headers of other sources that a source includes.
const NEIGHBOURS: usize = 5;
/// Functions of a source beside the one that others call.
const FUNCTIONS: usize = 6;
/// Entries of the table of such a function.
const TABLE: u32 = 8;

/// The program that a build makes, below the project's directory.
pub(super) const PROGRAM: &str = "build/program";

/// A project with so many sources beside that of `main`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CProject {
    units: usize,
}

impl CProject {
    pub(super) fn new(units: usize) -> Self {
        CProject { units }
    }

    /// Number of all sources, each of which is compiled once.
    pub(super) fn sources(self) -> usize {
        self.units + 1
    }

    /// Writes all files into a directory.
    pub(super) fn write(self, to: &Path) -> Result<()> {
        for (path, text) in self.files() {
            let path = to.join(path);
            let dir = path.parent().unwrap_or(to);
            fs::create_dir_all(dir).map_err(Error::host(dir.display().to_string()))?;
            fs::write(&path, text).map_err(Error::host(path.display().to_string()))?;
        }
        Ok(())
    }

    /// Paths and texts.
    fn files(self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::from([
            ("Makefile".into(), self.makefile()),
            ("main.c".into(), self.main()),
            ("include/common.h".into(), COMMON.into()),
        ]);
        for unit in 0..self.units {
            files.insert(format!("include/unit-{unit:03}.h"), header(unit));
            files.insert(format!("{}/unit-{unit:03}.c", part(unit)), self.source(unit));
        }
        files
    }

    /// The sources whose headers a source includes, with its own.
    fn neighbours(self, unit: usize) -> Vec<usize> {
        let mut neighbours: Vec<usize> =
            (0..=NEIGHBOURS).map(|number| (unit + number * 13) % self.units.max(1)).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }

    fn source(self, unit: usize) -> String {
        let mut text = String::new();
        for neighbour in self.neighbours(unit) {
            let _ = writeln!(text, "#include \"unit-{neighbour:03}.h\"");
        }
        for function in 0..FUNCTIONS {
            let step = factor(unit, function);
            let _ = write!(
                text,
                "\n/* Stirs a number by a table of multiples. */\n\
                 static unsigned stir_{function}(unsigned x)\n{{\n    unsigned table[{TABLE}];\n\
                 \x20   for (unsigned i = 0; i < COUNT(table); i++)\n        table[i] = x * (i + {step}u);\n\
                 \x20   for (unsigned i = 0; i < COUNT(table); i++)\n\
                 \x20       x = turned(x) ^ table[i];\n    return x;\n}}\n"
            );
        }
        let _ = write!(text, "\nunsigned unit_{unit:03}(unsigned x)\n{{\n");
        for neighbour in self.neighbours(unit) {
            let _ = writeln!(text, "    x = step_{neighbour:03}(x);");
        }
        (0..FUNCTIONS).for_each(|function| {
            let _ = writeln!(text, "    x = stir_{function}(x);");
        });
        text + "    return x;\n}\n"
    }

    fn main(self) -> String {
        let mut text = String::from("#include \"common.h\"\n");
        for unit in 0..self.units {
            let _ = writeln!(text, "#include \"unit-{unit:03}.h\"");
        }
        text += "\nint main(void)\n{\n    unsigned x = 1;\n";
        for unit in 0..self.units {
            let _ = writeln!(text, "    x = unit_{unit:03}(x);");
        }
        text + "    printf(\"%u\\n\", x);\n    return 0;\n}\n"
    }

    /// The number that the program prints.
    pub(super) fn answer(self) -> u32 {
        (0..self.units).fold(1, |x, unit| {
            let x = self.neighbours(unit).into_iter().fold(x, step);
            (0..FUNCTIONS).fold(x, |x, function| stir(x, factor(unit, function)))
        })
    }

    fn makefile(self) -> String {
        let parts: BTreeMap<String, Vec<usize>> = (0..self.units).fold(BTreeMap::new(), |mut parts, unit| {
            parts.entry(part(unit)).or_default().push(unit);
            parts
        });
        let libraries: Vec<String> = parts.keys().map(|part| format!("build/{part}.a")).collect();
        let mut text = format!(
            "CC = gcc\nCFLAGS = -std=c11 -O2 -Wall -Werror -pipe -MMD -Iinclude\n\nall: {PROGRAM}\n\n\
             {PROGRAM}: build/main.o {}\n\t$(CC) -o $@ $^\n",
            libraries.join(" ")
        );
        for (part, units) in parts {
            let objects: Vec<_> = units.iter().map(|unit| format!("build/{part}/unit-{unit:03}.o")).collect();
            let _ = write!(text, "\nbuild/{part}.a: {}\n\trm -f $@\n\tar rc $@ $^\n", objects.join(" "));
        }
        text + "\nbuild/%.o: %.c\n\t@mkdir -p $(@D)\n\t$(CC) $(CFLAGS) -c -o $@ $<\n\n\
                -include $(wildcard build/*.d build/*/*.d)\n\n.PHONY: all\n"
    }
}

const COMMON: &str = "#ifndef COMMON_H\n#define COMMON_H\n\n#include <stdint.h>\n#include <stdio.h>\n\
                      #include <stdlib.h>\n#include <string.h>\n\n\
                      #define COUNT(array) (sizeof(array) / sizeof((array)[0]))\n\n\
                      static inline unsigned turned(unsigned x)\n{\n    return x << 3 | x >> 29;\n}\n\n\
                      #endif\n";

fn header(unit: usize) -> String {
    format!(
        "#ifndef UNIT_{unit:03}_H\n#define UNIT_{unit:03}_H\n\n#include \"common.h\"\n\n\
         /* Takes a number one step further. */\n\
         static inline unsigned step_{unit:03}(unsigned x)\n{{\n    return x * 9u + {unit}u;\n}}\n\n\
         unsigned unit_{unit:03}(unsigned x);\n\n#endif\n"
    )
}

/// The directory of a source.
fn part(unit: usize) -> String {
    format!("part-{:02}", unit / UNITS_PER_PART)
}

/// The first factor of a function's table.
fn factor(unit: usize, function: usize) -> u32 {
    (unit * FUNCTIONS + function) as u32 + 3
}

/// `step_UNIT` of the headers.
fn step(x: u32, unit: usize) -> u32 {
    x.wrapping_mul(9).wrapping_add(unit as u32)
}

/// `stir_FUNCTION` of the sources.
fn stir(x: u32, factor: u32) -> u32 {
    (0..TABLE).fold(x, |stirred, i| stirred.rotate_left(3) ^ x.wrapping_mul(i + factor))
}

//! The tree of modules of one crate, and the module that a path means.

use super::source::{Import, PathUse, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Steps of following re-exports; each path of working code takes fewer.
const MAX_STEPS: usize = 32;

/// Index of a module in its [`Tree`].
pub(crate) type Id = usize;
/// The crate itself.
pub(crate) const ROOT: Id = 0;

/// A module of a crate.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) parent: Option<Id>,
    pub(crate) children: BTreeMap<String, Id>,
    pub(crate) file: PathBuf,
    pub(crate) source: Source,
}

/// All modules of a crate; the first one is the crate itself.
pub(crate) struct Tree {
    pub(crate) modules: Vec<Module>,
}

impl Tree {
    /// Reads a crate from its root file; `read` returns the text of a file.
    ///
    /// # Errors
    /// A module without a file, and text that is not Rust.
    pub(crate) fn load(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Self, String> {
        let mut tree = Tree { modules: Vec::new() };
        let folder = root.parent().unwrap_or(Path::new("")).to_path_buf();
        let source = parse(root, read)?;
        tree.add("crate".into(), None, root.into(), &folder, source, read)?;
        Ok(tree)
    }

    /// Adds a module whose submodules lie in `folder`.
    fn add(
        &mut self,
        name: String,
        parent: Option<Id>,
        file: PathBuf,
        folder: &Path,
        source: Source,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<Id, String> {
        let id = self.modules.len();
        let (declared, inline) = (source.declared.clone(), source.inline.clone());
        self.modules.push(Module { name, parent, children: BTreeMap::new(), file: file.clone(), source });
        for (name, path) in declared {
            let beside = file.parent().unwrap_or(Path::new(""));
            let files = match path {
                Some(path) => vec![beside.join(path)],
                None => vec![folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")],
            };
            let child_file = files.iter().find(|file| read(file).is_some());
            let child_file = child_file.ok_or(format!("{}: no file of module {name}", file.display()))?;
            let source = parse(child_file, read)?;
            let child =
                self.add(name.clone(), Some(id), child_file.clone(), &folder.join(&name), source, read)?;
            self.modules[id].children.insert(name, child);
        }
        for (name, source) in inline {
            let child = self.add(name.clone(), Some(id), file.clone(), &folder.join(&name), source, read)?;
            self.modules[id].children.insert(name, child);
        }
        Ok(id)
    }

    /// The module in which the path of a module ends; `None`: another crate. Names that a module imports are
    /// followed to the module that defines them.
    pub(crate) fn resolve(&self, from: Id, segments: &[String]) -> Option<Id> {
        self.follow(from, segments, MAX_STEPS)
    }

    fn follow(&self, from: Id, segments: &[String], steps: usize) -> Option<Id> {
        let (first, rest) = segments.split_first()?;
        let start = match first.as_str() {
            "crate" => ROOT,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => self.member(from, name, steps.checked_sub(1)?)?,
        };
        let mut at = start;
        for segment in rest {
            at = match segment.as_str() {
                "super" => self.modules[at].parent?,
                "self" => at,
                // An item of this module; after it stand its own associated items.
                name => match self.member(at, name, steps.checked_sub(1)?) {
                    Some(module) => module,
                    None => break,
                },
            };
        }
        Some(at)
    }

    /// The module that defines the name `name` of a module: that of a submodule, or of what it imports.
    fn member(&self, module: Id, name: &str, steps: usize) -> Option<Id> {
        let here = &self.modules[module];
        if let Some(child) = here.children.get(name) {
            return Some(*child);
        }
        let is_not_itself = |import: &&Import| import.path.segments.first().is_none_or(|first| first != name);
        let named = here.source.imports.iter().filter(|import| import.bound.as_deref() == Some(name));
        if let Some(module) =
            named.filter(is_not_itself).find_map(|import| self.follow_import(module, import, steps))
        {
            return Some(module);
        }
        if here.source.items.contains(name) || here.source.macros.contains(name) {
            return None;
        }
        let globs = here.source.imports.iter().filter(|import| import.bound.is_none());
        globs.filter(is_not_itself).find_map(|import| {
            let target = self.follow_import(module, import, steps)?;
            let source = &self.modules[target].source;
            match source.items.contains(name) || source.macros.contains(name) {
                true => Some(target),
                false => self.member(target, name, steps.checked_sub(1)?),
            }
        })
    }

    fn follow_import(&self, module: Id, import: &Import, steps: usize) -> Option<Id> {
        self.follow(module, &import.path.segments, steps.checked_sub(1)?)
    }

    /// Everything that the code of a module refers to in its crate: the module meant, and the path that names
    /// it.
    pub(crate) fn references(&self, id: Id) -> Vec<(Id, PathUse)> {
        let source = &self.modules[id].source;
        let imports = source.imports.iter().map(|import| &import.path);
        let paths = imports.chain(&source.paths);
        let mut all: Vec<_> =
            paths.filter_map(|path| Some((self.resolve(id, &path.segments)?, path.clone()))).collect();
        let defines = |name: &str| self.modules.iter().position(|module| module.source.macros.contains(name));
        let calls = source.calls.iter().filter(|call| !source.macros.contains(&call.segments[0]));
        all.extend(calls.filter_map(|call| {
            let called = PathUse { segments: vec![format!("{}!", call.segments[0])], line: call.line };
            Some((defines(&call.segments[0])?, called))
        }));
        all
    }

    /// The modules from the crate down to this one.
    pub(crate) fn ancestors(&self, id: Id) -> Vec<Id> {
        let mut all: Vec<Id> = std::iter::successors(Some(id), |&id| self.modules[id].parent).collect();
        all.reverse();
        all
    }

    /// The path of a module from its crate on.
    pub(crate) fn name(&self, id: Id) -> String {
        let names: Vec<&str> = self.ancestors(id).iter().map(|&id| self.modules[id].name.as_str()).collect();
        names.join("::")
    }
}

fn parse(file: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Source, String> {
    let text = read(file).ok_or(format!("{}: cannot be read", file.display()))?;
    Source::parse(&text).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 7] = [
        ("lib.rs", "mod a; mod b; pub mod c; pub use b::Beta; pub use c::*; use a::inner as renamed;"),
        ("a/mod.rs", "pub mod inner; mod other; pub use other::Other; pub struct Alpha;"),
        ("a/inner.rs", "pub fn f() {}"),
        ("a/other.rs", "pub struct Other; macro_rules! text { () => {} }"),
        ("b.rs", "pub struct Beta; mod deep;"),
        ("b/deep.rs", "use super::Beta; fn f() { text!(); crate::Gamma }"),
        ("c.rs", "pub struct Gamma; pub use super::a::Other as Omega;"),
    ];

    fn tree() -> Tree {
        Tree::load(Path::new("lib.rs"), &|path| {
            FILES.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string())
        })
        .expect("all modules have files")
    }

    #[test]
    fn a_path_leads_to_the_module_that_defines_the_name() {
        let tree = tree();
        let id = |name: &str| (0..tree.modules.len()).find(|&id| tree.name(id) == name).expect("a module");
        let meant = |from: &str, path: &str| {
            let segments: Vec<String> = path.split("::").map(Into::into).collect();
            tree.resolve(id(from), &segments).map(|id| tree.name(id))
        };
        for (from, path, module) in [
            ("crate::b", "crate::a::inner::f", "crate::a::inner"),
            ("crate::b", "crate::a::Alpha", "crate::a"),
            ("crate::b", "crate::Beta::new", "crate::b"),
            ("crate::b::deep", "super::Beta", "crate::b"),
            ("crate::b::deep", "super::super::renamed::f", "crate::a::inner"),
            ("crate::b", "crate::a::Other", "crate::a::other"),
            ("crate::b", "crate::Gamma", "crate::c"),
            ("crate::b", "crate::Omega", "crate::a::other"),
            ("crate", "a::inner", "crate::a::inner"),
        ] {
            assert_eq!(meant(from, path).as_deref(), Some(module), "{path} in {from}");
        }
        assert_eq!(meant("crate::b", "std::fmt"), None);
    }

    #[test]
    fn references_are_imports_paths_and_macros() {
        let tree = tree();
        let deep = (0..tree.modules.len()).find(|&id| tree.name(id) == "crate::b::deep").expect("a module");
        let names: Vec<String> = tree.references(deep).into_iter().map(|(id, _)| tree.name(id)).collect();
        assert_eq!(names, ["crate::b", "crate::c", "crate::a::other"]);
    }
}

//! Files of a member that can't be read one without the other.
//!
//! A file imports another where a path in it leads to an item of the other: `use`, or a path in code or in a macro that begins with
//! `crate`, `self`, `super`, a module of the file or what the file has imported. A path is followed to where the item stands:
//! through every `use` and every `*` on its way, so that `mod.rs` imports nothing for those who take a child's item from it. No import
//! is a `mod`, and a `use` that makes an item public which the file doesn't use itself. What no file is seen to declare, as
//! what macros make, counts as an item of the module that the path names.
//!
//! Files that import each other, directly or by others, are a circle.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    File, Item, ItemUse, Macro, UseTree, Visibility,
    visit::{self, Visit},
};

use crate::source;

/// A few files about one thing may know each other.
const MOST: usize = 4;

/// What a name leads to within a module.
#[derive(Debug, Clone)]
enum Named {
    /// An item that is declared here.
    Here,
    /// A `use`: the whole path.
    Elsewhere(Vec<String>),
}

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    names: BTreeMap<String, Named>,
    /// Paths before `*`.
    globs: Vec<Vec<String>>,
    /// What is written in it, each without the imports that only pass something on.
    paths: Vec<Vec<String>>,
}

/// The modules of a member by their paths.
#[derive(Debug, Default)]
struct Member(BTreeMap<Vec<String>, Module>);

impl Member {
    /// The members of the workspace: the folders in `src` that have a `lib.rs`, and the program itself.
    fn all() -> BTreeMap<String, Self> {
        let sources: BTreeMap<PathBuf, File> =
            source::all().into_iter().map(|source| (source.path, source.file)).collect();
        let mut members = BTreeMap::new();
        for path in sources.keys().filter(|path| path.ends_with("lib.rs")) {
            let folder = path.parent().unwrap();
            let mut member = Self::default();
            member.add(Vec::new(), path, folder, &sources[path].items, &sources);
            members.insert(folder.file_name().unwrap().to_str().unwrap().to_owned(), member);
        }
        members
    }

    fn add(
        &mut self,
        at: Vec<String>,
        file: &Path,
        folder: &Path,
        items: &[Item],
        sources: &BTreeMap<PathBuf, File>,
    ) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let mut written = Written::default();
        for item in items {
            if let Some(name) = declared(item) {
                module.names.insert(name, Named::Here);
            }
            match item {
                Item::Use(_) => {}
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let path = [at.as_slice(), std::slice::from_ref(&name)].concat();
                    if let Some((_, items)) = &inner.content {
                        self.add(path, file, &folder.join(&name), items, sources);
                        continue;
                    }
                    let beside = folder.join(format!("{name}.rs"));
                    let within = folder.join(&name).join("mod.rs");
                    let found = [beside, within].into_iter().find(|path| sources.contains_key(path));
                    let found = found.unwrap_or_else(|| panic!("{}: no file for {name}", file.display()));
                    self.add(path, &found, &folder.join(&name), &sources[&found].items, sources);
                }
                other => written.visit_item(other),
            }
        }
        for item in items {
            let Item::Use(item) = item else { continue };
            let mut all = Vec::new();
            spread(&item.tree, &mut Vec::new(), &mut all);
            for (path, name) in all {
                match name {
                    None => module.globs.push(path),
                    Some(name) => {
                        if !passes_on(item) || written.words.contains(&name) {
                            module.paths.push(path.clone());
                        }
                        module.names.insert(name, Named::Elsewhere(path));
                    }
                }
            }
        }
        // A `use` within a function names things for the whole file, which is near enough.
        for (path, name) in written.uses {
            module.paths.push(path.clone());
            if let Some(name) = name {
                module.names.entry(name).or_insert(Named::Elsewhere(path));
            }
        }
        module.paths.extend(written.paths);
        self.0.insert(at, module);
    }

    /// The module in which the item stands to which a path leads from a module; none, if that is no item of this member, or
    /// the path names a module itself.
    fn home(&self, from: &[String], path: &[String], depth: usize) -> Option<Vec<String>> {
        match self.follow(from, path, depth)? {
            Found::Item(module) => Some(module),
            Found::Module(_) => None,
        }
    }

    fn follow(&self, from: &[String], path: &[String], depth: usize) -> Option<Found> {
        if depth > 16 {
            return None;
        }
        let mut at = from.to_vec();
        let mut rest = path;
        let mut is_anchored = false;
        while let [first, more @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => _ = at.pop(),
                _ => break,
            }
            (rest, is_anchored) = (more, true);
        }
        while let [name, more @ ..] = rest {
            let inner = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.0.contains_key(&inner) {
                (at, rest, is_anchored) = (inner, more, true);
                continue;
            }
            return match self.named(&at, name, depth) {
                Some(Found::Module(module)) if more.is_empty() => Some(Found::Module(module)),
                Some(Found::Module(module)) => {
                    self.follow(&module, &[&["self".to_owned()], more].concat(), depth + 1)
                }
                Some(item) => Some(item),
                None if is_anchored => Some(Found::Item(at)),
                None => None,
            };
        }
        Some(Found::Module(at))
    }

    /// What a name is within a module that has no module of that name.
    fn named(&self, at: &[String], name: &str, depth: usize) -> Option<Found> {
        let module = self.0.get(at)?;
        match module.names.get(name) {
            Some(Named::Here) => Some(Found::Item(at.to_vec())),
            // What comes from elsewhere altogether is nobody's.
            Some(Named::Elsewhere(path)) if path.len() == 1 && path[0] == name => None,
            Some(Named::Elsewhere(path)) => {
                Some(self.follow(at, path, depth + 1).unwrap_or(Found::Item(Vec::new())))
            }
            None => module.globs.iter().find_map(|glob| {
                let Some(Found::Module(other)) = self.follow(at, glob, depth + 1) else { return None };
                let is_there = self.0.contains_key(&[other.as_slice(), &[name.to_owned()]].concat());
                if is_there {
                    return Some(Found::Module([other.as_slice(), &[name.to_owned()]].concat()));
                }
                (other != at && depth < 16).then(|| self.named(&other, name, depth + 1))?
            }),
        }
    }

    /// Which files import which, and by which paths.
    fn imports(&self) -> BTreeMap<&Path, BTreeMap<&Path, BTreeSet<String>>> {
        let mut imports: BTreeMap<&Path, BTreeMap<&Path, BTreeSet<String>>> = BTreeMap::new();
        for (at, module) in &self.0 {
            let of_file = imports.entry(&module.file).or_default();
            for path in &module.paths {
                let Some(home) = self.home(at, path, 0) else { continue };
                let file = self.0[&home].file.as_path();
                // The root holds nothing but modules; what leads there leads out.
                if file != module.file && !home.is_empty() {
                    of_file.entry(file).or_default().insert(path.join("::"));
                }
            }
        }
        imports
    }
}

enum Found {
    Module(Vec<String>),
    /// An item of this module.
    Item(Vec<String>),
}

/// The name that an item declares within its module.
fn declared(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// Whether a `use` makes public what it names.
fn passes_on(item: &ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

/// Every path of a `use`, with the name that it gets; without one before `*`.
fn spread(tree: &UseTree, before: &mut Vec<String>, all: &mut Vec<(Vec<String>, Option<String>)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            spread(&path.tree, before, all);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| spread(tree, before, all)),
        UseTree::Glob(_) => all.push((before.clone(), None)),
        UseTree::Name(name) if name.ident == "self" => all.push((before.clone(), before.last().cloned())),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            all.push(([before.as_slice(), std::slice::from_ref(&name)].concat(), Some(name)));
        }
        UseTree::Rename(name) => {
            let mut path = before.clone();
            if name.ident != "self" {
                path.push(name.ident.to_string());
            }
            all.push((path, Some(name.rename.to_string())));
        }
    }
}

/// What is written in items.
#[derive(Default)]
struct Written {
    paths: Vec<Vec<String>>,
    words: BTreeSet<String>,
    /// Paths of each `use` within a function, with the names that they get.
    uses: Vec<(Vec<String>, Option<String>)>,
}

impl Visit<'_> for Written {
    fn visit_ident(&mut self, ident: &proc_macro2::Ident) {
        self.words.insert(ident.to_string());
    }

    fn visit_path(&mut self, path: &syn::Path) {
        visit::visit_path(self, path);
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        spread(&item.tree, &mut Vec::new(), &mut self.uses);
    }

    fn visit_macro(&mut self, called: &Macro) {
        visit::visit_macro(self, called);
        self.take(called.tokens.clone());
    }
}

impl Written {
    /// Words with `::` in between are a path.
    fn take(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(word) => {
                    self.words.insert(word.to_string());
                    if colons != 2 {
                        self.keep(&mut path);
                    }
                    path.push(word.to_string());
                }
                TokenTree::Group(group) => {
                    self.keep(&mut path);
                    self.take(group.stream());
                }
                _ => self.keep(&mut path),
            }
            colons = 0;
        }
        self.keep(&mut path);
    }

    fn keep(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.paths.push(path);
        }
    }
}

/// The files of each circle, for each the imports within it.
fn circles(member: &Member) -> Vec<BTreeMap<String, BTreeMap<String, BTreeSet<String>>>> {
    let imports = member.imports();
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = imports
        .keys()
        .map(|file| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![*file]);
            while let Some(file) = next.pop() {
                let unseen = imports[file].keys().filter(|other| seen.insert(**other));
                next.extend(unseen);
            }
            (*file, seen)
        })
        .collect();
    let mut circles = Vec::new();
    let mut done: BTreeSet<&Path> = BTreeSet::new();
    for file in reached.keys() {
        let circle: BTreeSet<&Path> =
            reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect();
        if circle.is_empty() || !done.insert(file) {
            continue;
        }
        done.extend(&circle);
        let shown = |path: &Path| path.display().to_string();
        let within = circle.iter().map(|file| {
            let inner = imports[file].iter().filter(|(other, _)| circle.contains(*other));
            (shown(file), inner.map(|(other, paths)| (shown(other), paths.clone())).collect())
        });
        circles.push(within.collect());
    }
    circles
}

#[test]
fn no_more_than_a_few_files_are_a_circle() {
    let mut faults = String::new();
    for (name, member) in Member::all() {
        for circle in circles(&member).into_iter().filter(|circle| circle.len() > MOST) {
            faults += &format!("\n{} files of {name} import each other:\n", circle.len());
            for (file, imports) in &circle {
                for (other, paths) in imports {
                    faults += &format!(
                        "  {file} → {other}: {}\n",
                        paths.iter().cloned().collect::<Vec<_>>().join(", ")
                    );
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

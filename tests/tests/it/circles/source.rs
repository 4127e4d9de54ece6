//! Modules of a crate, and the paths that each of them names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Item, ItemUse, Lit, Macro, Meta, UseTree};

/// Names from the crate's root; the root itself is empty.
pub type ModulePath = Vec<String>;

/// One module.
#[derive(Default)]
pub struct Module {
    /// Names of modules in it.
    pub children: Vec<String>,
    /// Names that it takes from elsewhere, and the paths that they stand for.
    pub imported: BTreeMap<String, Vec<String>>,
    /// Paths of which it takes every name.
    pub globs: Vec<Vec<String>>,
    /// Paths that its code names.
    pub named: Vec<Vec<String>>,
}

/// Modules of one crate, without those of tests.
pub struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the crate whose root file is `root`.
    pub fn parse(root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let folder = root.parent().unwrap().to_owned();
        parse_file(root, &folder, &mut Vec::new(), &mut modules);
        Self(modules)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, path: &[String]) -> Option<&Module> {
        self.0.get(path)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ModulePath, &Module)> {
        self.0.iter()
    }
}

/// Reads a module's file; the files of its children are in `folder`.
fn parse_file(
    file: &Path,
    folder: &Path,
    path: &mut ModulePath,
    modules: &mut BTreeMap<ModulePath, Module>,
) {
    let text = fs::read_to_string(file).unwrap();
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    parse_items(&parsed.items, folder, path, modules);
}

fn parse_items(
    items: &[Item],
    folder: &Path,
    path: &mut ModulePath,
    modules: &mut BTreeMap<ModulePath, Module>,
) {
    let mut collected = Collector::default();
    for item in items {
        if let Item::Mod(module) = item {
            if is_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            collected.module.children.push(name.clone());
            let inside = folder.join(&name);
            path.push(name);
            if let Some((_, items)) = &module.content {
                parse_items(items, &inside, path, modules);
            } else {
                let given = given_path(&module.attrs).map(|given| folder.join(given));
                let file = given.unwrap_or_else(|| file_of(folder, path.last().unwrap()));
                parse_file(&file, &inside, path, modules);
            }
            path.pop();
        } else {
            collected.visit_item(item);
        }
    }
    modules.insert(path.clone(), collected.module);
}

/// Path of a module's file that an attribute gives, from the folder of a crate's root.
fn given_path(attributes: &[Attribute]) -> Option<String> {
    let mut given = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("path"));
    let Meta::NameValue(value) = &given.next()?.meta else {
        return None;
    };
    match &value.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() {
        flat
    } else {
        folder.join(name).join("mod.rs")
    }
}

/// Returns true if an item is compiled for tests alone.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// Collects the paths of a module's items.
#[derive(Default)]
struct Collector {
    module: Module,
}

impl Collector {
    fn import(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(one) => {
                prefix.push(one.ident.to_string());
                self.import(&one.tree, prefix);
                prefix.pop();
            }
            UseTree::Name(name) => self.imported(prefix, &name.ident.to_string(), None),
            UseTree::Rename(name) => {
                self.imported(
                    prefix,
                    &name.ident.to_string(),
                    Some(name.rename.to_string()),
                );
            }
            UseTree::Glob(_) => {
                self.module.globs.push(prefix.clone());
                self.module.named.push(prefix.clone());
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix);
                }
            }
        }
    }

    fn imported(&mut self, prefix: &[String], name: &str, renamed: Option<String>) {
        let mut full = prefix.to_vec();
        if name != "self" {
            full.push(name.to_owned());
        }
        let Some(last) = full.last().cloned() else {
            return;
        };
        self.module.named.push(full.clone());
        self.module.imported.insert(renamed.unwrap_or(last), full);
    }

    /// Paths among the arguments of a macro, which the parser leaves as they are.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.named(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Group(group) => {
                    self.named(&mut path);
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.named(&mut path);
                    colons = 0;
                }
            }
        }
        self.named(&mut path);
    }

    fn named(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.module.named.push(path.clone());
        }
        path.clear();
    }
}

impl Visit<'_> for Collector {
    fn visit_item(&mut self, item: &Item) {
        let attributes = match item {
            Item::Fn(one) => &one.attrs,
            Item::Impl(one) => &one.attrs,
            Item::Use(one) => &one.attrs,
            Item::Struct(one) => &one.attrs,
            Item::Static(one) => &one.attrs,
            Item::Const(one) => &one.attrs,
            Item::Mod(one) => &one.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.module.named.push(names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, one: &Macro) {
        self.tokens(one.tokens.clone());
        visit::visit_macro(self, one);
    }
}

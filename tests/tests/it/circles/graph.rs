//! Arrows between modules of one folder, and the circles that they close.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::circles::source::{ModulePath, Modules};

/// Modules of one folder of which each needs each other, over others of them or not.
pub struct Circle {
    /// The module that they are parts of.
    parent: ModulePath,
    /// Their names, in order.
    members: BTreeSet<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parent.is_empty() {
            f.write_str("crate:")?;
        } else {
            write!(f, "{}:", self.parent.join("::"))?;
        }
        for member in &self.members {
            write!(f, " {member}")?;
        }
        Ok(())
    }
}

/// Arrows among the modules of one folder.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Finds the circles of a crate, in the order of their names.
pub fn circles(modules: &Modules) -> Vec<Circle> {
    let mut circles: Vec<Circle> = folders(modules)
        .into_iter()
        .flat_map(|(parent, arrows)| {
            components(&arrows).into_iter().map(move |members| Circle {
                parent: parent.clone(),
                members,
            })
        })
        .collect();
    circles.sort_by_key(ToString::to_string);
    circles
}

/// Arrows between the parts of each folder's module.
fn folders(modules: &Modules) -> BTreeMap<ModulePath, Arrows> {
    let mut folders: BTreeMap<ModulePath, Arrows> = BTreeMap::new();
    for (from, module) in modules.iter() {
        for named in &module.named {
            let Some(to) = definition(modules, from, named, 0) else {
                continue;
            };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                folders
                    .entry(from[..common].to_vec())
                    .or_default()
                    .entry(a.clone())
                    .or_default()
                    .insert(b.clone());
            }
        }
    }
    folders
}

/// The module that defines the item at `path`, as the code of the module `from` names it. None if it is of another crate.
fn definition(
    modules: &Modules,
    from: &[String],
    path: &[String],
    depth: usize,
) -> Option<ModulePath> {
    // Imports may lead to each other without end, through globs.
    if depth > 8 {
        return None;
    }
    let mut at: ModulePath = from.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|entry| entry == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        first => {
            let module = modules.get(from)?;
            let here = module.children.iter().any(|child| child == first);
            let imported = module.imported.get(first);
            match imported {
                _ if here => {}
                // A crate may be imported by its own name.
                Some(full) if full.as_slice() != path => {
                    let mut full = full.clone();
                    full.extend_from_slice(&rest[1..]);
                    return definition(modules, from, &full, depth + 1);
                }
                _ => return None,
            }
        }
    }
    while let Some(name) = rest.first() {
        let module = modules.get(&at)?;
        if module.children.contains(name) {
            at.push(name.clone());
            rest = &rest[1..];
            continue;
        }
        if let Some(full) = module.imported.get(name) {
            let mut full = full.clone();
            full.extend_from_slice(&rest[1..]);
            return definition(modules, &at, &full, depth + 1).or(Some(at));
        }
        break;
    }
    Some(at)
}

/// Finds the strongly connected components with more than one member.
fn components(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = arrows
        .keys()
        .map(|from| {
            let mut seen = BTreeSet::new();
            let mut open = vec![from];
            while let Some(one) = open.pop() {
                for next in arrows.get(one).into_iter().flatten() {
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
            (from, seen)
        })
        .collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for (from, seen) in &reach {
        if groups.iter().any(|entry| entry.contains(*from)) {
            continue;
        }
        let members: BTreeSet<String> = seen
            .iter()
            .filter(|to| reach.get(**to).is_some_and(|back| back.contains(*from)))
            .map(|to| (*to).clone())
            .collect();
        if members.len() > 1 {
            groups.push(members);
        }
    }
    groups
}

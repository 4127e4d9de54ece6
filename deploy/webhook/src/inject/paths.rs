//! Paths in a container, compared as the container runtime will see them.

/// The parts of a path, without empty ones and dots.
pub(super) fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts
}

/// Position of one path relative to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Same,
    Below,
    Above,
    Apart,
}

/// Returns the position of `path` relative to `from`.
pub(super) fn relation(path: &str, from: &str) -> Relation {
    let (path, from) = (parts(path), parts(from));
    match (path.starts_with(&from), from.starts_with(&path)) {
        (true, true) => Relation::Same,
        (true, false) => Relation::Below,
        (false, true) => Relation::Above,
        (false, false) => Relation::Apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_part_by_part() {
        let from = "/run/tetris/store";
        for (path, expected) in [
            ("/run/tetris/store", Relation::Same),
            ("/run//tetris/./store/", Relation::Same),
            ("run/tetris/x/../store", Relation::Same),
            ("/run/tetris/store/a", Relation::Below),
            ("/run/tetris/stores", Relation::Apart),
            ("/run/tetris", Relation::Above),
            ("/", Relation::Above),
            ("/../..", Relation::Above),
            ("/data", Relation::Apart),
        ] {
            assert_eq!(relation(path, from), expected, "{path}");
        }
    }
}
